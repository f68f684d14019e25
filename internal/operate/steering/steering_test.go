package steering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// memory is a store without a database, which several helms may share.
type memory struct {
	mu      sync.Mutex
	orders  []Order
	version int64
	log     []account.Entry
	away    error
}

func (m *memory) Orders(context.Context) ([]Order, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.orders), m.version, m.away
}

func (m *memory) OrdersVersion(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version, m.away
}

func (m *memory) ChangeOrders(_ context.Context, change func([]Order) ([]Order, account.Entry, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away != nil {
		return m.away
	}
	next, entry, err := change(slices.Clone(m.orders))
	if err != nil {
		return err
	}
	m.orders, m.version, m.log = next, m.version+1, append([]account.Entry{entry}, m.log...)
	return nil
}

func (m *memory) AuditLog(_ context.Context, _ string, _ int64, limit int) ([]account.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log[:min(len(m.log), limit)], nil
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = err
}

func drain(t Target) Order { return Order{Kind: Drain, Target: t, Actor: "t", Reason: "r"} }

func TestDrained(t *testing.T) {
	t.Parallel()
	h := New(&memory{}, nil)
	for _, tt := range []struct {
		order                            Target
		provider, upstream, key, replica string
		want                             bool
	}{
		{Target{Provider: "a"}, "a", "m", "…1234", "", true},
		{Target{Provider: "a"}, "b", "m", "…1234", "", false},
		{Target{Provider: "a", Upstream: "m"}, "a", "m", "", "", true},
		{Target{Provider: "a", Upstream: "m"}, "a", "n", "", "", false},
		{Target{Provider: "a", Upstream: "m", Key: "1234"}, "a", "m", "…1234", "", true},
		{Target{Provider: "a", Upstream: "m", Key: "…1234"}, "a", "m", "…1234", "", true},
		{Target{Provider: "a", Upstream: "m", Key: "1234"}, "a", "m", "…9999", "", false},
		{Target{Provider: "a", Key: "1234"}, "a", "n", "…1234", "", true},
		{Target{Provider: "a", Replica: "10.0.0.1:8000"}, "a", "n", "…1234", "10.0.0.1:8000", true},
		{Target{Provider: "a", Replica: "10.0.0.1:8000"}, "a", "n", "…1234", "10.0.0.1:8001", false},
		{Target{Provider: "a", Replica: "10.0.0.1:8000"}, "a", "n", "…1234", "", false},
		{Target{Provider: "a", Upstream: "m", Replica: "10.0.0.1:8000"}, "a", "n", "", "10.0.0.1:8000", false},
		{Target{Provider: "a"}, "a", "n", "", "10.0.0.1:8000", true},
	} {
		if _, err := h.Give(t.Context(), drain(tt.order)); err != nil {
			t.Fatal(err)
		}
		if got := h.Drained(tt.provider, tt.upstream, tt.key, tt.replica); got != tt.want {
			t.Errorf("Drained(%q, %q, %q, %q) = %t with %q drained, want %t", tt.provider, tt.upstream, tt.key, tt.replica, got, tt.order, tt.want)
		}
		if _, err := h.Enable(t.Context(), tt.order, "t", ""); err != nil {
			t.Fatal(err)
		}
		if h.Drained(tt.provider, tt.upstream, tt.key, tt.replica) || h.drains.Load() != nil {
			t.Errorf("%q is drained after it was enabled", tt.order)
		}
	}
	if _, err := h.Enable(t.Context(), Target{Provider: "a"}, "t", ""); !fault.Is(err, fault.NotFound) {
		t.Errorf("Enable of what is not drained = %v, want not found", err)
	}
}

// An order about the same thing replaces the older one, and each is in the audit log.
func TestReplace(t *testing.T) {
	t.Parallel()
	h := New(&memory{}, nil)
	for _, o := range []Order{
		drain(Target{Provider: "a"}), drain(Target{Provider: "a"}), drain(Target{Provider: "b"}),
		{Kind: Move, Model: "m", Plan: "basic", Actor: "t", Reason: "r"},
		{Kind: Move, Model: "m", Plan: "premium", Actor: "t", Reason: "r"},
	} {
		if _, err := h.Give(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(h.Orders(Drain)); n != 2 {
		t.Errorf("there are %d drains, want 2", n)
	}
	if got := h.Tiers(); len(got) != 1 || got["m"].Plan != account.Premium {
		t.Errorf("Tiers = %v, want m at premium", got)
	}
	if _, err := h.MoveBack(t.Context(), "m", "u", "enough"); err != nil || len(h.Tiers()) != 0 {
		t.Errorf("MoveBack = %v, and Tiers %v", err, h.Tiers())
	}
	log, err := h.History(t.Context(), 0, 2)
	if err != nil || len(log) != 2 || log[0].Action != "model.move-back" || log[0].Actor != "u" || log[0].Reason != "enough" || log[1].Action != "model.move" || log[1].Detail != "m to premium" {
		t.Errorf("History = %+v, %v", log, err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(&memory{}, nil)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go h.Run(ctx)
		synctest.Wait()
		if err := h.Closed("m", time.Now()); err != nil {
			t.Errorf("Closed without maintenance = %v", err)
		}
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		if _, err := h.Give(ctx, Order{Kind: Maintenance, Models: []string{"m"}, From: in(time.Hour), Until: in(2 * time.Hour), Text: "More later.", Actor: "t", Reason: "r"}); err != nil {
			t.Fatal(err)
		}
		check := func(model string, want time.Duration) {
			t.Helper()
			err := h.Closed(model, time.Now())
			if want == 0 {
				if err != nil {
					t.Errorf("Closed(%q) = %v, want nil", model, err)
				}
				return
			}
			f, ok := errors.AsType[*fault.Fault](err)
			if !ok || f.Kind != fault.Unavailable || f.RetryAfter != want || !strings.HasSuffix(f.Message, " UTC. More later.") {
				t.Errorf("Closed(%q) = %v, want 503 after %s", model, err, want)
			}
		}
		check("m", 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		check("m", time.Minute)
		check("n", 0)
		if shown := h.Shown(); len(shown) != 1 || !strings.HasPrefix(shown[0].Banner(), "Maintenance: m is unavailable until ") || shown[0].BannerTone() != "warn" {
			t.Errorf("Shown = %+v", shown)
		}
		time.Sleep(time.Hour - 10*time.Second)
		check("m", 10*time.Second)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		check("m", 0)
		if h.closings.Load() != nil || len(h.Orders()) != 0 {
			t.Error("maintenance that is over still costs something")
		}
		// For all models, and without an end.
		o, err := h.Give(ctx, Order{Kind: Maintenance, Actor: "t", Reason: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := errors.AsType[*fault.Fault](h.Closed("anything", time.Now())); !ok || f.RetryAfter != time.Minute {
			t.Errorf("Closed = %v, want 503 after a minute", f)
		}
		if _, err := h.End(ctx, Announcement, o.ID, "t", ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("End of a maintenance as an announcement = %v, want not found", err)
		}
		if _, err := h.End(ctx, Maintenance, o.ID, "t", ""); err != nil {
			t.Fatal(err)
		}
		check("anything", 0)
	})
}

// A helm follows the orders that another one is given, within a second also if nobody tells it.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		var moved atomic.Int64
		one := New(store, nil)
		two := New(store, &Options{Shared: true, Moved: func() { moved.Add(1) }})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go two.Run(ctx)
		synctest.Wait()
		if _, err := one.Give(ctx, drain(Target{Provider: "a"})); err != nil {
			t.Fatal(err)
		}
		two.Nudge()
		synctest.Wait()
		if !two.Drained("a", "m", "", "") {
			t.Error("a helm that was told does not know of a drain")
		}
		if _, err := one.Give(ctx, Order{Kind: Move, Model: "m", Plan: "basic", From: time.Now().Add(time.Minute), Actor: "t", Reason: "r"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery + time.Millisecond)
		synctest.Wait()
		if moved.Load() != 1 {
			t.Errorf("Moved was called %d times after a move was announced, want 1", moved.Load())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if moved.Load() != 2 {
			t.Errorf("Moved was called %d times when the move has taken effect, want 2", moved.Load())
		}
		// While the database is away, the orders that are known hold.
		store.fail(errors.New("away"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if !two.Drained("a", "m", "", "") {
			t.Error("a drain is forgotten while the database is away")
		}
		store.fail(nil)
		if _, err := one.Enable(ctx, Target{Provider: "a"}, "t", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		if two.Drained("a", "m", "", "") || moved.Load() != 2 {
			t.Errorf("after the database is back, a is drained or Moved was called again (%d)", moved.Load())
		}
	})
}

func TestRefusedOrders(t *testing.T) {
	t.Parallel()
	now := time.Now()
	long := strings.Repeat("x", MaxText+1)
	for _, tt := range []struct {
		name  string
		order Order
		param string
	}{
		{"no kind", Order{Reason: "r"}, "kind"},
		{"no reason", Order{Kind: Drain, Target: Target{Provider: "a"}}, "reason"},
		{"long reason", Order{Kind: Drain, Target: Target{Provider: "a"}, Reason: long}, "reason"},
		{"no provider", Order{Kind: Drain, Reason: "r"}, "provider"},
		{"long provider", drain(Target{Provider: long}), "provider"},
		{"no tier", Order{Kind: Move, Model: "m", Plan: "scale", Reason: "r"}, "plan"},
		{"move with an end", Order{Kind: Move, Model: "m", Plan: "basic", Until: now.Add(time.Hour), Reason: "r"}, "until"},
		{"too many models", Order{Kind: Maintenance, Models: make([]string, MaxModels+1), Reason: "r"}, "models"},
		{"end before the beginning", Order{Kind: Maintenance, From: now.Add(2 * time.Hour), Until: now.Add(time.Hour), Reason: "r"}, "until"},
		{"end in the past", Order{Kind: Maintenance, From: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour), Reason: "r"}, "until"},
		{"far ahead", Order{Kind: Maintenance, From: now.Add(MaxAhead + time.Hour), Reason: "r"}, "from"},
		{"far end", Order{Kind: Maintenance, Until: now.Add(MaxAhead + time.Hour), Reason: "r"}, "until"},
		{"no text", Order{Kind: Announcement, Text: " "}, "text"},
		{"long text", Order{Kind: Announcement, Text: long}, "text"},
		{"two lines", Order{Kind: Announcement, Text: "a\nb"}, "text"},
		{"no tone", Order{Kind: Announcement, Text: "t", Tone: "loud"}, "tone"},
	} {
		m := &memory{}
		_, err := New(m, nil).Give(t.Context(), tt.order)
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.Invalid || f.Param != tt.param || m.version != 0 {
			t.Errorf("%s: Give = %v (%d changes), want it refused for %s", tt.name, err, m.version, tt.param)
		}
	}
}

// The number of orders is bounded, and those that are over make room.
func TestBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		h := New(m, nil)
		announce := func(i int) error {
			_, err := h.Give(t.Context(), Order{Kind: Announcement, Text: fmt.Sprint(i), Until: time.Now().Add(time.Hour)})
			return err
		}
		for i := range MaxShown {
			if err := announce(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := announce(MaxShown); !fault.Is(err, fault.Conflict) {
			t.Errorf("announcement %d = %v, want a conflict", MaxShown+1, err)
		}
		time.Sleep(time.Hour)
		if err := announce(0); err != nil {
			t.Errorf("an announcement after all others have ended = %v", err)
		}
		time.Sleep(2 * keepEnded)
		if err := announce(1); err != nil || len(m.orders) != 1 {
			t.Errorf("%d orders are kept (%v), want those that ended long ago dropped", len(m.orders), err)
		}
		for i := range MaxOrders {
			m.orders = append(m.orders, Order{ID: fmt.Sprint(i), Kind: Drain, Target: Target{Provider: fmt.Sprint(i)}})
		}
		if _, err := h.Give(t.Context(), drain(Target{Provider: "one more"})); !fault.Is(err, fault.Conflict) {
			t.Errorf("drain %d = %v, want a conflict", MaxOrders+1, err)
		}
	})
}

// While there are no orders, asking costs a load and no memory.
func BenchmarkIdle(b *testing.B) {
	h := New(&memory{}, nil)
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if h.Drained("a", "m", "…1234", "") || h.Closed("m", now) != nil {
			b.Fatal("an order that nobody gave")
		}
	}
}
