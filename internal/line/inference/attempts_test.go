package inference_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pulse"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/inference"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/continuation"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

// inTurn is an adapter that does what its scripts say, one after the other; the last one stays.
type inTurn struct {
	mu      sync.Mutex
	scripts []*script
	next    int
}

func turns(scripts ...*script) *inTurn { return &inTurn{scripts: scripts} }

func (a *inTurn) Open(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	a.mu.Lock()
	s := a.scripts[min(a.next, len(a.scripts)-1)]
	a.next++
	a.mu.Unlock()
	if s.drops != nil {
		call.Dropped = s.drops
	}
	return s.Open(ctx, call)
}

// calls is how often it was asked.
func (a *inTurn) calls() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next
}

// failover is the line with models at three providers: two (at x and y), one (at x), and stand (at z), which
// stands in for both and costs other units.
type failover struct {
	line     *inference.Line
	models   inference.Models
	books    *books
	ledger   *admission.Memory
	caller   account.Account
	adapters map[string]*inTurn
}

func newFailover(t *testing.T, plan account.Plan, adapters map[string]*inTurn, p *pulse.Pulse) *failover {
	t.Helper()
	model := func(id string, change func(*catalog.Model)) catalog.Model {
		m := catalog.Model{ID: id, Plan: account.Basic, RequestMilli: 1500, UnitMilli: 2500, ContextLength: 1000, MaxOutput: 100, ToolCalling: true}
		change(&m)
		return m
	}
	c, err := catalog.New([]catalog.Model{
		model("two", func(m *catalog.Model) {
			m.Targets = []catalog.Target{{Provider: "x", Upstream: "x2", Weight: 1}, {Provider: "y", Upstream: "y2"}}
			m.Fallbacks = []string{"stand"}
		}),
		model("one", func(m *catalog.Model) { m.Provider, m.Upstream = "x", "x1" }),
		model("stand", func(m *catalog.Model) {
			m.Provider, m.Upstream, m.Plan, m.UnitMilli, m.MaxOutput = "z", "z1", account.Premium, 9000, 50
		}),
		model("open", func(m *catalog.Model) { m.Provider, m.Upstream, m.Fallbacks = "x", "x3", []string{"inside"} }),
		model("inside", func(m *catalog.Model) { m.Provider, m.Upstream, m.StaffOnly = "z", "z2", true }),
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &failover{books: &books{came: make(chan struct{}, 10)}, ledger: admission.NewMemory(nil), adapters: adapters, caller: account.Account{ID: "acc", Plan: plan}}
	var providers []routing.Provider
	for _, name := range []string{"x", "y", "z"} {
		if adapters[name] == nil {
			adapters[name] = turns(&script{refuse: provider.Unreachable(errors.New("nobody is at " + name))})
		}
		providers = append(providers, routing.Provider{Name: name, FirstContent: 20 * time.Second, Keys: []routing.Key{{Adapter: adapters[name]}}})
	}
	f.models = inference.Models{Catalog: c, Routes: routing.New(c, providers, &routing.Options{Log: slog.New(slog.DiscardHandler)})}
	f.line = inference.New(admission.New(f.ledger, f.books, nil), p, &inference.Options{States: continuation.New(nil, nil)})
	return f
}

// ask completes a request and returns what came of it.
func (f *failover) ask(ctx context.Context, t *testing.T, model string, stream bool, more string) (*httptest.ResponseRecorder, error) {
	t.Helper()
	req, err := chat.Parse([]byte(request(model, stream, more)))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	err = f.line.Complete(ctx, w, f.models, &inference.Call{
		ID: strings.Repeat("a", 32), Start: time.Now(), Caller: auth.Caller{Account: &f.caller}, Limits: account.BuiltinPlans()[account.Scale].Limits, Request: req,
	})
	return w, err
}

// settled is the one settlement there is.
func (f *failover) settled(t *testing.T) usage.Settlement {
	t.Helper()
	if len(f.books.kept) != 1 || f.ledger.Running() != 0 {
		t.Fatalf("%d settlements and %d running, want one and none", len(f.books.kept), f.ledger.Running())
	}
	for name, tally := range f.models.Routes.Tallies() {
		if tally.Running != 0 {
			t.Errorf("%d calls still run at %s", tally.Running, name)
		}
	}
	for name, a := range f.adapters {
		for _, s := range a.scripts {
			if s.refuse == nil && !s.stuck && !s.dials && s.closed != len(s.asked) {
				t.Errorf("%s: %d streams were opened and %d closed", name, len(s.asked), s.closed)
			}
		}
	}
	return f.books.kept[0]
}

func chunk(raw string) provider.Event { return provider.Event{Kind: provider.Chunk, Raw: []byte(raw)} }

func answer(s string) *script { return &script{events: []provider.Event{text(s), stop, figures}} }

func TestFailover(t *testing.T) {
	t.Parallel()
	const (
		role = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
		hi   = `{"choices":[{"index":0,"delta":{"content":"from x"},"finish_reason":null}]}`
		end  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	)
	broken := provider.Refused(500, nil, nil)
	busy := provider.Refused(429, http.Header{"Retry-After": {"4"}}, nil)
	dead := &script{refuse: broken}
	for name, tt := range map[string]struct {
		model    string // default two
		plan     account.Plan
		more     string
		whole    bool
		x, y, z  *inTurn
		status   int // of a plain fault; 0: there is a reply
		says     string
		header   string // model provider attempts dropped
		took     time.Duration
		used     string // model provider end
		unit     int64
		whatever bool // the time it took
	}{
		"the first answers":                  {x: turns(answer("from x")), says: "from x", header: "two x 1", used: "two x complete", unit: 2500},
		"the first is broken":                {x: turns(dead), y: turns(answer("from y")), says: "from y", header: "two y 2", used: "two y complete", unit: 2500},
		"the first is busy":                  {x: turns(&script{refuse: busy}), y: turns(answer("from y")), whole: true, says: "from y", header: "two y 2", used: "two y complete", unit: 2500},
		"the first gives its role and fails": {x: turns(&script{events: []provider.Event{chunk(role)}, end: broken}), y: turns(&script{events: []provider.Event{chunk(role), chunk(hi), chunk(end)}}), says: "from x", header: "two y 2", used: "two y complete", unit: 2500},
		"the first ends without a word":      {x: turns(&script{events: []provider.Event{chunk(role)}}), y: turns(answer("from y")), says: "from y", header: "two y 2", used: "two y complete", unit: 2500},
		"the first says that it failed":      {x: turns(&script{events: []provider.Event{chunk(`{"error":{"message":"overloaded"}}`)}}), y: turns(answer("from y")), says: "from y", header: "two y 2", used: "two y complete", unit: 2500},
		"the first is garbled":               {x: turns(&script{events: []provider.Event{chunk(`{"choices":[{`)}}), y: turns(answer("from y")), says: "from y", header: "two y 2", used: "two y complete", unit: 2500},
		"the first sends a page":             {whole: true, x: turns(&script{events: []provider.Event{{Kind: provider.Whole, Raw: []byte("<html>")}}}), y: turns(answer("from y")), says: "from y", header: "two y 2", used: "two y complete", unit: 2500},
		"a finish is an answer":              {x: turns(&script{events: []provider.Event{stop}}), says: `"finish_reason":"stop"`, header: "two x 1", used: "two x complete", unit: 2500},
		"the caller's fault":                 {x: turns(&script{refuse: provider.Refused(400, nil, []byte(`{"error":"too hot"}`))}), status: 400, says: "too hot", header: "two x 1", used: "two x failed"},
		"what the caller wanted":             {x: turns(&script{refuse: provider.Refused(503, nil, nil).Because(provider.ErrWanted)}), status: 503, says: "not available", header: "two x 1", used: "two x failed"},
		"our own":                            {x: turns(&script{refuse: errors.New("a bug")}), status: 500, says: "our side", header: "two x 1", used: "two x failed"},
		"after the first content":            {x: turns(&script{events: []provider.Event{text("from x")}, end: broken}), says: `"code":503`, header: "two x 1", used: "two x cut", unit: 2500},
		"what the target cannot take":        {x: turns(&script{refuse: broken, drops: []string{"seed"}}), y: turns(&script{events: []provider.Event{text("from y"), stop}, drops: []string{"logit_bias", "user"}}), says: "from y", header: "two y 2 logit_bias, user", used: "two y complete", unit: 2500},

		"the stand-in":                    {z: turns(answer("from z")), says: `"model":"stand"`, header: "stand z 3", used: "stand z complete", unit: 9000},
		"the stand-in, whole":             {z: turns(answer("from z")), whole: true, says: `"model":"stand"`, header: "stand z 3", used: "stand z complete", unit: 9000},
		"the stand-in is above the plan":  {plan: account.Basic, x: turns(dead, answer("from x")), z: turns(answer("from z")), says: "from x", header: "two x 3", used: "two x complete", unit: 2500, whatever: true},
		"the stand-in is for staff":       {model: "open", x: turns(dead, answer("from x")), z: turns(answer("from z")), says: "from x", header: "open x 2", used: "open x complete", unit: 2500, whatever: true},
		"the stand-in writes less":        {more: `,"max_tokens":60`, z: turns(&script{events: []provider.Event{text("from z"), stop}, drops: []string{"max_tokens"}}), says: "from z", header: "stand z 3 max_tokens", used: "stand z complete", unit: 9000},
		"the stand-in refuses":            {whole: true, z: turns(&script{refuse: provider.Refused(400, nil, nil)}, answer("from z")), status: 503, says: "cannot be reached", whatever: true},
		"nobody":                          {whole: true, status: 503, says: "cannot be reached", whatever: true},
		"bad keys":                        {x: turns(&script{refuse: provider.Refused(401, nil, nil)}), y: turns(&script{refuse: provider.Refused(402, nil, nil)}), z: turns(&script{refuse: provider.Refused(404, nil, nil)}), status: 503, says: "not available", header: "stand z 3", used: "stand z failed"},
		"a second try":                    {model: "one", x: turns(dead, answer("from x")), says: "from x", header: "one x 2", used: "one x complete", unit: 2500, whatever: true},
		"when the upstream says":          {model: "one", x: turns(&script{refuse: busy}, answer("from x")), says: "from x", header: "one x 2", took: 4 * time.Second, used: "one x complete", unit: 2500},
		"not when that is too far off":    {model: "one", x: turns(&script{refuse: provider.Refused(429, http.Header{"Retry-After": {"40"}}, nil)}), status: 503, says: "no capacity", header: "one x 1", used: "one x failed"},
		"one that hangs":                  {x: turns(&script{stuck: true}), y: turns(answer("from y")), whole: true, says: "from y", header: "two y 2", took: 20 * time.Second, used: "two y complete", unit: 2500},
		"one that gives its role, hangs":  {x: turns(&script{events: []provider.Event{chunk(role)}, wait: true}), y: turns(answer("from y")), whole: true, says: "from y", header: "two y 2", took: 20 * time.Second, used: "two y complete", unit: 2500},
		"one that pauses once it answers": {x: turns(&script{events: []provider.Event{text("from x")}, pause: time.Minute}), says: "from x", header: "two x 1", took: time.Minute, used: "two x cut", unit: 2500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := pulse.New()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go p.Run(ctx)
				adapters := map[string]*inTurn{"x": tt.x, "y": tt.y, "z": tt.z}
				if tt.plan == 0 {
					tt.plan = account.Scale
				}
				if tt.model == "" {
					tt.model = "two"
				}
				f := newFailover(t, tt.plan, adapters, p)
				start := time.Now()
				w, err := f.ask(ctx, t, tt.model, !tt.whole, tt.more)
				took := time.Since(start)
				body := w.Body.String()
				if tt.status != 0 {
					plain := fault.From(err)
					body = plain.Message
					if plain.Kind.Status() != tt.status || w.Body.Len() > 0 {
						t.Errorf("Complete = %v with %q, want a plain %d", err, w.Body, tt.status)
					}
				} else if err != nil && !errors.Is(err, relay.ErrTold) {
					t.Errorf("Complete = %v", err)
				}
				if !strings.Contains(body, tt.says) {
					t.Errorf("the caller got %s, want %q", body, tt.says)
				}
				if n := strings.Count(body, `"role":"assistant"`); tt.status == 0 && n != 1 {
					t.Errorf("%d roles in %s", n, body)
				}
				h := w.Header()
				got := strings.TrimSpace(strings.Join([]string{h.Get("X-Sluice-Model"), h.Get("X-Sluice-Provider"), h.Get("X-Sluice-Attempts"), h.Get("X-Sluice-Dropped")}, " "))
				if tt.header != "" && got != tt.header {
					t.Errorf("headers %q, want %q", got, tt.header)
				}
				if late := took - tt.took; !tt.whatever && (late < 0 || late > 2*time.Second) || took > time.Minute {
					t.Errorf("it took %v, want about %v", took, tt.took)
				}
				s := f.settled(t)
				if got := s.ModelUsed + " " + s.Provider + " " + string(s.End); tt.used != "" && got != tt.used {
					t.Errorf("settled as %q, want %q", got, tt.used)
				}
				wantRequests := int64(1500)
				if tt.status >= 500 { // given back
					wantRequests = 0
				}
				if s.ModelAsked != tt.model || s.UnitMilli != tt.unit || s.RequestMilli != wantRequests {
					t.Errorf("settled with %+v, want %d units and %d requests of %s", s, tt.unit, wantRequests, tt.model)
				}
				if got, want := wayOf(s.Trace), ways[name]; want != "" && got != want {
					t.Errorf("the way is %q, want %q", got, want)
				}
				if call := f.adapters["x"].scripts[0].calls(); len(call) > 0 && (call[0].ID == "" || call[0].Memory == nil) {
					t.Errorf("the adapter was given %+v, want an id and a memory", call[0])
				}
			})
		})
	}
}

