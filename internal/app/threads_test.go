package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
)

// holder is an upstream that refuses what Anthropic's API refuses, and holds threads.
type holder struct {
	mu    sync.Mutex
	next  int
	held  map[string]string // the keys of threads by the id of the message that can be continued
	asked []asked
}

// asked is a request that the holder got.
type asked struct {
	key, version, beta, body string
	header                   http.Header
}

// last returns the last request, and forgets all.
func (v *holder) last() (a asked) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := len(v.asked); n > 0 {
		a = v.asked[n-1]
	}
	v.asked = nil
	return a
}

// forget loses all threads.
func (v *holder) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.held)
}

func (v *holder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	v.mu.Lock()
	defer v.mu.Unlock()
	a := asked{r.Header.Get("X-Api-Key"), r.Header.Get("Anthropic-Version"), r.Header.Get("Anthropic-Beta"), string(body), r.Header}
	v.asked = append(v.asked, a)
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/v1/chat/completions" {
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`)
		return
	}
	status, code, message := v.judge(&a)
	if status != http.StatusOK {
		kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}[status]
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q,"details":{"error_code":%q}},"request_id":"req_vendor"}`, kind, message, code)
		return
	}
	v.answer(w, strings.Contains(a.body, `"stream":true`), &a)
}

// judge refuses what the vendor refuses.
func (v *holder) judge(a *asked) (status int, code, message string) {
	var body struct {
		Model  string
		System any
		Tools  []any
		Thread *struct {
			Type     string
			Previous string `json:"previous_message_id"`
		}
		Messages []struct{ Role string }
	}
	switch err := json.Unmarshal([]byte(a.body), &body); {
	case err != nil:
		return 400, "", "the body cannot be read"
	case a.key == "":
		return 401, "", "x-api-key header is required"
	case a.version != "2023-06-01" && a.version != "2026-10-21":
		return 400, "", "anthropic-version: " + a.version + " is not a valid version"
	case body.Thread == nil:
		return 200, "", ""
	case !strings.Contains(a.beta, "message-threads-2026-08-12"):
		return 400, "", "thread: Extra inputs are not permitted"
	case body.Thread.Type == "create" && len(body.Messages) > 0:
		return 200, "", ""
	case body.Thread.Type != "continue":
		return 400, "", "thread: the type is wrong"
	case body.System != nil || body.Tools != nil:
		return 400, "", "thread: system and tools cannot be repeated"
	case v.held[body.Thread.Previous] != a.key:
		return 404, "thread_not_found", "No usable Thread state was found for `previous_message_id`."
	}
	delete(v.held, body.Thread.Previous)
	return 200, "", ""
}

