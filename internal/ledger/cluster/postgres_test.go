package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/cluster"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience only ends a test that hangs.
const patience = time.Minute

// bound is what something may take. In the short form of a test, beside which others run, it only has to end.
func bound(soak time.Duration) time.Duration {
	if os.Getenv("SLUICE_SOAK") == "" {
		return patience
	}
	return soak
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waiting for %s took more than %v", what, patience)
		}
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// place is where a node can run: a connection to the database and a log.
type place struct {
	store *alltest.Store
	id    string
	log   *lines
}

func newPlace(t *testing.T, database, id string) *place {
	t.Helper()
	s, err := alltest.Open(t.Context(), database, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &place{s, id, &lines{}}
}

func (p *place) join(ctx context.Context, mode cluster.Mode) (*cluster.Cluster, error) {
	return cluster.Join(ctx, p.store, p.id, mode, &cluster.Options{Version: "v1", Log: slog.New(slog.NewTextHandler(p.log, nil))})
}

// start joins, and leaves when the test ends.
func (p *place) start(t *testing.T, mode cluster.Mode) *cluster.Cluster {
	t.Helper()
	c, err := p.join(t.Context(), mode)
	if err != nil {
		t.Fatalf("Join = %v", err)
	}
	t.Cleanup(func() { c.Leave(context.Background()) })
	return c
}

// Of servers that start at the same moment, one wins. When it leaves, another does.
func TestPostgreSQLAlone(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	winners := make(chan *cluster.Cluster, 4)
	var joining sync.WaitGroup
	var places []*place
	for i := range 4 {
		p := newPlace(t, database, fmt.Sprint("node-", i))
		places = append(places, p)
		joining.Go(func() {
			if c, err := p.join(ctx, cluster.Alone); err == nil {
				winners <- c
			} else if ctx.Err() == nil {
				t.Errorf("Join = %v, want it to wait", err)
			}
		})
	}
	waiting := func() (n int) {
		for _, p := range places {
			n += strings.Count(p.log.String(), "waiting for it to stop")
		}
		return n
	}
	first := <-winners
	eventually(t, "the others to wait", func() bool { return waiting() == 3 })
	if len(winners) != 0 {
		t.Error("a second server runs beside the first")
	}
	first.Leave(t.Context())
	second := <-winners
	if n := second.Nodes(); second.Live() != 1 || n[0].Version != "v1" || n[0].Mode != cluster.Alone {
		t.Errorf("Nodes = %+v, want one", n)
	}
	cancel()
	joining.Wait()
	if len(winners) != 0 {
		t.Error("a third server runs beside the second")
	}
	second.Leave(t.Context())
}

// Three nodes that start together admit the limit and not one call more. One that is killed takes its place
// again at once.
func TestPostgreSQLApproximate(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	w, wired := wiretest.To(t, database)
	places := []*place{newPlace(t, database, "a"), newPlace(t, wired, "b"), newPlace(t, database, "c")}
	var nodes [3]*cluster.Cluster
	var joining sync.WaitGroup
	for i, p := range places {
		joining.Go(func() {
			var err error
			if nodes[i], err = p.join(t.Context(), cluster.Approximate); err != nil {
				t.Errorf("Join = %v", err)
			}
		})
	}
	joining.Wait()
	if t.Failed() {
		return
	}
	for i, c := range nodes {
		if rank, n := c.Share(); rank != i || n != 3 {
			t.Errorf("Share = %d of %d, want %d of 3", rank, n, i)
		}
	}
	limits := account.Limits{RequestsPerMinute: 10, TokensPerMinute: account.Unlimited, Concurrent: account.Unlimited}
	var admitted atomic.Int64
	var calling sync.WaitGroup
	for _, c := range nodes {
		ledger := admission.NewDivided(admission.NewMemory(nil), c.Views)
		for range 67 {
			calling.Go(func() {
				if _, _, o := ledger.Take("acct_1", limits, admission.Cost{RequestMilli: 1000}); o == nil {
					admitted.Add(1)
				}
			})
		}
	}
	calling.Wait()
	if admitted.Load() != 10 {
		t.Errorf("three nodes admitted %d of 201 calls, want 10", admitted.Load())
	}

	w.Cut() // as if b were killed: it cannot even say goodbye
	nodes[1].Leave(t.Context())
	began := time.Now()
	again := newPlace(t, database, "b").start(t, cluster.Approximate)
	if rank, n := again.Share(); rank != 1 || n != 3 || again.Ready() != nil {
		t.Errorf("Share of the restarted one after %v = %d of %d, want 1 of 3", time.Since(began), rank, n)
	}
	nodes[0].Leave(t.Context())
	eventually(t, "the departure to be known", func() bool { return nodes[2].Live() == 2 })
	nodes[2].Leave(t.Context())
}

// Work runs on one of three nodes at a time, and goes on when that one stops.
func TestPostgreSQLEvery(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	var working, runs atomic.Int64
	var running sync.WaitGroup
	defer running.Wait()
	by := make(chan int, 1000)
	const period = 200 * time.Millisecond
	began := time.Now()
	var stops [3]context.CancelFunc
	for i := range 3 {
		p := newPlace(t, database, fmt.Sprint(i))
		c := p.start(t, cluster.Exact)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		stops[i] = stop
		running.Go(func() {
			c.Every("job", period, func(ctx context.Context) {
				if working.Add(1) > 1 {
					t.Error("two work at once")
				}
				runs.Add(1)
				by <- i
				for range 20 { // takes a while
					_ = p.store.Ping(ctx) // fails when the test ends
				}
				working.Add(-1)
			})(ctx)
		})
	}
	for range 5 {
		<-by
	}
	// The first run may be as early as the first node.
	if n, most := runs.Load(), int64(time.Since(began)/period)+1; n > most {
		t.Errorf("%d runs in %v, want at most one in %v", n, time.Since(began), period)
	}
	stops[0]()
	stops[1]()
	eventually(t, "the third node to work", func() bool { return <-by == 2 })
	stops[2]()
}

func TestPostgreSQLBus(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	w, wired := wiretest.To(t, database)
	one, two := newPlace(t, database, "one").start(t, cluster.Exact), newPlace(t, wired, "two").start(t, cluster.Exact)
	got := make(chan string, 100)
	var missed atomic.Int64
	two.Subscribe("accounts", func(payload string) { got <- payload }, func() { missed.Add(1) })
	one.Subscribe("accounts", func(payload string) { t.Errorf("the sender gets its own message %q", payload) }, nil)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { one.Run(ctx) })
	running.Go(func() { two.Run(ctx) })
	eventually(t, "the connection", func() bool { return two.Connected() && one.Connected() })
	for _, payload := range []string{"acct_1", "", "two words\nand 'a' line", strings.Repeat("é", cluster.MaxPayload/2)} {
		if err := one.Publish(t.Context(), "accounts", payload); err != nil {
			t.Fatalf("Publish = %v", err)
		}
		if text := <-got; text != payload {
			t.Errorf("got %q, want %q", text, payload)
		}
	}

	// The connection freezes. This is noticed, and nothing that is sent there waits for long.
	before := missed.Load()
	thaw := w.Freeze()
	began := time.Now()
	if err := two.Publish(t.Context(), "accounts", "x"); err == nil {
		t.Error("Publish over a frozen connection = nil, want an error")
	}
	if d := time.Since(began); d > bound(10*time.Second) {
		t.Errorf("Publish over a frozen connection took %v", d)
	}
	eventually(t, "the frozen connection to be noticed", func() bool { return !two.Connected() })
	t.Logf("a frozen connection was noticed after %v", time.Since(began).Round(time.Millisecond))
	thaw()
	eventually(t, "the next connection", two.Connected)
	if missed.Load() <= before {
		t.Error("subscribers are not told that they may have missed something")
	}
	eventually(t, "a message", func() bool {
		if err := one.Publish(t.Context(), "accounts", "again"); err != nil {
			t.Fatalf("Publish = %v", err)
		}
		return <-got == "again"
	})
}

