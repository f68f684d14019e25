package toolloop_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}

// Two turns become one reply: texts with a blank line between, usage added up, calls hidden.
func TestLoop(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, time.Minute), newTools(t, "echo")
	r := s.ask(with("", docs.entry("My Docs")),
		calls("Let me see.", `call_0 my_docs__echo {"text":"a"}`, `call_1 my_docs__echo {"text":"b"}`, `call_2 echo {"text":"c"}`),
		calls("", `call_0 my_docs__echo {"text":"d"}`),
		says("It says a."))
	if r.err != nil || len(r.calls) != 0 || r.finish != chat.FinishStop {
		t.Fatalf("ask = %+v, want a final answer", r)
	}
	want(t, "text", r.text, "Let me see.\n\nIt says a.")
	want(t, "conversation", s.model.messages(2), `user: go
assistant: Let me see. <call_0 my_docs__echo {"text":"a"}> <call_1 my_docs__echo {"text":"b"}> <call_2 echo {"text":"c"}>
tool call_0: echo says a
tool call_1: echo says b
tool call_2: echo says c
assistant:  <call_0 my_docs__echo {"text":"d"}>
tool call_0: echo says d`)
	once := toolloop.Turn{Usage: chat.Usage{Prompt: 10, Completion: 5}}
	if r.usage != (chat.Usage{Prompt: 30, Completion: 15}) || !reflect.DeepEqual(r.spent, toolloop.Spent{Turns: 3, Calls: 4, Usage: r.usage, Each: []toolloop.Turn{once, once, once}}) {
		t.Errorf("usage = %+v, spent %+v, want three turns' sum and four calls", r.usage, r.spent)
	}
}

// Replies of the OpenAI dialect, streamed and whole, are read alike.
func TestRawReplies(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, time.Minute), newTools(t, "echo")
	raw := func(kind provider.Kind, all ...string) turn {
		var events []provider.Event
		for _, text := range all {
			events = append(events, provider.Event{Kind: kind, Raw: []byte(text)})
		}
		return turn{events: events}
	}
	r := s.ask(with("", docs.entry("docs")),
		raw(provider.Chunk,
			`{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Hm."}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"docs__echo","arguments":"{\"text\":"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}`),
		raw(provider.Whole, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Done.","reasoning_content":"So."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`))
	if r.err != nil || r.text != "Done." || r.reasoning != "Hm.\n\nSo." || r.usage.Total() != 20 || docs.calls() != "echo a" {
		t.Errorf("ask = %+v with calls %q, want both turns read", r, docs.calls())
	}
}

// What the model is offered: functions as they are, tools under their prefixes, filtered and unique.
func TestOffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("l", 80)
	a, b := newTools(t, "echo", "time", "no.dots", long), newTools(t, "echo", "other")
	for name, test := range map[string]struct {
		tools []string
		want  string
	}{
		"two servers":   {[]string{a.entry("A", `"allowed_tools":["echo","time"]`), weather, b.entry("B")}, "a__echo a__time weather b__echo b__other"},
		"same label":    {[]string{b.entry("Same!"), b.entry("same")}, "same__echo same__other same_2__echo same_2__other"},
		"host":          {[]string{b.entry("")}, "mcp_127_0_0_1__echo mcp_127_0_0_1__other"},
		"no words":      {[]string{b.entry("数据")}, "mcp__echo mcp__other"},
		"long label":    {[]string{b.entry("The Very Long Name Of A Server", `"allowed_tools":["echo"]`)}, "the_very_long_name_of_a__echo"},
		"odd names":     {[]string{a.entry("a", `"allowed_tools":["no.dots","`+long+`"]`)}, "a__" + strings.Repeat("l", 52) + "_a918df87 a__no_dots_0463ee7f"},
		"none allowed":  {[]string{a.entry("a", `"allowed_tools":[]`), weather}, "weather"},
		"unknown names": {[]string{a.entry("a", `"allowed_tools":["echo","nothing"]`)}, "a__echo"},
		"taken":         {[]string{`{"type":"function","function":{"name":"b__echo"}}`, b.entry("b", `"allowed_tools":["echo"]`)}, "b__echo b__echo_e324c8bd"},
	} {
		s := newSite(t, nil, time.Minute)
		if r := s.ask(with("", test.tools...), says("ok")); r.err != nil {
			t.Errorf("%s: ask = %v", name, r.err)
			continue
		}
		var got []string
		for _, tool := range s.model.asked[0].Tools {
			got = append(got, tool.Function.Name)
			if len(tool.Function.Name) > 64 {
				t.Errorf("%s: the name %s has %d characters, want at most 64", name, tool.Function.Name, len(tool.Function.Name))
			}
		}
		want(t, name, strings.Join(got, " "), test.want)
	}
	s := newSite(t, nil, time.Minute)
	if r := s.ask(with("", a.entry("a", `"allowed_tools":[]`)), says("ok")); r.err != nil || s.model.asked[0].Tools != nil {
		t.Errorf("ask with no tool allowed = %+v, want a request without tools", r)
	}
}

