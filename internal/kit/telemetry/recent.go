package telemetry

import (
	"bytes"
	"sync"
)

const (
	// recentLines is how many of the last problems are kept for "sluice debug", and recentBytes how
	// much of each: most are far shorter, but a panic has its stack in it.
	recentLines = 100
	recentBytes = 4 << 10
)

// recent keeps the last lines that are written to it. slog's handlers write one line at a time.
type recent struct {
	mu   sync.Mutex
	ring [recentLines]string
	next int
}

// Write implements io.Writer.
func (r *recent) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line[:min(len(line), recentBytes)]))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next] = text
	r.next = (r.next + 1) % recentLines
	return len(line), nil
}

// lines returns what is kept, the oldest first.
func (r *recent) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for i := range recentLines {
		if line := r.ring[(r.next+i)%recentLines]; line != "" {
			out = append(out, line)
		}
	}
	return out
}
