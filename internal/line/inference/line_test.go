package inference_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/api/httpapi"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pulse"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/inference"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is an adapter that does what the test says.
type script struct {
	refuse error            // what Open returns
	stuck  bool             // Open has sent the prompt and does not return before its caller leaves
	dials  bool             // the same, but nothing has been sent
	early  *chat.Usage      // figures that the stream has before its end
	events []provider.Event // what the stream says
	end    error            // what it ends with; nil: io.EOF
	wait   bool             // it does not end by itself
	panics bool             // Next does, behind the events
	pause  time.Duration    // before the stream ends
	drops  []string         // what Open says it left out
	opened chan struct{}    // told of every Open, where there is one
	bill   provider.Bill    // what the reply is billed by

	mu     sync.Mutex
	asked  []provider.Call
	closed int
}

// calls returns what it was asked. Tests that run at the same time share scripts.
func (s *script) calls() []provider.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *script) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	s.mu.Lock()
	s.asked = append(s.asked, *call)
	s.mu.Unlock()
	if s.opened != nil {
		s.opened <- struct{}{}
	}
	if s.stuck || s.dials {
		<-ctx.Done()
		err := provider.Unreachable(ctx.Err())
		if s.stuck {
			err = provider.Sent(err)
		}
		return nil, err
	}
	if s.refuse != nil {
		return nil, s.refuse
	}
	return &scripted{script: s, ctx: ctx}, nil
}

type scripted struct {
	script *script
	ctx    context.Context
	next   int
}

func (s *scripted) Next() (*provider.Event, error) {
	if s.next < len(s.script.events) {
		s.next++
		ev := s.script.events[s.next-1]
		return &ev, nil
	}
	if s.script.pause > 0 {
		time.Sleep(s.script.pause) // the bubble's clock
	}
	switch {
	case s.script.panics:
		panic("a bug in an adapter")
	case s.script.wait:
		<-s.ctx.Done()
		return nil, provider.Cut(s.ctx.Err())
	case s.script.end != nil:
		return nil, s.script.end
	}
	return nil, io.EOF
}

func (*scripted) Ready() bool { return false }

func (s *scripted) Bill() provider.Bill { return s.script.bill }

func (s *scripted) Figures() (chat.Usage, bool) {
	if s.script.early == nil {
		return chat.Usage{}, false
	}
	return *s.script.early, true
}

func (s *scripted) Close() error {
	s.script.mu.Lock()
	defer s.script.mu.Unlock()
	s.script.closed++
	return nil
}

// books keeps settlements and tells when one comes.
type books struct {
	mu    sync.Mutex
	kept  []usage.Settlement
	came  chan struct{}
	ready error
}

func (b *books) Ready() error { return b.ready }

func (b *books) Record(s usage.Settlement) {
	b.mu.Lock()
	b.kept = append(b.kept, s)
	b.mu.Unlock()
	b.came <- struct{}{}
}

// wired is the line behind the front door, as the program wires it.
type wired struct {
	server  *httptest.Server
	books   *books
	ledger  *admission.Memory
	adapter *script
	key     string
	account *account.Account
}

