package admission

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/account"
)

// clock is a time that tests move by hand.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Duration      { return time.Duration(c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }
func limits(rpm, slots, tpm account.Limit) account.Limits {
	return account.Limits{RequestsPerMinute: rpm, Concurrent: slots, TokensPerMinute: tpm}
}

const unlimited = account.Unlimited

func TestParallelCalls(t *testing.T) {
	t.Parallel()
	m := NewMemory(nil)
	var passed atomic.Int32
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if _, _, o := m.Take("a", limits(10, unlimited, unlimited), Cost{RequestMilli: 1000}); o == nil {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 10 {
		t.Errorf("%d of 64 parallel calls passed on an allowance of 10, want 10", passed.Load())
	}
}

// The moment that an obstacle names is exact: then the call passes, and not before.
func TestWaitIsExact(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limits account.Limits
		cost   Cost
		what   Resource
	}{
		"requests": {limits(3, unlimited, unlimited), Cost{RequestMilli: 1000}, Requests},
		"halves":   {limits(3, unlimited, unlimited), Cost{RequestMilli: 1500}, Requests},
		"tokens":   {limits(unlimited, unlimited, 1000), Cost{Tokens: 400}, Tokens},
	}
	for name, tt := range tests {
		var c clock
		m := NewMemory(c.now)
		var o *Obstacle
		for o == nil {
			c.advance(1234567 * time.Microsecond)
			_, _, o = m.Take("a", tt.limits, tt.cost)
		}
		if o.Resource != tt.what || o.Wait <= 0 || o.Wait > time.Minute || o.Never {
			t.Errorf("%s: obstacle %+v, want a wait of up to a minute for resource %d", name, o, tt.what)
		}
		c.advance(o.Wait - 50*time.Millisecond)
		if _, _, early := m.Take("a", tt.limits, tt.cost); early == nil {
			t.Errorf("%s: a call passed 50 ms before the time that was named", name)
		}
		c.advance(50 * time.Millisecond)
		if _, _, late := m.Take("a", tt.limits, tt.cost); late != nil {
			t.Errorf("%s: at the time that was named: %+v, want it to pass", name, late)
		}
	}
}

func TestNever(t *testing.T) {
	t.Parallel()
	var c clock
	m := NewMemory(c.now)
	if _, _, o := m.Take("a", limits(2, unlimited, unlimited), Cost{RequestMilli: 4000}); o == nil || !o.Never || o.Resource != Requests {
		t.Errorf("a call beyond the whole allowance: %+v, want never", o)
	}
	if _, _, o := m.Take("a", limits(unlimited, 0, unlimited), Cost{}); o == nil || !o.Never || o.Resource != Slots {
		t.Errorf("a call without any slot: %+v, want never", o)
	}
}

// What is refused takes nothing: not a slot, not a request, not a token.
func TestRefusedTakesNothing(t *testing.T) {
	t.Parallel()
	var c clock
	m := NewMemory(c.now)
	l := limits(10, 1, 1000)
	p, before, o := m.Take("a", l, Cost{RequestMilli: 1000, Tokens: 100})
	if o != nil {
		t.Fatal(o)
	}
	for _, refused := range []Cost{{1000, 100}, {10_000, 0}, {0, 901}} {
		if _, after, o := m.Take("a", l, refused); o == nil || after != before {
			t.Errorf("Take(%+v) = %+v, %+v, want it refused and nothing taken from %+v", refused, o, after, before)
		}
	}
	m.Free("a", p, Cost{1000, 100})
	if m.Running() != 0 {
		t.Errorf("Running() = %d after all ended, want 0", m.Running())
	}
}

