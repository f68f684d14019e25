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

func TestBus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		one, _, _ := join(t, db, "one", Exact)
		two, wire, log := join(t, db, "two", Exact)
		var got []string
		var missed atomic.Int64
		for _, c := range []*Cluster{one, two} {
			c.Subscribe("names", func(payload string) { got = append(got, c.me.ID+" "+payload) }, func() { missed.Add(1) })
		}
		two.Subscribe("other", func(string) { t.Error("a message on another topic") }, nil)
		if two.Connected() || !strings.Contains(two.Note(), "do not arrive") {
			t.Errorf("Connected before Run; Note = %q", two.Note())
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { one.Run(ctx) })
		running.Go(func() { two.Run(ctx) })
		synctest.Wait()
		if missed.Load() != 2 || !two.Connected() {
			t.Errorf("%d were told at the start that they may have missed something, want 2", missed.Load())
		}
		publish := func(payload string) {
			t.Helper()
			if err := one.Publish(t.Context(), "names", payload); err != nil {
				t.Errorf("Publish = %v", err)
			}
		}
		publish("a b\nc")
		publish("")
		publish(strings.Repeat("x", MaxPayload))
		if len(got) != 3 || got[0] != "two a b\nc" || got[1] != "two " || len(got[2]) != 4+MaxPayload {
			t.Errorf("got %q, want three messages at the other node", got)
		}
		if err := one.Publish(t.Context(), "names", strings.Repeat("x", MaxPayload+1)); err == nil || !strings.Contains(err.Error(), "the limit is 7000") {
			t.Errorf("Publish of too much = %v", err)
		}

		// The connection breaks, and comes back when the database does.
		db.setAway(true)
		db.hangUp()
		time.Sleep(time.Minute)
		if two.Connected() || strings.Count(log.String(), "messages of other servers do not arrive") != 1 {
			t.Errorf("connected, or not one warning: %s", log)
		}
		db.setAway(false)
		time.Sleep(2 * lastPause)
		if missed.Load() != 4 || !two.Connected() || !strings.Contains(log.String(), "messages of other servers arrive again") {
			t.Errorf("%d were told that they may have missed something, want 4; %s", missed.Load(), log)
		}
		publish("again")
		if len(got) != 4 {
			t.Errorf("%d messages after the interruption, want 4", len(got))
		}
		// A database that is frozen does not hold up the caller.
		wire.frozen.Store(true)
		began := time.Now()
		if err := two.Publish(t.Context(), "names", "x"); err == nil || time.Since(began) > deadline {
			t.Errorf("Publish = %v after %v, want an error within %v", err, time.Since(began), deadline)
		}
		wire.frozen.Store(false)
		stop()
		running.Wait()
		one.Leave(t.Context())
		two.Leave(t.Context())
	})
}
