package feedback

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/finder"
	"sluice/internal/upstream/catalog"
)

// Whatever is said, a model moves by MostPoints at most; more good never lowers it, and more bad or trouble never raises
// it. One account alone moves it by 1.6 points with votes and by 1.15 with calls.
func TestPointsAreBounded(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		scale := int64(1) << random.IntN(50)
		s := Sum{Good: random.Int64N(scale), Bad: random.Int64N(scale), Calls: random.Int64N(scale), Troubled: random.Int64N(scale)}
		points := Points(&s)
		if math.IsNaN(points) || math.Abs(points) > MostPoints {
			t.Fatalf("Points(%+v) = %v, want at most %d", s, points, MostPoints)
		}
		better, worse, troubled := s, s, s
		better.Good += unit
		worse.Bad += unit
		troubled.Troubled += unit
		if Points(&better) < points || Points(&worse) > points || Points(&troubled) > points {
			t.Fatalf("Points(%+v) = %v, with one more good %v, bad %v, troubled %v", s, points, Points(&better), Points(&worse), Points(&troubled))
		}
	}
	for _, tt := range []struct {
		name string
		sum  Sum
		want float64
	}{
		{"nothing", Sum{}, 0},
		{"the first vote", Sum{Good: unit}, 0.381},
		{"all votes of an account", Sum{Good: MostVotes * unit}, 1.6},
		{"all calls of an account", Sum{Calls: MostCalls * unit, Troubled: MostCalls * unit}, -1.143},
		{"everybody", Sum{Bad: 1e9 * unit, Calls: 1e9 * unit, Troubled: 1e9 * unit}, -8},
	} {
		if got := Points(&tt.sum); math.Abs(got-tt.want) > 0.001 {
			t.Errorf("%s: Points = %.4f, want %.3f", tt.name, got, tt.want)
		}
	}
}

// memory is a store without a database: one row for each account, as the real one has. It knows nothing of weeks.
type memory struct {
	mu      sync.Mutex
	version int64
	rows    map[place]*Sum
	away    bool // it does not answer
}

var errAway = errors.New("away")

func (m *memory) change(do func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errAway
	}
	m.version++
	do()
	return nil
}

func (m *memory) row(p place) *Sum {
	if m.rows == nil {
		m.rows = map[place]*Sum{}
	}
	if m.rows[p] == nil {
		m.rows[p] = &Sum{Model: p.model, Task: p.task, Accounts: 1}
	}
	return m.rows[p]
}

func (m *memory) CastVote(_ context.Context, v Vote, _ int64) error {
	return m.change(func() {
		r := m.row(place{v.AccountID, v.Model, v.Task})
		if v.Good {
			r.Good += unit
		} else {
			r.Bad += unit
		}
	})
}

func (m *memory) AddCounts(_ context.Context, counts []Count, _ int64) error {
	return m.change(func() {
		for _, c := range counts {
			r := m.row(place{c.AccountID, c.Model, c.Task})
			r.Calls, r.Troubled = r.Calls+c.Calls*unit, r.Troubled+c.Troubled*unit
		}
	})
}

func (m *memory) FeedbackVersion(context.Context) (version int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return 0, errAway
	}
	return m.version, nil
}

func (m *memory) FeedbackSums(context.Context, int64) (sums []Sum, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.rows {
		sums = append(sums, *r)
	}
	return sums, nil
}

func (m *memory) ForgetFeedback(_ context.Context, model string, _ account.Entry) error {
	return m.change(func() {
		for p := range m.rows {
			if model == "" || p.model == model {
				delete(m.rows, p)
			}
		}
	})
}

// calls finds settlements by their id.
type calls map[string]usage.Settlement

func (c calls) Request(_ context.Context, id string) (finder.Found, error) {
	s, ok := c[id]
	if !ok {
		return finder.Found{}, fault.New(fault.NotFound, "none")
	}
	return finder.Found{Settled: []usage.Settlement{s}}, nil
}

func settled(accountID, reason string, age time.Duration) usage.Settlement {
	return usage.Settlement{ID: "1", At: time.Now().Add(-age), AccountID: accountID, ModelUsed: "m", End: usage.EndComplete, Trace: &usage.Trace{Reason: reason, Attempts: []usage.Attempt{{Model: "m", Outcome: usage.Answered}}}}
}

