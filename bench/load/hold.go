package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// held is the result of many streams that were open at the same time. A target with errors has a figure
// that means nothing; firstError reports it.
type held struct {
	// perStream is the memory of one stream, in bytes.
	perStream float64
	// idle is what the target had before, in bytes; most is the peak.
	idle, most int64
	// files and goroutines are how many it had while all streams were open. It may not tell its goroutines; then that is 0.
	files, goroutines int
	// cpu is the CPU time of all streams, and chunks how many there were in them.
	cpu    time.Duration
	chunks int
	errors int
	// err is the first error.
	err error
}

// crowd counts those who are there at the same time. Looking at the number now and then would miss the peak on a
// busy machine.
type crowd struct {
	mu         sync.Mutex
	here, peak int
}

func (c *crowd) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.here++
	c.peak = max(c.peak, c.here)
}

// reached reports whether so many were there together.
func (c *crowd) reached(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak >= n
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.here--
}

// hold opens streams so quickly that all of them are open at the same time, and returns the
// peak memory of the target above its idle memory, per stream. The memory is that of the whole
// process as the kernel sees it, so it includes stacks and buffers of the runtime.
func hold(ctx context.Context, t *target, streams int, length time.Duration) (held, error) {
	// Slow streams keep the connections open without much CPU time.
	pause := max(250*time.Millisecond, length/20)
	w := workload{chunks: int(length / pause), pause: pause}
	before, err := t.rest(ctx)
	if err != nil {
		return held{}, err
	}
	// After rest, so that memory of earlier work is not counted as that of streams.
	idle, _, err := t.Memory()
	if err != nil {
		return held{}, fmt.Errorf("%s: %w", t.name, err)
	}
	request := w.request(t)
	parts := make([]sample, streams)
	var open crowd
	var callers sync.WaitGroup
	defer callers.Wait()
	for i := range parts {
		callers.Go(func() {
			// One new stream per millisecond: a burst of connects would measure the backlog
			// instead.
			if wait(ctx, time.Duration(i)*time.Millisecond) != nil {
				return
			}
			c := newConn(t.addr)
			c.longer = 3 * length
			defer c.close()
			s := &parts[i]
			s.err = w.call(c, request, func() {
				if s.chunks++; s.chunks == 1 {
					open.enter()
				}
			})
			if s.chunks > 0 {
				open.leave()
			}
			if s.err != nil {
				s.errors++
			} else {
				t.answered.Add(1)
			}
		})
	}
	// Closed when all streams have ended, so that the loop below can poll meanwhile.
	ended := make(chan struct{})
	go func() {
		callers.Wait()
		close(ended)
	}()
	h := held{idle: idle, most: idle}
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(50 * time.Millisecond):
			now, _, err := t.Memory()
			if err != nil {
				return held{}, fmt.Errorf("%s: %w", t.name, err)
			}
			h.most = max(h.most, now)
			if h.files == 0 && open.reached(streams) {
				if h.files, err = t.Files(); err != nil {
					return held{}, fmt.Errorf("%s: %w", t.name, err)
				}
				h.goroutines = int(t.gauge(ctx, "go_goroutines"))
			}
		}
	}
	if ctx.Err() != nil {
		return held{}, errors.New("interrupted")
	}
	all := &sample{}
	for i := range parts {
		all.join(&parts[i])
	}
	// If the streams did not overlap, the figure would be too low.
	if together := open.peak; together < streams && all.err == nil {
		all.errors, all.err = 1, fmt.Errorf("at most %d of %d streams were seen open at the same time", together, streams)
	}
	after, err := t.rest(ctx)
	if err != nil {
		return held{}, err
	}
	h.perStream, h.cpu, h.chunks, h.errors, h.err = float64(h.most-idle)/float64(streams), after-before, all.chunks, all.errors, all.err
	return h, nil
}
