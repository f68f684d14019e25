package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
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
	"sluice/internal/admin"
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
		if !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
			t.Errorf("%s: the stream ends with %q, want [DONE]", name, r.body[max(0, len(r.body)-50):])
		}
		for event := range strings.SplitSeq(strings.TrimSpace(r.body), "\n\n") {
			if data, ok := strings.CutPrefix(event, "data: "); ok && data != "[DONE]" {
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

// The replies of every operation, good and bad, are what api/openapi.yaml says they are.
func TestRepliesFitTheDescription(t *testing.T) {
	t.Parallel()
	n := newSite(t, "video: {plan: basic}\n").start(t)
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

	const (
		chat  = "/v1/chat/completions"
		model = "/v1/models/{id}"
		small = `{"model":"sandbox/small","messages":[{"role":"user","content":"Say hello."}]`
		auto  = `{"model":"service/auto","messages":[{"role":"user","content":"Say hello."}]}`
	)
	for _, tt := range []struct {
		method, path, target, key, body string
		status                          int
	}{
		{"GET", "/healthz", "", "", "", 200},
		{"GET", "/readyz", "", "", "", 200},
		{"GET", "/openapi.json", "", "", "", 200},
		{"GET", "/docs", "", "", "", 200},
		{"GET", "/v1/account", "", owner, "", 200},
		{"POST", "/v1/route", "", owner, auto, 200},
		{"POST", "/v1/route", "", owner, small + `}`, 200},
		{"POST", "/v1/route", "", owner, `{"model":"none","messages":[{"role":"user","content":"?"}]}`, 400},
		{"GET", "/v1/models", "", owner, "", 200},
		{"GET", "/v1/models", "/v1/models?format=verbose", owner, "", 200},
		{"GET", "/v1/models", "/v1/models?format=x", owner, "", 400},
		{"GET", "/v1/models/verbose", "", owner, "", 200},
		{"GET", model, "/v1/models/service/auto", owner, "", 200},
		{"GET", model, "/v1/models/service%2Fauto", owner, "", 200},
		{"GET", model, "/v1/models/none", owner, "", 404},
		{"POST", chat, "", owner, small + `}`, 200},
		{"POST", chat, "", owner, small + `,"stream":true}`, 200},
		{"POST", chat, "", owner, small + `,"stream":true,"stream_options":{"include_usage":true}}`, 200},
		{"POST", chat, "", owner, auto, 200},
		{"POST", chat, "", owner, `{"model":`, 400},
		{"POST", chat, "", owner, small + `,"temperature":3}`, 400},
		{"POST", chat, "", owner, `{"model":"none","messages":[{"role":"user","content":"x"}]}`, 400},
		{"POST", "/v1/route", "", none, auto, 402},
		{"POST", "/v1/route", "", free, auto, 403},
		{"POST", chat, "", none, auto, 402},
		{"POST", chat, "", free, auto, 403},
		{"POST", videoJobs, "", owner, clip, 200},
		{"POST", videoJobs, "", owner, `{"prompt":""}`, 400},
		{"POST", videoJobs, "", none, clip, 402},
		{"POST", videoJobs, "", free, clip, 403},
		{"GET", videoJobs, "", owner, "", 200},
		{"GET", videoJobs, videoJobs + "?limit=0", owner, "", 400},
		{"GET", videoJobs + "/{id}", videoJobs + "/job_none", owner, "", 404},
		{"DELETE", videoJobs + "/{id}", videoJobs + "/job_none", owner, "", 404},
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
	d.check(t, "POST", chat, n.announce(chat, owner, 33<<20))
	d.check(t, "POST", "/v1/route", n.announce("/v1/route", owner, 33<<20))
	d.check(t, "POST", videoJobs, n.announce(videoJobs, owner, 33<<20))
	for _, method := range []string{"POST", "DELETE"} { // to a host that this is not
		d.check(t, method, "/mcp", n.send(method+" /mcp HTTP/1.1\r\nHost: other.example.com\r\nAuthorization: Bearer "+owner+"\r\n\r\n"))
	}
	n.describeFiles(d)

	// Nothing is described that does not happen; what needs time, or a fault of ours or of an upstream, has tests of its own.
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if name := method + " " + path + " " + status; !d.seen[name] && !slices.Contains([]string{"408", "409", "429", "500", "503"}, status) {
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
