package signin_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// counters is one implementation of Tries, as two nodes see it, and a way to let time pass there.
type counters struct {
	nodes [2]signin.Tries
	pass  func(time.Duration)
}

// memoryCounters is the one of a single process, so both nodes are the same.
func memoryCounters(*testing.T) counters {
	var mu sync.Mutex
	now := time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	m := signin.NewMemoryTries(func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	return counters{[2]signin.Tries{m, m}, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}}
}

// storeCounters counts in a database. Its clock cannot be moved, so the rows become older instead.
func storeCounters(driver string, open func(*testing.T) (database, dir, name string)) func(t *testing.T) counters {
	return func(t *testing.T) counters {
		database, dir, name := open(t)
		var c counters
		for i := range c.nodes {
			c.nodes[i] = storeAt(t, database, dir)
		}
		db, err := sql.Open(driver, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		c.pass = func(d time.Duration) {
			if _, err := db.Exec(`UPDATE signin_tries SET ends_at = ends_at - $1`, d.Milliseconds()); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
}

func storeAt(t *testing.T, database, dir string) *alltest.Store {
	t.Helper()
	s, err := alltest.Open(t.Context(), database, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// implementations are all that count attempts.
var implementations = map[string]func(*testing.T) counters{
	"memory": memoryCounters,
	"SQLite": storeCounters("sqlite", func(t *testing.T) (string, string, string) {
		dir := t.TempDir()
		return "sqlite", dir, "file:" + dir + "/" + sqlstore.File + "?_pragma=busy_timeout(10000)"
	}),
	"PostgreSQL": storeCounters("pgx", func(t *testing.T) (string, string, string) {
		url := pgtest.URL(t)
		return url, "", url
	}),
}

// TestTries is the suite that every implementation passes.
func TestTries(t *testing.T) {
	t.Parallel()
	for name, fresh := range implementations {
		for part, test := range map[string]func(*testing.T, counters){
			"spans": trySpans, "several keys": trySeveral, "forgetting": tryForget, "at once": tryAtOnce,
		} {
			t.Run(name+"/"+part, func(t *testing.T) {
				t.Parallel()
				test(t, fresh(t))
			})
		}
	}
}

func at(most int, span time.Duration, parts ...string) signin.Attempt {
	return signin.Attempt{Key: signin.KeyOf("test", parts...), Limit: signin.Limit{Most: most, Span: span}}
}

// try counts an attempt at a node and checks how long to wait, to the second: time passes in a database.
func (c counters) try(t *testing.T, node int, want time.Duration, attempts ...signin.Attempt) {
	t.Helper()
	wait, err := c.nodes[node].CountAttempts(t.Context(), attempts)
	if err != nil || wait > want || wait < want-30*time.Second || (wait == 0) != (want == 0) {
		t.Errorf("CountAttempts at node %d = %s, %v, want %s", node, wait, err, want)
	}
}

// The span starts with the first attempt, whichever node it came to. Refused attempts do not make it longer.
func trySpans(t *testing.T, c counters) {
	a := at(3, 15*time.Minute, "ana@example.com")
	c.try(t, 0, 0, a)
	c.pass(10 * time.Minute)
	c.try(t, 1, 0, a)
	c.try(t, 0, 0, a)
	for range 3 {
		c.try(t, 0, 5*time.Minute, a)
		c.try(t, 1, 5*time.Minute, a)
	}
	c.try(t, 1, 0, at(3, 15*time.Minute, "bob@example.com"))
	c.pass(5 * time.Minute)
	for i := range 3 {
		c.try(t, i%2, 0, a)
	}
	c.try(t, 1, 15*time.Minute, a)
}

// An attempt counts against all its keys or none. The wait is that of the first that is used up.
func trySeveral(t *testing.T, c counters) {
	place, address := at(2, time.Hour, "place"), at(4, 2*time.Hour, "address")
	c.try(t, 0, 0, place, address)
	c.try(t, 1, 0, address, place)
	for i := range 5 {
		c.try(t, i%2, time.Hour, place, address)
	}
	c.try(t, 0, 0, address) // two were counted, not seven
	c.try(t, 1, 0, address)
	c.try(t, 0, 2*time.Hour, address)
	c.try(t, 0, time.Hour, place, address)
	c.try(t, 1, 2*time.Hour, address, place)
}

// Only what is named is forgotten.
func tryForget(t *testing.T, c counters) {
	one, two := at(1, time.Hour, "one"), at(1, time.Hour, "two")
	c.try(t, 0, 0, one, two)
	if err := c.nodes[1].ForgetAttempts(t.Context(), []signin.Key{one.Key, signin.KeyOf("test", "unknown")}); err != nil {
		t.Fatal(err)
	}
	c.try(t, 0, 0, one)
	c.try(t, 0, time.Hour, two)
	if err := c.nodes[0].DropAttempts(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	c.try(t, 1, time.Hour, one)
}

// Of many at the same moment on both nodes exactly as many pass as the limit allows.
func tryAtOnce(t *testing.T, c counters) {
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			// The second key is new for everybody.
			wait, err := c.nodes[i%2].CountAttempts(t.Context(), []signin.Attempt{at(10, time.Hour, "address"), at(5, time.Hour, fmt.Sprint("place ", i))})
			if err != nil {
				t.Errorf("CountAttempts = %v", err)
			}
			if wait == 0 {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 10 {
		t.Errorf("%d attempts passed, want 10", passed.Load())
	}
}

// Two services on one PostgreSQL count together, in the words of one service, and the table shows no address.
func TestDesksCountTogether(t *testing.T) {
	t.Parallel()
	url, ctx := pgtest.URL(t), t.Context()
	var services [2]*bench
	for i := range services {
		s := storeAt(t, url, "")
		services[i] = benchOn(s, s)
	}
	services[0].join(t, "ana@example.com")
	for i := range 10 {
		if _, err := services[i%2].SignIn(ctx, "ana@example.com", "wrong password", here); !fault.Is(err, fault.Unauthenticated) {
			t.Fatalf("guess %d = %v, want it checked", i+1, err)
		}
	}
	for i, d := range services {
		_, err := d.SignIn(ctx, "ana@example.com", password, here)
		if !fault.Is(err, fault.RateLimited) || !strings.HasPrefix(err.Error(), "Too many attempts. Try again in 15 minutes. Or have a link mailed to you") {
			t.Errorf("guess 11 at desk %d = %v, want too many", i, err)
		}
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rows, used int
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*), MAX(used) FROM signin_tries WHERE id ~ '^[0-9a-f]{32}$'`).Scan(&rows, &used); err != nil || rows != 5 || used != 10 {
		t.Errorf("%d hashed keys with at most %d attempts, %v, want 5 and 10: the mail of the sign-up, and the guesses", rows, used, err)
	}
	// A reset by mail works meanwhile, and starts the count again for other places.
	if err := services[1].RequestReset(ctx, "ana@example.com", here); err != nil {
		t.Fatal(err)
	}
	_, token := services[1].mailed(t, "ana@example.com")
	if _, err := services[0].ResetPassword(ctx, token, "another "+password, here); err != nil {
		t.Fatalf("ResetPassword = %v", err)
	}
	// Mails are counted over both, too: one was the sign-up, one the reset.
	for i := range 4 {
		if err := services[i%2].RequestReset(ctx, "ana@example.com", here); (err == nil) != (i < 3) {
			t.Errorf("mail %d from this place = %v, want 5 in all", i+3, err)
		}
	}
	// Without the database nobody gets in, and the answer says what is wrong.
	services[0].store.Close()
	if _, err := services[0].SignIn(ctx, "ana@example.com", password, here); !fault.Is(err, fault.Unavailable) {
		t.Errorf("SignIn without a database = %v, want unavailable", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := services[1].Knock(cancelled, here); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Knock of somebody who has left = %v, want unavailable", err)
	}
}
