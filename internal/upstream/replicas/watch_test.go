package replicas

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/pulse"
	"sluice/internal/testkit/vendortest"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
	"sluice/internal/upstream/routing"
)

// routesTo returns routes to replicas.
func routesTo(t *testing.T, keys ...routing.Key) *routing.Routes {
	t.Helper()
	c, err := catalog.New([]catalog.Model{{ID: "a", Plan: account.Free, Provider: "own", Upstream: "m"}})
	if err != nil {
		t.Fatal(err)
	}
	return routing.New(c, []routing.Provider{{Name: "own", Keys: keys}}, nil)
}

// serve returns a replica with an adapter for it, which sends a key.
func serve(t *testing.T, name string, h http.Handler) routing.Key {
	t.Helper()
	up := httptest.NewServer(h)
	t.Cleanup(up.Close)
	preset, _ := openai.PresetOf("vllm", up.URL)
	a, err := openai.New(up.URL+"/v1", &openai.Options{Preset: preset, APIKey: "secret-key", Pulse: pulse.New(), Transport: provider.Connections(time.Second, nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return routing.Key{Adapter: a, Replica: name}
}

// said returns the figures of the replicas, by name.
func said(r *routing.Routes) map[string]string {
	all := map[string]string{}
	for _, rep := range r.Replicas() {
		all[rep.Name] = shown(rep.Figures())
	}
	return all
}

// Servers that hang, write without an end, or write what is no metric cost a round its patience and nothing else. The
// others are heard in the same round.
func TestAskHostile(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var sent atomic.Int64
	text := func(s string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) })
	}
	log := &lines{}
	r := routesTo(t,
		serve(t, "well", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" || r.Header.Get("Authorization") != "Bearer secret-key" {
				t.Errorf("asked for %s with %q", r.URL.Path, r.Header.Get("Authorization"))
			}
			_, _ = io.WriteString(w, "vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n")
		})),
		serve(t, "silent", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})),
		serve(t, "half", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "vllm:num_requests_running 2\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})),
		serve(t, "endless", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for line := []byte("vllm:num_requests_running 1\n" + strings.Repeat("x 1\n", 1000)); ; {
				n, err := w.Write(line)
				if sent.Add(int64(n)); err != nil {
					return
				}
			}
		})),
		serve(t, "page", text("<html>"+strings.Repeat("<p>", 1000))),
		serve(t, "away", http.RedirectHandler("http://127.0.0.1:1/metrics", http.StatusFound)),
		serve(t, "without", http.NotFoundHandler()),
		serve(t, "broken", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })),
	)
	defer close(release)
	w := &watch{log: slog.New(slog.NewTextHandler(log, nil)), seen: map[[2]string]*asked{}}
	w.ask(t.Context(), r.Replicas())
	for name, got := range said(r) {
		want := "none"
		if name == "well" {
			want = "2 1 - -"
		}
		if got != want {
			t.Errorf("%s says %s, want %s", name, got, want)
		}
	}
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("%d bytes were taken from the server without an end", n)
	}
	if got := log.count("cannot be read"); got != 4 { // silent, half, endless, broken
		t.Errorf("the log has %d lines about metrics, want 4:\n%s", got, log.text.String())
	}
	if strings.Contains(log.text.String(), "secret-key") {
		t.Error("the log has the key")
	}
}

// machine is an adapter whose server says what the test wants.
type machine struct {
	provider.Adapter
	mu    sync.Mutex // guards all below
	asked int
	err   error
	text  string
}

// says sets what the server says from now on, and returns how often it was asked.
func (m *machine) says(text string, err error) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text, m.err = text, err
	return m.asked
}

func (m *machine) Metrics(_ context.Context, read func(io.Reader) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asked++; m.err != nil {
		return m.err
	}
	return read(strings.NewReader(m.text))
}

// Figures are dropped when their server has been silent for a while, and a server without metrics is asked rarely.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const five = "sglang:num_running_reqs 5\n"
		m, bare := &machine{text: "sglang:num_running_reqs 4\n"}, &machine{text: "up 1\n"}
		r := routesTo(t, routing.Key{Adapter: m, Replica: "one"}, routing.Key{Adapter: bare, Replica: "two"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Watch(ctx, func() *routing.Routes { return r }, slog.New(slog.DiscardHandler))
		}()
		at := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := said(r)["one"]; got != want {
				t.Errorf("after %s more: %s, want %s", d, got, want)
			}
		}
		at(0, "4 0 - -")
		m.says(five, nil)
		at(askEvery, "5 0 - -")
		m.says("", context.DeadlineExceeded)
		at(2*askEvery, "5 0 - -")
		at(fresh, "none")
		m.says(five, nil)
		at(askEvery, "5 0 - -")
		m.says("up 1\n", nil) // it was replaced by another server, which has no metrics
		at(askEvery, "none")
		if asked, rarely := m.says("up 1\n", nil), bare.says("up 1\n", nil); asked < 9 || rarely != 1 {
			t.Errorf("asked %d times, and %d times the server without metrics", asked, rarely)
		}
		time.Sleep(rareEvery)
		synctest.Wait()
		if rarely := bare.says("", nil); rarely != 2 {
			t.Errorf("the server without metrics was asked %d times, want 2", rarely)
		}
		cancel()
		<-ended
	})
}

// The load of an engine is what it reports: calls that it works on, and those in its queue.
func TestAskEngine(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"vllm", "sglang", "llamacpp"} {
		release := make(chan struct{})
		held := make(chan struct{}, 8)
		e := &vendortest.Engine{Kind: kind, Slots: 2, During: func(ctx context.Context) {
			held <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
		}}
		calls := httptest.NewServer(e) // of others, which only its metrics tell of
		defer calls.Close()
		r := routesTo(t, serve(t, "one", e))
		rep := r.Replicas()[0]
		done := make(chan error, 5)
		for range 5 {
			go func() {
				resp, err := http.Post(calls.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
				if err == nil {
					resp.Body.Close()
				}
				done <- err
			}()
		}
		<-held
		<-held
		w := &watch{log: slog.New(slog.DiscardHandler), seen: map[[2]string]*asked{}}
		deadline := time.Now().Add(time.Minute)
		for got := rep.Figures(); (got == nil || got.Running != 2 || got.Waiting != 3) && time.Now().Before(deadline); got = rep.Figures() {
			w.ask(t.Context(), r.Replicas())
		}
		if got := rep.Figures(); got == nil || got.Running != 2 || got.Waiting != 3 {
			t.Errorf("%s says %s, want 2 calls and 3 in the queue", kind, shown(got))
		}
		close(release)
		for range 5 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}
