package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// refusing is an upstream in every dialect that refuses everything in the same way.
type refusing struct {
	status atomic.Int64
	body   atomic.Pointer[string]
}

func (u *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for _, name := range []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid"} {
		w.Header().Set(name, "req_upstream")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(u.status.Load()))
	_, _ = io.WriteString(w, *u.body.Load())
}

// refusal is an error of a vendor: its status, and its body with the vendor's name of the model as NAME.
type refusal struct {
	status int
	body   string
}

// dialects are the dialects of upstreams, with what their vendors say. The first is a value that is wrong, the second an
// object that is not there, whose id is a text of the request, the third a prompt that is too long.
var dialects = map[string][3]refusal{
	"chat": {
		{422, `{"error":{"message":"NAME takes no top_p; see https://inside.example.com/x","type":"invalid_request_error","param":"top_p","code":"unsupported_value"}}`},
		{404, `{"error":{"message":"No object with id 'obj_123456' was found.","type":"invalid_request_error","param":null,"code":null}}`},
		{400, `{"error":{"code":400,"message":"request (120 tokens) exceeds the available context size (100 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":120,"n_ctx":100}}`},
	},
	"responses": {
		{400, `{"error":{"message":"NAME takes no top_p; see https://inside.example.com/x","type":"invalid_request_error","param":"top_p","code":"unsupported_value"}}`},
		{404, `{"error":{"message":"No object with id 'obj_123456' was found.","type":"invalid_request_error","param":null,"code":null}}`},
		{400, `{"error":{"message":"This model's maximum context length is 100 tokens. However, your messages resulted in 120 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`},
	},
	"messages": {
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"NAME takes no top_p; see https://inside.example.com/x"},"request_id":"req_upstream"}`},
		{404, `{"type":"error","error":{"type":"not_found_error","message":"No object with id 'obj_123456' was found.","details":{"error_code":"object_not_found"}},"request_id":"req_upstream"}`},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 120 tokens > 100 maximum"},"request_id":"req_upstream"}`},
	},
	"gemini": {
		{400, `{"error":{"code":400,"message":"NAME takes no top_p; see https://inside.example.com/x","status":"INVALID_ARGUMENT"}}`},
		{404, `{"error":{"code":404,"message":"No object with id 'obj_123456' was found.","status":"NOT_FOUND"}}`},
		{400, `{"error":{"code":400,"message":"The input token count (120) exceeds the maximum number of tokens allowed (100).","status":"INVALID_ARGUMENT"}}`},
	},
	"bedrock": {
		{400, `{"message":"NAME takes no top_p; see https://inside.example.com/x"}`},
		{404, `{"message":"No object with id 'obj_123456' was found."}`},
		{400, `{"message":"The model returned the following errors: prompt is too long: 120 tokens > 100 maximum"}`},
	},
}

// dialectCall is a request through a door, for the model of a dialect.
func dialectCall(door, dialect, text string) (path, body string) {
	switch door {
	case "responses":
		return responsesPath, fmt.Sprintf(`{"model":"m/%s","input":%q}`, dialect, text)
	case "messages":
		return "/v1/messages", fmt.Sprintf(`{"model":"m/%s","max_tokens":50,"messages":[{"role":"user","content":%q}]}`, dialect, text)
	}
	return "/v1/chat/completions", fmt.Sprintf(`{"model":"m/%s","messages":[{"role":"user","content":%q}]}`, dialect, text)
}

// toldError is what callers of any dialect read of an error.
type toldError struct {
	Message, Type, Param string
	Code                 any
	Details              map[string]any
}

