package app_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// mantle is Amazon Bedrock with the APIs of its models' vendors. It refuses requests that are not signed as they must be.
type mantle struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string // the paths and bodies that were accepted
}

const (
	mantleID, mantleSecret, mantleToken = "AKIACANARY", "mantle-secret-canary", "mantle-session-canary"
	mantleKey                           = "mantle-bearer-canary"
)

func newMantle(t *testing.T) *mantle {
	t.Helper()
	m := &mantle{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Api-Key") != mantleKey && r.Header.Get("Authorization") != "Bearer "+mantleKey && !signedFor(r, body) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"type":"error","error":{"type":"permission_error","message":"The signature of %s does not match: %s"}}`, mantleID, r.Header.Get("Authorization"))
			return
		}
		m.mu.Lock()
		m.sent = append(m.sent, r.URL.Path+" "+string(body))
		m.mu.Unlock()
		switch r.URL.Path {
		case "/anthropic/v1/messages":
			io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"from claude"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":2},"of_the_vendor":1}`)
		case "/openai/v1/responses":
			io.WriteString(w, `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"gpt","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"from gpt","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// signedFor reports whether a request has the signature that AWS expects, by signing it again.
func signedFor(r *http.Request, body []byte) bool {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(at).Abs() > 5*time.Minute || r.Header.Get("X-Amz-Security-Token") != mantleToken {
		return false
	}
	again := r.Clone(r.Context())
	again.Header = http.Header{}
	_, list, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	for name := range strings.SplitSeq(list, ";") {
		if value := r.Header.Get(name); value != "" && name != "content-length" {
			again.Header.Set(name, value)
		}
	}
	again.ContentLength = int64(len(body))
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: mantleID, SecretAccessKey: mantleSecret, SessionToken: mantleToken}
	err = v4.NewSigner().SignHTTP(r.Context(), keys, again, hex.EncodeToString(sum[:]), "bedrock-mantle", "eu-west-3", at)
	return err == nil && again.Header.Get("Authorization") == r.Header.Get("Authorization")
}

// take returns what was sent since the last call.
func (m *mantle) take() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := strings.Join(m.sent, "\n")
	m.sent = nil
	return all
}

// Bedrock's native APIs are those of the models' vendors: each door's own words reach the one of its dialect, and other
// requests are translated for it.
func TestBedrockNative(t *testing.T) {
	t.Parallel()
	const question = `"messages":[{"role":"user","content":"Hello."}]`
	for name, credentials := range map[string]string{
		"signed": "access_key_id: " + mantleID + ", secret_access_key: " + mantleSecret + ", session_token: " + mantleToken,
		"bearer": "api_key: " + mantleKey,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMantle(t)
			n := newSite(t, fmt.Sprintf(`
providers: [{name: aws, kind: bedrock, api: native, region: eu-west-3, base_url: %q, %s}]
models:
- {id: m/claude, provider: aws, upstream: anthropic.claude-opus-4-7, plan: free, context_length: 8192, max_output: 100}
- {id: m/gpt, provider: aws, upstream: openai.gpt-5.6, plan: free, context_length: 8192, max_output: 100}
- {id: m/nova, provider: aws, upstream: amazon.nova-2-lite-v1:0, plan: free, context_length: 8192, max_output: 100}
`, m.URL, credentials)).start(t)
			key := n.OwnerKey()
			for _, tt := range []struct {
				path, body string
				status     int
				reply      string   // part of it
				sent       []string // parts of what the upstream got; none if it must get nothing
			}{
				{"/v1/messages", `{"model":"m/claude","max_tokens":50,"of_the_caller":{"x":1},` + question + `}`, 200, `"of_the_vendor":1`, []string{`/anthropic/v1/messages {"model":"anthropic.claude-opus-4-7","max_tokens":50,"of_the_caller":{"x":1},`}},
				{"/v1/messages", `{"model":"m/gpt","max_tokens":50,` + question + `}`, 200, "from gpt", []string{"/openai/v1/responses ", `"model":"openai.gpt-5.6"`}},
				{"/v1/responses", `{"model":"m/gpt","input":"Hello.","of_the_caller":1}`, 200, "from gpt", []string{"/openai/v1/responses ", `"of_the_caller":1`}},
				{"/v1/responses", `{"model":"m/claude","input":"Hello."}`, 200, "from claude", []string{"/anthropic/v1/messages "}},
				{"/v1/chat/completions", `{"model":"m/claude",` + question + `}`, 200, "from claude", []string{"/anthropic/v1/messages ", `"model":"anthropic.claude-opus-4-7"`}},
				{"/v1/chat/completions", `{"model":"m/gpt",` + question + `}`, 200, "from gpt", []string{"/openai/v1/responses "}},
				{"/v1/chat/completions", `{"model":"m/nova",` + question + `}`, 503, "not available", nil},
			} {
				r := n.request("POST", tt.path, key, tt.body)
				sent := m.take()
				if r.status != tt.status || !strings.Contains(r.body, tt.reply) || (sent == "") != (tt.sent == nil) {
					t.Errorf("POST %s %s = %d %s, sent %s; want %d with %s", tt.path, tt.body, r.status, r.body, sent, tt.status, tt.reply)
				}
				for _, part := range tt.sent {
					if !strings.Contains(sent, part) {
						t.Errorf("POST %s %s sent %s, want %s in it", tt.path, tt.body, sent, part)
					}
				}
			}
			if log := n.log.String(); !strings.Contains(log, "without api: native") {
				t.Errorf("the log does not say what to do about the model of another vendor:\n%s", log)
			}
		})
	}
}

// A refused signature tells nobody the keys, though the upstream repeats them.
func TestBedrockNativeRefused(t *testing.T) {
	t.Parallel()
	m := newMantle(t)
	n := newSite(t, fmt.Sprintf(`
providers: [{name: aws, kind: bedrock, api: native, region: us-east-1, base_url: %q, access_key_id: %s, secret_access_key: %s, session_token: %s}]
models: [{id: m/claude, provider: aws, upstream: anthropic.claude-opus-4-7, plan: free, context_length: 8192, max_output: 100}]
`, m.URL, mantleID, mantleSecret, mantleToken)).start(t)
	r := n.request("POST", "/v1/messages", n.OwnerKey(), `{"model":"m/claude","max_tokens":50,"messages":[{"role":"user","content":"Hello."}]}`)
	if m.take() != "" || r.status == 200 || !json.Valid([]byte(r.body)) {
		t.Errorf("a request with the signature of another region = %d %s, want it refused", r.status, r.body)
	}
	for _, secret := range []string{mantleID, mantleSecret, mantleToken} {
		if strings.Contains(r.body+n.log.String(), secret) {
			t.Errorf("the reply or the log tells %s:\n%s\n%s", secret, r.body, n.log)
		}
	}
}
