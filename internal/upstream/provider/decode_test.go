package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// told writes events down, one a line.
func told(events []provider.Event) string {
	var b strings.Builder
	for _, ev := range events {
		if ev.Choice != 0 {
			fmt.Fprintf(&b, "choice %d: ", ev.Choice)
		}
		switch ev.Kind {
		case provider.Text:
			fmt.Fprintf(&b, "text %q\n", ev.Text)
		case provider.Declined:
			fmt.Fprintf(&b, "refusal %q\n", ev.Text)
		case provider.Reasoning:
			fmt.Fprintf(&b, "reasoning %q\n", ev.Text)
		case provider.ToolCall:
			if ev.Tool.Custom {
				b.WriteString("custom ")
			}
			fmt.Fprintf(&b, "call %d %q %q %q\n", ev.Tool.Index, ev.Tool.ID, ev.Tool.Name, ev.Tool.Arguments)
		case provider.Finish:
			fmt.Fprintf(&b, "finish %s\n", ev.Finish)
		case provider.Usage:
			fmt.Fprintf(&b, "usage %d+%d %d+%d\n", ev.Usage.Prompt, ev.Usage.Cached, ev.Usage.Completion, ev.Usage.Reasoning)
		default:
			fmt.Fprintf(&b, "%+v\n", ev)
		}
	}
	return b.String()
}

func delta(s string) string { return `{"choices":[{"index":0,"delta":` + s + `}]}` }

func calls(s string) string { return delta(`{"tool_calls":[` + s + `]}`) }

