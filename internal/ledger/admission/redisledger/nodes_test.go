package redisledger

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/account"
	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/testkit/redistest"
)

// TestMembership lets nodes join, beat, leave and die in any order, and the table be lost: at no time do
// the shares of the living add up to more than a limit. When things calm down, they add up to it exactly.
func TestMembership(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	rapid.Check(t, func(r *rapid.T) {
		m := &membership{T: t, r: r, url: url, prefix: redistest.Prefix(), c: ledgertest.NewClock(), beats: map[*Ledger]time.Duration{}}
		defer m.close()
		m.join()
		for range rapid.IntRange(5, 40).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "action") {
			case 0:
				m.join()
			case 1:
				if l := m.any(); l != nil {
					l.leave(t.Context())
					m.remove(l)
				}
			case 2:
				if l := m.any(); l != nil {
					m.remove(l) // it dies
				}
			case 3:
				m.lose()
			case 4, 5:
				m.advance(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(r, "pause")))
			default:
				if l := m.any(); l != nil {
					m.beat(l)
				}
			}
			m.check(false)
		}
		if len(m.living) == 0 {
			return
		}
		for range 20 { // those that died are forgotten, and everybody has seen that
			m.advance(5 * time.Second)
			for _, l := range m.living {
				m.beat(l)
			}
		}
		m.check(true)
	})
}

// membership is one run of the property.
type membership struct {
	*testing.T
	r        *rapid.T
	url      string
	prefix   string
	c        *ledgertest.Clock
	all      []*Ledger
	living   []*Ledger
	beats    map[*Ledger]time.Duration // the last one of each
	sequence int
}

func (m *membership) join() {
	if len(m.living) >= 5 {
		return
	}
	m.sequence++
	name := fmt.Sprintf("%c%d", 'a'+rapid.IntRange(0, 25).Draw(m.r, "name"), m.sequence) // any rank
	l, err := Open(m.Context(), m.url, &Options{Node: name, Prefix: m.prefix, Now: m.c.Now, Deadline: patient})
	if err != nil {
		m.r.Fatal(err)
	}
	m.all, m.living = append(m.all, l), append(m.living, l)
	m.beats[l] = m.c.Now()
}

func (m *membership) any() *Ledger {
	if len(m.living) == 0 {
		return nil
	}
	return m.living[rapid.IntRange(0, len(m.living)-1).Draw(m.r, "which")]
}

func (m *membership) remove(l *Ledger) {
	m.living = slices.DeleteFunc(m.living, func(other *Ledger) bool { return other == l })
}

func (m *membership) beat(l *Ledger) {
	if err := l.beat(m.Context()); err != nil {
		m.r.Fatal(err)
	}
	m.beats[l] = m.c.Now()
}

// advance moves the clock. A living node is never silent for so long that it is forgotten.
func (m *membership) advance(d time.Duration) {
	for _, l := range m.living {
		if m.c.Now()+d-m.beats[l] > 30*time.Second {
			m.beat(l)
		}
	}
	m.c.Advance(d)
}

// lose deletes the table. Nodes that know it beat before a new one settles.
func (m *membership) lose() {
	if len(m.living) == 0 {
		return
	}
	c := raw(m.living[0])
	if err := c.Do(m.Context(), c.B().Del().Key(m.living[0].nodeKeys()...).Build()).Error(); err != nil {
		m.r.Fatal(err)
	}
	defer func(before []*Ledger) {
		for _, l := range before {
			m.beat(l)
		}
	}(slices.Clone(m.living))
	if rapid.Bool().Draw(m.r, "a stranger is first") {
		m.join()
		m.check(false)
	}
}

// check adds up the shares of the living.
func (m *membership) check(calm bool) {
	for _, limit := range []account.Limit{1, 2, 10, 1000} {
		for i := range 3 {
			id := fmt.Sprint("acct_", i)
			var sum account.Limit
			for _, l := range m.living {
				sum += l.shares(id, limits(limit, limit, limit)).RequestsPerMinute
			}
			if sum > limit || calm && sum != limit {
				m.r.Fatalf("shares of %d nodes add up to %d of %d (calm: %t)", len(m.living), sum, limit, calm)
			}
		}
	}
}

