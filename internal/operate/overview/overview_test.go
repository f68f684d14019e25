package overview

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/routing"
)

// shared is a database that boards share.
type shared struct {
	mu      sync.Mutex
	minutes map[string]map[int64]Minute
	writes  int
	away    error
}

func (s *shared) StoreMinutes(_ context.Context, node string, minutes []Minute, before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return s.away
	}
	s.writes++
	if s.minutes == nil {
		s.minutes = map[string]map[int64]Minute{}
	}
	if s.minutes[node] == nil {
		s.minutes[node] = map[int64]Minute{}
	}
	for _, m := range minutes {
		s.minutes[node][m.At.Unix()] = m
	}
	for _, all := range s.minutes {
		for key := range all {
			if key < before.Unix() {
				delete(all, key)
			}
		}
	}
	return nil
}

func (s *shared) Minutes(_ context.Context, except string, from time.Time, yield func(string, Minute)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, all := range s.minutes {
		for key, m := range all {
			if node != except && key >= from.Truncate(time.Minute).Unix() {
				yield(node, m)
			}
		}
	}
	return s.away
}

func call(account string, at time.Time, took time.Duration, end usage.End) usage.Settlement {
	return usage.Settlement{AccountID: account, At: at.Add(-took), Latency: took, FirstToken: took / 2, End: end, Tokens: chat.Usage{Prompt: 10, Completion: 5}}
}

// What nodes see is added up by minute, on each of them.
func TestBoard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &shared{}
		var gauges atomic.Pointer[Gauges]
		gauges.Store(&Gauges{Streams: 2, Refused: 7, Targets: []routing.TargetHealth{{Provider: "p", Upstream: "u", Answered: 5}}})
		one := New(func() Gauges { return *gauges.Load() }, &Options{Store: db, Node: "one"})
		two := New(func() Gauges { return Gauges{} }, &Options{Store: db, Node: "two"})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go one.Run(ctx)
		go two.Run(ctx)
		time.Sleep(30 * time.Second) // to the middle of a minute
		one.Settled([]usage.Settlement{call("a", time.Now(), 100*time.Millisecond, usage.EndComplete), call("b", time.Now().Add(-2*time.Minute), time.Second, usage.EndFailed)})
		two.Settled([]usage.Settlement{call("a", time.Now(), 400*time.Millisecond, usage.EndCut)})
		targets := []routing.TargetHealth{{Provider: "p", Upstream: "u", Answered: 8, Failed: 1, Waited: time.Second}}
		gauges.Store(&Gauges{Streams: 1, Refused: 9, Targets: targets})
		time.Sleep(2 * sampleEvery)
		synctest.Wait()
		for name, b := range map[string]*Board{"one": one, "two": two} {
			minutes := b.Minutes(ctx)
			now, before := minutes[Kept-1], minutes[Kept-3]
			if len(minutes) != Kept || now.Calls != 2 || now.Failed != 1 || now.Prompt != 20 || now.Completion != 10 || now.Refused != 9 || now.Streams != 2 {
				t.Errorf("%s: the current minute = %+v", name, now)
			}
			if before.Calls != 1 || before.Failed != 1 || before.Accounts["b"].Calls != 1 {
				t.Errorf("%s: two minutes ago = %+v", name, before)
			}
			if p := now.Took.Quantile(0.5); p < 80*time.Millisecond || p > 120*time.Millisecond {
				t.Errorf("%s: the median is %s, want about 100ms", name, p)
			}
			if got := Series(minutes, &routing.TargetHealth{Provider: "p", Upstream: "u"}, Parts)[Parts-1]; got != (Target{Answered: 8, Failed: 1, WaitedMS: 1000}) {
				t.Errorf("%s: the series of the target ends with %+v", name, got)
			}
			if got := Loaders(minutes, 1); len(got) != 1 || got[0] != (Loader{"a", Load{Calls: 2, Failed: 1, Tokens: 30}}) {
				t.Errorf("%s: Loaders = %+v", name, got)
			}
		}
		// A node that does nothing writes nothing, and what is old goes.
		gauges.Store(&Gauges{Refused: 9, Targets: targets})
		time.Sleep(2 * sampleEvery)
		writes := db.writes
		time.Sleep(Kept * time.Minute)
		synctest.Wait()
		if db.writes != writes {
			t.Errorf("idle nodes wrote %d times", db.writes-writes)
		}
		if n := len(one.minutes); n > Kept || len(two.minutes) != 0 { // those of one hold looks at its target
			t.Errorf("%d and %d minutes are kept after three hours", n, len(two.minutes))
		}
		for _, m := range two.Minutes(ctx) {
			if m.Calls != 0 {
				t.Errorf("%s has %d calls", m.At, m.Calls)
			}
		}
	})
}

