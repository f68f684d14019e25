package httpapi

import (
	"bufio"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/api/httpserver"
	"sluice/internal/line/idempotency"
)

// timed is a listener whose connections remember their last write deadline.
type timed struct {
	net.Listener
	last atomic.Pointer[timedConn]
}

type timedConn struct {
	*net.TCPConn
	set   atomic.Bool
	until atomic.Pointer[time.Time]
}

func (l *timed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	made := &timedConn{TCPConn: c.(*net.TCPConn)}
	l.last.Store(made)
	return made, nil
}

func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.set.Store(true)
	c.until.Store(&t)
	return c.TCPConn.SetWriteDeadline(t)
}

// A deadline for writing a reply ends with the reply: the next reply on the connection may take as long as it likes.
func TestWriteDeadlineEndsWithTheReply(t *testing.T) {
	t.Parallel()
	limited := func(x *exchange) {
		_ = http.NewResponseController(x).SetWriteDeadline(time.Now().Add(httpserver.WritePatience))
	}
	for name, h := range map[string]handler{
		"a repeated reply": func(x *exchange, _ *http.Request) error { return x.replay(&idempotency.Reply{}) },
		"any other": func(x *exchange, _ *http.Request) error {
			limited(x)
			return x.json([]byte("{}"))
		},
		"an error": func(x *exchange, r *http.Request) error {
			limited(x)
			return nothingAt(r)
		},
	} {
		for _, lane := range []httpserver.Lane{httpserver.LaneDebug, httpserver.LaneOff} {
			t.Run(name+", lane "+string(lane), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil, behind(func(*API) handler {
					return func(x *exchange, r *http.Request) error {
						if r.URL.Path == "/v1/next" {
							return x.json([]byte("{}"))
						}
						return h(x, r)
					}
				}))
				inner, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				watched := &timed{Listener: inner}
				front := httpserver.NewListener(watched, httpserver.ListenerOptions{Max: 100, Refuse: w.api.Refuse, Log: slog.New(slog.DiscardHandler)})
				server := httpserver.NewServer(w.api, front, lane)
				var serving sync.WaitGroup
				serving.Go(func() { _ = server.Serve() })
				defer serving.Wait()
				defer server.Close()
				defer front.Finish()
				conn, err := net.Dial("tcp", inner.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				in := bufio.NewReader(conn)
				// The second reply comes after the handler of the first has returned.
				for _, path := range []string{"/v1/first", "/v1/next"} {
					write(t, conn, "GET", path, w.good)
					read(t, in, "GET")
				}
				c := watched.last.Load()
				if !c.set.Load() {
					t.Fatal("no deadline was ever set, want one for the first reply")
				}
				if until := *c.until.Load(); !until.IsZero() {
					t.Errorf("the deadline of the first reply still holds after it, until %v", until)
				}
			})
		}
	}
}
