package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/internal/abuse"
	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/dashboard"
	"sluice/internal/mail"
	"sluice/internal/notice"
	"sluice/internal/signin"
	"sluice/internal/usage"
	"sluice/internal/webui"
)

// openPages makes what the pages stand on: mail, signing in, notices.
func (a *App) openPages(cfg *config.Config) error {
	sender, err := newSender(cfg, a)
	if err != nil {
		return err
	}
	a.outbox = mail.NewOutbox(sender, a.log)
	a.desk = signin.New(a.facts.store, a.facts.accounts, a.outbox, func() signin.Settings { return signinSettings(a.settings.Load().config, a.Origin(), a.local.Holds()) }, nil)
	a.notices = notice.NewBoard(a.facts.store, a.outbox, a.Origin, nil)
	a.facts.onChange = a.tellSuspension
	return nil
}

func newSender(cfg *config.Config, a *App) (mail.Sender, error) {
	if cfg.SMTP.Server == "" {
		return mail.NewLog(a.log), nil
	}
	return mail.NewSMTP(cfg.SMTP.Server, cfg.SMTP.From, &mail.SMTPOptions{
		User: cfg.SMTP.User, Password: cfg.SMTP.Password.Reveal(), ImplicitTLS: strings.HasSuffix(cfg.SMTP.Server, ":465"),
	})
}

func signinSettings(cfg *config.Config, origin string, local bool) signin.Settings {
	mode := cfg.SignupMode(local)
	return signin.Settings{Origin: origin, Open: mode == "open", Closed: mode == "closed"}
}

// Origin is where callers find the server: with the port it really got, if it was left open.
func (a *App) Origin() string {
	bound := *a.settings.Load().config
	if bound.PublicURL == "" {
		bound.Listen = a.Addr()
	}
	return bound.Origin()
}

// pages are the customer's pages, by the patterns of their paths.
func (a *App) pages(cfg *config.Config) map[string]http.Handler {
	ui := webui.New(func() webui.Settings {
		s := webui.Settings{Origin: a.Origin(), Brand: a.settings.Load().config.Brand}
		if a.stripe != nil {
			s.FormTargets = []string{"https://checkout.stripe.com", "https://billing.stripe.com", "https://invoice.stripe.com"}
		}
		return s
	}, a.log)
	handler := dashboard.New(ui, dashboard.Sources{
		Desk: a.desk, Provider: newProvider(cfg), Accounts: a.facts.accounts, Account: a.facts.index.Account, LastUsed: a.facts.index.LastUsed,
		Plans:   func() account.Plans { return a.settings.Load().plans },
		Catalog: func() *catalog.Catalog { return a.settings.Load().catalog },
		Ledger:  a.ledger, Abuse: a.abuse, Usage: pageBooks{a.facts}, Notices: a.notices, Billing: a.billing,
		API:          func() dashboard.API { return a.api },
		Health:       func(m *catalog.Model) string { return a.settings.Load().health(m) },
		MailIsLogged: cfg.SMTP.Server == "",
		VideoModel:   func() string { return a.settings.Load().config.Video.ModelID },
	}, nil).Handler()
	byPattern := map[string]http.Handler{}
	for _, pattern := range dashboard.Patterns() {
		byPattern[pattern] = handler
	}
	return byPattern
}

func newProvider(cfg *config.Config) *signin.Provider {
	if cfg.OIDC.Issuer == "" {
		return nil
	}
	return signin.NewProvider(cfg.OIDC.Name, cfg.OIDC.Issuer, cfg.OIDC.ClientID, cfg.OIDC.ClientSecret.Reveal())
}

// flushPatience is how long a page waits for what still stands in the journal; then it shows what there is.
const flushPatience = 100 * time.Millisecond

// pageBooks is the usage that pages show: with the calls of the last second, unless the database is busy.
type pageBooks struct{ facts *facts }

func (b pageBooks) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	_ = b.facts.committer.Flush(ctx) // they come with the next page
}

func (b pageBooks) UsageBy(ctx context.Context, q usage.Query) ([]usage.Row, error) {
	b.flush(ctx)
	return b.facts.store.UsageBy(ctx, q)
}

func (b pageBooks) RecentSettlements(ctx context.Context, accountID string, before usage.Point, limit int) ([]usage.Settlement, error) {
	b.flush(ctx)
	return b.facts.store.RecentSettlements(ctx, accountID, before, limit)
}

func (b pageBooks) UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error) {
	return b.facts.store.UsageByDay(ctx, accountID, from)
}

// tell puts up a notice. What it is about has happened already, so a database that is away keeps only the
// message back.
func (a *App) tell(ctx context.Context, accountID string, kind notice.Kind, title, body string) {
	acct := a.facts.index.Account(accountID)
	if acct == nil {
		return
	}
	if err := a.notices.Tell(ctx, accountID, acct.Email, kind, title, body); err != nil {
		a.log.Error("a notice could not be stored", "account", accountID, "title", title, "error", err.Error())
	}
}

// tellSuspension tells an account's owner when it is suspended, and when it is let in again.
func (a *App) tellSuspension(was, is *account.Account) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	switch {
	case was == nil:
	case was.Suspended == nil && is.Suspended != nil:
		a.tell(ctx, is.ID, notice.Suspended, "Your account is suspended",
			"Requests are refused from now on. The reason: "+is.Suspended.Reason+". Your keys and your history are kept. Contact support if you think that this is a mistake.")
	case was.Suspended != nil && is.Suspended == nil:
		a.tell(ctx, is.ID, notice.Restored, "Your account is open again", "Support has unlocked your account. Your keys work as before.")
	}
}

// telling is the store of abuse events that also tells the accounts' owners.
type telling struct {
	abuse.Store
	app *App
}

// RecordAbuseEvents implements abuse.Store.
func (t telling) RecordAbuseEvents(ctx context.Context, events []abuse.Event) error {
	if err := t.Store.RecordAbuseEvents(ctx, events); err != nil {
		return err
	}
	for i := range events {
		t.app.tellAbuse(ctx, &events[i])
	}
	return nil
}

// ForgiveUnits implements abuse.Store.
func (t telling) ForgiveUnits(ctx context.Context, month time.Time, counts []abuse.Count, events []abuse.Event) error {
	if err := t.Store.ForgiveUnits(ctx, month, counts, events); err != nil {
		return err
	}
	if len(events) > 0 {
		t.app.tellAbuse(ctx, &events[0])
	}
	return nil
}

func (a *App) tellAbuse(ctx context.Context, e *abuse.Event) {
	where := fmt.Sprintf("%d%% of this month's units of the %s plan are used by %s-tier models.", e.Score, e.Plan, e.Tier)
	switch e.Kind {
	case abuse.Warning:
		a.tell(ctx, e.AccountID, notice.Warning, fmt.Sprintf("Your abuse score is %d", e.Score),
			where+" At 100 your keys are switched off until support restores them. The count starts again on the 1st of the month; a higher plan has a larger budget.")
	case abuse.Inquiry:
		a.tell(ctx, e.AccountID, notice.Inquiry, "A question about your usage",
			where+" Please tell us in a few words what you use the service for, so that support can help before your keys are switched off at 100.")
	case abuse.Deactivated:
		a.tell(ctx, e.AccountID, notice.Deactivated, "Your keys are switched off",
			where+" Every key of your account is refused until support restores it. Contact support, and say what happened.")
	case abuse.Restored:
		a.tell(ctx, e.AccountID, notice.Restored, "Your keys work again", "Support has restored your keys, and the count of the month starts again from zero.")
	}
}
