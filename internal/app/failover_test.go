package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/upstream/routing"
)

// mood is how an upstream behaves at the moment.
type mood int32

const (
	well    mood = iota
	dead         // it breaks connections off
	busy         // it answers 429
	stalled      // it takes the request, begins, and says nothing
)

// moody is an upstream of OpenAI's dialect whose mood changes.
type moody struct {
	*httptest.Server
	mood  atomic.Int32
	calls atomic.Int64
}

func newMoody(t *testing.T) *moody {
	m := &moody{}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	body, _ := io.ReadAll(r.Body)
	stream := strings.Contains(string(body), `"stream":true`)
	switch mood(m.mood.Load()) {
	case dead:
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			conn.Close()
		}
		return
	case busy:
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"error":{"message":"too many requests"}}`, http.StatusTooManyRequests)
		return
	case stalled:
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, roleChunk)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		return
	}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, chunk := range []string{
		roleChunk,
		`data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}` + "\n\n",
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n",
		`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n",
	} {
		fmt.Fprint(w, chunk)
		w.(http.Flusher).Flush()
	}
}

const roleChunk = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"

// TestFailover is a model with three targets that fail in turns, each in its own way. No caller sees anything
// of it while one of them is well. Between two steps all are well until their breakers are closed: one that has failed
// is left alone for a while, and callers would notice if the others failed just then.
func TestFailover(t *testing.T) {
	t.Parallel()
	// A machine that answers fewer than come would make callers wait for longer than they are willing to.
	requests, every, atOnce := 100, 10*time.Millisecond, 16
	steps := [][3]mood{{dead, well, well}, {well, busy, stalled}}
	if os.Getenv("SLUICE_SOAK") != "" {
		requests, every, atOnce = 500, 30*time.Millisecond, 1000
		steps = append(steps, [][3]mood{{busy, well, well}, {dead, busy, well}, {well, stalled, dead}, {stalled, well, busy}, {busy, dead, well}}...)
	}
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream %t", stream), func(t *testing.T) {
			t.Parallel()
			upstreams := []*moody{newMoody(t), newMoody(t), newMoody(t)}
			yaml := "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\nmetrics_listen: 127.0.0.1:0\nproviders:\n"
			targets := ""
			for i, u := range upstreams {
				yaml += fmt.Sprintf("  - {name: p%d, kind: openai, base_url: %q, timeouts: {first_content: 3s}}\n", i, u.URL)
				targets += fmt.Sprintf("{provider: p%d}, ", i)
			}
			n := newSite(t, yaml+"models: [{id: m, targets: ["+targets+"], plan: free, context_length: 1000, max_output: 100}]\n").start(t)
			flow := startFlow(n, stream, every, atOnce)
			// as reports whether the breakers are closed, or not, for those in the mood.
			as := func(moods [3]mood, isWell bool) bool {
				for _, s := range must[admin.Status](n, "status", admin.Empty{}).Targets {
					i := slices.Index([]string{"p0", "p1", "p2"}, s.Provider)
					if i >= 0 && (moods[i] == well) == isWell && (s.State == routing.Closed) != isWell {
						return false
					}
				}
				return true
			}
			for step, moods := range steps {
				for i, u := range upstreams {
					u.mood.Store(int32(moods[i]))
				}
				begun := flow.sent.Load()
				flow.until(t, patience, fmt.Sprintf("step %d: the breakers of those who fail open", step), func() bool { return as(moods, false) })
				flow.until(t, patience, "more requests", func() bool { return flow.sent.Load() >= begun+int64(requests/len(steps)) })
				for _, u := range upstreams {
					u.mood.Store(int32(well))
				}
				flow.until(t, patience, fmt.Sprintf("step %d: all breakers close", step), func() bool { return as([3]mood{}, true) })
			}
			flow.end()
			calls := int64(0)
			for _, u := range upstreams {
				calls += u.calls.Load()
			}
			sent := flow.sent.Load()
			t.Logf("%d requests, %d upstream calls", sent, calls)
			if calls < sent || calls > 2*sent {
				t.Errorf("%d requests made %d upstream calls, want at most twice as many", sent, calls)
			}
			answered, running := 0, 0
			for line := range strings.Lines(n.scrape()) {
				answered += figure(line, `sluice_upstream_attempts_total{outcome="answered",provider="p`)
				running += figure(line, `sluice_upstream_calls_running{provider="p`)
			}
			if int64(answered) != sent || running != 0 {
				t.Errorf("by the metrics %d of %d requests were answered and %d calls run, want all and none", answered, sent, running)
			}
		})
	}
}

