package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
)

const responsesPath = "/v1/responses"

// responseReply is the part of a Response object that the tests look at.
type responseReply struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Store  bool   `json:"store"`
	Model  string `json:"model"`
	Output []struct {
		ID, Type, Name, Arguments string
		CallID                    string `json:"call_id"`
		Content                   []struct{ Type, Text string }
	} `json:"output"`
	Usage struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

// respond creates a response that has to be complete.
func (n *node) respond(key, body string) responseReply {
	n.t.Helper()
	r := n.request("POST", responsesPath, key, body)
	if r.status != http.StatusOK {
		n.t.Fatalf("POST %s = %d %s", body, r.status, r.body)
	}
	return decodeResponse(n.t, r.body)
}

func decodeResponse(t *testing.T, body string) (out responseReply) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return out
}

// finalEvent returns the data of the last event of a stream.
func finalEvent(body string) string {
	return body[strings.LastIndex(body, "data: ")+len("data: "):]
}

// A response is answered, stored, found, continued and deleted, and no other account sees it.
func TestResponses(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	d := newDescription(t)
	key := n.OwnerKey()
	other := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "free"}).MasterKey
	raw := n.request("POST", responsesPath, key, `{"model":"sandbox/small","input":"Say hello."}`)
	d.check(t, "POST", responsesPath, raw)
	first := decodeResponse(t, raw.body)
	if first.Status != "completed" || !first.Store || first.ID != "resp_"+raw.header.Get("X-Request-Id") || len(first.Output) != 1 || first.Usage.Total == 0 {
		t.Errorf("response = %s", raw.body)
	}
	path := responsesPath + "/" + first.ID
	if r := n.get(path, key); r.body != raw.body {
		t.Errorf("GET = %d %s, want %s", r.status, r.body, raw.body)
	} else {
		d.check(t, "GET", "/v1/responses/{id}", r)
	}
	r := n.get(path+"/input_items?limit=1", key)
	d.check(t, "GET", "/v1/responses/{id}/input_items", r)
	if !strings.Contains(r.body, `"text":"Say hello."`) {
		t.Errorf("input items = %s", r.body)
	}
	follow := fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":"Say goodbye."}`, first.ID)
	second := n.respond(key, follow)
	if alone := n.respond(key, `{"model":"sandbox/small","store":false,"input":"Say goodbye."}`); second.Usage.Input <= alone.Usage.Input || alone.Store {
		t.Errorf("usage of the second turn = %+v, want more input than %+v, which is not stored", second.Usage, alone.Usage)
	}
	// Nobody else finds it.
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", path, "", 404},
		{"GET", path + "/input_items", "", 404},
		{"DELETE", path, "", 404},
		{"POST", path + "/cancel", "", 404},
		{"POST", responsesPath, follow, 400},
	} {
		r := n.request(tt.method, tt.path, other, tt.body)
		if r.status != tt.status {
			t.Errorf("%s %s by another account = %d %s, want %d", tt.method, tt.path, r.status, r.body, tt.status)
		}
		d.check(t, tt.method, strings.Replace(tt.path, first.ID, "{id}", 1), r)
	}
	for query, param := range map[string]string{"limit=0": "limit", "limit=x": "limit", "order=up": "order", "after=x": "after"} {
		if r := n.get(path+"/input_items?"+query, key); r.status != 400 || !strings.Contains(r.body, `"param":"`+param+`"`) {
			t.Errorf("GET with %s = %d %s, want 400", query, r.status, r.body)
		}
	}
	if r := n.get(path+"?stream=true", key); r.status != 400 {
		t.Errorf("GET as a stream = %d %s, want 400", r.status, r.body)
	}
	if r := n.request("POST", path+"/cancel", key, ""); r.status != 400 {
		t.Errorf("cancel = %d %s, want 400", r.status, r.body)
	}
	r = n.request("DELETE", path, key, "")
	d.check(t, "DELETE", "/v1/responses/{id}", r)
	if r.body != `{"id":"`+first.ID+`","object":"response","deleted":true}` {
		t.Errorf("DELETE = %s", r.body)
	}
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", path, "", "not found"},
		{"DELETE", path, "", "not found"},
		{"POST", responsesPath, follow, `Previous response with id \"` + first.ID + `\" not found`},
		{"POST", responsesPath, fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":"x"}`, second.ID), "An earlier response"},
	} {
		if r := n.request(tt.method, tt.path, key, tt.body); !strings.Contains(r.body, tt.want) || r.status < 400 {
			t.Errorf("%s %s after the deletion = %d %s, want %s", tt.method, tt.path, r.status, r.body, tt.want)
		}
	}
}

