package app_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/operate/admin"
	"sluice/internal/testkit/vendortest"
)

// cacheSite has Claude by three APIs, at a vendor where marks are set, and at one where they are not.
const cacheSite = `
plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}
providers:
`

// cachers are the APIs of Claude.
var cachers = []struct{ name, provider, upstream string }{
	{"anthropic", `kind: anthropic, base_url: %q, api_key: vendor-key`, "claude-sonnet-5-5"},
	{"mantle", `kind: bedrock, api: native, base_url: %q, access_key_id: vendor-id, secret_access_key: vendor-key, region: us-east-1`, "anthropic.claude-sonnet-5-5"},
	{"converse", `kind: bedrock, base_url: %q, access_key_id: vendor-id, secret_access_key: vendor-key, region: us-east-1`, "anthropic.claude-sonnet-5-5"},
}

// cacheFakes is a server before two vendors that differ in nothing but what they are asked.
type cacheFakes struct {
	*node
	auto, plain *vendortest.Vendor
}

func newCacheFakes(t *testing.T) *cacheFakes {
	t.Helper()
	f := &cacheFakes{}
	site := cacheSite
	models := "models:\n"
	for _, side := range []struct {
		name   string
		vendor **vendortest.Vendor
	}{{"auto", &f.auto}, {"plain", &f.plain}} {
		*side.vendor = &vendortest.Vendor{Cache: &vendortest.Cache{Least: 1024}, Script: readsFiles}
		server := httptest.NewServer(*side.vendor)
		t.Cleanup(server.Close)
		for _, c := range cachers {
			site += fmt.Sprintf("- {name: %s-%s, "+c.provider+"}\n", side.name, c.name, server.URL)
			models += fmt.Sprintf("- {id: %s/%s, provider: %s-%s, upstream: %s, plan: free, context_length: 200000, max_output: 8000, tool_calling: true, reasoning: true, auto_cache: %t, pricing: {input: 2, output: 10, cached: 0.2}}\n",
				side.name, c.name, side.name, c.name, c.upstream, side.name == "auto")
		}
	}
	f.node = newSite(t, site+models).start(t)
	return f
}

// readsFiles is a model that reads six files.
func readsFiles(a *vendortest.Asked) *vendortest.Answer {
	if len(a.Tools) > 0 && len(a.Returned) < 6 {
		return &vendortest.Answer{Call: "read", Arguments: fmt.Sprintf(`{"file":%d}`, len(a.Returned))}
	}
	return &vendortest.Answer{Text: "I have read all."}
}

var (
	longPrompt = strings.Repeat("You read files, one after the other. ", 200)
	longFile   = strings.Repeat("A line of a file.\\n", 150)
)

// agent is a program that answers what the model asks for, through one door.
type agent struct {
	*cacheFakes
	door, model string
	items       []string // the messages, or the items, so far
	extra       string   // more members of the request
}

