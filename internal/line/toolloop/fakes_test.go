package toolloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"sluice/internal/kit/netguard"
	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/continuation"
	"sluice/internal/upstream/mcpclient"
	"sluice/internal/upstream/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model answers turn after turn from a script, and keeps what it was asked.
type model struct {
	turns []turn
	asked []*chat.Request
	err   error
}

// turn is what the model says once: events, or a fault.
type turn struct {
	events []provider.Event
	err    error
}

func (m *model) open(_ context.Context, n int, req *chat.Request) (provider.Stream, error) {
	if n != len(m.asked) {
		m.err = fmt.Errorf("turn %d came after %d others", n, len(m.asked))
	}
	m.asked = append(m.asked, req)
	said := m.turns[min(n, len(m.turns)-1)]
	if said.events == nil {
		return nil, said.err
	}
	return &script{events: said.events, err: said.err}, nil
}

// messages is the conversation that the model saw in a turn, in short.
func (m *model) messages(turn int) string {
	var lines []string
	for _, msg := range m.asked[turn].Messages {
		line := [...]string{chat.RoleSystem: "system", chat.RoleUser: "user", chat.RoleAssistant: "assistant", chat.RoleTool: "tool"}[msg.Role]
		if msg.ToolCallID != "" {
			line += " " + msg.ToolCallID
		}
		line += ": " + msg.Content.Text()
		for _, c := range msg.ToolCalls {
			line += fmt.Sprintf(" <%s %s %s>", c.ID, c.Name, c.Arguments())
		}
		for _, p := range msg.Content.Parts() {
			if p.IsImage() {
				line += " " + p.ImageURL()
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

type script struct {
	events []provider.Event
	err    error
	closed bool
}

func (s *script) Next() (*provider.Event, error) {
	if s.closed {
		return nil, errors.New("the turn was closed")
	}
	if len(s.events) == 0 {
		if s.err != nil {
			return nil, s.err
		}
		return nil, io.EOF
	}
	ev := &s.events[0]
	s.events = s.events[1:]
	return ev, nil
}

func (s *script) Ready() bool  { return len(s.events) > 0 }
func (s *script) Close() error { s.closed = true; return nil }

// says is a turn of text.
func says(text string) turn { return ends(chat.FinishStop, textEvent(text)) }

// calls is a turn of calls, each written as id name arguments, after a text.
func calls(text string, all ...string) turn {
	var events []provider.Event
	if text != "" {
		events = append(events, textEvent(text))
	}
	for i, c := range all {
		id, rest, _ := strings.Cut(c, " ")
		name, arguments, _ := strings.Cut(rest, " ")
		half := len(arguments) / 2
		events = append(events,
			provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, ID: strings.TrimPrefix(id, "-"), Name: name}},
			provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, Arguments: arguments[:half]}},
			provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, Arguments: arguments[half:]}})
	}
	return ends(chat.FinishToolCalls, events...)
}

func textEvent(text string) provider.Event {
	return provider.Event{Kind: provider.Text, Text: text}
}

func ends(f chat.Finish, events ...provider.Event) turn {
	return turn{events: append(events,
		provider.Event{Kind: provider.Finish, Finish: f},
		provider.Event{Kind: provider.Usage, Usage: chat.Usage{Prompt: 10, Completion: 5}})}
}

// reply is what came out of a stream.
type reply struct {
	text, reasoning string
	calls           []chat.ToolCall
	finish          chat.Finish
	usage           chat.Usage
	err             error
	spent           toolloop.Spent
}

// site is a loop with servers and a memory.
type site struct {
	t      *testing.T
	client *mcpclient.Client
	loop   *toolloop.Loop
	states *continuation.States
	id     int
	model  *model
	images bool
}

// generous is a time limit that a busy machine keeps.
const generous = 5 * time.Minute

// newSite makes a site whose calls of tools may take as long as timeout. Discovery has time enough.
func newSite(t *testing.T, opts *toolloop.Options, timeout time.Duration) *site {
	t.Helper()
	g := netguard.New(&netguard.Options{Allow: []string{"127.0.0.1"}})
	c := mcpclient.New(g, &mcpclient.Options{CallTimeout: timeout, DiscoveryTimeout: generous})
	t.Cleanup(func() { c.Close(); g.Close() })
	return &site{t: t, client: c, loop: toolloop.New(c, opts), states: continuation.New(&states{kept: map[string][]byte{}}, nil)}
}

// ask sends a request whose body is made of its members, and pulls the reply.
func (s *site) ask(body string, turns ...turn) reply {
	s.t.Helper()
	stream, err := s.open(s.t.Context(), body, turns...)
	if err != nil {
		return reply{err: err}
	}
	defer s.client.Close() // before the servers are
	defer stream.Close()
	defer func() {
		if s.model.err != nil {
			s.t.Error(s.model.err)
		}
	}()
	return pull(stream)
}

