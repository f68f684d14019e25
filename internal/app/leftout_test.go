package app_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// Nothing is left out without a word: what a translated model does without is named, what changes the meaning is a 400, and
// what has an equal is translated.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	v, n := newPayee(t)
	key := n.OwnerKey()
	const (
		chatBody = `"messages":[{"role":"user","content":"Hi"}]`
		input    = `"input":"Hi"`
		message  = `"max_tokens":50,"messages":[{"role":"user","content":"Hi"}]`
	)
	for _, tt := range []struct {
		door, model, body string
		status            int
		dropped           string // or the param of a 400
		sent              string // a part of what the upstream gets
	}{
		{"chat", "messages-closed", `"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}]`, 200, "", `{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}`},
		{"chat", "messages-closed", `"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache\u005Fcontrol":{"type":"ephemeral"}}]}]`, 200, "", `{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}`},
		{"chat", "messages-closed", chatBody + `,"tools":[{"type":"function","function":{"name":"f"},"\u0063ache_control":{"type":"ephemeral"}}]`, 200, "", `"cache_control":{"type":"ephemeral"}`},
		{"chat", "responses-closed", `"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_contro\u006c":{"type":"ephemeral"}}]}]`, 200, "cache_control", ""},
		{"chat", "responses-closed", `"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}]`, 200, "cache_control", ""},
		{"chat", "chat-closed", `"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]}]`, 200, "", `"cache_control"`},
		{"chat", "messages-closed", `"messages":[{"role":"user","content":[{"type":"text","text":"Hi","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]}]`, 200, "messages[].content[].prompt_cache_breakpoint.ttl", `"cache_control":{"type":"ephemeral"}`},
		{"responses", "messages-closed", `"input":[{"role":"user","content":[{"type":"input_text","text":"Hi","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]}]`, 200, "input[].content[].prompt_cache_breakpoint.ttl", `"cache_control":{"type":"ephemeral"}`},

		{"messages", "thinks", message + `,"output_config":{"effort":"low"}`, 200, "", `"reasoning_effort":"low"`},
		{"messages", "thinks", message + `,"output_config":{"effort":"low"},"thinking":{"type":"disabled"}`, 200, "output_config.effort", ""},
		{"messages", "chat-closed", message + `,"context_management":{"edits":[]},"service_tier":"auto","speed":"fast"`, 200, "context_management, service_tier, speed", ""},
		{"messages", "chat-closed", message + `,"context_management":null`, 200, "", ""},
		{"messages", "chat-closed", message + `,"container":"c"`, 400, "container", ""},
		{"messages", "chat-closed", message + `,"inference_geo":"us"`, 400, "inference_geo", ""},
		{"messages", "chat-closed", `"max_tokens":50,"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"Hi"}]`, 200, "cache_control", ""},
		{"messages", "messages-closed", message + `,"context_management":{"edits":[]}`, 200, "", `"context_management"`},

		{"responses", "chat-closed", input + `,"seed":1,"logit_bias":{"1":2},"frequency_penalty":0.5,"presence_penalty":0.5,"logprobs":true,"modalities":["text"],"audio":{},"prediction":{}`, 200, "seed, logit_bias, frequency_penalty, presence_penalty, logprobs, modalities, audio, prediction", ""},
		{"responses", "chat-closed", input + `,"context_management":[{"type":"compaction"}],"prompt_cache_retention":"24h","moderation":{},"max_tool_calls":3,"top_logprobs":2`, 200, "context_management, prompt_cache_retention, moderation, max_tool_calls, top_logprobs", ""},
		{"responses", "chat-closed", input + `,"include":["message.output_text.logprobs"],"reasoning":{"mode":"pro","summary":"auto"},"text":{"new":1},"stream_options":{"include_obfuscation":true}`, 200, "include, reasoning.mode, text.new, stream_options.include_obfuscation", ""},
		{"responses", "chat-closed", input + `,"tools":[{"type":"function","name":"f","defer_loading":true}]`, 200, "tools[].defer_loading", ""},
		{"responses", "chat-closed", `"input":[{"role":"user","content":"Hi"},{"type":"web_search_call","id":"ws","status":"completed"}]`, 200, "input[].web_search_call", ""},
		{"responses", "chat-closed", input + `,"tools":[{"type":"custom","name":"f","defer_loading":true,"new":null}]`, 200, "tools[].defer_loading", ""},
		{"responses", "chat-closed", `"input":[{"role":"user","new":{"a":1},"content":[{"type":"input_text","text":"Hi","prompt_cache_breakpoint":{"mode":"explicit"},"none":null},{"type":"output_text","text":"a","annotations":[{}],"logprobs":[]}]}]`, 200, "input[].content[].prompt_cache_breakpoint, input[].new", ""},
		{"responses", "chat-closed", `"input":[{"role":"user","content":"Hi"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a","level":7}]}]`, 200, "input[].output[].level", ""},
		{"responses", "responses-closed", `"input":[{"role":"user","content":[{"type":"input_text","text":"Hi","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`, 200, "", `"prompt_cache_breakpoint"`},
		{"responses", "chat-closed", `"input":[{"role":"user","content":"Hi"},{"type":"tool_search_call","execution":"server","arguments":{}},{"type":"tool_search_output","execution":"server","status":"completed","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]},{"type":"mcp","server_label":"a","server_url":"https://a.example/"}]}],"tools":[{"type":"tool_search"}]`, 200, "tools.mcp, tools.tool_search, input[].tool_search_call, input[].tool_search_output", `"name":"n__f"`},
		{"responses", "chat-closed", `"input":[{"role":"user","content":"Hi"},{"type":"tool_search_call","call_id":"c","execution":"client","arguments":{"q":1}},{"type":"tool_search_output","call_id":"c","execution":"client","status":"completed","tools":[{"type":"function","name":"f"}]}],"tools":[{"type":"tool_search","execution":"client"}]`, 200, "", `"function":{"name":"tool_search","arguments":"{\"q\":1}"}`},
		{"responses", "responses-closed", `"input":[{"role":"user","content":"Hi"},{"type":"tool_search_call","call_id":"c","execution":"client","arguments":{}},{"type":"tool_search_output","call_id":"c","execution":"client","status":"completed","tools":[{"type":"function","name":"f"}]}],"tools":[{"type":"tool_search"}]`, 200, "", `"type":"tool_search_output"`},
		{"responses", "chat-closed", input + `,"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","async":true}]}]`, 200, "tools[].async", `"name":"n__f"`},
		{"responses", "thinks", `"input":[{"role":"user","content":"Hi"},{"type":"configuration_update","reasoning":{"effort":"high","x":1}}],"reasoning":{"effort":"low"}`, 200, "input[].reasoning.x", `"reasoning_effort":"high"`},
		{"responses", "chat-closed", `"input":[{"role":"user","content":[{"type":"part_of_tomorrow","x":1}]}]`, 400, "input[0].content[0].type", ""},
		{"responses", "responses-closed", `"input":[{"role":"user","content":[{"type":"part_of_tomorrow","x":1}]}]`, 200, "", `{"type":"part_of_tomorrow","x":1}`},
		{"responses", "chat-closed", input + `,"include":["tomorrow"],"reasoning":{"context":"all_turns"},"prompt_cache_options":{"mode":"explicit"}`, 200, "prompt_cache_options, include, reasoning.context", ""},
		{"responses", "responses-closed", input + `,"include":["tomorrow"],"reasoning":{"context":"all_turns"},"prompt_cache_options":{"mode":"explicit","comparison_response_id":"resp_1"},"access_programs":{"cyber":"standard"}`, 200, "comparison_response_id, access_programs", `"prompt_cache_options":{"mode":"explicit"}`},
		{"responses", "responses-open", input + `,"prompt_cache_options":{"comparison_response_id":"resp_1","prewarm":true}`, 200, "", `{"comparison_response_id":"resp_1","prewarm":true}`},
		{"responses", "responses-closed", input + `,"prompt_cache_options":{"prewarm":true}`, 400, "prompt_cache_options.prewarm", ""},
		{"responses", "responses-closed", input + `,"prompt_cache_options":{"prewarm":false}`, 200, "", `{"prewarm":false}`},
		{"responses", "chat-closed", input + `,"prompt_cache_options":{"prewarm":true}`, 400, "prompt_cache_options.prewarm", ""},
		{"responses", "chat-closed", input + `,"tool_choice":{"type":"tomorrow"}`, 400, "tool_choice.type", ""},
		{"responses", "responses-closed", input + `,"tool_choice":{"type":"tomorrow"}`, 200, "", `{"type":"tomorrow"}`},
		{"responses", "chat-closed", input + `,"stop":["x"]`, 400, "stop", ""},
		{"responses", "chat-closed", input + `,"n":2`, 400, "n", ""},
		{"responses", "chat-closed", input + `,"n":1,"stop":null,"seed":null`, 200, "", ""},
		{"responses", "chat-closed", input + `,"functions":[]`, 400, "functions", ""},
		{"responses", "chat-closed", input + `,"container":"c"`, 400, "container", ""},
		{"responses", "responses-closed", input + `,"context_management":[{"type":"compaction"}],"include":["message.output_text.logprobs"]`, 200, "", `"context_management"`},
		{"chat", "messages-closed", chatBody + `,"context_management":{}`, 200, "context_management", ""},
	} {
		path := map[string]string{"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}[tt.door]
		status, reply, dropped := n.knock(path, key, `{"model":"lab/`+tt.model+`",`+tt.body+`}`, "")
		heard := v.take()
		told := dropped == tt.dropped
		if status == 400 {
			told = strings.Contains(reply, `"param":"`+tt.dropped+`"`) || strings.Contains(reply, `"message":"`+tt.dropped+`: `)
		}
		if status != tt.status || !told || !strings.Contains(heard, tt.sent) {
			t.Errorf("%s to %s with %s = %d %s, dropped %q; the upstream got %s", tt.door, tt.model, tt.body, status, reply, dropped, heard)
		}
	}
}

