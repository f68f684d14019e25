package app_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/ledger/usage"
)

const (
	// outliving is how long an upstream call may go on after its caller has left, on a machine with nothing else to do:
	// a promise that the long form holds us to. That it ends at all is always tested.
	outliving = time.Second
	// growth is what the heap may differ by: the settlements that are kept in memory for the limits, and by the journal
	// until they are synced, and noise.
	growth = 4 << 20
	// extra is how many goroutines there may be more: the runtime and net/http start some of their own.
	extra = 3
)

// Thousands of calls, streamed and plain, and among them callers that hang up at any moment. In the
// end everything is as it was: goroutines, memory, watches, and every admitted call is settled once.
//
// It counts the goroutines and the heap of the whole process, so it does not run beside other tests.
func TestSoak(t *testing.T) {
	waves, requests, hangups := 1, 5000, 500
	if os.Getenv("SLUICE_SOAK") != "" {
		waves, hangups = 20, 250 // 100,000 requests and 5,000 hang-ups
	}
	s := newSoak(t)
	s.wave(100, 50) // fills pools and loads what is loaded on first use
	began := s.state()
	admitted, unsent := s.admitted.Load(), s.unsent.Load()
	for i := range waves {
		s.wave(requests, hangups)
		if t.Failed() {
			t.Fatalf("wave %d of %d failed with SLUICE_SEED=%d", i+1, waves, s.seed)
		}
	}
	ended := s.state()
	t.Logf("soak: %d requests and %d hang-ups (%d before the body was sent), SLUICE_SEED=%d", waves*requests, waves*hangups, s.unsent.Load()-unsent, s.seed)
	t.Logf("soak: goroutines %d at the beginning, %d at the end; heap %.2f MB, then %.2f MB", began.goroutines, ended.goroutines, megabytes(began.heap), megabytes(ended.heap))
	t.Logf("soak: %d calls admitted, each settled once; an upstream call outlived its caller by %v at most, %v in the middle", s.admitted.Load()-admitted, s.upstream.longest(1), s.upstream.longest(0.5))
	if ended.goroutines > began.goroutines+extra {
		var stacks bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a buffer takes everything
		t.Errorf("%d goroutines at the end, want the %d of the beginning:\n%s", ended.goroutines, began.goroutines, &stacks)
	}
	if ended.heap > began.heap+growth {
		t.Errorf("the heap is %.2f MB at the end, want the %.2f MB of the beginning", megabytes(ended.heap), megabytes(began.heap))
	}
}

// soak is an App between callers that come and go and an upstream that watches for it.
type soak struct {
	t        *testing.T
	app      *app.App
	seed     uint64
	upstream *watchful
	client   *http.Client
	calls    atomic.Int64 // of all waves; the next one's number
	admitted atomic.Int64 // calls that were sent as a whole
	unsent   atomic.Int64 // calls that were not
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{t: t, seed: rand.Uint64() >> 1, upstream: newWatchful(t)}
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("SLUICE_SEED = %q, want a whole number", text)
		}
		s.seed = seed
	}
	site := newSite(t, lab(s.upstream.url, "lab/soak")+"plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n")
	a, err := app.New(t.Context(), site.config(t), &app.Options{Log: slog.New(slog.NewJSONHandler(io.Discard, nil))})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	s.app = a
	transport := &http.Transport{MaxIdleConnsPerHost: callers, IdleConnTimeout: 5 * time.Second} // as in start
	s.client = &http.Client{Transport: transport, Timeout: patience}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want a graceful stop", err)
		}
	})
	return s
}

// callers is how many calls run at the same time.
const callers = 16

// wave makes the calls in a random order, waits until the last trace of them is gone, and checks what
// they left behind.
func (s *soak) wave(requests, hangups int) {
	t := s.t
	t.Helper()
	_, before := s.app.Settlements()
	admitted := s.admitted.Load()
	order := rand.New(rand.NewPCG(s.seed, uint64(s.calls.Load()))).Perm(requests + hangups)
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for !t.Failed() {
				i := next.Add(1) - 1
				if i >= int64(len(order)) {
					return
				}
				c := newCaller(s, s.calls.Add(1))
				if order[i] < requests {
					c.request()
				} else {
					c.hangUp(order[i] - requests)
				}
			}
		})
	}
	all.Wait()
	eventually(t, "the end of all upstream calls", func() bool { return s.upstream.open.Load() == 0 })
	want := s.admitted.Load() - admitted
	eventually(t, "the settlement of every call", func() bool {
		_, now := s.app.Settlements()
		return now-before >= want || t.Failed()
	})
	eventually(t, "the end of all watches", func() bool { return s.app.Watched() == 0 })
	eventually(t, "the release of all bodies", func() bool { return s.app.BodiesInFlight() == 0 })

	recent, now := s.app.Settlements()
	if now-before != want {
		t.Errorf("%d settlements, want one for each of %d admitted calls", now-before, want)
	}
	complete := 0
	seen := map[string]bool{}
	for _, r := range recent[max(0, len(recent)-int(now-before)):] {
		if seen[r.ID] {
			t.Errorf("the call %s was settled twice", r.ID)
		}
		seen[r.ID] = true
		if r.End == usage.EndComplete {
			complete++
		} else if r.End != usage.EndHangUp {
			t.Errorf("a call was settled as %q (status %d), want complete or hang_up", r.End, r.Status)
		}
	}
	if complete != requests {
		t.Errorf("%d calls were settled as complete, want %d", complete, requests)
	}
	bound := patience
	if os.Getenv("SLUICE_SOAK") != "" {
		bound = outliving
	}
	s.upstream.check(t, bound)
}

