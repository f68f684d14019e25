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
	// mostRationed is the number of accounts in the map, about 10 MB. Prompts of further accounts are not
	// counted in this minute.
	mostRationed = 100_000
)

// ration bounds the work of counting prompts for each account. The zero value is ready for use. It is safe
// for concurrent use.
type ration struct {
	mu     sync.Mutex
	minute int64          // Unix minutes
	used   map[string]int // bytes in that minute, by account id; replaced when the minute changes
}

// take reports whether so many bytes may be counted for the account now, and takes them if so.
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
