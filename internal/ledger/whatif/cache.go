package whatif

import (
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// cached changes what a call read from a cache and wrote to one. It returns false if that stays as it was.
func (r *Replay) cached(c *call) (changed bool) {
	for i := range c.parts {
		p := &c.parts[i]
		before := p.counts.Tokens
		switch {
		case r.scenario.TTL == NoCache:
			p.counts, _ = p.counts.Uncached()
		case chooses(p.entry):
			r.live(c.s, p, i == 0)
		}
		changed = changed || p.counts.Tokens != before
	}
	return changed
}

// written returns the tokens that were written to a cache.
func (p *part) written() int64 {
	t := &p.counts.Tokens
	return t[price.CacheWrite5m] + t[price.CacheWrite1h] + t[price.CacheWrite]
}

// live gives prompts another life. Only the first part of a call can come too late for what is in the cache: others follow it
// at once.
func (r *Replay) live(s *usage.Settlement, p *part, first bool) {
	to, life := price.CacheWrite5m, shortLife
	if r.scenario.TTL == Hour {
		to, life = price.CacheWrite1h, longLife
	}
	t, more := &p.counts.Tokens, int64(0)
	read, written := t[price.CacheRead], p.written()
	if first {
		more = r.missed(s, read, written, life)
	}
	switch {
	case more > 0:
		r.counts.Misses++
	case more < 0:
		r.counts.Hits++
	}
	t[price.CacheWrite5m], t[price.CacheWrite1h], t[price.CacheWrite] = 0, 0, 0
	t[price.CacheRead], t[to] = read-more, written+more
}

// chooses says whether callers choose how long the vendor keeps a prompt: then the two times have two prices.
func chooses(e *price.Entry) bool {
	if e == nil {
		return false
	}
	short, long := e.Rates[price.CacheWrite5m], e.Rates[price.CacheWrite1h]
	return short != price.Unknown && long != price.Unknown && short != long
}

// The two lives of a prompt in a cache. Every use begins it anew.
const (
	shortLife = 5 * time.Minute
	longLife  = time.Hour
)

// missed returns how many of the tokens that a call read it would have had to write again if prompts stayed in the cache for
// life. It is negative for tokens that the call wrote and would have found there.
//
// That depends on the time since the call before it in the same session. Beyond the longest life nobody knows where a call has
// found its prompt: it stays as it was.
func (r *Replay) missed(s *usage.Settlement, read, written int64, life time.Duration) int64 {
	if read+written == 0 {
		return 0
	}
	last, known := r.sessions.next(s, read+written)
	if !known {
		r.counts.Sessionless++
		return 0
	}
	gap := time.Duration(s.At.UnixMilli()-last.at) * time.Millisecond
	switch {
	case last.at == 0 || gap > longLife:
		return 0
	case gap > life:
		return read
	case gap > last.life() && last.cached > read:
		return -min(written, last.cached-read)
	}
	return 0
}

// sessions knows the last call of every session of about an hour.
type sessions struct {
	recent, older map[session]last
	since         int64 // when recent was begun, in Unix milliseconds
}

// session is what calls share a cache in.
type session struct{ account, name, model string }

// last is the last call of a session.
type last struct {
	at     int64 // Unix milliseconds; 0: there was none
	cached int64 // tokens that were in the cache after it
	long   bool  // for an hour
}

func (l *last) life() time.Duration {
	if l.long {
		return longLife
	}
	return shortLife
}

// mostSessions bounds the sessions of an hour that are remembered. The calls of others count as sessionless.
const mostSessions = 100_000

// next returns the call before this one in its session, and remembers this one. It returns false if the session is not known.
func (t *sessions) next(s *usage.Settlement, cached int64) (last, bool) {
	if s.Trace == nil || s.Trace.Session == "" {
		return last{}, false
	}
	at := s.At.UnixMilli()
	if t.recent == nil || at-t.since > longLife.Milliseconds() {
		t.older, t.recent, t.since = t.recent, map[session]last{}, at
	}
	key := session{s.AccountID, s.Trace.Session, s.ModelUsed}
	before, ok := t.recent[key]
	if !ok {
		before = t.older[key]
		if len(t.recent) >= mostSessions {
			return last{}, false
		}
	}
	now := last{at, cached, before.long}
	if s.Tokens.CacheWritten() > 0 {
		now.long = s.Tokens.CacheWrite1h > 0
	}
	t.recent[key] = now
	return before, true
}