// state is what must not grow.
type state struct {
	goroutines int
	heap       uint64
}

// state closes what is merely kept for later, such as idle connections, and counts what is left. What
// ends takes a moment, so it reads until ten readings in a row show no fewer goroutines. The least of all
// readings is the true one.
func (s *soak) state() state {
	s.client.CloseIdleConnections()
	s.upstream.closeIdle()
	least := state{goroutines: 1 << 30, heap: 1 << 60}
	for same := 0; same < 10; same++ {
		runtime.GC() // pools let go of what they hold in two rounds
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if n := runtime.NumGoroutine(); n < least.goroutines {
			least.goroutines, same = n, 0
		}
		least.heap = min(least.heap, m.HeapAlloc)
	}
	return least
}

func megabytes(n uint64) float64 { return float64(n) / 1e6 }

// caller makes one call.
type caller struct {
	s      *soak
	rng    *rand.Rand
	number int64
}

func newCaller(s *soak, number int64) *caller {
	return &caller{s: s, number: number, rng: rand.New(rand.NewPCG(s.seed, uint64(number)))}
}

// body asks the upstream for the given behavior.
func (c *caller) body(stream bool, behavior string) string {
	// The behavior is the user's text, the number tells calls apart.
	return fmt.Sprintf(`{"model":"lab/soak","messages":[{"role":"user","content":"%d %s"}],"stream":%t}`, c.number, behavior, stream)
}

// request makes a call and reads the whole reply.
func (c *caller) request() {
	stream, chunks := c.rng.IntN(2) == 0, 1+c.rng.IntN(6)
	c.s.admitted.Add(1)
	req, err := http.NewRequest(http.MethodPost, "http://"+c.s.app.Addr()+"/v1/chat/completions", strings.NewReader(c.body(stream, fmt.Sprint("send ", chunks))))
	if err != nil {
		c.s.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+c.s.app.OwnerKey())
	resp, err := c.s.client.Do(req)
	if err != nil {
		c.s.t.Errorf("call %d = %v", c.number, err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if want := strings.Repeat("word ", chunks); err != nil || resp.StatusCode != 200 || stream && !strings.HasSuffix(string(text), "data: [DONE]\n\n") ||
		stream && strings.Count(string(text), `"content":"word "`) != chunks || !stream && !strings.Contains(string(text), want) {
		c.s.t.Errorf("call %d (stream %t, %d words) = %d %s, %v, want the whole reply", c.number, stream, chunks, resp.StatusCode, text, err)
	}
}

// The ways to hang up. Each leaves the connection at a random moment of what it describes.
const (
	whileSending   = iota // before the request is complete
	whileWaiting          // for a reply that is late, plain or streamed
	whileReading          // in the middle of a stream that does not end
	inSilence             // after some chunks, while the upstream is silent
	withoutReading        // while nobody takes what comes, and the buffers fill
	ways
)

// hangUp makes a call that never gets its reply.
func (c *caller) hangUp(way int) {
	conn, err := net.DialTimeout("tcp", c.s.app.Addr(), patience)
	if err == nil {
		defer conn.Close()
		err = conn.SetDeadline(time.Now().Add(patience))
	}
	if err != nil {
		c.s.t.Errorf("call %d: %v", c.number, err)
		return
	}
	switch way %= ways; way {
	case whileSending:
		c.s.unsent.Add(1)
		text := c.raw(c.body(true, "never"))
		c.send(conn, text[:1+c.rng.IntN(len(text)-1)])
	case whileWaiting:
		c.admitted(conn, c.rng.IntN(2) == 0, "never")
		c.moment()
	case whileReading:
		c.admitted(conn, true, "endless")
		c.read(conn, 1+c.rng.IntN(64<<10))
	case inSilence:
		chunks := 1 + c.rng.IntN(12)
		c.admitted(conn, true, fmt.Sprint("pause ", chunks))
		c.readUntil(conn, `"content":"word "`, chunks)
		c.moment()
	case withoutReading:
		if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
			c.s.t.Error(err)
		}
		c.admitted(conn, true, "flood")
		c.moment()
	}
	c.s.upstream.callerLeft(c.number)
	conn.Close()
}

// raw is the request as it goes over the wire.
func (c *caller) raw(body string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: soak\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", c.s.app.OwnerKey(), len(body), body)
}

// admitted sends a whole request: whatever happens to it then, it must be settled.
func (c *caller) admitted(conn net.Conn, stream bool, behavior string) {
	c.s.admitted.Add(1)
	c.send(conn, c.raw(c.body(stream, behavior)))
}

func (c *caller) send(conn net.Conn, text string) {
	if _, err := io.WriteString(conn, text); err != nil {
		c.s.t.Errorf("call %d: sending = %v", c.number, err)
	}
}

// moment lets others run: mostly for a while, at times not at all.
func (c *caller) moment() {
	for range c.rng.IntN(3) * c.rng.IntN(1000) {
		runtime.Gosched()
	}
}

func (c *caller) read(conn net.Conn, n int) {
	if _, err := io.CopyN(io.Discard, conn, int64(n)); err != nil {
		c.s.t.Errorf("call %d: reading %d bytes = %v", c.number, n, err)
	}
}

// readUntil reads lines until so many of them hold the text.
func (c *caller) readUntil(conn net.Conn, text string, times int) {
	for r := bufio.NewReader(conn); times > 0; {
		line, err := r.ReadString('\n')
		if err != nil {
			c.s.t.Errorf("call %d: reading = %v, want %d chunks more", c.number, err, times)
			return
		}
		if strings.Contains(line, text) {
			times--
		}
	}
}
