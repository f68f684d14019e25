package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice/api"
	"sluice/internal/operate/admin"
)

// description is the API's own description, and what has been held against it.
type description struct {
	doc  *openapi3.T
	seen map[string]bool // "METHOD path status"
}

func newDescription(t *testing.T) *description {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return &description{doc, map[string]bool{}}
}

// check holds a reply against what is described for the operation.
func (d *description) check(t *testing.T, method, path string, r reply) {
	t.Helper()
	name := fmt.Sprint(method, " ", path, " ", r.status)
	item := d.doc.Paths.Value(path)
	if item == nil || item.Operations()[method] == nil {
		t.Errorf("%s: there is no such operation", name)
		return
	}
	response := item.Operations()[method].Responses.Status(r.status)
	if response == nil {
		t.Errorf("%s: the status is not described; the reply is %s", name, r.body)
		return
	}
	d.seen[name] = true
	d.checkHeaders(t, name, response.Value, r.header)
	if len(response.Value.Content) == 0 {
		if r.body != "" {
			t.Errorf("%s: the body is %q, want none", name, r.body)
		}
		return
	}
	kind, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil {
		t.Errorf("%s: content type %q: %v", name, r.header.Get("Content-Type"), err)
		return
	}
	media := response.Value.Content[kind]
	if media == nil {
		t.Errorf("%s: content type %s is not described", name, kind)
		return
	}
	switch kind {
	case "application/json":
		checkSchema(t, name, media.Schema.Value, r.body)
	case "text/event-stream":
		// The other doors end with an event of their own, which has a name.
		if strings.HasPrefix(r.body, "data: ") && !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
			t.Errorf("%s: the stream ends with %q, want [DONE]", name, r.body[max(0, len(r.body)-50):])
		}
		for event := range strings.SplitSeq(strings.TrimSpace(r.body), "\n\n") {
			if _, data, ok := strings.Cut(event, "data: "); ok && data != "[DONE]" {
				checkSchema(t, name, media.Schema.Value, data)
			}
		}
	}
}

func checkSchema(t *testing.T, name string, schema *openapi3.Schema, text string) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Errorf("%s: %q is not JSON: %v", name, text, err)
		return
	}
	if err := schema.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%s: %s does not fit its schema: %v", name, text, err)
	}
}

// checkHeaders wants the headers that are described, and of our own no others.
func (d *description) checkHeaders(t *testing.T, name string, response *openapi3.Response, got http.Header) {
	t.Helper()
	described := map[string]bool{}
	for header, ref := range response.Headers {
		described[http.CanonicalHeaderKey(header)] = true
		value := got.Get(header)
		if value == "" {
			if ref.Value.Required {
				t.Errorf("%s: header %s is missing", name, header)
			}
			continue
		}
		var v any = value
		if schema := ref.Value.Schema.Value; schema.Type.Is("integer") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Errorf("%s: header %s = %q, want a number", name, header, value)
			}
			v = n
		}
		if err := ref.Value.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s: header %s = %q: %v", name, header, value, err)
		}
	}
	for header := range got {
		own := strings.HasPrefix(header, "X-") && header != "X-Content-Type-Options" && header != "X-Accel-Buffering" || strings.HasPrefix(header, "Retry-After")
		if own && !described[header] {
			t.Errorf("%s: header %s: %s is not described", name, header, got.Get(header))
		}
	}
}

