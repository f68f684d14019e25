package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/prompt/allowance"
)

// payee is an upstream in three dialects that keeps the last request.
type payee struct {
	mu    sync.Mutex
	heard string            // the body, and the header anthropic-beta in front; empty: nothing came
	says  map[string]string // replies by path
}

func (v *payee) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	v.mu.Lock()
	v.heard = "anthropic-beta: " + strings.Join(r.Header["Anthropic-Beta"], ",") + "\n" + string(body)
	says := v.says[r.URL.Path]
	v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, says)
}

// take returns what was heard, and forgets it.
func (v *payee) take() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	heard := v.heard
	v.heard = ""
	return heard
}

// newPayee starts a payee, which is no provider in the operator's network, and a site with models of it: chat, responses and messages, each -closed and -open. What callers
// may choose is allowed for the latter.
func newPayee(t *testing.T) (*payee, *node) {
	t.Helper()
	v := &payee{says: map[string]string{
		"/v1/chat/completions": `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`,
		"/v1/responses":        `{"id":"resp_up","object":"response","status":"completed","model":"x","output":[{"id":"msg_up","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}],"usage":{"input_tokens":5,"output_tokens":3,"total_tokens":8}}`,
		"/v1/messages":         `{"id":"msg_up","type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":3}}`,
	}}
	up := httptest.NewServer(v)
	t.Cleanup(up.Close)
	const model = `plan: free, context_length: 8192, max_output: 100, tool_calling: true`
	return v, newSite(t, fmt.Sprintf(`
providers:
- {name: chat, kind: openai, base_url: "%[1]s/v1", allow_image_urls: true}
- {name: responses, kind: openai, base_url: "%[1]s/v1", api: responses, allow_image_urls: true}
- {name: messages, kind: anthropic, base_url: %[1]q, api_key: k, allow_image_urls: true}
- {name: open, kind: openai, base_url: "%[1]s/v1", api: responses, allow: all, allow_image_urls: true}
models:
- {id: lab/chat-closed, provider: chat, %[2]s}
- {id: lab/chat-open, provider: chat, allow: all, %[2]s}
- {id: lab/responses-closed, provider: responses, %[2]s}
- {id: lab/responses-open, provider: open, %[2]s}
- {id: lab/messages-closed, provider: messages, upstream: claude-sonnet-4-5, %[2]s}
- {id: lab/messages-open, provider: messages, upstream: claude-sonnet-4-5, allow: all, %[2]s}
- {id: lab/thinks, provider: chat, reasoning: true, %[2]s}
- {id: lab/plain, provider: open, plan: free, context_length: 8192, max_output: 100}
plans:
  none: {requests_per_minute: 100000, tokens_per_minute: 100000000}
  basic: {requests_per_minute: 100000, tokens_per_minute: 100000000}
`, up.URL, model)).start(t)
}

// door is a way in, and the dialect of its models.
type door struct {
	name, path, head string
	dialect          allowance.Dialects
}

var threeDoors = []door{
	{"chat", "/v1/chat/completions", `"messages":[{"role":"user","content":"Hi"}]`, allowance.Chat},
	{"responses", "/v1/responses", `"store":false,"input":[{"role":"user","content":"Hi"}]`, allowance.Responses},
	{"messages", "/v1/messages", `"max_tokens":50,"messages":[{"role":"user","content":"Hi"}]`, allowance.Messages},
}

// attempt is a request with something of the table in it.
type attempt struct {
	what   string
	body   string // behind the model
	beta   string
	sign   string // what the upstream gets if it gets it
	tool   bool   // plans without tools refuse it
	never  bool   // it cannot be allowed, or the door refuses it whatever is allowed
	exempt bool   // with allow, it is not clear that the dialect has it
}