// answer answers, and holds the thread if there is one.
func (v *holder) answer(w http.ResponseWriter, stream bool, a *asked) {
	v.next++
	id := "msg_vendor" + strconv.Itoa(v.next)
	if strings.Contains(a.body, `"thread"`) {
		v.held[id] = a.key
	}
	if !stream {
		fmt.Fprintf(w, `{"id":%q,"type":"message","role":"assistant","model":"claude-opus-5","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","usage":{"input_tokens":60000,"output_tokens":3}}`, id)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []string{
		`{"type":"message_start","message":{"id":"` + id + `","type":"message","role":"assistant","model":"claude-opus-5","content":[],"usage":{"input_tokens":60000,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi."}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
		`{"type":"message_stop"}`,
	} {
		fmt.Fprintf(w, "data: %s\n\n", event)
	}
}

// newHolder starts a holder and a site: lab/claude is Anthropic's own API with two keys, lab/other another vendor of its
// dialect, lab/chat one of chat completions.
func newHolder(t *testing.T) (*holder, *node) {
	t.Helper()
	v := &holder{held: map[string]string{}}
	up := httptest.NewServer(v)
	t.Cleanup(up.Close)
	const model = `plan: free, context_length: 100000, max_output: 1000, tool_calling: true`
	return v, newSite(t, fmt.Sprintf(`
providers:
- {name: claude, kind: anthropic, base_url: %[1]q, first_party: true, allow_image_urls: true, api_keys: [key-aaaa, key-bbbb]}
- {name: other, kind: anthropic, base_url: %[1]q, api_key: key-cccc}
- {name: chat, kind: openai, base_url: "%[1]s/v1"}
models:
- {id: lab/claude, provider: claude, upstream: claude-opus-5, %[2]s}
- {id: lab/other, provider: other, upstream: kimi, %[2]s}
- {id: lab/chat, provider: chat, %[2]s}
plans:
  basic: {requests_per_minute: 100000, tokens_per_minute: 100000000}
`, up.URL, model)).start(t)
}

// idOf returns the id of the message in a reply, streamed or not.
func idOf(body string) string {
	_, rest, _ := strings.Cut(body, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

const threadsBeta = "message-threads-2026-08-12"

// A conversation that the vendor holds is continued by the vendor's own ids, with the key that began it, and by nobody else.
func TestThreads(t *testing.T) {
	t.Parallel()
	v, n := newHolder(t)
	key := n.OwnerKey()
	send := func(model, body string) reply {
		t.Helper()
		return n.askMessages("/v1/messages", key, `{"model":"`+model+`","max_tokens":100,`+body+`}`, "Anthropic-Version", "2023-06-01", "Anthropic-Beta", threadsBeta)
	}
	const create = `"messages":[{"role":"user","content":"Hi"}],"thread":{"type":"create"}`
	next := func(id string) string {
		return `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"7"}]}],"thread":{"type":"continue","previous_message_id":"` + id + `"}`
	}
	for i := range 8 { // two keys: by chance alone they would not all meet the right one
		r := send("lab/claude", create)
		began := v.last().key
		for turn := range 2 {
			id := idOf(r.body)
			if r.status != 200 || !strings.HasPrefix(id, "msg_vendor") || r.header.Get("X-Sluice-Dropped") != "" {
				t.Fatalf("turn %d = %d %s, dropped %q; want the vendor's id", turn, r.status, r.body, r.header.Get("X-Sluice-Dropped"))
			}
			stream := ""
			if i%2 == 1 {
				stream = `"stream":true,`
			}
			r = send("lab/claude", stream+next(id))
			got := v.last()
			if got.key != began || !strings.Contains(got.body, `"previous_message_id":"`+id+`"`) {
				t.Fatalf("turn %d was sent with the key %s, want %s: %s", turn, got.key, began, got.body)
			}
		}
	}

	// The model goes on where it stopped.
	r := send("lab/claude", create)
	v.last()
	if r := send("lab/claude", `"messages":[],"thread":{"type":"continue","previous_message_id":"`+idOf(r.body)+`"}`); r.status != 200 {
		t.Errorf("without messages = %d %s", r.status, r.body)
	}

	// What is lost is a 404 by which clients send the conversation again, whoever notices it.
	checkLost := func(name string, r reply, reached bool) {
		t.Helper()
		if r.status != 404 || !strings.Contains(r.body, `"type":"not_found_error"`) || !strings.Contains(r.body, `"details":{"error_code":"thread_not_found"`) {
			t.Errorf("%s = %d %s, want 404 with thread_not_found", name, r.status, r.body)
		}
		if got := v.last().body != ""; got != reached {
			t.Errorf("%s: the vendor was asked: %t, want %t", name, got, reached)
		}
	}
	r = send("lab/claude", create)
	v.forget()
	v.last()
	checkLost("forgotten by the vendor", send("lab/claude", next(idOf(r.body))), true)
	checkLost("never there", send("lab/claude", next("msg_nobody")), false)

	// Nobody else can name the message.
	mine := send("lab/claude", create)
	v.last()
	stranger := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "stranger@example.com", Plan: "basic"}).MasterKey
	checkLost("of another account", n.askMessages("/v1/messages", stranger, `{"model":"lab/claude","max_tokens":100,`+next(idOf(mine.body))+`}`, "Anthropic-Version", "2023-06-01", "Anthropic-Beta", threadsBeta), false)
}

// Where nobody holds threads, the beginning of one is an ordinary request, and the rest of one is refused with a word by
// which clients do without threads from then on.
func TestThreadsElsewhere(t *testing.T) {
	t.Parallel()
	v, n := newHolder(t)
	for _, model := range []string{"lab/other", "lab/chat", "sandbox/small"} {
		r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"`+model+`","max_tokens":100,"messages":[{"role":"user","content":"Hi"}],"thread":{"type":"create"}}`, "Anthropic-Beta", "x-2027-01-01,"+threadsBeta)
		got := v.last()
		if r.status != 200 || !ids.MatchString(idOf(r.body)) || !strings.Contains(r.header.Get("X-Sluice-Dropped"), "thread") {
			t.Errorf("%s: create = %d %s, dropped %q", model, r.status, r.body, r.header.Get("X-Sluice-Dropped"))
		}
		if strings.Contains(got.body, "thread") || strings.Contains(got.beta, "thread") || model == "lab/other" && got.beta != "x-2027-01-01" {
			t.Errorf("%s: the upstream got %q %s", model, got.beta, got.body)
		}
		for _, stream := range []bool{false, true} {
			r = n.askMessages("/v1/messages", n.OwnerKey(), fmt.Sprintf(`{"model":%q,"max_tokens":100,"stream":%t,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"7"}]}],"thread":{"type":"continue","previous_message_id":"msg_1"}}`, model, stream), "Anthropic-Beta", threadsBeta)
			if r.status != 400 || !strings.Contains(r.body, `"details":{"error_code":"thread_unsupported_request"}`) || !strings.Contains(r.body, `"type":"invalid_request_error"`) {
				t.Errorf("%s: continue = %d %s, want 400 with thread_unsupported_request", model, r.status, r.body)
			}
			if got := v.last(); got.body != "" {
				t.Errorf("%s: the upstream was asked %s", model, got.body)
			}
		}
	}
}

