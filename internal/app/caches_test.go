package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/ledger/misses"
	"sluice/internal/operate/admin"
)

// cachingVendor is a fake of Anthropic's API with a cache: for each key it keeps the prompts that requests mark, and reads what a
// prompt has in common with one of them, from 1,024 tokens on. Four bytes are a token.
type cachingVendor struct {
	*httptest.Server
	mu    sync.Mutex
	kept  map[string][]string // by key
	moody bool                // it reads nothing
}

func newCachingVendor(t *testing.T) *cachingVendor {
	t.Helper()
	v := &cachingVendor{kept: map[string][]string{}}
	v.Server = httptest.NewServer(http.HandlerFunc(v.serve))
	t.Cleanup(v.Close)
	return v
}

func (v *cachingVendor) serve(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	raw, _ := io.ReadAll(r.Body)
	var body struct{ Model, System, Tools, Messages json.RawMessage }
	_ = json.Unmarshal(raw, &body)
	marked := strings.Contains(string(raw), `"cache_control"`)
	prompt := strings.ReplaceAll(fmt.Sprintf("%s%s%s%s", body.Model, body.Tools, body.System, body.Messages), `,"cache_control":{"type":"ephemeral"}`, "")
	total, read := len(prompt)/4, 0
	key := r.Header.Get("X-Api-Key")
	for _, kept := range v.kept[key] {
		n := 0
		for n < min(len(kept), len(prompt)) && kept[n] == prompt[n] {
			n++
		}
		read = max(read, n/4)
	}
	written := total - read
	if v.moody || read < 1024 || !marked {
		read, written = 0, total
	}
	if total < 1024 || !marked {
		written = 0
	}
	if written > 0 {
		v.kept[key] = append(v.kept[key], prompt)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[{"type":"text","text":"Fine."}],"stop_reason":"end_turn","stop_sequence":null,
		"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"cache_creation":{"ephemeral_5m_input_tokens":%[2]d,"ephemeral_1h_input_tokens":0},"output_tokens":2}}`,
		total-read-written, written, read)
}

// turn is one request of a conversation.
type turn struct {
	model, system string
	plain         bool // without a mark for the cache
	messages      []string
}

