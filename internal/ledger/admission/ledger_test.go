package admission

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
)

// clock is a time that tests move by hand.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Duration      { return time.Duration(c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }
func limits(rpm, slots, tpm account.Limit) account.Limits {
	return account.Limits{RequestsPerMinute: rpm, Concurrent: slots, TokensPerMinute: tpm}
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

func first(p Place, _ Headroom, _ *Obstacle) Place { return p }
