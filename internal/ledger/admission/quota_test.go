package admission

import (
	"context"
	"errors"
	"testing"
	"time"
)

// counts is a Counts in memory that can be away and lose its data.
type counts struct {
	away bool
	made int64
	used map[string]int64
	of   map[string]int64 // the number of each count
}

func newCounts() *counts { return &counts{used: map[string]int64{}, of: map[string]int64{}} }

var errAway = errors.New("away")

func (c *counts) ReserveUnits(keyID, month string, limit, units int64) (int64, int64, bool, error) {
	id := keyID + month
	if c.away {
		return 0, 0, false, errAway
	}
	if c.of[id] == 0 {
		return 0, 0, false, nil
	}
	ok := c.used[id]+units <= limit
	if ok {
		c.used[id] += units
	}
	return c.used[id], c.of[id], ok, nil
}

func (c *counts) AdjustUnits(keyID, month string, made, delta, whole int64) (int64, error) {
	id := keyID + month
	switch {
	case c.away:
		return 0, errAway
	case c.of[id] == 0:
	case c.of[id] == made:
		c.used[id] += delta
	default:
		c.used[id] += whole
	}
	return c.used[id], nil
}

func (c *counts) RaiseUnits(keyID, month string, atLeast int64) error {
	id := keyID + month
	if c.away {
		return errAway
	}
	c.used[id] = max(c.used[id], atLeast)
	if c.of[id] == 0 {
		c.made++
		c.of[id] = c.made
	}
	return nil
}

// lose forgets everything.
func (c *counts) lose() { c.used, c.of = map[string]int64{}, map[string]int64{} }

// quotaBench is a quota on a clock and a store of its own.
type quotaBench struct {
	*Quota
	t      *testing.T
	now    time.Time
	stored int64 // thousandths
	broken error
	reads  int
}

func newQuotaBench(t *testing.T, shared *counts, nodes int) *quotaBench {
	b := &quotaBench{t: t, now: time.Date(2026, 5, 31, 23, 0, 0, 0, time.UTC)}
	opts := &QuotaOptions{Now: func() time.Time { return b.now }, Nodes: func() int { return nodes }}
	if shared != nil {
		opts.Shared = shared
	}
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
	return r, r.month != ""
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
	b := newQuotaBench(t, nil, 1)
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
	old := Reserved{r.key, r.month, 2000, 0}
	b.settle(old, 9000)
	b.left(9, "after the end of a call of the last month")
	b.correct("key_1", monthOf(b.now), -1000)
	b.left(10, "after a job that cost nothing")

	b.now = b.now.Add(2 * quotaForget)
	b.compare(t.Context())
	if len(b.keys) != 0 {
		t.Errorf("%d keys are remembered that nobody uses, want 0", len(b.keys))
	}
}

func TestQuotaUnread(t *testing.T) {
	t.Parallel()
	b := newQuotaBench(t, nil, 1)
	b.broken = errAway
	if _, _, err := b.reserve("acct_1", "key_1", 10, 1000); !errors.Is(err, errAway) {
		t.Errorf("reserve without a store = %v, want its error", err)
	}
	b.broken = nil
	b.left(10, "once the store answers")
}

func TestQuotaShared(t *testing.T) {
	t.Parallel()
	c := newCounts()
	one, two := newQuotaBench(t, c, 2), newQuotaBench(t, c, 2)
	one.stored, two.stored = 2000, 2000
	r, _ := one.take(3)
	two.left(5, "with a call on the other node")
	one.settle(r, 1000)
	two.left(7, "after it has ended")

	// While the count is away, each node assumes that the other uses as much.
	running, _ := one.take(1)
	c.away = true
	n := 0
	for _, b := range []*quotaBench{one, two} {
		for {
			if _, ok := b.take(1); !ok {
				break
			}
			n++
		}
	}
	if n > 10 || n < 4 {
		t.Errorf("%d units were admitted while the count was away, want 4 to 10", n)
	}
	c.away = false
	one.take(0)
	two.take(0)
	if got, want := c.used["key_12026-05"], int64(3000+1000+1000*n); got != want && got != want-1000 {
		t.Errorf("the count is %d after the nodes have told it, want %d", got, want)
	}

	// It loses its data: the store and what is still running make a new one.
	c.lose()
	one.stored, two.stored = 5000, 5000
	two.take(0)
	one.settle(running, 2000)
	two.left(3, "after the count was lost and a call of the old one has ended")
	// The usual end of a call, which cost what it reserved, needs no word to the count.
	r, _ = two.take(1)
	c.away = true
	two.settle(r, 1000)
	c.away = false
	two.left(2, "after a call that cost what it reserved")
}

// Nodes that share nothing go by the sum and by as much again for each other node.
func TestQuotaApart(t *testing.T) {
	t.Parallel()
	b := newQuotaBench(t, nil, 2)
	b.stored = 2000
	r, _ := b.take(1)
	b.left(3, "of 7, half are for the other node")
	b.settle(r, 1000)
	b.stored = 8000
	b.compare(t.Context())
	b.left(1, "after a comparison")
	tiny := newQuotaBench(t, nil, 20)
	if _, ok := tiny.take(1); !ok {
		t.Error("a limit below the number of nodes lets nothing pass, want a call")
	}
}
