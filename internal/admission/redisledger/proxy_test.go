package redisledger

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between a ledger and Redis. It can hold replies back, for a while or until further notice.
type proxy struct {
	listener net.Listener
	target   string
	delay    atomic.Int64 // nanoseconds that each piece of a reply is late
	replies  atomic.Int64 // pieces of replies that have passed
	wg       sync.WaitGroup
	end      chan struct{}

	mu    sync.Mutex
	gate  chan struct{} // replies pass when it is closed
	conns []net.Conn
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, end: make(chan struct{}), gate: make(chan struct{})}
	close(p.gate)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		close(p.end)
		listener.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() }

// stall holds all replies back until the returned function is called.
func (p *proxy) stall() (release func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	p.gate = gate
	p.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.wg.Go(func() { p.pipe(server, client, false) })
		p.wg.Go(func() { p.pipe(client, server, true) })
	}
}

// pipe copies one direction. Each piece of a reply waits for the gate, and for the delay.
func (p *proxy) pipe(to, from net.Conn, reply bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if reply && !p.hold() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		if reply {
			p.replies.Add(1)
		}
	}
}

// hold reports false if the test has ended.
func (p *proxy) hold() bool {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	select {
	case <-gate:
	case <-p.end:
		return false
	}
	if d := time.Duration(p.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-p.end:
			return false
		}
	}
	return true
}
