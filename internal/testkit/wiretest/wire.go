// Package wiretest stands between a client and a server in tests, and does to their connections what networks do.
//
// A Wire passes bytes on until it is told otherwise. It can be cut, which both ends notice; go silent, which
// nobody notices; and be slow. It knows nothing of what is said on it. Only tests import this package.
package wiretest

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Wire is a TCP proxy on loopback. It is safe for concurrent use.
type Wire struct {
	listener net.Listener
	target   atomic.Pointer[string]
	end      chan struct{} // closed when the test ends
	running  sync.WaitGroup
	delay    atomic.Int64    // nanoseconds that each piece of a reply is late
	replies  atomic.Int64    // pieces of replies that were let through
	passed   [2]atomic.Int64 // bytes of requests and of replies that were let through
	left     [2]atomic.Int64 // how many more may pass until the connections break, and one; 0: all

	mu    sync.Mutex
	cut   bool
	both  gate // for both directions
	back  gate // for replies alone
	lines map[*line]bool
}

// gate holds pieces back until it is closed as a channel. A nil gate holds nothing back.
type gate chan struct{}

// line is one connection and its other half.
type line struct {
	near, far net.Conn
	silent    atomic.Bool // what arrives is thrown away
}

func (l *line) close() { l.near.Close(); l.far.Close() }

// New returns a wire to a server, given as host:port. It ends with the test.
func New(t testing.TB, target string) *Wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{listener: listener, end: make(chan struct{}), lines: map[*line]bool{}}
	w.Redirect(target)
	w.running.Go(w.accept)
	t.Cleanup(func() {
		close(w.end)
		listener.Close()
		w.Cut()
		w.running.Wait()
	})
	return w
}

// To returns a wire to the server that a URL names, and that URL with the wire's address in it.
func To(t testing.TB, address string) (*Wire, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	w := New(t, u.Host)
	u.Host = w.Addr()
	return w, u.String()
}

// Addr returns the address that clients connect to, as host:port.
func (w *Wire) Addr() string { return w.listener.Addr().String() }

// Redirect makes the connections that come from now on lead to another server.
func (w *Wire) Redirect(target string) { w.target.Store(&target) }

// Cut closes all connections, and until Mend also those that come.
func (w *Wire) Cut() { w.setCut(true); w.Break() }

// Mend makes connections possible again after Cut.
func (w *Wire) Mend() { w.setCut(false) }

func (w *Wire) setCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// Break closes the connections that are open. The client may connect again.
func (w *Wire) Break() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.lines {
		l.close()
	}
}

// Swallow throws away what arrives from now on, on the connections that are open. They stay open, and stay silent
// for ever, as old connections do after a failover. Connections that come later work.
func (w *Wire) Swallow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.lines {
		l.silent.Store(true)
	}
}

// Freeze holds everything back, in both directions, until the returned function is called. Connections are still
// accepted, as by the kernel of a machine whose server has stopped. What was sent meanwhile arrives then.
func (w *Wire) Freeze() (thaw func()) { return w.hold(&w.both) }

// Stall is Freeze for replies alone: the server gets what it is sent.
func (w *Wire) Stall() (release func()) { return w.hold(&w.back) }

func (w *Wire) hold(g *gate) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	closed := make(gate)
	*g = closed
	return sync.OnceFunc(func() { close(closed) })
}

// Delay makes replies late from now on.
func (w *Wire) Delay(d time.Duration) { w.delay.Store(int64(d)) }

// Replies returns how many pieces of replies were let through.
func (w *Wire) Replies() int64 { return w.replies.Load() }

// Passed returns how many bytes of requests and of replies were let through.
func (w *Wire) Passed() (requests, replies int64) { return w.passed[0].Load(), w.passed[1].Load() }

// BreakAfterRequest closes the open connections, once, when that many more bytes of requests have reached the server.
func (w *Wire) BreakAfterRequest(bytes int64) { w.left[0].Store(bytes + 1) }

// BreakAfterReply does the same when that many more bytes of replies have reached the client. The server has received
// all that the client has sent.
func (w *Wire) BreakAfterReply(bytes int64) { w.left[1].Store(bytes + 1) }

// spend returns how much of the data may pass, and whether the connections break behind it.
func (w *Wire) spend(data []byte, direction int) (part []byte, breaks bool) {
	left := w.left[direction].Load()
	if left == 0 || left-1 > int64(len(data)) || !w.left[direction].CompareAndSwap(left, 0) {
		if left != 0 {
			w.left[direction].CompareAndSwap(left, left-int64(len(data)))
		}
		return data, false
	}
	return data[:left-1], true
}

func (w *Wire) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", *w.target.Load())
		if err != nil {
			near.Close()
			continue
		}
		l := &line{near: near, far: far}
		if !w.keep(l) {
			l.close()
			continue
		}
		var pipes sync.WaitGroup
		pipes.Go(func() { w.pipe(l, far, near, false) })
		pipes.Go(func() { w.pipe(l, near, far, true) })
		w.running.Go(func() {
			pipes.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.lines, l)
		})
	}
}

// keep remembers a line, unless it must not exist.
func (w *Wire) keep(l *line) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cut {
		w.lines[l] = true
	}
	return !w.cut
}

// piece is what was read at once, and the time at which it may pass.
type piece struct {
	data []byte
	due  time.Time
}

// pipe copies one direction. A second goroutine writes, so that a delay does not slow down what comes after it.
func (w *Wire) pipe(l *line, to, from net.Conn, reply bool) {
	defer l.close()
	pieces := make(chan piece, 1024)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(pieces)
	writing.Go(func() {
		defer l.close() // ends the reading below
		for next := range pieces {
			if !w.pass(next, reply) {
				return
			}
			if l.silent.Load() {
				continue
			}
			direction := 0
			if reply {
				direction = 1
				w.replies.Add(1) // before the write: who has read a piece finds it counted
			}
			data, breaks := w.spend(next.data, direction)
			w.passed[direction].Add(int64(len(data)))
			if _, err := to.Write(data); err != nil {
				return
			}
			if breaks {
				w.Break()
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		next := piece{append([]byte{}, buf[:n]...), time.Now()}
		if reply {
			next.due = next.due.Add(time.Duration(w.delay.Load()))
		}
		select {
		case pieces <- next:
		case <-w.end:
			return
		}
	}
}

// pass waits until a piece may pass. It reports false if the test has ended.
func (w *Wire) pass(p piece, reply bool) bool {
	w.mu.Lock()
	gates := []gate{w.both}
	if reply {
		gates = append(gates, w.back)
	}
	w.mu.Unlock()
	for _, g := range gates {
		if g == nil {
			continue
		}
		select {
		case <-g:
		case <-w.end:
			return false
		}
	}
	wait := time.Until(p.due)
	if wait <= 0 {
		return true
	}
	select {
	case <-time.After(wait):
		return true
	case <-w.end:
		return false
	}
}
