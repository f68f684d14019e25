package admin

import (
	"context"
	"slices"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/typo"
	"sluice/internal/operate/steering"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// UpstreamTarget is the argument of upstream.drain and upstream.enable. Without Upstream it means all models of the
// provider, without Key, the last four of a key, all of its keys, and without Replica, host and port of one of its servers,
// all of these.
type UpstreamTarget struct {
	Actor    string    `json:"actor"`
	Provider string    `json:"provider"`
	Upstream string    `json:"upstream,omitempty"`
	Key      string    `json:"key,omitempty"`
	Replica  string    `json:"replica,omitempty"`
	Until    time.Time `json:"until,omitzero"`
	Reason   string    `json:"reason,omitempty"`
}

// ModelMove is the argument of models.move and models.move-back. The move takes effect at From; zero: at once.
type ModelMove struct {
	Actor  string    `json:"actor"`
	Model  string    `json:"model"`
	Plan   string    `json:"plan,omitempty"`
	From   time.Time `json:"from,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// NewMaintenance is the argument of maintenance.start. Without models it concerns all.
type NewMaintenance struct {
	Actor  string    `json:"actor"`
	Models []string  `json:"models,omitempty"`
	Text   string    `json:"text,omitempty"`
	From   time.Time `json:"from,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// NewAnnouncement is the argument of announcement.post. Tone is "info", "warn" or "bad"; empty: "info".
type NewAnnouncement struct {
	Actor string    `json:"actor"`
	Text  string    `json:"text"`
	Tone  string    `json:"tone,omitempty"`
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// EndedOrder is the argument of maintenance.end and announcement.end.
type EndedOrder struct {
	Actor  string `json:"actor"`
	ID     string `json:"id"`
	Reason string `json:"reason,omitempty"`
}

// upstreamList lists the targets of this server. There are none if no server is running.
func (b *Backend) upstreamList(ctx context.Context, in Cursor) (List[routing.TargetHealth], error) {
	return part(b.Status(ctx).Targets, in, func(t routing.TargetHealth) string { return targetCursor(&t) }), nil
}

// targetCursor is the cursor of a list of targets.
func targetCursor(t *routing.TargetHealth) string {
	return t.Provider + "/" + t.Upstream + " " + t.Key + " " + t.Replica
}

// orders returns the operation that lists the orders of a kind, oldest first, also those about targets that this server
// does not have.
func orders(kind steering.Kind) func(*Backend, context.Context, Cursor) (List[steering.Order], error) {
	return func(b *Backend, _ context.Context, in Cursor) (List[steering.Order], error) {
		return part(b.Helm.Orders(kind), in, func(o steering.Order) string { return o.ID }), nil
	}
}

// endOrder returns the operation that ends an order of a kind.
func endOrder(kind steering.Kind) func(*Backend, context.Context, EndedOrder) (steering.Order, error) {
	return func(b *Backend, ctx context.Context, in EndedOrder) (steering.Order, error) {
		return b.Helm.End(ctx, kind, in.ID, in.Actor, in.Reason)
	}
}

// upstreamDrain keeps new calls away from a target. It must be one that serves a model: a typing mistake would
// otherwise look like success.
func (b *Backend) upstreamDrain(ctx context.Context, in UpstreamTarget) (steering.Order, error) {
	if !slices.ContainsFunc(b.Catalog().Models(), func(m *catalog.Model) bool {
		return slices.ContainsFunc(m.Places(), func(t catalog.Target) bool {
			return t.Provider == in.Provider && (in.Upstream == "" || t.Upstream == in.Upstream)
		})
	}) {
		return steering.Order{}, noTarget(in)
	}
	if targets := b.Status(ctx).Targets; in.Replica != "" && len(targets) > 0 && !slices.ContainsFunc(targets, func(t routing.TargetHealth) bool {
		return t.Provider == in.Provider && t.Replica == in.Replica
	}) {
		return steering.Order{}, fault.New(fault.NotFound, "%q has no replica %q; \"sluice upstream list\" shows what there is", excerpt.Of(in.Provider, 200), excerpt.Of(in.Replica, 200)).At("replica")
	}
	return b.Helm.Give(ctx, steering.Order{Kind: steering.Drain, Target: in.target(), Until: in.Until, Actor: in.Actor, Reason: in.Reason})
}

// noTarget is the fault for a target that serves no model.
func noTarget(in UpstreamTarget) error {
	return fault.New(fault.NotFound, "no model is served by %q; \"sluice upstream list\" shows what there is", excerpt.Of(in.target().String(), 200))
}

// target returns the target that is meant. An empty model or key means all of them.
func (in *UpstreamTarget) target() steering.Target {
	return steering.Target{Provider: in.Provider, Upstream: in.Upstream, Key: in.Key, Replica: in.Replica}
}

// upstreamEnable ends a drain. It does not ask whether the target is configured: one that is gone can be enabled, too.
func (b *Backend) upstreamEnable(ctx context.Context, in UpstreamTarget) (steering.Order, error) {
	return b.Helm.Enable(ctx, in.target(), in.Actor, in.Reason)
}

// modelsMove moves a model to another tier, now or from a later time on. Every node follows.
func (b *Backend) modelsMove(ctx context.Context, in ModelMove) (steering.Order, error) {
	m, ok := b.Catalog().Lookup(in.Model)
	switch {
	case !ok:
		return steering.Order{}, b.noModel(fault.NotFound, in.Model, "").At("model")
	case m.Router:
		return steering.Order{}, fault.New(fault.Invalid, "%q is the router, whose tier is always %s", m.ID, m.Plan).At("model")
	}
	return b.Helm.Give(ctx, steering.Order{Kind: steering.Move, Model: in.Model, Plan: in.Plan, From: in.From, Actor: in.Actor, Reason: in.Reason})
}

// noModel returns the fault of an id that no model has, with the one that may be meant. more ends the message.
func (b *Backend) noModel(kind fault.Kind, id, more string) *fault.Fault {
	var ids []string
	for _, m := range b.Catalog().Models() {
		ids = append(ids, m.ID)
	}
	return fault.New(kind, "there is no model %q%s%s", excerpt.Of(id, 200), more, typo.DidYouMean(id, ids))
}

func (b *Backend) modelsMoveBack(ctx context.Context, in ModelMove) (steering.Order, error) {
	return b.Helm.MoveBack(ctx, in.Model, in.Actor, in.Reason)
}

// maintenanceStart refuses calls of models. The video model is not in the catalog but may be named, too.
func (b *Backend) maintenanceStart(ctx context.Context, in NewMaintenance) (steering.Order, error) {
	for _, id := range in.Models {
		if _, ok := b.Catalog().Lookup(id); !ok && id != b.VideoModel() {
			return steering.Order{}, b.noModel(fault.NotFound, id, "").At("models")
		}
	}
	return b.Helm.Give(ctx, steering.Order{
		Kind: steering.Maintenance, Models: in.Models, Text: in.Text, From: in.From, Until: in.Until, Actor: in.Actor, Reason: in.Reason,
	})
}

// announcementPost shows a text on every page. What it may hold, and how many there may be, is decided by package steering.
func (b *Backend) announcementPost(ctx context.Context, in NewAnnouncement) (steering.Order, error) {
	return b.Helm.Give(ctx, steering.Order{Kind: steering.Announcement, Text: in.Text, Tone: in.Tone, From: in.From, Until: in.Until, Actor: in.Actor})
}

// steeringHistory returns who has decided what about the running service, newest first.
func (b *Backend) steeringHistory(ctx context.Context, in Cursor) (List[account.Entry], error) {
	before, err := in.number()
	if err != nil {
		return List[account.Entry]{}, err
	}
	log, err := b.Helm.History(ctx, before, in.limit())
	return entries(log, in.limit()), err
}

// entries returns a page of the audit log.
func entries(log []account.Entry, limit int) List[account.Entry] {
	return listOf(log, limit, func(e *account.Entry) string { return strconv.FormatInt(e.Seq, 10) })
}