func (c turn) body() string {
	mark := `,"cache_control":{"type":"ephemeral"}`
	if c.plain {
		mark = ""
	}
	list := []string{fmt.Sprintf(`{"role":"system","content":[{"type":"text","text":%q%s}]}`, c.system, mark)}
	for i, m := range c.messages {
		list = append(list, fmt.Sprintf(`{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], m))
	}
	return fmt.Sprintf(`{"model":%q,"messages":[%s]}`, c.model, strings.Join(list, ","))
}

// Each reason why a call is no hit is found from real calls, and told by the API, the pages and the console alike.
func TestWhyNoHit(t *testing.T) {
	t.Parallel()
	v := newCachingVendor(t)
	s := newSite(t, fmt.Sprintf(`
providers:
  - {name: one, kind: anthropic, base_url: %q, api_key: key-one}
  - {name: two, kind: openai, base_url: %[1]q}
models:
  - {id: lab/a, provider: one, upstream: claude-a, plan: free, context_length: 100000, max_output: 100}
  - {id: lab/b, provider: one, upstream: claude-b, plan: free, context_length: 100000, max_output: 100}
prices:
  - {model: lab/a, input: 3, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6, output: 15}
  - {model: lab/b, input: 3, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6, output: 15}
markup: {all: 2}
`, v.URL))
	n := s.start(t)
	browser := n.join("ana@example.com")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "t", Ref: browser.email, Plan: "scale"})
	system := strings.Repeat("Answer with care. ", 400)
	changed := system[:1204] + "#" + system[1205:]
	ask := func(c turn) string {
		t.Helper()
		r := n.request("POST", "/v1/chat/completions", browser.key, c.body())
		if r.status != http.StatusOK {
			t.Fatalf("a call = %d %s", r.status, r.body)
		}
		n.shelve()
		return r.header.Get("X-Request-Id")
	}
	for i, tt := range []struct {
		name   string
		before *turn
		after  time.Duration // since the call before
		now    turn
		moody  bool
		want   misses.Reason
		says   string
	}{
		{"first", nil, 0, turn{"lab/a", system, false, []string{"one"}}, false, misses.First, "the first call of its conversation"},
		{"hit", &turn{"lab/a", system, false, []string{"two"}}, 0, turn{"lab/a", system, false, []string{"two", "Fine.", "more"}}, false, misses.Hit, "of the prompt came from a cache"},
		{"short", &turn{"lab/a", "Short.", false, []string{"three"}}, 0, turn{"lab/a", "Short.", false, []string{"three", "Fine.", "more"}}, false, misses.Short, "too short"},
		{"unmarked", &turn{"lab/a", system, true, []string{"four"}}, 0, turn{"lab/a", system, true, []string{"four", "Fine.", "more"}}, false, misses.Unmarked, "set cache_control"},
		{"moved", &turn{"lab/b", system, false, []string{"five"}}, 0, turn{"lab/a", system, false, []string{"five", "Fine.", "more"}}, true, misses.Moved, "Another model, provider or upstream key answered the call before"},
		{"changed", &turn{"lab/a", system, false, []string{"six"}}, 0, turn{"lab/a", changed, false, []string{"six", "Fine.", "more"}}, false, misses.Changed, "The system prompt changed between byte 1,024 and byte 1,536"},
		{"late", &turn{"lab/a", system, false, []string{"seven"}}, time.Hour, turn{"lab/a", system, false, []string{"seven", "Fine.", "more"}}, true, misses.Expired, "keeps a prompt for 5 minutes"},
		{"vendor", &turn{"lab/a", system, false, []string{"eight"}}, 0, turn{"lab/a", system, false, []string{"eight", "Fine.", "more"}}, true, misses.Vendor, "the provider still read nothing"},
	} {
		if tt.before != nil {
			id := ask(*tt.before)
			// Another time of the call, since nobody waits for an hour.
			n.exec(fmt.Sprintf(`UPDATE settlements SET at = at - %d WHERE id = '%s'`, (tt.after + 2*time.Second).Milliseconds(), id))
		}
		v.moody = tt.moody
		id := ask(tt.now)
		v.moody = false
		var got struct {
			Cache *misses.Reply
			Saved json.Number `json:"cache_saved_usd"`
		}
		r := n.get("/v1/requests/"+id, browser.key)
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || got.Cache == nil || got.Cache.Reason != tt.want || !strings.Contains(got.Cache.Text, tt.says) {
			t.Errorf("%d, %s: GET /v1/requests/{id} = %v %s, want %s", i, tt.name, err, r.body, tt.want)
			continue
		}
		if page := browser.get("/dashboard/activity/requests/" + id).body; !strings.Contains(page, tt.says) {
			t.Errorf("%s: the page of the request does not say %q", tt.name, tt.says)
		}
		found := n.found(id)
		if len(found.Settled) != 1 || found.Settled[0].Cache == nil || found.Settled[0].Cache.Reason != tt.want {
			t.Errorf("%s: request.show = %+v, want %s", tt.name, found.Settled, tt.want)
		}
		if saved := found.Settled[0].SavedUSD; tt.want == misses.Hit && (saved == "" || got.Saved == "0" || got.Saved == saved) || tt.want == misses.Short && saved != "" {
			t.Errorf("%s: saved %q, of which the customer is told %q", tt.name, saved, got.Saved)
		}
	}
	// The figures are on their pages.
	for path, says := range map[string]string{
		"/dashboard/costs/caches": "By model|lab/a|Newest sessions|By month", "/dashboard": "Saved by caches", "/dashboard/activity": "Cache hits",
	} {
		page := browser.get(path).body
		for want := range strings.SplitSeq(says, "|") {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not say %q", path, want)
			}
		}
	}
	var report struct {
		Data []struct {
			Cacheable int64    `json:"cacheable_tokens"`
			Rate      *float64 `json:"cache_hit_rate"`
		}
	}
	r := n.get("/v1/usage", browser.key)
	if err := json.Unmarshal([]byte(r.body), &report); err != nil {
		t.Fatal(err)
	}
	sum, rated := int64(0), false
	for _, b := range report.Data {
		sum, rated = sum+b.Cacheable, rated || b.Rate != nil && *b.Rate > 0
	}
	if sum == 0 || !rated {
		t.Errorf("GET /v1/usage has no figures of caches: %s", r.body)
	}
}