// tool_choice reaches the first turn alone.
func TestToolChoice(t *testing.T) {
	t.Parallel()
	a, b := newTools(t, "echo", "time"), newTools(t, "echo")
	named := func(name string) string {
		return `,"tool_choice":{"type":"function","function":{"name":"` + name + `"}}`
	}
	for choice, want := range map[string]struct {
		first chat.ToolChoice
		err   string
	}{
		"":                          {},
		`,"tool_choice":"auto"`:     {},
		`,"tool_choice":"required"`: {first: chat.ToolChoice{Mode: chat.ChoiceRequired}},
		`,"tool_choice":"none"`:     {first: chat.ToolChoice{Mode: chat.ChoiceNone}},
		named("a__echo"):            {first: chat.ToolChoice{Mode: chat.ChoiceNamed, Name: "a__echo"}},
		named("time"):               {first: chat.ToolChoice{Mode: chat.ChoiceNamed, Name: "a__time"}},
		named("weather"):            {first: chat.ToolChoice{Mode: chat.ChoiceNamed, Name: "weather"}},
		named("echo"):               {err: `tool_choice names "echo", which several MCP servers have. Say which one: "a__echo" or "b__echo".`},
		named("nothing"):            {err: `tool_choice names "nothing", and neither the functions nor the MCP servers of the request have it.`},
	} {
		s := newSite(t, nil, time.Minute)
		r := s.ask(with(choice, a.entry("a"), b.entry("b"), weather), calls("", `1 a__time {"text":"x"}`), says("ok"))
		if want.err != "" {
			if f := fault.From(r.err); f.Kind != fault.Invalid || f.Message != want.err || f.Param != "tool_choice.function.name" {
				t.Errorf("ask with %s = %v at %s, want %q", choice, r.err, f.Param, want.err)
			}
			continue
		}
		if r.err != nil || s.model.asked[0].ToolChoice != want.first || s.model.asked[1].ToolChoice != (chat.ToolChoice{}) {
			t.Errorf("ask with %s: %v, turns got %+v, want %+v in the first alone", choice, r.err, s.model.asked, want.first)
		}
	}
	s := newSite(t, nil, time.Minute)
	r := s.ask(with(`,"tool_choice":"required"`, a.entry("a", `"allowed_tools":[]`)), says("ok"))
	if f := fault.From(r.err); f.Kind != fault.Invalid || f.Param != "tool_choice" {
		t.Errorf("ask for a required tool without any = %v, want a 400", r.err)
	}
}

// A server that cannot be used, or too much of anything, is a 400 that says where.
func TestRefusals(t *testing.T) {
	t.Parallel()
	good := newTools(t, "echo", "time", "other")
	denied := newTools(t)
	denied.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) })
	for name, test := range map[string]struct {
		body, param, message string
	}{
		"unreachable": {with("", good.entry("good"), `{"type":"mcp","server_url":"http://127.0.0.1:1/","server_label":"Gone"}`), "tools[1].server_url", `The MCP server "Gone" cannot be used: it cannot be reached.`},
		"private":     {with("", `{"type":"mcp","server_url":"http://10.0.0.1/"}`), "tools[0].server_url", `The MCP server "10.0.0.1" cannot be used: its address is not a public one.`},
		"denied":      {with("", weather, denied.entry("d")), "tools[1].headers", `The MCP server "d" cannot be used: it answered with status 401; check the headers that are sent to it.`},
		"many tools":  {with("", good.entry("a"), good.entry("b")), "tools", "The request and its MCP servers have 6 tools together; at most 5 are possible. Name those you need in allowed_tools."},
		"servers":     {with("", good.entry("a"), good.entry("b"), good.entry("c")), "tools[2]", "tools has 3 MCP servers; at most 2 are possible."},
		"n":           {with(`,"n":2`, good.entry("a")), "n", "n must be 1 in a request with MCP tools."},
	} {
		s := newSite(t, &toolloop.Options{MaxTools: 5, MaxServers: 2}, 5*time.Second)
		r := s.ask(test.body, says("no"))
		if f := fault.From(r.err); r.err == nil || f.Kind != fault.Invalid || f.Param != test.param || f.Message != test.message {
			t.Errorf("%s: ask = %v at %q, want %q at %q", name, r.err, f.Param, test.message, test.param)
		}
		if len(s.model.asked) != 0 {
			t.Errorf("%s: the model was asked", name)
		}
	}
}