func TestTokensSettle(t *testing.T) {
	t.Parallel()
	var c clock
	m := NewMemory(c.now)
	l := limits(unlimited, unlimited, 1000)
	take := func(n int64) Place {
		t.Helper()
		p, _, o := m.Take("a", l, Cost{Tokens: n})
		if o != nil {
			t.Fatalf("Take(%d) = %+v", n, o)
		}
		return p
	}
	used := func() int64 { return m.Peek("a", l).Tokens.Used }

	m.Free("a", take(600), Cost{Tokens: 50}) // less than reserved comes back
	if used() != 50 {
		t.Errorf("used %d after settling 600 with 50, want 50", used())
	}
	m.Free("a", take(100), Cost{Tokens: 2000}) // more becomes a debt
	if used() != 2050 || m.Peek("a", l).Tokens.Remaining != 0 {
		t.Errorf("standing %+v after settling 100 with 2000, want 2050 used and nothing left", m.Peek("a", l).Tokens)
	}
	_, _, o := m.Take("a", l, Cost{Tokens: 1})
	if o == nil || o.Wait <= 0 || o.Wait > time.Minute+time.Millisecond {
		t.Errorf("a call in debt: %+v, want it delayed by at most a minute", o)
	}
	c.advance(o.Wait)
	p := take(900)
	c.advance(2 * time.Minute) // the reservation has expired, the rest of a long stream counts when it ends
	m.Free("a", p, Cost{Tokens: 1000})
	if used() != 100 {
		t.Errorf("used %d after a long stream, want the 100 beyond its reservation", used())
	}
}

func TestRefund(t *testing.T) {
	t.Parallel()
	var c clock
	m := NewMemory(c.now)
	l := limits(2, unlimited, 1000)
	p, _, _ := m.Take("a", l, Cost{RequestMilli: 2000, Tokens: 1000})
	m.Free("a", p, Cost{})
	if s := m.Peek("a", l); s.Requests.Used != 0 || s.Requests.Remaining != 2 || s.Tokens.Used != 0 || s.Requests.Reset != 0 {
		t.Errorf("standing %+v after a refund, want nothing used", s)
	}
}

func TestStanding(t *testing.T) {
	t.Parallel()
	var c clock
	m := NewMemory(c.now)
	_, s, _ := m.Take("a", limits(10, unlimited, unlimited), Cost{RequestMilli: 1500})
	want := Meter{Limit: 10, Used: 1500, Remaining: 8, Reset: time.Minute + time.Millisecond}
	if s.Requests != want || s.Tokens.Limit != unlimited {
		t.Errorf("standing %+v, want requests %+v and tokens unlimited", s, want)
	}
	if got := m.Peek("nobody", limits(10, 1, 100)); got.Requests.Remaining != 10 || got.Tokens.Remaining != 100 {
		t.Errorf("Peek of an unknown account = %+v, want all of it left", got)
	}
}

// Accounts that use nothing are forgotten.
func TestForgets(t *testing.T) {
	t.Parallel()
	var c clock
	m := NewMemory(c.now)
	for i := range 100_000 {
		p, _, _ := m.Take(fmt.Sprint("account ", i), limits(10, 10, 10), Cost{1000, 1})
		m.Free(fmt.Sprint("account ", i), p, Cost{1000, 1})
		c.advance(10 * time.Millisecond) // 6,000 accounts a minute
	}
	n := 0
	for i := range m.shards {
		n += len(m.shards[i].accounts)
	}
	if n > 20_000 {
		t.Errorf("%d accounts are remembered where 6,000 have used anything", n)
	}
}

// model is the slow, obvious form of the ledger for one account: a list of everything that happened.
type model struct {
	limits   account.Limits
	requests []event
	tokens   []event
	running  int64
}

type event struct{ at, cost int64 }

// sum adds up what counts at a time: from the end of the millisecond it happened in, for a minute.
func sum(events []event, now int64) (total int64) {
	for _, e := range events {
		if e.at+1+span > now {
			total += e.cost
		}
	}
	return total
}

func (m *model) fits(now int64, c Cost) bool {
	l := m.limits
	return (l.RequestsPerMinute == unlimited || sum(m.requests, now)+c.RequestMilli <= int64(l.RequestsPerMinute)*1000) &&
		(l.TokensPerMinute == unlimited || sum(m.tokens, now)+c.Tokens <= int64(l.TokensPerMinute)) &&
		(l.Concurrent == unlimited || m.running < int64(l.Concurrent))
}

