package redisledger

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/admission/ledgertest"
	"sluice/internal/ledger/usage"
	"sluice/internal/testkit/redistest"
)

// tallies returns the number of accounts that a node remembers.
func (u *Units) tallies() (n int) {
	for i := range u.shards {
		u.shards[i].mu.Lock()
		n += len(u.shards[i].accounts)
		u.shards[i].mu.Unlock()
	}
	return n
}

// sweepAll sweeps every shard, as if keepTally had passed.
func (u *Units) sweepAll() {
	for range unitShards {
		u.sweep(u.l.clock.now() + keepTally)
	}
}

// A node remembers the accounts that make calls, not those that once did.
func TestUnitsForgetAccounts(t *testing.T) {
	t.Parallel()
	c := ledgertest.NewClock()
	l := openSim(t, at(0, 1), &memo{}, &Options{Now: c.Now}, simDirect{newSimRedis(time.Now, breakScript(t, ""))})
	l.units.Listen(silent{})
	const accounts = 100_000
	for i := range accounts {
		l.units.saw(fmt.Sprint("acct", i), reply{units: 1})
	}
	c.Advance(keepTally - time.Second)
	l.units.saw("acct1", reply{units: 2})
	for range unitShards {
		l.step(t.Context())
	}
	if n := l.units.tallies(); n != accounts {
		t.Errorf("%d accounts are remembered, want all %d: they were used a moment ago", n, accounts)
	}
	c.Advance(time.Second)
	for range unitShards {
		l.step(t.Context())
	}
	if n := l.units.tallies(); n != 1 {
		t.Errorf("%d of %d accounts are remembered, want the one that was used", n, accounts)
	}
}

// What a node adds to an account that it had forgotten counts, and counts once.
func TestUnitsOfAForgottenAccount(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{})
	c := newClub(t, "sqlite", 10, nodes...)
	c.run()
	start(t, nodes...)
	id := c.open()
	for round := range int64(3) {
		for i, m := range c.members {
			if !m.call(id, 1000) {
				t.Fatalf("round %d: node %d refuses a call", round, i)
			}
		}
		eventually(t, "the units of the round", func() bool { return c.members[0].units(id) == 3000*(round+1) })
		eventually(t, "that nodes forget the account", func() bool {
			left := 0
			for _, l := range nodes {
				l.units.sweepAll()
				left += l.units.tallies()
			}
			return left == 0
		})
	}
	if m := c.members[0]; !m.call(id, 1000) || m.call(id, 1000) {
		t.Errorf("%d thousandths are counted; want the 10th call admitted and the 11th refused", m.units(id))
	}
}

// Nodes forget accounts at any moment, while additions wait, rest, and are on their way.
func TestUnitsForgottenAtAnyTime(t *testing.T) {
	t.Parallel()
	nodes := trio(t, redistest.URL(t), nil, Options{})
	c := newClub(t, "sqlite", 1_000_000, nodes...)
	c.run()
	start(t, nodes...)
	ids := []string{c.open(), c.open(), c.open()}
	for _, id := range ids { // introduced
		c.members[0].call(id, 1000)
		eventually(t, "the first units", func() bool { return c.members[0].units(id) == 1000 })
	}
	const callers, each = 6, 60
	var wg, sweeping sync.WaitGroup
	stop := make(chan struct{})
	for _, l := range nodes {
		sweeping.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					l.units.sweepAll()
				}
			}
		})
	}
	seed := rand.Uint64()
	for i := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for n := range each {
				c.members[random.IntN(3)].call(ids[n%len(ids)], 1000)
			}
		})
	}
	wg.Wait()
	close(stop)
	sweeping.Wait()
	want := int64(1000 + callers*each/len(ids)*1000)
	for _, id := range ids {
		eventually(t, "all units", func() bool { return c.members[0].units(id) >= want })
		if got := c.members[0].units(id); got != want {
			t.Errorf("seed %d: %d thousandths are counted, want %d", seed, got, want)
		}
	}
}

// counted is the reply of the script to an errand: Redis has counted everything.
func counted(e *errand, seen int64) answer {
	text := appendNumber(appendNumber(appendNumber(nil, 1), seen), seen)
	for range e.about {
		for range 4 {
			text = appendNumber(text, 0)
		}
	}
	return answer{text: string(text)}
}

// What is on its way is not forgotten, and a reply to an errand of a forgotten tally says nothing about the next.
func TestUnitsForgottenOnTheWay(t *testing.T) {
	t.Parallel()
	l := newLedger(at(0, 1), &Options{Now: ledgertest.NewClock().Now})
	u := l.Units()
	u.Listen(silent{})
	l.state.closed.Store(true)
	total := abuse.Total{AccountID: "a", Plan: account.Basic, Tier: account.Free, Month: month()}
	seen := total.Month.UnixMicro()
	add := func(units int64) *errand {
		u.saw("a", reply{units: seen})
		u.Add(total, &usage.Settlement{ID: "s", UnitMilli: units}, unlimited)
		return u.errand("a")
	}

	lost := add(5000)
	if u.sweepAll(); u.tallies() != 1 {
		t.Error("an addition on its way is forgotten")
	}
	lost.heard(answer{err: errReset})
	if u.sweepAll(); u.tallies() != 1 {
		t.Error("an addition that may be lost is forgotten")
	}
	u.resend()
	again := u.errand("a")
	again.heard(counted(again, seen))

	raise := u.raiseOrder("a", &abuse.Known{Month: total.Month}).errand
	if u.sweepAll(); u.tallies() != 0 {
		t.Error("the account is remembered, want it forgotten: Redis has counted everything")
	}
	if e := add(3000); len(e.about) != 1 || e.about[0].sent != 3000 || e.args[lifeArg] == again.args[lifeArg] {
		t.Errorf("the errand is about %+v in the life %s, want 3000 thousandths in another than %s", e.about, e.args[lifeArg], again.args[lifeArg])
	}
	raise.heard(counted(raise, seen))
	if e := u.errand("a"); len(e.about) != 1 || e.about[0].sent != 3000 {
		t.Errorf("the errand is about %+v after an old reply, want 3000 thousandths that are not counted yet", e.about)
	}
}

// silent is told what nobody needs.
type silent struct{}

func (silent) Counted(abuse.Total, abuse.Change) {}
func (silent) Missed(abuse.Total, int64)         {}
func (silent) Unknown(string, bool)              {}
func (silent) Marked(string, time.Time)          {}
