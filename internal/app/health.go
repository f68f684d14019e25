package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
	"sluice/internal/ledger/cluster"
	"sluice/internal/ledger/usage"
)

// watchHealth makes the board that /readyz, the listener, the metrics and sluice doctor read. The server is ready
// exactly if calls of accounts with limits are answered (docs/operations.md#readiness), so the checks that are not
// Aside are those by which admission refuses calls: the journal, the accounts, and this node's place and share.
//
// Calls continue while the database is down, so that alone keeps nobody away; what follows from it does, when its
// bound is reached: a full journal, or keys that nobody has been able to check for too long. The same goes for a full
// disk: calls continue in the space that the journal has reserved.
func (a *App) watchHealth(_ context.Context, cfg *config.Config) error {
	checks := []health.Check{
		{Name: "database", Look: a.facts.store.Look, Aside: true},
		{Name: "journal", Look: a.lookAtJournal, Cheap: true},
		{Name: "disk", Look: a.lookAtDisk, Aside: true, Holds: true},
		{Name: "mail", Look: a.outbox.Look, Aside: true},
		{Name: "storage", Look: a.files.Look, Aside: true},
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
			health.Check{Name: "accounts", Look: func(context.Context) health.Finding { return a.follower.Look(current) }, Cheap: true},
			health.Check{Name: "scores", Look: a.abuse.Look, Aside: true})
	}
	if !a.facts.alone() {
		checks = append(checks, health.Check{Name: "cluster", Look: a.lookAtCluster, Cheap: true})
	}
	a.health = health.New(a.log, checks...)
	a.door = newDoor(a.health.Unable, a.hasOthers, a.log)
	a.gate.OnUnable(a.door.nudge)
	return nil
}

// hasOthers reports whether other servers live on the same database, as far as this one knows.
func (a *App) hasOthers() bool { return a.cluster.Live() > 1 }

// remark returns a check that never fails and may have something to say.
func remark(name string, note func() string) health.Check {
	return health.Check{Name: name, Cheap: true, Look: func(context.Context) health.Finding { return health.Finding{Message: note()} }}
}

// lookAtJournal says whether calls can be settled, and how long settlements have waited for the database.
func (a *App) lookAtJournal(context.Context) health.Finding {
	f := health.Finding{Message: a.books.Note()}
	if err := a.books.Ready(); err != nil {
		f = health.Finding{Failed: true, Message: "settlements cannot be written, so calls are refused; the log says more", Err: err}
	}
	f.Age = a.books.Lag()
	return f
}

// lookAtDisk says whether anything can be stored in the data folder.
func (a *App) lookAtDisk(context.Context) health.Finding {
	if err := a.facts.dir.Probe(); err != nil {
		return health.Finding{Failed: true, Message: "nothing can be stored in the data folder; calls are answered until the journal is full", Err: err}
	}
	return health.Finding{}
}

// lookAtRedis says by what the limits are counted. Without Redis this node goes by its share of them, and without a
// share it refuses calls.
func (a *App) lookAtRedis(context.Context) (f health.Finding) {
	s := a.redis.State()
	if s.Exact {
		if s.Parts == 0 {
			f.Message = "this server has just joined the others: if Redis went away now, it would refuse calls"
		}
		return f
	}
	f.Age = time.Since(s.Since)
	since, until := fmt.Sprintf("away for %s", f.Age.Round(time.Second)), "Redis is back"
	if s.Lost {
		since, until = "Redis has lost its data less than a minute ago", "that minute is over"
	}
	if f.Failed = s.Parts == 0; f.Failed {
		f.Message = since + ": this server had just started, has no share of the limits yet, and refuses calls until " + until
		f.Err = errors.New(f.Message)
		return f
	}
	f.Message = fmt.Sprintf("%s: this server admits its share of each limit, as one of %d", since, s.Parts)
	return f
}

// lookAtCluster says whether this node is one of those that serve.
func (a *App) lookAtCluster(context.Context) health.Finding {
	if err := a.cluster.Ready(); err != nil {
		return health.Finding{Failed: true, Message: err.Error(), Err: err}
	}
	return health.Finding{Message: a.cluster.Note()}
}

// entrance is what admission asks before it lets a call in: whether it can be recorded, and whether this node has its
// place.
type entrance struct {
	*usage.Books
	cluster *cluster.Cluster
}

// Ready implements admission.Accounts. It takes no lock.
func (e entrance) Ready() error {
	if err := e.cluster.Lost(); err != nil {
		return fault.New(fault.Unavailable, "Another server has taken the place of this one, so it lets no call in. Try again shortly.").After(5 * time.Second).Because(err)
	}
	return e.Books.Ready()
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
		{"sluice_database_writable", "1 if the database stores what it is given, as far as is known; 0 while it is read-only, full or does not answer.", func() int64 {
			if a.facts.store.Writable() {
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
