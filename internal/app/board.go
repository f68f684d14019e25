package app

import (
	"context"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/operate/overview"
)

// openBoard makes the board of what the service did in the last hours. What it samples is there when it is run.
func (a *App) openBoard(context.Context, *config.Config) error {
	opts := &overview.Options{Log: a.log}
	if !a.facts.alone() {
		node, err := a.facts.dir.Node()
		if err != nil {
			return err
		}
		opts.Store, opts.Node = a.facts.stores.service, node
	}
	a.board = overview.New(a.gauges, opts)
	a.record = overview.NewRecord(a.board, a.facts.stores.service, a.log)
	a.reports = overview.NewReporter(a.board, overview.Sources{
		Accounts: a.facts.index.Each, Account: a.facts.index.Account, Revenue: a.facts.stores.payments.Revenue,
		Videos: func(now time.Time) (int, time.Duration, error) { return a.videos.Queue(now) },
		Nodes:  func() int { return max(a.cluster.Live(), 1) },
	})
	return nil
}

// gauges returns what the board samples.
func (a *App) gauges() overview.Gauges {
	s := a.settings.Load()
	return overview.Gauges{
		Running: a.ledger.Running(), Streams: a.line.Streams(), Journal: a.books.Backlog().Records,
		Refused: a.gate.AllRefused(),
		Targets: s.Routes.Targets(time.Now()), Models: overview.HealthOf(s.Catalog, s.Health),
	}
}
