package toolloop_test

import (
	"reflect"
	"testing"
	"time"

	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/continuation"
)

// restart is another process on the same store.
func (s *site) restart(t *testing.T) *site {
	other := newSite(t, nil, time.Minute)
	other.states, other.id = s.states, s.id
	return other
}

const (
	first  = "call_000000000000000000011000"
	second = "call_000000000000000000011001"
)

// A turn with both kinds of calls: the caller gets only its own, and what was hidden is back in its
// place in the next request, in another process, with the upstream's ids.
func TestMixedTurns(t *testing.T) {
	t.Parallel()
	docs := newTools(t, "echo")
	s := newSite(t, nil, time.Minute)
	r := s.ask(with("", docs.entry("d"), weather),
		calls("First.", `call_0 d__echo {"text":"a"}`),
		calls("Then.", `call_0 weather {"city":"Rome"}`, `call_1 d__echo {"text":"b"}`, `call_2 weather {"city":"Oslo"}`))
	if r.err != nil || r.finish != chat.FinishToolCalls || r.text != "First.\n\nThen." || len(r.calls) != 2 {
		t.Fatalf("ask = %+v, want two calls of the function", r)
	}
	if r.calls[0] != (chat.ToolCall{ID: first, Name: "weather", Arguments: `{"city":"Rome"}`}) || r.calls[1].ID != second {
		t.Errorf("calls = %+v, want ids of our own", r.calls)
	}
	other := s.restart(t)
	r = other.ask(follow(r, []string{"sun", "snow"}, docs.entry("d"), weather), says("Done."))
	if r.err != nil || r.text != "Done." {
		t.Fatalf("follow-up = %+v, want an answer", r)
	}
	want(t, "conversation", other.model.messages(0), `user: go
assistant: First. <call_0 d__echo {"text":"a"}>
tool call_0: echo says a
assistant: Then. <call_0 weather {"city":"Rome"}> <call_1 d__echo {"text":"b"}> <call_2 weather {"city":"Oslo"}>
tool call_1: echo says b
tool call_0: sun
tool call_2: snow`)
	want(t, "calls", docs.calls(), "echo a; echo b")
}

// Steps that are gone are gone, and the conversation goes on.
func TestStepsExpired(t *testing.T) {
	t.Parallel()
	docs := newTools(t, "echo")
	s := newSite(t, nil, time.Minute)
	r := s.ask(with("", docs.entry("d"), weather), calls("", `1 d__echo {"text":"a"}`, `2 weather {}`))
	s.states = continuation.New(&states{kept: map[string][]byte{}}, nil)
	r = s.ask(follow(r, []string{"sun"}, docs.entry("d"), weather), says("Done."))
	if r.err != nil || r.text != "Done." {
		t.Fatalf("follow-up = %+v, want an answer", r)
	}
	want(t, "conversation", s.model.messages(0), "user: go\nassistant:  <"+first+" weather {}>\ntool "+first+": sun")
}

// Images of a mixed turn come behind the caller's results.
func TestMixedImages(t *testing.T) {
	t.Parallel()
	docs := newTools(t, "draw")
	s := newSite(t, nil, time.Minute)
	s.images = true
	r := s.ask(with("", docs.entry("d"), weather), calls("", `1 d__draw {"text":"a"}`, `2 weather {}`))
	r = s.ask(follow(r, []string{"sun"}, docs.entry("d"), weather), says("Done."))
	if r.err != nil {
		t.Fatal(r.err)
	}
	want(t, "conversation", s.model.messages(0), `user: go
assistant:  <1 d__draw {"text":"a"}> <2 weather {}>
tool 1: (no content)
tool 2: sun
user: Images that the tool d__draw returned: data:image/png;base64,cG5n`)
}