// After discovery whatever goes wrong is a result that the model sees.
func TestToolErrors(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, generous), newTools(t, "echo", "fail", "draw")
	r := s.ask(with("", docs.entry("d")), calls("",
		`1 d__fail {"text":"x"}`, `3 d__nothing {}`, `4 d__echo [1]`, `5 d__echo {"text":`, `6 d__echo {"txt":1}`, `7 d__draw {"text":"x"}`, `7 d__echo {"text":"x"}`, `- d__echo {"text":"y"}`),
		says("ok"))
	if r.err != nil || r.text != "ok" {
		t.Fatalf("ask = %+v, want an answer", r)
	}
	got := s.model.messages(1)
	for _, line := range []string{
		"tool 1: Error: the tool broke",
		`tool 3: Error: there is no tool called "d__nothing".`,
		"tool 4: Error: the arguments are not a JSON object.",
		"tool 5: Error: the arguments are not a JSON object.",
		"tool 6: Error: ",
		"tool 7: [an image of 3 bytes, which the model cannot see]",
		"tool call_000000000000000000012006: echo says x",
		"tool call_000000000000000000012007: echo says y",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("the model saw\n%s\nwant a line that begins with %q", got, line)
		}
	}
	if r.spent.Calls != 5 || r.spent.Failed != 2 {
		t.Errorf("spent = %+v, want 5 calls, 2 of them failed", r.spent)
	}
}

func TestToolTimeout(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, 300*time.Millisecond), newTools(t, "wait")
	r := s.ask(with("", docs.entry("d")), calls("", `1 d__wait {"text":"x"}`), says("ok"))
	if r.err != nil || r.text != "ok" || r.spent.Calls != 1 || r.spent.Failed != 1 {
		t.Fatalf("ask = %+v, want an answer and a call that failed", r)
	}
	if got, want := s.model.messages(1), `tool 1: Error: the MCP server "d" gave no result: it took longer than 0.3 s.`; !strings.Contains(got, want) {
		t.Errorf("the model saw\n%s\nwant a line that begins with %q", got, want)
	}
}

// Images go to a model that takes them, behind the results.
func TestImages(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, time.Minute), newTools(t, "echo", "draw")
	s.images = true
	r := s.ask(with("", docs.entry("d")), calls("", `1 d__draw {"text":"x"}`, `2 d__echo {"text":"x"}`), says("ok"))
	if r.err != nil {
		t.Fatal(r.err)
	}
	want(t, "conversation", s.model.messages(1), `user: go
assistant:  <1 d__draw {"text":"x"}> <2 d__echo {"text":"x"}>
tool 1: (no content)
tool 2: echo says x
user: Images that the tool d__draw returned: data:image/png;base64,cG5n`)
}

// A model that never stops calling is asked a last time, without a choice.
func TestRounds(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, &toolloop.Options{MaxRounds: 3}, time.Minute), newTools(t, "echo")
	r := s.ask(with("", docs.entry("d")), calls("", `1 d__echo {"text":"x"}`))
	if r.err != nil || r.spent.Turns != 4 || r.spent.Calls != 3 {
		t.Errorf("ask = %+v, want 4 turns and 3 calls", r)
	}
	if got := s.model.asked[3].ToolChoice.Mode; got != chat.ChoiceNone {
		t.Errorf("the last turn's choice = %d, want none", got)
	}
}

// A turn that was cut short by its length is the end: its calls may be cut, too.
func TestLength(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, time.Minute), newTools(t, "echo")
	cut := calls("a", `1 d__echo {"text":"x"}`)
	cut.events[len(cut.events)-2].Finish = chat.FinishLength
	if r := s.ask(with("", docs.entry("d")), cut); r.err != nil || r.finish != chat.FinishLength || docs.calls() != "" {
		t.Errorf("ask = %+v with calls %q, want none and the finish reason length", r, docs.calls())
	}
}

// The request fails only if the model does.
func TestModelFails(t *testing.T) {
	t.Parallel()
	docs := newTools(t, "echo")
	down := fault.New(fault.Unavailable, "down")
	s := newSite(t, nil, time.Minute)
	if r := s.ask(with("", docs.entry("d")), turn{err: down}); !errors.Is(r.err, error(down)) {
		t.Errorf("ask = %v, want the model's fault", r.err)
	}
	r := s.ask(with("", docs.entry("d")), calls("a", `1 d__echo {"text":"x"}`), turn{err: down})
	if !errors.Is(r.err, error(down)) || r.text != "a" || r.spent.Turns != 1 || r.spent.Usage.Total() != 15 {
		t.Errorf("ask = %+v, want the second turn's fault after the first turn", r)
	}
	r = s.ask(with("", docs.entry("d")), turn{events: []provider.Event{textEvent("half an answer")}})
	if !fault.Is(r.err, fault.Unavailable) || !r.spent.Counted || r.spent.Usage.Completion != 3 {
		t.Errorf("ask of a turn without an end = %+v, want a fault and an estimate", r)
	}
}