func TestWhoMayRate(t *testing.T) {
	t.Parallel()
	named := settled("a", "", 0)
	old := settled("a", "math", 0)
	old.Trace = nil
	f := New(&memory{}, calls{
		"hard": settled("a", "math, hard; the best of 3", 0), "sticky": settled("a", "agent; goes on with the model of this conversation", 0),
		"named": named, "of an earlier version": old, "of another": settled("b", "math; the best of 3", 0), "last month": settled("a", "math; the best of 3", 30*24*time.Hour),
	}, nil)
	for id, want := range map[string]any{
		"hard": catalog.Math, "sticky": catalog.Agent,
		"named": fault.Invalid, "of an earlier version": fault.Invalid,
		"of another": fault.NotFound, "last month": fault.NotFound, "unknown": fault.NotFound,
	} {
		v, err := f.Rate(t.Context(), "a", id, true)
		switch want := want.(type) {
		case fault.Kind:
			if !fault.Is(err, want) {
				t.Errorf("Rate(%q) = %+v, %v, want a fault of kind %s", id, v, err, want)
			}
		case catalog.Task:
			if err != nil || v.Task != want || v.Model != "m" {
				t.Errorf("Rate(%q) = %+v, %v, want a vote about m at %s", id, v, err, want)
			}
		}
	}
}

// What goes wrong counts against the model where it did, once for a call.
func TestSettled(t *testing.T) {
	t.Parallel()
	attempts := func(of ...string) (list []usage.Attempt) {
		for i := 0; i < len(of); i += 2 {
			list = append(list, usage.Attempt{Model: of[i], Outcome: of[i+1]})
		}
		return list
	}
	for _, tt := range []struct {
		name   string
		change func(*usage.Settlement)
		want   string
	}{
		{"well", func(*usage.Settlement) {}, "m 1/0"},
		{"cut", func(s *usage.Settlement) { s.End = usage.EndCut }, "m 1/1"},
		{"a tool failed", func(s *usage.Settlement) { s.MCPCalls, s.MCPFailed = 3, 2 }, "m 1/1"},
		{"hung up", func(s *usage.Settlement) { s.End = usage.EndHangUp }, ""},
		{"named", func(s *usage.Settlement) { s.Trace.Reason = "" }, ""},
		{"tried twice", func(s *usage.Settlement) { s.Trace.Attempts = attempts("m", "timeout", "m", "answered") }, "m 1/1"},
		{"tried elsewhere", func(s *usage.Settlement) {
			s.Trace.Attempts = attempts("x", "refused", "x", "refused", "m", "answered")
		}, "m 1/0 x 1/1"},
		{"nobody answered", func(s *usage.Settlement) {
			s.End, s.Trace.Attempts = usage.EndFailed, attempts("x", "refused", "m", "refused")
		}, "x 1/1"},
	} {
		f := New(&memory{}, nil, nil)
		s := settled("a", "code; the best of 2", 0)
		tt.change(&s)
		f.Settled(s)
		got := ""
		for _, model := range []string{"m", "x"} {
			if c := f.unwritten[place{"a", model, catalog.Code}]; c != nil {
				got += fmt.Sprintf(" %s %d/%d", model, c.calls, c.troubled)
			}
		}
		if got != "" {
			got = got[1:]
		}
		if got != tt.want {
			t.Errorf("%s: counted %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What waits for a database that does not answer is bounded, and written when it is back. What is known stays meanwhile.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		f := New(store, calls{"1": settled("a", "math; the best of 3", 0)}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.Run(ctx) })
		if _, err := f.Rate(ctx, "a", "1", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery*2 + lookEvery/5)
		if got := f.Strengths().Of("m", catalog.Math); got <= 0 {
			t.Fatalf("the points after a good vote = %v", got)
		}
		store.mu.Lock()
		store.away = true
		store.mu.Unlock()
		if _, err := f.Rate(ctx, "a", "1", true); !errors.Is(err, errAway) {
			t.Errorf("Rate while the database is away = %v", err)
		}
		for i := range mostUnwritten + 10 {
			f.Settled(settled(fmt.Sprint("a", i), "math; the best of 3", 0))
		}
		time.Sleep(lookEvery*2 + lookEvery/5)
		f.mu.Lock()
		waiting := len(f.unwritten)
		f.mu.Unlock()
		if got := f.Strengths().Of("m", catalog.Math); got <= 0 || waiting != mostUnwritten {
			t.Errorf("while the database is away: %v points, %d counts wait, want what was known and %d", got, waiting, mostUnwritten)
		}
		store.mu.Lock()
		store.away = false
		store.mu.Unlock()
		time.Sleep(lookEvery*2 + lookEvery/5)
		store.mu.Lock()
		rows := len(store.rows)
		store.mu.Unlock()
		if rows != mostUnwritten+1 {
			t.Errorf("%d rows when the database is back, want %d", rows, mostUnwritten+1)
		}
		f.Settled(settled("last", "math; the best of 3", 0))
		cancel()
		running.Wait()
		if len(store.rows) != mostUnwritten+2 {
			t.Error("what was counted last is lost at a stop")
		}
	})
}