var decodings = map[string]struct {
	in   []string
	want string
}{
	"text":                          {[]string{delta(`{"role":"assistant","content":""}`), delta(`{"content":"a"}`), delta(`{"content":null}`), delta(`{}`)}, "text \"a\"\n"},
	"whole":                         {[]string{`{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":3}}`}, "text \"a\"\nfinish stop\nusage 2+0 3+0\n"},
	"content parts":                 {[]string{delta(`{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}`)}, "text \"ab\"\n"},
	"content of another kind":       {[]string{delta(`{"content":7}`), delta(`{"content":{"text":"a"}}`)}, ""},
	"custom calls":                  {[]string{calls(`{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":""}}`), calls(`{"index":0,"custom":{"input":"x y"}}`), calls(`{"index":1,"id":"b","type":"custom"}`)}, "custom call 0 \"a\" \"f\" \"\"\ncustom call 0 \"\" \"\" \"x y\"\ncustom call 1 \"b\" \"\" \"\"\n"},
	"refusal":                       {[]string{delta(`{"content":null,"refusal":"No."}`)}, "refusal \"No.\"\n"},
	"reasoning_content":             {[]string{delta(`{"reasoning_content":"r"}`)}, "reasoning \"r\"\n"},
	"reasoning":                     {[]string{delta(`{"reasoning":"r","content":"a"}`)}, "reasoning \"r\"\ntext \"a\"\n"},
	"reasoning told twice":          {[]string{delta(`{"reasoning":"r","reasoning_content":"r"}`)}, "reasoning \"r\"\n"},
	"reasoning under one name":      {[]string{delta(`{"reasoning":"r","reasoning_content":""}`)}, "reasoning \"r\"\n"},
	"thinking parts":                {[]string{delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"r"},{"type":"text","text":"s"}]},{"type":"text","text":"a"}]}`)}, "reasoning \"rs\"\ntext \"a\"\n"},
	"figures of Groq":               {[]string{`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"r","usage":{"prompt_tokens":2,"completion_tokens":3}}}`, `{"choices":[],"x_groq":{"id":"r"}}`}, "finish stop\nusage 2+0 3+0\n"},
	"reasoning counted apart":       {[]string{`{"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":45,"completion_tokens_details":{"reasoning_tokens":15}}}`, `{"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":27,"completion_tokens_details":{"reasoning_tokens":15}}}`}, "usage 10+0 20+15\nusage 10+0 2+15\n"},
	"a total that is none":          {[]string{`{"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":"many","completion_tokens_details":{"reasoning_tokens":15}}}`}, "usage 10+0 5+15\n"},
	"delta and message":             {[]string{`{"choices":[{"index":0,"delta":{"content":"a"},"message":{"content":"all"}}]}`}, "text \"a\"\n"},
	"null delta and message":        {[]string{`{"choices":[{"index":0,"delta":null,"message":{"content":"all"}}]}`}, "text \"all\"\n"},
	"no index":                      {[]string{`{"choices":[{"delta":{"content":"a"}}]}`}, "text \"a\"\n"},
	"no index on several":           {[]string{`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"message":{"content":"b"},"finish_reason":"length"}]}`}, "text \"a\"\nfinish stop\nchoice 1: text \"b\"\nchoice 1: finish length\n"},
	"two choices":                   {[]string{`{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}`}, "choice 1: text \"b\"\ntext \"a\"\n"},
	"no choices":                    {[]string{`{}`, `{"choices":[]}`, `{"choices":null}`, `{"type":"ping"}`, `null`}, ""},
	"error null":                    {[]string{`{"error":null,"choices":[{"index":0,"delta":{"content":"a"},"error":null}]}`}, "text \"a\"\n"},
	"lone surrogate":                {[]string{delta(`{"content":"\ud83d!"}`)}, "text \"\uFFFD!\"\n"},
	"usage null":                    {[]string{`{"choices":[],"usage":null}`}, ""},
	"usage without figures":         {[]string{`{"choices":[],"usage":{}}`, `{"usage":{"prompt_tokens":0,"completion_tokens":0}}`}, ""},
	"usage of another kind":         {[]string{`{"choices":[{"delta":{"content":"a"}}],"usage":"much"}`, `{"usage":[1]}`, `{"usage":{"prompt_tokens":"3"}}`}, "text \"a\"\n"},
	"usage in parts":                {[]string{`{"usage":{"prompt_tokens":10,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":15}}}`}, "usage 6+4 5+15\n"},
	"usage details null":            {[]string{`{"usage":{"prompt_tokens":10,"completion_tokens":20,"prompt_tokens_details":null,"completion_tokens_details":null}}`}, "usage 10+0 20+0\n"},
	"usage with parts over the sum": {[]string{`{"usage":{"prompt_tokens":10,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":-3}}}`}, "usage 0+10 20+0\n"},
	"usage beyond reason":           {[]string{`{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":-5}}`}, "usage 1073741824+0 0+0\n"},

	"call in pieces": {[]string{
		calls(`{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}`),
		calls(`{"index":0,"function":{"arguments":"{\"a\""}}`),
		calls(`{"index":0,"function":{"arguments":":1}"}}`),
	}, "call 0 \"c1\" \"f\" \"\"\ncall 0 \"\" \"\" \"{\\\"a\\\"\"\ncall 0 \"\" \"\" \":1}\"\n"},
	"id and name repeated": {[]string{
		calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{"}}`),
		calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"}"}}`),
	}, "call 0 \"c1\" \"f\" \"{\"\ncall 0 \"\" \"\" \"}\"\n"},
	"two calls by turns": {[]string{
		calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"1"}},{"index":1,"id":"c2","function":{"name":"g","arguments":"2"}}`),
		calls(`{"index":1,"function":{"arguments":"3"}}`),
		calls(`{"index":0,"function":{"arguments":"4"}}`),
	}, "call 0 \"c1\" \"f\" \"1\"\ncall 1 \"c2\" \"g\" \"2\"\ncall 1 \"\" \"\" \"3\"\ncall 0 \"\" \"\" \"4\"\n"},
	"one index for all": {[]string{
		calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"1"}}`),
		calls(`{"index":0,"id":"c2","function":{"name":"f","arguments":"2"}}`),
		calls(`{"index":0,"function":{"arguments":"3"}}`),
	}, "call 0 \"c1\" \"f\" \"1\"\ncall 1 \"c2\" \"f\" \"2\"\ncall 1 \"\" \"\" \"3\"\n"},
	"no index, ids": {[]string{
		calls(`{"id":"c1","function":{"name":"f","arguments":"1"}}`),
		calls(`{"id":"c2","function":{"name":"f","arguments":"2"}}`),
		calls(`{"id":"c1","function":{"arguments":"3"}}`),
		calls(`{"function":{"arguments":"4"}}`),
	}, "call 0 \"c1\" \"f\" \"1\"\ncall 1 \"c2\" \"f\" \"2\"\ncall 0 \"\" \"\" \"3\"\ncall 1 \"\" \"\" \"4\"\n"},
	"no index, no ids": {[]string{
		calls(`{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{"}}`),
		calls(`{"function":{"arguments":"}"}}`),
	}, "call 0 \"\" \"f\" \"{}\"\ncall 1 \"\" \"f\" \"{\"\ncall 1 \"\" \"\" \"}\"\n"},
	"gaps in the indexes": {[]string{
		calls(`{"index":3,"id":"c1","function":{"name":"f","arguments":"1"}}`),
		calls(`{"index":7,"id":"c2","function":{"name":"g","arguments":"2"}}`),
		calls(`{"index":3,"function":{"arguments":"3"}}`),
		calls(`{"index":-1,"id":"c3","function":{"name":"h","arguments":"4"}}`),
	}, "call 0 \"c1\" \"f\" \"1\"\ncall 1 \"c2\" \"g\" \"2\"\ncall 0 \"\" \"\" \"3\"\ncall 2 \"c3\" \"h\" \"4\"\n"},
	"id with a later piece": {[]string{
		calls(`{"index":0,"function":{"name":"f","arguments":"1"}}`),
		calls(`{"index":0,"id":"c1","function":{"arguments":"2"}}`),
	}, "call 0 \"\" \"f\" \"1\"\ncall 0 \"\" \"\" \"2\"\n"},
	"calls of two choices": {[]string{
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"1"}}]}},{"index":1,"delta":{"tool_calls":[{"index":0,"id":"c2","function":{"name":"f","arguments":"2"}}]}}]}`,
		`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"3"}}]}}]}`,
	}, "call 0 \"c1\" \"f\" \"1\"\nchoice 1: call 0 \"c2\" \"f\" \"2\"\nchoice 1: call 0 \"\" \"\" \"3\"\n"},
	"arguments as an object":   {[]string{calls(`{"index":0,"id":"c","function":{"name":"f","arguments":{ "a" : [1, 2] }}}`)}, "call 0 \"c\" \"f\" \"{\\\"a\\\":[1,2]}\"\n"},
	"arguments null or absent": {[]string{calls(`{"index":0,"id":"c","function":{"name":"f","arguments":null}}`), calls(`{"index":1,"id":"d","function":{"name":"g"}}`)}, "call 0 \"c\" \"f\" \"\"\ncall 1 \"d\" \"g\" \"\"\n"},
}

func TestDecoder(t *testing.T) {
	t.Parallel()
	for name, tt := range decodings {
		var d provider.Decoder
		var all []provider.Event
		for _, raw := range tt.in {
			events, err := d.Decode([]byte(raw))
			if err != nil {
				t.Errorf("%s: Decode(%s) = %v", name, raw, err)
			}
			all = append(all, events...)
		}
		if diff := cmp.Diff(tt.want, told(all)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestDecoderFinishReasons(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]chat.Finish{
		"stop": chat.FinishStop, "eos": chat.FinishStop, "end_turn": chat.FinishStop, "stop_sequence": chat.FinishStop, "COMPLETE": chat.FinishStop, "anything": chat.FinishStop,
		"length": chat.FinishLength, "max_tokens": chat.FinishLength, "MAX_TOKENS": chat.FinishLength, "model_length": chat.FinishLength,
		"tool_calls": chat.FinishToolCalls, "function_call": chat.FinishToolCalls, "tool_use": chat.FinishToolCalls,
		"content_filter": chat.FinishContentFilter, "SAFETY": chat.FinishContentFilter, "recitation": chat.FinishContentFilter, "content_filter: PROHIBITED": chat.FinishContentFilter,
	} {
		var d provider.Decoder
		got, err := d.Decode([]byte(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"` + reason + `"}]}`))
		if w := fmt.Sprintf("text \"a\"\nfinish %s\n", want); err != nil || told(got) != w {
			t.Errorf("Decode(finish_reason %s) = %s, %v, want %s", reason, told(got), err, w)
		}
	}
	for _, none := range []string{`null`, `""`} {
		var d provider.Decoder
		got, err := d.Decode([]byte(`{"choices":[{"index":0,"delta":{},"finish_reason":` + none + `}]}`))
		if err != nil || len(got) != 0 {
			t.Errorf("Decode(finish_reason %s) = %s, %v, want nothing", none, told(got), err)
		}
	}
}