// figure is what a metric stands at, where the line begins like that.
func figure(line, begins string) (v int) {
	if rest, ok := strings.CutPrefix(line, begins); ok {
		_, value, _ := strings.Cut(rest, " ")
		v, _ = strconv.Atoi(strings.TrimSpace(value))
	}
	return v
}

// flow is callers who ask and ask, each of whom must be answered.
type flow struct {
	n      *node
	sent   atomic.Int64
	ending chan struct{}
	all    sync.WaitGroup
}

// startFlow makes a request every so often, while fewer than so many are under way.
func startFlow(n *node, stream bool, every time.Duration, atOnce int) *flow {
	f := &flow{n: n, ending: make(chan struct{})}
	room := make(chan struct{}, atOnce)
	key := n.OwnerKey()
	body := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"Hello"}]}`, stream)
	f.all.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-f.ending:
				return
			case <-tick.C:
			}
			select {
			case room <- struct{}{}:
			default:
				continue
			}
			f.all.Go(func() {
				defer func() { <-room }()
				r, err := n.do("POST", "/v1/chat/completions", key, body)
				f.sent.Add(1)
				if err != nil || r.status != 200 || !strings.Contains(r.body, `"content":"Hello"`) || strings.Contains(r.body, `"error"`) || stream && !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
					n.t.Errorf("a caller got %d %s, %v", r.status, r.body, err)
				}
				if r.header.Get("X-Sluice-Provider") == "" || r.header.Get("X-Sluice-Attempts") == "" {
					n.t.Errorf("a caller got the headers %v", r.header)
				}
			})
		}
	})
	return f
}

// until waits for a condition while the callers go on.
func (f *flow) until(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	start, deadline := time.Now(), time.After(within)
	for !holds() {
		late := t.Failed()
		select {
		case <-deadline:
			late = true
		case <-time.After(20 * time.Millisecond):
		}
		if late {
			f.end()
			t.Fatalf("%s: not within %v", what, within)
		}
	}
	t.Logf("%s: after %v", what, time.Since(start).Round(10*time.Millisecond))
}

func (f *flow) end() {
	select {
	case <-f.ending:
	default:
		close(f.ending)
	}
	f.all.Wait()
}

// A breaker that is open on the only target lets one call at a time through, to see whether the upstream works again.
// Everybody else is answered at once, and told when to come back.
func TestBreakerOfTheOnlyTarget(t *testing.T) {
	t.Parallel()
	var calls, running, most atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		for n := running.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		defer running.Add(-1)
		http.Error(w, `{"error":{"message":"broken"}}`, http.StatusInternalServerError)
	}))
	t.Cleanup(up.Close)
	n := newSite(t, lab(up.URL, "lab/m")+"plans: {scale: {concurrent: unlimited, requests_per_minute: unlimited}}\n").start(t)
	key := n.OwnerKey()
	const ask = `{"model":"lab/m","messages":[{"role":"user","content":"Hello"}]}`
	for n.request("POST", chatPath, key, ask); must[admin.Status](n, "status", admin.Empty{}).Targets[0].State == routing.Closed; {
		n.request("POST", chatPath, key, ask)
	}
	before, began := calls.Load(), time.Now()
	most.Store(0)
	const requests = 200
	var asking sync.WaitGroup
	var unsent atomic.Int64
	for range requests {
		asking.Go(func() {
			r, err := n.do("POST", chatPath, key, ask)
			after, _ := strconv.Atoi(r.header.Get("Retry-After"))
			if err != nil || r.status != 503 || after < 1 || after > 5 || r.header.Get("Retry-After-Ms") == "" {
				t.Errorf("a request to an upstream that is down = %d %v %s, %v, want 503 and when to come back", r.status, r.header, r.body, err)
			}
			switch r.header.Get("X-Sluice-Attempts") {
			case "":
				unsent.Add(1)
			case "1":
			default:
				t.Errorf("a request made %s attempts, want one at most", r.header.Get("X-Sluice-Attempts"))
			}
		})
	}
	asking.Wait()
	// The breaker is open for a second at first, and for longer after each probe.
	made, probes := calls.Load()-before, 1+int64(time.Since(began)/time.Second)
	if made > probes || most.Load() > 1 || made+unsent.Load() != requests {
		t.Errorf("%d requests in %v made %d calls, %d at once, and %d none, want at most %d, one at a time", requests, time.Since(began), made, most.Load(), unsent.Load(), probes)
	}
}
