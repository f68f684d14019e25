package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/operate/admin"
	"sluice/internal/upstream/routing"
)

// wrong is an upstream in every dialect. It answers a request with the word MISTAKE as it was told to, and all others
// well.
type wrong struct{ answer atomic.Pointer[string] } // a status, and the body behind a line break

func (u *wrong) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(string(body), "MISTAKE") {
		head, text, _ := strings.Cut(*u.answer.Load(), "\n")
		var status int
		fmt.Sscan(head, &status)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		return
	}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/chat/completions"):
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`)
	case strings.HasSuffix(path, "/responses"):
		_, _ = io.WriteString(w, `{"id":"resp_up","object":"response","status":"completed","model":"x","output":[{"id":"msg_up","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}],"usage":{"input_tokens":5,"output_tokens":3,"total_tokens":8}}`)
	case strings.HasSuffix(path, "/messages"):
		_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","usage":{"input_tokens":4,"output_tokens":2}}`)
	case strings.Contains(path, ":generateContent"):
		_, _ = io.WriteString(w, `{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2}}`)
	case strings.HasSuffix(path, "/converse"):
		_, _ = io.WriteString(w, `{"output":{"message":{"role":"assistant","content":[{"text":"Hi."}]}},"stopReason":"end_turn","usage":{"inputTokens":4,"outputTokens":2,"totalTokens":6}}`)
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

// blameSite is a server with a model in each dialect at the upstream.
func blameSite(t *testing.T, url string) *node {
	t.Helper()
	return newSite(t, fmt.Sprintf(`
plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}
providers:
- {name: openai, kind: openai, base_url: %[1]q, api_key: upstream-key}
- {name: native, kind: openai, base_url: %[1]q, api_key: upstream-key, api: responses}
- {name: claude, kind: anthropic, base_url: %[2]q, api_key: upstream-key}
- {name: google, kind: gemini, base_url: %[2]q, api_key: upstream-key}
- {name: aws, kind: bedrock, base_url: %[2]q, access_key_id: upstream-id, secret_access_key: upstream-secret, region: us-east-1}
models:
- {id: m/chat, provider: openai, plan: free, context_length: 8192, max_output: 100}
- {id: m/responses, provider: native, plan: free, context_length: 8192, max_output: 100}
- {id: m/messages, provider: claude, upstream: claude-sonnet-4-5, plan: free, context_length: 8192, max_output: 100}
- {id: m/gemini, provider: google, upstream: gemini-3.8-flash, plan: free, context_length: 8192, max_output: 100}
- {id: m/bedrock, provider: aws, upstream: anthropic.claude-sonnet-4-5, plan: free, context_length: 8192, max_output: 100}
`, url+"/v1", url)).start(t)
}

// blameCall is a request for a model in the dialect of its name. Text is what the model is told, and more are further
// members, each with a comma before it.
func blameCall(dialect, text, more string) (path, body string) {
	switch dialect {
	case "responses":
		return responsesPath, fmt.Sprintf(`{"model":"m/responses","input":%q%s}`, text, more)
	case "messages":
		return "/v1/messages", fmt.Sprintf(`{"model":"m/messages","max_tokens":50,"messages":[{"role":"user","content":%q}]%s}`, text, more)
	}
	return "/v1/chat/completions", fmt.Sprintf(`{"model":"m/%s","messages":[{"role":"user","content":%q}]%s}`, dialect, text, more)
}

// One account makes a mistake again and again, and gets an error that says so. Another account must not notice anything
// of it (docs/providers/routing.md#whose-fault-a-failure-is).
func TestMistakesOfOneCaller(t *testing.T) {
	t.Parallel()
	up := &wrong{}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	n := blameSite(t, server.URL)
	careless := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "scale"}).MasterKey
	careful := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com", Plan: "scale"}).MasterKey
	const thread = `404` + "\n" + `{"type":"error","error":{"type":"not_found_error","message":"The thread is unknown or has expired.","details":{"error_code":"thread_not_found","at":"https://inside.example.com/x"}}}`
	const object = `404` + "\n" + `{"error":{"message":"No object with id 'obj_123456' was found.","type":"invalid_request_error","param":null,"code":null}}`
	wrongRequest := func(status int) string {
		return fmt.Sprintf("%d\n%s", status, `{"error":{"message":"Something in the request is wrong.","type":"invalid_request_error"}}`)
	}
	const xai = `403` + "\n" + `{"code":"permission-denied","error":"Content violates usage guidelines. Team: t-1, API key ID: k-1, Failed check: BIO"}`
	const flagged = `403` + "\n" + `{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"],"flagged_input":"x"}}}`
	same, translated := []string{"chat", "responses", "messages"}, []string{"gemini", "bedrock"}
	all := slices.Concat(same, translated)
	for _, tt := range []struct {
		name, answer, more string
		dialects           []string
		times              int
		status             int
		want               string // part of what the caller reads
	}{
		{"an object of the vendor's", thread, `,"reference":{"thread":"t_123456"}`, []string{"messages"}, 100, 404, `"details":{"at":"…","error_code":"thread_not_found"}`},
		{"an unknown thread", thread, `,"thread":{"type":"continue","previous_message_id":"msg_1"}`, []string{"chat"}, 10, 404, `"type":"not_found_error","code":404,"details":{"at":"…","error_code":"thread_not_found"}`},
		{"an object in a field that is not known", object, `,"reference":"obj_123456"`, []string{"chat", "responses"}, 100, 404, "obj_123456"},
		{"a name written with escapes", thread, `,"\u0074hread":{"type":"continue"}`, []string{"chat"}, 10, 404, "The thread is unknown"},
		{"status 400", wrongRequest(400), "", all, 10, 400, "Something in the request is wrong."},
		{"status 413", wrongRequest(413), "", same, 10, 413, "Something in the request is wrong."},
		{"status 422", wrongRequest(422), "", same, 10, 422, "Something in the request is wrong."},
		{"status 413, translated", wrongRequest(413), "", translated, 10, 400, "Something in the request is wrong."},
		{"status 422, translated", wrongRequest(422), "", translated, 10, 400, "Something in the request is wrong."},
		{"content that xAI does not allow", xai, "", []string{"chat", "responses"}, 10, 400, "its rules do not allow the content"},
		{"content that OpenRouter does not allow", flagged, "", []string{"chat"}, 10, 400, "flagged"},
		{"an error inside of a reply", "200\n" + `{"id":"r","object":"response","status":"failed","error":{"code":"invalid_prompt","message":"The prompt is not allowed."},"output":[]}`, "", []string{"responses"}, 10, 400, "The prompt is not allowed."},
		{"a request beyond the allowance of a minute", "429\n" + `{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 45000.","type":"tokens","code":"rate_limit_exceeded"}}`, "", []string{"chat"}, 4, 503, "Send a shorter one"},
		{"a call of a tool that cannot be read", "200\n" + `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`, "", []string{"gemini"}, 4, 503, "cannot be read"},
	} {
		up.answer.Store(&tt.answer)
		for _, dialect := range tt.dialects {
			path, mistake := blameCall(dialect, "MISTAKE", tt.more)
			_, fine := blameCall(dialect, "Hello?", "")
			for i := range tt.times {
				if r := n.request("POST", path, careless, mistake); r.status != tt.status || !strings.Contains(r.body, tt.want) {
					t.Errorf("%s, %s: call %d = %d %s, want %d with %s", tt.name, dialect, i, r.status, r.body, tt.status, tt.want)
					break
				}
				if r := n.request("POST", path, careful, fine); r.status != 200 {
					t.Errorf("%s, %s: the other account's call %d = %d %s, want 200", tt.name, dialect, i, r.status, r.body)
					break
				}
			}
		}
	}
}

// A model that the upstream does not have is the operator's mistake, whatever the request names: the caller gets a 503,
// and the model's targets count as failed.
func TestMistakesOfTheOperator(t *testing.T) {
	t.Parallel()
	up := &wrong{}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	for _, tt := range []struct{ dialect, answer, more string }{
		{"chat", `{"error":{"message":"The model 'm/chat' does not exist.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, `,"conversation":"conv_123456"`},
		{"responses", `{"error":{"message":"The requested model 'm/responses' does not exist.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, `,"reference":"m/responses"`},
		{"messages", `{"type":"error","error":{"type":"not_found_error","message":"model: claude-sonnet-4-5"}}`, `,"reference":{"thread":"claude-sonnet-4-5"}`},
		{"gemini", `{"error":{"code":404,"message":"models/gemini-3.8-flash is not found for API version v1beta.","status":"NOT_FOUND"}}`, ""},
		{"bedrock", `{"message":"The model is not there."}`, ""},
		{"chat", "<html>404</html>", `,"conversation":"conv_123456"`},
		{"chat", `{"detail":"Not Found"}`, ""},
	} {
		answer := "404\n" + tt.answer
		up.answer.Store(&answer)
		n := blameSite(t, server.URL)
		path, mistake := blameCall(tt.dialect, "MISTAKE", tt.more)
		for range 4 {
			if r := n.request("POST", path, n.OwnerKey(), mistake); r.status != 503 || strings.Contains(r.body, "exist") {
				t.Errorf("%s: a model that is not there (%s) = %d %s, want 503 without a word of the upstream's", tt.dialect, tt.answer, r.status, r.body)
			}
		}
		if r := n.request("POST", path, n.OwnerKey(), mistake); r.header.Get("X-Sluice-Attempts") != "" {
			t.Errorf("%s: after four failures the upstream is still asked: %d %s", tt.dialect, r.status, r.body)
		}
	}
}

// Every page says the same of a model whose only provider refuses every connection, also when its breaker tries again
// (docs/providers/routing.md#down).
func TestHealthIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.NotFoundHandler())
	refusing.Close()
	n := newSite(t, fmt.Sprintf(`
signup: open
sandbox: false
providers: [{name: gone, kind: openai, base_url: %q}]
models: [{id: lab/gone, provider: gone, plan: free, context_length: 8192, max_output: 100}]
`, refusing.URL+"/v1")).start(t)
	for range 3 {
		if r := n.request("POST", "/v1/chat/completions", n.OwnerKey(), `{"model":"lab/gone","messages":[{"role":"user","content":"Hello?"}]}`); r.status != 503 {
			t.Fatalf("a call = %d %s, want 503", r.status, r.body)
		}
	}
	eventually(t, "the breaker to try again", func() bool {
		return must[admin.Status](n, "status", admin.Empty{}).Targets[0].State == routing.HalfOpen
	})
	if body := n.look("/status", "text/html").body; strings.Contains(body, "All systems operational") || !strings.Contains(body, "One model cannot be called") {
		t.Error("/status says that all is well")
	}
	if got := n.modelStates()["lab/gone"].Health; got != "down" {
		t.Errorf("the catalog says %q, want down", got)
	}
	eve, _ := n.staffMember("eve@example.com")
	eve.wants(eve.get("/support/overview"), "the overview", 200, `1 down`)
	eve.wants(eve.get("/support/upstreams"), "the upstreams", 200, `<span class="badge bad">down</span>`)
}
