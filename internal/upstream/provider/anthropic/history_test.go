package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/anthropic"
	"sluice/internal/upstream/provider/providertest"
)

// talk is a conversation with the strict Claude, as a client of chat completions has it.
type talk struct {
	t        *testing.T
	claude   *providertest.Claude
	adapter  *anthropic.Adapter
	memories providertest.Memories
	model    string
	more     string // members of each request
	stream   bool
	messages []string
	dropped  []string // by the last requests
}

const lookTool = `"tools":[{"type":"function","function":{"name":"look.up","parameters":{"type":"object"}}},{"type":"function","function":{"name":"other"}}]`

func newTalk(t *testing.T, model, more string, stream bool) *talk {
	t.Helper()
	c := &talk{t: t, claude: &providertest.Claude{}, model: model, more: more, stream: stream}
	server := httptest.NewServer(c.claude)
	t.Cleanup(server.Close)
	c.adapter = c.key(server.URL, providertest.Key)
	c.messages = []string{`{"role":"system","content":"Be brief."}`}
	return c
}

// key returns an adapter with another key.
func (c *talk) key(address, key string) *anthropic.Adapter {
	a, err := anthropic.New(address, &anthropic.Options{APIKey: key})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(a.Close)
	return a
}

// ask sends the conversation with one more message, and answers calls of tools until there is a text. It returns what
// became of the requests.
func (c *talk) ask(messages ...string) (got []providertest.ClaudeRequest) {
	c.t.Helper()
	c.messages, c.dropped = append(c.messages, messages...), nil
	for {
		calls, err := c.turn()
		if err != nil {
			c.t.Fatalf("%s: %v", c.messages[len(c.messages)-1], err)
		}
		if len(calls) == 0 {
			return c.claude.Requests()
		}
		for _, call := range calls {
			c.messages = append(c.messages, `{"role":"tool","tool_call_id":"`+call.ID+`","content":"42"}`)
		}
	}
}

