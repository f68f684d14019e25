package admission

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
)

var errAway = errors.New("away")

// quotaBench is a quota on a clock and a store of its own.
type quotaBench struct {
	*Quota
	t      *testing.T
	now    time.Time
	stored int64 // thousandths
	broken error
	reads  int
}

func newQuotaBench(t *testing.T, nodes int) *quotaBench {
	b := &quotaBench{t: t, now: time.Date(2026, 5, 31, 23, 0, 0, 0, time.UTC)}
	opts := &QuotaOptions{Now: func() time.Time { return b.now }, Nodes: func() int { return nodes }}
	b.Quota = NewQuota(func(_ context.Context, _, _ string, month time.Time) (int64, error) {
		b.reads++
		if month.Month() != b.now.Month() {
			t.Errorf("the sum of %s was asked for in %s", month, b.now)
		}
		return b.stored, b.broken
	}, opts)
	return b
}

// take reserves units under a limit of 10 and reports whether it could.
func (b *quotaBench) take(units int64) (Reserved, bool) {
	b.t.Helper()
	r, _, err := b.reserve("acct_1", "key_1", 10, units*1000)
	if err != nil {
		b.t.Fatalf("reserve = %v", err)
	}
	return r, r.key != nil
}

// fits checks how many units are left.
func (b *quotaBench) left(want int64, when string) {
	b.t.Helper()
	n := int64(0)
	var all []Reserved
	for {
		r, ok := b.take(1)
		if !ok {
			break
		}
		all = append(all, r)
		n++
	}
	for _, r := range all {
		b.settle(r, 0)
	}
	if n != want {
		b.t.Errorf("%s: %d units are left, want %d", when, n, want)
	}
}

func TestQuotaAlone(t *testing.T) {
	t.Parallel()
	b := newQuotaBench(t, 1)
	b.stored = 4000
	b.left(6, "after a start")
	r, _ := b.take(2)
	b.left(4, "with a running call")
	b.settle(r, 5000)
	b.left(1, "after it cost more than reserved")
	if b.reads != 1 {
		t.Errorf("the store was asked %d times, want once", b.reads)
	}
	// Calls that ran when the limit was set are known to the store alone.
	b.stored = 10000
	b.compare(t.Context())
	b.left(0, "after a comparison")
	b.stored = 3000
	b.compare(t.Context())
	b.left(0, "a lower sum changes nothing")

	// A month later.
	b.now, b.stored = b.now.Add(2*time.Hour), 1000
	b.left(9, "in the next month")
	old := Reserved{key: r.key, month: r.month, units: 2000}
	b.settle(old, 9000)
	b.left(9, "after the end of a call of the last month")
	b.correct("key_1", usage.MonthOf(b.now), -1000)
	b.left(10, "after a job that cost nothing")

	b.now = b.now.Add(2 * quotaForget)
	b.compare(t.Context())
	if len(b.keys) != 0 {
		t.Errorf("%d keys are remembered that nobody uses, want 0", len(b.keys))
	}
}

func TestQuotaUnread(t *testing.T) {
	t.Parallel()
	b := newQuotaBench(t, 1)
	b.broken = errAway
	if _, _, err := b.reserve("acct_1", "key_1", 10, 1000); !errors.Is(err, errAway) {
		t.Errorf("reserve without a store = %v, want its error", err)
	}
	b.broken = nil
	b.left(10, "once the store answers")
}

// Nodes that share nothing go by the sum and by as much again for each other node.
func TestQuotaApart(t *testing.T) {
	t.Parallel()
	b := newQuotaBench(t, 2)
	b.stored = 2000
	r, _ := b.take(1)
	b.left(3, "of 7, half are for the other node")
	b.settle(r, 1000)
	b.stored = 8000
	b.compare(t.Context())
	b.left(1, "after a comparison")
	tiny := newQuotaBench(t, 20)
	if _, ok := tiny.take(1); !ok {
		t.Error("a limit below the number of nodes lets nothing pass, want a call")
	}
}
