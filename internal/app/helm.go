package app

import (
	"context"

	"sluice/internal/app/config"
	"sluice/internal/operate/steering"
)

// topicOrders is what nodes tell each other when staff has given an order.
const topicOrders = "orders"

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
