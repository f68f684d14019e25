package clustertest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between one node and a server that it uses. It can cut the two off from each other, and
// make replies late.
type proxy struct {
	listener net.Listener
	target   string
	delay    atomic.Int64 // nanoseconds that each piece of a reply is late
	wg       sync.WaitGroup
	end      chan struct{}

	mu    sync.Mutex
	cut   bool // connections are closed as they come
	conns map[net.Conn]bool
}

// newProxy returns a proxy that runs until the test ends.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, end: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		close(p.end)
		listener.Close()
		p.sever(true)
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// sever closes all connections and, until it is called with false, those that come.
func (p *proxy) sever(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.keep(client, server) {
			client.Close()
			if server != nil {
				server.Close()
			}
			continue
		}
		p.wg.Go(func() { p.pipe(server, client, 0) })
		p.wg.Go(func() { p.pipe(client, server, 1) })
	}
}

// keep remembers a pair of connections, unless they must not exist.
func (p *proxy) keep(pair ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	for _, c := range pair {
		p.conns[c] = true
	}
	return true
}

// piece is a part of a reply and the time at which it may pass.
type piece struct {
	data []byte
	due  time.Time
}

// pipe copies one direction. late is the part of the delay that applies to it, 0 or 1. A second
// goroutine writes, so that a delay does not slow down what comes after it.
func (p *proxy) pipe(to, from net.Conn, late int64) {
	defer p.drop(to, from)
	pieces := make(chan piece, 1024)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(pieces)
	writing.Go(func() {
		defer from.Close() // ends the reading below
		for next := range pieces {
			if wait := time.Until(next.due); wait > 0 {
				select {
				case <-time.After(wait):
				case <-p.end:
					return
				}
			}
			if _, err := to.Write(next.data); err != nil {
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
		select {
		case pieces <- piece{append([]byte{}, buf[:n]...), time.Now().Add(time.Duration(late * p.delay.Load()))}:
		case <-p.end:
			return
		}
	}
}

// drop closes a pair of connections.
func (p *proxy) drop(pair ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range pair {
		c.Close()
		delete(p.conns, c)
	}
}