// models are a router, a model of the script's, one of nobody's, and the sandbox's names.
func models(t *testing.T) *catalog.Catalog {
	t.Helper()
	markup, err := price.NewMarkup(0, map[string]price.Factor{"premium": 1_500_000}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.New([]catalog.Model{
		catalog.Router("service"),
		{
			ID: "real/one", Markup: markup, Plan: account.Basic, Provider: "real", Upstream: "one", RequestMilli: 1500, UnitMilli: 2500, ContextLength: 1000, MaxOutput: 100, ToolCalling: true, Thinks: true,
			Price: price.Flat(1_000_000_000, 2_000_000_000),
		},
		{ID: "real/lost", Plan: account.Free, Provider: "lost", RequestMilli: 1000, UnitMilli: 1000, ContextLength: 1000, MaxOutput: 100},
		{ID: "vec/one", Plan: account.Free, Provider: "real", Embeds: true, RequestMilli: 1000, UnitMilli: 1000, ContextLength: 1000, Price: price.Flat(1_000_000_000, 0)},
		{ID: "vec/premium", Plan: account.Free, Provider: "real", Embeds: true, RequestMilli: 1000, UnitMilli: 1000, ContextLength: 1000},
		{ID: "real/premium", Plan: account.Premium, Provider: "real", RequestMilli: 1000, UnitMilli: 1000, ContextLength: 1000, MaxOutput: 100, Images: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nowhere is a store that takes new accounts and keeps none.
type nowhere struct{ account.Store }

func (nowhere) CreateAccount(context.Context, *account.Account, account.Entry) error { return nil }

// wire starts a server. Writes, where given, works on the ResponseWriter of every request.
func wire(t *testing.T, s *script, plan account.Plan, writes func(http.ResponseWriter) http.ResponseWriter) *wired {
	t.Helper()
	w := &wired{books: &books{came: make(chan struct{}, 100)}, ledger: admission.NewMemory(nil), adapter: s}
	var err error
	w.account, w.key, err = account.New(nowhere{}, nil).Create(t.Context(), "t", "a@example.com", plan, false)
	if err != nil {
		t.Fatal(err)
	}
	index := auth.NewIndex()
	index.Put(w.account)
	p := pulse.New()
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() { p.Run(ctx) })
	offered := models(t)
	routes := routing.New(offered, []routing.Provider{{Name: "real", Keys: []routing.Key{{Adapter: s}}}}, &routing.Options{Log: slog.New(slog.DiscardHandler)})
	api := httpapi.New(auth.New(index, "service", nil), inference.New(admission.New(w.ledger, w.books, nil), p, &inference.Options{Patience: 1}),
		httpapi.Settings{Catalog: offered, Routes: routes, Plans: account.BuiltinPlans()},
		&httpapi.Options{Log: slog.New(slog.DiscardHandler), Ledger: w.ledger})
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if writes != nil {
			rw = writes(rw)
		}
		api.ServeHTTP(rw, r)
	}))
	w.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	w.server.Start()
	t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
		cancel()
		beating.Wait()
	})
	return w
}

