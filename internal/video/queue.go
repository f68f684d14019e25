package video

import (
	"context"
	"math"
	"sync"
	"time"

	"sluice/internal/kit/telemetry"
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

// AddMetrics adds the metrics of jobs. What the database does not say in time is not a number, and not 0.
func (l *Line) AddMetrics(m *telemetry.Metrics) {
	telemetry.Gauge(m, "sluice_videos_running", "Video jobs that this process works on now.", l.Running)
	telemetry.Gauge(m, "sluice_videos_waiting", "Video jobs of all nodes that wait for a worker.", func() float64 {
		n, _, err := l.Queue(time.Now())
		return known(float64(n), err)
	})
	telemetry.Gauge(m, "sluice_videos_oldest_seconds", "How long the oldest of these jobs has waited.", func() float64 {
		_, age, err := l.Queue(time.Now())
		return known(age.Seconds(), err)
	})
}

// known returns a value that was read without an error, and else NaN.
func known(v float64, err error) float64 {
	if err != nil {
		return math.NaN()
	}
	return v
}