// A stored response is found after a restart, and once it has expired it is deleted.
func TestResponsesAfterRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	key := n.OwnerKey()
	first := n.respond(key, `{"model":"sandbox/small","input":"Say hello."}`)
	n.stop()
	n = s.start(t)
	n.respond(key, fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":"Say goodbye."}`, first.ID))
	n.stop()
	db := openSQLite(t, s)
	if _, err := db.Exec(`UPDATE responses SET expires_at = 1`); err != nil {
		t.Fatal(err)
	}
	n = s.start(t)
	if r := n.get(responsesPath+"/"+first.ID, key); r.status != http.StatusNotFound {
		t.Errorf("GET of an expired response = %d, want 404", r.status)
	}
	eventually(t, "the deletion of what has expired", func() bool {
		var rows, sizes int
		err := db.QueryRow(`SELECT (SELECT COUNT(*) FROM responses), (SELECT COUNT(*) FROM response_sizes)`).Scan(&rows, &sizes)
		return err == nil && rows == 0 && sizes == 0
	})
}

// Every call is settled once, under its door; one that breaks off never looks complete and is not stored.
func TestResponsesSettled(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	n := newSite(t, lab(u.url, "lab/m")).start(t)
	key := n.OwnerKey()
	settlements := func(want int) []usage.Settlement {
		t.Helper()
		var all []usage.Settlement
		eventually(t, fmt.Sprintf("settlement %d", want), func() bool {
			all, _ = n.Settlements()
			return len(all) >= want
		})
		if len(all) != want {
			t.Fatalf("%d settlements, want %d", len(all), want)
		}
		return all
	}
	last := func(want int) usage.Settlement { all := settlements(want); return all[len(all)-1] }

	u.answer <- says("Hi")
	n.respond(key, `{"model":"lab/m","input":"x"}`)
	if s := last(1); s.Door != usage.DoorResponses || s.End != usage.EndComplete || s.Tokens.Total() != 7 {
		t.Errorf("settlement = %+v", s)
	}
	// A refusal of the upstream names the fields of this dialect, and costs what it costs in chat completions.
	u.answer <- refuses
	if r := n.request("POST", responsesPath, key, `{"model":"lab/m","input":"x"}`); r.status != http.StatusBadRequest {
		t.Errorf("a refused call = %d %s", r.status, r.body)
	}
	settlements(2)
	// A stream that breaks off.
	cut := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"Hal"},"finish_reason":null}]}`+"\n\n")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	u.answer <- cut
	r := n.request("POST", responsesPath, key, `{"model":"lab/m","stream":true,"input":"x"}`)
	if !strings.Contains(r.body, "event: response.failed\n") || strings.Contains(r.body, "response.completed") || strings.Contains(r.body, "[DONE]") {
		t.Errorf("a stream that breaks off = %s", r.body)
	}
	var failed struct{ Response responseReply }
	if err := json.Unmarshal([]byte(finalEvent(r.body)), &failed); err != nil || failed.Response.Status != "failed" {
		t.Errorf("last event = %s, %v", finalEvent(r.body), err)
	}
	if s := last(3); s.End != usage.EndCut || s.Door != usage.DoorResponses {
		t.Errorf("settlement = %+v", s)
	}
	if r := n.get(responsesPath+"/"+failed.Response.ID, key); r.status != http.StatusNotFound {
		t.Errorf("GET of a response that broke off = %d, want 404", r.status)
	}
	// A caller that hangs up.
	ctx, hangUp := context.WithCancel(t.Context())
	u.answer <- func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"Hal"},"finish_reason":null}]}`+"\n\n")
		http.NewResponseController(w).Flush()
		hangUp()
		<-ctx.Done()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.scheme+n.Addr()+responsesPath, strings.NewReader(`{"model":"lab/m","stream":true,"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if resp, err := n.client.Do(req); err == nil {
		resp.Body.Close()
	}
	settlements(4)
}

// A reply is repeated with its Idempotency-Key: the same response, one call.
func TestIdempotentResponses(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	key := n.OwnerKey()
	ask := func(body string) reply {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.scheme+n.Addr()+responsesPath, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Idempotency-Key", body)
		return n.answered(req)
	}
	for _, body := range []string{`{"model":"sandbox/small","input":"Say hello."}`, `{"model":"sandbox/small","stream":true,"input":"Say hello."}`} {
		first := ask(body)
		again := ask(body)
		if first.status != 200 || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("repeat = %d %s, want %s", again.status, again.body, first.body)
		}
	}
	if got := settled(n.App); got != 2 {
		t.Errorf("%d settlements, want 2", got)
	}
}

// Tools over two turns, by the ids that the first turn gave.
func TestResponsesTools(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	key := n.OwnerKey()
	const tools = `"tools":[{"type":"function","name":"water_level","description":"d","parameters":{"type":"object","properties":{"gate":{"type":"integer"}},"required":["gate"]}},{"type":"web_search"}]`
	first := n.respond(key, `{"model":"sandbox/small","input":"Use water_level for gate 4.",`+tools+`}`)
	if len(first.Output) == 0 || first.Output[0].Type != "function_call" || first.Output[0].Name != "water_level" {
		t.Fatalf("first turn = %+v, want a call", first)
	}
	var outputs []string
	var references []string
	for _, call := range first.Output {
		outputs = append(outputs, fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"212"}`, call.CallID))
		references = append(references, fmt.Sprintf(`{"type":"item_reference","id":%q}`, call.ID))
	}
	results := strings.Join(outputs, ",")
	for name, body := range map[string]string{
		"by id":        fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":[%s],%s}`, first.ID, results, tools),
		"by reference": fmt.Sprintf(`{"model":"sandbox/small","input":[{"role":"user","content":"Use water_level for gate 4."},%s,%s],%s}`, strings.Join(references, ","), results, tools),
	} {
		if second := n.respond(key, body); len(second.Output) != 1 || second.Output[0].Type != "message" {
			t.Errorf("second turn %s = %+v, want a message", name, second)
		}
	}
	// A call without its output cannot be continued.
	r := n.request("POST", responsesPath, key, fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":"And?",%s}`, first.ID, tools))
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, "has no output for the call") {
		t.Errorf("a call without its output = %d %s", r.status, r.body)
	}
}

