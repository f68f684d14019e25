package app

import (
	"context"
	"slices"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/operate/alert"
)

// alerts is what tells operators and customers what has happened.
type alerts struct {
	hooks   *alert.Hooks   // of customers
	desk    *alert.Desk    // of the operator
	courier *alert.Courier // delivers for both
	watch   *alert.Watch
}

// openAlerts opens what tells operators and customers by webhook and mail.
func (a *App) openAlerts(_ context.Context, cfg *config.Config) error {
	node, err := a.facts.dir.Node()
	if err != nil {
		return err
	}
	store, settings := a.facts.stores.alerts, func() alert.Settings { return alertSettings(a.settings.Load().Config) }
	// Not the outbox, which forgets its mail when the process ends.
	sender, err := newSender(cfg, a)
	if err != nil {
		return err
	}
	a.alerts = alerts{hooks: alert.NewHooks(store, settings, nil), desk: alert.NewDesk(store, settings, nil), courier: alert.NewCourier(store, settings, sender, a.facts.index.Email, a.log, nil)}
	a.alerts.watch = alert.NewWatch(store, a.alerts.courier, node, a.sights, a.log, nil)
	return nil
}

// alertSettings returns the part of a configuration that alerts need.
func alertSettings(c *config.Config) (s alert.Settings) {
	for _, address := range c.Alerts.Email {
		s.Operator = append(s.Operator, alert.Endpoint{ID: alert.OperatorEndpoint(alert.Mail, address), Kind: alert.Mail, To: address})
	}
	for _, w := range c.Alerts.Webhooks {
		e := alert.Endpoint{ID: alert.OperatorEndpoint(alert.Web, w.Name), Kind: alert.Web, To: w.URL, Secret: alert.Secret(w.Secret.Reveal())}
		for _, t := range w.Events {
			e.Types = append(e.Types, alert.Type(t))
		}
		s.Operator = append(s.Operator, e)
	}
	s.AllowHosts = c.Alerts.AllowHosts
	return s
}

// sights returns what is wrong now and worth telling the operator. Nothing in it waits.
func (a *App) sights() []alert.Sight {
	s, node := a.settings.Load(), a.nodeName()
	return slices.Concat(alert.DownUpstreams(s.Routes.Standings(time.Now())),
		alert.GrowingJournal(node, a.books, s.Config.Alerts.JournalLag),
		alert.FillingDisk(node, a.facts.dir.Path(), s.Config.Alerts.DiskFreeMiB))
}