// checkOtherMethods wants HEAD wherever GET is, and a 405 that lists the methods of a path for any other.
func (d *description) checkOtherMethods(t *testing.T, n *node, key string) {
	t.Helper()
	refused := d.doc.Components.Responses["MethodNotAllowed"].Value
	for path, item := range d.doc.Paths.Map() {
		target := strings.NewReplacer("{id}", "x", "{file}", "x").Replace(path)
		if item.Get != nil {
			got, head := n.request("GET", target, key, ""), n.request("HEAD", target, key, "")
			if head.status != got.status || head.body != "" {
				t.Errorf("HEAD %s = %d %q, want %d without a body", target, head.status, head.body, got.status)
			}
		}
		var want []string
		for method := range item.Operations() {
			want = append(want, method)
		}
		if item.Get != nil {
			want = append(want, "HEAD")
		}
		slices.Sort(want)
		r := n.request("PUT", target, key, "")
		name := "PUT " + target
		if allow := strings.Split(r.header.Get("Allow"), ", "); r.status != 405 || !slices.Equal(slices.Sorted(slices.Values(allow)), want) {
			t.Errorf("%s = %d, Allow: %q, want 405 and %q", name, r.status, allow, want)
		}
		d.checkHeaders(t, name, refused, r.header)
		if !strings.HasPrefix(path, "/v1/messages") { // whose errors have another form
			checkSchema(t, name, refused.Content.Get("application/json").Schema.Value, r.body)
		}
	}
}