// ways are what the settlements of some of these calls tell of their attempts: model, provider, outcome, the
// upstream's status, and the seconds from the start of the call to that of the attempt and to its end.
var ways = map[string]string{
	"the first answers":              "two x answered 0 0 0",
	"the first is broken":            "two x refused 500 0 0, two y answered 0 0 0",
	"the first ends without a word":  "two x cut off 0 0 0, two y answered 0 0 0",
	"the first is garbled":           "two x unreadable 0 0 0, two y answered 0 0 0",
	"the first sends a page":         "two x unreadable 0 0 0, two y answered 0 0 0",
	"the first says that it failed":  "two x failed 0 0 0, two y answered 0 0 0",
	"after the first content":        "two x answered 0 0 0",
	"our own":                        "two x failed 0 0 0",
	"the caller's fault":             "two x refused 400 0 0",
	"bad keys":                       "two x refused 401 0 0, two y refused 402 0 0, stand z refused 404 0 0",
	"when the upstream says":         "one x refused 429 0 0, one x answered 0 4 4",
	"one that hangs":                 "two x late 0 0 21, two y answered 0 21 21",
	"one that gives its role, hangs": "two x late 0 0 21, two y answered 0 21 21",
}

// wayOf writes a way as in ways.
func wayOf(w *usage.Trace) string {
	var list []string
	for _, a := range w.Attempts {
		list = append(list, fmt.Sprintf("%s %s %s %d %d %d", a.Model, a.Provider, a.Outcome, a.Status, int(a.Start.Seconds()), int(a.End.Seconds())))
	}
	return strings.Join(list, ", ")
}

