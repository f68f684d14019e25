package routing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// door is an adapter whose upstream can be connected to, or not. Its calls are made by the tests.
type door struct {
	closed atomic.Bool
	tries  atomic.Int64
}

func (*door) Open(context.Context, *provider.Call) (provider.Stream, error) {
	return nil, fault.New(fault.Internal, "not called here")
}

func (d *door) Reach(context.Context) error {
	d.tries.Add(1)
	if d.closed.Load() {
		return errors.New("connection refused")
	}
	return nil
}

// watched returns routes with a model of two targets behind doors. They are watched
// until the test ends.
func watched(t *testing.T) (r *Routes, m *catalog.Model, a, b *door) {
	t.Helper()
	a, b = &door{}, &door{}
	c, err := catalog.New([]catalog.Model{{ID: "m", Plan: account.Free, ContextLength: 1000, MaxOutput: 100, Targets: []catalog.Target{{Provider: "a", Upstream: "u", Weight: 1}, {Provider: "b", Upstream: "u", Weight: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	r = New(c, []Provider{{Name: "a", Keys: []Key{{Adapter: a}}}, {Name: "b", Keys: []Key{{Adapter: b}}}}, nil)
	m, _ = c.Lookup("m")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, func() *Routes { return r })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r, m, a, b
}

// call makes a call of the model at the first target that takes it, which ends with err; io.EOF: it is answered.
func call(r *Routes, m *catalog.Model, err error) {
	p := r.Plan(m)
	at, ok := p.Next(time.Now(), func(*catalog.Model) bool { return true })
	if !ok {
		return
	}
	if errors.Is(err, io.EOF) {
		at.Answered(time.Now())
	}
	at.Ended(time.Now(), err)
}

// A model whose targets all refuse is not healthy after 30 seconds, and healthy again 30 seconds after they answer,
// whether anybody calls it or not (docs/providers/routing.md#down).
func TestDown(t *testing.T) {
	t.Parallel()
	for _, calls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, m, a, b := watched(t)
			healthAfter := func(d time.Duration, err error) string {
				for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(time.Second) {
					if calls {
						call(r, m, err)
					}
				}
				synctest.Wait()
				return r.Describe(m, time.Now())
			}
			refused := provider.Unreachable(errors.New("connection refused"))
			if got := healthAfter(5*time.Minute, io.EOF); got != "healthy" {
				t.Fatalf("calls %t: at first = %s, want healthy", calls, got)
			}
			for range 3 {
				a.closed.Store(true)
				b.closed.Store(true)
				if got := healthAfter(30*time.Second, refused); got != "down" {
					t.Errorf("calls %t: 30 s after all refuse = %s, want down", calls, got)
				}
				if got := healthAfter(time.Hour, refused); got != "down" {
					t.Errorf("calls %t: an hour after all refuse = %s, want down", calls, got)
				}
				a.closed.Store(false)
				b.closed.Store(false)
				if got := healthAfter(30*time.Second, io.EOF); got != "healthy" {
					t.Errorf("calls %t: 30 s after they answer = %s, want healthy", calls, got)
				}
			}
			b.closed.Store(true)
			if got := healthAfter(30*time.Second, io.EOF); got != "degraded" && !calls {
				t.Errorf("30 s after one refuses = %s, want degraded", got)
			}
		})
	}
}

// What is told does not change with each call: a target that answers now and then is not up and down every second.
func TestDownStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, m, _, _ := watched(t)
		told, breakers := r.Describe(m, time.Now()), r.Of(m, time.Now())
		changes, moves := 0, 0
		for i := range 600 {
			err := error(provider.Garbled(io.ErrUnexpectedEOF))
			if i%3 == 0 {
				err = io.EOF
			}
			call(r, m, err)
			time.Sleep(time.Second)
			if got := r.Describe(m, time.Now()); got != told {
				told, changes = got, changes+1
			}
			now := r.Of(m, time.Now())
			for j := range now {
				if now[j].Callable() != breakers[j].Callable() {
					moves++
				}
			}
			breakers = now
		}
		if changes*4 > moves {
			t.Errorf("the health of a model with two calls of three failing changed %d times in ten minutes and its breakers %d times, want a quarter of that at most", changes, moves)
		}
	})
}

// An upstream that takes connections and fails every call is down, also for the five minutes after the last call.
func TestConnectionsAreNoAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, m, _, _ := watched(t)
		broken := provider.Refused(http.StatusInternalServerError, nil, nil)
		for range 40 {
			call(r, m, broken)
			time.Sleep(time.Second)
		}
		time.Sleep(4 * time.Minute)
		if got := r.Describe(m, time.Now()); got != "down" {
			t.Errorf("four minutes after calls have failed = %s, want down", got)
		}
		time.Sleep(90 * time.Second)
		if got := r.Describe(m, time.Now()); got != "healthy" {
			t.Errorf("half a minute after they are forgotten = %s, want healthy", got)
		}
		for range 40 {
			call(r, m, broken)
			time.Sleep(time.Second)
		}
		for range 60 { // by chance at one of two targets, each of which needs five
			call(r, m, io.EOF)
			time.Sleep(time.Second)
		}
		if got := r.Describe(m, time.Now()); got != "healthy" {
			t.Errorf("after sixty calls that are answered = %s, want healthy", got)
		}
	})
}

// Nobody connects to an upstream that is in use, and seldom to one that is well.
func TestReachIsSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, a, _ := watched(t)
		time.Sleep(time.Hour)
		if n := a.tries.Load(); n < 200 || n > 240 {
			t.Errorf("%d connections in an hour without calls, want one in 15 seconds", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r, m, a, b := watched(t)
		for range 600 {
			call(r, m, io.EOF)
			time.Sleep(time.Second)
		}
		if n := a.tries.Load() + b.tries.Load(); n > 5 {
			t.Errorf("%d connections in ten minutes with a call a second, want next to none", n)
		}
	})
}