// What a header switches on at Anthropic goes nowhere else.
func TestFeaturesLeftOut(t *testing.T) {
	t.Parallel()
	v, n := newPayee(t)
	key := n.OwnerKey()
	const body = `"max_tokens":50,"messages":[{"role":"user","content":"Hi"}]`
	for _, tt := range []struct{ model, beta, dropped, sent string }{
		{"chat-closed", "interleaved-thinking-2025-05-14,claude-code-20250219", "anthropic-beta", "anthropic-beta: \n"},
		{"responses-closed", "context-1m-2025-08-07", "anthropic-beta", "anthropic-beta: \n"},
		{"chat-closed", "", "", "anthropic-beta: \n"},
		{"messages-closed", "claude-code-20250219", "", "anthropic-beta: claude-code-20250219\n"},
		{"messages-closed", "context-1m-2025-08-07", "anthropic-beta.context-1m", "anthropic-beta: \n"},
	} {
		status, reply, dropped := n.knock("/v1/messages", key, `{"model":"lab/`+tt.model+`",`+body+`}`, tt.beta)
		if heard := v.take(); status != 200 || dropped != tt.dropped || !strings.HasPrefix(heard, tt.sent) {
			t.Errorf("%s with %s = %d %s, dropped %q, want %q; the upstream got %s", tt.model, tt.beta, status, reply, dropped, tt.dropped, heard)
		}
	}
}

