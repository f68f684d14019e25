package inference

import (
	"sync"
	"time"
)

const (
	// mostCounted is the number of bytes of prompts that are counted for one account in a minute: about 6 s
	// of work. After that, samples decide. A request that is refused takes nothing from the account's
	// limits, so without this bound an account could make us count without end.
	mostCounted = 16 << 20
	// mostGivenBack is the number of failed calls of one account in a minute whose requests are given back. An
	// upstream that fails must not be one that can be called without end (docs/accounting.md#what-costs-what).
	mostGivenBack = 10
	// mostRationed is the number of accounts in the map, about 10 MB. Further accounts get nothing in this minute.
	mostRationed = 100_000
)

// ration bounds what each account gets free of charge in a minute. The zero value is ready for use. It is safe
// for concurrent use.
type ration struct {
	mu     sync.Mutex
	minute int64          // Unix minutes
	used   map[string]int // in that minute, by account id; replaced when the minute changes
}

// take reports whether the account may have n more now, if it may have most in a minute, and takes them if so.
func (r *ration) take(accountID string, n, most int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if minute := now.Unix() / 60; minute != r.minute || r.used == nil {
		r.minute, r.used = minute, map[string]int{}
	}
	used, known := r.used[accountID]
	if used+n > most || !known && len(r.used) >= mostRationed {
		return false
	}
	r.used[accountID] = used + n
	return true
}