// What could not be stored is stored later, and the own figures are there meanwhile.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &shared{away: errors.New("away")}
		b := New(func() Gauges { return Gauges{} }, &Options{Store: db, Node: "one"})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go b.Run(ctx)
		b.Settled([]usage.Settlement{call("a", time.Now(), time.Second, usage.EndComplete)})
		time.Sleep(time.Minute)
		synctest.Wait()
		if m := b.Minutes(ctx)[Kept-2]; m.Calls != 1 {
			t.Errorf("without the database the minute = %+v", m)
		}
		db.mu.Lock()
		db.away = nil
		db.mu.Unlock()
		time.Sleep(2 * sampleEvery)
		synctest.Wait()
		if len(db.minutes["one"]) != 1 {
			t.Error("the minute was not stored after the database was back")
		}
	})
}

// Memory is bounded, whoever calls.
func TestAccountsAreBounded(t *testing.T) {
	t.Parallel()
	var m Minute
	for i := range mostAccounts + 10 {
		s := call(fmt.Sprint("account ", i), time.Now(), time.Second, usage.EndComplete)
		for range 1 + i%7 {
			m.settled(&s)
		}
	}
	if len(m.Accounts) != mostAccounts {
		t.Errorf("%d accounts are told apart, want %d", len(m.Accounts), mostAccounts)
	}
	m.end()
	if len(m.Accounts) != keptAccounts {
		t.Errorf("%d accounts are kept, want %d", len(m.Accounts), keptAccounts)
	}
	for id, l := range m.Accounts {
		if l.Calls != 7 {
			t.Errorf("%s with %d calls was kept", id, l.Calls)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var times Times
	if got := times.Quantile(0.5); got != 0 {
		t.Errorf("Quantile of nothing = %s", got)
	}
	for i := range 1000 {
		times.add(time.Duration(i+1) * time.Millisecond)
	}
	times.add(100 * time.Hour) // beyond the last class
	for share, want := range map[float64]time.Duration{0.1: 100, 0.5: 500, 0.95: 950} {
		want *= time.Millisecond
		if got := times.Quantile(share); got < want*8/10 || got > want*12/10 {
			t.Errorf("Quantile(%g) = %s, want about %s", share, got, want)
		}
	}
	if len(times) != mostClasses {
		t.Errorf("%d classes, want %d", len(times), mostClasses)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		today := time.Now().UTC().Truncate(24 * time.Hour)
		accounts := map[string]*account.Account{
			"a": {ID: "a", Email: "a@example.com", Plan: account.Basic, CreatedAt: today},
			"b": {ID: "b", Email: "b@example.com", CreatedAt: today.AddDate(0, 0, -29)},
			"c": {ID: "c", Plan: account.Basic, CreatedAt: today.AddDate(0, 0, -30)},
		}
		counts, away := 0, error(nil)
		b := New(func() Gauges {
			return Gauges{Targets: []routing.TargetHealth{{Down: true}, {Drained: true}, {State: routing.HalfOpen}}}
		}, nil)
		d := NewReporter(b, Sources{
			Accounts: func(yield func(*account.Account)) {
				counts++
				for _, a := range accounts {
					yield(a)
				}
			},
			Account: func(id string) *account.Account { return accounts[id] },
			Revenue: func(_ context.Context, from time.Time) (map[int64]Income, error) {
				return map[int64]Income{today.Unix() / 86400: {Payments: 1, Cents: 2000}}, away
			},
			Videos: func(time.Time) (int, time.Duration, error) { return 3, time.Minute, away },
			Nodes:  func() int { return 1 },
		})
		b.Settled([]usage.Settlement{call("a", time.Now(), time.Second, usage.EndComplete), call("gone", time.Now(), time.Second, usage.EndComplete), call("a", time.Now(), time.Second, usage.EndComplete)})
		for _, earlier := range []time.Duration{30 * time.Minute, 90 * time.Minute} {
			b.Settled([]usage.Settlement{call("b", time.Now().Add(-earlier), time.Second, usage.EndComplete)})
		}
		r := d.Report(t.Context())
		if len(r.Points) != Kept || r.Points[Kept-1].Calls != 3 || r.Points[Kept-1].Slow < 800 {
			t.Errorf("the current minute = %+v", r.Points[Kept-1])
		}
		if len(r.Busy) != 2 || r.Busy[0].Email != "a@example.com" || r.Busy[0].Calls != 2 || r.Busy[1].Email != "" {
			t.Errorf("Busy = %+v", r.Busy)
		}
		if len(r.BusyHour) != 3 || r.BusyHour[0].Email != "a@example.com" || r.BusyHour[1].AccountID != "b" || r.BusyHour[1].Calls != 1 {
			t.Errorf("BusyHour = %+v, want the account of half an hour ago, too, with one call", r.BusyHour)
		}
		if r.Accounts != 3 || !slices.Contains(r.Plans, PlanCount{"basic", 2}) || !slices.Contains(r.Plans, PlanCount{"none", 1}) || len(r.Plans) != 5 {
			t.Errorf("Plans = %+v of %d", r.Plans, r.Accounts)
		}
		if len(r.Days) != days || r.Days[0].SignUps != 1 || r.Days[days-1].SignUps != 1 || r.Days[days-1].Cents != 2000 {
			t.Errorf("Days = %+v", r.Days)
		}
		if r.Targets != (Targets{3, 1, 1}) || r.Videos != (Videos{3, 60}) || len(r.Problems) != 0 {
			t.Errorf("Targets = %+v, Videos = %+v, Problems = %v", r.Targets, r.Videos, r.Problems)
		}
		d.Report(t.Context())
		if counts != 1 {
			t.Errorf("accounts were counted %d times in a moment", counts)
		}
		away = errors.New("away")
		time.Sleep(censusEvery)
		if r := d.Report(t.Context()); len(r.Problems) != 2 || counts != 2 {
			t.Errorf("Problems = %v after %d counts, want two", r.Problems, counts)
		}
	})
}

// One failed call on a quiet day is not months without service.
func TestUptime(t *testing.T) {
	t.Parallel()
	days := make([]Span, 10)
	for i := range days {
		days[i].Looks = 1440
	}
	days[3].Calls, days[3].Failed = 1, 1
	days[4].Calls, days[4].Failed = 1000, 500
	days[5] = Span{} // nothing is known
	days[6].Looks, days[6].Down = 144, 144
	// Six whole days, one without, a half, and a tenth of a day that was down.
	if share, known := Uptime(days); !known || math.Abs(share-(6+0.5)/(8+0.1)) > 1e-9 {
		t.Errorf("Uptime = %v, %t, want %v", share, known, 6.5/8.1)
	}
	if _, known := Uptime(make([]Span, 3)); known {
		t.Error("Uptime of days of which nothing is known is known")
	}
}
