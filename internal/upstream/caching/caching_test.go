package caching_test

import (
	"sync"
	"testing"
	"time"

	"sluice/internal/upstream/caching"
)

var sonnet = models[0].prices

// TestWeigh has the cases of the arithmetic.
func TestWeigh(t *testing.T) {
	t.Parallel()
	yes := func(caching.Bet) bool { return true }
	for _, tt := range []struct {
		name   string
		e      caching.Evidence
		allows func(caching.Bet) bool
		want   caching.TTL
	}{
		{"a first call of nobody known", caching.Evidence{Kind: caching.Opening}, yes, caching.Not},
		{"a first call of an account whose conversations go on", caching.Evidence{Kind: caching.Opening, Lately: caching.Gaps{Short: 8, Later: 1}}, yes, caching.Short},
		{"a first call of an account of single calls", caching.Evidence{Kind: caching.Opening, Lately: caching.Gaps{Short: 1, Later: 20}}, yes, caching.Not},
		{"a program that answers tools", caching.Evidence{Kind: caching.Loop, Turns: 1}, yes, caching.Short},
		{"a chat with gaps of hours", caching.Evidence{Kind: caching.Talk, Turns: 4, Gaps: caching.Gaps{Later: 3}}, yes, caching.Not},
		{"a chat with gaps of half an hour, for long", caching.Evidence{Kind: caching.Talk, Turns: 12, Gaps: caching.Gaps{Short: 2, Middle: 10}}, yes, caching.Long},
		{"the same, of which five minutes are there", caching.Evidence{Kind: caching.Talk, Turns: 12, Gaps: caching.Gaps{Short: 2, Middle: 10}, Cached: 9_000, TTL: caching.Short, Own: true}, yes, caching.Short},
		{"short gaps, of which an hour is there", caching.Evidence{Kind: caching.Loop, Turns: 12, Gaps: caching.Gaps{Short: 12}, Cached: 9_000, TTL: caching.Long, Own: true}, yes, caching.Long},
		{"short gaps, whose beginning is there for an hour", caching.Evidence{Kind: caching.Loop, Turns: 12, Gaps: caching.Gaps{Short: 12}, Cached: 5_000, TTL: caching.Long}, yes, caching.Short},
		{"a bank that allows nothing", caching.Evidence{Kind: caching.Loop, Turns: 9}, func(caching.Bet) bool { return false }, caching.Not},
	} {
		if got := caching.Weigh(&sonnet, &tt.e, 10_000, tt.allows); got.TTL != tt.want {
			t.Errorf("%s: Weigh = %+v, want the life %q", tt.name, got, tt.want)
		}
	}
	free := caching.Prices{Input: 2, Read: 0.2, Short: 2}
	if got := caching.Weigh(&free, &caching.Evidence{Kind: caching.Talk, Turns: 1}, 10_000, yes); got.TTL != caching.Short || got.Stake != 0 {
		t.Errorf("Weigh where writing costs nothing more = %+v, want five minutes without a stake", got)
	}
}

// TestBank has what a bank allows.
func TestBank(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		bank  caching.Bank
		bet   caching.Bet
		allow bool
	}{
		{"a first bet", caching.Bank{}, caching.Bet{TTL: caching.Short, Stake: 5}, true},
		{"a first bet on an hour", caching.Bank{}, caching.Bet{TTL: caching.Long, Stake: 5}, false},
		{"an hour that is paid for", caching.Bank{Net: 5}, caching.Bet{TTL: caching.Long, Stake: 5}, true},
		{"after a lost one", caching.Bank{Net: -5}, caching.Bet{TTL: caching.Short, Stake: 5}, false},
		{"without a stake", caching.Bank{Net: -5}, caching.Bet{TTL: caching.Short}, true},
		{"too little evidence", caching.Bank{Net: -5, Forgone: 19}, caching.Bet{TTL: caching.Short, Stake: 5}, false},
		{"evidence", caching.Bank{Net: -5, Forgone: 20}, caching.Bet{TTL: caching.Short, Stake: 5}, true},
	} {
		if got := tt.bank.Allows(tt.bet); got != tt.allow {
			t.Errorf("%s: Allows = %v, want %v", tt.name, got, tt.allow)
		}
	}
}

// talk makes calls of one conversation and returns the last choice.
type talk struct {
	memory *caching.Memory
	name   caching.Name
	now    time.Time
	turns  int
}

func newTalk() *talk {
	return &talk{memory: caching.NewMemory(), name: caching.Name{Account: 1, Conversation: 2, Head: 3}, now: time.Unix(1_800_000_000, 0)}
}

var sizes = caching.Sizes{Head: 6_000, Whole: 10_000, Least: 1024}

func (k *talk) call(pause time.Duration, place uint64, f *caching.Figures, sent bool) caching.Choice {
	k.now = k.now.Add(pause)
	kind := caching.Loop
	if k.turns == 0 {
		kind = caching.Opening
	}
	t := k.memory.Begin(k.name, kind, k.turns, k.now)
	k.turns++
	c := t.Weigh(place, sonnet, sizes)
	t.Settle(f, sent)
	return c
}

