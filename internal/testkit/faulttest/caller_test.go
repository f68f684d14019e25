package faulttest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// ordinary is an upstream that answers as the prompt says: "endless" until the caller leaves, "slow" in ten parts, "hold n"
// with n words and then nothing, "gated" with a word before the gate opens and one after, and anything else with the good stream. It counts the calls that reached it and those whose
// caller has left.
type ordinary struct {
	addr          string
	gate          chan struct{}
	reached, left atomic.Int64
}

func newOrdinary(t *testing.T) *ordinary {
	t.Helper()
	u := &ordinary{gate: make(chan struct{})}
	u.addr = listen(t, func(w *wire, _, prompt string) {
		u.reached.Add(1)
		var words int
		switch _, err := fmt.Sscanf(prompt, "hold %d", &words); {
		case err == nil:
			if words > 0 {
				w.say(streamHead)
			}
			for i := range words {
				w.say(word(fmt.Sprint("w", i, " ")))
			}
			w.gone()
			u.left.Add(1)
		case prompt == "endless":
			w.say(streamHead)
			for w.say(word(strings.Repeat("on and ", 150))) {
			}
			u.left.Add(1)
		case prompt == "gated":
			w.say(streamHead + word("one "))
			<-u.gate
			w.say(word("two") + finish + done)
		case prompt == "slow":
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			w.say(streamHead)
			for i := range 10 {
				<-tick.C
				w.say(word(fmt.Sprint(i)))
			}
			w.say(finish + done)
		default:
			w.say(goodStream())
		}
	})
	return u
}

// model is the configuration of a model that the upstream serves.
func (u *ordinary) model() string {
	return fmt.Sprintf("providers: [{name: p, kind: openai, base_url: \"http://%s/v1\"}]\nmodels: [{id: m, provider: p, plan: free, context_length: 1000000, max_output: 100}]\n", u.addr)
}

// leave sends a part of a request, reads a part of the reply, and breaks the connection.
func (s *server) leave(nc net.Conn, request string, send, read int) {
	defer nc.Close()
	_, _ = io.WriteString(nc, request[:send])
	c := &seen{end: cut}
	if send == len(request) && read > 0 {
		got := make([]byte, read)
		n, _ := io.ReadFull(nc, got)
		if resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(got[:n]))), nil); err == nil {
			c.read(resp)
			if c.end == refused {
				c.end = cut // its body broke off
			}
		}
	}
	_ = nc.(*net.TCPConn).SetLinger(0)
	s.note(c)
}

// size returns how many bytes the reply to a request has, less a few: the head varies.
func (s *server) size(request string) int {
	s.t.Helper()
	nc := s.dial()
	defer nc.Close()
	_, _ = io.WriteString(nc, request)
	var got []byte
	for in := bufio.NewReader(nc); !bytes.HasSuffix(got, []byte("0\r\n\r\n")); {
		b, err := in.ReadByte()
		if err != nil {
			s.t.Fatal(err)
		}
		got = append(got, b)
	}
	s.note(&seen{end: cut})
	return len(got) - 20
}