// A model that never stops writing fails the request at the bound: what it writes is kept for its next turn.
func TestEndlessTurn(t *testing.T) {
	t.Parallel()
	docs := newTools(t, "echo")
	piece := strings.Repeat("x", provider.MaxText/8)
	for name, events := range map[string][]provider.Event{
		"text":      slices.Repeat([]provider.Event{textEvent(piece)}, 9),
		"reasoning": slices.Repeat([]provider.Event{{Kind: provider.Reasoning, Text: piece}}, 9),
		"arguments": slices.Repeat([]provider.Event{{Kind: provider.ToolCall, Tool: provider.ToolPiece{ID: "c", Name: "d__echo", Arguments: piece}}}, 9),
	} {
		if r := newSite(t, nil, time.Minute).ask(with("", docs.entry("d")), turn{events: events}); !errors.Is(r.err, provider.ErrTooLong) {
			t.Errorf("%s without an end = %v, want that it is too long", name, r.err)
		}
	}
}

// A caller who hangs up ends the calls and the sessions.
func TestHangUp(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, time.Minute), newTools(t, "wait")
	ctx, hangUp := context.WithCancel(t.Context())
	stream, err := s.open(ctx, with("", docs.entry("d")), calls("", `1 d__wait {"text":"x"}`), says("no"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-docs.waiting
		hangUp()
	}()
	r := pull(stream)
	stream.Close()
	s.client.Close()
	if !errors.Is(r.err, context.Canceled) || len(s.model.asked) != 1 {
		t.Errorf("pull = %+v after %d turns, want it canceled in the first", r, len(s.model.asked))
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, time.Minute), newTools(t, "echo")
	stream, err := s.open(t.Context(), with("", docs.entry("d")), calls("a", `1 d__echo {"text":"x"}`), says("b"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	defer stream.Close()
	if err := stream.Start(); err != nil {
		t.Fatal(err)
	}
	var ready []bool
	for {
		ready = append(ready, stream.Ready())
		if _, err := stream.Next(); err != nil {
			break
		}
	}
	if got := fmt.Sprint(ready); got != "[true true true true true]" && got != "[true false true true true]" {
		t.Errorf("Ready before each Next = %s, want true except where turns and tools are waited for", got)
	}
}

// Calls of one turn run at the same time.
func TestParallel(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, generous), newTools(t, "meet")
	r := s.ask(with("", docs.entry("d")), calls("", `1 d__meet {"text":"a"}`, `2 d__meet {"text":"b"}`), says("ok"))
	if r.err != nil || r.spent.Calls != 2 || r.spent.Failed != 0 {
		t.Errorf("ask = %+v, want both calls to meet", r)
	}
}

// All results of a request together are bounded.
func TestResultsTogether(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, generous), newTools(t, "big")
	var all []string
	for i := range 17 {
		all = append(all, fmt.Sprintf(`%d d__big {"text":""}`, i))
	}
	if r := s.ask(with("", docs.entry("d")), calls("", all...), says("ok")); r.err != nil {
		t.Fatalf("ask = %v", r.err)
	}
	refused := strings.Count(s.model.messages(1), "Error: the results of this request are larger than 16 MiB together.")
	if size := len(s.model.asked[1].AppendUpstream(nil, chat.Patch{})); refused == 0 || refused > 3 || size > 17<<20 {
		t.Errorf("%d results were refused in a request of %d bytes, want the rest to fit", refused, size)
	}
}

// A server that dies in the middle is an error for the model, and may be back for the next call.
func TestServerDies(t *testing.T) {
	t.Parallel()
	s, docs := newSite(t, nil, generous), newTools(t, "die", "echo")
	r := s.ask(with("", docs.entry("d")), calls("", `1 d__die {"text":"a"}`), calls("", `2 d__echo {"text":"b"}`), says("ok"))
	if r.err != nil || r.spent.Calls != 2 || r.spent.Failed != 1 {
		t.Fatalf("ask = %+v, want an answer after one failure", r)
	}
	want(t, "conversation", s.model.messages(2), `user: go
assistant:  <1 d__die {"text":"a"}>
tool 1: Error: the MCP server "d" gave no result: it cannot be reached.
assistant:  <2 d__echo {"text":"b"}>
tool 2: echo says b`)
}
