package routing

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// parse reads a request; more are members beside the messages.
func parse(t testing.TB, content, more string) *chat.Request {
	t.Helper()
	return parseMessages(t, fmt.Sprintf(`{"role":"user","content":%s}`, content), more)
}

func parseMessages(t testing.TB, messages, more string) *chat.Request {
	t.Helper()
	req, err := chat.Parse(fmt.Appendf(nil, `{"model":"service/auto","messages":[%s]%s}`, messages, more))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

const (
	hello   = `"Hello"`
	picture = `[{"type":"text","text":"?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]`
	tool    = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	asJSON  = `,"response_format":{"type":"json_object"}`
)

// model is one that the provider p serves.
func model(id string, plan account.Plan, change func(*catalog.Model)) catalog.Model {
	m := catalog.Model{ID: id, Plan: plan, ContextLength: 1000, MaxOutput: 100, Provider: "p", Upstream: id}
	if change != nil {
		change(&m)
	}
	return m
}

// priced gives a model its dollars per million tokens of the reply; those of the prompt are a quarter.
func priced(dollars float64, quality uint8) func(*catalog.Model) {
	return func(m *catalog.Model) {
		out := price.Rate(dollars * 1e9)
		m.Price = price.Flat(out/4, out)
		for t := range m.Quality {
			m.Quality[t] = quality
		}
		m.ToolCalling, m.ContextLength, m.MaxOutput = true, 100_000, 10_000
	}
}

// house is a router and what it chooses from.
type house struct {
	*testing.T
	router  *Router
	catalog *catalog.Catalog
	routes  *Routes
	now     time.Time
}

type silent struct{ provider.Adapter }

func build(t *testing.T, models []catalog.Model) *house {
	t.Helper()
	c, err := catalog.New(append([]catalog.Model{catalog.Router("service")}, models...))
	if err != nil {
		t.Fatal(err)
	}
	key := func() []Key { return []Key{{Adapter: &silent{}}} }
	h := &house{T: t, router: NewRouter(nil), catalog: c, now: epoch}
	h.router.now = func() time.Time { return h.now }
	h.routes = New(c, []Provider{{Name: "p", Keys: key(), MaxConcurrent: 10}, {Name: "sandbox", Keys: key()}}, &Options{Log: slog.New(slog.DiscardHandler)})
	return h
}

func (h *house) query(id string, plan account.Plan, req *chat.Request) *Query {
	h.Helper()
	m, ok := h.catalog.Lookup(id)
	if !ok {
		h.Fatalf("no model %s", id)
	}
	return &Query{Catalog: h.catalog, Routes: h.routes, Model: m, AccountID: "acct_1", Plan: plan, Request: req}
}

// target is the only one of a model.
func (h *house) target(id string) *Target {
	m, _ := h.catalog.Lookup(id)
	return h.routes.byModel[m].targets[0]
}

// fail opens the breaker of a model.
func (h *house) fail(id string) {
	t := h.target(id)
	p, _ := t.health.begin(h.now, wanted)
	t.health.end(p, refused, h.now, time.Minute)
}

// TestNoCandidate holds the router to say what is true where it finds nobody, and to name nobody.
func TestNoCandidate(t *testing.T) {
	t.Parallel()
	plain := model("plain", account.Basic, func(m *catalog.Model) { m.NoJSON = true })
	premium := model("premium", account.Premium, nil)
	gone := model("gone", account.Free, func(m *catalog.Model) { m.Vanished = true })
	long := `"` + strings.Repeat("word ", 2000) + `"`
	for name, tt := range map[string]struct {
		models        []catalog.Model
		content, more string
		ill           bool
		kind          fault.Kind
		param, says   string
	}{
		"an empty catalog":           {nil, hello, "", false, fault.Unavailable, "", "There is no model behind"},
		"nobody is listed any more":  {[]catalog.Model{gone}, hello, "", false, fault.Unavailable, "", "There is no model behind"},
		"a higher plan":              {[]catalog.Model{premium, gone}, hello, "", false, fault.PlanTooLow, "model", "needs a higher plan"},
		"tools":                      {[]catalog.Model{plain, premium}, hello, tool, false, fault.Invalid, "tools", "it has tools."},
		"images":                     {[]catalog.Model{plain}, picture, "", false, fault.Invalid, "messages", "it has images."},
		"JSON":                       {[]catalog.Model{plain}, hello, asJSON, false, fault.Invalid, "response_format", "it asks for JSON."},
		"a prompt":                   {[]catalog.Model{plain}, long, "", false, fault.Invalid, "messages", "tokens. Please reduce the length of the messages. No model behind \"service/auto\" can serve this request: it has a prompt that is too long."},
		"more than one reason":       {[]catalog.Model{plain, model("small", account.Basic, func(m *catalog.Model) { m.ToolCalling = true })}, long, tool, false, fault.Invalid, "model", "it has tools and has a prompt that is too long."},
		"health":                     {[]catalog.Model{plain}, hello, "", true, fault.Unavailable, "", "out of order or busy"},
		"health, and somebody small": {[]catalog.Model{plain, model("tiny", account.Basic, func(m *catalog.Model) { m.ContextLength = 0 })}, hello, "", true, fault.Unavailable, "", "out of order or busy"},
	} {
		h := build(t, tt.models)
		if tt.ill {
			h.fail("plain")
		}
		_, err := h.router.Choose(t.Context(), h.query("service/auto", account.Basic, parse(t, tt.content, tt.more)))
		f := fault.From(err)
		if err == nil || f.Kind != tt.kind || f.Param != tt.param || !strings.Contains(f.Message, tt.says) || !strings.Contains(f.Message, "service/auto") {
			t.Errorf("%s: Choose = %v at %q, want %v at %q that says %q of service/auto", name, err, f.Param, tt.kind, tt.param, tt.says)
		}
		for _, m := range tt.models {
			if strings.Contains(f.Message, `"`+m.ID+`"`) {
				t.Errorf("%s: Choose = %v, which names %s", name, err, m.ID)
			}
		}
	}
}

// TestNearWindow asks with a prompt of 1,100 tokens: a window of 1,000 may still do by the vendor's own
// count, but only where no other is larger.
func TestNearWindow(t *testing.T) {
	t.Parallel()
	near := model("near", account.Free, func(m *catalog.Model) { m.Quality = catalog.Quality{100, 100, 100, 100, 100, 100} })
	large := model("large", account.Free, func(m *catalog.Model) { m.ContextLength = 2000 })
	box := model("box", account.Free, func(m *catalog.Model) { m.Sandbox, m.Provider = true, "sandbox" })
	for _, tt := range []struct {
		models []catalog.Model
		want   string // empty: 400
	}{
		{[]catalog.Model{near}, "near"},
		{[]catalog.Model{near, large}, "large"},
		{[]catalog.Model{box}, ""}, // there the tokenizer is the model's own
	} {
		h := build(t, tt.models)
		a := h.query("service/auto", account.Basic, parse(t, hello, ""))
		a.PromptTokens, a.Circumstances = 1100, counted(1100)
		got, err := h.router.Choose(t.Context(), a)
		if tt.want == "" {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("Choose of %s = %v, want 400", tt.models[0].ID, err)
			}
			continue
		}
		if err != nil || got.Model.ID != tt.want {
			t.Errorf("Choose = %+v, %v, want %s", got.Model, err, tt.want)
		}
	}
}

