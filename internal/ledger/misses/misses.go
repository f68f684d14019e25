// Package misses says why a call did not find its prompt in a cache.
//
// A vendor's cache has what an earlier call has sent it: with the same model, under the same key, not long ago, and byte for byte
// the same up to some place. So a call is compared with the one before it in its conversation, by what their settlements have: where
// they were served, when, what was read and written, and the fingerprints of their prompts. That is done when somebody asks; a call
// pays for its fingerprint alone.
//
// What caches gave in money is in the settlement and in the sums; see usage.Caching.
package misses

import (
	"cmp"
	"context"
	"strings"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/prefix"
)

// Reason is what became of a call at caches.
type Reason string

// The reasons. They are part of the API.
const (
	Hit      Reason = "hit"          // the prompt was read from a cache, as far as it was known
	NoCache  Reason = "no_cache"     // the vendor reports no caches for the model
	Short    Reason = "too_short"    // than what the vendor keeps
	First    Reason = "first_call"   // of the conversation
	Unmarked Reason = "not_marked"   // the vendor keeps what is marked, and nothing was
	Together Reason = "at_once"      // the call before had not begun to answer
	Moved    Reason = "other_target" // another model, provider or key
	Changed  Reason = "changed"      // the prompt does not begin like the one before
	Expired  Reason = "expired"      // too long after the call before
	Vendor   Reason = "vendor"       // all was as it should be, and still nothing was read
	Unknown  Reason = "not_known"    // there is no fingerprint to compare with
)

// Cache is what is known of the cache of a vendor.
type Cache struct {
	// Least is how many tokens a prompt has at least that the vendor keeps.
	Least int
	// Life is how long it keeps a prompt after its last use; 0: it does not say.
	Life time.Duration
	// Marked says that it keeps only what requests mark.
	Marked bool
}

// Why is what became of one call.
type Why struct {
	Reason
	// Share is how much of the prompt was read from a cache.
	Share float64
	// Before is the call that it was compared with; nil: there is none.
	Before *usage.Settlement
	Gap    time.Duration // between the begins of both
	Cache  Cache
	// Change is where the prompt begins to differ; set for Changed.
	Change *prefix.Change
	// Affinity is why the conversation has moved, in the words of x-sluice-affinity; set for Moved if that is known.
	Affinity string
}

// Store reads the calls before a call.
type Store interface {
	// CallsBefore returns at most limit calls of an account before a point back to a time, newest first: their places, times,
	// tokens, ends and traces.
	CallsBefore(ctx context.Context, accountID string, before usage.Point, from time.Time, limit int) ([]usage.Settlement, error)
}

const (
	// longest is how long before a call another one can have been made that filled the cache for it. No vendor promises more.
	longest = 24 * time.Hour
	// lookOnce is how many calls are read at once, and lookMost how many for one answer.
	lookOnce, lookMost = 250, 3000
	// usual is how long a vendor keeps a prompt at most that says nothing about it.
	usual = time.Hour
	// enough is the share of the prompt of the call before that is found in the cache by a hit: vendors keep whole blocks, and
	// the last message may not be among them.
	enough = 0.5
)

// Log says why calls were no hits. It is safe for concurrent use.
type Log struct {
	store Store
	cache func(*usage.Settlement) Cache
}

// New returns a log of what a store has. cache says what is known of the cache that answered a call.
func New(store Store, cache func(*usage.Settlement) Cache) *Log { return &Log{store, cache} }

// Why says what became of a call at caches. It returns nil for a call that consumed no prompt.
func (l *Log) Why(ctx context.Context, s *usage.Settlement) (*Why, error) {
	total := s.Tokens.PromptTotal()
	if total == 0 || s.End == usage.EndFailed || s.Door == usage.DoorEmbeddings || s.Door == usage.DoorVideos {
		return nil, nil
	}
	w := &Why{Reason: NoCache, Share: float64(s.Tokens.Cached) / float64(total), Cache: l.cache(s)}
	if s.Cacheable == 0 {
		return w, nil
	}
	var err error
	if w.Before, err = l.before(ctx, s); err != nil {
		return nil, err
	}
	if w.Before != nil {
		w.Gap = s.At.Sub(w.Before.At)
	}
	w.judge(s)
	return w, nil
}