// attempts returns every way in which an entry can come through a door.
func (d door) attempts(e *allowance.Entry) (all []attempt) {
	add := func(a attempt) {
		a.never = a.never || e.Never != ""
		a.exempt = e.In&d.dialect == 0
		all = append(all, a)
	}
	for _, name := range e.Fields {
		if name == "mcp_servers" && d.name == "messages" || e.Ours&d.dialect != 0 {
			continue // the service calls them itself, or does what the field asks for
		}
		value := `"canary"`
		switch name {
		case "service_tier":
			value = `"flex"`
		case "background":
			value = `true`
		}
		for _, key := range []string{name, strings.ToUpper(name), strings.Replace(name, "s", `\u0073`, 1)} {
			a := attempt{what: "field " + key, body: d.head + `,"` + key + `":` + value, sign: `"` + name + `":`, tool: e.Runs}
			// A field of another door is refused there.
			a.tool = a.tool && !(d.name == "responses" && name == "web_search_options" && key != strings.ToUpper(name))
			// With other letters it is not what the vendor calls so. Messages with escaped names are translated.
			a.never = key != name && (d.name == "messages" || key == strings.ToUpper(name))
			add(a)
		}
	}
	for _, name := range e.Tools {
		if strings.HasSuffix(name, ":") {
			name += "web_search"
		}
		sign := `"type":"` + name
		if d.name == "messages" && name != "mcp" {
			add(attempt{what: "tool " + name, body: d.head + `,"tools":[{"type":"` + name + `_20260101","name":"x"}]`, sign: sign, tool: true})
		}
		if d.name != "responses" {
			continue
		}
		if name != "mcp" {
			add(attempt{what: "tool " + name, body: d.head + `,"tools":[{"type":"` + name + `"},{"type":"function","name":"f"}]`, sign: sign, tool: true})
			add(attempt{what: "forced tool " + name, body: d.head + `,"tools":[{"type":"` + name + `"}],"tool_choice":"required"`, sign: sign, tool: true})
		}
		add(attempt{what: "later tool " + name, body: `"store":false,"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"` + name + `"}]},{"role":"user","content":"Hi"}]`, sign: sign, tool: true})
		add(attempt{what: "tool in a namespace " + name, body: d.head + `,"tools":[{"type":"namespace","name":"n","tools":[{"type":"` + name + `"}]}]`, sign: sign, tool: true})
	}
	for _, name := range e.IDs {
		sign := `"` + name + `":`
		switch d.name {
		case "chat":
			if name == "file_id" {
				add(attempt{what: "id " + name, body: `"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"canary"}}]}]`, sign: sign})
			}
		case "responses":
			add(attempt{what: "id " + name, body: `"store":false,"input":[{"type":"item_of_tomorrow","x":{"` + name + `":"canary"}},{"role":"user","content":"Hi"}]`, sign: sign})
			add(attempt{what: "id in a tool " + name, body: d.head + `,"tools":[{"type":"tool_of_tomorrow","x":[{"` + name + `":["canary"]}]}]`, sign: sign, tool: true})
			if name == "file_id" {
				add(attempt{what: "part", body: `"store":false,"input":[{"role":"user","content":[{"type":"input_file","file_id":"canary"}]}]`, sign: sign})
				add(attempt{what: "image", body: `"store":false,"input":[{"role":"user","content":[{"type":"input_image","file_id":"canary"}]}]`, sign: sign})
			}
		case "messages":
			add(attempt{what: "id " + name, body: `"max_tokens":50,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","` + name + `":"canary"}}]}]`, sign: sign})
		}
	}
	if e.Name == "container" && d.name == "responses" {
		for _, environment := range []string{`{"type":"container_auto"}`, `{"type":"container_reference","container_id":"canary"}`} {
			add(attempt{what: "hosted shell", body: d.head + `,"tools":[{"type":"shell","environment":` + environment + `}]`, sign: `"type":"container_`, tool: true})
		}
		add(attempt{what: "container of a tool", body: d.head + `,"tools":[{"type":"tool_of_tomorrow","container":"canary"}]`, sign: `"container":`, tool: true})
	}
	if d.name == "messages" {
		for _, name := range e.Betas {
			add(attempt{what: "beta " + name, body: d.head, beta: "tomorrow-2027-01-01," + name + "2026-01-01", sign: name})
		}
	}
	return all
}

