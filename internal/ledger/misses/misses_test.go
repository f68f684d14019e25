package misses

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/prefix"
)

// calls are the calls of an account, oldest first.
type calls []usage.Settlement

func (c calls) CallsBefore(_ context.Context, accountID string, before usage.Point, from time.Time, limit int) (out []usage.Settlement, err error) {
	for i := len(c) - 1; i >= 0 && len(out) < limit; i-- {
		if s := c[i]; s.AccountID == accountID && !s.At.Before(from) && (s.At.Before(before.At) || s.At.Equal(before.At) && s.ID < before.ID) {
			out = append(out, s)
		}
	}
	return out, nil
}

var (
	key  = prefix.NewKey(bytes.Repeat([]byte("k"), 32))
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// print returns the fingerprint of a prompt with a system prompt and messages.
func print(system string, messages ...string) *usage.Prefix {
	var to prefix.Printer
	to.Reset(key)
	to.Begin(prefix.System)
	to.Write([]byte(system))
	for _, m := range messages {
		to.Begin(prefix.Messages)
		to.Write([]byte(m))
	}
	return &usage.Prefix{Conversation: key.Name([]byte(messages[0])), Print: to.Print()}
}

// call returns a call of a model with a cache, so long after noon, that wrote its prompt to the cache and read nothing.
func call(id string, after time.Duration, p *usage.Prefix, change func(*usage.Settlement)) usage.Settlement {
	s := usage.Settlement{
		ID: id, At: noon.Add(after), AccountID: "a", ModelUsed: "m", Provider: "p", End: usage.EndComplete, FirstToken: time.Second,
		Tokens: chat.Usage{Prompt: 5000, CacheWrite5m: 4000, Completion: 10}, Caching: usage.Caching{Cacheable: 5000},
		Trace: &usage.Trace{Prefix: p, Attempts: []usage.Attempt{{Model: "m", Provider: "p", Upstream: "u", Key: "9f3c", Outcome: usage.Answered}}},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func TestWhy(t *testing.T) {
	t.Parallel()
	system := strings.Repeat("You are a careful helper. ", 80)
	first, second := print(system, "hello"), print(system, "hello", "hi", "more")
	before := call("1", 0, first, nil)
	marked := Cache{Least: 1024, Life: 5 * time.Minute, Marked: true}
	for _, tt := range []struct {
		name   string
		before calls
		now    usage.Settlement
		cache  Cache
		want   Reason
		says   string
	}{
		{"a hit", calls{before}, call("2", time.Minute, second, func(s *usage.Settlement) { s.Tokens = chat.Usage{Prompt: 100, Cached: 4900} }), marked, Hit, "98% of the prompt came from a cache."},
		{"no cache", calls{before}, call("2", time.Minute, nil, func(s *usage.Settlement) { s.Cacheable, s.Tokens = 0, chat.Usage{Prompt: 5000} }), marked, NoCache, "reports no caches"},
		{"too short", calls{before}, call("2", time.Minute, second, func(s *usage.Settlement) { s.Tokens = chat.Usage{Prompt: 900} }), marked, Short, "from 1,024 tokens on"},
		{"the first", nil, before, marked, First, "the first call of its conversation"},
		{"the first of this conversation", calls{call("0", 0, print(system, "other"), nil)}, before, marked, First, "the first call"},
		{"of another account", calls{call("0", 0, first, func(s *usage.Settlement) { s.AccountID = "b" })}, before, marked, First, "the first call"},
		{"the one before failed", calls{call("0", 0, first, func(s *usage.Settlement) { s.End = usage.EndFailed })}, call("2", time.Minute, second, nil), marked, First, "the first call"},
		{"a day ago", calls{before}, call("2", 25*time.Hour, second, nil), marked, First, "the first call"},
		{
			"nothing marked",
			calls{call("1", 0, first, func(s *usage.Settlement) { s.Tokens = chat.Usage{Prompt: 5000} })},
			call("2", time.Minute, second, func(s *usage.Settlement) { s.Tokens = chat.Usage{Prompt: 5000} }), marked, Unmarked, "set cache_control",
		},
		{"another key", calls{before}, call("2", time.Minute, second, func(s *usage.Settlement) {
			s.Trace.Attempts[0].Key, s.Trace.Affinity = "77aa", "moved (key at its limit)"
		}), marked, Moved, "with the key that ends in 9f3c, and a cache belongs to one target. It moved because of this: key at its limit."},
		{"another provider", calls{before}, call("2", time.Minute, second, func(s *usage.Settlement) { s.Provider = "q" }), marked, Moved, "was answered by m at p"},
		{"system changed", calls{before}, call("2", time.Minute, print(system[:1204]+"#"+system[1205:], "hello", "hi", "more"), nil), marked, Changed, "The system prompt changed between byte 1,024 and byte 1,536: put what changes at the end"},
		{"a message changed", calls{call("1", 0, second, nil)}, call("2", time.Minute, print(system, "hello", "ho", "more", "x"), nil), marked, Changed, "Message 2 after the system prompt is not what it was"},
		{"partly read", calls{call("1", 0, second, nil)}, call("2", time.Minute, print(system, "hello", "ho", "more", "x"), func(s *usage.Settlement) {
			s.Tokens = chat.Usage{Prompt: 4000, Cached: 1000}
		}), marked, Changed, "Only 20% of the prompt came from a cache. Message 2"},
		{"too late", calls{before}, call("2", 11*time.Minute, second, nil), marked, Expired, "was 11 minutes ago, and the provider keeps a prompt for 5 minutes"},
		{"in time, for an hour", calls{call("1", 0, first, func(s *usage.Settlement) { s.Tokens.CacheWrite5m, s.Tokens.CacheWrite1h = 0, 4000 })}, call("2", 11*time.Minute, second, nil), marked, Vendor, "11 minutes ago, and the provider still read nothing"},
		{"an hour later, at a vendor that says nothing", calls{call("1", 0, first, func(s *usage.Settlement) { s.Tokens.CacheWrite5m = 0 })}, call("2", 3*time.Hour, second, nil), Cache{}, Expired, "3 hours ago, and providers rarely keep"},
		{"at once", calls{before}, call("2", 200*time.Millisecond, second, nil), marked, Together, "had not begun to answer"},
		{"the vendor said no", calls{before}, call("2", time.Minute, second, nil), marked, Vendor, "That is the provider's decision"},
		{"without a fingerprint, by the session", calls{call("1", 0, nil, func(s *usage.Settlement) { s.Trace.Session = "run" })}, call("2", time.Minute, second, func(s *usage.Settlement) { s.Trace.Session = "run" }), Cache{}, Unknown, "has no fingerprint"},
		{"the first of another conversation in a session", calls{call("1", 0, print(system, "other"), func(s *usage.Settlement) { s.Trace.Session = "run" })}, call("2", time.Minute, first, func(s *usage.Settlement) { s.Trace.Session = "run" }), Cache{}, First, "the first call"},
	} {
		l := New(append(tt.before, tt.now), func(*usage.Settlement) Cache { return tt.cache })
		w, err := l.Why(t.Context(), &tt.now)
		if err != nil || w.Reason != tt.want || !strings.Contains(w.Text(true), tt.says) {
			t.Errorf("%s: Why = %+v, %v, want %s; it says %q, want %q", tt.name, w, err, tt.want, w.Text(true), tt.says)
			continue
		}
		// Customers are not told who served, and the API says the same as the page.
		r := w.Reply(false)
		if strings.Contains(r.Text, "9f3c") || strings.Contains(r.Text, " at p") || r.Text != w.Text(false) || r.Reason != tt.want || (r.Changed != nil) != (tt.want == Changed) {
			t.Errorf("%s: the reply is %+v", tt.name, r)
		}
	}
	failed := call("1", 0, first, func(s *usage.Settlement) { s.End = usage.EndFailed })
	if w, err := New(calls{}, nil).Why(t.Context(), &failed); w != nil || err != nil || w.Reply(true) != nil {
		t.Errorf("Why of a call that failed = %+v, %v, want nothing", w, err)
	}
}

// A conversation is found among many calls of others, but not among any number of them.
func TestLooksBack(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]Reason{100: Expired, 2900: Expired, 3100: First} {
		list := calls{call("0", -time.Hour, print("s", "hello"), nil)}
		for i := range n {
			list = append(list, call(fmt.Sprint("x", i), -time.Hour+time.Duration(i+1)*time.Second, print("s", fmt.Sprint("other", i)), nil))
		}
		now := call("1", 0, print("s", "hello", "hi", "more"), nil)
		l := New(append(list, now), func(*usage.Settlement) Cache { return Cache{} })
		if w, err := l.Why(t.Context(), &now); err != nil || w.Reason != want {
			t.Errorf("after %d calls of others, Why = %+v, %v, want %s", n, w, err, want)
		}
	}
}
