package claude_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
	"sluice/internal/upstream/provider/providertest"
)

// lines is an API whose blocks are words.
type lines struct{ addresses bool }

func (lines) Text(s string) string { return "text:" + s }

func (l lines) Image(mediaType, data, address string) (string, bool) {
	return "image:" + mediaType + data + address, address == "" || l.addresses
}

func (lines) Document(mediaType, name, data string) (string, bool) {
	return "document:" + mediaType + name + data, mediaType == "application/pdf"
}

func (lines) Call(c *chat.PastCall) string { return "call:" + c.ID }

func (lines) Result(m *chat.Message) string { return "result:" + m.ToolCallID }

func (lines) Mark(blocks []string, _ claude.CacheControl) ([]string, bool) {
	blocks[len(blocks)-1] += " (kept)"
	return blocks, true
}

func (lines) Thinking(state json.RawMessage) string { return "thinking:" + string(state) }

// callOf is a call with these messages.
func callOf(t *testing.T, messages string) *provider.Call {
	t.Helper()
	req, err := chat.Parse([]byte(`{"model":"m","messages":[` + messages + `]}`))
	if err != nil {
		t.Fatalf("Parse(%s) = %v", messages, err)
	}
	return &provider.Call{Request: req, Upstream: "m"}
}

const (
	asked  = `{"role":"user","content":"Hi"}`
	called = `{"role":"assistant","content":"Wait. ","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	result = `{"role":"tool","tool_call_id":"a","content":"1"}`
)

func TestConversation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, messages, want string
		unsigned             bool
	}{
		{name: "one question", messages: asked, want: "user text:Hi"},
		{
			name:     "the first system messages go to the front",
			messages: `{"role":"system","content":"Be kind."},{"role":"system","content":"Be brief."},` + asked,
			want:     "system text:Be kind. text:Be brief. | user text:Hi",
		},
		{
			name:     "later ones are the user's",
			messages: asked + `,{"role":"system","content":"Be brief."},{"role":"user","content":"Ho"}`,
			want:     "user text:Hi text:<system>\nBe brief.\n</system> text:Ho",
		},
		{
			name:     "and stand behind results",
			messages: asked + "," + called + "," + result + `,{"role":"system","content":"Be brief."}`,
			want:     "user text:Hi | assistant text:Wait.  call:a | user result:a text:<system>\nBe brief.\n</system>",
		},
		{name: "instructions alone", messages: `{"role":"system","content":"Be brief."}`, want: "user text:Be brief."},
		{
			name:     "the user begins",
			messages: `{"role":"assistant","content":"Hello."},` + asked,
			want:     "user text:(The conversation begins with your reply.) | assistant text:Hello. | user text:Hi",
		},
		{
			name:     "a reply to continue",
			messages: asked + `,{"role":"assistant","content":"Once \n"}`,
			want:     "user text:Hi | assistant text:Once",
		},
		{
			name:     "blank texts",
			messages: asked + `,{"role":"assistant","content":" "},{"role":"user","content":"Ho"}`,
			want:     "user text:Hi text:Ho",
		},
		{
			name:     "results are the user's",
			messages: asked + "," + called + "," + result + `,{"role":"user","content":"Go on"}`,
			want:     "user text:Hi | assistant text:Wait.  call:a | user result:a text:Go on",
		},
		{
			name:     "calls that were made without thinking",
			messages: asked + "," + called + "," + result, unsigned: true,
			want: "user text:Hi | assistant text:Wait.  call:a | user result:a",
		},
	} {
		call := callOf(t, tt.messages)
		c := claude.Conversation[string]{Wire: lines{}, Dialect: "x"}
		if err := c.Write(t.Context(), call, false); err != nil {
			t.Errorf("%s: Write = %v", tt.name, err)
			continue
		}
		if got := written(&c); got != tt.want {
			t.Errorf("%s: Write = %q, want %q", tt.name, got, tt.want)
		}
		if got := c.Unsigned(call.Request); got != tt.unsigned {
			t.Errorf("%s: Unsigned = %t, want %t", tt.name, got, tt.unsigned)
		}
	}
}

// written is a conversation as a line.
func written(c *claude.Conversation[string]) string {
	var turns []string
	if len(c.System) > 0 {
		turns = append(turns, "system "+strings.Join(c.System, " "))
	}
	for _, m := range c.Messages {
		turns = append(turns, m.Role+" "+strings.Join(m.Content, " "))
	}
	return strings.Join(turns, " | ")
}

func TestConversationImages(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"data:image/JPG;base64,AAAA": "image:image/jpegAAAA",
		"data:image/tiff;base64,AA":  "",
		"https://example.com/a.png":  "image:https://example.com/a.png",
	} {
		call := callOf(t, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"`+url+`"}}]}`)
		for _, addresses := range []bool{true, false} {
			c := claude.Conversation[string]{Wire: lines{addresses}}
			err := c.Write(t.Context(), call, false)
			if ok := want != "" && (addresses || strings.HasPrefix(url, "data:")); !ok {
				if !fault.Is(err, fault.Invalid) {
					t.Errorf("Write(%s, addresses %t) = %v, want a refusal", url, addresses, err)
				}
			} else if err != nil || written(&c) != "user "+want {
				t.Errorf("Write(%s, addresses %t) = %q, %v, want %q", url, addresses, written(&c), err, want)
			}
		}
	}
}

