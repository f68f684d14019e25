package abuse_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/big"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
)

// memory is a store that only remembers events and can be away.
type memory struct {
	mu     sync.Mutex
	away   bool
	events []abuse.Event
	counts []abuse.Count

	once        bool     // RecordAbuseEventsOnce drops repeated events
	deactivated bool     // as the accounts say
	stored      []string // accounts that were deactivated
}

var errAway = errors.New("the database is away")

func (m *memory) AbuseCounts(_ context.Context, _ time.Time, ids ...string) ([]abuse.Count, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away && len(ids) > 0 {
		return nil, errAway
	}
	return slices.Clone(m.counts), nil
}

func (m *memory) UnitsSince(context.Context, time.Time, func(abuse.Count, time.Time), ...string) error {
	return nil
}

func (m *memory) RecordAbuseEvents(_ context.Context, e []abuse.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errAway
	}
	m.events = append(m.events, e...)
	return nil
}

func (m *memory) ForgiveUnits(ctx context.Context, _ time.Time, c []abuse.Count, e []abuse.Event) error {
	m.mu.Lock()
	m.counts = append(m.counts, c...)
	m.mu.Unlock()
	return m.RecordAbuseEvents(ctx, e)
}

func (m *memory) AbuseEvents(context.Context, string, int) ([]abuse.Event, error) {
	return m.events, nil
}

func (m *memory) kinds() (kinds []abuse.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// world is a control over that store with a budget of 1,000 units for Basic and 2,000 for Premium.
type world struct {
	*abuse.Control
	store    *memory
	locked   []string
	stored   []string
	restored []string
	told     []abuse.Kind
}

func newWorld() *world {
	w := &world{store: &memory{}}
	plans := account.BuiltinPlans()
	plans[account.Basic].MonthlyUnits, plans[account.Premium].MonthlyUnits = 1000, 2000
	plans[account.Scale].MonthlyUnits = account.Unlimited
	w.Control = abuse.New(w.store, abuse.Options{
		Plans:    func() account.Plans { return plans },
		Lock:     func(id string, _ account.Mark) { w.locked = append(w.locked, id) },
		Unlock:   func(id string) { w.locked = slices.DeleteFunc(w.locked, func(x string) bool { return x == id }) },
		Tell:     func(_ context.Context, e *abuse.Event) { w.told = append(w.told, e.Kind) },
		Accounts: w,
		Log:      slog.New(slog.DiscardHandler),
	})
	return w
}

func (w *world) Find(context.Context, string) (*account.Account, error) {
	return &account.Account{ID: "a"}, nil
}

func (w *world) Deactivate(_ context.Context, _, id, _ string) (*account.Account, error) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.store.away {
		return nil, errAway
	}
	w.stored = append(w.stored, id)
	return &account.Account{ID: id}, nil
}

func (w *world) Restore(_ context.Context, actor, ref string) (*account.Account, error) {
	w.restored = append(w.restored, fmt.Sprintf("%s by %s at %d", ref, actor, w.score(account.Basic)))
	return &account.Account{ID: "a"}, nil
}

// use settles a call of so many units.
func (w *world) use(plan, tier account.Plan, units int64) {
	w.Settled(&usage.Settlement{AccountID: "a", Plan: plan.String(), Tier: tier.String(), UnitMilli: units * 1000})
}

func (w *world) score(plan account.Plan) int {
	_, score := w.Scores("a", plan)
	return score
}

func TestScore(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.use(account.Basic, account.Free, 499)
	if got := w.score(account.Basic); got != 49 {
		t.Errorf("score after 499 of 1000 = %d, want 49", got)
	}
	w.use(account.Basic, account.Basic, 600)
	if got := w.score(account.Basic); got != 60 {
		t.Errorf("score of two tiers = %d, want the higher, 60", got)
	}
	if got := w.score(account.Premium); got != 0 {
		t.Errorf("score under another plan = %d, want 0: usage under one plan never counts against another", got)
	}
	w.use(account.Scale, account.Free, 1_000_000)
	if got := w.score(account.Scale); got != 0 {
		t.Errorf("score of an unlimited budget = %d, want 0", got)
	}
	w.use(account.Basic, account.Basic, 1_000_000)
	if got := w.score(account.Basic); got != 100 {
		t.Errorf("score beyond the budget = %d, want 100", got)
	}
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		for range 100 { // one point each, a day apart enough not to look steep
			w.use(account.Basic, account.Basic, 10)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
		}
		want := []abuse.Kind{abuse.Warning, abuse.Warning, abuse.Inquiry, abuse.Deactivated}
		if got := w.store.kinds(); !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
		if !slices.Equal(w.locked, []string{"a"}) || !slices.Equal(w.stored, []string{"a"}) {
			t.Errorf("locked %v, stored %v, want the account in both, once", w.locked, w.stored)
		}
		w.use(account.Basic, account.Basic, 10)
		synctest.Wait()
		if got := len(w.store.kinds()); got != 4 {
			t.Errorf("%d events after a call that was in flight, want no more than 4", got)
		}
		cancel()
		<-done
	})
}