// With truncation the oldest turns of a conversation are left out if it is too long for the model.
func TestResponsesTruncation(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	n := newSite(t, lab(u.url, "lab/m")).start(t) // it reads 1,000 tokens
	var items []string
	for range 100 {
		items = append(items, `{"role":"user","content":"How many locks does the canal have, and how deep is each of them?"}`, `{"role":"assistant","content":"It has seven locks."}`)
	}
	body := `{"model":"lab/m","truncation":"%s","input":[{"role":"developer","content":"Be brief."},` + strings.Join(items, ",") + `,{"role":"user","content":"And now?"}]}`
	r := n.request("POST", responsesPath, n.OwnerKey(), fmt.Sprintf(body, "disabled"))
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, `"param":"input"`) {
		t.Errorf("a long conversation = %d %s, want 400", r.status, r.body)
	}
	u.answer <- says("Hi")
	if r := n.request("POST", responsesPath, n.OwnerKey(), fmt.Sprintf(body, "auto")); r.status != http.StatusOK || !strings.Contains(r.body, `"truncation":"auto"`) {
		t.Errorf("a long conversation with truncation = %d %s, want 200", r.status, r.body)
	}
}

// What MCP servers list, and what ran on them, is in the output; calls that need an approval wait for it.
func TestResponsesMCP(t *testing.T) {
	t.Parallel()
	n := newSite(t, strings.Replace(lab(obedient(t), "lab/m"), "max_output: 100", "max_output: 100, tool_calling: true", 1)+"mcp: {allow_hosts: [127.0.0.1]}\n").start(t)
	key := n.OwnerKey()
	tools := func(more string) string {
		return fmt.Sprintf(`"tools":[{"type":"mcp","server_label":"t","server_url":%q%s}]`, scriptedTools(t, workTool, worked), more)
	}
	types := func(r responseReply) string {
		var all []string
		for _, item := range r.Output {
			all = append(all, item.Type)
		}
		return strings.Join(all, " ")
	}
	r := n.request("POST", responsesPath, key, `{"model":"lab/m","input":"please call.",`+tools(`,"require_approval":"never","headers":{"X-Secret":"hidden"}`)+`}`)
	if got := types(decodeResponse(t, r.body)); got != "mcp_list_tools mcp_call message" || !strings.Contains(r.body, `"output":"done","error":null`) || strings.Contains(r.body, "hidden") {
		t.Errorf("a call of a tool = %d %s", r.status, r.body)
	}
	asking := tools("")
	first := n.respond(key, `{"model":"lab/m","input":"please call.",`+asking+`}`)
	if got := types(first); got != "mcp_list_tools mcp_approval_request" || first.Output[1].Name != "work" {
		t.Fatalf("a call that needs an approval = %+v", first)
	}
	decide := func(approve bool) responseReply {
		return n.respond(key, fmt.Sprintf(`{"model":"lab/m","previous_response_id":%q,"input":[{"type":"mcp_approval_response","approval_request_id":%q,"approve":%t}],%s}`, first.ID, first.Output[1].ID, approve, asking))
	}
	if got := types(decide(false)); got != "mcp_list_tools message" {
		t.Errorf("a call that is not approved = %s", got)
	}
	approved := decide(true)
	if got := types(approved); got != "mcp_list_tools mcp_call message" {
		t.Errorf("a call that is approved = %s", got)
	}
	next := n.respond(key, fmt.Sprintf(`{"model":"lab/m","previous_response_id":%q,"input":"please say 2.",%s}`, approved.ID, asking))
	if got := types(next); got != "mcp_list_tools message" {
		t.Errorf("the next turn = %s", got)
	}
}