// TestSignedThinking lets a builder keep a turn, and a conversation put it back.
func TestSignedThinking(t *testing.T) {
	t.Parallel()
	call := callOf(t, asked+","+called+","+result)
	call.Memory = providertest.NewMemory()
	var b claude.Builder
	b.Start(t.Context(), call, "x", claude.ToolNames{}, false)
	b.Think(0, claude.Signed{Text: "Hm", Signature: "s1"})
	b.Think(0, claude.Signed{Text: ".", Signature: "s2"})
	signed, ok := b.EndBlock(0)
	if want := (claude.Signed{Text: "Hm.", Signature: "s1s2"}); !ok || signed != want {
		t.Fatalf("EndBlock = %+v, %t, want %+v", signed, ok, want)
	}
	b.Keep(signed.Signature)
	b.Text("Wait. ")
	b.StartCall(1, "a", "f", nil)
	if _, ok := b.EndBlock(1); ok {
		t.Error("EndBlock of a call returns signed thinking, want none")
	}
	if err := b.Finish(claude.FinishOf("tool_use")); err != nil {
		t.Fatal(err)
	}
	b.PushUsage(claude.Figures{Input: 7, CacheWritten: 2, CacheHour: 1, CacheRead: 4, Output: 5, Thinking: 3})
	b.End()
	var usage chat.Usage
	for _, want := range []provider.Kind{provider.Reasoning, provider.Reasoning, provider.Text, provider.ToolCall, provider.ToolCall, provider.Finish, provider.Usage} {
		ev, err := b.Pull(nil) // everything has been pushed, so nothing is read
		if err != nil || ev.Kind != want {
			t.Fatalf("Pull = %+v, %v, want an event of kind %d", ev, err, want)
		}
		if ev.Kind == provider.Usage {
			usage = ev.Usage
		}
	}
	if want := (chat.Usage{Prompt: 9, Cached: 4, Completion: 2, Reasoning: 3, CacheWrite5m: 1, CacheWrite1h: 1}); usage != want {
		t.Errorf("the usage is %+v, want %+v", usage, want)
	}

	c := claude.Conversation[string]{Wire: lines{}, Dialect: "x"}
	if err := c.Write(t.Context(), call, true); err != nil {
		t.Fatal(err)
	}
	want := "system text:" + claude.JSONInstruction(call.Request.Format) + ` | user text:Hi | assistant thinking:"s1s2" text:Wait.  call:a | user result:a`
	if got := written(&c); got != want || c.Unsigned(call.Request) {
		t.Errorf("Write = %q, unsigned %t, want %q", got, c.Unsigned(call.Request), want)
	}
	other := claude.Conversation[string]{Wire: lines{}} // an API that gets no thinking back
	if err := other.Write(t.Context(), call, false); err != nil || strings.Contains(written(&other), "thinking") {
		t.Errorf("Write without a dialect = %q, %v, want no thinking", written(&other), err)
	}
}
