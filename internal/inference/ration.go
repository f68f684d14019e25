package inference

import (
	"sync"
	"time"
)

const (
	// mostCounted is how many bytes of prompts are counted for one account in a minute: about 6 s of work.
	// Beyond it samples decide. A refusal takes nothing from the account's allowance, so only this bounds
	// what an account can make us count.
	mostCounted = 16 << 20
	// mostRationed bounds the accounts that are remembered, about 10 MB. No more have prompts counted in
	// one minute.
	mostRationed = 100_000
)

// ration bounds what is counted for each account. The zero value is ready.
type ration struct {
	mu     sync.Mutex
	minute int64
	used   map[string]int // bytes in this minute, by account
}

// take reports whether so many bytes may be counted for the account now.
func (r *ration) take(accountID string, bytes int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if minute := now.Unix() / 60; minute != r.minute || r.used == nil {
		r.minute, r.used = minute, map[string]int{}
	}
	used, known := r.used[accountID]
	if used+bytes > mostCounted || !known && len(r.used) >= mostRationed {
		return false
	}
	r.used[accountID] = used + bytes
	return true
}
