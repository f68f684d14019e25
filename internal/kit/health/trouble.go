package health

import (
	"log/slog"
	"sync"
	"time"
)

// remindEvery is the least time between two log lines about the same trouble.
const remindEvery = time.Minute

// Trouble tells the log of something that is tried again and again: once when it begins to fail, at most once a minute
// while it does, and once when it works again. The zero value is something that works. It is safe for concurrent use.
type Trouble struct {
	mu    sync.Mutex
	since time.Time // when it began; zero: it works
	told  time.Time
}

// Failed notes a failure. The log gets the message and the error.
func (t *Trouble) Failed(log *slog.Logger, message string, err error, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	} else if now.Sub(t.told) < remindEvery {
		return
	}
	t.told = now
	log.Warn(message, append(args, "error", err.Error())...)
}

// Works notes that it works. If it did not before, the log gets the message.
func (t *Trouble) Works(log *slog.Logger, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		return
	}
	log.Info(message, "after", time.Since(t.since).Round(time.Second).String())
	t.since = time.Time{}
}
