package responses

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// seeds returns the parts of a name in the transcripts.
func seeds(t testing.TB, part string) (all []string) {
	t.Helper()
	for _, file := range []string{"testdata/replies.txtar", "testdata/inputs.txtar"} {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if strings.HasSuffix(f.Name, "/"+part) {
				all = append(all, string(f.Data))
			}
		}
	}
	return all
}

// FuzzParse holds every request against the rules: it is refused with a fault that a caller can read, or it becomes a chat
// completion that is valid, and its echo is JSON on one line.
func FuzzParse(f *testing.F) {
	for _, s := range seeds(f, "request") {
		f.Add(s)
	}
	archive, err := txtar.ParseFile("testdata/bad.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		input, _, _ := strings.Cut(string(file.Data), "\nparam:")
		f.Add(badBody(f, input))
	}
	f.Fuzz(func(t *testing.T, body string) {
		req, err := Parse([]byte(body))
		if err == nil && !json.Valid([]byte(body)) {
			t.Fatalf("Parse(%q) accepts what is no JSON", body)
		}
		var composed *chat.Request
		if err == nil {
			composed, err = req.Compose(nil)
		}
		if err == nil {
			checkSame(t, body, composed)
		}
		if err != nil {
			fa := fault.From(err)
			if fa.Kind != fault.Invalid || fa.Message == "" || len(fa.Message) > 2000 {
				t.Fatalf("fault of %q = %v %q", body, fa.Kind, fa.Message)
			}
			for _, name := range []string{"messages[", "response_format.", ".function."} {
				if strings.Contains(fa.Param, name) && !strings.Contains(body, strings.Trim(name, ".[")) {
					t.Fatalf("param of %q = %q, which is a name of chat completions", body, fa.Param)
				}
			}
			return
		}
		if echo := append(append([]byte("{"), req.appendEcho(nil)[1:]...), '}'); !json.Valid(echo) || strings.ContainsAny(string(echo), "\n\r") {
			t.Fatalf("echo of %q = %s", body, echo)
		}
		if input := req.appendInput(nil); !json.Valid(input) {
			t.Fatalf("input of %q = %s", body, input)
		}
	})
}

// FuzzWriter plays any events and holds the stream against the rules of streams, and the whole reply against the stream.
func FuzzWriter(f *testing.F) {
	f.Add("ttrtc0ac1bm0cm1df", "x")
	f.Add("c0ac1bm0m1tdtrf", "\u00e9\n\"\\")
	f.Add("rrdttc0", "{\"input\":\"a\"}")
	f.Add("f", "")
	f.Add("prstsc0stf", "{}")
	f.Fuzz(func(t *testing.T, script, text string) {
		if len(script) > 200 {
			return
		}
		var events []provider.Event
		for i := 0; i < len(script); i++ {
			ev := provider.Event{Text: text}
			op := script[i]
			switch op {
			case 't':
				ev.Kind = provider.Text
			case 'r':
				ev.Kind = provider.Reasoning
			case 'd':
				ev.Kind = provider.Declined
			case 'c', 'm', 'x':
				n := 0
				if i+1 < len(script) {
					i++
					n = int(script[i]) % 5
				}
				ev.Kind, ev.Tool = provider.ToolCall, provider.ToolPiece{Index: n, ID: "call_" + script[:i], Name: []string{"f", "patch", "docs__search"}[n%3], Arguments: text}
				if op == 'x' {
					ev.Step = &provider.Step{Server: text, Tool: text}
				}
				if op == 'm' {
					ev.Tool.ID, ev.Tool.Name = "", ""
				}
			case 's':
				ev.Kind, ev.Step = provider.Other, &provider.Step{Server: text, Tool: "search", Arguments: text, Output: text, Failed: i%2 == 0}
			case 'p':
				ev.Kind, ev.Step = provider.Other, &provider.Step{Server: text, Tools: []byte("[]")}
			case 'f':
				ev.Kind, ev.Finish = provider.Finish, chat.FinishStop
			case 'l':
				ev.Kind, ev.Finish = provider.Finish, chat.FinishLength
			default:
				continue
			}
			events = append(events, ev)
		}
		const body = `"model":"m","input":"x","include":["reasoning.encrypted_content"],"tools":[{"type":"function","name":"f"},{"type":"custom","name":"patch"},{"type":"mcp","server_label":"docs","server_url":"https://a.example/"}]}`
		up := func() *played {
			return &played{events: append([]provider.Event(nil), events...), err: fault.New(fault.Unavailable, "gone")}
		}
		stream, err := answer(t, `{"stream":true,`+body, up(), sealing())
		whole, wholeErr := answer(t, `{`+body, up(), sealing())
		if (err == nil) != (wholeErr == nil) {
			t.Fatalf("stream ends with %v, the whole reply with %v", err, wholeErr)
		}
		if stream != "" {
			checkStream(t, script, stream)
		}
		if err != nil {
			if strings.Contains(stream, "event: response.completed") || strings.Contains(stream, "event: response.incomplete") {
				t.Fatalf("a stream that failed looks complete: %s", stream)
			}
			return
		}
		// The last event has what the whole reply is.
		last := stream[strings.LastIndex(stream, `"response":`)+len(`"response":`):]
		if got := strings.TrimSuffix(last, "}\n\n"); got != whole {
			t.Fatalf("last event = %s\nwhole reply = %s", got, whole)
		}
		if !json.Valid([]byte(whole)) {
			t.Fatalf("reply = %s, which is no JSON", whole)
		}
	})
}