// together runs n functions at the same time.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// callerFaults are callers that misbehave.
func callerFaults(u *ordinary) []struct {
	name string
	run  func(t *testing.T, s *server)
} {
	served := func(t *testing.T, s *server) {
		t.Helper()
		if c := s.chat("m", "Go."); c.end != complete || c.text != "one two three" {
			t.Errorf("another caller saw %s %q %.200s meanwhile, want its reply", c.end, c.text, c.body)
		}
	}
	return []struct {
		name string
		run  func(t *testing.T, s *server)
	}{
		{"hangs up at every byte of its request", func(_ *testing.T, s *server) {
			request := s.request("m", "Go.")
			for at := 1; at <= len(request); at += scaled(13, 1) {
				s.leave(s.dial(), request, at, 0)
			}
		}},
		{"hangs up at every byte of the reply", func(_ *testing.T, s *server) {
			request := s.request("m", "Go.")
			for at, size := 1, s.size(request); at < size; at += scaled(61, 1) {
				s.leave(s.dial(), request, len(request), at)
			}
		}},
		{"leaves an endless stream", func(t *testing.T, s *server) {
			left := u.left.Load()
			together(scaled(3, 50), func(int) { request := s.request("m", "endless"); s.leave(s.dial(), request, len(request), 1<<20) })
			eventually(t, "the end of the upstream's calls", func() bool { return u.left.Load()-left == int64(scaled(3, 50)) }, func() string { return fmt.Sprint(u.left.Load()) })
		}},
		{"does not read an endless stream", func(t *testing.T, s *server) {
			var open []net.Conn
			for range scaled(5, 50) {
				nc := s.dial()
				_, _ = io.WriteString(nc, s.request("m", "endless"))
				open = append(open, nc)
				s.note(&seen{end: cut})
			}
			eventually(t, "the streams", func() bool { return s.gauge("sluice_streams_open") == float64(len(open)) }, func() string { return "" })
			served(t, s)
			for _, nc := range open {
				_ = nc.Close()
			}
		}},
		{"reads one byte at a time", func(t *testing.T, s *server) {
			nc := s.dial()
			defer nc.Close()
			_, _ = io.WriteString(nc, s.request("m", "slow"))
			c := &seen{end: cut}
			resp, err := http.ReadResponse(bufio.NewReaderSize(oneByte{nc}, 16), nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.read(resp); c.end != complete || c.text != "0123456789" {
				t.Errorf("it saw %s %q, want the whole reply", c.end, c.text)
			}
			s.note(c)
		}},
		{"sends half a body", func(t *testing.T, s *server) {
			var open []net.Conn
			for range scaled(20, 500) {
				nc := s.dial()
				request := s.request("m", "Go.")
				_, _ = io.WriteString(nc, request[:len(request)-20])
				open = append(open, nc)
			}
			served(t, s)
			for _, nc := range open {
				_ = nc.Close()
			}
		}},
		{"pipelines", func(t *testing.T, s *server) {
			nc := s.dial()
			defer nc.Close()
			const n = 5
			_, _ = io.WriteString(nc, strings.Repeat(s.request("m", "Go."), n))
			in := bufio.NewReader(nc)
			for i := range n {
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("reply %d: %v", i, err)
				}
				c := &seen{end: cut}
				if c.read(resp); c.end != complete || c.text != "one two three" {
					t.Errorf("reply %d = %s %q", i, c.end, c.text)
				}
				s.note(c)
			}
		}},
		{"keeps idle connections", func(t *testing.T, s *server) {
			var open []net.Conn
			for range scaled(300, 5000) {
				open = append(open, s.dial())
			}
			served(t, s)
			for _, nc := range open {
				_ = nc.Close()
			}
		}},
		{"reads many slow streams", func(t *testing.T, s *server) {
			together(scaled(40, 1000), func(int) {
				if c := s.chat("m", "slow"); c.end != complete || c.text != "0123456789" {
					t.Errorf("it saw %s %q, want the whole reply", c.end, c.text)
				}
			})
		}},
	}
}

// oneByte reads one byte at a time.
type oneByte struct{ net.Conn }

func (o oneByte) Read(p []byte) (int, error) { return o.Conn.Read(p[:min(1, len(p))]) }

// TestCallers lets callers misbehave, one kind after the other, on one server. Other callers are served, each call is in the
// books as it ended, and nothing is left of it.
func TestCallers(t *testing.T) {
	t.Parallel()
	u := newOrdinary(t)
	s := configure(t, u.model())
	s.start()
	if c := s.chat("m", "Go."); c.end != complete {
		t.Fatalf("the first call = %+v", c)
	}
	before := s.atRest()
	for _, f := range callerFaults(u) {
		t.Run(f.name, func(t *testing.T) {
			s.begin(t)
			f.run(t, s)
			ended := time.Now()
			s.calm(before)
			recovery := time.Since(ended)
			report(t, "caller "+f.name, s.balance(), recovery)
		})
	}
	s.t = t
	now := s.load()
	t.Logf("soak: callers: goroutines %.0f before, %.0f after; descriptors %.0f and %.0f; memory %.1f MB and %.1f MB",
		before.goroutines, now.goroutines, before.files, now.files, before.memory/1e6, now.memory/1e6)
	s.kill(syscall.SIGTERM)
}