// ask sends a request and returns the reply, if there was any.
func (w *wired) ask(ctx context.Context, t *testing.T, body string) (status int, reply string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.server.Client().Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

const patience = time.Minute

// settled waits for the settlement of the one call there was, and makes sure that there is no other.
func (w *wired) settled(t *testing.T) usage.Settlement {
	t.Helper()
	select {
	case <-w.books.came:
	case <-time.After(patience):
		t.Fatal("the call was not settled")
	}
	w.server.Close() // waits for the handler, so that a second settlement would be there
	w.books.mu.Lock()
	defer w.books.mu.Unlock()
	if len(w.books.kept) != 1 {
		t.Fatalf("%d settlements, want one: %+v", len(w.books.kept), w.books.kept)
	}
	if n := w.ledger.Running(); n != 0 {
		t.Errorf("%d calls still have a place", n)
	}
	w.adapter.mu.Lock()
	defer w.adapter.mu.Unlock()
	if opened := len(w.adapter.asked); w.adapter.refuse == nil && !w.adapter.stuck && !w.adapter.dials && w.adapter.closed != opened {
		t.Errorf("%d streams were opened and %d closed", opened, w.adapter.closed)
	}
	return w.books.kept[0]
}

// unsettled makes sure that nothing was settled or taken.
func (w *wired) unsettled(t *testing.T) {
	t.Helper()
	w.server.Close()
	if len(w.books.kept) != 0 || w.ledger.Running() != 0 || len(w.adapter.asked) != 0 {
		t.Errorf("%d settlements, %d calls running, upstream asked %d times, want none", len(w.books.kept), w.ledger.Running(), len(w.adapter.asked))
	}
}

func text(s string) provider.Event { return provider.Event{Kind: provider.Text, Text: s} }

var (
	stop    = provider.Event{Kind: provider.Finish, Finish: chat.FinishStop}
	figures = provider.Event{Kind: provider.Usage, Usage: chat.Usage{Prompt: 10, Cached: 20, Completion: 30, Reasoning: 40}}
)

// request is a body; more are members of it.
func request(model string, stream bool, more string) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"Hello"}]%s}`, model, stream, more)
}

// What a prompt of "Hello" comes to by our count.
const helloTokens = 8

func TestSettlements(t *testing.T) {
	t.Parallel()
	overloaded := provider.Refused(429, http.Header{"Retry-After": {"7"}}, nil)
	given := func(end usage.End) usage.Settlement {
		cost := price.Nano(10+20+2*(30+40)) * 1000
		return usage.Settlement{Status: 200, End: end, Tokens: figures.Usage, RequestMilli: 1500, UnitMilli: 2500, Cost: &cost, FirstToken: 1}
	}
	counted := func(end usage.End, completion int) usage.Settlement {
		cost := price.Nano(helloTokens+2*completion) * 1000
		return usage.Settlement{Status: 200, End: end, Counted: true, Tokens: chat.Usage{Prompt: helloTokens, Completion: completion}, RequestMilli: 1500, UnitMilli: 2500, Cost: &cost, FirstToken: 1}
	}
	with := func(s usage.Settlement, change func(*usage.Settlement)) usage.Settlement {
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		script *script
		stream bool
		status int    // of the reply
		says   string // in the reply
		want   usage.Settlement
	}{
		"stream": {
			script: &script{events: []provider.Event{text("Hello"), stop, figures}}, stream: true, status: 200, says: "data: [DONE]",
			want: given(usage.EndComplete),
		},
		"reply": {
			script: &script{events: []provider.Event{text("Hello"), stop, figures}}, status: 200, says: `"total_tokens":100`,
			want: given(usage.EndComplete),
		},
		"stream without figures": {
			script: &script{events: []provider.Event{text("Hello"), text(" Hello"), stop}}, stream: true, status: 200, says: "data: [DONE]",
			want: counted(usage.EndComplete, 2),
		},
		"reply without figures": {
			script: &script{events: []provider.Event{text("Hello"), text(" Hello"), stop}}, status: 200, says: `"completion_tokens":2`,
			want: counted(usage.EndComplete, 2),
		},
		"stream cut": {
			script: &script{events: []provider.Event{text("Hello")}}, stream: true, status: 200, says: `"code":503`,
			want: counted(usage.EndCut, 1),
		},
		"stream that fails": {
			script: &script{events: []provider.Event{text("Hello"), figures}, end: overloaded}, stream: true, status: 200, says: "no capacity",
			want: given(usage.EndCut),
		},
		"stream that fails before its first content": {
			script: &script{events: []provider.Event{{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: 9}}}, end: overloaded}, stream: true, status: 200, says: "no capacity",
			want: usage.Settlement{Status: 200, End: usage.EndFailed},
		},
		"stream that fails at once": {
			script: &script{end: overloaded}, stream: true, status: 503, says: "no capacity",
			want: usage.Settlement{Status: 503, End: usage.EndFailed},
		},
		"reply that fails in the middle": {
			script: &script{events: []provider.Event{text("Hello")}, end: overloaded}, status: 503, says: "no capacity",
			want: with(counted(usage.EndCut, 1), func(s *usage.Settlement) { s.Status = 503 }),
		},
		"refused by the upstream": {
			script: &script{refuse: provider.Refused(400, nil, []byte(`{"error":"Too hot."}`))}, stream: true, status: 400, says: "Too hot.",
			want: usage.Settlement{Status: 400, End: usage.EndFailed, Counted: true, Tokens: chat.Usage{Prompt: helloTokens}, RequestMilli: 1500},
		},
		"refused before the upstream was asked": {
			script: &script{refuse: fault.New(fault.Invalid, "This model gives one reply.")}, status: 400, says: "one reply",
			want: usage.Settlement{Status: 400, End: usage.EndFailed},
		},
		"a stream with early figures that is cut": {
			script: &script{events: []provider.Event{text("Hello")}, early: &chat.Usage{Prompt: 1000, Completion: 0}}, stream: true, status: 200, says: `"code":503`,
			want: with(counted(usage.EndCut, 1), func(s *usage.Settlement) {
				s.Counted, s.Tokens.Prompt, *s.Cost = false, 1000, 1_002_000
			}),
		},
		"an error of our own": {
			script: &script{refuse: errors.New("a bug")}, status: 500, says: "our side",
			want: usage.Settlement{Status: 500, End: usage.EndFailed},
		},
		"a panic": {
			script: &script{panics: true}, status: 500, says: "our side",
			want: usage.Settlement{Status: 500, End: usage.EndFailed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wire(t, tt.script, account.Scale, nil)
			start := time.Now()
			status, reply, err := w.ask(t.Context(), t, request("real/one", tt.stream, ""))
			if err != nil || status != tt.status || !strings.Contains(reply, tt.says) {
				t.Errorf("the caller got %d %s, %v, want %d with %q", status, reply, err, tt.status, tt.says)
			}
			w.check(t, w.settled(t), tt.want, start)
		})
	}
}

// check holds a settlement against what is wanted beside what every settlement has.
func (w *wired) check(t *testing.T, got, want usage.Settlement, start time.Time) {
	t.Helper()
	want.AccountID, want.KeyID = w.account.ID, w.account.Keys[0].ID
	want.Plan, want.Tier = "scale", "basic"
	if want.Cost != nil {
		one, _ := models(t).Lookup("real/one")
		want.Terms = usage.Terms{Version: one.Priced(start).Version(), Tier: got.Terms.Tier, Estimated: want.End != usage.EndComplete}
	}
	want.ModelAsked, want.ModelUsed, want.Provider = "real/one", "real/one", "real"
	if want.Tokens.Cached > 0 { // so the model has a cache, which could have held all of the prompt
		want.Cacheable = int64(want.Tokens.PromptTotal())
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(usage.Settlement{}, "ID", "At", "Latency", "FirstToken", "Trace")); diff != "" {
		t.Errorf("settlement: -want +got\n%s", diff)
	}
	if len(got.ID) != 32 || got.At.Before(start) || got.Latency <= 0 || got.Latency > time.Since(start) {
		t.Errorf("settlement %q at %v took %v", got.ID, got.At, got.Latency)
	}
	if got.Trace == nil || got.Trace.Address != "127.0.0.1" || len(got.Trace.Attempts) > 1 {
		t.Errorf("settlement with the way %+v, want one attempt at most, from 127.0.0.1", got.Trace)
	}
	if (got.FirstToken > 0) != (want.FirstToken > 0) || got.FirstToken > got.Latency {
		t.Errorf("first token after %v of %v, want one: %t", got.FirstToken, got.Latency, want.FirstToken > 0)
	}
}

// TestHangUps are callers who leave.
func TestHangUps(t *testing.T) {
	t.Parallel()
	cost, prompt, thousand := price.Nano(helloTokens+2)*1000, price.Nano(helloTokens)*1000, price.Nano(1000)*1000
	for name, tt := range map[string]struct {
		script *script
		stream bool
		want   usage.Settlement
	}{
		"in a stream": {
			script: &script{events: []provider.Event{text("Hello")}, wait: true}, stream: true,
			want: usage.Settlement{Status: 200, End: usage.EndHangUp, Counted: true, Tokens: chat.Usage{Prompt: helloTokens, Completion: 1}, RequestMilli: 1500, UnitMilli: 2500, Cost: &cost, FirstToken: 1},
		},
		"before a stream": {
			script: &script{wait: true}, stream: true,
			want: usage.Settlement{End: usage.EndHangUp, Counted: true, Tokens: chat.Usage{Prompt: helloTokens}, RequestMilli: 1500, UnitMilli: 2500, Cost: &prompt},
		},
		"before a stream whose prompt has a figure": {
			script: &script{wait: true, early: &chat.Usage{Prompt: 1000}}, stream: true,
			want: usage.Settlement{End: usage.EndHangUp, Tokens: chat.Usage{Prompt: 1000}, RequestMilli: 1500, UnitMilli: 2500, Cost: &thousand},
		},
		"before the upstream answers": {
			script: &script{stuck: true}, stream: true,
			want: usage.Settlement{End: usage.EndHangUp, Counted: true, Tokens: chat.Usage{Prompt: helloTokens}, RequestMilli: 1500, UnitMilli: 2500, Cost: &prompt},
		},
		"before the upstream has the prompt": {
			script: &script{dials: true}, stream: true,
			want: usage.Settlement{End: usage.EndHangUp, RequestMilli: 1500},
		},
		"before a reply": {
			script: &script{events: []provider.Event{text("Hello")}, wait: true},
			want:   usage.Settlement{End: usage.EndHangUp, Counted: true, Tokens: chat.Usage{Prompt: helloTokens, Completion: 1}, RequestMilli: 1500, UnitMilli: 2500, Cost: &cost, FirstToken: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := wire(t, tt.script, account.Scale, nil)
			start := time.Now()
			ctx, leave := context.WithCancel(t.Context())
			tt.script.opened = make(chan struct{}, 1)
			go func() {
				<-tt.script.opened
				if !tt.stream || len(tt.script.events) == 0 {
					leave() // nothing will come that could be waited for
				}
			}()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+"/v1/chat/completions", strings.NewReader(request("real/one", tt.stream, "")))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+w.key)
			if resp, err := w.server.Client().Do(req); err == nil {
				_, _ = resp.Body.Read(make([]byte, 1)) // something has come
				leave()
				resp.Body.Close()
			}
			got := w.settled(t)
			w.check(t, got, tt.want, start)
		})
	}
}

// badWriter is a ResponseWriter that fails in its own way.
type badWriter struct {
	http.ResponseWriter
	left int // writes that succeed
	fail func() error
}

func (b *badWriter) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, b.fail()
	}
	return b.ResponseWriter.Write(p)
}

func (b *badWriter) Flush()                      { b.ResponseWriter.(http.Flusher).Flush() }
func (b *badWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// TestWriters that fail or panic leave exactly one settlement, like everything else.
func TestWriters(t *testing.T) {
	t.Parallel()
	fails := map[string]func() error{
		"fails":  func() error { return errors.New("broken pipe") },
		"panics": func() error { panic("a bug in a writer") },
		"aborts": func() error { panic(http.ErrAbortHandler) },
	}
	for how, fail := range fails {
		for _, stream := range []bool{true, false} {
			for left := range 3 {
				t.Run(fmt.Sprintf("%s after %d, stream %t", how, left, stream), func(t *testing.T) {
					t.Parallel()
					s := &script{events: []provider.Event{text("Hello"), stop, figures}}
					w := wire(t, s, account.Scale, func(rw http.ResponseWriter) http.ResponseWriter {
						return &badWriter{ResponseWriter: rw, left: left, fail: fail}
					})
					_, _, _ = w.ask(t.Context(), t, request("real/one", stream, "")) // what comes of it is not the question
					if got := w.settled(t); stream && left == 2 && got.End != usage.EndComplete || !stream && got.End != usage.EndComplete {
						t.Errorf("settled as %s, want complete", got.End)
					}
				})
			}
		}
	}
}

// TestRefusals are calls that never start: nothing is settled, and the upstream not asked.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const tool = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	for name, tt := range map[string]struct {
		plan   account.Plan
		body   string
		status int
		param  string
	}{
		"unknown model":                    {account.Scale, request("real/none", true, ""), 400, "model"},
		"tools for one without":            {account.Scale, request("real/lost", false, tool), 400, "tools"},
		"before the plan":                  {account.None, request("real/lost", false, tool), 400, "tools"},
		"a search of the web":              {account.None, request("real/lost", false, `,"web_search_options":{}`), 402, "tools"},
		"no plan":                          {account.None, request("real/one", true, ""), 402, "model"},
		"a plan too low":                   {account.Free, request("real/one", true, ""), 403, "model"},
		"the router's plan":                {account.Free, request("service/auto", true, ""), 403, "model"},
		"nobody for the router":            {account.Basic, `{"model":"service/auto","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}]}`, 400, "messages"},
		"too long for the router's choice": {account.Basic, `{"model":"service/auto","messages":[{"role":"user","content":"` + strings.Repeat(" !", 1500) + `"}]}`, 400, "messages"},
		"more than the allowance":          {account.None, request("real/lost", true, `,"n":1`), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{}
			w := wire(t, s, tt.plan, nil)
			if tt.status == 0 { // two requests a minute are the allowance, and both are used
				for range 2 {
					w.ledger.Take(w.account.ID, account.BuiltinPlans()[tt.plan].Limits, admission.Cost{RequestMilli: 1000})
				}
				if status, reply, err := w.ask(t.Context(), t, tt.body); status != 429 || err != nil {
					t.Errorf("the caller got %d %s, %v, want 429", status, reply, err)
				}
				w.server.Close()
				if len(w.books.kept) != 0 || len(s.asked) != 0 {
					t.Errorf("%d settlements, asked %d times, want none", len(w.books.kept), len(s.asked))
				}
				return
			}
			status, reply, err := w.ask(t.Context(), t, tt.body)
			if err != nil || status != tt.status || !strings.Contains(reply, fmt.Sprintf(`"param":%q`, tt.param)) {
				t.Errorf("the caller got %d %s, %v, want %d at %s", status, reply, err, tt.status, tt.param)
			}
			w.unsettled(t)
		})
	}
}

