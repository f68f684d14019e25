package cluster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// notes is a log that can be read while it is written.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// join starts a node on a link of its own, and fails the test if it may not.
func join(t *testing.T, db *database, id string, mode Mode) (*Cluster, *link, *notes) {
	t.Helper()
	l, log := &link{database: db}, &notes{}
	c, err := Join(t.Context(), l, id, mode, &Options{Version: "v1", Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatalf("Join(%s) = %v", id, err)
	}
	return c, l, log
}

// kill ends a node as kill -9 does: its row stays.
func kill(c *Cluster) {
	c.stop()
	c.beating.Wait()
}

// A second server waits for the first to go, and then refuses with what to do. Its data does not matter.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		first, second Mode
		want          string // in the error; empty: it may run
	}{
		{Alone, Alone, "give all of them redis: redis://host:6379, to share exact limits, or cluster: approximate, to divide each limit"},
		{Alone, Approximate, "it was started as the only one"},
		{Alone, Exact, "it was started as the only one"},
		{Approximate, Alone, "redis: redis://host:6379"},
		{Exact, Alone, "redis: redis://host:6379"},
		{Approximate, Approximate, ""},
		{Exact, Exact, ""},
		{Approximate, Exact, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			db := newDatabase()
			one, _, _ := join(t, db, "one", tt.first)
			defer one.Leave(t.Context())
			began := time.Now()
			two, err := Join(t.Context(), &link{database: db}, "two", tt.second, nil)
			if tt.want == "" {
				if err != nil {
					t.Fatalf("Join(%s beside %s) = %v", tt.second, tt.first, err)
				}
				two.Leave(t.Context())
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "node one, version v1, running since ") {
				t.Errorf("Join(%s beside %s) = %v, want an error with %q", tt.second, tt.first, err, tt.want)
			}
			if waited := time.Since(began); waited < patience || waited > patience+time.Second {
				t.Errorf("Join(%s beside %s) gave up after %v, want %v", tt.second, tt.first, waited, patience)
			}
			if err := one.Ready(); err != nil {
				t.Errorf("the first is not ready any more: %v", err)
			}
		})
	}
}

// A rolling restart: the new process starts before the old one has gone.
func TestWaitsForTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		one, _, _ := join(t, db, "one", Alone)
		go func() {
			time.Sleep(12 * time.Second)
			one.Leave(context.Background())
		}()
		began := time.Now()
		two, _, log := join(t, db, "two", Alone)
		defer two.Leave(t.Context())
		if waited := time.Since(began); waited < 12*time.Second || waited > 13*time.Second {
			t.Errorf("Join took %v, want 12 s", waited)
		}
		if strings.Count(log.String(), "waiting for it to stop") != 1 {
			t.Errorf("the log does not say once that it waits: %s", log)
		}
		if n := two.Nodes(); two.Live() != 1 || !n[0].Me {
			t.Errorf("Nodes = %+v, want this one alone", n)
		}
	})
}

// A node that was killed takes its own place at once. Another one takes it when it has been silent for long
// enough, and not at once when the database was away.
func TestKilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		one, _, _ := join(t, db, "one", Alone)
		kill(one)
		began := time.Now()
		one, _, _ = join(t, db, "one", Alone)
		if waited := time.Since(began); waited > 0 {
			t.Errorf("Join on the same data folder took %v, want none", waited)
		}
		kill(one)
		two, _, _ := join(t, db, "two", Alone)
		if waited := time.Since(began); waited < forget || waited > forget+time.Second {
			t.Errorf("Join on another data folder took %v, want %v", waited, forget)
		}
		// The database was away for a minute: two is silent, and lives.
		db.setAway(true)
		time.Sleep(time.Minute)
		db.setAway(false)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := Join(ctx, &link{database: db}, "three", Alone, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Join after an outage = %v, want it to wait for the other", err)
		}
		if err := two.Ready(); err != nil {
			t.Errorf("Ready after an outage = %v", err)
		}
		two.Leave(t.Context())
	})
}

// A node that was frozen, and whose place another has taken, says so and is not ready. When the other goes, it
// has its place again.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		one, wire, log := join(t, db, "one", Alone)
		defer one.Leave(t.Context())
		wire.frozen.Store(true)
		two, _, _ := join(t, db, "two", Alone)
		if err := one.Ready(); err != nil {
			t.Errorf("Ready while it cannot know = %v", err)
		}
		wire.frozen.Store(false)
		time.Sleep(2 * beatEvery)
		if err := one.Ready(); err == nil || !strings.Contains(err.Error(), "node two, has taken the place of this one") {
			t.Errorf("Ready = %v, want that another has taken its place", err)
		}
		if err := two.Ready(); err != nil {
			t.Errorf("Ready of the other = %v", err)
		}
		time.Sleep(10 * time.Second)
		if n := strings.Count(log.String(), "has lost its place and is not ready"); n != 1 {
			t.Errorf("the log says %d times that the place is lost, want once a minute", n)
		}
		two.Leave(t.Context())
		time.Sleep(2 * beatEvery)
		if err := one.Ready(); err != nil || !strings.Contains(log.String(), "and has one again") {
			t.Errorf("Ready after the other has gone = %v, %s", err, log)
		}
	})
}

