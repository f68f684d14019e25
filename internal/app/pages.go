package app

import (
	"context"
	"maps"
	"net/http"
	"time"

	"sluice/docs"
	"sluice/internal/account/billing/stripe"
	"sluice/internal/account/mail"
	"sluice/internal/account/sharing"
	"sluice/internal/account/signin"
	"sluice/internal/account/staff"
	"sluice/internal/api/httpapi"
	"sluice/internal/app/config"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/misses"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/session"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/upstream/provider/claude"
	"sluice/internal/web/dashboard"
	"sluice/internal/web/front"
	"sluice/internal/web/guide"
	"sluice/internal/web/support"
	"sluice/internal/web/webui"
)

// openSignIn opens what the pages need: mail, signing in, notices, conversations with support. From then on, owners are told when
// their account is suspended.
func (a *App) openSignIn(_ context.Context, cfg *config.Config) error {
	sender, err := mail.New(cfg.SMTP.Server, cfg.SMTP.From, &mail.SMTPOptions{User: cfg.SMTP.User, Password: cfg.SMTP.Password.Reveal()}, a.log)
	if err != nil {
		return err
	}
	a.outbox = mail.NewOutbox(sender, a.log)
	opts := &signin.Options{}
	if !a.facts.alone() {
		opts.Tries = a.facts.stores.logins // nodes count attempts together
	}
	a.logins = signin.New(a.facts.stores.logins, a.facts.accounts, a.outbox, func() signin.Settings { return a.settings.Load().Signin(a.Origin(), a.local.Holds()) }, opts)
	a.roster = staff.New(a.facts.stores.accounts, a.facts.accounts, a.logins)
	// Settings and origin are passed as functions, here and below, because a reload changes them.
	a.notices = notice.New(a.facts.stores.tickets, a.outbox, a.Origin, &notice.Options{Support: func() string { return a.settings.Load().Config.Support.String() }})
	a.letters = notice.NewLetters(a.notices, a.facts.index.Account, a.log)
	a.facts.onChange = a.letters.Changed
	a.tickets = ticket.NewOffice(a.facts.stores.tickets, a.outbox, a.supportSettings, nil)
	return nil
}

// supportSettings returns the settings of conversations with support.
func (a *App) supportSettings() ticket.Settings {
	return ticket.Settings{Origin: a.Origin(), Staff: a.settings.Load().Config.Support.Email}
}

// webSettings returns the settings of all pages.
func (a *App) webSettings() webui.Settings {
	now := a.settings.Load()
	cfg := now.Config
	s := webui.Settings{Origin: a.Origin(), Brand: cfg.Brand, Support: webui.Support(cfg.Support), Announcements: banners(a.helm.Shown(), a.bulletin.Current(), time.Now()), Site: now.Site, Key: a.facts.store.Key()}
	s.Site.Name = cfg.ShownName()
	if a.stripe != nil {
		s.FormTargets = stripe.FormTargets()
	}
	return s
}