// Every error of a vendor that the caller has caused, through every door: in the vendor's words where the door speaks the
// vendor's dialect, and translated otherwise (docs/api.md#upstream-errors). Nothing of the operator is in either.
func TestErrorsOfADialect(t *testing.T) {
	t.Parallel()
	up := &refusing{}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	n := newSite(t, fmt.Sprintf(`
plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}
providers:
- {name: openai, kind: openai, base_url: %[1]q, api_key: upstream-key}
- {name: native, kind: openai, base_url: %[1]q, api_key: upstream-key, api: responses}
- {name: claude, kind: anthropic, base_url: %[2]q, api_key: upstream-key}
- {name: google, kind: gemini, base_url: %[2]q, api_key: upstream-key}
- {name: aws, kind: bedrock, base_url: %[2]q, access_key_id: upstream-id, secret_access_key: upstream-secret, region: us-east-1}
models:
- {id: m/chat, provider: openai, upstream: hidden-name, plan: free, context_length: 8192, max_output: 100}
- {id: m/responses, provider: native, upstream: hidden-name, plan: free, context_length: 8192, max_output: 100}
- {id: m/messages, provider: claude, upstream: hidden-name, plan: free, context_length: 8192, max_output: 100}
- {id: m/gemini, provider: google, upstream: hidden-name, plan: free, context_length: 8192, max_output: 100}
- {id: m/bedrock, provider: aws, upstream: anthropic.hidden-name, plan: free, context_length: 8192, max_output: 100}
`, server.URL+"/v1", server.URL)).start(t)
	d := newDescription(t)
	for dialect, refusals := range dialects {
		for _, door := range []string{"chat", "responses", "messages"} {
			for i, refusal := range refusals {
				name := "hidden-name"
				if dialect == "bedrock" {
					name = "anthropic.hidden-name"
				}
				body := strings.ReplaceAll(refusal.body, "NAME", name)
				up.body.Store(&body)
				up.status.Store(int64(refusal.status))
				path, request := dialectCall(door, dialect, "obj_123456")
				r := n.request("POST", path, n.OwnerKey(), request)
				at := fmt.Sprintf("%s at %s, error %d", door, dialect, i)
				d.check(t, "POST", path, r)
				var reply struct {
					Error toldError
					ID    string `json:"request_id"`
				}
				if err := json.Unmarshal([]byte(r.body), &reply); err != nil || strings.Contains(r.body, "hidden") || strings.Contains(r.body, "inside.example") {
					t.Errorf("%s = %s, want an error without anything of the operator's", at, r.body)
				}
				want := wanted(door, dialect, i, refusal.status)
				if got := fmt.Sprint(r.status, " ", reply.Error); got != want {
					t.Errorf("%s = %s\nwant %s", at, got, want)
				}
				if door == "messages" && (reply.ID != r.header.Get("Request-Id") || reply.ID != r.header.Get("X-Request-Id") || reply.ID == "") {
					t.Errorf("%s: request_id %q, headers %v; want the same id", at, reply.ID, r.header)
				}
				if r.header.Get("X-Request-Id") == "req_upstream" {
					t.Errorf("%s: the reply has the upstream's id for ours", at)
				}
			}
		}
	}
}

// wanted returns what the caller of a door reads of an error: its status, and the error.
func wanted(door, dialect string, i, status int) string {
	const refused = "The model's provider refused the request: "
	id := "m/" + dialect
	same := door == dialect
	e := toldError{Type: "invalid_request_error"}
	if same {
		e.Details = map[string]any{"request_id": "req_upstream"}
	}
	reason := ""
	switch i {
	case 0:
		e.Message = id + " takes no top_p; see …"
		if same && door != "messages" {
			e.Param, reason = "top_p", "unsupported_value"
		}
	case 1:
		e.Message = "No object with id 'obj_123456' was found."
		if !same || door == "messages" {
			e.Type = "not_found_error"
		}
		if dialect == "messages" {
			if e.Details == nil {
				e.Details = map[string]any{}
			}
			e.Details["error_code"] = "object_not_found"
		}
	case 2:
		reason, e.Param = "context_length_exceeded", "messages"
		e.Message = "This model's maximum context length is 100 tokens. However, your messages resulted in 120 tokens. Please reduce the length of the messages."
		switch door {
		case "messages":
			e.Message, e.Param = "prompt is too long: 120 tokens > 100 maximum", ""
		case "responses":
			e.Param = "input"
		}
		if !same || dialect == "chat" { // which says it in words that are not those of the dialect
			e.Message = strings.TrimSuffix(e.Message, ".") + ". Shorten the prompt, or use a model with a larger context than " + id + "."
			e.Details = nil
		}
	}
	if !same && i != 2 {
		e.Message = refused + e.Message
	}
	if !same && status != 404 {
		status = 400
	}
	switch {
	case door == "chat":
		e.Code = float64(status)
		if reason != "" {
			if e.Details == nil {
				e.Details = map[string]any{}
			}
			e.Details["error_code"] = reason
		}
	case door == "responses" && reason != "":
		e.Code = reason
	case door == "responses":
		e.Code = float64(status)
	}
	return fmt.Sprint(status, " ", e)
}

