package admin

import (
	"context"
	"time"

	"sluice/internal/account"
	"sluice/internal/billing"
	"sluice/internal/catalog"
	"sluice/internal/fault"
	"sluice/internal/routing"
)

// Backend is what the operations work on.
type Backend struct {
	Accounts *account.Accounts
	Plans    func() account.Plans
	Catalog  func() *catalog.Catalog
	Books    Books
	Scores   Scores
	Desk     Desk
	Billing  *billing.Billing
	// Standing tells where models come from and how well they are.
	Standing func() []ModelStanding
	// Refresh looks for models; nil: nobody would keep what is found.
	Refresh func(ctx context.Context) error
	Status  func(ctx context.Context) Status
	Reload  func(ctx context.Context) error
}

// Operations of the admin door by name: the whole of it.
func (b *Backend) operations() map[string]operation {
	return map[string]operation{
		"account.create":        op(b.accountCreate),
		"account.list":          op(b.accountList),
		"account.show":          op(b.accountShow),
		"account.history":       op(b.accountHistory),
		"account.set-plan":      op(b.accountSetPlan),
		"account.set-limits":    op(b.accountSetLimits),
		"account.suspend":       op(b.accountSuspend),
		"account.unsuspend":     op(b.accountUnsuspend),
		"account.terminate":     op(b.accountTerminate),
		"account.abuse":         op(b.accountAbuse),
		"key.list":              op(b.keyList),
		"key.create":            op(b.keyCreate),
		"key.rename":            op(b.keyRename),
		"key.delete":            op(b.keyDelete),
		"key.regenerate-master": op(b.keyRegenerateMaster),
		"key.deactivate":        op(b.keyDeactivate),
		"key.restore":           op(b.keyRestore),
		"signin-link":           op(b.signInLink),
		"billing.show":          op(b.billingShow),
		"billing.advance":       op(b.billingAdvance),
		"billing.downgrade":     op(b.billingDowngrade),
		"billing.refund":        op(b.billingRefund),
		"usage":                 op(b.usage),
		"audit":                 op(b.audit),
		"backup":                op(b.backup),
		"models":                op(b.models),
		"models.standing":       op(b.modelsStanding),
		"models.refresh":        op(b.modelsRefresh),
		"status":                op(b.status),
		"reload":                op(b.reload),
	}
}

// Target names an account, or the key of a key operation, and who acts on it.
type Target struct {
	Actor  string `json:"actor"`
	Ref    string `json:"ref"`
	Reason string `json:"reason,omitempty"`
	Name   string `json:"name,omitempty"`
	Plan   string `json:"plan,omitempty"`
}

// NewAccount is what account.create takes.
type NewAccount struct {
	Actor string `json:"actor"`
	Email string `json:"email"`
	Plan  string `json:"plan"`
	Staff bool   `json:"staff"`
}

// CreatedAccount is what account.create gives: the master key's only showing.
type CreatedAccount struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Plan      string `json:"plan"`
	MasterKey string `json:"master_key"`
}

// NewLimits is what account.set-limits takes. Clear gives the plan's limits back first.
type NewLimits struct {
	Actor string            `json:"actor"`
	Ref   string            `json:"ref"`
	Clear bool              `json:"clear"`
	Set   account.Overrides `json:"set"`
}

// Page asks for accounts after an id.
type Page struct {
	After string `json:"after"`
	Limit int    `json:"limit"`
}

// Account is an account as operators see it.
type Account struct {
	ID          string            `json:"id"`
	Email       string            `json:"email"`
	Plan        string            `json:"plan"`
	Granted     bool              `json:"granted"`
	Staff       bool              `json:"staff"`
	Status      string            `json:"status"` // active, deactivated, suspended or terminated
	Suspended   *Mark             `json:"suspended,omitempty"`
	Deactivated *Mark             `json:"deactivated,omitempty"`
	Limits      account.Limits    `json:"limits"` // those in force
	Overrides   account.Overrides `json:"overrides"`
	CreatedAt   time.Time         `json:"created_at"`
	Keys        []Key             `json:"keys"`
}

// Mark says since when and why.
type Mark struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// Key is a key as operators see it: never the key itself.
type Key struct {
	ID         string     `json:"id"`
	Kind       string     `json:"kind"` // master or sub
	Name       string     `json:"name"`
	LastFour   string     `json:"last_four"`
	Status     string     `json:"status"` // active or deactivated
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

// NewKey is what key.create gives: the key's only showing.
type NewKey struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Key  string `json:"key"`
}

// RawKey is what key.regenerate-master gives: the key's only showing.
type RawKey struct {
	Key string `json:"key"`
}