// The replies of every operation, good and bad, are what api/openapi.yaml says they are.
func TestRepliesFitTheDescription(t *testing.T) {
	t.Parallel()
	n := newSite(t, "router: {feedback: true}\nvideo: {plan: basic}\nproviders: [{name: lab, kind: openai, base_url: \"http://127.0.0.1:1/v1\"}]\nmodels: [{id: lab/embed, kind: embedding, provider: lab, plan: basic, context_length: 8192}]\n").start(t)
	d := newDescription(t)
	owner := n.OwnerKey()
	account := func(email, plan string) (id, key string) {
		a := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: email, Plan: plan})
		return a.ID, a.MasterKey
	}
	_, none := account("none@example.com", "none")
	_, free := account("free@example.com", "free")
	suspendedID, suspended := account("suspended@example.com", "free")
	must[any](n, "account.suspend", admin.Target{Actor: "t", Ref: suspendedID, Reason: "r"})
	deactivatedID, deactivated := account("deactivated@example.com", "free")
	must[any](n, "key.deactivate", admin.Target{Actor: "t", Ref: deactivatedID, Reason: "r"})

	stored := "/v1/responses/" + between(n.request("POST", "/v1/responses", owner, `{"model":"sandbox/small","input":"Say hello."}`).body, `"id":"`, `"`)
	left := n.request("POST", chatPath, owner, `{"model":"sandbox/small","messages":[{"role":"user","content":"Say hello."}],"stream":true,"stream_options":{"resumable":true}}`)
	resumed := left.header.Get("X-Sluice-Resume")
	d.check(t, "POST", chatPath, left)
	d.check(t, "GET", chatPath+"/{id}/events", n.fetch("GET", n.scheme+n.Addr()+resumed, owner, map[string]string{"Last-Event-ID": "1000"}))
	ratable := n.request("POST", chatPath, owner, `{"model":"service/auto","messages":[{"role":"user","content":"Say hello."}]}`).header.Get("X-Request-Id")
	attested := n.attested(owner, chatPath, `{"model":"sandbox/small","messages":[{"role":"user","content":"Say hello."}]}`).header.Get("X-Request-Id")
	kept := "/v1/budgets/" + between(n.request("POST", "/v1/budgets", owner, `{"name":"x","amount":1,"window":"day","scope":{"account":true},"hard":false}`).body, `"id":"`, `"`)
	n.request("POST", chatPath, owner, `{"model":"sandbox/small","prompt_cache_key":"run-1","messages":[{"role":"user","content":"Say hello."}]}`)
	made := n.limited(between(n.get("/v1/account", owner).body, `"id":"`, `"`), "sub", nil)
	sub := made.Key
	d.check(t, "DELETE", chatPath+"/{id}/events", n.fetch("DELETE", n.scheme+n.Addr()+resumed, owner, map[string]string{"Last-Event-ID": "x"}))
	const (
		chat    = "/v1/chat/completions"
		rest    = "/v1/chat/completions/{id}/events"
		ask     = "/v1/responses"
		asked   = "/v1/responses/{id}"
		write   = "/v1/messages"
		count   = "/v1/messages/count_tokens"
		videos  = "/v1/videos"
		hello   = `"messages":[{"role":"user","content":"Say hello."}]`
		embed   = "/v1/embeddings"
		model   = "/v1/models/{id}"
		changes = "/v1/catalog/changes"
		small   = `{"model":"sandbox/small","messages":[{"role":"user","content":"Say hello."}]`
		auto    = `{"model":"service/auto","messages":[{"role":"user","content":"Say hello."}]}`
	)
	for _, tt := range []struct {
		method, path, target, key, body string
		status                          int
	}{
		{"GET", "/healthz", "", "", "", 200},
		{"GET", "/api/hello", "", "", "", 200},
		{"GET", "/readyz", "", "", "", 200},
		{"GET", "/openapi.json", "", "", "", 200},
		{"GET", "/docs", "", "", "", 200},
		{"GET", "/docs/{page}", "/docs/createMessage", "", "", 200},
		{"GET", "/docs/{page}", "/docs/nothing", "", "", 404},
		{"GET", "/v1/account", "", owner, "", 200},
		{"GET", "/v1/usage", "", owner, "", 200},
		{"GET", "/v1/usage", "/v1/usage?range=x", owner, "", 400},
		{"GET", "/.well-known/sluice-receipts.json", "", "", "", 200},
		{"GET", "/v1/receipts", "", owner, "", 200},
		{"GET", "/v1/receipts", "/v1/receipts?limit=x", owner, "", 400},
		{"GET", "/v1/sessions", "", owner, "", 200},
		{"GET", "/v1/sessions", "/v1/sessions?limit=x", owner, "", 400},
		{"GET", "/v1/sessions/{id}", "/v1/sessions/run-1", owner, "", 200},
		{"GET", "/v1/sessions/{id}", "/v1/sessions/run-2", owner, "", 404},
		{"GET", "/v1/receipts/root", "/v1/receipts/root?month=" + time.Now().UTC().Format("2006-01"), owner, "", 200},
		{"GET", "/v1/receipts/root", "/v1/receipts/root?month=x", owner, "", 400},
		{"GET", "/v1/receipts/{id}", "/v1/receipts/" + attested, owner, "", 200},
		{"GET", "/v1/receipts/{id}", "/v1/receipts/0123456789abcdef0123456789abcdef", owner, "", 404},
		{"GET", "/v1/usage/explain", "", owner, "", 200},
		{"GET", "/v1/usage/explain", "/v1/usage/explain?day=x", owner, "", 400},
		{"GET", "/v1/requests", "", owner, "", 200},
		{"GET", "/v1/requests", "/v1/requests?limit=0", owner, "", 400},
		{"GET", "/v1/requests/{id}", "/v1/requests/" + ratable, owner, "", 200},
		{"GET", "/v1/requests/{id}", "/v1/requests/none", owner, "", 404},
		{"POST", "/v1/route", "", owner, auto, 200},
		{"POST", "/v1/route", "", owner, small + `}`, 200},
		{"POST", "/v1/route", "", owner, `{"model":"none","messages":[{"role":"user","content":"?"}]}`, 400},
		{"POST", "/v1/feedback", "", owner, `{"request_id":"` + ratable + `","rating":"good"}`, 200},
		{"POST", "/v1/feedback", "", owner, `{"request_id":"` + ratable + `","rating":"x"}`, 400},
		{"POST", "/v1/feedback", "", free, `{"request_id":"` + ratable + `","rating":"good"}`, 404},
		{"POST", "/v1/budgets", "", owner, `{"name":"x","amount":"1","window":"total","scope":{"session":"*"},"hard":false}`, 200},
		{"POST", "/v1/budgets", "", owner, `{"name":"x"}`, 400},
		{"POST", "/v1/budgets", "", sub, "", 403},
		{"POST", "/v1/budgets/resume", "", owner, `{"key":"` + made.ID + `"}`, 200},
		{"POST", "/v1/budgets/resume", "", owner, `{"key":"key_none"}`, 404},
		{"POST", "/v1/budgets/resume", "", owner, strings.Repeat(" ", 20<<10), 413},
		{"POST", "/v1/budgets/resume", "", owner, `{}`, 400},
		{"POST", "/v1/budgets/resume", "", sub, "{}", 403},
		{"GET", "/v1/budgets", "", owner, "", 200},
		{"GET", "/v1/budgets", "", sub, "", 403},
		{"GET", "/v1/budgets/{id}", kept, owner, "", 200},
		{"GET", "/v1/budgets/{id}", kept, sub, "", 403},
		{"GET", "/v1/budgets/{id}", kept, free, "", 404},
		{"PATCH", "/v1/budgets/{id}", kept, owner, `{"amount":2}`, 200},
		{"PATCH", "/v1/budgets/{id}", kept, owner, `{"amount":"x"}`, 400},
		{"PATCH", "/v1/budgets/{id}", kept, owner, strings.Repeat(" ", 20<<10), 413},
		{"PATCH", "/v1/budgets/{id}", kept, sub, "{}", 403},
		{"PATCH", "/v1/budgets/{id}", "/v1/budgets/bud_none", owner, "{}", 404},
		{"DELETE", "/v1/budgets/{id}", kept, sub, "", 403},
		{"DELETE", "/v1/budgets/{id}", "/v1/budgets/bud_none", owner, "", 404},
		{"DELETE", "/v1/budgets/{id}", kept, owner, "", 200},
		{"GET", "/v1/models", "", owner, "", 200},
		{"GET", "/v1/models", "/v1/models?format=verbose", owner, "", 200},
		{"GET", "/v1/models", "/v1/models?format=x", owner, "", 400},
		{"GET", "/v1/models/verbose", "", owner, "", 200},
		{"GET", model, "/v1/models/service/auto", owner, "", 200},
		{"GET", model, "/v1/models/service%2Fauto", owner, "", 200},
		{"GET", model, "/v1/models/none", owner, "", 404},
		{"GET", changes, "", owner, "", 200},
		{"GET", changes, changes + "?limit=0", owner, "", 400},
		{"POST", chat, "", owner, small + `}`, 200},
		{"POST", chat, "", owner, small + `,"stream":true}`, 200},
		{"POST", chat, "", owner, small + `,"stream":true,"stream_options":{"include_usage":true}}`, 200},
		{"POST", chat, "", owner, auto, 200},
		{"GET", rest, resumed, owner, "", 200},
		{"GET", rest, resumed, free, "", 404},
		{"DELETE", rest, resumed, free, "", 404},
		{"DELETE", rest, resumed, owner, "", 204},
		{"POST", chat, "", owner, `{"model":`, 400},
		{"POST", chat, "", owner, small + `,"temperature":3}`, 400},
		{"POST", chat, "", owner, `{"model":"none","messages":[{"role":"user","content":"x"}]}`, 400},
		{"POST", "/v1/route", "", none, auto, 402},
		{"POST", "/v1/route", "", free, auto, 403},
		{"POST", chat, "", none, auto, 402},
		{"POST", chat, "", free, auto, 403},
		{"POST", embed, "", owner, `{"model":"sandbox/embed","input":["a b","c"]}`, 200},
		{"POST", embed, "", owner, `{"model":"sandbox/embed","input":"a b","encoding_format":"base64"}`, 200},
		{"POST", embed, "", owner, `{"model":"sandbox/embed","input":""}`, 400},
		{"POST", embed, "", none, `{"model":"lab/embed","input":"a"}`, 402},
		{"POST", embed, "", free, `{"model":"lab/embed","input":"a"}`, 403},
		{"POST", ask, "", owner, `{"model":"sandbox/small","input":"Say hello."}`, 200},
		{"POST", ask, "", owner, `{"model":"sandbox/small","input":"Say hello.","stream":true}`, 200},
		{"POST", ask, "", owner, `{"model":"sandbox/small"}`, 400},
		{"POST", ask, "", none, `{"model":"service/auto","input":"Say hello."}`, 402},
		{"POST", ask, "", free, `{"model":"service/auto","input":"Say hello."}`, 403},
		{"POST", ask + "/input_tokens", "", owner, `{"model":"sandbox/small","input":"Say hello."}`, 200},
		{"POST", ask + "/input_tokens", "", owner, `{"model":"sandbox/small"}`, 400},
		{"POST", ask + "/input_tokens", "", none, `{"model":"service/auto","input":"Say hello."}`, 402},
		{"POST", ask + "/input_tokens", "", free, `{"model":"service/auto","input":"Say hello."}`, 403},
		{"GET", asked, stored, owner, "", 200},
		{"GET", asked, stored + "?stream=true", owner, "", 400},
		{"GET", asked, stored, free, "", 404},
		{"GET", asked + "/input_items", stored + "/input_items", owner, "", 200},
		{"GET", asked + "/input_items", stored + "/input_items?limit=0", owner, "", 400},
		{"GET", asked + "/input_items", stored + "/input_items", free, "", 404},
		{"POST", asked + "/cancel", stored + "/cancel", owner, "", 400},
		{"POST", asked + "/cancel", stored + "/cancel", free, "", 404},
		{"DELETE", asked, stored, free, "", 404},
		{"DELETE", asked, stored, owner, "", 200},
		{"POST", write, "", owner, `{"model":"sandbox/small","max_tokens":50,` + hello + `}`, 200},
		{"POST", write, "", owner, `{"model":"sandbox/small","max_tokens":50,"stream":true,` + hello + `}`, 200},
		{"POST", write, "", owner, `{"model":"sandbox/small",` + hello + `}`, 400},
		{"POST", write, "", none, `{"model":"service/auto","max_tokens":50,` + hello + `}`, 402},
		{"POST", write, "", free, `{"model":"service/auto","max_tokens":50,` + hello + `}`, 403},
		{"POST", count, "", owner, `{"model":"sandbox/small",` + hello + `}`, 200},
		{"POST", count, "", owner, `{"model":"sandbox/small"}`, 400},
		{"POST", count, "", none, `{"model":"service/auto",` + hello + `}`, 402},
		{"POST", count, "", free, `{"model":"service/auto",` + hello + `}`, 403},
		{"POST", videoJobs, "", owner, clip, 200},
		{"POST", videoJobs, "", owner, `{"prompt":""}`, 400},
		{"POST", videoJobs, "", none, clip, 402},
		{"POST", videoJobs, "", free, clip, 403},
		{"GET", videoJobs, "", owner, "", 200},
		{"GET", videoJobs, videoJobs + "?limit=0", owner, "", 400},
		{"GET", videoJobs + "/{id}", videoJobs + "/job_none", owner, "", 404},
		{"DELETE", videoJobs + "/{id}", videoJobs + "/job_none", owner, "", 404},
		{"POST", videos, "", owner, `{"prompt":"a lighthouse","size":"480x480","seconds":"1"}`, 200},
		{"POST", videos, "", owner, `{"prompt":"x","size":"large"}`, 400},
		{"POST", videos, "", none, `{"prompt":"x"}`, 402},
		{"POST", videos, "", free, `{"prompt":"x"}`, 403},
		{"GET", videos, "", owner, "", 200},
		{"GET", videos, videos + "?order=asc", owner, "", 400},
		{"GET", videos + "/{id}", videos + "/job_none", owner, "", 404},
		{"DELETE", videos + "/{id}", videos + "/job_none", owner, "", 404},
		{"GET", videos + "/{id}/content", videos + "/job_none/content", owner, "", 404},
		{"GET", videos + "/{id}/content", videos + "/job_none/content?variant=thumbnail", owner, "", 400},
		{"POST", "/mcp", "", owner, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200},
		{"POST", "/mcp", "", owner, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202},
		{"POST", "/mcp", "", owner, `{"jsonrpc":"2.0","id":1,"method":"unheard"}`, 400},
		{"POST", "/mcp", "", owner, `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 8<<20) + `"}`, 413},
		{"DELETE", "/mcp", "", owner, "", 204},
	} {
		target := tt.target
		if target == "" {
			target = tt.path
		}
		r := n.request(tt.method, target, tt.key, tt.body)
		if r.status != tt.status {
			t.Errorf("%s %s %s = %d %s, want %d", tt.method, target, tt.body, r.status, r.body, tt.status)
		}
		d.check(t, tt.method, tt.path, r)
	}
	for path, item := range d.doc.Paths.Map() {
		for method := range item.Operations() {
			target := strings.ReplaceAll(path, "{id}", "service/auto")
			if !strings.HasPrefix(path, "/v1") && path != "/mcp" {
				continue
			}
			for key, status := range map[string]int{"": 401, deactivated: 401, suspended: 423} {
				r := n.request(method, target, key, "")
				if r.status != status {
					t.Errorf("%s %s = %d %s, want %d", method, target, r.status, r.body, status)
				}
				d.check(t, method, path, r)
			}
		}
	}
	for path, target := range map[string]string{"/v1/models": "/v1/models?limit=1", model: "/v1/models/sandbox/small"} {
		r := n.fetch("GET", n.scheme+n.Addr()+target, owner, map[string]string{"Anthropic-Version": "2023-06-01"})
		if !strings.Contains(r.body, `"display_name"`) {
			t.Errorf("GET %s with anthropic-version = %s, want the form of Anthropic's API", target, r.body)
		}
		d.check(t, "GET", path, r)
	}
	d.checkOtherMethods(t, n, owner)
	d.check(t, "POST", chat, n.announce(chat, owner, 33<<20))
	d.check(t, "POST", "/v1/route", n.announce("/v1/route", owner, 33<<20))
	for _, path := range []string{embed, ask, ask + "/input_tokens", write, count, "/v1/feedback", "/v1/budgets"} {
		d.check(t, "POST", path, n.announce(path, owner, 33<<20))
	}
	d.check(t, "POST", videoJobs, n.announce(videoJobs, owner, 33<<20))
	d.check(t, "POST", videos, n.announce(videos, owner, 33<<20))
	for _, method := range []string{"POST", "DELETE"} { // to a host that this is not
		d.check(t, method, "/mcp", n.send(method+" /mcp HTTP/1.1\r\nHost: other.example.com\r\nAuthorization: Bearer "+owner+"\r\n\r\n"))
	}
	n.describeFiles(d)
	for path, target := range map[string]string{"/openapi.json": "/openapi.json", "/docs": "/docs", "/docs/{page}": "/docs/all"} {
		d.check(t, "GET", path, n.fetch("GET", n.scheme+n.Addr()+target, "", map[string]string{"If-None-Match": `"x", W/` + n.get(target, "").header.Get("ETag")}))
	}

	// Nothing is described that does not happen; what needs patience, or a fault of ours or of an upstream, has tests of its own.
	// So have the 404 of an upstream that does not know what a call names, and its 422 (TestErrorsOfADialect).
	calls := []string{"POST " + chat, "POST " + embed, "POST " + ask, "POST " + write}
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				name := method + " " + path + " " + status
				if (status == "404" || status == "422") && slices.Contains(calls, method+" "+path) {
					continue
				}
				if !d.seen[name] && !slices.Contains([]string{"408", "409", "429", "500", "503"}, status) {
					t.Errorf("%s is described, and no reply of this test had it", name)
				}
			}
		}
	}
}

