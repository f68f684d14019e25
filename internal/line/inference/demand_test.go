package inference

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/admission"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

// parse reads a request; more are members beside the model and one message.
func parse(t testing.TB, content, more string) *chat.Request {
	t.Helper()
	req, err := chat.Parse(fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%s}]%s}`, content, more))
	if err != nil {
		t.Fatalf("Parse(%s, %s) = %v", content, more, err)
	}
	return req
}

const (
	hello    = `"Hello"`
	picture  = `[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]`
	oneTool  = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	mcpTool  = `,"tools":[{"type":"mcp","server_url":"https://example.com/mcp"}]`
	wordsOf5 = " word" // one token of five bytes
)

// words is a text of n tokens, as JSON.
func words(n int) string { return `"` + strings.Repeat(wordsOf5, n) + `"` }

func TestCheck(t *testing.T) {
	t.Parallel()
	plain := catalog.Model{ID: "m", ContextLength: 1000, MaxOutput: 100}
	able := catalog.Model{ID: "m", ContextLength: 1000, MaxOutput: 100, ToolCalling: true, Images: true}
	box := catalog.Model{ID: "m", ContextLength: 1000, MaxOutput: 100, ToolCalling: true, Sandbox: true}
	for name, tt := range map[string]struct {
		model         catalog.Model
		content, more string
		param, says   string // of the fault; empty: there is none
	}{
		"plain":                                 {plain, hello, ``, "", ""},
		"tools":                                 {able, hello, oneTool, "", ""},
		"tools for a model without":             {plain, hello, oneTool, "tools", "cannot call tools"},
		"remote tools of a model without tools": {plain, hello, mcpTool, "tools", "cannot call tools"},
		"no tools at all":                       {plain, hello, `,"tools":[]`, "", ""},
		"an image":                              {able, picture, ``, "", ""},
		"an image for a model that is blind":    {plain, picture, ``, "messages", "does not take images"},
		"two replies":                           {able, hello, `,"n":2`, "", ""},
		"two replies of the sandbox":            {box, hello, `,"n":2`, "n", "n must be 1"},
		"as many tokens as there are":           {plain, hello, `,"max_tokens":100`, "", ""},
		"more tokens than it writes":            {plain, hello, `,"max_tokens":101`, "", ""},
		"a file, which the upstream may know":   {plain, `[{"type":"file","file":{}}]`, ``, "", ""},
		"a file for the sandbox":                {box, `[{"type":"file","file":{}}]`, ``, "messages[0].content[0]", "does not know parts of type file"},
		"a prompt that bytes show to fit":       {box, words(150), ``, "", ""},
		"a prompt that only counting lets in":   {box, words(900), ``, "", ""},
		"a prompt that fills the window":        {box, words(993), ``, "", ""},
		"a prompt that is one over":             {box, words(994), ``, "messages", "maximum context length is 1000 tokens. However, your messages resulted in 1001 tokens."},
		"the same where we only estimate":       {plain, words(994), ``, "", ""},
		"a fifth over where we only estimate":   {plain, words(1193), ``, "", ""},
		"more than that":                        {plain, words(1194), ``, "messages", "maximum context length is 1000 tokens"},
		"a prompt of images beyond the window":  {able, `[` + strings.Repeat(`{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},`, 2) + `{"type":"text","text":"?"}]`, ``, "messages", "maximum context length"},
	} {
		s := size{req: parse(t, tt.content, tt.more), counting: counting{patience: ample}}
		if s.within(routing.Window(&tt.model)) == unsure {
			if err := s.count(t.Context(), routing.Window(&tt.model)); err != nil {
				t.Fatal(err)
			}
		}
		err := s.check(&tt.model)
		if tt.param == "" {
			if err != nil {
				t.Errorf("%s: check = %v, want it accepted", name, err)
			}
			continue
		}
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.Invalid || f.Param != tt.param || !strings.Contains(f.Message, tt.says) {
			t.Errorf("%s: check = %v at %q, want 400 at %q that says %q", name, err, fault.From(err).Param, tt.param, tt.says)
		}
	}
}

func TestPromptTokens(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body string
		want int
	}{
		{`{"model":"m","messages":[{"role":"user","content":"Hello"}]}`, 3 + 4 + 1},
		{`{"model":"m","messages":[{"role":"system","content":"Hello"},{"role":"user","content":"Hello"}]}`, 3 + 2*(4+1)},
		{`{"model":"m","messages":[{"role":"user","content":` + picture + `}]}`, 3 + 4 + 4 + 1024},
		{`{"model":"m","messages":[{"role":"user","content":"Hello"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"Hello","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"Hello"}]}`, 3 + 3*4 + 4},
	} {
		req, err := chat.Parse([]byte(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if got := promptTokens(req); got != tt.want {
			t.Errorf("promptTokens(%s) = %d, want %d", tt.body, got, tt.want)
		}
		if bound := req.TokenBound(); bound < tt.want {
			t.Errorf("TokenBound(%s) = %d, want at least %d", tt.body, bound, tt.want)
		}
	}
	with, without := promptTokens(parse(t, hello, oneTool)), promptTokens(parse(t, hello, ""))
	if with <= without {
		t.Errorf("with a tool the prompt has %d tokens, without %d", with, without)
	}
}

func TestDemand(t *testing.T) {
	t.Parallel()
	caller := Call{Limits: account.Limits{Concurrent: 7}}
	caller.Request = parse(t, words(40), oneTool+`,"max_tokens":9`)
	m := &catalog.Model{ID: "m"}
	got := demandOf(&caller, m, &size{req: caller.Request})
	if got.Model.ID != m.ID || !got.Tools || got.MaxTokens != 9 || got.Long || got.Limits.Concurrent != 7 || got.PromptTokens < 50 || got.PromptTokens > 90 {
		t.Errorf("demandOf = %+v", got)
	}
	for n, want := range map[int]bool{admission.LongPrompt - 8: false, admission.LongPrompt + 1: true} {
		s := size{req: parse(t, words(n), ""), counting: counting{patience: ample}}
		if err := s.count(t.Context(), admission.LongPrompt); err != nil || s.isLong() != want {
			t.Errorf("isLong(%d tokens) = %t, %v, want %t", n+7, s.isLong(), err, want)
		}
	}
}