// pages returns the handlers of the customer's pages, of the support console, of the admin API and of the payment
// processor's webhook, by their patterns.
func (a *App) pages(cfg *config.Config) map[string]http.Handler {
	ui := webui.New(a.webSettings, a.log)
	info := a.modelInfo()
	var book *guide.Guide // searched by the pages that are made before it
	find := func(query string) webui.Findings { return book.Find(query, false) }
	customers := dashboard.New(ui, dashboard.Sources{
		Logins: a.logins, Provider: newProvider(cfg), Accounts: a.facts.accounts, Account: a.facts.index.Account, LastUsed: a.facts.index.LastUsed,
		Plans:   a.plans,
		Catalog: a.catalog,
		Ledger:  a.ledger, Abuse: a.abuse, Usage: a.books.View(), Activity: a.activity(), Misses: a.misses(), WhatIf: a.whatIf(), Costs: a.costs(), Refusals: refusal.NewView(a.refusals, a.facts.stores.calls), Notices: a.notices, Tickets: a.tickets, Billing: a.billing, Receipts: a.receipts(), Hooks: a.alerts.hooks,
		Sessions: a.sessions(), Budgets: a.budgets, Raise: a.facts.stores.budgets.Raise, Flush: a.books.View().Flush,
		API:          func() *httpapi.API { return a.api }, // a function: the API is made after its pages
		Reads:        a.reads,
		Models:       info,
		Stored:       a.archive.Export,
		Forget:       a.archive.Forget,
		Shares:       sharing.New(a.facts.stores.kept, a.facts.store.Key(), nil),
		Docs:         find,
		MailIsLogged: cfg.SMTP.Server == "",
		VideoModel:   a.videoModelID,
		VideosKept:   func() time.Duration { return a.settings.Load().Config.Video.Keep },
	})
	// One handler for all: the dashboard has a router of its own, and the API only needs to know which
	// paths lead there.
	byPattern, handler := map[string]http.Handler{}, customers.Handler()
	for _, pattern := range dashboard.Patterns() {
		byPattern[pattern] = handler
	}
	everybody := front.New(ui, front.Sources{
		SignedIn: customers.SignedIn, Joinable: func() bool { return a.logins.CurrentSettings().Open },
		Plans: a.plans, Models: info,
		Sample:    func() string { return a.settings.Load().Description.Names.Model },
		Docs:      find,
		Incidents: a.bulletin, Subscribers: a.subscribers, Closed: func() []steering.Order { return a.helm.Orders(steering.Maintenance) },
	})
	public := everybody.Handler()
	for _, pattern := range front.Patterns() {
		byPattern[pattern] = public
	}
	book = guide.New(ui, everybody.Frame, docs.Files())
	pages := book.Handler()
	for _, pattern := range guide.Patterns() {
		byPattern[pattern] = pages
	}
	byPattern[httpapi.NoSuchPage] = ui.NotFound()
	service := admin.NewService(a.backend(), a.reads, a.log)
	console := support.New(ui, support.Sources{
		Logins: a.logins, Roster: a.roster, Account: a.facts.index.Account, Admin: service, Docs: func(query string) webui.Findings { return book.Find(query, true) }, Reads: a.reads,
	}).Handler()
	for _, pattern := range support.Patterns() {
		byPattern[pattern] = console
	}
	byPattern[admin.Base+"/{path...}"] = service.Handler(a.roster)
	if a.stripe != nil {
		byPattern[stripe.WebhookPath] = a.stripe.Webhook(a.billing.Receive, a.log)
	}
	maps.Copy(byPattern, a.opts.Pages)
	return byPattern
}

// activity returns what reads the activity of accounts.
func (a *App) activity() *activity.Log {
	return activity.New(a.facts.stores.calls, refusal.NewView(a.refusals, a.facts.stores.calls), a.books.View().Flush)
}

// misses returns what says why calls did not find their prompts in caches.
func (a *App) misses() *misses.Log {
	return misses.New(a.facts.stores.calls, func(s *usage.Settlement) misses.Cache {
		upstream := ""
		if s.Trace != nil && len(s.Trace.Attempts) > 0 {
			upstream = s.Trace.Attempts[len(s.Trace.Attempts)-1].Upstream
		}
		return misses.CacheOf(a.settings.Load().CacheKind(s.Provider), upstream, claude.Keeps)
	})
}

// sessions returns what the owners of accounts read of their sessions and tags.
func (a *App) sessions() *session.Log {
	return session.New(a.facts.stores.calls, a.books.View().Flush, a.budgets)
}

// banners returns what pages show of the orders of staff, and of incidents while they last.
func banners(shown []steering.Order, current []incident.Incident, now time.Time) (list []webui.Banner) {
	for i := range shown {
		list = append(list, webui.Banner{Tone: shown[i].BannerTone(), Text: shown[i].Banner()})
	}
	for i := range current {
		if in := &current[i]; in.Running(now) {
			list = append(list, webui.Banner{Tone: in.Tone(now), Text: in.Banner(now), Path: in.Path(), Link: "Details"})
		}
	}
	return list
}

// newProvider returns the identity provider for signing in, or nil if none is configured.
func newProvider(cfg *config.Config) *signin.Provider {
	if cfg.OIDC.Issuer == "" {
		return nil
	}
	return signin.NewProvider(cfg.OIDC.Name, cfg.OIDC.Issuer, cfg.OIDC.ClientID, cfg.OIDC.ClientSecret.Reveal())
}