// Nothing that the operator pays for reaches an upstream unless the operator allows it and the plan has it: every entry of
// the table through every door.
func TestAllowances(t *testing.T) {
	t.Parallel()
	v, n := newPayee(t)
	keys := map[string]string{}
	for _, plan := range []string{"none", "basic"} {
		keys[plan] = must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: plan + "@example.com", Plan: plan}).MasterKey
	}
	tried := 0
	for i := range allowance.Entries() {
		e := &allowance.Entries()[i]
		for _, d := range threeDoors {
			for _, a := range d.attempts(e) {
				for _, plan := range []string{"none", "basic"} {
					for _, open := range []bool{false, true} {
						tried++
						model := "lab/" + d.name + "-closed"
						if open {
							model = "lab/" + d.name + "-open"
						}
						status, body, dropped := n.knock(d.path, keys[plan], `{"model":"`+model+`",`+a.body+`}`, a.beta)
						heard := strings.ToLower(strings.ReplaceAll(v.take(), `\u0073`, "s"))
						name := fmt.Sprintf("%s: %s at %s on the plan %s", e.Name, a.what, model, plan)
						passed := strings.Contains(heard, strings.ToLower(a.sign)) || strings.Contains(heard, "canary")
						switch {
						case plan == "none" && a.tool:
							if heard != "" || status != http.StatusPaymentRequired && status != http.StatusForbidden && status != http.StatusBadRequest || status == http.StatusBadRequest && !a.never {
								t.Errorf("%s = %d %s; the upstream got %s; want a refusal for the plan", name, status, body, heard)
							}
						case passed && (!open || e.Never != ""):
							t.Errorf("%s reached the upstream: %s", name, heard)
						case status == http.StatusBadRequest:
							if open && !a.never && !a.exempt {
								t.Errorf("%s = %d %s, want it to pass", name, status, body)
							}
						case status != http.StatusOK:
							t.Errorf("%s = %d %s", name, status, body)
						case !passed && dropped == "":
							t.Errorf("%s was left out without a word; the upstream got %s", name, heard)
						case open && !passed && !a.never && !a.exempt:
							t.Errorf("%s did not pass: %s, dropped %q", name, heard, dropped)
						case passed && strings.Contains(dropped, e.Name):
							t.Errorf("%s passed and is told to be dropped: %q", name, dropped)
						}
					}
				}
			}
		}
	}
	if tried < 500 {
		t.Errorf("%d requests were tried, want several hundred", tried)
	}
}

// knock sends a request with a header anthropic-beta, unless that is empty.
func (n *node) knock(path, key, body, beta string) (status int, reply, dropped string) {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, n.scheme+n.Addr()+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	if beta != "" {
		req.Header.Set("Anthropic-Beta", beta)
	}
	resp, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), resp.Header.Get("X-Sluice-Dropped")
}

