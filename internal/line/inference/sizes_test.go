package inference_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/admission"
	"sluice/internal/line/inference"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

// table is a CSV of small numbers, as JSON: a token for every two bytes, nearly.
func table(bytes int) string {
	var b strings.Builder
	n := uint32(1)
	for b.Len() < bytes {
		n = n*1664525 + 1013904223
		fmt.Fprintf(&b, "%d,%d,%d\\n", n>>8%20, n>>16%100, n>>20%1000)
	}
	return b.String()
}

// prose is English with long words: a token for every eight bytes, nearly.
func prose(bytes int) string {
	words := strings.Fields("The international government understands the responsibility of traditional communication and a development of the organizations in it")
	var b strings.Builder
	n := uint32(1)
	for b.Len() < bytes {
		n = n*1664525 + 1013904223
		b.WriteString(words[n>>16%uint32(len(words))])
		b.WriteByte(' ')
	}
	return b.String()
}

// boxes is a line in front of the sandbox's models alone.
func boxes(t *testing.T) (*inference.Line, inference.Models) {
	t.Helper()
	c, err := catalog.New(append([]catalog.Model{catalog.Router("service")}, catalog.Sandbox()...))
	if err != nil {
		t.Fatal(err)
	}
	answers := &script{events: []provider.Event{text("Hello"), stop, figures}}
	routes := routing.New(c, []routing.Provider{{Name: catalog.SandboxProvider, Keys: []routing.Key{{Adapter: answers}}}}, &routing.Options{Log: slog.New(slog.DiscardHandler)})
	ledger := &books{came: make(chan struct{}, 100)}
	return inference.New(admission.New(admission.NewMemory(nil), ledger, nil), nil, &inference.Options{CountPatience: 5 * time.Minute}), inference.Models{Catalog: c, Routes: routes}
}

// TestRouterSizes sends prompts of sizes that bytes tell nothing of.
func TestRouterSizes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		content string
		tokens  [2]int // at least and at most; zero: bytes tell enough
		model   string // that answers; empty: 400
	}{
		"a table of 475 KB":      {table(475_000), [2]int{270_000, 300_000}, "sandbox/large"},
		"1.88 MB of English":     {prose(1_880_000), [2]int{220_000, 260_000}, "sandbox/large"},
		"a table that is longer": {table(1_200_000), [2]int{}, ""},
		"English that is longer": {prose(6_000_000), [2]int{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if most := tt.tokens[1]; most > 0 {
				if n := tokens.About(strings.ReplaceAll(tt.content, `\n`, "\n")); n < tt.tokens[0] || n > most {
					t.Fatalf("the prompt has %d tokens, want %v", n, tt.tokens)
				}
			}
			line, models := boxes(t)
			req, err := chat.Parse([]byte(`{"model":"service/auto","messages":[{"role":"user","content":"` + tt.content + `"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			caller := auth.Caller{Account: &account.Account{ID: "acc", Plan: account.Scale}}
			call := inference.Call{ID: strings.Repeat("a", 32), Start: time.Now(), Caller: caller, Limits: account.BuiltinPlans()[account.Scale].Limits, Request: req}
			err = line.Complete(context.Background(), w, models, &call)
			if tt.model == "" {
				f := fault.From(err)
				if f.Kind != fault.Invalid || f.Param != "messages" || !strings.Contains(f.Message, "service/auto") || strings.Contains(f.Message, "sandbox/") {
					t.Errorf("Complete = %v at %q, want a 400 that names service/auto", err, f.Param)
				}
				return
			}
			if got := w.Header().Get("X-Sluice-Model"); err != nil || got != tt.model {
				t.Errorf("%q answered, %v, want %s", got, err, tt.model)
			}
		})
	}
}

// TestRouterPassesOn: what the router's choice refuses, the next one may take. Where all refuse, the caller
// hears what the first had to say; where some are only ill, that is what counts.
func TestRouterPassesOn(t *testing.T) {
	t.Parallel()
	refuses := func() *script {
		return &script{refuse: provider.Refused(400, nil, []byte(`{"error":"too long for me"}`))}
	}
	ill := func() *script { return &script{refuse: provider.Refused(401, nil, nil)} }
	for name, tt := range map[string]struct {
		best, next    *script
		status, asked int // asked: how often the best one was, at its two keys
		says          string
	}{
		"the next one takes it": {refuses(), &script{events: []provider.Event{text("Hello"), stop, figures}}, 200, 1, "Hello"},
		"nobody takes it":       {refuses(), refuses(), 400, 1, "too long for me"},
		"the next one is ill":   {refuses(), ill(), 503, 1, "not available"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := func(id string, quality uint8) catalog.Model {
				q := catalog.Quality{}
				for i := range q {
					q[i] = quality
				}
				return catalog.Model{ID: id, Plan: account.Free, RequestMilli: 1000, ContextLength: 1000, MaxOutput: 100, Provider: id, Upstream: id, Quality: q}
			}
			c, err := catalog.New([]catalog.Model{catalog.Router("service"), model("best", 90), model("next", 10)})
			if err != nil {
				t.Fatal(err)
			}
			routes := routing.New(c, []routing.Provider{
				{Name: "best", Keys: []routing.Key{{Adapter: tt.best}, {Adapter: tt.best}}}, {Name: "next", Keys: []routing.Key{{Adapter: tt.next}}},
			}, &routing.Options{Log: slog.New(slog.DiscardHandler)})
			line := inference.New(admission.New(admission.NewMemory(nil), &books{came: make(chan struct{}, 10)}, nil), nil, nil)
			req, err := chat.Parse([]byte(request("service/auto", false, "")))
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			err = line.Complete(t.Context(), w, inference.Models{Catalog: c, Routes: routes}, &inference.Call{
				ID: strings.Repeat("a", 32), Start: time.Now(), Caller: auth.Caller{Account: &account.Account{ID: "acc", Plan: account.Scale}},
				Limits: account.BuiltinPlans()[account.Scale].Limits, Request: req,
			})
			status, body := 200, w.Body.String()
			if err != nil {
				f := fault.From(err)
				status, body = f.Kind.Status(), f.Message
			}
			if status != tt.status || !strings.Contains(body, tt.says) || len(tt.best.asked) != tt.asked || len(tt.next.asked) == 0 {
				t.Errorf("the caller got %d %s, and the best was asked %d times, the next %d; want %d that says %q", status, body, len(tt.best.asked), len(tt.next.asked), tt.status, tt.says)
			}
		})
	}
}
