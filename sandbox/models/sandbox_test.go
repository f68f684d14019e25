package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/provider"
)

var update = flag.Bool("update", false, "rewrite the events of the transcripts")

// outcome is a reply, collected as a door would collect it.
type outcome struct {
	content   string
	reasoning string
	calls     []chat.ToolCall
	finish    chat.Finish
	usage     chat.Usage
	chunks    int // events with content
	events    string
	err       error
}

// ask parses the body as the door does and collects the reply, checking what every stream must keep.
func ask(t *testing.T, body []byte, maxOutput int) outcome {
	t.Helper()
	request, err := chat.Parse(body)
	if err != nil {
		t.Fatalf("Parse(%s) = %v, want a request", body, err)
	}
	manner := strings.TrimPrefix(request.Model, "sandbox/")
	call := &provider.Call{Request: request, Upstream: manner, MaxOutput: maxOutput, Thinks: manner == "reasoner"}
	stream, err := New().Open(t.Context(), call)
	if err != nil {
		return outcome{err: err}
	}
	defer stream.Close()
	return collect(t, stream)
}

func collect(t *testing.T, stream provider.Stream) (o outcome) {
	t.Helper()
	var log, content, reasoning strings.Builder
	defer func() { o.content, o.reasoning = content.String(), reasoning.String() }()
	stage := provider.Reasoning
	for {
		event, err := stream.Next()
		if err == io.EOF {
			if stage != provider.Usage {
				t.Errorf("the stream ended after %d, want it to end after the usage", stage)
			}
			o.events = log.String()
			return o
		}
		if err != nil {
			o.err = err
			return o
		}
		order := map[provider.Kind]int{provider.Reasoning: 0, provider.Text: 1, provider.ToolCall: 1, provider.Finish: 2, provider.Usage: 3}
		if order[event.Kind] < order[stage] || order[event.Kind] == order[stage] && event.Kind >= provider.Finish {
			t.Errorf("event %d came after %d", event.Kind, stage)
		}
		stage = event.Kind
		switch event.Kind {
		case provider.Text, provider.Reasoning:
			if event.Text == "" || !utf8.ValidString(event.Text) {
				t.Errorf("a piece is %q, want whole characters", event.Text)
			}
			if o.chunks++; event.Kind == provider.Text {
				content.WriteString(event.Text)
				fmt.Fprintf(&log, "text %q\n", event.Text)
			} else {
				reasoning.WriteString(event.Text)
				fmt.Fprintf(&log, "reasoning %q\n", event.Text)
			}
		case provider.ToolCall:
			o.chunks++
			piece := event.Tool
			fmt.Fprintf(&log, "call %d %q %q %q\n", piece.Index, piece.ID, piece.Name, piece.Arguments)
			if piece.Index == len(o.calls) {
				if !regexp.MustCompile(`^call_[0-9a-z]{24}$`).MatchString(piece.ID) || piece.Name == "" {
					t.Errorf("call %d begins with id %q and name %q", piece.Index, piece.ID, piece.Name)
				}
				o.calls = append(o.calls, chat.ToolCall{ID: piece.ID, Name: piece.Name})
			} else if piece.Index != len(o.calls)-1 || piece.ID != "" || piece.Name != "" {
				t.Errorf("a later piece of a call is %+v, want the same index and no id or name", piece)
			}
			o.calls[piece.Index].Arguments += piece.Arguments
		case provider.Finish:
			o.finish = event.Finish
			fmt.Fprintf(&log, "finish %s\n", event.Finish)
		case provider.Usage:
			o.usage = event.Usage
			fmt.Fprintf(&log, "usage prompt %d completion %d reasoning %d\n", o.usage.Prompt, o.usage.Completion, o.usage.Reasoning)
		}
	}
}

