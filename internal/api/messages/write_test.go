package messages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// request returns a request whose reply is streamed or not.
func request(t testing.TB, stream bool) *Request {
	t.Helper()
	const name = "a_tool_whose_name_is_longer_than_those_of_a_chat_completion_can_be"
	r, err := Parse(fmt.Appendf(nil, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":%t,"tools":[{"name":%q,"input_schema":{"type":"object"}}]}`, stream, name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	head    = relay.Head{RequestID: "0123", Created: 1, Model: "lab/m"}
	outcome = relay.Outcome{Usage: chat.Usage{Prompt: 7, Cached: 2, Completion: 4, Reasoning: 1, CacheWrite5m: 3, CacheWrite1h: 1}}
)

// spelled returns an event as a writer gets it, with the text as the inside of a JSON string.
func spelled(ev *provider.Event) *provider.Event {
	quoted := jsonscan.AppendQuoted(nil, ev.Text)
	ev.Raw = quoted[1 : len(quoted)-1]
	return ev
}

// written returns what a writer makes of events.
func written(w *Writer, events []provider.Event) []byte {
	b := w.Start(nil, head)
	for i := range events {
		b = w.Event(b, spelled(&events[i]))
	}
	if w.stream {
		return w.End(b, &outcome)
	}
	if len(b) > 0 {
		return append([]byte("not empty: "), b...)
	}
	return w.Body(nil, &outcome)
}

// accumulate reads a stream as a client does, and returns the message. It fails if the stream breaks a rule.
func accumulate(stream []byte) (map[string]any, error) {
	var message map[string]any
	var content []any
	var text strings.Builder // of the open block
	open, ended := false, false
	for event := range strings.SplitSeq(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\n")
		name, data = strings.TrimPrefix(name, "event: "), strings.TrimPrefix(data, "data: ")
		var w map[string]any
		if err := json.Unmarshal([]byte(data), &w); err != nil || !ok || w["type"] != name || ended {
			return nil, fmt.Errorf("event %q: %v, or it comes after the end", event, err)
		}
		if (name == "message_start") != (message == nil) {
			return nil, fmt.Errorf("%s in the wrong place", name)
		}
		if strings.HasPrefix(name, "content_block_") && name != "content_block_start" && (!open || int(w["index"].(float64)) != len(content)-1) {
			return nil, fmt.Errorf("%s of a block that is not open", event)
		}
		switch name {
		case "message_start":
			message = w["message"].(map[string]any)
		case "content_block_start":
			if open || int(w["index"].(float64)) != len(content) {
				return nil, fmt.Errorf("%s while a block is open, or out of order", event)
			}
			open = true
			text.Reset()
			content = append(content, w["content_block"])
		case "content_block_delta":
			delta, block := w["delta"].(map[string]any), content[len(content)-1].(map[string]any)
			switch delta["type"] {
			case "text_delta":
				block["text"] = block["text"].(string) + delta["text"].(string)
			case "thinking_delta":
				block["thinking"] = block["thinking"].(string) + delta["thinking"].(string)
			case "signature_delta":
				block["signature"] = delta["signature"]
			case "input_json_delta":
				text.WriteString(delta["partial_json"].(string))
			}
		case "content_block_stop":
			open = false
			if block := content[len(content)-1].(map[string]any); block["type"] == "tool_use" {
				var input any
				if err := json.Unmarshal(provider.ObjectArguments(text.String()), &input); err != nil {
					return nil, err
				}
				block["input"] = input
			}
		case "message_delta":
			if open {
				return nil, fmt.Errorf("a block is open at the end")
			}
			message["stop_reason"] = w["delta"].(map[string]any)["stop_reason"]
			message["stop_sequence"] = w["delta"].(map[string]any)["stop_sequence"]
			message["usage"] = w["usage"]
		case "message_stop":
			ended = true
		}
	}
	if !ended {
		return nil, fmt.Errorf("the stream does not end")
	}
	message["content"] = append([]any{}, content...)
	return message, nil
}

// checkWritten checks that a reply is the same streamed and in one piece.
func checkWritten(t *testing.T, events []provider.Event) map[string]any {
	t.Helper()
	stream := written(NewWriter(request(t, true), "id"), events)
	got, err := accumulate(stream)
	if err != nil {
		t.Fatalf("%v in\n%s", err, stream)
	}
	body := written(NewWriter(request(t, false), "id"), events)
	var whole map[string]any
	if err := json.Unmarshal(body, &whole); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if !reflect.DeepEqual(got, whole) {
		t.Errorf("the stream gives\n%v\nwant, as in one piece,\n%v", got, whole)
	}
	return whole
}

func text(s string) provider.Event { return provider.Event{Kind: provider.Text, Text: s} }

func piece(index int, id, name, arguments string) provider.Event {
	return provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: index, ID: id, Name: name, Arguments: arguments}}
}

func finish(f chat.Finish) provider.Event { return provider.Event{Kind: provider.Finish, Finish: f} }

