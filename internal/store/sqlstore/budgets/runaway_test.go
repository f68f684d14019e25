package budgets_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/runaway"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/store/sqlstore/budgets"
	"sluice/internal/testkit/pgtest"
)

func TestRunawaySQLite(t *testing.T) {
	t.Parallel()
	runaways(t, func(t *testing.T) *alltest.Store { return alltest.In(t, "sqlite", t.TempDir()) })
}

func TestRunawayPostgreSQL(t *testing.T) {
	t.Parallel()
	empty := pgtest.URL(t)
	alltest.In(t, empty, "").Close()
	runaways(t, func(t *testing.T) *alltest.Store { return alltest.In(t, pgtest.Copy(t, empty), "") })
}

func runaways(t *testing.T, open func(t *testing.T) *alltest.Store) {
	for name, test := range map[string]func(*testing.T, *alltest.Store){"Spending": storedSpending, "Alarms": storedAlarms, "Expire": alarmsExpire} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// storedSpending checks what is read of what keys have spent.
func storedSpending(t *testing.T, db *alltest.Store) {
	s, ctx := budgets.New(db.Kernel()), t.Context()
	now := time.Now().UTC().Truncate(time.Hour).Add(30 * time.Minute)
	if key, all, err := s.Past(ctx, "acct_1", "key_1", now.Add(-time.Hour), now); err != nil || key != (runaway.Past{}) || all != (runaway.Past{}) {
		t.Fatalf("Past of nothing = %+v, %+v, %v, want nothing", key, all, err)
	}
	n := 0
	call := func(account, key string, ago time.Duration, cost, margin price.Nano, model string) usage.Settlement {
		n++
		r := usage.Settlement{
			ID: fmt.Sprint("call_", n), At: now.Add(-ago), AccountID: account, KeyID: key, Plan: "basic", Tier: "free", ModelAsked: model, ModelUsed: model, Provider: "lab",
			Status: 200, End: usage.EndComplete, Latency: time.Second, Cost: &cost, Margin: margin, Terms: usage.Terms{Version: "v"},
		}
		if cost < 0 { // its price is not known
			r.Cost, r.Terms.Version = nil, ""
		}
		return r
	}
	const hour = time.Hour
	if err := db.RecordSettlements(ctx, []usage.Settlement{
		call("acct_1", "key_1", time.Minute, 1_500, 1, "a"), call("acct_1", "key_1", 2*time.Minute, 2_000, 2, "b"), call("acct_1", "key_1", 3*time.Minute, -1, 0, "b"),
		call("acct_1", "key_2", time.Minute, 400, 0, "a"), call("acct_2", "key_3", time.Minute, 9_000, 0, "a"),
		call("acct_1", "key_1", 11*time.Minute, 70_000, 0, "a"),
		call("acct_1", "key_1", 5*hour, 100, 5, "a"), call("acct_1", "key_1", 5*hour, 200, 0, "b"), call("acct_1", "key_2", 5*hour, 1_000, 0, "a"),
		call("acct_1", "key_1", 30*hour, 250, 0, "a"), call("acct_1", "key_2", 50*hour, 1_200, 0, "a"), call("acct_1", "key_1", 200*hour, 5_000, 0, "a"),
		call("acct_2", "key_3", 5*hour, 9_000, 0, "a"),
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key  string
		want price.Nano
	}{{"key_1", 3_503}, {"key_2", 400}, {"key_3", 0}, {"key_x", 0}} {
		if got, err := s.Spent(ctx, "acct_1", c.key, now.Add(-10*time.Minute)); err != nil || got != c.want {
			t.Errorf("Spent(%s) = %d, %v, want %d", c.key, got, err, c.want)
		}
	}
	from, until := now.Add(-7*24*hour).Truncate(hour), now.Truncate(hour)
	at := func(ago time.Duration) time.Time { return now.Add(-ago).Truncate(hour) }
	all := runaway.Past{Busiest: 1_305, First: at(50 * hour)}
	for _, c := range []struct {
		key  string
		want runaway.Past
	}{{"key_1", runaway.Past{Busiest: 305, First: at(30 * hour)}}, {"key_2", runaway.Past{Busiest: 1_200, First: at(50 * hour)}}, {"key_3", runaway.Past{}}} {
		key, whole, err := s.Past(ctx, "acct_1", c.key, from, until)
		if err != nil || key.Busiest != c.want.Busiest || !key.First.Equal(c.want.First) || whole.Busiest != all.Busiest || !whole.First.Equal(all.First) {
			t.Errorf("Past(%s) = %+v, %+v, %v, want %+v and %+v", c.key, key, whole, err, c.want, all)
		}
	}
}

// storedAlarms checks that people are told of an alarm once.
func storedAlarms(t *testing.T, db *alltest.Store) {
	s, ctx, now := budgets.New(db.Kernel()), t.Context(), time.Now().UTC().Truncate(time.Millisecond)
	// Events that nobody gets are not stored.
	if err := db.AddEndpoint(ctx, &alert.Endpoint{ID: "whk_1", AccountID: "acct_1", Kind: alert.Web, To: "https://example.com", Secret: alert.NewSecret(), CreatedAt: now}, 5, account.Entry{}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		key    string
		signal runaway.Signal
		after  time.Duration
		paused bool
		since  time.Duration
		want   bool
	}{
		{"key_1", runaway.SamePrompt, 0, false, -time.Hour, true},
		{"key_1", runaway.SamePrompt, time.Minute, false, time.Minute - time.Hour, false},
		{"key_1", runaway.SpendRate, time.Minute, false, time.Minute - time.Hour, true},
		{"key_2", runaway.SamePrompt, time.Minute, false, time.Minute - time.Hour, true},
		{"key_1", runaway.SamePrompt, 2 * time.Minute, true, 2*time.Minute - time.Hour, true},
		{"key_1", runaway.SamePrompt, 3 * time.Minute, true, 3*time.Minute - time.Hour, false},
		{"key_1", runaway.SamePrompt, 4 * time.Minute, false, 4*time.Minute - time.Hour, false},
		{"key_1", runaway.SamePrompt, 5 * time.Minute, true, 2 * time.Minute, true}, // somebody has resumed it
		{"key_1", runaway.SamePrompt, 2 * time.Hour, false, time.Hour, true},
	} {
		a := &runaway.Alarm{AccountID: "acct_1", Key: account.Key{ID: c.key, Name: c.key}, Signal: c.signal, Seen: "a loop", At: now.Add(c.after), Paused: c.paused}
		if got, err := s.NoteAlarm(ctx, a, now.Add(c.since)); err != nil || got != c.want {
			t.Errorf("alarm %d: NoteAlarm = %t, %v, want %t", i, got, err, c.want)
		}
	}
	if n, err := db.Kernel().Count(ctx, "alert_events"); err != nil || n != 6 {
		t.Errorf("there are %d events, want 6: %v", n, err)
	}
}

// alarmsExpire checks that what people were told long ago is deleted.
func alarmsExpire(t *testing.T, db *alltest.Store) {
	s, ctx := budgets.New(db.Kernel()), t.Context()
	for i, ago := range []time.Duration{0, 6 * 24 * time.Hour, 8 * 24 * time.Hour} {
		a := &runaway.Alarm{AccountID: "acct_1", Key: account.Key{ID: fmt.Sprint("key_", i)}, Signal: runaway.SamePrompt, At: time.Now().Add(-ago)}
		if _, err := s.NoteAlarm(ctx, a, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	var failed error
	db.DropExpired(ctx, func(what string, err error) { failed = errors.Join(failed, fmt.Errorf("%s: %w", what, err)) })
	if n, err := db.Kernel().Count(ctx, "runaway_alarms"); err != nil || failed != nil || n != 2 {
		t.Errorf("there are %d alarms, want 2: %v, %v", n, err, failed)
	}
}
