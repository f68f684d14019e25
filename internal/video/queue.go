package video

import (
	"context"
	"sync"
	"time"
)

const (
	// queueFor is how long the state of the queue is kept: several metrics are read at the same time.
	queueFor = 5 * time.Second
	// queuePatience is how long the metrics wait for the database.
	queuePatience = time.Second
)

// queueState is what the metrics know of the queue.
type queueState struct {
	mu      sync.Mutex // held while the database is asked, too: nobody else needs to ask then
	read    time.Time
	waiting int
	oldest  time.Time
	err     error
}

// Queue returns how many jobs wait on all nodes, and for how long the oldest of them has waited. The error
// is that of the database, if it did not answer in time.
func (l *Line) Queue(now time.Time) (waiting int, age time.Duration, err error) {
	s := &l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read.IsZero() || now.Sub(s.read) >= queueFor {
		ctx, cancel := context.WithTimeout(context.Background(), queuePatience)
		defer cancel()
		s.waiting, s.oldest, s.err = l.queue.WaitingVideos(ctx, now)
		s.read = now
	}
	if s.err == nil && s.waiting > 0 {
		age = max(0, now.Sub(s.oldest))
	}
	return s.waiting, age, s.err
}