func TestDecoderFaults(t *testing.T) {
	t.Parallel()
	const unread, failed, cut = "cannot be read", "failed while it answered", "broke off"
	for raw, want := range map[string]string{
		``: unread, `{`: unread, `[]`: unread, `"text"`: unread, `{"choices":{}}`: unread, `{"choices":[7]}`: unread, `<html>`: unread, "\x00": unread,
		`{"choices":[{"index":"0"}]}`:        unread,
		`{"error":{"message":"overloaded"}}`: failed,
		`{"error":"overloaded"}`:             failed,
		`{"error":{}}`:                       failed,
		`{"error":{"code":503,"message":"m"},"choices":[{"index":0,"delta":{}}]}`:     failed,
		`{"choices":[{"index":0,"delta":{"content":"a"},"error":{"message":"m"}}]}`:   failed,
		`{"error":{"code":400,"message":"The prompt is too long."}}`:                  "refused the request: The prompt is too long.",
		`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`:                cut,
		`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"abort"}]}`:   cut,
		`{"choices":[{"finish_reason":"insufficient_system_resource","delta":null}]}`: cut,
	} {
		var d provider.Decoder
		events, err := d.Decode([]byte(raw))
		if err == nil || len(events) > 0 || !strings.Contains(fault.From(err).Message, want) {
			t.Errorf("Decode(%s) = %s, %v, want a fault that says %q", raw, told(events), err, want)
		}
	}
}