func TestWriter(t *testing.T) {
	t.Parallel()
	thinking := func(s string) provider.Event { return provider.Event{Kind: provider.Reasoning, Text: s} }
	for _, tt := range []struct {
		name    string
		events  []provider.Event
		content string
		reason  string
	}{
		{"nothing", []provider.Event{finish(chat.FinishStop)}, `[]`, "end_turn"},
		{"text", []provider.Event{text("Hel"), text("lo \"\\\n\u2028"), finish(chat.FinishLength)}, `[{"type":"text","text":"Hello \"\\\n\u2028"}]`, "max_tokens"},
		{"a stop sequence", []provider.Event{text("x"), {Kind: provider.Finish, Finish: chat.FinishStop, Rest: &provider.Rest{Stop: "END"}}}, `[{"type":"text","text":"x"}]`, "stop_sequence"},
		{"a refusal", []provider.Event{{Kind: provider.Declined, Text: "No."}, finish(chat.FinishStop)}, `[{"type":"text","text":"No."}]`, "refusal"},
		{"filtered", []provider.Event{text("x"), finish(chat.FinishContentFilter)}, `[{"type":"text","text":"x"}]`, "refusal"},
		{
			"thinking between texts",
			[]provider.Event{thinking("a"), thinking("b"), text("c"), thinking("d"), text("e"), finish(chat.FinishStop)},
			`[{"type":"thinking","thinking":"ab","signature":"c2x1aWNl0123"},{"type":"text","text":"c"},{"type":"thinking","thinking":"d","signature":"c2x1aWNl0123"},{"type":"text","text":"e"}]`, "end_turn",
		},
		{
			"calls",
			[]provider.Event{text("x"), piece(0, "a", "f", ""), piece(0, "", "", `{"x":`), piece(0, "", "", `1}`), piece(1, "b", "g", `{}`), finish(chat.FinishToolCalls)},
			`[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"f","input":{"x":1}},{"type":"tool_use","id":"b","name":"g","input":{}}]`, "tool_use",
		},
		{
			"calls at the same time",
			[]provider.Event{
				piece(0, "a", "f", ""), piece(1, "b", "g", ""), piece(2, "c", "h", ""), piece(2, "", "", `{"c":3}`), piece(1, "", "", `{"b":`), piece(0, "", "", `{"a":"}"`),
				piece(1, "", "", `2}`), piece(0, "", "", `}`), piece(3, "d", "i", `{"d":4}`), finish(chat.FinishToolCalls),
			},
			`[{"type":"tool_use","id":"a","name":"f","input":{"a":"}"}},{"type":"tool_use","id":"b","name":"g","input":{"b":2}},{"type":"tool_use","id":"c","name":"h","input":{"c":3}},{"type":"tool_use","id":"d","name":"i","input":{"d":4}}]`, "tool_use",
		},
		{
			"arguments that are no object",
			[]provider.Event{piece(0, "a", "f", `[1`), piece(1, "b", "f", `{"x":1`), finish(chat.FinishLength)},
			`[{"type":"tool_use","id":"a","name":"f","input":{"arguments":"[1"}},{"type":"tool_use","id":"b","name":"f","input":{"arguments":"{\"x\":1"}}]`, "max_tokens",
		},
		{
			"a long name",
			[]provider.Event{piece(0, "a", "a_tool_whose_name_is_longer_than_those_of_a_chat_comp_42cb2ede48", `{}`), finish(chat.FinishToolCalls)},
			`[{"type":"tool_use","id":"a","name":"a_tool_whose_name_is_longer_than_those_of_a_chat_completion_can_be","input":{}}]`, "tool_use",
		},
	} {
		message := checkWritten(t, tt.events)
		got, _ := json.Marshal(message["content"])
		var want any
		if err := json.Unmarshal([]byte(tt.content), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(message["content"], want) || message["stop_reason"] != tt.reason {
			t.Errorf("%s: content = %s, %v\nwant %s, %s", tt.name, got, message["stop_reason"], tt.content, tt.reason)
		}
		usage, _ := json.Marshal(message["usage"])
		if string(usage) != `{"cache_creation":{"ephemeral_1h_input_tokens":1,"ephemeral_5m_input_tokens":3},"cache_creation_input_tokens":4,"cache_read_input_tokens":2,"input_tokens":3,"output_tokens":5,"output_tokens_details":{"thinking_tokens":1},"server_tool_use":null}` || message["id"] != "msg_0123" || message["model"] != "lab/m" {
			t.Errorf("%s: %v", tt.name, message)
		}
	}
}

// What programs read of an error reaches them after the beginning of a stream, too.
func TestFaultDetails(t *testing.T) {
	t.Parallel()
	f := fault.New(fault.NotFound, "Gone.")
	f.Details = json.RawMessage(`{"error_code":"thread_not_found"}`)
	if got := string(NewWriter(request(t, true), "r").Fault(nil, f)); !strings.Contains(got, `"message":"Gone.","details":{"error_code":"thread_not_found"}},"request_id"`) {
		t.Errorf("Fault = %s, want its details", got)
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	w := NewWriter(request(t, true), "the-proxy's")
	f := fault.New(fault.Invalid, "messages[0].content is too long").At("messages[0].content")
	want := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.0.content: is too long\"},\"request_id\":\"the-proxy's\"}\n\n"
	if got := string(w.Fault(nil, f)); got != want {
		t.Errorf("Fault = %s, want %s", got, want)
	}
	if f.Param != "messages[0].content" {
		t.Errorf("the fault itself has changed: %q", f.Param)
	}
	if got := string(w.KeepAlive(nil)); got != "event: ping\ndata: {\"type\":\"ping\"}\n\n" {
		t.Errorf("KeepAlive = %q", got)
	}
}

// Every kind has one of the dialect's types.
func TestErrorType(t *testing.T) {
	t.Parallel()
	want := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error", 405: "invalid_request_error",
		408: "invalid_request_error", 409: "invalid_request_error", 413: "request_too_large", 423: "permission_error", 429: "rate_limit_error", 500: "api_error", 503: "overloaded_error",
	}
	for k := fault.Internal; k <= fault.Forbidden; k++ {
		if got := ErrorType(k); got != want[k.Status()] {
			t.Errorf("ErrorType(%s) = %s, want %s", k, got, want[k.Status()])
		}
	}
}

// FuzzWriter writes any events that relay may hand out. The reply is the same streamed and in one piece.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("thello\x00rhm\x00c{}\x00C\x00a{\"x\":1}\x00"))
	f.Add([]byte("c\x00c\x00b{\"\x001}\x00a{\"y\":{}}\x00t\x00dno\x00"))
	f.Add([]byte("c{\"a\\\"\x00c[]\x00a}\x00r\"\\\x00"))
	f.Fuzz(func(t *testing.T, script []byte) {
		var events []provider.Event
		calls := 0
		for _, line := range bytes.Split(script, []byte{0}) {
			if len(line) < 2 || calls > 20 {
				continue
			}
			s := strings.ToValidUTF8(string(line[1:]), "")
			switch line[0] {
			case 't':
				events = append(events, text(s))
			case 'r':
				events = append(events, provider.Event{Kind: provider.Reasoning, Text: s})
			case 'd':
				events = append(events, provider.Event{Kind: provider.Declined, Text: s})
			case 'c':
				events = append(events, piece(calls, fmt.Sprintf("id%d", calls), "f", s))
				calls++
			case 'a', 'b':
				if i := calls - 1 - int(line[0]-'a'); i >= 0 {
					events = append(events, piece(i, "", "", s))
				}
			}
		}
		checkWritten(t, append(events, finish(chat.FinishStop)))
	})
}