// Items that only the dialect of Responses knows are passed on to an upstream of it, turn by turn, and are a 400 elsewhere.
func TestNativeItems(t *testing.T) {
	t.Parallel()
	v, n := newPayee(t)
	key := n.OwnerKey()
	calls := []string{
		`{"type":"local_shell_call","id":"lsh_1","call_id":"c","status":"completed","action":{"type":"exec","command":["ls"],"env":{}}}`,
		`{"type":"shell_call","id":"sh_1","call_id":"c","status":"completed","action":{"commands":["ls"]}}`,
		`{"type":"apply_patch_call","id":"apc_1","call_id":"c","status":"completed","operation":{"type":"delete_file","path":"a"}}`,
		`{"type":"computer_call","id":"cu_1","call_id":"c","status":"completed","pending_safety_checks":[],"action":{"type":"screenshot"}}`,
		`{"type":"program","id":"pr_1","call_id":"c","code":"x","fingerprint":"f"}`,
		`{"type":"compaction","id":"cmp_1","encrypted_content":"gAAAA"}`,
		`{"type":"item_of_tomorrow","id":"x_1"}`,
	}
	outputs := []string{
		`{"type":"local_shell_call_output","id":"lsh_1","output":"a"}`,
		`{"type":"shell_call_output","call_id":"c","output":[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`,
		`{"type":"apply_patch_call_output","call_id":"c","status":"completed","output":"done"}`,
		`{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,` + strings.Repeat("A", 400_000) + `"}}`,
		`{"type":"program_output","id":"po_1","call_id":"c","result":"r","status":"completed"}`,
		`{"role":"user","content":"Go on."}`,
		`{"role":"user","content":"Go on."}`,
	}
	plain := v.says["/v1/responses"]
	for i, call := range calls {
		v.mu.Lock()
		v.says["/v1/responses"] = strings.Replace(plain, `"output":[`, `"output":[`+call+`,`, 1)
		v.mu.Unlock()
		_, reply, _ := n.knock(responsesPath, key, `{"model":"lab/responses-closed","input":"Begin.","tools":[{"type":"shell"}]}`, "")
		var first struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(reply), &first); err != nil || first.ID == "" {
			t.Fatalf("the first turn = %s", reply)
		}
		v.take()
		// With the conversation that is stored here, and with one that the caller sends.
		kind, _, _ := strings.Cut(call, `,`)
		for _, input := range []string{
			`"previous_response_id":"` + first.ID + `","input":[` + outputs[i] + `]`,
			`"store":false,"input":[{"role":"user","content":"Begin."},` + call + `,` + outputs[i] + `]`,
			`"store":false,"input":[` + call + `,` + outputs[i] + `]`,
		} {
			status, reply, dropped := n.knock(responsesPath, key, `{"model":"lab/responses-closed",`+input+`}`, "")
			if heard := v.take(); status != 200 || dropped != "" || !strings.Contains(heard, kind+`,`) || !strings.Contains(heard, outputs[i]) {
				t.Errorf("%.80s = %d %s, dropped %q; the upstream got %.400s", input, status, reply, dropped, heard)
			}
			status, reply, _ = n.knock(responsesPath, key, `{"model":"lab/chat-closed",`+input+`}`, "")
			if heard := v.take(); status != 400 || heard != "" || !strings.Contains(reply, "does not know items of type") {
				t.Errorf("%.80s at another dialect = %d %s; the upstream got %.400s", input, status, reply, heard)
			}
		}
	}
}