// announce sends the head of a request with a body of this size, and reads the reply.
func (n *node) announce(target, key string, size int) reply {
	n.t.Helper()
	return n.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", target, key, size))
}

// send sends the head of a request as it is, and reads the reply.
func (n *node) send(head string) reply {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.Addr())
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		n.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, head); err != nil {
		n.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

// described is a document of a node, with the names that have no place in it.
func (n *node) described(path string, foreign ...string) string {
	n.t.Helper()
	r := n.get(path, "")
	text := r.body
	if path == "/docs/all" {
		text = html.UnescapeString(text)
	}
	for _, name := range foreign {
		if at := strings.Index(text, name); r.status != 200 || at >= 0 {
			n.t.Errorf("GET %s = %d, which says %q: …%s…", path, r.status, name, text[max(0, at-60):min(len(text), max(0, at)+60)])
		}
	}
	return text
}

// sendExamples sends every example of a request that the node's own description has.
func (n *node) sendExamples(key string) {
	n.t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(n.get("/openapi.json", "").body))
	if err != nil {
		n.t.Fatal(err)
	}
	sent := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if (strings.Contains(path, "/video") || strings.Contains(path, "/responses/") || strings.Contains(path, "/receipts/") || strings.Contains(path, "/budgets/") || strings.Contains(path, "/sessions/") || strings.Contains(path, "/requests/") || strings.HasSuffix(path, "/events")) && strings.Contains(path, "{") || path == "/files/{file}" || path == "/v1/feedback" || path == "/v1/budgets/resume" {
				continue // their examples name a job, a response, a receipt, a budget, a session, a stream, a key or a call that is nobody's
			}
			target := path
			for _, p := range op.Parameters {
				if p.Value.In == "path" {
					target = strings.ReplaceAll(target, "{"+p.Value.Name+"}", p.Value.Example.(string))
				}
			}
			bodies := []string{""}
			if op.RequestBody != nil {
				bodies = nil
				for _, example := range op.RequestBody.Value.Content["application/json"].Examples {
					raw, err := json.Marshal(example.Value.Value)
					if err != nil {
						n.t.Fatal(err)
					}
					// The tool server of the example is nowhere; our own one stands in.
					bodies = append(bodies, strings.NewReplacer("https://tools.example.com/mcp", doc.Servers[0].URL+"/mcp", "ticket-server-token", key).Replace(string(raw)))
				}
			}
			for _, body := range bodies {
				sent++
				if strings.Contains(body, "an-embedding-model") {
					continue // the catalog has none
				}
				if r := n.request(method, target, key, body); r.status >= 400 {
					n.t.Errorf("%s %s %s, an example, = %d %s", method, target, body, r.status, r.body)
				}
			}
		}
	}
	if sent < 15 {
		n.t.Errorf("the description has %d examples, want the test to find them", sent)
	}
}