func TestSteepClimb(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		for range 6 { // five points an hour
			w.use(account.Basic, account.Free, 50)
			time.Sleep(time.Hour)
		}
		synctest.Wait()
		if got := w.store.kinds(); !slices.Equal(got, []abuse.Kind{abuse.Review}) {
			t.Errorf("events %v, want one review", got)
		}
		cancel()
		<-done
	})
}

// The keys are locked at once, and stored when the database is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.store.away = true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		w.use(account.Basic, account.Free, 1000)
		if len(w.locked) != 1 {
			t.Fatal("the keys were not locked in that moment")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(w.stored) != 0 || len(w.store.kinds()) != 0 {
			t.Errorf("stored %v and %v while the database is away", w.stored, w.store.kinds())
		}
		w.store.mu.Lock()
		w.store.away = false
		w.store.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(w.stored, []string{"a"}) || !slices.Contains(w.store.kinds(), abuse.Deactivated) {
			t.Errorf("stored %v and %v after the database came back", w.stored, w.store.kinds())
		}
		cancel()
		<-done
	})
}

func TestForgive(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.use(account.Basic, account.Free, 1200)
	w.use(account.Basic, account.Basic, 300)
	if err := w.Forgive(t.Context(), "a", "support"); err != nil {
		t.Fatal(err)
	}
	tiers, score := w.Scores("a", account.Basic)
	if score != 30 || tiers[0].Units != 0 {
		t.Errorf("standings %+v after restoring, want the full tier at zero and the other untouched", tiers)
	}
	if len(w.store.counts) != 1 || w.store.counts[0].Forgiven != 1_200_000 {
		t.Errorf("forgiven %+v, want 1200 units", w.store.counts)
	}
}

// The keys go on after the count has started again, and the owner is told once.
func TestRestore(t *testing.T) {
	t.Parallel()
	w := newWorld()
	if _, err := w.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.use(account.Basic, account.Free, 1200)
	w.use(account.Basic, account.Basic, 1300)
	if got, score, events, err := w.Score(t.Context(), &account.Account{ID: "a", Plan: account.Basic}); err != nil || score != 100 || len(got) != 3 || len(events) != 0 {
		t.Errorf("Score = %+v, %d, %v, %v, want 100 in each of two tiers", got, score, events, err)
	}
	if a, err := w.Control.Restore(t.Context(), "support", "a@example.com"); err != nil || a.ID != "a" {
		t.Fatalf("Restore = %+v, %v", a, err)
	}
	if want := []string{"a@example.com by support at 0"}; !slices.Equal(w.restored, want) || len(w.locked) != 0 {
		t.Errorf("restored %q with %q locked, want %q and nobody", w.restored, w.locked, want)
	}
	if want := []abuse.Kind{abuse.Restored}; !slices.Equal(w.told, want) {
		t.Errorf("told %v, want %v", w.told, want)
	}
}

// switched remembers in which order keys were switched off and on.
type switched struct {
	mu    sync.Mutex
	done  []string
	onOff func(id string)
}

func (s *switched) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, what)
}

func (s *switched) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.done)
}

func (s *switched) Find(_ context.Context, ref string) (*account.Account, error) {
	return &account.Account{ID: ref}, nil
}

func (s *switched) Deactivate(_ context.Context, _, id, _ string) (*account.Account, error) {
	s.onOff(id)
	s.note(id + " off")
	return &account.Account{ID: id}, nil
}

func (s *switched) Restore(_ context.Context, _, id string) (*account.Account, error) {
	s.note(id + " on")
	return &account.Account{ID: id}, nil
}

