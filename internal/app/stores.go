package app

import (
	"context"
	"time"

	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
	alertstore "sluice/internal/store/sqlstore/alerts"
	"sluice/internal/store/sqlstore/budgets"
	"sluice/internal/store/sqlstore/calls"
	"sluice/internal/store/sqlstore/kept"
	"sluice/internal/store/sqlstore/logins"
	"sluice/internal/store/sqlstore/nodes"
	"sluice/internal/store/sqlstore/payments"
	"sluice/internal/store/sqlstore/service"
	"sluice/internal/store/sqlstore/tickets"
	"sluice/internal/store/sqlstore/videos"
)

// stores are the parts of a database. Each implements what the packages that it is for need.
type stores struct {
	accounts *accounts.Store
	alerts   *alertstore.Store
	budgets  *budgets.Store
	calls    *calls.Store
	kept     *kept.Store
	logins   *logins.Store
	tickets  *tickets.Store
	nodes    *nodes.Store
	payments *payments.Store
	service  *service.Store
	videos   *videos.Store
}

// storesOf returns the parts of a database.
func storesOf(db *sqlstore.Store) stores {
	return stores{
		accounts: accounts.New(db),
		alerts:   alertstore.New(db),
		budgets:  budgets.New(db),
		calls:    calls.New(db),
		kept:     kept.New(db),
		logins:   logins.New(db),
		tickets:  tickets.New(db),
		nodes:    nodes.New(db),
		payments: payments.New(db),
		service:  service.New(db),
		videos:   videos.New(db),
	}
}

// dropExpired deletes what has expired in the database.
func (a *App) dropExpired(ctx context.Context) {
	signins := sqlstore.Expiring{What: "sessions, links and attempts", AtOnce: 1, Drop: func(ctx context.Context, _ time.Time, _ int) (int, error) {
		return 0, a.logins.DropExpired(ctx)
	}}
	sqlstore.DropExpired(ctx, sqlstore.NotDropped(a.log), append(a.facts.stores.expiring(), signins)...)
}

// expiring returns what expires in any part.
func (s *stores) expiring() (all []sqlstore.Expiring) {
	for _, part := range []interface{ Expiring() []sqlstore.Expiring }{s.kept, s.service, s.alerts, s.calls, s.budgets} {
		all = append(all, part.Expiring()...)
	}
	return all
}
