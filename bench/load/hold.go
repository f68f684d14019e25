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
	errors    int
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

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.here--
}

// hold opens streams so quickly that all of them are open at the same time, and returns the
// peak memory of the target above its idle memory, per stream. The memory is that of the whole
// process as the kernel sees it, so it includes stacks and buffers of the runtime.
func hold(ctx context.Context, t *target, streams int, length time.Duration) (held, error) {
	const pause = 250 * time.Millisecond
	// Slow streams keep the connections open without much CPU time.
	w := workload{chunks: int(length / pause), pause: pause}
	if _, err := t.rest(ctx); err != nil {
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
			}
		})
	}
	// Closed when all streams have ended, so that the loop below can poll meanwhile.
	ended := make(chan struct{})
	go func() {
		callers.Wait()
		close(ended)
	}()
	most := idle
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(50 * time.Millisecond):
			now, _, err := t.Memory()
			if err != nil {
				return held{}, fmt.Errorf("%s: %w", t.name, err)
			}
			most = max(most, now)
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
	return held{float64(most-idle) / float64(streams), all.errors, all.err}, nil
}