// Support restores an account while Run is storing deactivations. Whatever comes first, the keys are on in the end.
func TestRestoreWhileSwitchingOff(t *testing.T) {
	t.Parallel()
	plans := account.BuiltinPlans()
	plans[account.Basic].MonthlyUnits = 1000
	s := &switched{}
	c := abuse.New(&memory{}, abuse.Options{
		Plans: func() account.Plans { return plans }, Lock: func(string, account.Mark) {}, Accounts: s, Log: slog.New(slog.DiscardHandler),
	})
	if _, err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	restored := make(chan error, 1)
	s.onOff = func(id string) {
		if id != "a" {
			return
		}
		go func() {
			_, err := c.Restore(context.Background(), "support", "b")
			restored <- err
		}()
		for n := 0; n < 100_000 && s.count() == 0; n++ { // long enough for a Restore that does not wait
			runtime.Gosched()
		}
	}
	for _, id := range []string{"a", "b"} {
		c.Settled(&usage.Settlement{AccountID: id, Plan: "basic", Tier: "free", UnitMilli: 2_000_000})
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	if err := <-restored; err != nil {
		t.Fatal(err)
	}
	stop()
	running.Wait()
	if last := slices.Index(s.done, "b off"); last > slices.Index(s.done, "b on") {
		t.Errorf("the keys were switched in the order %q, want those of b on in the end", s.done)
	}
}

// months is a store that has the counts of each month, as settlements leave them there.
type months struct {
	memory
	by map[time.Time]int64
}

func (m *months) AbuseCounts(ctx context.Context, month time.Time, ids ...string) ([]abuse.Count, error) {
	if len(ids) > 0 {
		return m.memory.AbuseCounts(ctx, month, ids...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errAway
	}
	if m.by[month] == 0 {
		return nil, nil
	}
	return []abuse.Count{{AccountID: "a", Plan: account.Basic, Tier: account.Free, Units: m.by[month]}}, nil
}

// The score is that of the month that the clock shows, whatever the clock has shown before.
func TestMonth(t *testing.T) {
	t.Parallel()
	at := func(month time.Month, day, hour, minute int) time.Time {
		return time.Date(2026, month, day, hour, minute, 0, 0, time.UTC)
	}
	type step struct {
		at   time.Time
		want int
	}
	for name, tt := range map[string]struct {
		before map[time.Time]int64 // what the store has
		steps  []step              // each is a call of ten points
	}{
		"the turn of the month": {nil, []step{
			{at(2, 28, 23, 58), 10}, {at(2, 28, 23, 59), 20}, {at(3, 1, 0, 0), 10}, {at(3, 1, 0, 1), 20},
		}},
		"slept through it": {nil, []step{{at(2, 28, 23, 59), 10}, {at(4, 3, 9, 0), 10}}},
		"a step back at the turn": {nil, []step{
			{at(2, 28, 23, 58), 10}, {at(3, 1, 0, 0), 10}, {at(2, 28, 23, 59), 20}, {at(3, 1, 0, 0), 20}, {at(3, 1, 0, 10), 30},
		}},
		"set forward by mistake": {nil, []step{
			{at(2, 10, 9, 0), 10}, {at(2, 10, 9, 1), 20}, {at(3, 10, 9, 2), 10}, {at(2, 10, 9, 3), 30}, {at(3, 1, 0, 0), 20},
		}},
		"by years": {nil, []step{
			{at(2, 10, 9, 0), 10}, {at(2, 10, 9, 1).AddDate(12, 0, 0), 10}, {at(2, 10, 9, 2), 20},
		}},
		"twice": {map[time.Time]int64{at(2, 1, 0, 0): 400_000}, []step{
			{at(2, 10, 9, 0), 50}, {at(5, 10, 9, 1), 10}, {at(8, 10, 9, 2), 10}, {at(2, 10, 9, 3), 60}, {at(2, 10, 9, 4), 70},
		}},
		"wrong at the start": {map[time.Time]int64{at(2, 1, 0, 0): 400_000}, []step{
			{time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), 10}, {at(2, 10, 9, 0), 50}, {at(2, 10, 9, 1), 60},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				now := tt.steps[0].at
				plans := account.BuiltinPlans()
				plans[account.Basic].MonthlyUnits = 1000
				store := &months{by: map[time.Time]int64{}}
				maps.Copy(store.by, tt.before)
				c := abuse.New(store, abuse.Options{
					Plans: func() account.Plans { return plans }, Lock: func(string, account.Mark) {},
					Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
				})
				if _, err := c.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { c.Run(ctx) })
				for _, s := range tt.steps {
					store.mu.Lock()
					now = s.at
					m := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
					store.by[m] += 100_000 // as the committer does, a moment before or after
					store.mu.Unlock()
					c.Settled(&usage.Settlement{AccountID: "a", Plan: "basic", Tier: "free", UnitMilli: 100_000})
					synctest.Wait() // Run has read what it has to
					if _, got := c.Scores("a", account.Basic); got != s.want {
						t.Errorf("score at %s = %d, want %d", s.at, got, s.want)
					}
				}
				stop()
				running.Wait()
			})
		})
	}
}

