package cluster

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// shift counts who works, and fails the test if two do at once.
type shift struct {
	*testing.T
	working atomic.Int64
	runs    atomic.Int64
	by      sync.Map // names, and when each began last
}

// begin returns what ends the work.
func (s *shift) begin(name string) (end func()) {
	if s.working.Add(1) > 1 {
		s.Errorf("%s works at the same time as another", name)
	}
	s.runs.Add(1)
	s.by.Store(name, time.Now())
	return func() { s.working.Add(-1) }
}

func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		s := &shift{T: t}
		var running sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		var nodes []*Cluster
		for _, id := range []string{"a", "b", "c"} {
			c, _, _ := join(t, db, id, Exact)
			nodes = append(nodes, c)
			running.Go(func() {
				c.Every("job", time.Minute, func(context.Context) {
					defer s.begin(id)()
					time.Sleep(20 * time.Second) // longer than a lease
				})(ctx)
			})
		}
		time.Sleep(10*time.Minute + 30*time.Second)
		if n := s.runs.Load(); n != 11 {
			t.Errorf("three nodes worked %d times in 10 minutes and a half, want 11", n)
		}
		stop()
		running.Wait()
		for _, c := range nodes {
			c.Leave(t.Context())
		}
	})
}

// A node that works every second asks for the job once a second.
func TestEveryAsksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		c, _, _ := join(t, db, "a", Exact)
		s := &shift{T: t}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute-time.Millisecond)
		defer stop()
		c.Every("job", time.Second, func(context.Context) { s.begin("a")() })(ctx)
		if n, asked := s.runs.Load(), db.claims.Load(); n != 60 || asked != 60 {
			t.Errorf("a node worked %d times in a minute and asked %d times, want 60 and 60", n, asked)
		}
		c.Leave(t.Context())
	})
}

// A node that dies at work is followed by another when its lease ends. One that stops hands over sooner.
func TestEveryTakesOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		s := &shift{T: t}
		one, wire, log := join(t, db, "one", Exact)
		two, _, _ := join(t, db, "two", Exact)
		work := func(name string) func(context.Context) {
			return func(ctx context.Context) {
				defer s.begin(name)()
				<-ctx.Done()
			}
		}
		first, stopFirst := context.WithCancel(t.Context())
		second, stopSecond := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { one.Every("job", time.Hour, work("one"))(first) })
		synctest.Wait()
		running.Go(func() { two.Every("job", time.Hour, work("two"))(second) })
		time.Sleep(5 * time.Minute)
		if _, ok := s.by.Load("two"); ok || s.runs.Load() != 1 {
			t.Errorf("the second worked while the first did")
		}
		// The first is cut off: its work ends before its lease does, and then the second begins.
		wire.frozen.Store(true)
		cut := time.Now()
		time.Sleep(giveUp + time.Millisecond)
		if s.working.Load() != 0 || !strings.Contains(log.String(), "work was stopped") {
			t.Errorf("the first works on %v after it was cut off", giveUp)
		}
		time.Sleep(lease + lookEvery - giveUp)
		began, ok := s.by.Load("two")
		if !ok || began.(time.Time).Sub(cut) < giveUp {
			t.Errorf("the second began %v after the first was cut off", began)
		}
		wire.frozen.Store(false)
		time.Sleep(time.Minute)
		if s.runs.Load() != 2 {
			t.Errorf("%d runs, want the second still at work", s.runs.Load())
		}
		stopSecond()
		time.Sleep(lookEvery + time.Second)
		if s.runs.Load() != 3 || s.working.Load() != 1 {
			t.Errorf("%d runs, %d at work; want the first again, after the second has stopped", s.runs.Load(), s.working.Load())
		}
		stopFirst()
		running.Wait()
		one.Leave(t.Context())
		two.Leave(t.Context())
	})
}

// Work that another has taken ends at the next renewal, whatever the clocks say.
func TestEveryTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		c, _, _ := join(t, db, "one", Exact)
		ended := make(chan time.Duration, 1)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			c.Every("job", time.Hour, func(ctx context.Context) {
				began := time.Now()
				<-ctx.Done()
				ended <- time.Since(began)
				stop()
			})(ctx)
		})
		synctest.Wait()
		db.mu.Lock()
		db.jobs["job"].holder = "somebody"
		db.mu.Unlock()
		if d := <-ended; d > renewEvery {
			t.Errorf("the work ended after %v, want at the next renewal", d)
		}
		running.Wait()
		if db.jobs["job"].holder != "somebody" {
			t.Error("the job was taken from the other")
		}
		c.Leave(t.Context())
	})
}

func TestEveryAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		ctx, stop := context.WithTimeout(t.Context(), 150*time.Second)
		defer stop()
		Single().Every("job", time.Minute, func(context.Context) { runs++ })(ctx)
		if runs != 3 {
			t.Errorf("%d runs in two minutes and a half, want 3", runs)
		}
	})
}
