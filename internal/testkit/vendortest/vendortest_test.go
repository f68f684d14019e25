package vendortest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	atChat      = "/v1/chat/completions"
	atResponses = "/v1/responses"
	atMessages  = "/v1/messages"
	atGemini    = "/v1beta/models/gemini-3.8-flash:generateContent"
	atConverse  = "/model/anthropic.claude-sonnet-5-5/converse"

	user     = `{"role":"user","content":"Hi"}`
	tool     = `{"type":"function","function":{"name":"f"}}`
	claude   = `"model":"claude-sonnet-5-5","max_tokens":50,`
	someone  = `"contents":[{"role":"user","parts":[{"text":"Hi"}]}]`
	toolUse  = `{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}`
	toolDone = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"1"}]}`
)

// ask sends a body with every vendor's key, and returns the status and the reply.
func ask(v *Vendor, path, body string, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for name, value := range map[string]string{
		"Api-Key": "vendor-key", "X-Api-Key": "vendor-key", "X-Goog-Api-Key": "vendor-key", "Anthropic-Version": "2023-06-01",
		"Authorization": "AWS4-HMAC-SHA256 Credential=id/20261118/us-east-1/bedrock/aws4_request",
	} {
		r.Header.Set(name, value)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// A fake that takes everything proves nothing: each refuses what its vendor refuses, in the vendor's words, and takes the rest.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, body string
		says       string // empty: it is taken
		header     []string
	}{
		{atChat, `{"model":"gpt-6-sol","messages":[` + user + `]}`, "", nil},
		{atChat, `{"model":"gpt-6-sol","messages":[` + user + `],"tools":[` + tool + `],"reasoning_effort":"none"}`, "", nil},
		{atChat, `{"model":"gpt-6-sol","messages":[` + user + `],"tools":[` + tool + `]}`, "Function tools with reasoning_effort are not supported", nil},
		{atChat, `{"model":"gpt-6.1-sol","messages":[` + user + `],"tools":[` + tool + `],"reasoning_effort":"none"}`, "Function tools with reasoning_effort are not supported", nil},
		{atChat, `{"model":"gpt-6-sol","messages":[` + user + `],"reasoning_effort":"minimal"}`, "Unsupported value: 'minimal'", nil},
		{atChat, `{"model":"gpt-6.1-sol","messages":[` + user + `],"reasoning_effort":"none"}`, "Unsupported value: 'none'", nil},
		{atChat, `{"model":"gpt-6-sol","messages":[` + user + `],"temperature":1}`, "'temperature' is not supported", nil},
		{atChat, `{"model":"gpt-6-sol","messages":[` + user + `],"temperature":1,"reasoning_effort":"none"}`, "", nil},
		{atChat, `{"model":"gpt-6-sol","messages":[` + user + `],"top_k":1}`, "Unknown parameter: 'top_k'", nil},
		{atChat, `{"model":"gpt-6-sol","messages":[` + user + `],"max_tokens":1}`, "Use 'max_completion_tokens' instead", nil},
		{atChat, `{"model":"lab","messages":[{"role":"developer","content":"x"}]}`, "Unexpected message role", nil},
		{atChat, `{"model":"lab","messages":[{"role":"tool","tool_call_id":"x","content":"1"}]}`, "must be a response to a preceding message", nil},
		{atChat, `{"model":"lab","messages":[{"role":"assistant","tool_calls":[{"id":"a"}]},` + user + `]}`, "must be followed by tool messages", nil},
		{atChat, `{"model":"lab","messages":[]}`, "empty array", nil},
		{atChat, `{"model":"lab","messages":[` + user + `]}`, "Incorrect API key", []string{"Api-Key", "", "Authorization", ""}},

		{atResponses, `{"model":"gpt-6-sol","input":"Hi","tools":[{"type":"function","name":"f"}]}`, "", nil},
		{atResponses, `{"model":"gpt-6-sol","input":"Hi","messages":[]}`, "Unknown parameter: 'messages'", nil},
		{atResponses, `{"model":"gpt-6-sol","input":"Hi","reasoning":{"effort":"minimal"}}`, "Unsupported value", nil},
		{atResponses, `{"model":"gpt-6-sol","input":"Hi","top_p":0.5}`, "'top_p' is not supported", nil},
		{atResponses, `{"model":"gpt-6-sol","input":[{"type":"tomorrow"}]}`, "Invalid value: 'tomorrow'", nil},
		{atResponses, `{"model":"gpt-6-sol","input":"Hi","tools":[{"type":"tomorrow"}]}`, "Invalid value: 'tomorrow'", nil},
		{atResponses, `{"model":"gpt-6-sol","input":"Hi","tools":[{"type":"function","name":"a.b"}]}`, "does not match pattern", nil},
		{atResponses, `{"model":"gpt-6-sol","input":[{"type":"function_call","call_id":"a"}]}`, "No tool output found for function call a", nil},
		{atResponses, `{"model":"gpt-6-sol","input":[{"type":"function_call_output","call_id":"a"}]}`, "No tool call found", nil},
		{atResponses, `{"model":"gpt-6-sol","input":[{"type":"reasoning","encrypted_content":"x"}]}`, "could not be verified", nil},
		{atResponses, `{"model":"gpt-6-sol","input":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`, "Invalid value: 'text'", nil},

		{atMessages, `{` + claude + `"messages":[` + user + `]}`, "", nil},
		{atMessages, `{"model":"claude-sonnet-5-5","messages":[` + user + `]}`, "max_tokens: Field required", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `],"tomorrow":1}`, "tomorrow: Extra inputs are not permitted", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `],"temperature":1}`, "`temperature` is deprecated", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `],"temperature":1}`, "temperature: Extra inputs are not permitted", []string{"Anthropic-Version", "2026-10-21"}},
		{atMessages, `{` + claude + `"messages":[` + user + `]}`, "not a valid version", []string{"Anthropic-Version", "2027-01-01"}},
		{atMessages, `{` + claude + `"messages":[` + user + `],"thread":{"type":"create"}}`, "thread: Extra inputs", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `],"thread":{"type":"create"}}`, "", []string{"Anthropic-Beta", threadBeta}},
		{atMessages, `{` + claude + `"messages":[` + user + `],"thread":{"type":"continue","previous_message_id":"x"}}`, "thread_not_found", []string{"Anthropic-Beta", threadBeta}},
		{atMessages, `{` + claude + `"messages":[` + user + `],"thinking":{"type":"enabled","budget_tokens":2000}}`, "thinking.type: enabled is not supported", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `],"thinking":{"type":"adaptive","block_binding":{}}}`, "thinking.block_binding: Extra inputs", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `],"output_config":{"effort":"minimal"}}`, "output_config.effort", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `],"tools":[{"name":"f"}]}`, "input_schema.type: Field required", nil},
		{atMessages, `{` + claude + `"messages":[{"role":"assistant","content":"x"}]}`, "first message must use", nil},
		{atMessages, `{` + claude + `"messages":[{"role":"system","content":"x"},` + user + `]}`, "messages.0: a system message must follow", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `,{"role":"system","content":"x"}]}`, "", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `,{"role":"assistant","content":"x"}]}`, "does not support assistant message prefill", nil},
		{atMessages, `{` + claude + `"messages":[{"role":"user","content":[{"type":"text","text":""}]}]}`, "must be non-empty", nil},
		{atMessages, `{` + claude + `"messages":[{"role":"user","content":[{"type":"tomorrow"}]}]}`, "Input tag 'tomorrow'", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `,` + toolUse + `,` + user + `]}`, "were found without `tool_result` blocks", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `,` + toolDone + `]}`, "unexpected `tool_use_id`", nil},
		{atMessages, `{` + claude + `"messages":[` + user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"x"}]},` + user + `]}`, "Invalid `signature` in `thinking` block", nil},
		{atMessages, `{` + claude + `"messages":[{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 4) + `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}`, "A maximum of 4 blocks", nil},
		{atMessages, `{"model":"claude-fable-5-1","max_tokens":50,"messages":[` + user + `],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}}`, "forced tool use", nil},

		{atGemini, `{` + someone + `}`, "", nil},
		{atGemini, `{` + someone + `,"tomorrow":1}`, `Unknown name \"tomorrow\"`, nil},
		{atGemini, `{` + someone + `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"MINIMAL"}}}`, "MINIMAL is not supported", nil},
		{atGemini, `{` + someone + `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","thinkingBudget":0}}}`, "only set one of", nil},
		{atGemini, `{"contents":[]}`, "contents is not specified", nil},
		{atGemini, `{"contents":[{"role":"assistant","parts":[{"text":"x"}]}]}`, "valid role", nil},
		{atGemini, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`, "missing a thought_signature", nil},
		{atGemini, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"eHl6"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`, "not valid", nil},
		{atGemini, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="}]},{"role":"user","parts":[{"text":"x"}]}]}`, "number of function response parts", nil},

		{atConverse, `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}`, "", nil},
		{atConverse, `{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"model":"x"}`, "unknown member model", nil},
		{atConverse, `{"messages":[{"role":"user","content":[{"text":"Hi"}]},{"role":"user","content":[{"text":"Hi"}]}]}`, "must alternate", nil},
		{atConverse, `{"messages":[{"role":"user","content":[{"text":" "}]}]}`, "is blank", nil},
		{atConverse, `{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[]}}]}]}`, "toolConfig field must be defined", nil},
		{atConverse, `{"messages":[{"role":"user","content":[{"text":"Hi"}]}],"inferenceConfig":{"temperature":1}}`, "deprecated for this model", nil},
		{atConverse, `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}`, "Missing Authentication Token", []string{"Authorization", "Bearer x"}},
	} {
		status, body := ask(&Vendor{}, tt.path, tt.body, tt.header...)
		if taken := status == http.StatusOK; taken != (tt.says == "") || !strings.Contains(body, tt.says) {
			t.Errorf("POST %s %s = %d %s, want %q", tt.path, tt.body, status, body, tt.says)
		}
	}
}