// A node whose connection freezes holds up neither the others nor itself: its work ends, another does it, and it
// can leave.
func TestPostgreSQLFrozen(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	w, wired := wiretest.To(t, database)
	slow := newPlace(t, wired, "slow")
	one, two := slow.start(t, cluster.Exact), newPlace(t, database, "two").start(t, cluster.Exact)
	var working atomic.Int64
	began, ended, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		one.Every("job", time.Hour, func(ctx context.Context) {
			working.Add(1)
			close(began)
			<-ctx.Done()
			working.Add(-1)
			close(ended)
			<-second // only once
		})(ctx)
	})
	<-began
	running.Go(func() {
		two.Every("job", time.Hour, func(context.Context) {
			if working.Load() != 0 {
				t.Error("the second works while the first does")
			}
			close(second)
		})(ctx)
	})
	frozen := time.Now()
	thaw := w.Freeze()
	<-ended
	t.Logf("work ended %v after the connection froze", time.Since(frozen).Round(time.Millisecond))
	<-second
	t.Logf("another node took over %v after the connection froze", time.Since(frozen).Round(time.Millisecond))
	eventually(t, "the silence to be noticed", func() bool { return two.Live() == 1 })
	if err := two.Ready(); err != nil {
		t.Errorf("Ready = %v", err)
	}
	leaving := time.Now()
	one.Leave(t.Context())
	if d := time.Since(leaving); d > bound(20*time.Second) {
		t.Errorf("Leave over a frozen connection took %v", d)
	}
	thaw()
}

// A process that freezes in the middle of a change keeps the others from theirs for seconds only.
func TestPostgreSQLFrozenChange(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	one, two := newPlace(t, database, "one"), newPlace(t, database, "two")
	inside, release := make(chan struct{}), make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		err := one.store.ChangeCluster(t.Context(), func(s *cluster.State) error {
			close(inside)
			<-release
			s.List++
			return nil
		})
		if err == nil {
			t.Error("a change that took too long was stored")
		}
	})
	<-inside
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := two.store.ChangeCluster(ctx, func(s *cluster.State) error { s.List += 10; return nil }); err != nil {
		t.Errorf("ChangeCluster beside a frozen process = %v", err)
	}
	t.Logf("the lock of a frozen process came free after %v", time.Since(began).Round(time.Millisecond))
	close(release)
	changing.Wait()
}