func (s *site) open(ctx context.Context, body string, turns ...turn) (*toolloop.Stream, error) {
	s.t.Helper()
	req, err := chat.Parse([]byte(`{"model":"m",` + body + `}`))
	if err != nil {
		s.t.Fatalf("Parse = %v", err)
	}
	s.id++
	s.model = &model{turns: turns}
	stream, err := s.loop.Open(ctx, toolloop.Task{
		ID: fmt.Sprintf("%012d%020d", 0, s.id), Request: req, Turn: s.model.open, Memory: s.states.For("acct_1"), Images: s.images,
	})
	return stream, err
}

func pull(stream *toolloop.Stream) (r reply) {
	for {
		ev, err := stream.Next()
		if err != nil {
			r.spent = stream.Spent()
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
			return r
		}
		switch ev.Kind {
		case provider.Text:
			r.text += ev.Text
		case provider.Reasoning:
			r.reasoning += ev.Text
		case provider.ToolCall:
			if ev.Tool.Index == len(r.calls) {
				r.calls = append(r.calls, chat.ToolCall{ID: ev.Tool.ID, Name: ev.Tool.Name})
			}
			r.calls[ev.Tool.Index].Arguments += ev.Tool.Arguments
		case provider.Finish:
			r.finish = ev.Finish
		case provider.Usage:
			r.usage = ev.Usage
		}
	}
}

// states is a store of states in memory.
type states struct {
	mu   sync.Mutex
	kept map[string][]byte
}

func (s *states) KeepState(_ context.Context, st *continuation.State, _ continuation.Bound) error {
	id, sealed := st.ID, st.Sealed
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[string(id)] = sealed
	return nil
}

func (*states) TrimStates(context.Context, int64, int) (int, error) { return 0, nil }

func (s *states) FindState(_ context.Context, id []byte, _ time.Time) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[string(id)], nil
}

func (s *states) FindStates(_ context.Context, ids [][]byte, now time.Time) (found []continuation.State, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if sealed, ok := s.kept[string(id)]; ok {
			found = append(found, continuation.State{ID: id, Sealed: sealed, ExpiresAt: now.AddDate(1, 0, 0)})
		}
	}
	return found, nil
}

func (*states) RenewStates(context.Context, [][]byte, time.Time, time.Time) error { return nil }

// tools is an MCP server; ran is what was called.
type tools struct {
	*httptest.Server
	mcp *mcp.Server
	mu  sync.Mutex
	ran []string

	meeting sync.WaitGroup // of two calls
	waiting chan struct{}  // told by "wait" when it runs
}

type textInput struct {
	Text string `json:"text"`
}

// newTools serves tools: "echo" and "time" answer, "fail" fails, "draw" returns an image, "wait" never
// ends, "meet" ends once it runs twice, "big" says much, "die" cuts all connections; any other name is a tool that says its name.
func newTools(t *testing.T, names ...string) *tools {
	t.Helper()
	s := &tools{waiting: make(chan struct{}, 100), mcp: mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, nil)}
	for _, name := range names {
		mcp.AddTool(s.mcp, &mcp.Tool{Name: name, Description: "Does " + name + "."}, func(ctx context.Context, _ *mcp.CallToolRequest, in textInput) (*mcp.CallToolResult, any, error) {
			s.mu.Lock()
			s.ran = append(s.ran, name+" "+in.Text)
			s.mu.Unlock()
			switch name {
			case "fail":
				return nil, nil, errors.New("the tool broke")
			case "draw":
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: []byte("png")}}}, nil, nil
			case "wait":
				s.waiting <- struct{}{}
				<-ctx.Done()
			case "meet": // two calls, or none
				s.meeting.Done()
				s.meeting.Wait()
			case "die":
				s.CloseClientConnections()
			case "big":
				in.Text = strings.Repeat("x", 1<<20)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " says " + in.Text}}}, nil, nil
		})
	}
	s.meeting.Add(2)
	s.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, nil))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		for session := range s.mcp.Sessions() { // of a client that was cut off before it could end it
			_ = session.Close()
		}
	})
	return s
}

func (s *tools) calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.ran, "; ")
}

// entry is the server as an entry of tools.
func (s *tools) entry(label string, more ...string) string {
	members := append([]string{`"type":"mcp"`, `"server_url":"` + s.URL + `"`}, more...)
	if label != "" {
		members = append(members, `"server_label":"`+label+`"`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

const weather = `{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}`

// with is a request that a user begins.
func with(more string, tools ...string) string {
	return `"messages":[{"role":"user","content":"go"}],"tools":[` + strings.Join(tools, ",") + `]` + more
}

// follow is a request that goes on after a reply, with the answers to its calls.
func follow(r reply, answers []string, tools ...string) string {
	assistant := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{}}
	if r.text != "" {
		assistant["content"] = r.text
	}
	messages := []any{map[string]any{"role": "user", "content": "go"}, assistant}
	for i, c := range r.calls {
		assistant["tool_calls"] = append(assistant["tool_calls"].([]any), map[string]any{
			"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments},
		})
		messages = append(messages, map[string]any{"role": "tool", "tool_call_id": c.ID, "content": answers[i]})
	}
	raw, _ := json.Marshal(messages)
	return `"messages":` + string(raw) + `,"tools":[` + strings.Join(tools, ",") + `]`
}