// TestAgainstModel holds the ledger against the model over random limits, costs, arrivals and ends:
// never one too many in any minute, never one refused that had room, no slot lost.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := func(name string, most int64) account.Limit {
			if rapid.Bool().Draw(t, name+" unlimited") {
				return unlimited
			}
			return account.Limit(rapid.Int64Range(0, most).Draw(t, name))
		}
		var c clock
		ledger := NewMemory(c.now)
		obvious := &model{limits: limits(limit("rpm", 12), limit("slots", 4), limit("tpm", 1000))}
		type running struct {
			place   Place
			request int // its place in the model's list
			token   int
		}
		var calls []running
		var admitted []event // request costs of calls that were not given back
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			c.advance(time.Duration(rapid.Int64Range(0, int64(15*time.Second)).Draw(t, "pause")))
			now := int64(c.now() / time.Millisecond)
			if len(calls) > 0 && rapid.Bool().Draw(t, "end one") {
				i := rapid.IntRange(0, len(calls)-1).Draw(t, "which")
				r := calls[i]
				calls = append(calls[:i], calls[i+1:]...)
				used := rapid.Int64Range(0, 900).Draw(t, "used")
				refund := rapid.Bool().Draw(t, "refund")
				if refund {
					used = 0
				}
				came := Cost{RequestMilli: r.place.cost.RequestMilli, Tokens: used}
				if refund {
					came = Cost{}
				}
				ledger.Free("a", r.place, came)
				obvious.running--
				if refund {
					obvious.requests[r.request].cost = 0
					admitted[r.request].cost = 0
				}
				if extra := used - r.place.cost.Tokens; extra <= 0 {
					obvious.tokens[r.token].cost += extra
				} else {
					obvious.tokens = append(obvious.tokens, event{now, extra})
				}
			} else {
				cost := Cost{RequestMilli: rapid.Int64Range(0, 4000).Draw(t, "requests"), Tokens: rapid.Int64Range(0, 800).Draw(t, "tokens")}
				want := obvious.fits(now, cost)
				place, _, obstacle := ledger.Take("a", obvious.limits, cost)
				if (obstacle == nil) != want {
					t.Fatalf("Take(%+v) at %d = %+v, and the model says %t", cost, now, obstacle, want)
				}
				if obstacle != nil {
					continue
				}
				obvious.requests = append(obvious.requests, event{now, cost.RequestMilli})
				admitted = append(admitted, event{int64(c.now()), cost.RequestMilli})
				obvious.tokens = append(obvious.tokens, event{now, cost.Tokens})
				obvious.running++
				calls = append(calls, running{place, len(obvious.requests) - 1, len(obvious.tokens) - 1})
			}
			standing := ledger.Peek("a", obvious.limits)
			if l := obvious.limits.RequestsPerMinute; l != unlimited {
				if got, want := standing.Requests.Used, sum(obvious.requests, now); got != want {
					t.Fatalf("requests used = %d, and the model says %d", got, want)
				}
			}
			if l := obvious.limits.TokensPerMinute; l != unlimited {
				if got, want := standing.Tokens.Used, sum(obvious.tokens, now); got != want {
					t.Fatalf("tokens used = %d, and the model says %d", got, want)
				}
			}
			if got := ledger.Running(); got != obvious.running {
				t.Fatalf("running = %d, and the model says %d", got, obvious.running)
			}
		}
		// In nanoseconds, not the ledger's milliseconds: no minute holds more than the allowance.
		if l := obvious.limits.RequestsPerMinute; l != unlimited {
			for i, first := range admitted {
				total := int64(0)
				for _, e := range admitted[i:] {
					if e.at-first.at <= int64(time.Minute) {
						total += e.cost
					}
				}
				if total > int64(l)*1000 {
					t.Fatalf("a minute admitted %d thousandths on an allowance of %d", total, l)
				}
			}
		}
	})
}

func BenchmarkTake(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("accounts=%d", n), func(b *testing.B) {
			m := NewMemory(nil)
			ids := make([]string, n)
			for i := range ids {
				ids[i] = fmt.Sprintf("acct_%020d", i)
				m.Free(ids[i], first(m.Take(ids[i], limits(80, 50, 8_000_000), Cost{1000, 1100})), Cost{1000, 200})
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				id := ids[(i*7919)%n]
				i++
				p, _, _ := m.Take(id, limits(80, 50, 8_000_000), Cost{1000, 1100})
				m.Free(id, p, Cost{1000, 200})
			}
		})
	}
}

func first(p Place, _ Standing, _ *Obstacle) Place { return p }