func TestReadUsage(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]chat.Usage{
		`{"prompt_tokens":7,"completion_tokens":0}`:                                                                                                                             {Prompt: 7},
		`{"prompt_tokens":7,"completion_tokens":9,"total_tokens":1}`:                                                                                                            {Prompt: 7, Completion: 9},
		`{"prompt_tokens":7,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":7}}`:                                                                                 {Cached: 7, Completion: 9},
		`{"prompt_tokens":7,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":4}}`:                                                          {Prompt: 5, Cached: 2, CacheWrite: 4, Completion: 9},
		`{"prompt_tokens":7,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":9}}`:                                                          {Prompt: 5, Cached: 2, CacheWrite: 5, Completion: 9},
		`{"prompt_tokens":7,"completion_tokens":9,"prompt_cache_hit_tokens":5,"prompt_cache_miss_tokens":2}`:                                                                    {Prompt: 2, Cached: 5, Completion: 9},
		`{"prompt_tokens":7,"completion_tokens":9,"cached_tokens":5}`:                                                                                                           {Prompt: 2, Cached: 5, Completion: 9},
		`{"prompt_tokens":7,"completion_tokens":9,"num_cached_tokens":5}`:                                                                                                       {Prompt: 2, Cached: 5, Completion: 9},
		`{"prompt_tokens":7,"completion_tokens":9,"prompt_tokens_details":{"cache_creation_input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":3}}}`:                  {Prompt: 7, CacheWrite5m: 3, CacheWrite: 2, Completion: 9},
		`{"prompt_tokens":7,"completion_tokens":9,"prompt_tokens_details":{"audio_tokens":4,"image_tokens":9},"completion_tokens_details":{"audio_tokens":8,"image_tokens":3}}`: {Prompt: 7, AudioIn: 4, ImageIn: 3, Completion: 9, AudioOut: 8, ImageOut: 1},
	} {
		if got, ok := provider.ReadUsage([]byte(raw)); !ok || got != want {
			t.Errorf("ReadUsage(%s) = %+v, %t, want %+v", raw, got, ok, want)
		}
	}
	for _, raw := range []string{``, `null`, `{}`, `[]`, `7`, `{"prompt_tokens":1.5}`, `{"prompt_tokens":0,"completion_tokens":0}`, `{"prompt_tokens":-1}`} {
		if got, ok := provider.ReadUsage([]byte(raw)); ok {
			t.Errorf("ReadUsage(%s) = %+v, want none", raw, got)
		}
	}
}

// The ids of the turns of one request differ, and are short.
func TestCallID(t *testing.T) {
	t.Parallel()
	const request = "0123456789abcdef0123456789abcdef"
	seen := map[string]bool{}
	for _, id := range []string{"", "r", request, request + "t1", request + "t12"} {
		for _, index := range []int{0, 1, 4096} {
			got := provider.CallID(id, index)
			if len(got) > 40 || seen[got] {
				t.Errorf("CallID(%s, %d) = %s, want one of its own with at most 40 characters", id, index, got)
			}
			seen[got] = true
		}
	}
}

// FuzzDecoder lets two replies, one after the other, through a decoder: whatever they hold, what
// comes out keeps the rules that the relay counts on.
func FuzzDecoder(f *testing.F) {
	for _, tt := range decodings {
		for i := range tt.in {
			f.Add([]byte(tt.in[max(0, i-1)]), []byte(tt.in[i]))
		}
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var d provider.Decoder
		known := map[int]int{} // calls by choice
		for _, raw := range [][]byte{first, second} {
			events, err := d.Decode(raw)
			if err != nil {
				if _, ok := err.(*fault.Fault); !ok { //nolint:errorlint // the fault itself, not something around one
					t.Errorf("Decode(%q) = %v, want a fault", raw, err)
				}
				return
			}
			for _, ev := range events {
				switch ev.Kind {
				case provider.Text, provider.Reasoning:
					if ev.Text == "" {
						t.Errorf("Decode(%q) has an empty text", raw)
					}
				case provider.ToolCall:
					n, p := known[ev.Choice], ev.Tool
					if p.Index < 0 || p.Index > n || p.Index < n && p.ID+p.Name != "" {
						t.Errorf("Decode(%q) has the piece %+v behind %d calls", raw, p, n)
					}
					known[ev.Choice] = max(n, p.Index+1)
				case provider.Usage:
					if u := ev.Usage; u.Prompt < 0 || u.Cached < 0 || u.Completion < 0 || u.Reasoning < 0 || u.Total() <= 0 {
						t.Errorf("Decode(%q) has the usage %+v", raw, u)
					}
				case provider.Finish:
					switch ev.Finish {
					case chat.FinishStop, chat.FinishLength, chat.FinishToolCalls, chat.FinishContentFilter:
					default:
						t.Errorf("Decode(%q) has the finish reason %q", raw, ev.Finish)
					}
				}
			}
		}
	})
}
