package app

import (
	"context"

	"sluice/internal/app/config"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/steering"
)

// The topics of what nodes tell each other when staff has given an order, or changed an incident.
const (
	topicOrders    = "orders"
	topicIncidents = "incidents"
)

// openHelm reads what staff has decided about the running service.
func (a *App) openHelm(ctx context.Context, _ *config.Config) error {
	opts := &steering.Options{Shared: !a.facts.alone(), Log: a.log}
	if tell := a.tellNodes(topicOrders); tell != nil {
		opts.Tell = func(ctx context.Context) error { return tell(ctx, "") }
	}
	opts.Moved = a.reapply
	a.helm = steering.New(a.facts.stores.service, opts)
	a.cluster.Subscribe(topicOrders, func(string) { a.helm.Nudge() }, a.helm.Nudge)
	return a.helm.Read(ctx)
}

// openIncidents reads what staff has written about outages and planned work.
func (a *App) openIncidents(ctx context.Context, _ *config.Config) error {
	opts := &incident.Options{Shared: !a.facts.alone(), Origin: a.Origin, Log: a.log}
	if tell := a.tellNodes(topicIncidents); tell != nil {
		opts.Tell = func(ctx context.Context) error { return tell(ctx, "") }
	}
	a.bulletin = incident.New(a.facts.stores.service, opts)
	a.subscribers = incident.NewSubscribers(a.facts.stores.alerts, a.outbox, a.logins, func() incident.Settings {
		return incident.Settings{Origin: a.Origin(), Brand: a.settings.Load().Config.ShownName(), Key: a.facts.store.Key()}
	})
	a.cluster.Subscribe(topicIncidents, func(string) { a.bulletin.Nudge() }, a.bulletin.Nudge)
	return a.bulletin.Read(ctx)
}

// reapply gives models the tiers that staff has decided on, and the prices that were imported. It works like a reload, with the
// configuration in force.
func (a *App) reapply() {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	old := a.settings.Load()
	if old.Routes == nil {
		return // the start has not come to openCatalog, which does the same
	}
	next := *old // a copy, because requests read old; it shares the adapters
	a.joinCatalog(old, &next)
	a.apply(old, &next)
}