// What continues a thread reserves the whole conversation, as far as it is known.
func TestThreadsReserve(t *testing.T) {
	t.Parallel()
	v, n := newHolder(t)
	send := func(body string) reply {
		return n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/claude","max_tokens":100,`+body+`}`, "Anthropic-Beta", threadsBeta)
	}
	r := send(`"messages":[{"role":"user","content":"Hi"}],"thread":{"type":"create"}`)
	v.last()
	// The model reads 100,000 tokens, and a fifth more by our count; 60,003 are in the thread.
	long := strings.Repeat("a b c d e f g h ", 10000)
	r = send(`"messages":[{"role":"user","content":"` + long + `"}],"thread":{"type":"continue","previous_message_id":"` + idOf(r.body) + `"}`)
	if r.status != 400 || !strings.Contains(r.body, "tokens") || v.last().body != "" {
		t.Errorf("a prompt that is too long with its thread = %d %.300s, want 400", r.status, r.body)
	}
}

// The headers of the dialect reach an upstream that speaks it, within their bound and without what is the operator's.
func TestMessagesHeaders(t *testing.T) {
	t.Parallel()
	v, n := newHolder(t)
	const body = `"max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`
	r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/claude",`+body, "Anthropic-Version", "2026-10-21", "Anthropic-Beta", "tomorrow-2027-01-01", "Anthropic-Tomorrow", "x",
		"Anthropic-Workspace-Id", "wrkspc_canary", "X-Claude-Code-Session-Id", "s")
	got := v.last()
	if r.status != 200 || got.version != "2026-10-21" || got.beta != "tomorrow-2027-01-01" || got.header.Get("Anthropic-Tomorrow") != "x" || got.key[:4] != "key-" {
		t.Errorf("POST = %d; the upstream got %v", r.status, got.header)
	}
	if dropped := r.header.Get("X-Sluice-Dropped"); got.header.Get("Anthropic-Workspace-Id") != "" || dropped != "anthropic-workspace-id" {
		t.Errorf("the workspace reached the upstream, or is not named: %q", dropped)
	}
	for _, name := range []string{"Authorization", "X-Claude-Code-Session-Id"} {
		if got.header.Get(name) != "" {
			t.Errorf("the upstream got the header %s", name)
		}
	}
	r = n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/claude",`+body, "Anthropic-User-Profile-Id", "canary")
	if r.status != 400 || v.last().body != "" {
		t.Errorf("a profile at the vendor = %d %s, want 400", r.status, r.body)
	}
	r = n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/claude",`+body, "Anthropic-Beta", strings.Repeat("x", 8<<10))
	if r.status != 400 || v.last().body != "" {
		t.Errorf("headers beyond their bound = %d %s, want 400", r.status, r.body)
	}
	// A translated call has the version that all models know.
	r = n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/chat",`+body, "Anthropic-Version", "2026-10-21", "Anthropic-Beta", "x-2027-01-01")
	if dropped := r.header.Get("X-Sluice-Dropped"); r.status != 200 || dropped != "anthropic-beta" || v.last().header.Get("Anthropic-Version") != "" {
		t.Errorf("a translated call = %d %s, dropped %q", r.status, r.body, dropped)
	}
	// What the version refuses is refused for every model.
	for _, model := range []string{"lab/claude", "lab/chat", "sandbox/small"} {
		for field, path := range map[string]string{
			`"temperature":1,`: "temperature",
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"d"}}]},{"role":"user","content":"b"}],"x":`: "messages.1.content.0.document",
			`"messages":[{"role":"user","content":[{"type":"text","text":"a","citations":[{"type":"char_location"}]}]}],"x":`:                                                                                  "messages.0.content.0.text.citations",
		} {
			sent := `{"model":"` + model + `",` + field + body
			if strings.HasSuffix(field, `"x":`) {
				sent = `{"model":"` + model + `",` + strings.TrimSuffix(field, `"x":`) + `"max_tokens":100}`
			}
			r := n.askMessages("/v1/messages", n.OwnerKey(), sent, "Anthropic-Version", "2026-10-21")
			if r.status != 400 || !strings.Contains(r.body, `"message":"`+path+`: `) || v.last().body != "" {
				t.Errorf("%s with %s = %d %s, want 400", model, path, r.status, r.body)
			}
			if r := n.askMessages("/v1/messages", n.OwnerKey(), sent, "Anthropic-Version", "2023-06-01"); model == "lab/claude" && r.status != 200 {
				t.Errorf("%s with %s in the older version = %d %s", model, path, r.status, r.body)
			}
			v.last()
		}
	}
}