// What a request means without what is not allowed, and how tools that the vendor runs are bounded.
func TestVendorTools(t *testing.T) {
	t.Parallel()
	v, n := newPayee(t)
	key := n.OwnerKey()
	const function = `{"type":"function","name":"f"}`
	for _, tt := range []struct {
		name, door, model, body, beta string
		status                        int
		dropped                       string
		sent                          string // a part of what the upstream gets; with ! in front it must not
	}{
		{"a tool is left out", "responses", "responses-closed", `"tools":[{"type":"web_search_preview_2025_03_11"},` + function + `],"tool_choice":"auto"`, "", 200, "tools.web_search", `"tools":[` + function + `],"tool_choice":"auto"`},
		{"all tools are left out", "responses", "responses-closed", `"tools":[{"type":"web_search"}],"tool_choice":"auto","parallel_tool_calls":true,"max_tool_calls":500`, "", 200, "tools.web_search", `!tool`},
		{"one of the rest may be required", "responses", "responses-closed", `"tools":[{"type":"web_search"},` + function + `],"tool_choice":"required"`, "", 200, "tools.web_search", `"required"`},
		{"a tool among those that are allowed", "responses", "responses-closed", `"tools":[{"type":"web_search"},` + function + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}`, "", 400, "", ""},
		{"a tool that is forced", "responses", "responses-closed", `"tools":[{"type":"web_search"},` + function + `],"tool_choice":{"type":"web_search"}`, "", 400, "", ""},
		{"calls are bounded", "responses", "responses-open", `"tools":[{"type":"web_search"}]`, "", 200, "", `"max_tool_calls":16`},
		{"few calls stay", "responses", "responses-open", `"tools":[{"type":"web_search"}],"max_tool_calls":3`, "", 200, "", `"max_tool_calls":3`},
		{"many calls are lowered", "responses", "responses-open", `"tools":[{"type":"web_search"}],"max_tool_calls":500`, "", 200, "max_tool_calls", `"max_tool_calls":16`},
		{"tools of the caller are not bounded", "responses", "responses-open", `"tools":[{"type":"shell","environment":{"type":"local"}},` + function + `]`, "", 200, "", `!max_tool_calls`},
		{"a shell of the caller needs no entry", "responses", "responses-closed", `"tools":[{"type":"shell","environment":{"type":"local"}},{"type":"local_shell"},{"type":"apply_patch"},{"type":"computer_use_preview"},{"type":"tool_of_tomorrow"}]`, "", 200, "", `"tool_of_tomorrow"`},
		{"a container for each call", "responses", "responses-open", `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`, "", 200, "", `{"type":"auto"}`},
		{"a model without tools", "responses", "plain", `"tools":[{"type":"web_search"}]`, "", 400, "", ""},
		{"tools that come later, at a model without tools", "responses", "plain", `"input":[{"type":"additional_tools","tools":[{"type":"shell"}]},{"role":"user","content":"Hi"}]`, "", 400, "", ""},
		{"uses are bounded", "messages", "messages-open", `"tools":[{"type":"web_search_20250305","name":"web_search"}]`, "", 200, "", `"max_uses":16`},
		{"many uses are lowered", "messages", "messages-open", `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":500}]`, "", 200, "tools[].max_uses", `"max_uses":16`},
		{"few uses stay", "messages", "messages-open", `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":2}]`, "", 200, "", `"max_uses":2`},
		{"tools that the caller runs", "messages", "messages-closed", `"tools":[{"type":"bash_20250124","name":"bash"},{"type":"memory_20250818","name":"memory"},{"type":"text_editor_20250728","name":"e"}]`, "", 200, "", `"bash_20250124"`},
		{"other betas stay", "messages", "messages-closed", `"top_k":5`, "a-1, context-1m-2025-08-07,b-2", 200, "anthropic-beta.context-1m", "anthropic-beta: a-1,b-2\n"},
		{"names in schemas are the caller's", "messages", "messages-closed", `"tools":[{"name":"f","input_schema":{"type":"object","properties":{"file_id":{"type":"string"},"container_id":{"type":"string"}}}}]`, "", 200, "", `"file_id":{"type":"string"}`},
		{"names in arguments are the caller's", "messages", "messages-closed", `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"file_id":"a"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]`, "", 200, "", `"file_id":"a"`},
		{"files that code of the vendor made", "messages", "messages-closed", `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"bash_code_execution_tool_result","tool_use_id":"t","content":{"content":[{"file_id":"made"}]}}]},{"role":"user","content":"y"}]`, "", 400, "", ""},
		{"what a tool of the vendor said", "messages", "messages-open", `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"bash_code_execution_tool_result","tool_use_id":"t","content":{"content":[{"file_id":"made"}]}}]},{"role":"user","content":"y"}]`, "", 200, "", `"file_id":"made"`},
		{"a tier of another dialect", "responses", "chat-closed", `"service_tier":"flex"`, "", 200, "service_tier", "!service_tier"},
		{"a tier of another dialect that is allowed", "responses", "chat-open", `"service_tier":"flex"`, "", 200, "", `"service_tier":"flex"`},
		{"a tier at Responses", "chat", "responses-closed", `"service_tier":"flex"`, "", 200, "service_tier", "!service_tier"},
	} {
		d := threeDoors[slices.IndexFunc(threeDoors, func(d door) bool { return d.name == tt.door })]
		body := `{"model":"lab/` + tt.model + `",` + tt.body
		if !strings.Contains(tt.body, `"input":[`) && !strings.Contains(tt.body, `"messages":[`) {
			body += "," + d.head
		} else if d.name == "messages" {
			body += `,"max_tokens":50`
		}
		status, reply, dropped := n.knock(d.path, key, body+"}", tt.beta)
		heard := v.take()
		want, absent := strings.CutPrefix(tt.sent, "!")
		if status != tt.status || status == 200 && dropped != tt.dropped || (heard != "") != (tt.status == 200) || want != "" && strings.Contains(heard, want) == absent {
			t.Errorf("%s = %d %s, dropped %q; the upstream got %s", tt.name, status, reply, dropped, heard)
		}
	}
}