// send sends the conversation and appends the reply, and the results of tools. It reports whether the model wants more.
func (a *agent) send() (r reply, more bool) {
	a.t.Helper()
	const schema = `{"type":"object","properties":{"file":{"type":"integer"}}}`
	all := strings.Join(a.items, ",")
	switch a.door {
	case "messages":
		r = a.askMessages("/v1/messages", a.OwnerKey(), fmt.Sprintf(`{"model":%q,"max_tokens":500,"system":[{"type":"text","text":%q}],"tools":[{"name":"read","input_schema":%s}],"messages":[%s]%s}`, a.model, longPrompt, schema, all, a.extra),
			"Anthropic-Version", "2023-06-01")
		var m struct {
			Content []struct{ Type, ID string }
		}
		a.read(r, &m)
		a.items = append(a.items, `{"role":"assistant","content":`+string(jsonOf(a.t, r.body, "content"))+`}`)
		for _, b := range m.Content {
			if b.Type == "tool_use" {
				a.items, more = append(a.items, fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"%s"}]}`, b.ID, longFile)), true
			}
		}
	case "chat":
		r = a.request("POST", "/v1/chat/completions", a.OwnerKey(), fmt.Sprintf(`{"model":%q,"tools":[{"type":"function","function":{"name":"read","parameters":%s}}],"messages":[{"role":"system","content":%q},%s]%s}`, a.model, schema, longPrompt, all, a.extra))
		var m struct {
			Choices []struct {
				Message struct {
					Calls []struct{ ID string } `json:"tool_calls"`
				}
			}
		}
		a.read(r, &m)
		a.items = append(a.items, string(jsonOf(a.t, string(jsonOf(a.t, r.body, "choices"))[1:], "message")))
		for _, c := range m.Choices[0].Message.Calls {
			a.items, more = append(a.items, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"%s"}`, c.ID, longFile)), true
		}
	case "responses":
		r = a.request("POST", "/v1/responses", a.OwnerKey(), fmt.Sprintf(`{"model":%q,"instructions":%q,"tools":[{"type":"function","name":"read","parameters":%s}],"input":[%s]%s}`, a.model, longPrompt, schema, all, a.extra))
		var m struct {
			Output []struct {
				Type, CallID string `json:"-"`
			}
			Items []map[string]any `json:"output"`
		}
		a.read(r, &m)
		output := strings.TrimSpace(string(jsonOf(a.t, r.body, "output")))
		a.items = append(a.items, output[1:len(output)-1])
		for _, it := range m.Items {
			if it["type"] == "function_call" {
				a.items, more = append(a.items, fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"%s"}`, it["call_id"], longFile)), true
			}
		}
	}
	return r, more
}

func (a *agent) read(r reply, to any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(r.body), to); r.status != 200 || err != nil {
		a.t.Fatalf("%s to %s: %d %v %s", a.door, a.model, r.status, err, r.body)
	}
}

// jsonOf returns a member of an object with which a text begins.
func jsonOf(t *testing.T, text, name string) json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&all); err != nil {
		t.Fatalf("%s in %s: %v", name, text, err)
	}
	return all[name]
}

// begin returns an agent with its task.
func (f *cacheFakes) begin(door, model string) *agent {
	a := &agent{cacheFakes: f, door: door, model: model, items: []string{`{"role":"user","content":[{"type":"text","text":"Read all."}]}`}}
	if door == "responses" {
		a.items[0] = `{"role":"user","content":[{"type":"input_text","text":"Read all."}]}`
	}
	return a
}

// work makes calls until the model has read all, and returns the headers of what was cached.
func (a *agent) work() (why []string) {
	a.t.Helper()
	for range 10 {
		r, more := a.send()
		why = append(why, r.header.Get("X-Sluice-Cache"))
		if !more {
			return why
		}
	}
	a.t.Fatalf("%s to %s: the model does not end", a.door, a.model)
	return nil
}

// marksOf matches a mark in a request, in any dialect.
var marksOf = regexp.MustCompile(`,"cache_control":\{"type":"ephemeral"\}|"cache_control":\{"type":"ephemeral"\},|,\{"cachePoint":\{"type":"default"\}\}`)

// bodies returns what a vendor got, and fails for what it refused.
func bodies(t *testing.T, v *vendortest.Vendor) (all []string) {
	t.Helper()
	for _, h := range v.Take() {
		if h.Refused != "" {
			t.Errorf("the vendor refused %s: %s", h.Refused, h.Body)
		}
		all = append(all, h.Body)
	}
	return all
}

// TestAutoCache lets a program read files with Claude, through every door and by every API, at a vendor with a true cache. With
// marks it pays less than half, and the vendor gets nothing else than without.
func TestAutoCache(t *testing.T) {
	t.Parallel()
	f := newCacheFakes(t)
	for _, door := range []string{"messages", "chat", "responses"} {
		for _, c := range cachers {
			name := door + " to " + c.name
			why := f.begin(door, "auto/"+c.name).work()
			if got := f.begin(door, "plain/"+c.name).work(); strings.Join(got, "") != "" {
				t.Errorf("%s: without auto_cache, x-sluice-cache = %q", name, got)
			}
			for i, w := range why[1:] {
				if !strings.HasPrefix(w, "cached for 5m: ") {
					t.Errorf("%s: turn %d: x-sluice-cache = %q, want it cached for 5m", name, i+2, w)
				}
			}
			auto, plain := bodies(t, f.auto), bodies(t, f.plain)
			if len(auto) != 7 || len(plain) != 7 {
				t.Fatalf("%s: %d and %d calls, want 7", name, len(auto), len(plain))
			}
			for i := range auto {
				if n := len(marksOf.FindAllString(auto[i], -1)); n > 3 || i > 0 && n < 2 {
					t.Errorf("%s: turn %d has %d marks, want 2 or 3", name, i+1, n)
				}
				if got := marksOf.ReplaceAllString(auto[i], ""); got != plain[i] {
					t.Errorf("%s: turn %d with marks is another request: %s", name, i+1, cmp.Diff(plain[i], got))
				}
			}
			a, p := f.auto.Cache.Take(), f.plain.Cache.Take()
			cost := float64(a.Fresh) + 1.25*float64(a.Short) + 2*float64(a.Long) + 0.1*float64(a.Read)
			if p.Read+p.Short+p.Long > 0 || a.Read == 0 || cost > 0.5*float64(p.Fresh) {
				t.Errorf("%s: %+v costs %.0f, and without marks %+v", name, a, cost, p)
			}
		}
	}
}

// TestAutoCacheIsChosen has who decides: the request, then the account, then the model. The marks of callers stand.
func TestAutoCacheIsChosen(t *testing.T) {
	t.Parallel()
	f := newCacheFakes(t)
	second := func(door, model, extra string) (marks int, why string) { // a second turn answers a tool, so it is marked
		t.Helper()
		a := f.begin(door, model)
		a.extra = extra
		a.send()
		bodies(t, f.auto)
		bodies(t, f.plain)
		r, _ := a.send()
		for _, b := range append(bodies(t, f.auto), bodies(t, f.plain)...) {
			if strings.Contains(b, "auto_cache") {
				t.Errorf("%s: the vendor got auto_cache: %s", door, b)
			}
			marks += strings.Count(b, `"cache_control"`) + strings.Count(b, `"cachePoint"`)
		}
		return marks, r.header.Get("X-Sluice-Cache")
	}
	account := func(to string) {
		t.Helper()
		if a := must[admin.Account](f.node, "account.set-replies", admin.NewReplies{Actor: "t", Ref: "owner@localhost", AutoCache: to}); a.AutoCache != to {
			t.Fatalf("account.set-replies = %+v, want %s", a, to)
		}
	}
	for _, tt := range []struct {
		name, account, model, extra string
		want                        bool
	}{
		{"the model", "default", "auto", ``, true},
		{"null", "default", "auto", `,"auto_cache":null`, true},
		{"no", "default", "auto", `,"auto_cache":false`, false},
		{"nothing", "default", "plain", ``, false},
		{"the request", "default", "plain", `,"auto_cache":true`, true},
		{"the account", "on", "plain", ``, true},
		{"the account, and the request says no", "on", "plain", `,"auto_cache":false`, false},
		{"the account says no", "off", "auto", ``, false},
		{"the account says no, and the request yes", "off", "auto", `,"auto_cache":true`, true},
	} {
		account(tt.account)
		for _, door := range []string{"messages", "chat", "responses"} {
			if marks, why := second(door, tt.model+"/anthropic", tt.extra); (marks > 0) != tt.want || (why != "") != tt.want {
				t.Errorf("%s through %s: %d marks, x-sluice-cache %q, want %t", tt.name, door, marks, why, tt.want)
			}
		}
	}
	account("default")
	for _, bad := range []struct{ door, message string }{{"messages", "auto_cache: Input should be a valid boolean"}, {"chat", "auto_cache must be"}, {"responses", "auto_cache must be"}} {
		body := `{"model":"auto/anthropic","max_tokens":10,"auto_cache":"yes","messages":[{"role":"user","content":"Hi"}]}`
		if bad.door == "responses" {
			body = `{"model":"auto/anthropic","auto_cache":"yes","input":"Hi"}`
		}
		if r := f.request("POST", doorPaths[bad.door], f.OwnerKey(), body); r.status != 400 || !strings.Contains(r.body, bad.message) {
			t.Errorf("%s with a text for auto_cache = %d %s, want %q", bad.door, r.status, r.body, bad.message)
		}
	}
	// The choice of a caller who marks stands.
	a := f.begin("messages", "auto/anthropic")
	a.items[0] = `{"role":"user","content":[{"type":"text","text":"Read all.","cache_control":{"type":"ephemeral","ttl":"1h"}}]}`
	a.send()
	r, _ := a.send()
	for _, b := range bodies(t, f.auto) {
		if n := strings.Count(b, `"cache_control"`); n != 1 {
			t.Errorf("a request with a mark of its own has %d: %s", n, b)
		}
	}
	if why := r.header.Get("X-Sluice-Cache"); why != "not cached: the request has marks of its own" {
		t.Errorf("x-sluice-cache = %q", why)
	}
}

// TestAutoCacheIsTold finds the reason of a call where its owner and support look, and asks for it beforehand.
func TestAutoCacheIsTold(t *testing.T) {
	t.Parallel()
	f := newCacheFakes(t)
	a := f.begin("chat", "auto/anthropic")
	a.send()
	r := f.request("POST", "/v1/route", f.OwnerKey(), fmt.Sprintf(`{"model":"auto/anthropic","tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{"file":{"type":"integer"}}}}}],"messages":[{"role":"system","content":%q},%s]}`, longPrompt, strings.Join(a.items, ",")))
	if want := `"cache":{"ttl":"5m","reason":"cached for 5m: 1 turn, gaps of 0s"}`; r.status != 200 || !strings.Contains(strings.ReplaceAll(r.body, `": `, `":`), want) {
		t.Errorf("POST /v1/route = %d %s, want %s", r.status, r.body, want)
	}
	if got := bodies(t, f.auto); len(got) != 1 {
		t.Errorf("the vendor got %d calls, want one: a question is none", len(got))
	}
	second, _ := a.send()
	why := second.header.Get("X-Sluice-Cache")
	eventually(t, "the reason of the call", func() bool {
		found := f.found(second.header.Get("X-Request-Id"))
		return len(found.Settled) == 1 && why != "" && found.Settled[0].Marked == why
	})
}
