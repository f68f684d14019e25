package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/operate/admin"
)

// vectorUpstream is an upstream of OpenAI's dialect that gives one vector of two numbers, or fails.
type vectorUpstream struct {
	*httptest.Server
	status  atomic.Int32 // other than 200: it fails
	silent  atomic.Bool  // it never answers
	calls   atomic.Int64
	figures atomic.Bool // it says how many tokens it read
}

func newVectorUpstream(t *testing.T) *vectorUpstream {
	u := &vectorUpstream{}
	u.status.Store(http.StatusOK)
	u.figures.Store(true)
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	return u
}

func (u *vectorUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.calls.Add(1)
	_, _ = io.ReadAll(r.Body)
	if u.silent.Load() {
		<-r.Context().Done()
		return
	}
	if status := int(u.status.Load()); status != http.StatusOK {
		http.Error(w, `{"error":{"message":"no"}}`, status)
		return
	}
	usage := ""
	if u.figures.Load() {
		usage = `,"usage":{"prompt_tokens":77,"total_tokens":77}`
	}
	fmt.Fprintf(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.6, -0.8]}],"model":"x"%s}`, usage)
}

// A call for embeddings is retried, counted, limited and settled like a completion.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	one, two := newVectorUpstream(t), newVectorUpstream(t)
	n := newSite(t, fmt.Sprintf(`
providers:
- {name: one, kind: openai, base_url: %q}
- {name: two, kind: openai, base_url: %q}
models:
- {id: lab/vec, kind: embedding, targets: [{provider: one}, {provider: two, weight: 0}], plan: basic, request_multiplier: 2, unit_cost: 3, context_length: 8192, pricing: {input: 1, output: 0}}
- {id: lab/text, provider: two, plan: free, context_length: 8192, max_output: 100}
plans: {basic: {requests_per_minute: 100, tokens_per_minute: 30000}}
`, one.URL, two.URL)).start(t)
	a := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"})
	embed := func(input string) reply {
		return n.request("POST", "/v1/embeddings", a.MasterKey, `{"model":"lab/vec","input":`+input+`}`)
	}
	settled := func(r reply) admin.Request {
		t.Helper()
		n.shelve()
		found := n.found(r.header.Get("X-Request-Id"))
		if len(found.Settled) != 1 {
			t.Fatalf("%d settlements of %s, want 1", len(found.Settled), r.body)
		}
		return found.Settled[0]
	}

	// The upstream's figures are those of the settlement.
	r := embed(`"a"`)
	const want = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.6, -0.8]}],"model":"lab/vec","usage":{"prompt_tokens":77,"total_tokens":77}}`
	if r.status != 200 || r.body != want || r.header.Get("X-Sluice-Attempts") != "1" {
		t.Fatalf("embeddings = %d %s, want %s", r.status, r.body, want)
	}
	if s := settled(r); s.Door != "embeddings" || s.PromptTokens != 77 || s.CompletionTokens != 0 || s.Requests != "2" || s.Units != "3" || s.CostUSD != "0.000077" || s.Counted || s.Outcome != "complete" {
		t.Errorf("the settlement is %+v", s)
	}

	// Without figures we count. The next target repairs a failure.
	one.status.Store(http.StatusInternalServerError)
	two.figures.Store(false)
	r = embed(`"The gate is closed."`)
	if r.status != 200 || r.header.Get("X-Sluice-Provider") != "two" || !strings.Contains(r.body, `"usage":{"prompt_tokens":5,"total_tokens":5}`) {
		t.Errorf("embeddings with a broken target = %d %s by %s", r.status, r.body, r.header.Get("X-Sluice-Provider"))
	}
	if s := settled(r); !s.Counted || s.PromptTokens != 5 || len(s.Attempts) != 2 {
		t.Errorf("the settlement is %+v, want two attempts and tokens that we counted", s)
	}

	// An upstream's refusal of the request reaches the caller, and costs its requests. A failure costs nothing.
	one.status.Store(http.StatusBadRequest)
	if r = embed(`"a"`); r.status != 400 {
		t.Errorf("embeddings that an upstream refuses = %d %s", r.status, r.body)
	} else if s := settled(r); s.Requests != "2" || s.Units != "0" {
		t.Errorf("the settlement is %+v", s)
	}
	one.status.Store(http.StatusOK)

	// A fallback never answers for an embedding model, and too long an input never reaches an upstream.
	before := one.calls.Load() + two.calls.Load()
	for input, message := range map[string]string{
		`"` + strings.Repeat("word ", 9000) + `"`:      `input has 9001 tokens; the model \"lab/vec\" reads at most 8192 of one input`,
		`["a","` + strings.Repeat("x", 200_000) + `"]`: `input[1] has more than 12500 tokens; the model \"lab/vec\" reads at most 8192 of one input`,
	} {
		if r := embed(input); r.status != 400 || !strings.Contains(r.body, message) {
			t.Errorf("embeddings of %d bytes = %d %s, want %s", len(input), r.status, r.body, message)
		}
	}
	if now := one.calls.Load() + two.calls.Load(); now != before {
		t.Errorf("inputs that are too long reached an upstream %d times", now-before)
	}

	// The repeat of a key gets the same reply, and calls nobody.
	idem := func() reply {
		req, err := http.NewRequest(http.MethodPost, n.scheme+n.Addr()+"/v1/embeddings", strings.NewReader(`{"model":"lab/vec","input":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+a.MasterKey)
		req.Header.Set("Idempotency-Key", "k1")
		return n.answered(req)
	}
	first, calls := idem(), one.calls.Load()
	if again := idem(); again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" || one.calls.Load() != calls {
		t.Errorf("the repeat = %d %s, want the first reply", again.status, again.body)
	}

	// A caller who leaves is settled as such.
	one.silent.Store(true)
	ctx, leave := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, n.scheme+n.Addr()+"/v1/embeddings", strings.NewReader(`{"model":"lab/vec","input":"gone"}`))
	req.Header.Set("Authorization", "Bearer "+a.MasterKey)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = n.try(req)
	}()
	eventually(t, "the upstream has the call", func() bool { return one.calls.Load() > calls })
	leave()
	<-done
	one.silent.Store(false)

	// The tokens of the minute are limited.
	one.figures.Store(false)
	limited := false
	for range 5 {
		r := embed(`"` + strings.Repeat("word ", 8000) + `"`)
		limited = limited || r.status == 429 && r.header.Get("Retry-After") != ""
	}
	if !limited {
		t.Error("five times 8,000 tokens are within 30,000 a minute")
	}
	if text := n.request("POST", "/v1/chat/completions", a.MasterKey, `{"model":"lab/vec","messages":[{"role":"user","content":"x"}]}`); text.status != 400 {
		t.Errorf("a completion of an embedding model = %d %s", text.status, text.body)
	}
}
