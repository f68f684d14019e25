package app

import (
	"context"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/ledger/usage"
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
	a.reports = overview.NewDesk(a.board, overview.Sources{
		Accounts: a.facts.index.Each, Account: a.facts.index.Account, Revenue: a.facts.stores.payments.Revenue,
		Videos: func(now time.Time) (int, time.Duration, error) { return a.videos.Queue(now) },
		Nodes:  a.aliveNodes,
	})
	return nil
}

// gauges returns what the board samples.
func (a *App) gauges() overview.Gauges {
	return overview.Gauges{
		Running: a.ledger.Running(), Streams: a.line.Streams(), Journal: a.books.Backlog().Records,
		Refused: a.gate.AllRefused(),
		Targets: a.settings.Load().Routes.Standings(time.Now()), Models: a.modelHealth(),
	}
}

// aliveNodes returns how many servers are on the database.
func (a *App) aliveNodes() int {
	if a.facts.alone() {
		return 1
	}
	n := 0
	for _, node := range a.cluster.Nodes() {
		if node.Alive {
			n++
		}
	}
	return max(n, 1)
}

// watchedStore tells the board of settlements when they are in the database: while a call is served, the board costs
// nothing.
type watchedStore struct {
	usage.Archive
	board *overview.Board
}

// RecordSettlements implements usage.Archive.
func (w watchedStore) RecordSettlements(ctx context.Context, list []usage.Settlement) error {
	err := w.Archive.RecordSettlements(ctx, list)
	if err == nil {
		w.board.Settled(list)
	}
	return err
}
