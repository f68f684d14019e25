package pulse_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/pulse"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := pulse.New()
		go p.Run(ctx)
		start := time.Now()
		var told []time.Duration
		b := p.Watch(15*time.Second, func() { told = append(told, time.Since(start)) })
		for range 20 { // alive for 10 seconds
			time.Sleep(500 * time.Millisecond)
			b.Touch()
		}
		time.Sleep(35 * time.Second)
		b.Stop()
		time.Sleep(time.Minute)
		if len(told) != 2 {
			t.Fatalf("silence was told at %v, want twice", told)
		}
		for i, at := range told {
			want := 10*time.Second + time.Duration(i+1)*15*time.Second
			if at < want || at > want+time.Second {
				t.Errorf("silence told at %v, want within a second of %v", at, want)
			}
		}
		if n := p.Watched(); n != 0 {
			t.Errorf("Watched() = %d after Stop, want 0", n)
		}
		cancel()
	})
}

// Stop waits for a call that is under way, so that nothing is written behind its back.
func TestStopWaits(t *testing.T) {
	t.Parallel()
	p := pulse.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go p.Run(ctx)
	running, release := make(chan struct{}), make(chan struct{})
	var done atomic.Bool
	b := p.Watch(time.Second, func() {
		close(running)
		<-release
		done.Store(true)
	})
	<-running
	stopped := make(chan struct{})
	go func() {
		b.Stop()
		if !done.Load() {
			t.Error("Stop returned while the callback ran")
		}
		close(stopped)
	}()
	runtime.Gosched()
	close(release)
	<-stopped
}

// A stream whose callback blocks holds up no other stream, and is not told again meanwhile.
func TestBlockedCallback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := pulse.New()
		ended := make(chan struct{})
		go func() { defer close(ended); p.Run(ctx) }()
		release := make(chan struct{})
		var stuck, told atomic.Int64
		for range 100 {
			defer p.Watch(time.Second, func() { stuck.Add(1); <-release }).Stop()
		}
		defer p.Watch(time.Second, func() { told.Add(1) }).Stop()
		time.Sleep(10500 * time.Millisecond)
		synctest.Wait()
		if n := told.Load(); n < 9 {
			t.Errorf("silence was told %d times in 10 s beside 100 blocked streams, want 9 or 10", n)
		}
		if n := stuck.Load(); n != 100 {
			t.Errorf("blocked callbacks were called %d times, want once each", n)
		}
		cancel()
		close(release)
		<-ended
	})
}