// A system message in the middle stays where it stands.
func TestMessagesSystemRole(t *testing.T) {
	t.Parallel()
	v, n := newHolder(t)
	const messages = `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"system","content":"Be brief."}]`
	for model, want := range map[string]string{
		"lab/claude": messages,
		"lab/chat":   `{"role":"user","content":"c"},{"role":"system","content":"Be brief."}]`,
	} {
		r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"`+model+`","max_tokens":100,`+messages+`}`)
		if got := v.last(); r.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s = %d %s; the upstream got %s", model, r.status, r.body, got.body)
		}
	}
	// Tools that change in the middle are for those who know them.
	const change = `"messages":[{"role":"user","content":"a"},{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"f","input_schema":{"type":"object"}}}}]}]`
	if r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/claude","max_tokens":100,`+change+`}`); r.status != 200 || !strings.Contains(v.last().body, change) {
		t.Errorf("tool_addition = %d %s", r.status, r.body)
	}
	if r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/chat","max_tokens":100,`+change+`}`); r.status != 400 || !strings.Contains(r.body, "tool_addition") {
		t.Errorf("tool_addition, translated = %d %s, want 400", r.status, r.body)
	}
	// They are no way around the operator.
	search := strings.Replace(change, `{"name":"f","input_schema":{"type":"object"}}`, `{"type":"web_search_20250305","name":"web_search"}`, 1)
	if r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/claude","max_tokens":100,`+search+`}`); r.status != 400 || !strings.Contains(r.body, "web_search") || v.last().body != "" {
		t.Errorf("a search that is added later = %d %s, want 400", r.status, r.body)
	}
}