// turn sends the conversation and adds the reply to it.
func (c *talk) turn() ([]chat.ToolCall, error) {
	c.t.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[%s]`, c.stream, strings.Join(c.messages, ","))
	if c.more != "" {
		body += "," + c.more
	}
	req, err := chat.Parse([]byte(body + "}"))
	if err != nil {
		c.t.Fatal(err)
	}
	call := &provider.Call{Request: req, Upstream: c.model, Thinks: true, Memory: c.memories.Memory()}
	in, err := c.adapter.Open(c.t.Context(), call)
	if err != nil {
		return nil, err
	}
	got := providertest.Collect(c.t, in)
	in.Close()
	c.dropped = append(c.dropped, call.Dropped...)
	if got.Err != nil {
		return nil, got.Err
	}
	reply := map[string]any{"role": "assistant", "content": got.Text}
	var calls []chat.ToolCall
	var list []any
	for _, made := range got.Calls {
		calls = append(calls, chat.ToolCall{ID: made.ID})
		list = append(list, map[string]any{"id": made.ID, "type": "function", "function": map[string]any{"name": made.Name, "arguments": made.Arguments}})
	}
	if list != nil {
		reply["tool_calls"] = list
	}
	raw, _ := json.Marshal(reply)
	c.messages = append(c.messages, string(raw))
	return calls, nil
}

func user(text string) string { return `{"role":"user","content":"` + text + `"}` }

// All thinking of a conversation goes back, with tools and without, and the vendor finds nothing to object to.
func TestFiveTurns(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"claude-opus-4-6", "claude-opus-5", "claude-opus-5-5", "claude-fable-5-2", "claude-sonnet-5-5", "claude-haiku-5-5"} {
		for _, stream := range []bool{true, false} {
			for _, more := range []string{"", lookTool, lookTool + `,"reasoning_effort":"max"`} {
				c := newTalk(t, model, more, stream)
				turns := 0
				for i := range 5 {
					question := user(fmt.Sprint("Question ", i))
					if i%2 == 1 {
						question = user(fmt.Sprint("Please look, ", i))
					}
					for _, r := range c.ask(question) {
						if r.Refused != "" || r.Dropped > 0 {
							t.Fatalf("%s, stream %t, %s: %+v", model, stream, more, r)
						}
						if r.Turns != turns || r.Thoughts < turns {
							t.Errorf("%s, stream %t, %s, question %d: %d blocks of thinking for %d turns, want all of %d", model, stream, more, i, r.Thoughts, r.Turns, turns)
						}
						turns++
					}
				}
				if turns != 5 && more == "" || turns != 7 && more != "" || len(c.dropped) > 0 {
					t.Errorf("%s, stream %t, %s: %d turns, dropped %q", model, stream, more, turns, c.dropped)
				}
			}
		}
	}
}

// What a client changes before thinking makes that of no use. What is before the change stays, and what comes after it is
// good again.
func TestChangedHistory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(c *talk)
		want   []int // blocks of thinking in the request after the change, and in the two after that
	}{
		{"nothing", func(*talk) {}, []int{3, 4, 5}},
		{"the system prompt", func(c *talk) { c.messages[0] = `{"role":"system","content":"Be long."}` }, []int{0, 1, 2}},
		{"a question", func(c *talk) { c.messages[3] = user("Another one") }, []int{1, 2, 3}},
		{"an answer", func(c *talk) { c.messages[4] = `{"role":"assistant","content":"I said this."}` }, []int{1, 2, 3}},
		{"an answer is left out", func(c *talk) { c.messages = append(c.messages[:3], c.messages[5:]...) }, []int{1, 2, 3}},
		{"a new tool", func(c *talk) { c.more = lookTool }, []int{0, 1, 2}},
		{"the mark of a cache", func(c *talk) {
			c.messages[1] = `{"role":"user","content":[{"type":"text","text":"Question 0","cache_control":{"type":"ephemeral"}}]}`
		}, []int{3, 4, 5}},
		{"the effort", func(c *talk) { c.more = `"reasoning_effort":"low"` }, []int{3, 4, 5}},
		{"a late instruction", func(c *talk) { c.messages = append(c.messages, `{"role":"developer","content":"Be kind."}`) }, []int{3, 4, 5}},
		{"an instruction at the end", func(c *talk) {
			c.messages = append(c.messages, user("One more thing"), `{"role":"system","content":"Be kind."}`)
		}, []int{3, 4, 5}},
	} {
		c := newTalk(t, "claude-opus-5-5", "", true)
		for i := range 3 {
			c.ask(user(fmt.Sprint("Question ", i)))
		}
		tt.change(c)
		for i, want := range tt.want {
			got := c.ask(user(fmt.Sprint("After it, ", i)))
			if len(got) != 1 || got[0].Refused != "" || got[0].Thoughts != want {
				t.Errorf("%s, question %d: %+v, want %d blocks of thinking", tt.name, i, got, want)
			}
			if slices.Contains(c.dropped, "thinking") {
				t.Errorf("%s, question %d: dropped %q, want nothing: what is kept under the conversation was not found", tt.name, i, c.dropped)
			}
		}
	}
}

// A conversation may begin with instructions alone, or with a reply that nobody asked for.
func TestBeginnings(t *testing.T) {
	t.Parallel()
	c := newTalk(t, "claude-opus-5-5", "", true)
	c.ask()
	for i := range 2 {
		if got := c.ask(user("And?")); len(got) != 1 || got[0].Refused != "" || got[0].Dropped != 0 || got[0].Thoughts != i+1 {
			t.Errorf("instructions alone, question %d: %+v, want %d blocks of thinking", i, got, i+1)
		}
	}
	c = newTalk(t, "claude-opus-5-5", "", true)
	c.messages = append(c.messages, `{"role":"assistant","content":"Hello!"}`)
	for i := range 3 {
		if got := c.ask(user("And?")); len(got) != 1 || got[0].Refused != "" || got[0].Dropped != 0 || got[0].Thoughts != i {
			t.Errorf("a greeting, question %d: %+v, want %d blocks of thinking", i, got, i)
		}
	}
}

// A turn that called tools is found again by their ids. If something before it has changed, it is left out, and the caller
// learns that. So are the turns after it. The results of the exchange in progress are answered all the same.
func TestChangedBeforeCalls(t *testing.T) {
	t.Parallel()
	c := newTalk(t, "claude-fable-5-2", lookTool, true)
	for range 3 {
		c.ask(user("Please look"))
	}
	c.messages[0] = `{"role":"system","content":"Be long."}`
	for i, want := range [][]int{{0, 2}, {3, 5}} { // what was left out once stays away
		var got []int
		for _, r := range c.ask(user("Please look")) {
			if got = append(got, r.Thoughts); r.Refused != "" || r.Dropped > 0 {
				t.Errorf("question %d: %+v, want nothing refused or dropped by the vendor", i, r)
			}
		}
		if !slices.Equal(got, want) || slices.Contains(c.dropped, "thinking") != (i == 0) {
			t.Errorf("question %d: %v blocks of thinking, dropped %q, want %v and the thinking named at first", i, got, c.dropped, want)
		}
	}
}

// What is lost of the memory takes what came before it along, because the vendor takes no gaps. What the vendor has not
// seen once does not come back.
func TestLostTurn(t *testing.T) {
	t.Parallel()
	for lost, want := range []int{3, 2, 1, 3} { // of the last turn nothing depends on it
		c := newTalk(t, "claude-opus-5-5", "", true)
		for i := range 4 {
			c.ask(user(fmt.Sprint("Question ", i)))
		}
		c.memories.Forget(lost)
		for i := range 3 {
			got := c.ask(user(fmt.Sprint("Then ", i)))
			if len(got) != 1 || got[0].Refused != "" || got[0].Dropped != 0 || got[0].Thoughts != want+i {
				t.Errorf("turn %d is lost, question %d: %+v, want %d blocks of thinking", lost, i, got, want+i)
			}
		}
	}
	// A memory that fails for one call.
	c := newTalk(t, "claude-opus-5-5", "", true)
	c.ask(user("Question"))
	all := c.memories
	c.memories = providertest.Memories{}
	c.ask(user("A second one"))
	again := c.memories
	c.memories = all
	again.Restore(&c.memories)
	if got := c.ask(user("A third one")); len(got) != 1 || got[0].Refused != "" || got[0].Dropped != 0 || got[0].Thoughts != 1 {
		t.Errorf("after a failure of the memory: %+v, want the last thinking alone", got)
	}
}

// Two conversations that begin alike share what is kept of it: the later one has replaced that of the earlier. Neither is
// refused, and each goes on with what is its own.
func TestAlike(t *testing.T) {
	t.Parallel()
	first := newTalk(t, "claude-opus-5-5", "", true)
	second := newTalk(t, "claude-opus-5-5", "", true)
	second.claude, second.adapter = first.claude, first.adapter
	for i := range 2 {
		first.ask(user(fmt.Sprint("Question ", i)))
	}
	second.memories = first.memories
	second.ask(user("Question 0"))
	first.memories = second.memories
	for i, want := range []int{1, 2} {
		got := first.ask(user(fmt.Sprint("Its own, ", i)))
		if len(got) != 1 || got[0].Refused != "" || got[0].Dropped != 0 || got[0].Thoughts != want {
			t.Errorf("the first, question %d: %+v, want %d blocks of thinking", i, got, want)
		}
	}
	second.memories = first.memories
	if got := second.ask(user("Something else")); len(got) != 1 || got[0].Refused != "" || got[0].Dropped != 0 || got[0].Thoughts != 1 {
		t.Errorf("the second: %+v, want its block of thinking", got)
	}
}

// A call that may use no tools lists them all the same, and one that does not think gets no thinking back.
func TestChoicesOfOneTurn(t *testing.T) {
	t.Parallel()
	c := newTalk(t, "claude-haiku-5-5", lookTool, false)
	c.ask(user("Please look"))
	for _, tt := range []struct {
		more string
		want int
	}{
		{`,"tool_choice":"none"`, 3},
		{"", 4},
		{`,"reasoning_effort":"none"`, 0},
		{"", 5},
		{`,"tool_choice":"required"`, 0},
		{"", 6},
	} {
		c.more = lookTool + tt.more
		c.messages = append(c.messages, user("And now?"))
		if _, err := c.turn(); err != nil {
			t.Fatalf("%s: %v", tt.more, err)
		}
		if got := c.claude.Requests(); len(got) != 1 || got[0].Refused != "" || got[0].Thoughts != tt.want {
			t.Errorf("%s: %+v, want %d blocks of thinking", tt.more, got, tt.want)
		}
	}
}

// Models that refuse to be told that they must call a tool are not asked.
func TestForcedTools(t *testing.T) {
	t.Parallel()
	for model, takes := range map[string]bool{
		"claude-opus-5": true, "claude-haiku-5-5": true, "claude-opus-5-5": false, "claude-sonnet-5-5": false, "claude-fable-5-2": false,
	} {
		for _, choice := range []string{`"required"`, `{"type":"function","function":{"name":"other"}}`} {
			c := newTalk(t, model, lookTool+`,"tool_choice":`+choice, false)
			c.messages = append(c.messages, user("Go"))
			_, err := c.turn()
			if takes != (err == nil) || !takes && (!fault.Is(err, fault.Invalid) || fault.From(err).Param != "tool_choice" || len(c.claude.Requests()) > 0) {
				t.Errorf("%s, tool_choice %s: %v, want it taken: %t", model, choice, err, takes)
			}
		}
	}
}

// Thinking that belongs to an account is left out under another key, as a whole, and comes back with the first key.
func TestOtherKey(t *testing.T) {
	t.Parallel()
	for model, bound := range map[string]bool{"claude-sonnet-5-5": true, "claude-haiku-5-5": true, "claude-opus-5-5": false} {
		c := newTalk(t, model, "", true)
		server := httptest.NewServer(c.claude)
		t.Cleanup(server.Close)
		first, second := c.adapter, c.key(server.URL, "another key")
		for i, tt := range []struct {
			on    *anthropic.Adapter
			want  int // for a model that is bound
			named bool
		}{{first, 0, false}, {first, 1, false}, {second, 0, true}, {second, 1, false}, {first, 2, true}, {first, 3, true}} {
			c.adapter = tt.on
			got := c.ask(user(fmt.Sprint("Question ", i)))
			want, named := i, false
			if bound {
				want, named = tt.want, tt.named
			}
			if len(got) != 1 || got[0].Refused != "" || got[0].Thoughts != want || slices.Contains(c.dropped, "thinking") != named {
				t.Errorf("%s, question %d: %+v, dropped %q, want %d blocks of thinking, named %t", model, i, got, c.dropped, want, named)
			}
		}
	}
}

// If the vendor refuses thinking after all, the call is repeated once without it.
func TestRefusedThinking(t *testing.T) {
	t.Parallel()
	for name, betas := range map[string][]string{"an API without the feature": {"none"}, "one that knows it": nil} {
		c := newTalk(t, "claude-opus-5-5", "", false)
		c.claude.Betas = betas
		c.ask(user("Question"))
		if betas == nil { // as if something else between here and the vendor changed every request
			c.adapter = c.key(tamper(t, c.claude), providertest.Key)
		}
		got := c.ask(user("Another"))
		if len(got) == 0 || got[len(got)-1].Thoughts != 0 || !slices.Contains(c.dropped, "thinking") {
			t.Errorf("%s: %+v, dropped %q, want an answer without thinking", name, got, c.dropped)
		}
		if refused := len(got) == 2 && got[0].Refused != ""; refused != (betas != nil) || !refused && got[0].Dropped != 1 {
			t.Errorf("%s: %+v, want a refusal and a second request, or the block dropped", name, got)
		}
		if got = c.ask(user("A third")); betas == nil && (len(got) != 1 || got[0].Dropped != 0 || got[0].Thoughts != 1) {
			t.Errorf("%s: then %+v, want what was thought since", name, got)
		}
	}
}

// tamper is a proxy that adds a line to the system prompt of every request. It returns its address.
func tamper(t *testing.T, next http.Handler) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		raw = []byte(strings.Replace(string(raw), `"text":"Be brief."`, `"text":"Be brief. Be kind."`, 1))
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(raw))), int64(len(raw))
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