// TestRouter: the model asked for is what a call costs, the one that answers is what is told and used.
func TestRouter(t *testing.T) {
	t.Parallel()
	w := wire(t, &script{events: []provider.Event{text("Hello"), stop, figures}}, account.Scale, nil)
	status, reply, err := w.ask(t.Context(), t, request("service/auto", false, `,"reasoning_effort":"low"`))
	if err != nil || status != 200 || !strings.Contains(reply, `"model":"real/one"`) {
		t.Errorf("the caller got %d %s, %v, want an answer of real/one", status, reply, err)
	}
	got := w.settled(t)
	if got.ModelAsked != "service/auto" || got.ModelUsed != "real/one" || got.Provider != "real" || got.RequestMilli != 1000 || got.UnitMilli != 2500 {
		t.Errorf("settled with %+v", got)
	}
	if call := w.adapter.asked[0]; call.Upstream != "one" || !call.Thinks || call.MaxOutput != 100 {
		t.Errorf("the upstream was asked for %+v", call)
	}
}

// TestNoAdapter: a model whose provider is not there is unavailable, and costs nothing.
func TestNoAdapter(t *testing.T) {
	t.Parallel()
	w := wire(t, &script{}, account.Scale, nil)
	status, reply, err := w.ask(t.Context(), t, request("real/lost", true, ""))
	if err != nil || status != 503 || strings.Contains(reply, "adapter") {
		t.Errorf("the caller got %d %s, %v, want 503 without our insides", status, reply, err)
	}
	if got := w.settled(t); got.End != usage.EndFailed || got.Status != 503 || got.RequestMilli != 0 {
		t.Errorf("settled with %+v", got)
	}
}

// TestUnready: what cannot be accounted for does not start.
func TestUnready(t *testing.T) {
	t.Parallel()
	w := wire(t, &script{}, account.Scale, nil)
	w.books.ready = fault.New(fault.Internal, "the disk is full")
	status, reply, err := w.ask(t.Context(), t, request("real/one", true, ""))
	if err != nil || status != 503 || strings.Contains(reply, "disk") {
		t.Errorf("the caller got %d %s, %v, want 503", status, reply, err)
	}
	w.unsettled(t)
}