// A fresh installation describes itself: its address, and models that are there.
func TestDescriptionOfAFreshStart(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	for _, path := range []string{"/openapi.json", "/docs/all"} {
		text := n.described(path, ":8080")
		for _, want := range []string{"http://" + n.Addr(), "service/auto", "service-", "sandbox/small", "Sluice API"} {
			if !strings.Contains(text, want) {
				t.Errorf("GET %s does not say %s", path, want)
			}
		}
	}
	n.sendExamples(n.OwnerKey())
}

// The description follows the configuration: brand, address, video model, and models that are there.
func TestDescriptionFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	lab := modelServer(t, models())
	yaml := func(publicURL, id string) string {
		return `brand: acme
public_url: ` + publicURL + `
sandbox: false
discover: false
video: {model_id: clips-1}
providers: [{name: lab, kind: openai, base_url: "` + lab + `"}]
models:
  - {id: odd"one, provider: lab, plan: free, context_length: 1000, max_output: 100}
  - {id: lab/dear, provider: lab, plan: premium, context_length: 100000, max_output: 1000, tool_calling: true}
  - {id: ` + id + `, provider: lab, plan: free, context_length: 100000, max_output: 1000, tool_calling: true, owned_by: "Lab <&> Sons"}
`
	}
	s := newSite(t, yaml("https://api.acme.example", "lab/quick"))
	n := s.start(t)
	foreign := []string{"service-", "service/auto", "service%2Fauto", `"service"`, "8080", "127.0.0.1", "video-default", "sandbox/", `"sandbox"`, "Sluice API", `odd"one`}
	wants := []string{"https://api.acme.example", "acme/auto", "acme-", "lab/quick", "lab/dear", "clips-1", "Lab <&> Sons", "acme API"}
	tags := map[string]string{}
	for _, path := range []string{"/openapi.json", "/docs/all"} {
		text := n.described(path, foreign...)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("GET %s does not say %s", path, want)
			}
		}
		r := n.get(path, "")
		tags[path] = r.header.Get("ETag")
		if same := n.fetch("GET", n.scheme+n.Addr()+path, "", map[string]string{"If-None-Match": tags[path]}); same.status != 304 || same.body != "" {
			t.Errorf("GET %s with its ETag %q = %d with %d bytes, want 304 and none", path, tags[path], same.status, len(same.body))
		}
	}
	doc, err := openapi3.NewLoader().LoadFromData([]byte(n.get("/openapi.json", "").body))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Errorf("the description is not valid: %v", err)
	}
	if got := doc.Servers[0].URL; got != "https://api.acme.example" {
		t.Errorf("the server's URL = %q", got)
	}
	n.sendExamples(n.OwnerKey())

	s.write(t, yaml("https://new.acme.example", "lab/other"))
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	for path, tag := range tags {
		text := n.described(path, append(foreign, "api.acme.example", "lab/quick")...)
		if r := n.get(path, ""); r.header.Get("ETag") == tag || !strings.Contains(text, "https://new.acme.example") || !strings.Contains(text, "lab/other") {
			t.Errorf("GET %s after a reload is as before", path)
		}
	}
}