// Whatever an upstream of the dialect says, the stream has events whose data is JSON, and the last one comes last.
func FuzzNative(f *testing.F) {
	f.Add(`{"type":"response.created","sequence_number":3,"response":{"id":"a","output":[]}}`, `{"type":"response.output_item.added","output_index":0,"item":{"id":"x_1"}}`, `{"object":"response","id":"b","output":[{"id":"y"},7]}`)
	f.Add(`{"object":"response","output":{}}`, `{"type":"response.completed","response":{"model":1}}`, `{"type":"a\nb"}`)
	f.Fuzz(func(t *testing.T, first, second, third string) {
		for _, stream := range []bool{true, false} {
			req, err := Parse(fmt.Appendf(nil, `{"model":"m","input":"x","stream":%t}`, stream))
			if err != nil {
				t.Fatal(err)
			}
			head := relay.Head{RequestID: "r", Model: "lab/m"}
			w := NewWriter(req, head, nil)
			b := w.Start(nil, head)
			for i, raw := range []string{first, second, third} {
				ev := &provider.Event{Kind: provider.Text, Raw: []byte("x"), Native: []byte(raw)}
				if i == 2 {
					ev.Kind, ev.Finish = provider.Finish, chat.FinishStop
				}
				b = w.Event(b, ev)
			}
			if !stream {
				if body := w.Body(nil, &relay.Outcome{}); !json.Valid(body) {
					t.Fatalf("Body = %s, which is no JSON", body)
				}
				continue
			}
			b = w.End(b, &relay.Outcome{})
			blocks := strings.Split(strings.TrimSuffix(string(b), "\n\n"), "\n\n")
			for i, block := range blocks {
				name, data, ok := strings.Cut(block, "\n")
				if !ok || !strings.HasPrefix(name, "event: ") || !strings.HasPrefix(data, "data: ") || strings.Contains(data, "\n") || !json.Valid([]byte(data[len("data: "):])) {
					t.Fatalf("event %d of %d is %q", i, len(blocks), block)
				}
				if ends := name == "event: response.completed"; ends != (i == len(blocks)-1) {
					t.Fatalf("event %d of %d is %q", i, len(blocks), block)
				}
			}
		}
	})
}

// checkSame holds a request against what its JSON is read as: an upstream of that dialect gets a chat completion, and it is
// as large as it was counted.
func checkSame(t *testing.T, body string, built *chat.Request) {
	t.Helper()
	written := built.AppendUpstream(nil, chat.Patch{})
	read, err := chat.Parse(written)
	if err != nil {
		t.Fatalf("Compose(%q) = %s, which is refused: %v", body, written, err)
	}
	sizes := func(r *chat.Request) string {
		return fmt.Sprint(r.PromptBytes(), r.TokenBound(), r.Attachments(), r.MaxTokens, r.Foreign(), r.ForeignBesideFiles(), r.Unvetted(), r.Reserved, r.Runs, r.UsesTools(), r.HasMCP(), r.Stream, r.User, r.Stop, r.ReasoningEffort, r.ToolChoice, r.Format.SchemaName)
	}
	if sizes(read) != sizes(built) {
		t.Fatalf("Compose(%q) has %s; its JSON %s has %s", body, sizes(built), written, sizes(read))
	}
}