// TestTranscripts runs testdata/*.txtar. A case is NAME/request.json with NAME/expect, whose lines are
// read by check; NAME/events, where present, is the exact sequence of events.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %v, %v, want transcripts", files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := make(map[string][]byte)
		for _, f := range archive.Files {
			if parts[f.Name] != nil {
				t.Fatalf("%s has %s twice", file, f.Name)
			}
			parts[f.Name] = f.Data
		}
		for i, f := range archive.Files {
			name, isRequest := strings.CutSuffix(f.Name, "/request.json")
			if *update && strings.HasSuffix(f.Name, "/events") {
				archive.Files[i].Data = []byte(ask(t, parts[strings.TrimSuffix(f.Name, "events")+"request.json"], 0).events)
			}
			if isRequest {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+name, func(t *testing.T) {
					t.Parallel()
					transcript(t, f.Data, string(parts[name+"/expect"]), string(parts[name+"/events"]))
				})
			}
		}
		if *update {
			if err := os.WriteFile(file, txtar.Format(archive), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func transcript(t *testing.T, body []byte, expect, events string) {
	var maxOutput int
	if m := regexp.MustCompile(`(?m)^max-output (\d+)$`).FindStringSubmatch(expect); m != nil {
		maxOutput, _ = strconv.Atoi(m[1])
	}
	got := ask(t, body, maxOutput)
	if strings.TrimSpace(expect) == "" {
		t.Fatal("the case expects nothing")
	}
	for line := range strings.Lines(expect) {
		if problem := check(t, strings.TrimSpace(line), body, &got); problem != "" {
			t.Errorf("%s: %s\nrequest: %s", strings.TrimSpace(line), problem, body)
		}
	}
	if events != "" && !*update && events != got.events {
		t.Errorf("events =\n%swant\n%s", got.events, events)
	}
	if got.err == nil {
		invariants(t, body, maxOutput, got)
	}
}

// check compares one line of expectation with the reply and says what is wrong.
func check(t *testing.T, line string, body []byte, got *outcome) string {
	subject, want, _ := strings.Cut(line, " ")
	verb, rest, _ := strings.Cut(want, " ")
	text := rest
	if strings.HasPrefix(rest, `"`) {
		if json.Unmarshal([]byte(rest), &text) != nil {
			t.Fatalf("bad expectation %s", line)
		}
	}
	fail := func(holds bool, value any) string {
		if holds {
			return ""
		}
		return fmt.Sprintf("got %#v", value)
	}
	if got.err != nil && subject != "error" && subject != "cut" && subject != "retry-after" && subject != "max-output" {
		return fmt.Sprintf("the call failed: %v", got.err)
	}
	switch subject {
	case "content", "reasoning":
		value := got.content
		if subject == "reasoning" {
			value = got.reasoning
		}
		switch verb {
		case "is":
			return fail(value == text, value)
		case "has":
			return fail(strings.Contains(value, text), value)
		case "lacks":
			return fail(value != "" && !strings.Contains(value, text), value)
		case "none":
			return fail(value == "", value)
		case "json":
			return fail(json.Valid([]byte(value)), value)
		case "fits": // the schema; invariants check that for every reply
			return fail(len(schemaOf(t, body)) > 0, value)
		case "at":
			path, wanted, _ := strings.Cut(rest, " is ")
			return fail(sameJSON(t, at(t, value, path), wanted), value)
		}
	case "finish":
		return fail(string(got.finish) == want, got.finish)
	case "completion":
		if verb == "<=" {
			n, _ := strconv.Atoi(rest)
			return fail(got.usage.CompletionTotal() <= n, got.usage)
		}
		return fail(strconv.Itoa(got.usage.CompletionTotal()) == want, got.usage)
	case "prompt":
		return fail(strconv.Itoa(got.usage.Prompt) == want, got.usage)
	case "calls": // none
		return fail(len(got.calls) == 0, got.calls)
	case "call":
		if len(got.calls) == 0 {
			return fail(false, got.content)
		}
		call := got.calls[0]
		got.calls = append(got.calls[1:], chat.ToolCall{Name: "checked"})
		return fail(call.Name == verb && (rest == "*" || sameJSON(t, call.Arguments, rest)), call)
	case "error":
		f, ok := errors.AsType[*fault.Fault](got.err)
		return fail(ok && strconv.Itoa(f.Kind.Status()) == verb && strings.Contains(f.Message, text), got.err)
	case "cut": // CHUNKS STATUS MESSAGE
		status, message, _ := strings.Cut(rest, " ")
		f, ok := errors.AsType[*fault.Fault](got.err)
		return fail(ok && strconv.Itoa(got.chunks) == verb && strconv.Itoa(f.Kind.Status()) == status && strings.Contains(f.Message, strings.Trim(message, `"`)), got)
	case "retry-after":
		f, ok := errors.AsType[*fault.Fault](got.err)
		return fail(ok && f.RetryAfter.String() == want, got.err)
	case "max-output":
		return ""
	}
	t.Fatalf("unknown expectation %s", line)
	return ""
}

// invariants are what holds for every reply, whatever the case expects.
func invariants(t *testing.T, body []byte, maxOutput int, got outcome) {
	t.Helper()
	if n := len(got.calls); n > 0 && got.calls[n-1].Name != "checked" {
		t.Errorf("%d calls, want all of them named by the case: %+v", n, got.calls)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		t.Fatal(err)
	}
	members["stream"] = json.RawMessage(strconv.FormatBool(string(members["stream"]) != "true"))
	other, _ := json.Marshal(members)
	same := func(label string, o outcome) {
		if o.content != got.content || o.reasoning != got.reasoning || o.finish != got.finish || o.usage != got.usage || o.events != got.events {
			t.Errorf("%s the reply is\n%swant\n%s", label, o.events, got.events)
		}
	}
	same("asked again", ask(t, body, maxOutput))
	same("with stream turned", ask(t, other, maxOutput))

	request, _ := chat.Parse(body)
	again := ask(t, body, maxOutput)
	if request.MaxTokens > 0 && got.usage.CompletionTotal() > request.MaxTokens || maxOutput > 0 && got.usage.CompletionTotal() > maxOutput {
		t.Errorf("usage = %+v, want at most max_tokens", got.usage)
	}
	if n := tokens.Count(got.content); len(again.calls) == 0 && n != got.usage.Completion {
		t.Errorf("usage = %+v, want a completion of %d tokens", got.usage, n)
	}
	if n := tokens.Count(got.reasoning); n != got.usage.Reasoning {
		t.Errorf("usage = %+v, want %d tokens of reasoning", got.usage, n)
	}
	for _, stop := range request.Stop {
		if strings.Contains(got.content, stop) {
			t.Errorf("content = %q, want nothing from the stop sequence %q on", got.content, stop)
		}
	}
	if len(again.calls) > 0 != (got.finish == chat.FinishToolCalls) && got.finish != chat.FinishLength {
		t.Errorf("finish = %s with %d calls", got.finish, len(again.calls))
	}
	seen := make(map[string]bool)
	for _, call := range again.calls {
		if seen[call.ID] {
			t.Errorf("the id %s is there twice", call.ID)
		}
		seen[call.ID] = true
		for _, tool := range request.Tools {
			if tool.Function.Name == call.Name && got.finish == chat.FinishToolCalls {
				validate(t, tool.Function.Parameters, call.Arguments)
			}
		}
	}
	if schema := schemaOf(t, body); got.finish == chat.FinishStop && len(again.calls) == 0 && schema != nil {
		validate(t, schema, got.content)
	} else if request.Format.Kind != chat.FormatText && got.finish == chat.FinishStop && !strings.HasPrefix(got.content, "{") {
		t.Errorf("content = %q, want a JSON object", got.content)
	}
}

func schemaOf(t *testing.T, body []byte) []byte {
	request, err := chat.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	return request.Format.Schema
}

// validate asks a validator that shares nothing with the sandbox.
func validate(t *testing.T, schema []byte, value string) {
	t.Helper()
	if schema == nil {
		schema = []byte(`{"type":"object"}`)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		t.Fatalf("%q is no JSON: %v", value, err)
	}
	if err := compiled.Validate(instance); err != nil {
		t.Errorf("%s does not fit %s: %v", value, schema, err)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil {
		return false
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("bad expectation %s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}

func at(t *testing.T, value, path string) string {
	raw := json.RawMessage(value)
	for step := range strings.SplitSeq(path, ".") {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return ""
		}
		raw = members[step]
	}
	return string(raw)
}

// TestSaysWhatItLeavesOut holds a reply's header to be true: what makes no difference here is named.
func TestSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		``: "",
		`,"temperature":0.5,"seed":1,"top_p":1,"reasoning_effort":"none"`: "",
		`,"reasoning_effort":"high","logit_bias":{"1":2},"top_p":0.5`:     "top_p, reasoning_effort, logit_bias",
		`,"max_tokens":128000,"user":"u"`:                                 "user, max_tokens",
	} {
		req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]` + members + `}`))
		if err != nil {
			t.Fatal(err)
		}
		call := &provider.Call{Request: req, Upstream: "small", MaxOutput: 100}
		if _, err := New().Open(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(call.Dropped, ", "); got != want {
			t.Errorf("%s: dropped %q, want %q", members, got, want)
		}
	}
	req, err := chat.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New().Open(t.Context(), &provider.Call{Request: req}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open with a file = %v, want a 400", err)
	}
}