// TestConditions are those that leave no choice; scores count only among the rest.
func TestConditions(t *testing.T) {
	t.Parallel()
	const auto = "service/auto"
	real := []catalog.Model{
		model("premium", account.Premium, nil),
		model("plain", account.Basic, nil),
		model("tools", account.Basic, func(m *catalog.Model) { m.ToolCalling, m.NoJSON = true, true }),
		model("images", account.Free, func(m *catalog.Model) { m.Images = true }),
		model("large", account.Free, func(m *catalog.Model) { m.ContextLength, m.MaxOutput = 100_000, 5000 }),
		model("staff", account.Free, func(m *catalog.Model) { m.StaffOnly, m.Quality = true, catalog.Quality{100, 100, 100, 100, 100, 100} }),
		model("homeless", account.Free, func(m *catalog.Model) {
			m.Provider, m.Quality = "nobody", catalog.Quality{100, 100, 100, 100, 100, 100}
		}),
		model("box", account.Free, func(m *catalog.Model) {
			m.Sandbox, m.ToolCalling, m.Images, m.ContextLength, m.MaxOutput, m.Provider = true, true, true, 1_000_000, 100_000, "sandbox"
		}),
	}
	for name, tt := range map[string]struct {
		models        []catalog.Model
		asked         string
		plan          account.Plan
		content, more string
		prepare       func(h *house)
		want          []string // any of them; none: 400
	}{
		"a model answers for itself":          {real, "large", account.None, hello, "", nil, []string{"large"}},
		"the sandbox, too":                    {real, "box", account.None, hello, "", nil, []string{"box"}},
		"no plan above one's own":             {real, auto, account.Free, hello, "", nil, []string{"images", "large"}},
		"who can call tools":                  {real, auto, account.Basic, hello, tool, nil, []string{"tools"}},
		"who has a JSON mode":                 {real, auto, account.Basic, hello, tool + asJSON, nil, nil},
		"who sees":                            {real, auto, account.Scale, picture, "", nil, []string{"images"}},
		"who sees and can call tools":         {real, auto, account.Scale, picture, tool, nil, nil},
		"who writes enough":                   {real, auto, account.Scale, hello, `,"max_tokens":101`, nil, []string{"large"}},
		"who reads enough":                    {real, auto, account.Scale, `"` + strings.Repeat("word ", 2000) + `"`, "", nil, []string{"large"}},
		"nobody writes that much":             {real, auto, account.Scale, hello, `,"max_tokens":5001`, nil, []string{"premium", "plain", "tools", "images", "large"}},
		"a file is for those who know it":     {real, auto, account.Scale, `[{"type":"file","file":{}}]`, "", nil, []string{"premium", "plain", "tools", "images", "large"}},
		"nobody reads that much":              {real, auto, account.Scale, `"` + strings.Repeat("word ", 100_000) + `"`, "", nil, nil},
		"who is well":                         {real, auto, account.Free, hello, "", func(h *house) { h.fail("images") }, []string{"large"}},
		"the sandbox where there is no other": {catalog.Sandbox(), auto, account.Basic, hello, "", nil, []string{"sandbox/small", "sandbox/tiny", "sandbox/large", "sandbox/heavy"}},
		"the sandbox with tools":              {catalog.Sandbox(), auto, account.Basic, hello, tool, nil, []string{"sandbox/small", "sandbox/large", "sandbox/heavy"}},
		"the sandbox gives one reply":         {catalog.Sandbox(), auto, account.Basic, hello, `,"n":2`, nil, nil},
		"the sandbox writes with a larger":    {catalog.Sandbox(), auto, account.Basic, hello, `,"max_tokens":40000`, nil, []string{"sandbox/large"}},
	} {
		h := build(t, tt.models)
		if tt.prepare != nil {
			tt.prepare(h)
		}
		for _, dial := range []int{0, 50, 100} {
			a := h.query(tt.asked, tt.plan, parse(t, tt.content, tt.more))
			a.Scorer = Estimate{Dial: dial}
			got, err := h.router.Choose(t.Context(), a)
			if len(tt.want) == 0 {
				if f := fault.From(err); err == nil || f.Kind != fault.Invalid || f.Param == "" {
					t.Errorf("%s: Choose = %+v, %v, want 400", name, got.Model, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: Choose = %v", name, err)
				continue
			}
			found := false
			for _, id := range tt.want {
				found = found || got.Model.ID == id
			}
			if !found {
				t.Errorf("%s, dial %d: Choose = %s, want one of %v", name, dial, got.Model.ID, tt.want)
			}
			explained, err := h.router.Explain(t.Context(), a)
			if err != nil || explained.Model != got.Model {
				t.Errorf("%s: Explain = %+v, %v, want %s as Choose says", name, explained.Model, err, got.Model.ID)
			}
		}
	}
}

// TestIll: what only health or room stands in the way of is 503, not 400.
func TestIll(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(h *house){
		"all are left alone": func(h *house) { h.fail("a"); h.fail("b") },
		"all are full":       func(h *house) { h.target("a").load.running.Add(10) },
	} {
		h := build(t, []catalog.Model{model("a", account.Free, nil), model("b", account.Free, nil), model("c", account.Premium, nil)})
		trouble(h)
		_, err := h.router.Choose(t.Context(), h.query("service/auto", account.Free, parse(t, hello, "")))
		if f := fault.From(err); f.Kind != fault.Unavailable || f.RetryAfter == 0 {
			t.Errorf("%s: Choose = %v, want 503 with a time to come back", name, err)
		}
		if got, err := h.router.Choose(t.Context(), h.query("service/auto", account.Premium, parse(t, hello, ""))); name == "all are left alone" && (err != nil || got.Model.ID != "c") {
			t.Errorf("%s: Choose = %v, %v, want the one that is well", name, got.Model, err)
		}
	}
}

// TestDial turns the dial: from what costs least to what is best, and in between what is worth it.
func TestDial(t *testing.T) {
	t.Parallel()
	h := build(t, []catalog.Model{
		model("cheap", account.Free, priced(0.4, 60)),
		model("fair", account.Free, priced(2, 78)),
		model("fine", account.Free, priced(15, 86)),
		model("finest", account.Free, priced(75, 90)),
		model("folly", account.Free, priced(80, 50)),
	})
	others, err := h.router.Choose(t.Context(), h.query("service/auto", account.Free, parse(t, hello, "")))
	if err != nil || len(others.Others) != mostOthers || others.Others[mostOthers-1].ID == "folly" {
		t.Errorf("behind %v stand %v, %v, want the next best", others.Model, others.Others, err)
	}
	last := -1
	order := map[string]int{"cheap": 0, "fair": 1, "fine": 2, "finest": 3}
	seen := map[string]bool{}
	for dial := 0; dial <= 100; dial += 5 {
		a := h.query("service/auto", account.Free, parse(t, hello, ""))
		a.Scorer = Estimate{Dial: dial}
		got, err := h.router.Choose(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		place, ok := order[got.Model.ID]
		if !ok || place < last {
			t.Errorf("dial %d: %s, after place %d", dial, got.Model.ID, last)
		}
		last = place
		seen[got.Model.ID] = true
	}
	if !seen["cheap"] || !seen["fair"] || !seen["finest"] {
		t.Errorf("turning the dial chose only %v", seen)
	}
}

// The price of a long prompt is that of its band.
func TestCostOfALongPrompt(t *testing.T) {
	t.Parallel()
	const dollar = price.Rate(1_000_000_000)
	e, err := price.Sealed(price.Entry{Model: "m", Rates: price.Of(dollar, dollar), Bands: []price.Band{{Above: 200_000, Rates: price.Of(2*dollar, 3*dollar)}}})
	if err != nil {
		t.Fatal(err)
	}
	m := &catalog.Model{ID: "m", Price: price.NewBook([]*price.Entry{e}).Find("m", "", "")}
	for _, tt := range []struct {
		prompt int
		want   float64 // micro-dollars
	}{{200_000, 200_500}, {200_001, 401_502}} {
		if got := costOf(m, &Features{PromptTokens: tt.prompt, OutputTokens: 500}); got != tt.want {
			t.Errorf("costOf a prompt of %d tokens = %v, want %v", tt.prompt, got, tt.want)
		}
	}
}

// TestScore: what counts beside the price.
func TestScore(t *testing.T) {
	t.Parallel()
	coder := priced(2, 60)
	h := build(t, []catalog.Model{
		model("usual", account.Free, priced(2, 70)),
		model("coder", account.Free, func(m *catalog.Model) { coder(m); m.Quality[catalog.Code] = 90 }),
		model("thinker", account.Free, func(m *catalog.Model) { priced(2.2, 68)(m); m.Thinks = true }),
	})
	choose := func(content, more string) string {
		t.Helper()
		got, err := h.router.Choose(t.Context(), h.query("service/auto", account.Free, parse(t, content, more)))
		if err != nil {
			t.Fatal(err)
		}
		return got.Model.ID
	}
	for _, tt := range []struct{ content, more, want string }{
		{hello, "", "usual"},
		{`"Refactor this Python function, please."`, "", "coder"},
		{hello, `,"reasoning_effort":"high"`, "thinker"},
		{hello, `,"reasoning_effort":"none"`, "usual"},
	} {
		if got := choose(tt.content, tt.more); got != tt.want {
			t.Errorf("Choose(%s%s) = %s, want %s", tt.content, tt.more, got, tt.want)
		}
	}
	slow := h.target("usual")
	for range 20 {
		p, _ := slow.health.begin(h.now, wanted)
		slow.health.answered(&p, epoch, 8*time.Second)
		slow.health.end(p, neither, h.now, 0)
	}
	if got := choose(hello, ""); got == "usual" {
		t.Error("a model that takes eight seconds to begin is still chosen")
	}
}

// TestSticky is a tool exchange of six turns: it stays with its model although another one has become
// better, until that model is out of order.
func TestSticky(t *testing.T) {
	t.Parallel()
	h := build(t, []catalog.Model{model("a", account.Free, priced(2, 80)), model("b", account.Free, priced(2, 79))})
	messages := `{"role":"system","content":"Be brief."},{"role":"user","content":"What is the weather?"}`
	choose := func(account_, messages string) Choice {
		t.Helper()
		a := h.query("service/auto", account.Basic, parseMessages(t, messages, tool))
		a.AccountID = account_
		explained, err := h.router.Explain(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.router.Choose(t.Context(), a)
		if err != nil || got.Model != explained.Model || got.Sticky != explained.Sticky || got.Reason != explained.Reason {
			t.Errorf("Choose = %s (%s), %v, and Explain said %s (%s)", got.Model.ID, got.Reason, err, explained.Model.ID, explained.Reason)
		}
		return got
	}
	first := choose("acct_1", messages)
	if first.Model.ID != "a" || first.Sticky {
		t.Fatalf("the first turn went to %s, sticky %t", first.Model.ID, first.Sticky)
	}
	p, _ := h.target("a").health.begin(h.now, wanted)
	h.target("a").health.answered(&p, epoch, 20*time.Second)
	for turn := range 5 {
		messages += fmt.Sprintf(`,{"role":"assistant","tool_calls":[{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c%d","content":"rain"}`, turn, turn)
		h.now = h.now.Add(10 * time.Minute)
		if got := choose("acct_1", messages); got.Model.ID != "a" || !got.Sticky {
			t.Errorf("turn %d went to %s (%s), want it to stay", turn, got.Model.ID, got.Reason)
		}
	}
	if got := choose("acct_2", messages); got.Model.ID != "b" || got.Sticky {
		t.Errorf("another account's conversation went to %s (%s)", got.Model.ID, got.Reason)
	}
	h.fail("a")
	if got := choose("acct_1", messages); got.Model.ID != "b" || got.Sticky {
		t.Errorf("with its model out of order the conversation went to %s (%s)", got.Model.ID, got.Reason)
	}
	h.now = h.now.Add(2 * time.Minute)
	if got := choose("acct_1", messages); got.Model.ID != "b" || !got.Sticky {
		t.Errorf("after that it went to %s (%s), want it to stay with the new one", got.Model.ID, got.Reason)
	}
	h.now = h.now.Add(2 * time.Hour)
	if got := choose("acct_1", messages); got.Sticky {
		t.Error("it is remembered for more than an hour")
	}
}

// A model that is warm costs less: what stood in the call before is priced as read from its cache, for as long as vendors
// surely keep it. Others pay the whole prompt.
func TestWarmModelCostsLess(t *testing.T) {
	t.Parallel()
	cheap := func(m *catalog.Model) {
		priced(2, 80)(m)
		e := price.Entry{Model: m.ID, Rates: price.Of(1e9, 2e9)}
		e.Rates[price.CacheRead] = 1e8 // a tenth
		sealed, err := price.Sealed(e)
		if err != nil {
			t.Fatal(err)
		}
		m.Price = price.NewBook([]*price.Entry{sealed}).Find(m.ID, "", m.ID)
	}
	h := build(t, []catalog.Model{model("a", account.Free, cheap), model("b", account.Free, cheap)})
	system := `{"role":"system","content":"` + strings.Repeat("Be brief. ", 2000) + `"},`
	explain := func(n int) Choice {
		t.Helper()
		got, err := h.router.Explain(t.Context(), h.query("service/auto", account.Basic, parseMessages(t, system+turn("Hello", n), `,"max_tokens":100`)))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	h.ask(system + turn("Hello", 0))
	for _, tt := range []struct {
		after time.Duration
		warm  bool
	}{{time.Minute, true}, {6 * time.Minute, false}} {
		h.now = epoch.Add(tt.after)
		got := explain(1)
		a, b := got.Ranking[0], got.Ranking[1]
		if !got.Sticky || got.Model.ID != "a" {
			t.Fatalf("the conversation went to %s (%s)", got.Model.ID, got.Reason)
		}
		if warm := a.CostMicro < b.CostMicro/5 && a.Score > b.Score; warm != tt.warm {
			t.Errorf("after %v it costs %.0f with its model, and %.0f with the other one; the scores are %.1f and %.1f; want it warm: %t", tt.after, a.CostMicro, b.CostMicro, a.Score, b.Score, tt.warm)
		}
		said := strings.Contains(got.Reason, "whose cache saves 8") && strings.Contains(b.Passed, "leaving its cache costs 7.")
		if said != tt.warm {
			t.Errorf("after %v the reason is %q, and of the other model %q; want both to tell of a cache: %t", tt.after, got.Reason, b.Passed, tt.warm)
		}
	}
	if got := explain(0); got.Sticky || got.Ranking[0].CostMicro != got.Ranking[1].CostMicro {
		t.Errorf("a new conversation costs %.0f and %.0f, sticky %t", got.Ranking[0].CostMicro, got.Ranking[1].CostMicro, got.Sticky)
	}
}

// TestForget: memory is bounded; the newest are there.
func TestForget(t *testing.T) {
	t.Parallel()
	c := newConversations()
	id := func(n uint64) (id ConversationID) {
		binary.LittleEndian.PutUint64(id[:], n)
		return id
	}
	for n := range uint64(3 * mostStuck) {
		c.remember(id(n), "m", epoch)
	}
	if n := len(c.recent) + len(c.older); n > mostStuck {
		t.Errorf("%d conversations are remembered, want at most %d", n, mostStuck)
	}
	newest, _ := c.recall(id(3*mostStuck-1), epoch)
	oldest, _ := c.recall(id(0), epoch)
	if newest == "" || oldest != "" {
		t.Error("the newest is forgotten, or the oldest is not")
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	h := build(t, []catalog.Model{model("a", account.Free, priced(2, 80)), model("b", account.Premium, nil), model("c", account.Free, nil)})
	h.fail("c")
	got, err := h.router.Explain(t.Context(), h.query("service/auto", account.Free, parse(t, hello, "")))
	if err != nil || len(got.Ranking) != 3 {
		t.Fatalf("Explain = %+v, %v", got, err)
	}
	for i, want := range []string{"", "needs a higher plan", "is out of order"} {
		if r := got.Ranking[i]; r.Obstacle != want || (r.Score != 0) != (want == "") {
			t.Errorf("%s: %q with score %v, want %q", r.Model.ID, r.Obstacle, r.Score, want)
		}
	}
	if len(h.router.conversations.recent) != 0 {
		t.Error("Explain remembers the conversation")
	}
}

func TestTaskOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		content, more string
		want          catalog.Task
	}{
		{hello, "", catalog.Chat},
		{`"What is the capital of France?"`, "", catalog.Chat},
		{`"Write a Python script that renames files."`, "", catalog.Code},
		{"\"Why does this panic?\\n```go\\nvar m map[string]int\\nm[\\\"a\\\"] = 1\\n```\"", "", catalog.Code},
		{`"Prove that the square root of two is irrational."`, "", catalog.Math},
		{`"Solve this equation: 3x + 4 = 19"`, "", catalog.Math},
		{`"Extract all names and dates from the mail below."`, "", catalog.Data},
		{`"Who wrote Faust?"`, asJSON, catalog.Data},
		{`"Translate this letter into German."`, "", catalog.Writing},
		{`"` + strings.Repeat("word ", 4000) + `"`, "", catalog.Writing},
		{`"Write Python"`, tool, catalog.Agent},
	} {
		if got := FeaturesOf(parse(t, tt.content, tt.more)).Task; got != tt.want {
			t.Errorf("the task of %.60s%s = %v, want %v", tt.content, tt.more, got, tt.want)
		}
	}
	f := FeaturesOf(parse(t, hello, `,"max_tokens":100000,"reasoning_effort":"low"`))
	if f.OutputTokens != 4*usualOutput || !f.Thinks {
		t.Errorf("FeaturesOf = %+v", f)
	}
}

// BenchmarkChoose is the router's choice among fifty models, for a request of 20 KB.
func BenchmarkChoose(b *testing.B) {
	models := []catalog.Model{catalog.Router("service")}
	for i := range 50 {
		models = append(models, model(fmt.Sprintf("m%d", i), account.Free, priced(float64(i+1), uint8(50+i%40))))
	}
	c, err := catalog.New(models)
	if err != nil {
		b.Fatal(err)
	}
	routes := New(c, []Provider{{Name: "p", Keys: []Key{{Adapter: &silent{}}}}}, &Options{Log: slog.New(slog.DiscardHandler)})
	auto, _ := c.Lookup("service/auto")
	a := &Query{Catalog: c, Routes: routes, Model: auto, AccountID: "acct_1", Plan: account.Free, Request: parse(b, `"`+strings.Repeat("word ", 4000)+`"`, "")}
	r := NewRouter(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Choose(b.Context(), a); err != nil {
			b.Fatal(err)
		}
	}
}

// counted are the circumstances of a prompt with so many tokens.
type counted int

func (n counted) Closed(*catalog.Model) bool { return false }
func (n counted) Reads(most int) bool        { return most >= int(n) }
