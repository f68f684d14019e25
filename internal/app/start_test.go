package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/porttest"
	"sluice/internal/upstream/discovery"
)

// asleep is a PostgreSQL behind an address that does not lead to it yet.
type asleep struct {
	addr string // where it will be
	real string // where it is
	wake func()
}

// sleep returns an address that refuses connections, or accepts them and is silent, until wake is called.
func sleep(t *testing.T, database string, silent bool) (string, *asleep) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	s := &asleep{addr: port.Addr(), real: u.Host}
	var mu sync.Mutex
	up := false
	accept := func() {
		l, err := net.Listen("tcp", s.addr)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				in, err := l.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { in.Close() })
				mu.Lock()
				through := up
				mu.Unlock()
				if !through {
					continue // nobody answers
				}
				out, err := net.Dial("tcp", s.real)
				if err != nil {
					in.Close()
					continue
				}
				go func() { _, _ = io.Copy(out, in); out.Close() }()
				go func() { _, _ = io.Copy(in, out); in.Close() }()
			}
		}()
	}
	if silent {
		accept()
	}
	s.wake = sync.OnceFunc(func() {
		mu.Lock()
		up = true
		mu.Unlock()
		if !silent {
			accept()
		}
	})
	u.Host = s.addr
	q := u.Query()
	q.Set("connect_timeout", "1") // silence is noticed soon
	u.RawQuery = q.Encode()
	return u.String(), s
}

// A server that starts before its PostgreSQL waits for it, and says so on the address of the metrics. Callers are not let
// in meanwhile.
func TestStartWaitsForPostgreSQL(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent %t", silent), func(t *testing.T) {
			t.Parallel()
			database, later := sleep(t, pgtest.URL(t), silent)
			api, metrics := held(t), held(t)
			s := newSite(t, fmt.Sprintf("listen: %s\nmetrics_listen: %s\ndatabase: %s\n", api, metrics, database))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			type started struct {
				app *app.App
				err error
			}
			done := make(chan started, 1)
			go func() {
				a, err := app.Start(ctx, s.config(t), &app.Options{Log: slog.New(slog.DiscardHandler), Servers: []discovery.Server{}})
				done <- started{a, err}
			}()
			eventually(t, "word of the wait", func() bool {
				select {
				case out := <-done:
					t.Fatalf("Start = %v, want it to wait", out.err)
				default:
				}
				status, body := probe("http://" + metrics + "/readyz")
				return status == http.StatusServiceUnavailable && strings.Contains(body, "waiting for PostgreSQL")
			})
			if status, body := probe("http://" + metrics + "/healthz"); status != http.StatusOK || !strings.Contains(body, `"status":"starting"`) {
				t.Errorf("/healthz = %d %s, want that the process lives", status, body)
			}
			if conn, err := net.DialTimeout("tcp", api, time.Second); err == nil {
				conn.Close()
				t.Error("the address of the API accepts callers, want it closed")
			}
			later.wake()
			out := <-done
			if out.err != nil {
				t.Fatalf("Start = %v, want a server", out.err)
			}
			ended := make(chan error, 1)
			go func() { ended <- out.app.Run(ctx) }()
			// The same address says so when it serves.
			eventually(t, "readiness", func() bool {
				status, _ := probe("http://" + metrics + "/readyz")
				return status == http.StatusOK
			})
			if status, body := probe("http://" + metrics + "/healthz"); status != http.StatusOK || !strings.Contains(body, `"status":"ok"`) {
				t.Errorf("/healthz = %d %s, want ok", status, body)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
}

// A mistake in the configuration ends the start at once.
func TestStartEndsForMistakes(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	unknown := *u
	unknown.Path = "/there_is_no_such_database"
	encrypted := *u
	encrypted.RawQuery = "sslmode=require"
	for name, database := range map[string]string{"unknown database": unknown.String(), "no TLS": encrypted.String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "database: "+database+"\n")
			if _, err := app.Start(t.Context(), s.config(t), &app.Options{Log: slog.New(slog.DiscardHandler)}); err == nil {
				t.Error("Start = nil, want an error")
			}
		})
	}
}

// A start that waits ends when it is asked to.
func TestStartIsInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t, fmt.Sprintf("database: postgres://sluice@%s/sluice\n", held(t)))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := app.Start(ctx, s.config(t), &app.Options{Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("Start = nil, want an error")
	}
}

// held returns an address on which nothing listens.
func held(t *testing.T) string {
	t.Helper()
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return port.Addr()
}

// probe returns what an address answers; the status is 0 if nothing does.
func probe(address string) (int, string) {
	resp, err := http.Get(address)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}