func (m *membership) close() {
	for _, l := range m.all {
		l.Close()
	}
}

// A Redis that was away for longer than a silent node is remembered forgets nobody: the nodes go by their
// shares meanwhile, and the first to return must not take all of them.
func TestNobodyIsForgottenInAnOutage(t *testing.T) {
	t.Parallel()
	c := ledgertest.NewClock()
	nodes := trio(t, redistest.URL(t), c, Options{Beat: time.Second})
	c.Advance(5 * time.Minute)
	for range 3 {
		nodes[0].step(t.Context())
	}
	if got := nodes[0].shares("a", limits(9, 9, 9)); got.RequestsPerMinute != 3 || nodes[0].State().Nodes != 3 {
		t.Errorf("shares of 9 = %+v of %d nodes when one of three has returned, want 3", got, nodes[0].State().Nodes)
	}
	// Those that do not return are forgotten in the end.
	for range 70 {
		c.Advance(time.Second)
		nodes[0].step(t.Context())
	}
	if got := nodes[0].shares("a", limits(9, 9, 9)); got.RequestsPerMinute != 9 {
		t.Errorf("shares of 9 = %+v when the two others have been silent for 70 s, want 9", got)
	}
}

// After Redis has lost its data, nodes go by their shares for a minute. A node that joins meanwhile changes the list,
// but nobody gets a share that another node may have used.
func TestSharesStayAfterALoss(t *testing.T) {
	t.Parallel()
	url, c := redistest.URL(t), ledgertest.NewClock()
	nodes := trio(t, url, c, Options{Beat: time.Second})
	opts := Options{Prefix: nodes[0].opts.Prefix, Now: c.Now, Beat: time.Second, Deadline: patient}
	share := func(l *Ledger, i int) account.Limit {
		return l.shares(fmt.Sprint("acct_", i), limits(1, 1, 1)).Concurrent
	}
	const accounts = 20
	before := map[*Ledger][accounts]account.Limit{}
	for _, l := range nodes {
		var all [accounts]account.Limit
		for i := range all {
			all[i] = share(l, i)
		}
		before[l] = all
	}
	client := raw(nodes[0])
	lose := func() {
		t.Helper()
		if err := client.Do(t.Context(), client.B().Del().Key(nodes[0].nodeKeys()...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	beat := func(seconds int, check func(second int)) {
		t.Helper()
		for second := range seconds {
			for _, l := range nodes {
				if err := l.beat(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			check(second)
			c.Advance(time.Second)
		}
	}
	// whole checks that the nodes share each limit, and nothing of it is left.
	whole := func() {
		t.Helper()
		for i := range accounts {
			var sum account.Limit
			for _, l := range nodes {
				sum += share(l, i)
			}
			if sum != 1 {
				t.Errorf("%d nodes share %d of a limit of 1", len(nodes), sum)
			}
		}
	}

	lose()
	beat(1, func(int) {})
	opts.Node = "a" // before the others in the list
	nodes = append(nodes, open(t, url, opts))
	beat(59, func(second int) {
		for n, l := range nodes {
			for i := range accounts {
				if got := share(l, i); got > before[l][i] {
					t.Fatalf("%d seconds after the loss node %d has a share of acct_%d that another one may have used", second+1, n, i)
				}
			}
		}
	})
	beat(3, func(int) {})
	whole()

	// Of nodes that all started later nobody has used anything, so they do not wait.
	lose()
	opts.Table, opts.Remember = "another", func(context.Context, string) error { return nil }
	nodes = nodes[:0:0]
	for _, opts.Node = range []string{"b", "c"} {
		nodes = append(nodes, open(t, url, opts))
	}
	beat(10, func(int) {})
	if !nodes[0].nodes.waiting() {
		t.Error("the nodes do not know that the data was lost")
	}
	whole()
}