// Closing an account deletes its stored responses.
func TestClosingForgetsResponses(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	ana := n.join("ana@example.com")
	owner := n.respond(n.OwnerKey(), `{"model":"sandbox/small","input":"Say hello."}`)
	db := openSQLite(t, s)
	if _, err := db.Exec(`INSERT INTO responses (id, account_id, previous, size, expires_at, sealed) SELECT x'01', id, x'', 1, 99999999999999, x'00' FROM accounts WHERE email = $1`, ana.email); err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		t.Helper()
		if err := db.QueryRow(`SELECT COUNT(*) FROM responses`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually(t, "the response being moved to the database", func() bool { return count() == 2 })
	own := decodeResponse(t, n.request("POST", responsesPath, must[admin.RawKey](n, "key.regenerate-master", admin.Target{Actor: "t", Ref: ana.email}).Key, `{"model":"sandbox/small","input":"Say good morning."}`).body)
	eventually(t, "the export has the response with its input", func() bool {
		body := ana.get("/dashboard/account.json").body
		return strings.Contains(body, own.ID) && strings.Contains(body, "Say good morning.") && !strings.Contains(body, owner.ID)
	})
	ana.wants(ana.post("/dashboard/account/close", "email", ana.email, "current", pagePassword), "closing the account", 303, "/signin")
	if count() != 1 {
		t.Errorf("%d responses are stored, want only the owner's", count())
	}
	if r := n.get(responsesPath+"/"+owner.ID, n.OwnerKey()); r.status != http.StatusOK {
		t.Errorf("GET of the owner's response = %d", r.status)
	}
}

// A caller at its limit is refused before the store is asked for its conversation.
func TestResponsesAtTheLimit(t *testing.T) {
	t.Parallel()
	n := newSite(t, "plans:\n  free: {requests_per_minute: 1}\n").start(t)
	key := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "free"}).MasterKey
	follow := func(id string) reply {
		return n.request("POST", responsesPath, key, fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":"x"}`, id))
	}
	if r := follow("resp_unknown"); r.status != 400 {
		t.Errorf("an unknown response with a request left = %d %s, want 400", r.status, r.body)
	}
	n.respond(key, `{"model":"sandbox/small","input":"Say hello."}`)
	if r := follow("resp_unknown"); r.status != 429 || r.header.Get("X-Ratelimit-Remaining-Requests") != "0" || r.header.Get("Retry-After") == "" {
		t.Errorf("an unknown response at the limit = %d %s with %v, want 429", r.status, r.body, r.header)
	}
}

