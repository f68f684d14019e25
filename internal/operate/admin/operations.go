package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/signin"
	"sluice/internal/account/staff"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/cluster"
	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/misses"
	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/ledger/whatif"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/feedback"
	"sluice/internal/operate/finder"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/signal"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// Backend holds what the operations work on. All fields are required unless they say
// otherwise.
type Backend struct {
	Accounts *account.Accounts
	Plans    func() account.Plans
	Catalog  func() *catalog.Catalog
	Usage    UsageRecords
	// Served returns what the calls of all accounts add up to by day, provider and model.
	Served  func(ctx context.Context, from, to time.Time) ([]usage.ServedRow, error)
	WhatIf  *whatif.Calculator
	Costs   *costs.Costs
	Budgets *budget.Desk
	Scores  Scores
	Logins  *signin.Service
	Staff   *staff.Roster
	Alerts  *alert.History
	Billing *billing.Billing
	Helm    *steering.Helm
	// Incidents and Subscribers are what staff tells people of outages, and who gets mail about it.
	Incidents   *incident.Bulletin
	Subscribers *incident.Subscribers
	Feedback    *feedback.Feedback
	Prices      Prices
	Receipts    *receipt.Ring // the keys that receipts are signed with
	// Everyone calls yield with the current state of every account, in no order. It is nil if no server is running.
	Everyone func(yield func(*account.Account))
	// Reports tells what the service does. It is nil if no server is running.
	Reports *overview.Reporter
	// VideoModel returns the id of the video model.
	VideoModel func() string
	Tickets    *ticket.Office
	// Misses says why calls did not find their prompts in caches.
	Misses *misses.Log
	// Finder, Refusals and Signals are what requests have left behind.
	Finder   *finder.Finder
	Refusals refusal.View
	Signals  signal.Store
	Evidence EvidenceStore
	// Calls, Versions and Reconciliations are for comparisons with vendors' exports. Vendors returns the kinds of the providers by
	// name.
	Calls           CallReader
	Versions        costs.Versions
	Reconciliations Reconciliations
	Vendors         func() map[string]string
	Messages        *notice.Notices // what accounts were told
	// Tell tells the owner of an account what staff has done. It is nil if no server is running.
	Tell func(ctx context.Context, accountID, title, body string)
	// State returns where models come from and how healthy they are.
	State func() []ModelState
	// Refresh looks for new models. It is nil if no server is running, because nothing would
	// keep the result.
	Refresh func(ctx context.Context) error
	Status  func(ctx context.Context) Status
	// Reload applies the configuration file, and returns the settings that wait for a restart.
	Reload func(ctx context.Context) (waiting []string, err error)
	// Examine is "sluice doctor" for a program of the version; its result is what package doctor found. It is nil if
	// no server is running.
	Examine func(ctx context.Context, version string) any
	// Debug and Metrics are for "sluice debug". They are nil if no server is running.
	Debug   func() Debug
	Metrics http.Handler
}

// Target names an account, or the key of a key operation, and who acts on it. Ref is an id or,
// for accounts, an e-mail address. Which of the other fields are used depends on the
// operation.
type Target struct {
	Actor  string `json:"actor"`
	Ref    string `json:"ref"`
	Reason string `json:"reason,omitempty"`
	Name   string `json:"name,omitempty"`
	Plan   string `json:"plan,omitempty"`
	// Version is the version of the account that the change was decided on. If the account has another one by
	// now, the change is refused. 0: any.
	Version int64 `json:"version,omitempty"`
}

// under returns accounts whose changes have the reason and need the version of the target.
func (b *Backend) under(in Target) *account.Accounts {
	return b.Accounts.Under(account.Order{Reason: in.Reason, Version: in.Version})
}

// about returns the operation that reads something of an account.
func about[Out any](read func(b *Backend, ctx context.Context, a *account.Account) (Out, error)) func(*Backend, context.Context, Target) (Out, error) {
	return func(b *Backend, ctx context.Context, in Target) (out Out, err error) {
		a, err := b.Accounts.Find(ctx, in.Ref)
		if err != nil {
			return out, err
		}
		return read(b, ctx, a)
	}
}

// NewAccount is the argument of account.create.
type NewAccount struct {
	Actor string `json:"actor"`
	Email string `json:"email"`
	Plan  string `json:"plan"`
	Staff bool   `json:"staff"`
}