// TestReasons has what is said of choices.
func TestReasons(t *testing.T) {
	t.Parallel()
	k := newTalk()
	plain, wrote, read := caching.Figures{Prompt: 10_000}, caching.Figures{Prompt: 10_000, Short: 10_000}, caching.Figures{Prompt: 10_000, Read: 9_000, Short: 1_000}
	for _, tt := range []struct {
		name  string
		pause time.Duration
		place uint64
		f     *caching.Figures
		want  caching.Marks
		why   string
	}{
		{"the first", 0, 1, &plain, caching.Marks{}, "not cached: first call"},
		{"the second", 40 * time.Second, 1, &wrote, caching.Marks{Head: caching.Short, Before: caching.Short, Last: caching.Short}, "cached for 5m: 1 turn, gaps of 40s"},
		{"the third", 40 * time.Second, 1, &read, caching.Marks{Head: caching.Short, Before: caching.Short, Last: caching.Short}, "cached for 5m: 2 turns, gaps of 40s"},
		{"at another place, which the winnings pay for", 40 * time.Second, 2, &wrote, caching.Marks{Head: caching.Short, Before: caching.Short, Last: caching.Short}, "cached for 5m: 3 turns, gaps of 40s"},
	} {
		if got := k.call(tt.pause, tt.place, tt.f, true); got.Marks != tt.want || got.Reason != tt.why {
			t.Errorf("%s: Weigh = %+v %q, want %+v %q", tt.name, got.Marks, got.Reason, tt.want, tt.why)
		}
	}
	k.name.Conversation = 9
	k.turns = 5
	if got := k.call(time.Second, 1, &wrote, true); got.Reason != "cached for 5m: 5 turns, answers tools" {
		t.Errorf("another conversation of many turns: %q", got.Reason)
	}
	turn := k.memory.Begin(caching.Name{Account: 5, Conversation: 6}, caching.Loop, 3, k.now)
	if got := turn.Weigh(1, caching.Prices{Input: 2, Read: 2, Short: 2}, sizes); got.Reason != caching.Unpriced || !got.Marks.None() {
		t.Errorf("without a price of reads: %+v", got)
	}
	if got := turn.Weigh(1, sonnet, caching.Sizes{Whole: 900, Least: 1024}); got.Reason != "not cached: about 900 tokens, and the model keeps 1024 or more" {
		t.Errorf("a short prompt: %q", got.Reason)
	}
}

// TestLost loses a bet in ways that must stop the next one, and in one that must not.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		f    *caching.Figures
		sent bool
		want bool // the next call of another conversation is marked
	}{
		{"written and never read", &caching.Figures{Prompt: 10_000, Short: 10_000}, true, false},
		{"sent, and nobody knows what it cost", nil, true, false},
		{"not sent", nil, false, true},
		{"nothing was written", &caching.Figures{Prompt: 10_000}, true, true},
	} {
		k := newTalk()
		k.turns = 1
		if c := k.call(0, 1, tt.f, tt.sent); c.Marks.None() {
			t.Fatalf("%s: a program that answers tools is not marked: %s", tt.name, c.Reason)
		}
		k.name.Conversation, k.turns = 20, 1
		k.name.Head = 0
		if c := k.call(time.Second, 1, nil, false); c.Marks.None() == tt.want {
			t.Errorf("%s: the next call gets %+v, %s", tt.name, c.Marks, c.Reason)
		}
	}
}

// TestLook asks what would be marked, which changes nothing.
func TestLook(t *testing.T) {
	t.Parallel()
	k := newTalk()
	k.call(0, 1, &caching.Figures{Prompt: 10_000}, true)
	for range 50 {
		turn := k.memory.Look(k.name, caching.Loop, 1, k.now.Add(30*time.Second))
		if c := turn.Weigh(1, sonnet, sizes); c.Reason != "cached for 5m: 1 turn, gaps of 30s" {
			t.Fatalf("a look says %q", c.Reason)
		}
		turn.Settle(nil, true)
	}
	if c := k.call(40*time.Second, 1, nil, false); c.Reason != "cached for 5m: 1 turn, gaps of 40s" {
		t.Errorf("after looks, a call says %q", c.Reason)
	}
}

// TestForgets makes more conversations than there is room for.
func TestForgets(t *testing.T) {
	t.Parallel()
	k := newTalk()
	k.call(0, 1, &caching.Figures{Prompt: 10_000}, true)
	for i := range uint64(300_000) {
		t := k.memory.Begin(caching.Name{Account: 1000 + i, Conversation: 1000 + i}, caching.Opening, 0, k.now.Add(time.Second))
		t.Weigh(1, sonnet, sizes)
		t.Settle(nil, false)
	}
	k.turns = 0
	if c := k.call(2*time.Second, 1, nil, false); c.Reason != "not cached: first call" {
		t.Errorf("after 300,000 other conversations, a call says %q", c.Reason)
	}
}

func BenchmarkTurn(b *testing.B) {
	m, now := caching.NewMemory(), time.Now()
	for i := 0; b.Loop(); i++ {
		t := m.Begin(caching.Name{Account: uint64(i % 50), Conversation: uint64(i % 5000), Head: uint64(i % 100)}, caching.Loop, i%40, now.Add(time.Duration(i)*time.Millisecond))
		t.Weigh(1, sonnet, sizes)
		t.Settle(&caching.Figures{Prompt: 10_000, Read: 9_000, Short: 1_000}, true)
	}
}

// TestMany uses one memory from many goroutines, in the same conversations.
func TestMany(t *testing.T) {
	t.Parallel()
	m, now := caching.NewMemory(), time.Unix(1_800_000_000, 0)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				turn := m.Begin(caching.Name{Account: 1, Conversation: uint64(2 + i%5), Head: 9}, caching.Loop, i, now.Add(time.Duration(i)*time.Second))
				if c := turn.Weigh(uint64(g%2), sonnet, sizes); c.Reason == "" {
					t.Error("a choice without a reason")
				}
				turn.Settle(&caching.Figures{Prompt: 10_000, Short: 10_000 * (i % 2), Read: 10_000 * (1 - i%2)}, true)
			}
		})
	}
	all.Wait()
}