// Pages and the MCP server go by the configured names, too, and follow a reload where the API does.
func TestNamesOnPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, "brand: acme\nvideo: {model_id: clips-1}\n")
	n := s.start(t)
	visitor := n.join("ana@example.com")
	if !strings.HasPrefix(visitor.key, "acme-") {
		t.Errorf("the welcome shows the key %q, want the prefix acme-", visitor.key)
	}
	foreign := []string{"service/auto", "service-", "video-default", "8080"}
	check := func(path, want string) {
		t.Helper()
		r := visitor.get(path)
		if !strings.Contains(html.UnescapeString(r.body), want) {
			t.Errorf("GET %s = %d without %s", path, r.status, want)
		}
		for _, name := range foreign {
			if strings.Contains(r.body, name) {
				t.Errorf("GET %s says %s", path, name)
			}
		}
	}
	check("/dashboard", "http://"+n.Addr()+"/v1")
	check("/dashboard/models", "acme/auto")
	check("/dashboard/videos", "clips-1")
	s.write(t, "brand: acme\nvideo: {model_id: clips-2}\n")
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	check("/dashboard/videos", "clips-2")
	if r := n.request("POST", videoJobs, n.OwnerKey(), `{"prompt":"a lighthouse","model":"clips-2"}`); r.status != 200 {
		t.Errorf("a job of the renamed model = %d %s", r.status, r.body)
	}
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	if r := n.request("POST", "/mcp", n.OwnerKey(), hello); !strings.Contains(r.body, `"title":"acme"`) {
		t.Errorf("initialize = %d %s, want the brand as its title", r.status, r.body)
	}
}