// TestFailoverBehindAComment: once the caller waits too long it gets headers and a comment, and failover goes
// on behind them; if all fails in the end it is told inside the stream.
func TestFailoverBehindAComment(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]*script{"answers": answer("from y"), "fails": {refuse: provider.Refused(400, nil, nil)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := pulse.New()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go p.Run(ctx)
				f := newFailover(t, account.Scale, map[string]*inTurn{"x": turns(&script{stuck: true}), "y": turns(last)}, p)
				start := time.Now()
				w, err := f.ask(ctx, t, "two", true, "")
				if took := time.Since(start); took < 20*time.Second || took > 22*time.Second {
					t.Errorf("it took %v", took)
				}
				body, told := strings.CutPrefix(w.Body.String(), ": keep-alive\n")
				if !told || !w.Flushed {
					t.Fatalf("the caller got %q, want a comment first", w.Body)
				}
				s := f.settled(t)
				if name == "fails" {
					if !errors.Is(err, relay.ErrTold) || !strings.HasPrefix(body, `data: {"error":`) || s.End != usage.EndFailed || s.RequestMilli != 1500 || s.UnitMilli != 0 {
						t.Errorf("Complete = %v with %q, settled %+v, want an error event", err, body, s)
					}
					return
				}
				if err != nil || !strings.Contains(body, `"model":"two"`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
					t.Errorf("Complete = %v with %q, want the answer of y", err, body)
				}
				if got := w.Result().Header.Get("X-Sluice-Provider"); got != "" {
					t.Errorf("X-Sluice-Provider: %s went out before anybody had answered", got)
				}
				if s.Provider != "y" || s.End != usage.EndComplete || s.FirstToken < 20*time.Second {
					t.Errorf("settled with %+v, want y, and the first token as the caller saw it", s)
				}
			})
		})
	}
}

// TestHangUpBetweenAttempts: whoever leaves while nobody can be asked is not kept waiting for.
func TestHangUpBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := turns(&script{refuse: provider.Refused(429, http.Header{"Retry-After": {"20"}}, nil)})
		f := newFailover(t, account.Scale, map[string]*inTurn{"x": x}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := f.ask(ctx, t, "one", true, "")
		if took := time.Since(start); !errors.Is(err, relay.ErrGone) || took != 3*time.Second {
			t.Errorf("Complete = %v after %v, want that the caller is gone", err, took)
		}
		if s := f.settled(t); s.End != usage.EndHangUp || x.calls() != 1 {
			t.Errorf("asked %d times and settled with %+v", x.calls(), s)
		}
	})
}
