package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/notice"
)

// Watched is how many streams the pulse watches now.
func (a *App) Watched() int { return a.pulse.Watched() }

// Billing is what the pages sell plans with.
func (a *App) Billing() *billing.Billing { return a.billing }

// BodiesInFlight is how many bytes of request bodies are held now.
func (a *App) BodiesInFlight() int64 { return a.api.BodiesInFlight() }

// Shelve moves all calls that have ended to the database, and those that were refused. Pages wait for that, too, but no
// longer than a tenth of a second.
func (a *App) Shelve(ctx context.Context) error {
	return errors.Join(a.books.Flush(ctx), a.refusals.Flush(ctx))
}

// Settlements returns the settlements that the journal still holds, oldest first, and how many there were
// in all.
func (a *App) Settlements() ([]usage.Settlement, int64) {
	ctx := context.Background()
	if err := a.books.Flush(ctx); err != nil {
		panic(err)
	}
	held, err := a.books.Held(time.Time{})
	if err != nil {
		panic(err)
	}
	accounts, err := a.facts.stores.accounts.Accounts(ctx, "", 1000)
	if err != nil {
		panic(err)
	}
	var all usage.Sums
	for _, owner := range accounts {
		rows, err := a.facts.stores.calls.UsageByDay(ctx, owner.ID, time.Time{})
		if err != nil {
			panic(err)
		}
		for i := range rows {
			all.Merge(rows[i].Sums)
		}
	}
	return held, all.Requests
}

// RestoreWindows rebuilds a ledger's windows from a journal, as a start does.
func RestoreWindows(j *usage.Journal, l *admission.Memory) error {
	now := time.Now()
	held, err := j.Since(now.Add(-time.Minute))
	l.RestoreCalls(usage.LastMinute(held, now), now, func(string, string) bool { return false })
	return err
}

// Notices are what an account was told, newest first.
func (a *App) Notices(accountID string) ([]notice.Notice, error) {
	return a.notices.List(context.Background(), accountID, 100)
}

// Used is what an account's windows hold now: thousandths of requests, and tokens.
func (a *App) Used(accountID string) (requestMilli, tokens int64) {
	headroom := a.ledger.Peek(accountID, account.Limits{RequestsPerMinute: 1, TokensPerMinute: 1, Concurrent: 1})
	return headroom.Requests.Used, headroom.Tokens.Used
}

// SettledFor returns an account's settlements, newest first.
func (a *App) SettledFor(ctx context.Context, accountID string) ([]usage.Settlement, error) {
	if err := a.books.Flush(ctx); err != nil {
		return nil, err
	}
	return a.facts.stores.calls.RecentSettlements(ctx, accountID, usage.Point{At: time.Now().Add(time.Hour)}, 100)
}

// Resumed is how many streams were resumed.
func (a *App) Resumed() int64 { return a.streams.Resumed() }

// Running is how many calls run now.
func (a *App) Running() int64 { return a.ledger.Running() }

// InForce describes everything that a reload may change, as the running server uses it. It reads the
// configuration itself only where the server does so, too, when it needs the value.
func (a *App) InForce() string {
	var b strings.Builder
	s := a.settings.Load()
	for _, m := range s.Catalog.Models() {
		describe(&b, reflect.ValueOf(m), 6)
	}
	for _, e := range s.InForce() {
		fmt.Fprintln(&b, "price", e.Model, e.Version())
	}
	fmt.Fprintf(&b, "markup %+v\n", s.Catalog.Models()[0].Markup)
	h := s.HTTP(a.origin(s.Config))
	fmt.Fprintln(&b, "api", h.CORSOrigins, h.TrustedProxies, h.PublicURL, h.Scorer, h.Weights, h.Feedback)
	describe(&b, reflect.ValueOf(h.Plans), 6)
	// A provider whose settings have changed gets other adapters. These are pointers.
	for _, u := range reflect.ValueOf(s).Elem().FieldByName("upstreams").Seq2() {
		fmt.Fprintf(&b, "adapters %+v\n", u.FieldByName("provider"))
	}
	v := a.videoSettings(s)
	fmt.Fprintln(&b, "video", v.Model, v.Tier, v.Origin, v.Workers, v.Lease, v.Keep, v.FileBytes, v.AccountBytes, v.Engine.Name)
	for _, e := range v.Engines {
		fmt.Fprintln(&b, "engine", e.Name, e.Credential)
		describe(&b, reflect.ValueOf(e.Renderer), 6)
	}
	fmt.Fprintf(&b, "traces %+v\n", a.tracer.Sampling())
	c := s.Config
	fmt.Fprintln(&b, "stop", c.DrainTimeout, c.ShutdownDelay, "books", c.Usage.KeepDays, "local", c.Discover)
	fmt.Fprintln(&b, "pages", a.Origin(), s.Signin(a.Origin(), true), a.supportSettings(), a.webSettings().Support)
	site := a.webSettings().Site
	fmt.Fprintln(&b, "site", site.Name, site.Headline, site.Intro, site.Footer, site.Seller, site.Logo(), site.Skin(), site.Sharing)
	fmt.Fprintln(&b, "alerts", c.Alerts.JournalLag, c.Alerts.DiskFreeMiB, s.Alerts().AllowHosts)
	for _, e := range s.Alerts().Operator {
		fmt.Fprintln(&b, "alerts to", e.ID, e.To, e.Types, e.Secret.Reveal())
	}
	if cert := a.cert.Load(); cert != nil {
		fmt.Fprintf(&b, "certificate %x\n", cert.Certificate)
	}
	if a.opts.Level != nil {
		fmt.Fprintln(&b, "level", a.opts.Level.Level())
	}
	return b.String()
}

// describe writes the values in v, down to depth, without addresses.
func describe(b *strings.Builder, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() && depth > 0 {
			describe(b, v.Elem(), depth-1)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			b.WriteString(field.Name + " ")
			describe(b, value, depth)
		}
		b.WriteByte('\n')
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			describe(b, v.Index(i), depth)
		}
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint8, reflect.Float64:
		fmt.Fprint(b, v, " ")
	}
}

// Record stores settlements as if their calls had just ended.
func (a *App) Record(batch ...usage.Settlement) error {
	return a.facts.stores.calls.RecordSettlements(context.Background(), batch)
}

// SetBudget gives an account a budget.
func (a *App) SetBudget(ref string, b account.Budget) {
	if _, err := a.facts.accounts.SetBudget(context.Background(), "test", ref, b); err != nil {
		panic(err)
	}
}

// Owner returns the id of the account with an address.
func (a *App) Owner(email string) (id string) {
	a.facts.index.Each(func(one *account.Account) {
		if one.Email == email {
			id = one.ID
		}
	})
	return id
}

// LookAtBudgets looks at what all calls until now have spent, as the server does from time to time.
func (a *App) LookAtBudgets(ctx context.Context) {
	if err := a.books.Flush(ctx); err != nil {
		panic(err)
	}
	budget.NewWatch(a.facts.stores.budgets, a.facts.index.Account, &budget.WatchOptions{Tell: a.letters.Budget, Log: a.log}).Look(ctx)
}

// LookForRunaways looks at what this node has seen until now, as the server does from time to time.
func (a *App) LookForRunaways(ctx context.Context) {
	if err := a.books.Flush(ctx); err != nil {
		panic(err)
	}
	a.runaway.Look(ctx)
}

// Account returns an account as this node knows it.
func (a *App) Account(id string) *account.Account { return a.facts.index.Account(id) }
