package app

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/kit/datadir"
	"sluice/internal/operate/alert"
	"sluice/internal/upstream/routing"
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
	a.alerts = alerts{hooks: alert.NewHooks(store, settings, nil), desk: alert.NewDesk(store, settings, nil), courier: alert.NewCourier(store, settings, sender, a.addressOf, a.log, nil)}
	a.alerts.watch = alert.NewWatch(store, a.alerts.courier, node, a.sights, a.log, nil)
	return nil
}

// addressOf returns where an account gets mail, or "" if there is no such account.
func (a *App) addressOf(accountID string) string {
	if acct := a.facts.index.Account(accountID); acct != nil {
		return acct.Email
	}
	return ""
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
	s := a.settings.Load()
	found := downUpstreams(s.Routes.Standings(time.Now()))
	node := a.nodeName()
	if lag := a.books.Lag(); lag > s.Config.Alerts.JournalLag {
		found = append(found, alert.Sight{
			Key: "journal " + node, Began: alert.JournalGrowing, Over: alert.JournalRecovered,
			Title: fmt.Sprintf("The journal grows: settlements have been waiting for the database for %s", lag.Round(time.Second)), OverTitle: "The journal is empty again",
			Data: map[string]any{"node": node, "lag_seconds": int64(lag.Seconds()), "records": a.books.Backlog().Records, "bytes": a.books.Backlog().Bytes},
		})
	}
	if least := uint64(s.Config.Alerts.DiskFreeMiB) << 20; least > 0 {
		if free, known := datadir.Free(a.facts.dir.Path()); known && free < least {
			found = append(found, alert.Sight{
				Key: "disk " + node, Began: alert.DiskFilling, Over: alert.DiskRecovered,
				Title: fmt.Sprintf("The disk fills: %d MiB are left", free>>20), OverTitle: "The disk has space again",
				Data: map[string]any{"node": node, "free_bytes": free},
			})
		}
	}
	return found
}

// downUpstreams returns a sight for each provider of which a target is down. One that fails as a whole would be
// many otherwise, one for each of its models.
func downUpstreams(standings []routing.Standing) (found []alert.Sight) {
	type target struct {
		Upstream string        `json:"upstream"`
		Key      string        `json:"key,omitempty"` // its last four
		State    routing.State `json:"state"`
	}
	down, all := map[string][]target{}, map[string]int{}
	var order []string
	for _, s := range standings {
		if all[s.Provider]++; !s.Down {
			continue
		}
		if down[s.Provider] == nil {
			order = append(order, s.Provider)
		}
		down[s.Provider] = append(down[s.Provider], target{s.Upstream, s.Key, s.State})
	}
	for _, name := range order {
		found = append(found, alert.Sight{
			Key: "upstream " + name, Began: alert.UpstreamDown, Over: alert.UpstreamUp,
			Title: fmt.Sprintf("Upstream %s is down: %d of %d targets", name, len(down[name]), all[name]), OverTitle: "Upstream " + name + " is up again",
			Data: map[string]any{"provider": name, "down": len(down[name]), "targets": all[name], "list": down[name][:min(len(down[name]), 20)]},
		})
	}
	return found
}
