package provider

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// callWith is a call of a request with the members beside model and messages.
func callWith(t *testing.T, members string) *Call {
	t.Helper()
	req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]` + members + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return &Call{Request: req}
}

func TestDropped(t *testing.T) {
	t.Parallel()
	many := ""
	for i := range 100 {
		many += fmt.Sprintf(`,"x%d":1`, i)
	}
	for members, want := range map[string]string{
		``: "",
		`,"logit_bias":{"1":2},"store":false,"metadata":null,"top_k":40`:     "logit_bias, top_k",
		`,"web_search_options":{},"temperature":0.5,"seed":1`:                "web_search_options",
		`,"a b":1,"x\r\ny":1,"é":1,"":1,"` + strings.Repeat("x", 65) + `":1`: "",
	} {
		call := callWith(t, members)
		call.DropUnread()
		if got := strings.Join(call.Dropped, ", "); got != want {
			t.Errorf("DropUnread(%s) = %q, want %q", members, got, want)
		}
	}
	for message, want := range map[string]string{
		`{"role":"user","content":[{"type":"text","text":"\"audio\"","prompt_cache_breakpoint":{"mode":"explicit"}}]}`: "messages[].content[].prompt_cache_breakpoint",
		`{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":null}]}`:                        "",
		`{"role":"assistant","content":"So.","refusal":"No.","audio":{"id":"a"}}`:                                      "messages[].audio, messages[].refusal",
		`{"role":"assistant","content":null,"refusal":"No."}`:                                                          "", // it is sent as text
		`{"role":"assistant","content":"So.","refusal":"","audio":null}`:                                               "",
		`{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]}`:                                          "",
	} {
		req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"},` + message + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		call := &Call{Request: req}
		call.DropUnread()
		call.DropMarks()
		if strings.Join(call.Dropped, ", ") != want {
			t.Errorf("DropUnread and DropMarks of the message %s = %q, want %q", message, call.Dropped, want)
		}
	}
	call := callWith(t, many)
	if call.DropUnread(); len(call.Dropped) != MaxDropped {
		t.Errorf("DropUnread of 100 fields notes %d, want %d", len(call.Dropped), MaxDropped)
	}
	// Zero is a wish where it is not the default.
	call = callWith(t, `,"temperature":0,"top_p":0,"seed":0,"presence_penalty":0`)
	if call.Drop("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty"); strings.Join(call.Dropped, ", ") != "temperature, top_p, seed" {
		t.Errorf("Drop of zeros notes %q, want temperature, top_p and seed", call.Dropped)
	}
	for effort, want := range map[string]int{"high": 1, "none": 0} {
		call := callWith(t, `,"reasoning_effort":"`+effort+`"`)
		if call.DropEffort(); len(call.Dropped) != want {
			t.Errorf("DropEffort(%s) notes %q, want %d", effort, call.Dropped, want)
		}
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		members string
		most    int // that the model writes
		want    int
		dropped string
	}{
		{``, 0, 0, ""},
		{``, 100, 100, ""},
		{`,"max_tokens":50`, 0, 50, ""},
		{`,"max_tokens":50`, 100, 50, ""},
		{`,"max_tokens":100`, 100, 100, ""},
		{`,"max_tokens":128000`, 100, 100, "max_tokens"},
		{`,"max_completion_tokens":128000`, 100, 100, "max_completion_tokens"},
		{`,"max_tokens":128000,"max_completion_tokens":32000`, 100, 100, "max_tokens, max_completion_tokens"},
		{`,"max_tokens":128000,"max_completion_tokens":32`, 100, 32, ""},
	} {
		call := callWith(t, tt.members)
		call.MaxOutput = tt.most
		if got, dropped := call.Limit(), strings.Join(call.Dropped, ", "); got != tt.want || dropped != tt.dropped {
			t.Errorf("Limit(%s, %d) = %d, dropped %q, want %d, %q", tt.members, tt.most, got, dropped, tt.want, tt.dropped)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	const tools = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	if err := callWith(t, tools).Plain(); err != nil {
		t.Errorf("Plain = %v for function tools, want nil", err)
	}
	err := callWith(t, tools+`,"tool_choice":{"type":"allowed_tools","allowed_tools":{}}`).Plain()
	if f := fault.From(err); f.Kind != fault.Invalid || f.Param != "tool_choice" || !strings.Contains(f.Message, "allowed_tools") {
		t.Errorf("Plain = %v, want a 400 at tool_choice", err)
	}
}