// judge sets the reason. The first that applies is the one to do something about.
func (w *Why) judge(s *usage.Settlement) {
	read, before := s.Tokens.Cached, w.Before
	switch {
	case read > 0 && (before == nil || float64(read) >= enough*float64(min(before.Tokens.PromptTotal(), s.Tokens.PromptTotal()))):
		w.Reason = Hit
	case s.Tokens.PromptTotal() < w.Cache.Least:
		w.Reason = Short
	case before == nil:
		w.Reason = First
	case w.Cache.Marked && !touched(s) && !touched(before):
		w.Reason = Unmarked
	case elsewhere(before, s):
		w.Reason = Moved
		if s.Trace != nil {
			reason, moved := strings.CutPrefix(s.Trace.Affinity, "moved (")
			if moved {
				w.Affinity = strings.TrimSuffix(reason, ")")
			}
		}
	default:
		w.compare(s)
	}
}

// compare sets the reason of a call that went where the one before it had gone.
func (w *Why) compare(s *usage.Settlement) {
	known := false
	if printed(w.Before) && printed(s) {
		w.Change, known = prefix.Compare(w.Before.Trace.Prefix.Print, s.Trace.Prefix.Print)
	}
	switch {
	case w.Change != nil:
		w.Reason = Changed
	case w.Gap < w.Before.FirstToken:
		w.Reason = Together
	case w.Gap > cmp.Or(w.Cache.life(w.Before), usual):
		w.Reason = Expired
	case !known:
		w.Reason = Unknown
	case s.Tokens.Cached > 0:
		w.Reason = Hit // of less than could be, which is the vendor's way of counting blocks
	default:
		w.Reason = Vendor
	}
}

// Life returns how long the prompt of the call before is kept; 0: nobody knows.
func (w *Why) Life() time.Duration {
	if w.Before == nil {
		return w.Cache.Life
	}
	return w.Cache.life(w.Before)
}

// life returns how long the prompt of a call is kept; 0: nobody knows.
func (c *Cache) life(s *usage.Settlement) time.Duration {
	switch {
	case s.Tokens.CacheWrite1h > 0:
		return time.Hour
	case s.Tokens.CacheWrite5m > 0:
		return max(5*time.Minute, c.Life) // OpenAI's half hour is counted there, too
	}
	return c.Life
}

// touched reports whether a call has used a cache.
func touched(s *usage.Settlement) bool { return s.Tokens.Cached > 0 || s.Tokens.CacheWritten() > 0 }

// printed reports whether a call has a fingerprint.
func printed(s *usage.Settlement) bool { return s.Trace != nil && s.Trace.Prefix != nil }

// elsewhere reports whether two calls were answered by different targets.
func elsewhere(a, b *usage.Settlement) bool {
	if a.ModelUsed != b.ModelUsed || a.Provider != b.Provider {
		return true
	}
	x, y := answered(a), answered(b)
	return x != nil && y != nil && (x.Upstream != y.Upstream || x.Key != y.Key)
}

// answered returns the attempt that answered a call; nil if it is not known.
func answered(s *usage.Settlement) *usage.Attempt {
	if s.Trace == nil {
		return nil
	}
	for i := len(s.Trace.Attempts) - 1; i >= 0; i-- {
		if a := &s.Trace.Attempts[i]; a.Outcome == usage.Answered {
			return a
		}
	}
	return nil
}

// before returns the call before a call in its conversation; nil if it is the first, or not among the last calls of the account. A
// call whose first message of a user nobody knows may still be one of a known session.
func (l *Log) before(ctx context.Context, s *usage.Settlement) (*usage.Settlement, error) {
	at := usage.Point{At: s.At, ID: s.ID}
	var session *usage.Settlement // the last call of the session, of any conversation
	for looked := 0; looked < lookMost; looked += lookOnce {
		calls, err := l.store.CallsBefore(ctx, s.AccountID, at, s.At.Add(-longest), lookOnce)
		if err != nil {
			return nil, err
		}
		for i := range calls {
			c := &calls[i]
			if c.End == usage.EndFailed || c.Tokens.PromptTotal() == 0 {
				continue
			}
			if printed(c) && printed(s) && c.Trace.Prefix.Conversation == s.Trace.Prefix.Conversation {
				return c, nil
			}
			if session == nil && s.Session() != "" && c.Session() == s.Session() {
				session = c
			}
		}
		if len(calls) < lookOnce {
			break
		}
		last := &calls[len(calls)-1]
		at = usage.Point{At: last.At, ID: last.ID}
	}
	// The first call of another conversation in a session has nothing to do with the one before it.
	if printed(s) && prefix.Short(s.Trace.Prefix.Print) {
		return nil, nil
	}
	return session, nil
}
