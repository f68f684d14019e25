package alert

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/health"

	"sluice/internal/kit/pace"
)

// Sight is something that is wrong now, such as an upstream that is down.
type Sight struct {
	// Key tells sights apart, over all nodes.
	Key string
	// Began and Over are the types of the events when it begins and when it is over, with their titles.
	Began, Over      Type
	Title, OverTitle string
	Data             any // a JSON object
}

// Condition is a Sight that has lasted. It makes one event when it begins and one when it is over, however many nodes
// see it.
type Condition struct {
	Key   string
	Since time.Time
	// Began and Over are the types of its two events, with their titles.
	Began, Over      Type
	Title, OverTitle string
	Data             string // JSON
}

// NewCondition returns the condition that a sight has become.
func NewCondition(s *Sight, since time.Time) Condition {
	data, err := json.Marshal(s.Data)
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return Condition{Key: s.Key, Since: since.UTC().Truncate(time.Millisecond), Began: s.Began, Over: s.Over, Title: s.Title, OverTitle: s.OverTitle, Data: string(data)}
}

// Beginning returns the event of its beginning on a node.
func (c *Condition) Beginning(node string) Event {
	// The node and the time are part of the identity: what begins again is another event.
	return NewEvent("", c.Began, node+" "+c.Key+" "+strconv.FormatInt(c.Since.UnixMilli(), 10), c.Since, c.Title, json.RawMessage(c.Data))
}

// End returns the event of its end, which the node has seen.
func (c *Condition) End(node string, at time.Time) Event {
	return NewEvent("", c.Over, node+" "+c.Key+" "+strconv.FormatInt(c.Since.UnixMilli(), 10), at, c.OverTitle, json.RawMessage(c.Data))
}

const (
	// WatchEvery is how often a Watch looks.
	WatchEvery = 5 * time.Second
	// settled is how long something must hold, or be over, before anybody is told. An upstream that fails for a moment
	// is no news.
	settled = 15 * time.Second
	// refreshEvery is how often a node says that its conditions still hold, and forgetAfter when those of a node are
	// over that says nothing.
	refreshEvery = 20 * time.Second
	forgetAfter  = 90 * time.Second
)

// Watch reports conditions of this node. If the database does not take them, which is when the journal grows, it sends
// them to the operator's endpoints itself, under the ids that the deliveries get later.
type Watch struct {
	store   ConditionStore
	courier *Courier
	node    string
	look    func() []Sight
	log     *slog.Logger
	now     func() time.Time

	seen     map[string]*sighting
	reported time.Time       // when the store last took a report
	holding  map[string]bool // the keys of that report
	told     map[string]bool // deliveries that were made without the database, by their ids

	reporting health.Trouble
}

// sighting is what a Watch knows of a key.
type sighting struct {
	Sight
	since time.Time // of what it holds now: there, or not
	there bool
	holds bool // it is reported
	began time.Time
}

// NewWatch returns a Watch. look returns what is wrong now; it is called every few seconds and must not wait. opts may
// be nil.
func NewWatch(store ConditionStore, courier *Courier, node string, look func() []Sight, log *slog.Logger, opts *Options) *Watch {
	return &Watch{store: store, courier: courier, node: node, look: look, log: log, now: opts.clock(), seen: map[string]*sighting{}, told: map[string]bool{}}
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for range pace.Every(ctx, WatchEvery) {
		w.visit(ctx)
	}
}

// visit looks once and reports what has changed.
func (w *Watch) visit(ctx context.Context) {
	now := w.now()
	list := w.conditions(now)
	changed := len(list) != len(w.holding)
	for _, c := range list {
		changed = changed || !w.holding[c.Key]
	}
	if !changed && now.Sub(w.reported) < refreshEvery {
		return
	}
	err := w.store.ReportConditions(ctx, w.node, now, now.Add(-forgetAfter), list)
	if err == nil {
		w.reporting.Works(w.courier.log, "alerts are stored again")
		w.reported, w.holding = now, map[string]bool{}
		for _, c := range list {
			w.holding[c.Key] = true
		}
		clear(w.told)
		return
	}
	w.courier.complain(ctx, &w.reporting, "alerts could not be stored; they are sent without the database", err)
	for i := range list {
		if !w.holding[list[i].Key] {
			e := list[i].Beginning(w.node)
			w.tell(ctx, &e)
		}
	}
}

// conditions looks, and returns what has held for long enough.
func (w *Watch) conditions(now time.Time) (list []Condition) {
	there := map[string]bool{}
	for _, s := range w.look() {
		there[s.Key] = true
		k := w.seen[s.Key]
		if k == nil {
			k = &sighting{}
			w.seen[s.Key] = k
		}
		k.Sight = s
	}
	for key, k := range w.seen {
		if k.there != there[key] || k.since.IsZero() {
			k.there, k.since = there[key], now
		}
		if now.Sub(k.since) >= settled && k.holds != k.there {
			k.holds, k.began = k.there, k.since
		}
		switch {
		case k.holds:
			list = append(list, NewCondition(&k.Sight, k.began))
		case !k.there:
			delete(w.seen, key)
		}
	}
	slices.SortFunc(list, func(a, b Condition) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// tell sends an event to the operator's endpoints without the database: one attempt for each, repeated at every visit
// until it succeeds or the database is back.
func (w *Watch) tell(ctx context.Context, e *Event) {
	endpoints := w.courier.settings().Operator
	for i := range endpoints {
		d := deliveryOf(e, &endpoints[i], e.At)
		if !endpoints[i].Wants(e.Type) || w.told[d.ID] || ctx.Err() != nil {
			continue
		}
		if out := w.courier.send(ctx, &d); out.ok || out.final {
			w.told[d.ID] = true
		}
	}
}
