package telemetry

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/pace"
)

const (
	// outletMost bounds the lines that wait for a slow reader. It is a second or two of requests at
	// full load.
	outletMost = 1 << 20
	// outletKept is how large a buffer may stay that is hardly used, so that one burst does not cost
	// its memory for ever.
	outletKept = 128 << 10
	// outletSpare is after how many writes that hardly used a buffer it is given back.
	outletSpare = 100
)

// Outlet is a writer that never makes its caller wait. Lines go to a buffer, and a goroutine writes
// them. If the reader stalls, or is gone, lines are dropped and counted, and the service continues.
//
// There are two buffers: callers append to one while the goroutine writes the other.
type Outlet struct {
	to   io.Writer
	note func(lines int64) []byte // formats the line that says how many were dropped

	// mu guards the fields below.
	mu      sync.Mutex
	waiting []byte // lines that the goroutine has not taken yet
	missing int64  // lines that were dropped since the last note
	closed  bool

	wake  chan struct{} // has room for one: something is waiting, or Close was called
	ended chan struct{} // closed when the goroutine has written everything and ended

	dropped   atomic.Int64 // lines, since the start
	droppedAt atomic.Int64 // when, in Unix nanoseconds
}

// Tell writes text for people to a reader that may have stalled. It gives up after two seconds.
func Tell(w io.Writer, text string) {
	o := NewOutlet(w, func(int64) []byte { return nil })
	_, _ = io.WriteString(o, text) // an Outlet returns no errors
	o.Close(closePatience)
}

// NewOutlet returns an Outlet that writes to w. note formats the line that is written in place of
// dropped ones. Close ends it.
func NewOutlet(w io.Writer, note func(lines int64) []byte) *Outlet {
	o := &Outlet{to: w, note: note, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go o.run() // Close waits for it
	return o
}

// Write takes whole lines. It never waits for the reader and returns no error: there is nowhere to
// report that the log cannot be written, except Dropped.
func (o *Outlet) Write(lines []byte) (int, error) {
	o.mu.Lock()
	fits := !o.closed && len(o.waiting)+len(lines) <= outletMost
	if fits {
		o.waiting = append(o.waiting, lines...)
	}
	o.mu.Unlock()
	if !fits {
		o.drop(lines)
		return len(lines), nil
	}
	pace.Wake(o.wake)
	return len(lines), nil
}

// drop counts lines that nobody will read.
func (o *Outlet) drop(lines []byte) {
	n := int64(bytes.Count(lines, []byte("\n")))
	o.mu.Lock()
	o.missing += n
	o.mu.Unlock()
	o.dropped.Add(n)
	o.droppedAt.Store(time.Now().UnixNano())
}

// Dropped returns how many lines were dropped since the start, and when the last of them was.
func (o *Outlet) Dropped() (lines int64, last time.Time) {
	if lines = o.dropped.Load(); lines > 0 {
		last = time.Unix(0, o.droppedAt.Load())
	}
	return lines, last
}

// Close writes what is waiting, for at most patience. A write to a pipe that nobody reads cannot be
// interrupted; then the goroutine is left behind. The process is about to end.
func (o *Outlet) Close(patience time.Duration) {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	pace.Wake(o.wake)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-o.ended:
	case <-timer.C:
	}
}

// run writes lines until Close. It owns a second buffer, which it exchanges for the waiting one, so
// that nothing is allocated while lines come and go.
func (o *Outlet) run() {
	defer close(o.ended)
	var lines []byte
	spare := 0      // writes since a buffer was last needed
	broken := false // the last write ended within a line
	for range o.wake {
		o.mu.Lock()
		lines, o.waiting = o.waiting, lines[:0]
		missing, closed := o.missing, o.closed
		if len(lines) > 0 {
			o.missing = 0
		}
		o.mu.Unlock()
		if len(lines) > 0 {
			broken = o.write(lines, missing, broken)
		}
		if spare++; len(lines) > cap(lines)/8 {
			spare = 0
		}
		if cap(lines) > outletKept && spare > outletSpare {
			lines = nil
		}
		if closed {
			return
		}
	}
}

// write writes lines, and after them a note about those that were dropped since. It reports whether
// the last thing written was a part of a line; then the next write ends that line first.
func (o *Outlet) write(lines []byte, missing int64, broken bool) bool {
	if broken {
		if _, err := o.to.Write([]byte("\n")); err != nil {
			o.drop(lines)
			o.lose(missing)
			return true
		}
	}
	if n, err := o.to.Write(lines); err != nil {
		o.drop(lines[n:])
		o.lose(missing)
		return n > 0 && lines[n-1] != '\n'
	}
	if missing == 0 {
		return false
	}
	n, err := o.to.Write(o.note(missing))
	if err != nil {
		o.lose(missing)
	}
	return err != nil && n > 0
}

// lose puts back the count of lines whose note could not be written.
func (o *Outlet) lose(missing int64) {
	o.mu.Lock()
	o.missing += missing
	o.mu.Unlock()
}
