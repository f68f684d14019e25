package overview

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/routing"
)

// calendar is a database with days.
type calendar struct {
	mu    sync.Mutex
	days  map[Subject]map[int64]Span
	added time.Time
	away  error
	reads int
}

func (c *calendar) AddDays(_ context.Context, before int64, sums func(time.Time) ([]HealthDay, time.Time)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != nil {
		return c.away
	}
	days, to := sums(c.added)
	for _, d := range days {
		if c.days[d.Subject] == nil {
			c.days[d.Subject] = map[int64]Span{}
		}
		sum := c.days[d.Subject][d.Day]
		sum.Merge(&d.Span)
		c.days[d.Subject][d.Day] = sum
	}
	for _, all := range c.days {
		for day := range all {
			if day < before {
				delete(all, day)
			}
		}
	}
	c.added = to
	return nil
}

func (c *calendar) Days(_ context.Context, from int64, yield func(HealthDay)) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	for s, days := range c.days {
		for day, span := range days {
			if day >= from {
				yield(HealthDay{s, day, span})
			}
		}
	}
	return c.added, c.away
}

// Every call counts once in the history, before and after it is added to its day, whichever node adds it, and after
// both have.
func TestRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, days := &shared{}, &calendar{days: map[Subject]map[int64]Span{}}
		log := slog.New(slog.DiscardHandler)
		var gauges atomic.Pointer[Gauges]
		gauges.Store(&Gauges{
			Targets: []routing.TargetHealth{{Provider: "p", Upstream: "u"}},
			Models:  []ModelHealth{{"m", "healthy"}, {"idle", "healthy"}, {"broken", "down"}, {"half", "degraded"}},
		})
		one := New(func() Gauges { return *gauges.Load() }, &Options{Store: db, Node: "one", Log: log})
		two := New(func() Gauges { return Gauges{} }, &Options{Store: db, Node: "two", Log: log})
		records := []*Record{NewRecord(one, days, log), NewRecord(two, days, log)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go one.Run(ctx)
		go two.Run(ctx)
		settle := func(b *Board, end usage.End, status int) {
			s := call("a", time.Now(), time.Second, end)
			s.ModelUsed, s.Status = "m", status
			b.Settled([]usage.Settlement{s})
		}
		total := func(r *Record, name string) (sum Span) {
			for _, span := range r.History(ctx)[Subject{ModelKind, name}] {
				sum.Merge(&span)
			}
			return sum
		}
		settle(one, usage.EndComplete, 200)
		settle(two, usage.EndFailed, 503)
		settle(two, usage.EndFailed, 400) // the caller's own fault
		for step := range 6 {
			time.Sleep(90 * time.Second)
			synctest.Wait()
			for i, r := range records {
				if got := total(r, "m"); got.Calls != 3 || got.Failed != 1 || got.Tokens != 15 || got.WroteMS != 1500 {
					t.Errorf("step %d, node %d: the model has %+v, want 3 calls, 1 of them failed", step, i+1, got)
				}
			}
			records[step%2].Add(ctx)
		}
		if got := total(records[0], "broken"); got.Looks == 0 || got.Down != got.Looks {
			t.Errorf("the broken model has %+v, want it down at every look", got)
		}
		for name, want := range map[string]float64{"idle": 1, "broken": 0, "half": 1, "m": 1 - 1.0/3} {
			span := total(records[0], name)
			if share, known := span.Uptime(); !known || math.Abs(share-want) > 1e-9 {
				t.Errorf("the uptime of %s is %v, %t, want %v", name, share, known, want)
			}
		}
		if got := records[0].Lately(ctx, "m", 36); got[35].Calls+got[34].Calls+got[33].Calls != 3 {
			t.Errorf("lately the model had %+v calls", got)
		}
		// Days of long ago go, and while the database is away the history stays.
		gauges.Store(&Gauges{})
		days.mu.Lock()
		days.away = errors.New("away")
		days.mu.Unlock()
		time.Sleep(time.Minute)
		if got := total(records[0], "m"); got.Calls != 3 {
			t.Errorf("while the database is away, the model has %+v", got)
		}
		days.mu.Lock()
		days.away = nil
		reads := days.reads
		days.mu.Unlock()
		for range 1000 {
			records[0].History(ctx)
		}
		if days.reads > reads+1 {
			t.Errorf("a thousand readers cause %d reads", days.reads-reads)
		}
		stop() // the boards have seen enough
		time.Sleep(91 * 24 * time.Hour)
		records[0].Add(ctx)
		if got := total(records[0], "m"); got.Calls != 0 || len(days.days[Subject{ModelKind, "m"}]) != 0 {
			t.Errorf("after 91 days the model has %+v and %d days", got, len(days.days[Subject{ModelKind, "m"}]))
		}
	})
}

// A model that is one too many has no figures of its own.
func TestMostModels(t *testing.T) {
	t.Parallel()
	b := New(func() Gauges { return Gauges{} }, nil)
	for i := range mostModels + 10 {
		s := call("a", time.Now(), time.Second, usage.EndComplete)
		s.ModelUsed = string(rune('a'+i%26)) + time.Duration(i).String()
		b.Settled([]usage.Settlement{s})
	}
	most := 0
	for _, m := range b.Minutes(t.Context()) {
		most = max(most, len(m.Models))
	}
	if most > mostModels {
		t.Errorf("a minute has %d models, want at most %d", most, mostModels)
	}
}