// A prompt that is too long by our own count is told in the same words, and calls nobody.
func TestPromptTooLong(t *testing.T) {
	t.Parallel()
	n := newSite(t, `
sandbox: false
providers: [{name: openai, kind: openai, base_url: "http://127.0.0.1:1/v1", api_key: k}]
models: [{id: m/chat, provider: openai, plan: free, context_length: 1000, max_output: 100}]
`).start(t)
	long := strings.Repeat("word ", 9000)
	for door, want := range map[string]string{
		"chat":      `"This model's maximum context length is 1000 tokens. However, your messages resulted in `,
		"responses": `"This model's maximum context length is 1000 tokens. However, your messages resulted in `,
		"messages":  `"prompt is too long: `,
	} {
		path, body := dialectCall(door, "chat", long)
		for _, model := range []string{"m/chat", "service/auto"} {
			r := n.request("POST", path, n.OwnerKey(), strings.Replace(body, "m/chat", model, 1))
			var e struct{ Error toldError }
			if err := json.Unmarshal([]byte(r.body), &e); err != nil || r.status != 400 || !strings.Contains(r.body, want) || e.Error.Type != "invalid_request_error" {
				t.Errorf("%s, %s = %d %s, want 400 with %s", door, model, r.status, r.body, want)
			}
			if door == "messages" && !strings.Contains(r.body, ` tokens \u003e 1000 maximum. `) {
				t.Errorf("%s, %s = %s, want the numbers as the original has them", door, model, r.body)
			}
			if door == "chat" && (e.Error.Code != 400.0 || e.Error.Details["error_code"] != "context_length_exceeded" || e.Error.Param != "messages") {
				t.Errorf("%s, %s = %s, want its status as code, and the reason in details", door, model, r.body)
			}
			if door == "responses" && (e.Error.Code != "context_length_exceeded" || e.Error.Param != "input") {
				t.Errorf("%s, %s = %s, want the reason as code", door, model, r.body)
			}
		}
	}
}

// A refusal inside a stream that has begun is told in the same way.
func TestErrorWithinAStream(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hi\"}}]}\n\n"+
			"data: {\"error\":{\"code\":400,\"message\":\"hidden-name gave up.\"}}\n\n")
	}))
	t.Cleanup(server.Close)
	n := newSite(t, fmt.Sprintf(`
providers: [{name: openai, kind: openai, base_url: %q, api_key: k}]
models: [{id: m/chat, provider: openai, upstream: hidden-name, plan: free, context_length: 1000, max_output: 100}]
`, server.URL+"/v1")).start(t)
	for door, want := range map[string]string{
		"chat":      `data: {"error":{"message":"m/chat gave up.","type":"invalid_request_error","code":400}}`,
		"responses": `"error":{"code":"invalid_prompt","message":"The model's provider refused the request: m/chat gave up."}`,
		"messages":  `"error":{"type":"invalid_request_error","message":"The model's provider refused the request: m/chat gave up."}`,
	} {
		path, body := dialectCall(door, "chat", "Hello.")
		r := n.request("POST", path, n.OwnerKey(), strings.Replace(body, "{", `{"stream":true,`, 1))
		if !strings.Contains(r.body, want) || !strings.Contains(r.body, "Hi") {
			t.Errorf("%s = %s\nwant %s", door, r.body, want)
		}
	}
}