// Two processes with copies of one data folder: the first does not fight for the place.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		one, _, log := join(t, db, "same", Approximate)
		defer one.Leave(t.Context())
		two, _, _ := join(t, db, "same", Approximate)
		defer two.Leave(t.Context())
		time.Sleep(time.Minute)
		if one.Ready() == nil || !strings.Contains(log.String(), "delete the file node") {
			t.Errorf("Ready = nil, want the first to have lost its place; %s", log)
		}
		if rank, n := one.Share(); n != 0 {
			t.Errorf("Share = %d of %d, want none", rank, n)
		}
		if err := two.Ready(); err != nil {
			t.Errorf("Ready of the second = %v", err)
		}
	})
}

// Nodes that start together share from the beginning; one that comes later waits for its part; one that
// restarts has it at once.
func TestApproximate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		var nodes [3]*Cluster
		var joining sync.WaitGroup
		for i, id := range []string{"a", "b", "c"} {
			joining.Go(func() { nodes[i], _, _ = join(t, db, id, Approximate) })
		}
		joining.Wait()
		for i, c := range nodes {
			if rank, n := c.Share(); rank != i || n != 3 || c.Ready() != nil {
				t.Errorf("Share = %d of %d, %v, want %d of 3, and to be ready", rank, n, c.Ready(), i)
			}
			if got := c.Nodes(); c.Live() != 3 || !got[i].Me || len(got) != 3 {
				t.Errorf("Nodes = %+v, want 3", got)
			}
			if want := "limits are approximate: each of 3 servers admits its share of them"; !strings.HasPrefix(c.Note(), want) {
				t.Errorf("Note = %q, want %q", c.Note(), want)
			}
		}
		began := time.Now()
		d, _, _ := join(t, db, "d", Approximate)
		if err := d.Ready(); time.Since(began) > time.Second || !errors.Is(err, errNoShare) {
			t.Errorf("Ready of one that comes later = %v after %v, want that it has no part yet, at once", err, time.Since(began))
		}
		time.Sleep(span + 2*beatEvery)
		if rank, n := d.Share(); rank != 3 || n != 4 || d.Ready() != nil {
			t.Errorf("Share a minute later = %d of %d, want 3 of 4", rank, n)
		}
		// A restart, orderly or not, changes nothing for anybody.
		nodes[0].Leave(t.Context())
		time.Sleep(5 * time.Second)
		nodes[0], _, _ = join(t, db, "a", Approximate)
		kill(nodes[1])
		nodes[1], _, _ = join(t, db, "b", Approximate)
		for i, c := range append(nodes[:], d) {
			if rank, n := c.Share(); rank != i || n != 4 {
				t.Errorf("Share after a restart = %d of %d, want %d of 4", rank, n, i)
			}
		}
		// One that stays away loses its part.
		nodes[0].Leave(t.Context())
		time.Sleep(span + absent)
		if rank, n := d.Share(); rank != 2 || n != 3 {
			t.Errorf("Share without the first = %d of %d, want 2 of 3", rank, n)
		}
		for _, c := range append(nodes[1:], d) {
			c.Leave(t.Context())
		}
		if len(db.state.Nodes) != 0 {
			t.Errorf("rows remain: %+v", db.state.Nodes)
		}
	})
}

// A database that answers nothing keeps nobody from leaving.
func TestLeaveFrozen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, wire, log := join(t, newDatabase(), "one", Alone)
		wire.frozen.Store(true)
		time.Sleep(time.Minute)
		began := time.Now()
		c.Leave(t.Context())
		if waited := time.Since(began); waited > 10*time.Second || !strings.Contains(log.String(), "could not be removed from the list") {
			t.Errorf("Leave took %v, want seconds, and a warning: %s", waited, log)
		}
	})
}

// A cluster of one is always ready, has everything, and costs nothing.
func TestSingle(t *testing.T) {
	t.Parallel()
	c := Single()
	if err := c.Ready(); err != nil || c.Note() != "" || c.Live() != 1 || !c.Connected() || c.Views() != nil {
		t.Errorf("Ready, Note, Nodes, Connected = %v, %q, %+v, %t", err, c.Note(), c.Nodes(), c.Connected())
	}
	if rank, n := c.Share(); rank != 0 || n != 1 {
		t.Errorf("Share = %d of %d, want all", rank, n)
	}
	if err := c.Publish(t.Context(), "t", "x"); err != nil {
		t.Errorf("Publish = %v", err)
	}
	c.Subscribe("t", nil, nil)
	c.Run(t.Context())
	c.Leave(t.Context())
}
