package telemetry

import (
	"testing"
	"time"
)

// Waiting for another request is no time of the gateway's own, as a 409 after a minute shows.
func TestWaitSince(t *testing.T) {
	t.Parallel()
	var w Wait
	begin := time.Now()
	w.Arrived(begin)
	w.Since(begin.Add(2*time.Millisecond), begin.Add(time.Minute))
	if own := w.Own(begin.Add(time.Minute + time.Millisecond)); own != 3*time.Millisecond {
		t.Errorf("Own after a wait = %v, want 3ms", own)
	}
	w.Since(begin, begin.Add(atOnce)) // a moment is no wait
	if own := w.Own(begin.Add(time.Minute + time.Millisecond)); own != 3*time.Millisecond {
		t.Errorf("Own after a moment = %v, want 3ms", own)
	}
}
