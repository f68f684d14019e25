package inference_test

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/inference"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

// A reply says whether its conversation stayed, and so does the trace of the call, with the keys that were tried.
func TestAffinityIsTold(t *testing.T) {
	t.Parallel()
	model := catalog.Model{
		ID: "m", Plan: account.Free, ContextLength: 1000, MaxOutput: 100, Affinity: catalog.AffinityPrefix,
		Targets: []catalog.Target{{Provider: "x", Upstream: "m", Weight: 1}, {Provider: "y", Upstream: "m", Weight: 1}},
	}
	c, err := catalog.New([]catalog.Model{model})
	if err != nil {
		t.Fatal(err)
	}
	adapters := map[string]*inTurn{"x": turns(answer("from x")), "y": turns(answer("from y"))}
	keys := map[string]string{"x": "…aaaa", "y": "…bbbb"}
	var providers []routing.Provider
	for _, name := range []string{"x", "y"} {
		providers = append(providers, routing.Provider{Name: name, Keys: []routing.Key{{Adapter: adapters[name], LastFour: keys[name]}}})
	}
	models := inference.Models{Catalog: c, Routes: routing.New(c, providers, &routing.Options{Log: slog.New(slog.DiscardHandler)})}
	kept := &books{came: make(chan struct{}, 10)}
	line := inference.New(admission.New(admission.NewMemory(nil), kept, nil), nil, nil)
	ask := func(session, text string) (header, by string, trace *usage.Trace) {
		t.Helper()
		req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		caller := auth.Caller{Account: &account.Account{ID: "acc", Plan: account.Free}}
		call := &inference.Call{ID: strings.Repeat("a", 32), Start: time.Now(), Caller: caller, Limits: account.BuiltinPlans()[account.Scale].Limits, Request: req, Session: session}
		if err := line.Complete(t.Context(), w, models, call); err != nil {
			t.Fatal(err)
		}
		return w.Header().Get("X-Sluice-Affinity"), w.Header().Get("X-Sluice-Provider"), kept.kept[len(kept.kept)-1].Trace
	}
	_, home, _ := ask("", "Hello")
	for _, tt := range []struct {
		name, session, text string
		broken              bool
		want                string
		keys                int
	}{
		{"the same beginning", "", "Hello", false, "kept", 1},
		{"a session", "run-1", "Hello", false, "new", 1},
		{"the session, whatever it says", "run-1", "Good day", false, "kept", 1},
		{"its target fails", "", "Hello", true, "moved (failed)", 2},
		{"and answers again", "", "Hello", false, "kept", 1},
	} {
		if tt.broken {
			adapters[home].scripts = []*script{{refuse: provider.Cut(io.ErrUnexpectedEOF)}}
		} else {
			adapters[home].scripts = []*script{answer("from " + home)}
		}
		header, by, trace := ask(tt.session, tt.text)
		if header != tt.want || trace.Affinity != tt.want || len(trace.Attempts) != tt.keys {
			t.Errorf("%s: the header is %q, the trace %+v; want %q, and %d attempts", tt.name, header, trace, tt.want, tt.keys)
		}
		for _, a := range trace.Attempts {
			if a.Key != keys[a.Provider] {
				t.Errorf("%s: the key of an attempt at %s is %q, want %q", tt.name, a.Provider, a.Key, keys[a.Provider])
			}
		}
		if moved := by != home; tt.session == "" && moved != (tt.keys == 2 || tt.name == "and answers again") {
			t.Errorf("%s: %s has answered, after %s", tt.name, by, home)
		}
	}
}