// An account that has used up its units is found when its month comes back, also if the store is away at first.
func TestMonthComesBackFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		february := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
		now := february.AddDate(-50, 0, 0)
		store := &months{by: map[time.Time]int64{february: 1_000_000}}
		plans := account.BuiltinPlans()
		plans[account.Basic].MonthlyUnits = 1000
		c := abuse.New(store, abuse.Options{
			Plans: func() account.Plans { return plans }, Lock: func(string, account.Mark) {}, Accounts: w,
			Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
		})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		synctest.Wait()
		store.away, now = true, february
		if _, got := c.Scores("a", account.Basic); got != 0 {
			t.Errorf("score while the store is away = %d, want what memory knows", got)
		}
		synctest.Wait()
		store.mu.Lock()
		store.away = false
		store.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, got := c.Scores("a", account.Basic); got != 100 || !slices.Equal(w.stored, []string{"a"}) {
			t.Errorf("score = %d, deactivated %v, want 100 and the account", got, w.stored)
		}
		stop()
		running.Wait()
	})
}

func TestForecast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	plans := account.BuiltinPlans()
	plans[account.Basic].MonthlyUnits = 1000
	c := abuse.New(&memory{}, abuse.Options{
		Plans: func() account.Plans { return plans }, Lock: func(string, account.Mark) {},
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
	})
	c.Settled(&usage.Settlement{AccountID: "a", Plan: "basic", Tier: "free", UnitMilli: 100_000})
	tiers, _ := c.Scores("a", account.Basic)
	if want := now.AddDate(0, 0, 9); !tiers[0].Reaches.Equal(want) {
		t.Errorf("reaches 100 at %v, want %v: 900 units at 100 a day", tiers[0].Reaches, want)
	}
	if !tiers[1].Reaches.IsZero() {
		t.Errorf("a tier without calls reaches 100 at %v, want never", tiers[1].Reaches)
	}
	// A trickle under a large budget would take longer than a time.Duration can say.
	plans[account.Basic].MonthlyUnits = 1_000_000_000_000
	c.Settled(&usage.Settlement{AccountID: "b", Plan: "basic", Tier: "free", UnitMilli: 1})
	if tiers, _ := c.Scores("b", account.Basic); !tiers[0].Reaches.IsZero() {
		t.Errorf("a trickle reaches 100 at %v, want never", tiers[0].Reaches)
	}
	now = now.AddDate(0, 0, 20) // nothing in the last day
	if tiers, _ := c.Scores("a", account.Basic); !tiers[0].Reaches.IsZero() {
		t.Errorf("without speed it reaches 100 at %v, want never", tiers[0].Reaches)
	}
}

// Whatever was used, of whatever budget: a score is a percentage, and a forecast is null or falls into
// what is left of the month.
func TestForecastOfExtremes(t *testing.T) {
	t.Parallel()
	month := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	extremes := []int64{0, 1, 2, 999, 1000, 1001, math.MaxInt64 / 1000, math.MaxInt64 / 10, math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64}
	amount := rapid.OneOf(rapid.SampledFrom(extremes), rapid.Int64Range(0, math.MaxInt64))
	rapid.Check(t, func(rt *rapid.T) {
		now := month.Add(time.Duration(rapid.Int64Range(0, int64(31*24*time.Hour)-1).Draw(rt, "time")))
		budget := account.Limit(amount.Draw(rt, "budget"))
		plans := account.BuiltinPlans()
		plans[account.Basic].MonthlyUnits = budget
		c := abuse.New(&memory{}, abuse.Options{
			Plans: func() account.Plans { return plans }, Lock: func(string, account.Mark) {},
			Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
		})
		used := new(big.Int)
		for range rapid.IntRange(1, 3).Draw(rt, "calls") {
			units := amount.Draw(rt, "units")
			used.Add(used, big.NewInt(units))
			c.Settled(&usage.Settlement{AccountID: "a", Plan: "basic", Tier: "free", UnitMilli: units})
		}
		if most := big.NewInt(math.MaxInt64); used.Cmp(most) > 0 {
			used = most
		}
		want := int64(0)
		switch {
		case used.Sign() > 0 && budget == 0:
			want = 100
		case budget > 0:
			want = min(100, new(big.Int).Quo(new(big.Int).Quo(used, big.NewInt(10)), big.NewInt(int64(budget))).Int64())
		}
		tiers, highest := c.Scores("a", account.Basic)
		if highest != int(want) {
			rt.Fatalf("score of %d thousandths of %d = %d, want %d", used, budget, highest, want)
		}
		reaches := tiers[0].Reaches
		switch {
		case highest == 100 && !reaches.Equal(now):
			rt.Fatalf("at 100 it reaches 100 at %s, want now, %s", reaches, now)
		case !reaches.IsZero() && (reaches.Before(now) || !reaches.Before(month.AddDate(0, 1, 0))):
			rt.Fatalf("%d thousandths of %d at %s reach 100 at %s, want none or a time of this month", used, budget, now, reaches)
		case used.Sign() == 0 && !reaches.IsZero():
			rt.Fatalf("nothing reaches 100 at %s", reaches)
		}
	})
}
