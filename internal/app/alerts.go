package app

import (
	"context"
	"slices"
	"time"

	"sluice/internal/account/mail"
	"sluice/internal/app/config"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/runaway"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
)

// alerts is what reports to operators and customers what has happened.
type alerts struct {
	hooks   *alert.Hooks   // of customers
	history *alert.History // of the operator
	courier *alert.Courier // delivers for both
	watch   *alert.Watch
	budgets *budget.Watch
}

// openAlerts opens the alerts by webhook and mail.
func (a *App) openAlerts(_ context.Context, cfg *config.Config) error {
	node, err := a.facts.dir.Node()
	if err != nil {
		return err
	}
	store, settings := a.facts.stores.alerts, func() alert.Settings { return a.settings.Load().Alerts() }
	// Not the outbox, which forgets its mail when the process ends.
	sender, err := mail.New(cfg.SMTP.Server, cfg.SMTP.From, &mail.SMTPOptions{User: cfg.SMTP.User, Password: cfg.SMTP.Password.Reveal()}, a.log)
	if err != nil {
		return err
	}
	a.alerts = alerts{hooks: alert.NewHooks(store, settings, nil), history: alert.NewHistory(store, settings, nil), courier: alert.NewCourier(store, settings, sender, a.facts.index.Email, a.log, &alert.Options{Letter: a.subscribers.Letter, Origin: a.Origin})}
	a.alerts.watch = alert.NewWatch(store, a.alerts.courier, node, a.sights, a.log, nil)
	a.alerts.budgets = budget.NewWatch(a.facts.stores.budgets, a.facts.index.Account, &budget.WatchOptions{Tell: a.letters.Budget, Log: a.log})
	a.runaway = runaway.New(a.facts.stores.budgets, a.facts.accounts, a.facts.index.Account, &runaway.Options{Tell: a.letters.Runaway, Nodes: a.cluster.Live, Log: a.log})
	return nil
}

// watchVideo tells the runaway watch what a video has cost.
func (a *App) watchVideo(s *usage.Settlement) {
	if owner, charge := a.facts.index.Account(s.AccountID), s.Charge(); owner != nil && charge != nil {
		a.runaway.Saw(&runaway.Call{Account: owner, KeyID: s.KeyID, Model: s.ModelUsed, Start: s.At, Cost: *charge})
	}
}

// sights returns what is wrong now, for alerts to the operator. It does not block.
func (a *App) sights() []alert.Sight {
	s, node := a.settings.Load(), a.nodeName()
	return slices.Concat(alert.DownUpstreams(s.Routes.Targets(time.Now())),
		alert.GrowingJournal(node, a.books, s.Config.Alerts.JournalLag),
		alert.FillingDisk(node, a.facts.dir.Path(), s.Config.Alerts.DiskFreeMiB))
}