// A call of a tool that the vendor runs costs the units of the call once more.
func TestVendorCallsAreCharged(t *testing.T) {
	t.Parallel()
	v, n := newPayee(t)
	v.says["/v1/responses"] = `{"id":"resp_up","object":"response","status":"completed","model":"x","output":[{"id":"ws_1","type":"web_search_call"},{"id":"ci_1","type":"code_interpreter_call","container_id":"c"},{"id":"sh_1","type":"shell_call","call_id":"s"},` +
		`{"id":"msg_up","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}],"usage":{"input_tokens":5,"output_tokens":3,"total_tokens":8}}`
	v.says["/v1/messages"] = `{"id":"msg_up","type":"message","role":"assistant","model":"x","content":[{"type":"server_tool_use","id":"a","name":"web_search","input":{}},{"type":"server_tool_use","id":"b","name":"tool_search_tool_regex","input":{}},` +
		`{"type":"text","text":"Hi."}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":3}}`
	for i, tt := range []struct {
		door int
		want int64
	}{{0, 1000}, {1, 3000}, {2, 2000}} {
		made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: fmt.Sprintf("a%d@example.com", i), Plan: "basic"})
		d := threeDoors[tt.door]
		if status, reply, _ := n.knock(d.path, made.MasterKey, `{"model":"lab/`+d.name+`-open",`+d.head+`}`, ""); status != 200 {
			t.Fatalf("POST %s = %d %s", d.path, status, reply)
		}
		var all []usage.Settlement
		eventually(t, d.path+" being settled", func() bool {
			var err error
			all, err = n.SettledFor(t.Context(), made.ID)
			return err == nil && len(all) > 0
		})
		if got := all[0].UnitMilli; len(all) != 1 || got != tt.want {
			t.Errorf("a reply of %s costs %d thousandths of a unit, want %d", d.path, got, tt.want)
		}
	}
}

// Tools that an earlier turn has brought into a conversation are not allowed for being stored here.
func TestVendorToolsOfEarlierTurns(t *testing.T) {
	t.Parallel()
	v, n := newPayee(t)
	key := n.OwnerKey()
	first := n.respond(key, `{"model":"lab/responses-closed","input":[{"type":"additional_tools","tools":[{"type":"web_search"},{"type":"shell"}]},{"role":"user","content":"Hi"}]}`)
	v.take()
	status, reply, dropped := n.knock(responsesPath, key, `{"model":"lab/responses-closed","previous_response_id":"`+first.ID+`","input":"And?"}`, "")
	if heard := v.take(); status != 200 || dropped != "tools.web_search" || strings.Contains(heard, "web_search") || !strings.Contains(heard, `"tools":[{"type":"shell"}]`) {
		t.Errorf("the next turn = %d %s, dropped %q; the upstream got %s", status, reply, dropped, heard)
	}
	// What the upstream itself named comes back to it.
	v.says["/v1/responses"] = strings.Replace(v.says["/v1/responses"], `"output":[`, `"output":[{"id":"ci_1","type":"code_interpreter_call","container_id":"cntr_1"},`, 1)
	first = n.respond(key, `{"model":"lab/responses-closed","input":"Hi"}`)
	v.take()
	n.respond(key, `{"model":"lab/responses-closed","previous_response_id":"`+first.ID+`","input":"And?"}`)
	if heard := v.take(); !strings.Contains(heard, `"container_id":"cntr_1"`) {
		t.Errorf("the upstream got %s", heard)
	}
}
