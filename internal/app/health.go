package app

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/config"
	"sluice/internal/health"
)

// watchHealth makes the board that /readyz, the metrics and sluice doctor read.
//
// Calls continue while the database is down, so that alone keeps nobody away; what follows from it does, when its
// bound is reached: a full journal, or keys that nobody has been able to check for too long.
func (a *App) watchHealth(_ context.Context, cfg *config.Config) error {
	checks := []health.Check{
		{Name: "database", Look: a.facts.store.Look},
		{Name: "journal", Look: a.lookAtJournal, Cheap: true},
		{Name: "disk", Look: a.lookAtDisk},
		{Name: "mail", Look: a.outbox.Look},
		{Name: "storage", Look: a.files.Look},
		remark("billing", a.billing.Note),
		remark("configuration", a.configNote),
		remark("log", a.opts.Output.DroppedNote),
		remark("router", func() string { return a.settings.Load().Weights.Note() }),
	}
	if a.redis != nil {
		checks = append(checks, health.Check{Name: "redis", Look: a.lookAtRedis, Cheap: true})
	}
	if a.follower != nil && a.isShared(cfg) {
		var current func() bool
		if a.redis != nil {
			current = func() bool { return a.redis.State().Exact }
		}
		checks = append(checks,
			health.Check{Name: "accounts", Look: func(context.Context) health.Finding { return a.follower.Look(current) }},
			health.Check{Name: "scores", Look: a.abuse.Look})
	}
	if !a.facts.alone() {
		checks = append(checks, health.Check{Name: "cluster", Look: a.lookAtCluster})
	}
	a.health = health.New(a.log, checks...)
	return nil
}

// remark returns a check that never fails and may have something to say.
func remark(name string, note func() string) health.Check {
	return health.Check{Name: name, Cheap: true, Look: func(context.Context) health.Finding { return health.Finding{Message: note()} }}
}

// lookAtJournal says whether calls can be settled, and how long settlements have waited for the database.
func (a *App) lookAtJournal(context.Context) health.Finding {
	f := health.Finding{Message: a.books.Note()}
	if err := a.books.Ready(); err != nil {
		f = health.Failure(err)
	}
	f.Age = a.books.Lag()
	return f
}

// lookAtDisk says whether anything can be stored in the data folder.
func (a *App) lookAtDisk(context.Context) health.Finding {
	if err := a.facts.dir.Probe(); err != nil {
		return health.Finding{Failed: true, Message: "nothing can be stored in the data folder", Err: err}
	}
	return health.Finding{}
}

// lookAtRedis says by what the limits are counted. Without Redis this node goes by its share of them.
func (a *App) lookAtRedis(context.Context) (f health.Finding) {
	switch s := a.redis.State(); {
	case !s.Exact && s.Joining:
		f.Age = time.Since(s.Since)
		f.Message = fmt.Sprintf("away for %s: this node has just joined the others, has no share of the limits yet, and admits no calls", f.Age.Round(time.Second))
	case !s.Exact:
		f.Age = time.Since(s.Since)
		f.Message = fmt.Sprintf("away for %s: this node admits its share of each limit, as one of %d", f.Age.Round(time.Second), max(1, s.Nodes))
	case s.Joining:
		f.Message = "this node has just joined the others, and has no share of the limits yet for the case that Redis goes away"
	}
	return f
}

// lookAtCluster says whether this node is one of those that serve.
func (a *App) lookAtCluster(ctx context.Context) health.Finding {
	if err := a.cluster.Ready(ctx); err != nil {
		return health.Failure(err)
	}
	return health.Finding{Message: a.cluster.Note()}
}

// healthGauges returns the metrics of what the board knows. Reading them looks at nothing.
func (a *App) healthGauges() []gauge {
	seconds := func(name string) func() int64 {
		return func() int64 {
			results, _ := a.health.Results()
			for _, r := range results {
				if r.Name == name {
					return int64(r.Age)
				}
			}
			return 0
		}
	}
	return []gauge{
		{"sluice_ready", "1 if /readyz says that new work may be sent here.", func() int64 {
			if _, ready := a.health.Results(); ready {
				return 1
			}
			return 0
		}},
		{"sluice_database_age_seconds", "Seconds since the database answered; 0 while it does.", seconds("database")},
		{"sluice_journal_lag_seconds", "Seconds that settlements have been waiting for the database at most; 0 if none waits.", func() int64 { return int64(a.books.Lag().Seconds()) }},
		{"sluice_redis_age_seconds", "Seconds since limits were counted in Redis; 0 while they are, and without Redis.", seconds("redis")},
		{"sluice_mail_age_seconds", "Seconds since mail could be delivered; 0 while it can.", seconds("mail")},
		{"sluice_storage_age_seconds", "Seconds since files could be stored; 0 while they can.", seconds("storage")},
		{"sluice_scores_age_seconds", "Seconds since the units of other nodes were read.", seconds("scores")},
	}
}