// An upstream that has the Responses API gets the caller's own words, and the conversation that is stored here.
func TestResponsesUpstream(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		sent = append(sent, r.URL.Path+" "+string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/chat/completions" {
			_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"resp_up","object":"response","status":"completed","model":"x","output":[{"id":"ws_up","type":"web_search_call","status":"completed"},{"id":"msg_up","type":"message","role":"assistant","content":[{"type":"output_text","text":"Found."}]}],"usage":{"input_tokens":5,"output_tokens":3,"total_tokens":8}}`)
	}))
	t.Cleanup(up.Close)
	n := newSite(t, fmt.Sprintf(`
providers:
- {name: native, kind: openai, base_url: %[1]q, api: responses, allow: [web_search]}
- {name: plain, kind: openai, base_url: %[1]q}
models:
- {id: lab/native, provider: native, plan: free, context_length: 8192, max_output: 100, tool_calling: true}
- {id: lab/plain, provider: plain, plan: free, context_length: 8192, max_output: 100, tool_calling: true}
`, up.URL+"/v1")).start(t)
	key := n.OwnerKey()
	ask := func(model, more string) reply {
		return n.request("POST", responsesPath, key, `{"model":"`+model+`","input":"Look it up.","tools":[{"type":"web_search"}]`+more+`}`)
	}
	raw := ask("lab/native", `,"unknown":1`)
	first := decodeResponse(t, raw.body)
	if raw.status != 200 || raw.header.Get("X-Sluice-Dropped") != "" || first.ID != "resp_"+raw.header.Get("X-Request-Id") || first.Model != "lab/native" || !first.Store || len(first.Output) != 2 || first.Usage.Total != 8 {
		t.Errorf("response = %d %s, dropped %q", raw.status, raw.body, raw.header.Get("X-Sluice-Dropped"))
	}
	if r := n.get(responsesPath+"/"+first.ID, key); r.body != raw.body {
		t.Errorf("GET = %d %s, want %s", r.status, r.body, raw.body)
	}
	n.respond(key, `{"model":"lab/native","previous_response_id":"`+first.ID+`","input":[{"type":"item_reference","id":"`+first.Output[1].ID+`"},{"role":"user","content":"And?"}]}`)
	if r := ask("lab/plain", ""); r.status != 200 || r.header.Get("X-Sluice-Dropped") != "tools.web_search" {
		t.Errorf("a model without built-in tools = %d %s, dropped %q", r.status, r.body, r.header.Get("X-Sluice-Dropped"))
	}
	if r := ask("lab/plain", `,"tool_choice":{"type":"web_search"}`); r.status != 400 || !strings.Contains(r.body, `"param":"tool_choice"`) || !strings.Contains(r.body, `does not know the built-in tool`) {
		t.Errorf("a built-in tool that is forced = %d %s", r.status, r.body)
	}
	const found = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Found."}]}`
	want := []string{
		`/v1/responses {"model":"lab/native","store":false,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Look it up."}]}],"tools":[{"type":"web_search"}],"unknown":1,"max_tool_calls":16}`,
		`/v1/responses {"model":"lab/native","store":false,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Look it up."}]},{"id":"` + first.Output[0].ID + `","type":"web_search_call","status":"completed"},` + found + `,` + found + `,{"role":"user","content":"And?"}]}`,
	}
	for i, w := range want {
		if sent[i] != w {
			t.Errorf("sent %s\nwant %s", sent[i], w)
		}
	}
}