// A server that needs approval: its calls go to the caller, who decides.
func TestApprovals(t *testing.T) {
	t.Parallel()
	for answer, test := range map[string]struct {
		result string
		ran    string
	}{
		`{"approve":true}`:       {"echo says a", "echo a"},
		" {\"approve\": true}\n": {"echo says a", "echo a"},
		`{"approve":false}`:      {"The user has not approved this call.", ""},
		`something else`:         {"something else", ""},
		`{"approve":"yes"}`:      {`{"approve":"yes"}`, ""},
		`{"approve":true,"a":1}`: {`{"approve":true,"a":1}`, ""},
	} {
		docs := newTools(t, "echo")
		entry := docs.entry("d", `"require_approval":"always"`)
		s := newSite(t, nil, time.Minute)
		r := s.ask(with("", entry), calls("May I?", `call_0 echo {"text":"a"}`))
		if r.err != nil || len(r.calls) != 1 || r.calls[0] != (chat.ToolCall{ID: first, Name: "d__echo", Arguments: `{"text":"a"}`}) || docs.calls() != "" {
			t.Fatalf("ask = %+v with calls %q, want the call handed out and not run", r, docs.calls())
		}
		other := s.restart(t)
		body := follow(r, []string{answer}, entry)
		for range 2 { // a request that is sent again runs nothing again
			r = other.ask(body, says("Done."))
			if r.err != nil || r.text != "Done." {
				t.Fatalf("%s: follow-up = %+v, want an answer", answer, r)
			}
			want(t, answer, other.model.messages(0), `user: go
assistant: May I? <call_0 d__echo {"text":"a"}>
tool call_0: `+test.result)
			want(t, answer, docs.calls(), test.ran)
		}
	}
}

// Calls that need no approval, calls that do, and functions, in one turn; then a further turn of the
// conversation, where the approval lies back.
func TestApprovalsMixed(t *testing.T) {
	t.Parallel()
	free, guarded := newTools(t, "echo"), newTools(t, "write")
	entries := []string{free.entry("free"), guarded.entry("guarded", `"require_approval":{"never":{"tool_names":["read"]}}`), weather}
	s := newSite(t, nil, time.Minute)
	r := s.ask(with("", entries...), calls("", `a free__echo {"text":"1"}`, `b guarded__write {"text":"2"}`, `c weather {}`))
	if len(r.calls) != 2 || free.calls() != "echo 1" || guarded.calls() != "" {
		t.Fatalf("ask = %+v, want two calls and one run", r)
	}
	const conversation = `user: go
assistant:  <a free__echo {"text":"1"}> <b guarded__write {"text":"2"}> <c weather {}>
tool a: echo says 1
tool b: write says 2
tool c: sun`
	body := follow(r, []string{`{"approve":true}`, "sun"}, entries...)
	r = s.ask(body, says("Done."))
	want(t, "conversation", s.model.messages(0), conversation)
	once := chat.Usage{Prompt: 10, Completion: 5}
	if !reflect.DeepEqual(r.spent, toolloop.Spent{Turns: 1, Calls: 1, Usage: once, Each: []toolloop.Turn{{Usage: once}}}) || guarded.calls() != "write 2" {
		t.Errorf("spent = %+v after %q, want one call", r.spent, guarded.calls())
	}
	later := body[:len(`"messages":`)+len(messagesOf(body))-1] + `,{"role":"assistant","content":"Done."},{"role":"user","content":"more"}]` + body[len(`"messages":`)+len(messagesOf(body)):]
	s.ask(later, says("Done."))
	want(t, "the conversation later", s.model.messages(0), conversation+"\nassistant: Done.\nuser: more")
	s.states = continuation.New(&states{kept: map[string][]byte{}}, nil)
	s.ask(later, says("Done."))
	want(t, "the conversation much later", s.model.messages(0), `user: go
assistant:  <`+first+` guarded__write {"text":"2"}> <`+second+` weather {}>
tool `+first+`: (The call was approved and has run. Its result is no longer known.)
tool `+second+`: sun
assistant: Done.
user: more`)
	want(t, "calls", guarded.calls(), "write 2")
}

// messagesOf is the array of messages that a body of follow begins with.
func messagesOf(body string) string {
	from := len(`"messages":`)
	for i := from; ; i++ {
		if body[i:i+len(`],"tools"`)] == `],"tools"` {
			return body[from : i+1]
		}
	}
}

// A tool that waited for approval and is gone by then is an error that the model sees.
func TestApprovedToolIsGone(t *testing.T) {
	t.Parallel()
	docs := newTools(t, "echo", "time")
	s := newSite(t, nil, time.Minute)
	r := s.ask(with("", docs.entry("d", `"require_approval":"always"`)), calls("", `1 d__echo {"text":"a"}`))
	r = s.ask(follow(r, []string{`{"approve":true}`}, docs.entry("d", `"require_approval":"always"`, `"allowed_tools":["time"]`)), says("Done."))
	if r.err != nil || docs.calls() != "" {
		t.Fatalf("follow-up = %+v, want an answer and no call", r)
	}
	want(t, "conversation", s.model.messages(0), "user: go\nassistant:  <1 d__echo {\"text\":\"a\"}>\ntool 1: Error: there is no tool called \"d__echo\".")
}