// FuzzNative relays anything that an upstream might have said. What comes out is a stream of events with JSON in them.
func FuzzNative(f *testing.F) {
	f.Add([]byte(`{"type":"message_start","message":{"id":"x","model":"y"}}` + "\n" + `{"type":"content_block_delta","index":0,"delta":{}}`))
	f.Add([]byte(`{"type":"message_start","message":{"model":"y","id":{"a":[1]}},"id":"z"}` + "\n" + `{"type":"message_delta"}`))
	f.Add([]byte(`{"type":"message","id":"x","model":"y"}`))
	f.Add([]byte(`{"message":null,"type":"message_start"}` + "\n{}\n\n[" + `{"type":"a b"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, stream := range []bool{true, false} {
			w := NewWriter(request(t, stream), "id")
			out := written(w, []provider.Event{{Kind: provider.Text, Text: "x", Native: raw}, finish(chat.FinishStop)})
			if !stream {
				if w.native == nil && !json.Valid(out) || w.native != nil && !bytes.Contains(raw, []byte{'\\'}) && !json.Valid(out) {
					t.Errorf("Native %q becomes %q, which is not JSON", raw, out)
				}
				continue
			}
			for event := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n\n"), "\n\n") {
				kind, data, ok := strings.Cut(event, "\n")
				if !ok || !strings.HasPrefix(kind, "event: ") || !strings.HasPrefix(data, "data: ") || strings.ContainsAny(data, "\n\r") || !json.Valid([]byte(data[6:])) {
					t.Errorf("Native %q becomes the event %q", raw, event)
				}
			}
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	ev := text(" token")
	spelled(&ev)
	w := NewWriter(request(b, true), "id")
	out := w.Start(nil, head)
	b.ReportAllocs()
	for b.Loop() {
		out = w.Event(out[:0], &ev)
	}
}

func BenchmarkWriterNative(b *testing.B) {
	w := NewWriter(request(b, true), "id")
	out := w.Start(nil, head)
	first := text("x")
	first.Native = []byte(`{"type":"message_start","message":{"id":"x","model":"y"}}`)
	w.Event(nil, &first)
	ev := text(" token")
	ev.Native = []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" token"}}`)
	b.ReportAllocs()
	for b.Loop() {
		out = w.Event(out[:0], &ev)
	}
}