// CreatedAccount is the result of account.create. It is the only time that the master key is
// shown.
type CreatedAccount struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Plan      string `json:"plan"`
	MasterKey string `json:"master_key"`
}

// NewLimits is the argument of account.set-limits. Clear removes all overrides before Set is
// applied.
type NewLimits struct {
	Actor string            `json:"actor"`
	Ref   string            `json:"ref"`
	Clear bool              `json:"clear"`
	Set   account.Overrides `json:"set"`
	// Reason and Version are those of Target.
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// NewAliases is the argument of account.set-aliases. Set adds aliases to the account's own or replaces them; an empty
// model removes one. Clear removes all before Set is applied.
type NewAliases struct {
	Actor string            `json:"actor"`
	Ref   string            `json:"ref"`
	Clear bool              `json:"clear"`
	Set   map[string]string `json:"set"`
	// Reason and Version are those of Target.
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// NewReplies is the argument of account.set-replies: whether every reply says what it costs, whether every call leaves a
// receipt, and whether marks are set for the vendors' caches. What is nil or empty does not change.
type NewReplies struct {
	Actor    string `json:"actor"`
	Ref      string `json:"ref"`
	ShowCost *bool  `json:"show_cost,omitempty"`
	Receipts *bool  `json:"receipts,omitempty"`
	// AutoCache is "on", "off" or "default", which is as each model is configured.
	AutoCache string `json:"auto_cache,omitempty"`
	// Reason and Version are those of Target.
	Reason  string `json:"reason,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// Account is an account as operators see it.
type Account struct {
	ID      string `json:"id"`
	Email   string `json:"email"`
	Plan    string `json:"plan"`
	Granted bool   `json:"granted"`
	Staff   bool   `json:"staff"`
	// Status is "active", "deactivated", "suspended" or "terminated".
	Status      string        `json:"status"`
	Suspended   *account.Mark `json:"suspended,omitempty"`
	Deactivated *account.Mark `json:"deactivated,omitempty"`
	// Limits are the current limits: those of the plan with Overrides applied.
	Limits    account.Limits    `json:"limits"`
	Overrides account.Overrides `json:"overrides"`
	// Aliases are the account's own names of models. They win over those of the configuration.
	Aliases map[string]string `json:"aliases,omitempty"`
	// ShowCost says that every reply says what it costs, as if its request asked for that.
	ShowCost bool `json:"show_cost"`
	// Receipts says that every call of the account leaves a receipt.
	Receipts bool `json:"receipts"`
	// AutoCache is "on" or "off" if the account says whether marks are set for the vendors' caches, and "default" if each model
	// does.
	AutoCache string    `json:"auto_cache"`
	CreatedAt time.Time `json:"created_at"`
	// Version rises with every change of the account. A change can name it; see Target.
	Version int64 `json:"version"`
	Keys    []Key `json:"keys"`
}

// Key is a key as operators see it, without the key itself. A nil LastUsedAt means never.
type Key struct {
	ID string `json:"id"`
	// Kind is "master" or "sub".
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	LastFour string `json:"last_four"`
	// Status is "active" or "deactivated".
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
	// CreatedBy is who made the key, as the audit log names them; absent: not known.
	CreatedBy  string     `json:"created_by,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at"`
	// Limits narrow what a sub-key may do; absent: nothing does.
	Limits *KeyLimits `json:"limits,omitempty"`
	// Tags are those of every call with the key; absent: none.
	Tags []string `json:"tags,omitempty"`
}

// NewKey is the result of key.create. It is the only time that the key is shown.
type NewKey struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Key  string `json:"key"`
	// Budget is the id of the budget that bounds each session of the key; absent: there is none.
	Budget string `json:"budget,omitempty"`
}

// RawKey is the result of key.regenerate-master. It is the only time that the key is shown.
type RawKey struct {
	Key string `json:"key"`
}

// Status describes a running server, for "sluice doctor".
type Status struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	Listen    string    `json:"listen"`
	Origin    string    `json:"origin,omitempty"` // where callers reach it
	Config    string    `json:"config,omitempty"`
	Database  string    `json:"database"`
	DBError   string    `json:"database_error,omitempty"`
	// Checks are those of /readyz, and Ready says whether it reports 200.
	Checks   []health.Result `json:"checks"`
	Ready    bool            `json:"ready"`
	Accounts int             `json:"accounts"`
	Models   int             `json:"models"`
	// Targets is the health of each provider that serves a model.
	Targets []routing.TargetHealth `json:"targets"`
	// Cluster is empty with SQLite.
	Cluster Cluster `json:"cluster,omitzero"`
}

// Cluster describes the servers on one database.
type Cluster struct {
	Mode    string         `json:"mode"`              // how this server counts limits: alone, approximate or exact
	Problem string         `json:"problem,omitempty"` // why this server is not ready
	Note    string         `json:"note,omitempty"`    // what an operator should know
	Nodes   []cluster.Node `json:"nodes"`
}

// ClusterOf describes the servers on the database of a cluster. A cluster of one has nothing to tell.
func ClusterOf(c *cluster.Cluster) (out Cluster) {
	if err := c.Ready(); err != nil {
		out.Problem = err.Error()
	}
	out.Mode, out.Note, out.Nodes = string(c.Mode()), c.Note(), c.Nodes()
	return out
}

// Empty is the argument or result of an operation that has none.
type Empty struct{}

// accountCreate creates an account and returns its master key, which is not stored.
func (b *Backend) accountCreate(ctx context.Context, in NewAccount) (CreatedAccount, error) {
	plan, err := parsePlan(in.Plan)
	if err != nil {
		return CreatedAccount{}, err
	}
	if in.Staff && callerOf(ctx) != nil {
		return CreatedAccount{}, fault.New(fault.Forbidden, "only the operator makes members of staff, on the server's machine").At("staff")
	}
	a, raw, err := b.Accounts.Create(ctx, in.Actor, in.Email, plan, in.Staff)
	if err != nil {
		return CreatedAccount{}, err
	}
	return CreatedAccount{ID: a.ID, Email: a.Email, Plan: a.Plan.String(), MasterKey: raw}, nil
}

// accountList returns one page of accounts, in order of their ids.
func (b *Backend) accountList(ctx context.Context, in Cursor) (List[Account], error) {
	limit := in.limit()
	list, err := b.Accounts.List(ctx, in.After, limit)
	page := listOf(list, limit, func(a **account.Account) string { return (*a).ID })
	return viewsOf(page, func(a **account.Account) Account { return b.view(*a) }), err
}

func (b *Backend) accountShow(ctx context.Context, in Target) (Account, error) {
	return b.viewOf(b.Accounts.Find(ctx, in.Ref))
}

// accountHistory returns one page of the audit log of an account, newest first.
func (b *Backend) accountHistory(ctx context.Context, in AccountPage) (List[account.Entry], error) {
	limit := in.limit()
	before, err := in.number()
	if err != nil {
		return List[account.Entry]{}, err
	}
	log, err := b.Accounts.History(ctx, in.Ref, before, limit)
	return entries(log, limit), err
}

// accountSetPlan grants a plan, independent of any subscription.
func (b *Backend) accountSetPlan(ctx context.Context, in Target) (Account, error) {
	plan, err := parsePlan(in.Plan)
	if err != nil {
		return Account{}, err
	}
	if err := needReason(ctx, in.Reason); err != nil {
		return Account{}, err
	}
	before, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return Account{}, err
	}
	a, err := b.viewOf(b.under(in).SetPlan(ctx, in.Actor, in.Ref, plan))
	switch {
	case err != nil || a.Version == before.Version: // nothing has changed
	case plan == account.None:
		b.tell(ctx, a.ID, "Your plan has ended", "Support has taken the %s plan from your account. Your keys and your history are kept, and free-tier models remain usable.", before.Plan.Title())
	default:
		b.tell(ctx, a.ID, fmt.Sprintf("You have the %s plan", plan.Title()), "Support has granted you the %s plan. It costs nothing until it is changed.", plan.Title())
	}
	return a, err
}

// accountSetLimits overrides limits. Clearing and setting are two changes in the audit log.
func (b *Backend) accountSetLimits(ctx context.Context, in NewLimits) (Account, error) {
	if in.Set == (account.Overrides{}) && !in.Clear {
		return Account{}, fault.New(fault.Invalid, "nothing to set: give at least one limit")
	}
	if err := needReason(ctx, in.Reason); err != nil {
		return Account{}, err
	}
	order := account.Order{Reason: in.Reason, Version: in.Version}
	if in.Clear {
		a, err := b.viewOf(b.Accounts.Under(order).ClearLimits(ctx, in.Actor, in.Ref))
		if err != nil {
			return a, err
		}
		if in.Set == (account.Overrides{}) {
			return b.tellLimits(ctx, a), nil
		}
		order.Version = 0 // clearing has raised it
	}
	a, err := b.viewOf(b.Accounts.Under(order).SetLimits(ctx, in.Actor, in.Ref, in.Set))
	if err != nil {
		return a, err
	}
	return b.tellLimits(ctx, a), nil
}

// accountSetAliases changes the names that the account may use in place of the ids of models.
func (b *Backend) accountSetAliases(ctx context.Context, in NewAliases) (Account, error) {
	if len(in.Set) == 0 && !in.Clear {
		return Account{}, fault.New(fault.Invalid, "nothing to set: give at least one alias")
	}
	if err := needReason(ctx, in.Reason); err != nil {
		return Account{}, err
	}
	before, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return Account{}, err
	}
	names := before.Aliases.Names()
	if in.Clear {
		clear(names)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Set)) {
		id := in.Set[name]
		if id == "" {
			delete(names, name)
			continue
		}
		if _, ok := b.Catalog().Lookup(id); !ok {
			return Account{}, b.noModel(fault.Invalid, id, "; an alias stands for the id of a model").At("set")
		}
		if _, ok := b.Catalog().Lookup(name); ok {
			return Account{}, fault.New(fault.Invalid, "%q is the id of a model, which no alias can replace", excerpt.Of(name, 100)).At("set")
		}
		names[name] = id
	}
	// Whoever changed the aliases in the meantime is not overruled: the names were read at this version.
	order := account.Order{Reason: in.Reason, Version: cmp.Or(in.Version, before.Version)}
	return b.viewOf(b.Accounts.Under(order).SetAliases(ctx, in.Actor, in.Ref, names))
}

// accountSetReplies changes what the replies to the account say, whether its calls leave receipts, and whether marks are set
// for the vendors' caches.
func (b *Backend) accountSetReplies(ctx context.Context, in NewReplies) (Account, error) {
	if in.ShowCost == nil && in.Receipts == nil && in.AutoCache == "" {
		return Account{}, fault.New(fault.Invalid, "nothing to set: give show_cost, receipts, auto_cache or several").At("show_cost")
	}
	to := account.Replies{ShowCost: in.ShowCost, Receipts: in.Receipts}
	if in.AutoCache != "" {
		auto, ok := chat.ParseSwitch(in.AutoCache)
		if !ok {
			return Account{}, fault.New(fault.Invalid, `auto_cache must be "on", "off" or "default"`).At("auto_cache")
		}
		to.AutoCache = &auto
	}
	if err := needReason(ctx, in.Reason); err != nil {
		return Account{}, err
	}
	order := account.Order{Reason: in.Reason, Version: in.Version}
	return b.viewOf(b.Accounts.Under(order).SetReplies(ctx, in.Actor, in.Ref, to))
}

// tellLimits tells the owner of an account which limits are in force, and returns the account.
func (b *Backend) tellLimits(ctx context.Context, a Account) Account {
	b.tell(ctx, a.ID, "Your limits have changed", "Support has changed the limits of your account. They are now: %s.", limitsText(a.Limits))
	return a
}

// accountSuspend refuses all calls of an account from its next request on, on every node.
func (b *Backend) accountSuspend(ctx context.Context, in Target) (Account, error) {
	return b.viewOf(b.under(in).Suspend(ctx, in.Actor, in.Ref, in.Reason))
}

// accountUnsuspend undoes that.
func (b *Backend) accountUnsuspend(ctx context.Context, in Target) (Account, error) {
	if err := needReason(ctx, in.Reason); err != nil {
		return Account{}, err
	}
	return b.viewOf(b.under(in).Unsuspend(ctx, in.Actor, in.Ref))
}

// keyList returns all keys of an account, which are few; it takes the cursor of every list.
func (b *Backend) keyList(ctx context.Context, in AccountPage) (List[Key], error) {
	a, err := b.viewOf(b.Accounts.Find(ctx, in.Ref))
	return part(a.Keys, in.Cursor, func(k Key) string { return k.ID }), err
}

func (b *Backend) keyCreate(ctx context.Context, in KeyOrder) (NewKey, error) {
	limits, err := in.Limits.parse()
	if err != nil {
		return NewKey{}, err
	}
	var tags []string
	if in.Tags != nil {
		tags = *in.Tags
	}
	var perSession *int64
	if in.SessionCap != nil {
		amount, err := budget.ParseAmount(*in.SessionCap)
		if err != nil {
			return NewKey{}, fault.From(err).At("session_cap")
		}
		perSession = (*int64)(amount)
	}
	k, raw, budgetID, err := b.under(in.Target).CreateCappedKey(ctx, in.Actor, in.Ref, in.Name, limits, perSession, tags...)
	if err != nil {
		return NewKey{}, err
	}
	return NewKey{ID: k.ID, Name: k.Name, Key: raw, Budget: budgetID}, nil
}

// keyRename changes the display name of a sub-key. Ref is the id of the key.
func (b *Backend) keyRename(ctx context.Context, in Target) (Key, error) {
	k, err := b.under(in).RenameKey(ctx, in.Actor, in.Ref, in.Name)
	if err != nil {
		return Key{}, err
	}
	return keyView(k, "active"), nil
}

// keyDelete deletes a sub-key. Ref is the id of the key.
func (b *Backend) keyDelete(ctx context.Context, in Target) (Empty, error) {
	return Empty{}, b.under(in).DeleteKey(ctx, in.Actor, in.Ref)
}

// keyRegenerateMaster replaces the master key of an account, or of the owner if Ref is empty.
func (b *Backend) keyRegenerateMaster(ctx context.Context, in Target) (RawKey, error) {
	if in.Ref == "" {
		in.Ref = account.OwnerEmail
	}
	raw, err := b.under(in).RegenerateMaster(ctx, in.Actor, in.Ref)
	return RawKey{Key: raw}, err
}

// keyDeactivate deactivates all keys of an account.
func (b *Backend) keyDeactivate(ctx context.Context, in Target) (Account, error) {
	a, err := b.under(in).Deactivate(ctx, in.Actor, in.Ref, in.Reason)
	if err == nil && a.Deactivated != nil && a.Deactivated.Reason == strings.TrimSpace(in.Reason) {
		b.tell(ctx, a.ID, "Your keys are switched off", "Requests with your keys are refused until support restores them. Reason: %s. Contact support if you think this is a mistake.", a.Deactivated.Reason)
	}
	return b.viewOf(a, err)
}

// keyRestore reactivates an account's keys. It goes through Scores, because the abuse score
// must start from zero: otherwise the next call would deactivate the keys again.
func (b *Backend) keyRestore(ctx context.Context, in Target) (Account, error) {
	if _, err := b.order(ctx, in, "keys.restore_ordered", ""); err != nil {
		return Account{}, err
	}
	return b.viewOf(b.Scores.Restore(ctx, in.Actor, in.Ref))
}

// SignInLink is the result of signin-link. The link works once.
type SignInLink struct {
	URL string `json:"url"`
}

func (b *Backend) signInLink(ctx context.Context, in Target) (SignInLink, error) {
	if a, err := b.Accounts.Find(ctx, in.Ref); err == nil {
		if err := mayEnter(ctx, a); err != nil {
			return SignInLink{}, err
		}
		if _, err := b.order(ctx, in, "account.signin_link", ""); err != nil {
			return SignInLink{}, err
		}
	}
	url, err := b.Logins.SignInLink(ctx, in.Ref)
	return SignInLink{URL: url}, err
}

// ModelQuery is the argument of models.
type ModelQuery struct {
	Verbose bool `json:"verbose"`
}

// models returns the catalog exactly as GET /v1/models does, so that the command and the API
// agree.
func (b *Backend) models(_ context.Context, in ModelQuery) (json.RawMessage, error) {
	return b.Catalog().JSON(in.Verbose), nil
}

// ModelState says where a model comes from and how healthy it is.
type ModelState struct {
	ID   string `json:"id"`
	From string `json:"from"`
	// Access is the lowest plan that may call the model, or "staff".
	Access string `json:"access"`
	// Health is "healthy", "degraded", "down" or "vanished". It is empty if no
	// server is running.
	Health string `json:"health,omitempty"`
}

// ModelStates returns the state of each model of a catalog. health returns the health of a model.
func ModelStates(c *catalog.Catalog, health func(*catalog.Model) string) []ModelState {
	var all []ModelState
	for _, m := range c.Models() {
		access := m.Plan.String()
		if m.StaffOnly {
			access = "staff"
		}
		all = append(all, ModelState{ID: m.ID, From: string(m.Origin), Access: access, Health: health(m)})
	}
	return all
}

func (b *Backend) modelsStanding(_ context.Context, in Cursor) (List[ModelState], error) {
	return part(b.State(), in, func(m ModelState) string { return m.ID }), nil
}

// modelsRefresh looks for models now instead of at the next scheduled time, and returns the
// new states.
func (b *Backend) modelsRefresh(ctx context.Context, in Cursor) (List[ModelState], error) {
	if b.Refresh == nil {
		return List[ModelState]{}, fault.New(fault.Conflict, "No server runs on this data folder, so there is nobody to look for models.")
	}
	if err := b.Refresh(ctx); err != nil {
		return List[ModelState]{}, err
	}
	return b.modelsStanding(ctx, in)
}

func (b *Backend) showStatus(ctx context.Context, _ Empty) (Status, error) { return b.Status(ctx), nil }

// Reloaded is the result of reload.
type Reloaded struct {
	// RestartNeeded are the changed settings that take effect at the next start only.
	RestartNeeded []string `json:"restart_needed"`
}

// applyConfig applies the configuration file. Mistakes in it are the operator's, so they are
// returned as they are.
func (b *Backend) applyConfig(ctx context.Context, _ Empty) (Reloaded, error) {
	waiting, err := b.Reload(ctx)
	if err != nil {
		return Reloaded{}, fault.New(fault.Invalid, "%v", err)
	}
	return Reloaded{some(waiting)}, nil
}

// viewOf converts the result of an account operation.
func (b *Backend) viewOf(a *account.Account, err error) (Account, error) {
	if err != nil {
		return Account{}, err
	}
	return b.view(a), nil
}

// accountStatus returns the status of an account. Suspension takes precedence over deactivated keys.
func accountStatus(a *account.Account) string {
	switch {
	case a.Suspended != nil && a.Suspended.Final:
		return "terminated"
	case a.Suspended != nil:
		return "suspended"
	case a.Deactivated != nil:
		return "deactivated"
	}
	return "active"
}

// view converts an account.
func (b *Backend) view(a *account.Account) Account {
	v := Account{
		ID: a.ID, Email: a.Email, Plan: a.Plan.String(), Granted: a.Granted, Staff: a.Staff, Status: accountStatus(a),
		Suspended: a.Suspended, Deactivated: a.Deactivated,
		Limits: b.Plans()[a.Plan].Over(a.Overrides), Overrides: a.Overrides, Aliases: a.Aliases.Names(), ShowCost: a.ShowCost, Receipts: a.Receipts, AutoCache: a.AutoCache.String(), CreatedAt: a.CreatedAt, Version: a.Version,
		Keys: make([]Key, 0, len(a.Keys)),
	}
	keyStatus := "active"
	if a.Deactivated != nil {
		keyStatus = "deactivated"
	}
	for i := range a.Keys {
		v.Keys = append(v.Keys, keyView(&a.Keys[i], keyStatus))
	}
	return v
}

// keyView converts a key. All keys of an account have the same status.
func keyView(k *account.Key, status string) Key {
	v := Key{ID: k.ID, Kind: "sub", Name: k.Name, LastFour: k.LastFour, Status: status, CreatedAt: k.CreatedAt, CreatedBy: k.CreatedBy, Limits: keyLimitsView(k.Limits), Tags: k.Tags}
	if k.Master {
		v.Kind, v.Name = "master", "master"
	}
	if !k.LastUsedAt.IsZero() {
		v.LastUsedAt = &k.LastUsedAt
	}
	return v
}

// parsePlan parses the name of a plan. An empty name means no plan.
func parsePlan(name string) (account.Plan, error) {
	if name == "" {
		return account.None, nil
	}
	p, err := account.ParsePlan(name)
	if err != nil {
		return p, fault.New(fault.Invalid, "%v", err).At("plan")
	}
	return p, nil
}
