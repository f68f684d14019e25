package provider_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// vendorsOnLength are sentences of vendors about a prompt that is too long, with what they say of its tokens, of the
// model's window, and of the reply beside which it would fit.
var vendorsOnLength = []struct {
	body                string
	tokens, most, reply int
}{
	{`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205123 tokens > 200000 maximum"}}`, 205123, 200000, 0},
	{`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}`, 0, 0, 0},
	{"{\"type\":\"error\",\"error\":{\"message\":\"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again\"}}", 188240, 200000, 21333},
	{`{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens. Please reduce the length of the messages.","code":"context_length_exceeded","param":"messages"}}`, 130001, 128000, 0},
	{`{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","code":"context_length_exceeded","param":"input"}}`, 0, 0, 0},
	{`{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please reduce the length of the messages.","code":"context_length_exceeded"}}`, 300000, 272000, 0},
	{`{"error":{"message":"No words that are known.","code":"context_length_exceeded"}}`, 0, 0, 0},
	{`{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 4726 tokens (4526 in the messages, 200 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}`, 4526, 4096, 0},
	{`{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 0 output tokens and your prompt contains at least 4097 input tokens, for a total of at least 4097 tokens. (parameter=input_tokens, value=4097)","type":"BadRequestError","code":400}}`, 4097, 4096, 0},
	{`{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192.","code":400}`, 9000, 8192, 0},
	{`{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one.","code":400}}`, 42832, 32768, 0},
	{`{"error":{"message":"Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 132000 tokens: 130000 tokens from the input messages and 2000 tokens for the completion.","code":400}}`, 130000, 131072, 2000},
	{`{"error":{"message":"The input (9000 tokens) is longer than the model's context length (8192 tokens)."}}`, 9000, 8192, 0},
	{`{"error":{"code":400,"message":"request (4476 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4476,"n_ctx":4096}}`, 4476, 4096, 0},
	{`{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"invalid_request_error"}}`, 0, 0, 0},
	{`{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":3051}`, 40000, 32768, 0},
	{`[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, 1196265, 1048576, 0},
	{`{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed 1048576.","status":"INVALID_ARGUMENT"}}`, 0, 1048576, 0},
	{`{"message":"Input is too long for requested model."}`, 0, 0, 0},
	{`{"message":"The model returned the following errors: prompt is too long: 210000 tokens > 200000 maximum"}`, 210000, 200000, 0},
	{`{"message":"Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."}`, 0, 0, 0},
	{`{"message":"Too many input tokens. Max input tokens: 8192, request input token count: 8900 "}`, 8900, 8192, 0},
	{`{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, 537812, 131072, 0},
	{`{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, 0, 0, 0},
	{`{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}`, 9000, 8192, 0},
	{`{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292."}`, 4292, 4081, 0},
	{`{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 265000)","type":"invalid_request_error"}}`, 265000, 262144, 0},
	{`{"error":{"message":"invalid params, context window exceeds limit (2013)","type":"bad_request_error"}}`, 0, 0, 0},
	{`{"error":{"message":"prompt token count of 130000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}`, 130000, 128000, 0},
	{`{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","code":"invalid_parameter_error"}}`, 0, 129024, 0},
	{"{\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`\",\"type\":\"Input validation error\"}}", 5000, 4096, 0},
	{`{"error":{"message":"The prompt is too long: 140000, model maximum context length: 131071"}}`, 140000, 131071, 0},
	{`{"error":"the input length exceeds the context length"}`, 0, 0, 0},
	{`{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length."}`, 0, 0, 0},
	{`{"error":{"message":"The total length of all messages is too long."}}`, 0, 0, 0},
}

// Callers of every dialect read that a prompt is too long in the words of chat completions, or in those of their own
// dialect where the upstream speaks it; numbers that the upstream does not give are ours.
func TestTellLong(t *testing.T) {
	t.Parallel()
	for _, v := range vendorsOnLength {
		tokens, most := v.tokens, v.most
		if tokens == 0 {
			tokens = max(7000, most+1)
		}
		if most == 0 {
			most, tokens = 5000, 7000
		}
		for _, dialect := range []string{"", chat.DialectResponses, chat.DialectMessages} {
			f := provider.Refused(http.StatusBadRequest, nil, []byte(v.body))
			_ = provider.Tell(f, provider.Listener{Dialect: dialect, Model: "lab/m", Upstream: "u", Window: 5000, Tokens: func() int { return 7000 }})
			if f.Long == nil || f.Long.Tokens != tokens || f.Long.Most != most || f.Long.Reply != v.reply || f.Kind != fault.Invalid || f.Status() != 400 || f.Reason != "context_length_exceeded" || f.TypeName() != "invalid_request_error" {
				t.Errorf("%s = %+v, %+v; want %d tokens and %d of %d", v.body, f, f.Long, tokens, v.reply, most)
			}
			if strings.Contains(f.Message, "refused") || provider.Counts(f) || !provider.WasSent(f) {
				t.Errorf("%s = %v, want it the caller's own, without our sentence in front", v.body, f)
			}
		}
	}
	for _, body := range []string{
		`{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 8192 tokens and your request has 500 input tokens (8000 > 8192 - 500)."}}`,
		`{"error":{"message":"max_tokens: 300000 > 64000, which is the maximum allowed number of output tokens for this model"}}`,
		`{"error":{"message":"Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760.","code":"string_above_max_length"}}`,
		`{"error":{"message":"tools.0.name: too long"}}`,
		``,
	} {
		f := provider.Refused(http.StatusBadRequest, nil, []byte(body))
		_ = provider.Tell(f, provider.Listener{Model: "lab/m", Upstream: "u", Window: 5000, Tokens: func() int { return 7000 }})
		if f.Long != nil || f.Reason != "" {
			t.Errorf("%s is taken for a prompt that is too long", body)
		}
	}
}

// A caller of the upstream's dialect reads the upstream's error, with our name of the model; others read our sentence.
func TestTell(t *testing.T) {
	t.Parallel()
	const refused = "The model's provider refused the request: "
	openAI := http.Header{"X-Request-Id": {"req_up1"}}
	same := provider.Listener{Same: true, Model: "lab/m", Upstream: "gpt-hidden", Window: 5000, Tokens: func() int { return 7000 }}
	other, claude := same, same
	other.Same, claude.Dialect = false, chat.DialectMessages
	long := strings.TrimSpace(strings.Repeat("word ", 300))
	for name, tt := range map[string]struct {
		to     provider.Listener
		status int
		body   string
		want   fault.Fault
		http   int
	}{
		"a value": {
			same, 400, `{"error":{"message":"gpt-hidden takes no 'top_p'.","type":"invalid_request_error","param":"top_p","code":"unsupported_parameter"}}`,
			fault.Fault{Kind: fault.Invalid, Message: "lab/m takes no 'top_p'.", Type: "invalid_request_error", Param: "top_p", Reason: "unsupported_parameter", Details: []byte(`{"request_id":"req_up1"}`)},
			400,
		},
		"a value, translated": {
			other, 400, `{"error":{"message":"gpt-hidden takes no 'top_p'.","type":"invalid_request_error","param":"top_p","code":"unsupported_parameter"}}`,
			fault.Fault{Kind: fault.Invalid, Message: refused + "lab/m takes no 'top_p'."},
			400,
		},
		"422 of a type of its own": {
			same, 422, `{"error":{"message":"Not an integer","type":"BadRequestError","param":null,"code":422}}`,
			fault.Fault{Kind: fault.Invalid, Message: "Not an integer", Details: []byte(`{"request_id":"req_up1"}`)},
			422,
		},
		"422, translated": {other, 422, `{"error":{"message":"Not an integer"}}`, fault.Fault{Kind: fault.Invalid, Message: refused + "Not an integer"}, 400},
		"413": {
			claude, 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"},"request_id":"req_up2"}`,
			fault.Fault{Kind: fault.TooLarge, Message: "Request exceeds the maximum size", Type: "request_too_large", Details: []byte(`{"request_id":"req_up1"}`)},
			413,
		},
		"a long message": {same, 400, `{"error":{"message":"` + long + `"}}`, fault.Fault{Kind: fault.Invalid, Message: long, Details: []byte(`{"request_id":"req_up1"}`)}, 400},
		"a filter":       {same, 403, `{"code":"permission-denied","error":"Content violates usage guidelines. Team: t-1"}`, fault.Fault{Kind: fault.Invalid, Message: refused + "its rules do not allow the content.", Reason: "permission-denied", Details: []byte(`{"request_id":"req_up1"}`)}, 400},
		"secrets": {
			same, 400, `{"error":{"message":"See https://inside.example.com/x","param":"https://inside.example.com/x","code":"sk-abcdefgh https://x","details":{"model":"gpt-hidden-2026","at":"http://x"}}}`,
			fault.Fault{Kind: fault.Invalid, Message: "See …", Param: "…", Details: []byte(`{"at":"…","model":"lab/m-2026","request_id":"req_up1"}`)},
			400,
		},
		"too long, in the dialect's words": {
			claude, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205123 tokens > 200000 maximum"}}`,
			fault.Fault{Kind: fault.Invalid, Message: "prompt is too long: 205123 tokens > 200000 maximum", Reason: fault.ReasonLong, Details: []byte(`{"request_id":"req_up1"}`)},
			400,
		},
		"too long, by the dialect's code": {
			same, 400, `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`,
			fault.Fault{Kind: fault.Invalid, Message: "Your input exceeds the context window of this model.", Param: "input", Reason: fault.ReasonLong, Details: []byte(`{"request_id":"req_up1"}`)},
			400,
		},
	} {
		f := provider.Refused(tt.status, openAI, []byte(tt.body))
		_ = provider.Tell(f, tt.to)
		if f.Kind != tt.want.Kind || f.Status() != tt.http || f.Message != tt.want.Message || f.Type != tt.want.Type || f.Param != tt.want.Param || f.Reason != tt.want.Reason || string(f.Details) != string(tt.want.Details) {
			t.Errorf("%s: %+v\nwant %+v", name, f, &tt.want)
		}
		if tt.to.Same != f.Quoted {
			t.Errorf("%s: in the caller's words = %t", name, f.Quoted)
		}
	}
}

// What is the operator's to mend stays as it is.
func TestTellNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 402, 403, 404, 429, 500} {
		f := provider.Refused(status, nil, []byte(`{"error":{"message":"gpt-hidden: prompt is too long","type":"invalid_request_error","code":"secret_code"}}`))
		was := *f
		_ = provider.Tell(f, provider.Listener{Same: true, Model: "lab/m", Upstream: "gpt-hidden", Tokens: func() int { return 1 }})
		if f.Message != was.Message || f.Status() != 503 || f.Reason != "" || f.Details != nil {
			t.Errorf("%d: %+v, want %+v", status, f, &was)
		}
	}
}

// Our name takes the place of the upstream's where that is a word of its own, or the beginning of a version.
func TestTellRenames(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"The model o3 is old":       "The model lab/m is old",
		"'o3' and models/o3.":       "'lab/m' and models/lab/m.",
		"o3-2026-01-01":             "lab/m-2026-01-01",
		"foo3 o3x go-o3 stay, o3_a": "foo3 o3x go-o3 stay, o3_a",
		"o3":                        "lab/m",
	} {
		f := provider.Refused(400, nil, errorBody(in))
		if _ = provider.Tell(f, provider.Listener{Same: true, Model: "lab/m", Upstream: "o3"}); f.Message != want {
			t.Errorf("%q = %q, want %q", in, f.Message, want)
		}
	}
}