// Entry is a line of the audit log.
type Entry struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"`
	Detail string    `json:"detail,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// Status is what a running server says of itself.
type Status struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	Listen    string    `json:"listen"`
	Config    string    `json:"config,omitempty"`
	Database  string    `json:"database"`
	DBError   string    `json:"database_error,omitempty"`
	Accounts  int       `json:"accounts"`
	Models    int       `json:"models"`
	// Targets is what is known of where models are served.
	Targets []routing.Standing `json:"targets"`
}

// Empty is an operation's argument or result where there is nothing to say.
type Empty struct{}

func (b *Backend) accountCreate(ctx context.Context, in NewAccount) (CreatedAccount, error) {
	plan, err := parsePlan(in.Plan)
	if err != nil {
		return CreatedAccount{}, err
	}
	a, raw, err := b.Accounts.Create(ctx, in.Actor, in.Email, plan, in.Staff)
	if err != nil {
		return CreatedAccount{}, err
	}
	return CreatedAccount{ID: a.ID, Email: a.Email, Plan: a.Plan.String(), MasterKey: raw}, nil
}

func (b *Backend) accountList(ctx context.Context, in Page) ([]Account, error) {
	if in.Limit < 1 || in.Limit > 1000 {
		in.Limit = 1000
	}
	list, err := b.Accounts.List(ctx, in.After, in.Limit)
	if err != nil {
		return nil, err
	}
	out := make([]Account, 0, len(list))
	for _, a := range list {
		out = append(out, b.view(a))
	}
	return out, nil
}

func (b *Backend) accountShow(ctx context.Context, in Target) (Account, error) {
	return b.viewOf(b.Accounts.Find(ctx, in.Ref))
}

func (b *Backend) accountHistory(ctx context.Context, in Target) ([]Entry, error) {
	log, err := b.Accounts.History(ctx, in.Ref, 1000)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(log))
	for _, e := range log {
		out = append(out, Entry{Seq: e.Seq, At: e.At, Actor: e.Actor, Action: e.Action, Detail: e.Detail, Reason: e.Reason})
	}
	return out, nil
}

func (b *Backend) accountSetPlan(ctx context.Context, in Target) (Account, error) {
	plan, err := parsePlan(in.Plan)
	if err != nil {
		return Account{}, err
	}
	return b.viewOf(b.Accounts.SetPlan(ctx, in.Actor, in.Ref, plan))
}

func (b *Backend) accountSetLimits(ctx context.Context, in NewLimits) (Account, error) {
	if in.Set == (account.Overrides{}) && !in.Clear {
		return Account{}, fault.New(fault.Invalid, "nothing to set: give at least one limit")
	}
	if in.Clear {
		if a, err := b.viewOf(b.Accounts.ClearLimits(ctx, in.Actor, in.Ref)); err != nil || in.Set == (account.Overrides{}) {
			return a, err
		}
	}
	return b.viewOf(b.Accounts.SetLimits(ctx, in.Actor, in.Ref, in.Set))
}

func (b *Backend) accountSuspend(ctx context.Context, in Target) (Account, error) {
	return b.viewOf(b.Accounts.Suspend(ctx, in.Actor, in.Ref, in.Reason))
}

func (b *Backend) accountUnsuspend(ctx context.Context, in Target) (Account, error) {
	return b.viewOf(b.Accounts.Unsuspend(ctx, in.Actor, in.Ref))
}

func (b *Backend) keyList(ctx context.Context, in Target) ([]Key, error) {
	a, err := b.viewOf(b.Accounts.Find(ctx, in.Ref))
	return a.Keys, err
}

func (b *Backend) keyCreate(ctx context.Context, in Target) (NewKey, error) {
	k, raw, err := b.Accounts.CreateKey(ctx, in.Actor, in.Ref, in.Name)
	if err != nil {
		return NewKey{}, err
	}
	return NewKey{ID: k.ID, Name: k.Name, Key: raw}, nil
}

func (b *Backend) keyRename(ctx context.Context, in Target) (Key, error) {
	k, err := b.Accounts.RenameKey(ctx, in.Actor, in.Ref, in.Name)
	if err != nil {
		return Key{}, err
	}
	return keyView(k, "active"), nil
}

func (b *Backend) keyDelete(ctx context.Context, in Target) (Empty, error) {
	return Empty{}, b.Accounts.DeleteKey(ctx, in.Actor, in.Ref)
}

func (b *Backend) keyRegenerateMaster(ctx context.Context, in Target) (RawKey, error) {
	if in.Ref == "" {
		in.Ref = account.OwnerEmail
	}
	raw, err := b.Accounts.RegenerateMaster(ctx, in.Actor, in.Ref)
	return RawKey{Key: raw}, err
}

func (b *Backend) keyDeactivate(ctx context.Context, in Target) (Account, error) {
	return b.viewOf(b.Accounts.Deactivate(ctx, in.Actor, in.Ref, in.Reason))
}

func (b *Backend) keyRestore(ctx context.Context, in Target) (Account, error) {
	return b.viewOf(b.Scores.Restore(ctx, in.Actor, in.Ref))
}

// Desk makes links that sign people in to the pages.
type Desk interface {
	SignInLink(ctx context.Context, email string) (string, error)
}

// SignInLink is what signin-link gives: a link that is good once.
type SignInLink struct {
	URL string `json:"url"`
}

func (b *Backend) signInLink(ctx context.Context, in Target) (SignInLink, error) {
	url, err := b.Desk.SignInLink(ctx, in.Ref)
	return SignInLink{URL: url}, err
}

// ModelQuery is what models takes.
type ModelQuery struct {
	Verbose bool `json:"verbose"`
}

func (b *Backend) models(_ context.Context, in ModelQuery) (rawJSON, error) {
	return b.Catalog().JSON(in.Verbose), nil
}

// ModelStanding is where a model comes from and how well it is.
type ModelStanding struct {
	ID     string `json:"id"`
	From   string `json:"from"`
	Access string `json:"access"` // the lowest plan that may call it, or "staff"
	// Health is "well", "out of order", "partly out of order" or "vanished"; empty: no server runs.
	Health string `json:"health,omitempty"`
}

// Standings returns the standing of each model of a catalog. Health says how well a model is.
func Standings(c *catalog.Catalog, health func(*catalog.Model) string) []ModelStanding {
	var all []ModelStanding
	for _, m := range c.Models() {
		access := m.Plan.String()
		if m.StaffOnly {
			access = "staff"
		}
		all = append(all, ModelStanding{ID: m.ID, From: string(m.Origin), Access: access, Health: health(m)})
	}
	return all
}

func (b *Backend) modelsStanding(context.Context, Empty) ([]ModelStanding, error) {
	return b.Standing(), nil
}

func (b *Backend) modelsRefresh(ctx context.Context, _ Empty) ([]ModelStanding, error) {
	if b.Refresh == nil {
		return nil, fault.New(fault.Conflict, "No server runs on this data folder, so there is nobody to look for models.")
	}
	if err := b.Refresh(ctx); err != nil {
		return nil, err
	}
	return b.Standing(), nil
}

func (b *Backend) status(ctx context.Context, _ Empty) (Status, error) { return b.Status(ctx), nil }

func (b *Backend) reload(ctx context.Context, _ Empty) (Empty, error) {
	if err := b.Reload(ctx); err != nil {
		return Empty{}, fault.New(fault.Invalid, "%v", err)
	}
	return Empty{}, nil
}

func (b *Backend) viewOf(a *account.Account, err error) (Account, error) {
	if err != nil {
		return Account{}, err
	}
	return b.view(a), nil
}

func (b *Backend) view(a *account.Account) Account {
	v := Account{
		ID: a.ID, Email: a.Email, Plan: a.Plan.String(), Granted: a.Granted, Staff: a.Staff, Status: "active",
		Suspended: markView(a.Suspended), Deactivated: markView(a.Deactivated),
		Limits: b.Plans()[a.Plan].Over(a.Overrides), Overrides: a.Overrides, CreatedAt: a.CreatedAt,
		Keys: make([]Key, 0, len(a.Keys)),
	}
	keyStatus := "active"
	if a.Deactivated != nil {
		v.Status, keyStatus = "deactivated", "deactivated"
	}
	if a.Suspended != nil {
		v.Status = "suspended"
		if a.Suspended.Final {
			v.Status = "terminated"
		}
	}
	for i := range a.Keys {
		v.Keys = append(v.Keys, keyView(&a.Keys[i], keyStatus))
	}
	return v
}

func keyView(k *account.Key, status string) Key {
	v := Key{ID: k.ID, Kind: "sub", Name: k.Name, LastFour: k.LastFour, Status: status, CreatedAt: k.CreatedAt}
	if k.Master {
		v.Kind, v.Name = "master", "master"
	}
	if !k.LastUsedAt.IsZero() {
		v.LastUsedAt = &k.LastUsedAt
	}
	return v
}

func markView(m *account.Mark) *Mark {
	if m == nil {
		return nil
	}
	return &Mark{At: m.At, Reason: m.Reason}
}

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