// Signed thinking belongs to the conversation that it was made in, and what is kept of it has no gap.
func TestBinding(t *testing.T) {
	t.Parallel()
	v := &Vendor{}
	signatures := []string{}
	turns := user
	for range 3 {
		status, body := ask(v, atMessages, `{`+claude+`"messages":[`+turns+`]}`)
		_, rest, _ := strings.Cut(body, `"signature":"`)
		signature, _, _ := strings.Cut(rest, `"`)
		if status != http.StatusOK || signature == "" {
			t.Fatalf("turn %d = %d %s", len(signatures), status, body)
		}
		signatures = append(signatures, signature)
		turns += `,` + turnOf(signature) + `,` + user
	}
	with := func(kept ...string) string {
		all := user
		for _, s := range kept {
			all += `,` + turnOf(s) + `,` + user
		}
		return `{` + claude + `"messages":[` + all + `]}`
	}
	a, b, c := signatures[0], signatures[1], signatures[2]
	for _, tt := range []struct {
		name, body string
		ok         bool
	}{
		{"all", with(a, b, c), true},
		{"none", with("", "", ""), true},
		{"without the oldest", with("", b, c), true},
		{"without the newest", with(a, b, ""), true},
		{"with a gap", with(a, "", c), false},
		{"in another order", with(b, a, c), false},
		{"other instructions", strings.Replace(with(a, b, c), `"messages"`, `"system":"x","messages"`, 1), false},
		{"other tools", strings.Replace(with(a, b, c), `"messages"`, `"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages"`, 1), false},
		{"another beginning", strings.Replace(with(a, b, c), `"Hi"`, `"Hi!"`, 1), false},
		{"a text as a block", strings.Replace(with(a, b, c), `"Hi"`, `[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]`, 1), true},
		{"another effort", strings.Replace(with(a, b, c), `"messages"`, `"output_config":{"effort":"low"},"messages"`, 1), true},
	} {
		status, body := ask(v, atMessages, tt.body)
		if (status == http.StatusOK) != tt.ok || !tt.ok && !strings.Contains(body, "bound to a different conversation") {
			t.Errorf("%s = %d %s, want it taken: %t", tt.name, status, body, tt.ok)
		}
	}
}

// turnOf is a turn of the assistant with a thought, unless the signature is empty.
func turnOf(signature string) string {
	thought := ""
	if signature != "" {
		thought = fmt.Sprintf(`{"type":"thinking","thinking":"","signature":%q},`, signature)
	}
	return `{"role":"assistant","content":[` + thought + `{"type":"text","text":"Hello, wörld."}]}`
}