// What Claude Code says of itself is for Anthropic alone: it changes with each request, and would spoil every cache.
func TestMessagesAttribution(t *testing.T) {
	t.Parallel()
	v, n := newHolder(t)
	const line = `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.300.abc; cc_entrypoint=cli; cch=12345;"}`
	got := map[string]bool{}
	for _, model := range []string{"lab/claude", "lab/other", "lab/chat"} {
		r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"`+model+`","max_tokens":100,"system":[`+line+`,{"type":"text","text":"Help."}],"messages":[{"role":"user","content":"Hi"}]}`)
		body := v.last().body
		if r.status != 200 || !strings.Contains(body, "Help.") {
			t.Errorf("%s = %d %s; the upstream got %s", model, r.status, r.body, body)
		}
		got[model] = strings.Contains(body, "billing")
	}
	if diff := cmp.Diff(map[string]bool{"lab/claude": true, "lab/other": false, "lab/chat": false}, got); diff != "" {
		t.Errorf("who is told -want +got\n%s", diff)
	}
}

// The session that an agent names is recorded with its calls.
func TestSessions(t *testing.T) {
	t.Parallel()
	_, n := newHolder(t)
	const body = `{"model":"lab/chat","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`
	for header, value := range map[string]string{"X-Claude-Code-Session-Id": "0197c2d4-claude", "session_id": "0197c2d4-codex", "X-Other": "0197c2d4-other"} {
		if r := n.askMessages("/v1/messages", n.OwnerKey(), body, header, value); r.status != 200 {
			t.Fatalf("POST = %d %s", r.status, r.body)
		}
	}
	n.askMessages("/v1/messages", n.OwnerKey(), body, "X-Claude-Code-Session-Id", "two words, which are no name")
	eventually(t, "the sessions in /v1/requests", func() bool {
		r := n.get("/v1/requests", n.OwnerKey())
		return strings.Count(r.body, `"api":"messages"`) == 4 && strings.Count(r.body, `"session":`) == 2 && strings.Contains(r.body, `"session":"0197c2d4-claude"`) && strings.Contains(r.body, `"session":"0197c2d4-codex"`)
	})
}

// If the key that answered cannot be called, the conversation begins anew at another one, at once.
func TestThreadsMove(t *testing.T) {
	t.Parallel()
	v, n := newHolder(t)
	send := func(body string) reply {
		return n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"lab/claude","max_tokens":100,`+body+`}`, "Anthropic-Beta", threadsBeta)
	}
	r := send(`"messages":[{"role":"user","content":"Hi"}],"thread":{"type":"create"}`)
	v.last()
	must[steering.Order](n, "upstream.drain", admin.UpstreamTarget{Actor: "t", Provider: "claude", Reason: "r"})
	r = send(`"messages":[{"role":"user","content":"Go on"}],"thread":{"type":"continue","previous_message_id":"` + idOf(r.body) + `"}`)
	if r.status != 404 || !strings.Contains(r.body, "thread_not_found") || v.last().body != "" {
		t.Errorf("at a key that is drained = %d %s, want 404 with thread_not_found", r.status, r.body)
	}
}

// Tools that are searched for are there for every model: a reference to one is taken, and a search of the vendor's is left out
// by name where the model gets all tools.
func TestMessagesToolSearch(t *testing.T) {
	t.Parallel()
	v, n := newHolder(t)
	const body = `"tools":[{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"},{"name":"f","defer_loading":true,"input_schema":{"type":"object"}}],` +
		`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","tool_name":"f"}]}]}]`
	for model, want := range map[string]struct{ sent, dropped string }{
		"lab/claude": {body, ""},
		"lab/chat":   {`{"role":"tool","tool_call_id":"t","content":"The tool f is available."}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`, "tools.tool_search_tool, tools[].defer_loading"},
	} {
		r := n.askMessages("/v1/messages", n.OwnerKey(), `{"model":"`+model+`","max_tokens":100,`+body+`}`)
		if got := v.last().body; r.status != 200 || !strings.Contains(got, want.sent) || r.header.Get("X-Sluice-Dropped") != want.dropped {
			t.Errorf("%s = %d %s, dropped %q; the upstream got %s", model, r.status, r.body, r.header.Get("X-Sluice-Dropped"), got)
		}
	}
}
