package app

import (
	"context"

	"sluice/internal/api/httpserver"
	"sluice/internal/app/config"
	"sluice/internal/kit/health"
	"sluice/internal/ledger/cluster"
	"sluice/internal/ledger/usage"
)

// watchHealth makes the board that /readyz, the listener, the metrics and sluice doctor read. The server is ready
// exactly if calls of accounts with limits are answered (docs/care/readiness.md), so the checks that are not
// Aside are those by which admission refuses calls: the journal, the accounts, and this node's place and share.
//
// Calls continue while the database is down, so that alone keeps nobody away; what follows from it does, when its
// bound is reached: a full journal, or keys that nobody has been able to check for too long. The same goes for a full
// disk: calls continue in the space that the journal has reserved.
func (a *App) watchHealth(context.Context, *config.Config) error {
	checks := []health.Check{
		{Name: "database", Look: a.facts.store.Look, Aside: true},
		{Name: "journal", Look: a.books.Look, Cheap: true},
		{Name: "disk", Look: a.facts.dir.Look, Aside: true, Holds: true},
		{Name: "mail", Look: a.outbox.Look, Aside: true},
		{Name: "storage", Look: a.files.Look, Aside: true},
		health.Remark("billing", a.billing.Note),
		health.Remark("configuration", a.onDisk.Note),
		health.Remark("log", a.opts.Output.DroppedNote),
		health.Remark("router", func() string { return a.settings.Load().Weights.Note() }),
	}
	if a.redis != nil {
		checks = append(checks, health.Check{Name: "redis", Look: a.redis.Look, Cheap: true})
	}
	if a.follower != nil && a.cluster.Shared() {
		var current func() bool
		if a.redis != nil {
			current = func() bool { return a.redis.State().Exact }
		}
		checks = append(checks,
			health.Check{Name: "accounts", Look: func(context.Context) health.Finding { return a.follower.Look(current) }, Cheap: true},
			health.Check{Name: "scores", Look: a.abuse.Look, Aside: true})
	}
	if !a.facts.alone() {
		checks = append(checks, health.Check{Name: "cluster", Look: a.cluster.Look, Cheap: true})
	}
	a.health = health.New(a.log, checks...)
	a.intake = httpserver.NewIntake(a.health.Unable, a.hasOthers, a.log)
	a.gate.OnUnable(a.intake.Nudge)
	return nil
}

// hasOthers reports whether other servers live on the same database, as far as this one knows.
func (a *App) hasOthers() bool { return a.cluster.Live() > 1 }

// entrance is what admission asks before it lets a call in: whether it can be recorded, and whether this node has its
// place.
type entrance struct {
	*usage.Books
	cluster *cluster.Cluster
}

// Ready implements admission.Accounts. It takes no lock.
func (e entrance) Ready() error {
	if err := e.cluster.Admits(); err != nil {
		return err
	}
	return e.Books.Ready()
}
