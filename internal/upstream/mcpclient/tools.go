package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/kit/excerpt"
)

// Tool is a tool that a server offers.
type Tool struct {
	Name        string
	Description string          // at most maxDescription bytes
	Schema      json.RawMessage // JSON Schema of the arguments; always of type object
	ReadOnly    bool            // the server says that the tool changes nothing
}

// size returns about how many bytes the tool takes in the cache.
func (t *Tool) size() int { return len(t.Name) + len(t.Description) + len(t.Schema) }

// The limits of one tool list. A server that exceeds maxPages or maxTools cannot be used; a tool
// that exceeds one of the others is shortened, loses its schema, or is left out.
const (
	maxPages       = 32
	maxTools       = 1024
	maxDescription = 1024     // bytes; the limit of the strictest provider
	maxSchema      = 32 << 10 // bytes
	maxToolName    = 256      // bytes
)

// anyObject is the schema of a tool whose own schema is missing or too large to pass on.
const anyObject = `{"type":"object","properties":{}}`

// lifetime is for how long a tool list may be cached, and whether for everybody or only for whoever sends the same
// headers.
type lifetime struct {
	ttl    time.Duration
	public bool
}

// with returns the lifetime of a list that has one more page: the shorter of the two, and for everybody only if both
// are. A hint that is missing means that the page is stale at once, and that it is nobody else's; but before the
// version that has hints, nothing follows from that.
func (l lifetime) with(page *mcp.ListToolsResult, hints bool) lifetime {
	ttl := time.Duration(min(max(page.TTLMs, 0), int(maxCacheFor/time.Millisecond))) * time.Millisecond
	if !hints && page.TTLMs == 0 {
		ttl = cacheFor
	}
	return lifetime{min(l.ttl, ttl), l.public && page.CacheScope == "public"}
}

// Tools returns the server's tools, from the cache or by reading all pages of the list. A server in
// this process is asked every time. The tools are in the order of their names, whatever the order of the server's list:
// what a model is offered must not change within a conversation, or prompt caches miss and signed thinking is refused.
func (s *Server) Tools(ctx context.Context) ([]Tool, error) {
	if l, ok := s.client.known(s); ok && s.local == nil {
		if l.calls {
			s.connectAhead(ctx)
		}
		return l.tools, nil
	}
	ctx, cancel := within(ctx, s.client.opts.DiscoveryTimeout)
	defer cancel()
	defer s.exchange()()
	session, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	// Every byte read from here on counts against the budget; see body.take.
	lists := s.lists
	if lists == nil {
		lists = NewBudget()
	}
	s.listing.Store(lists)
	defer s.listing.Store(nil)
	tools, life, err := s.pages(ctx, session)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	s.client.learn(s, tools, life)
	return tools, nil
}

// connectAhead makes the session of a server whose list was cached while the model is writing, so that the first call of a tool
// does not wait for it: with a remote server it takes four round trips. It is worth that only if a tool is called; see
// Client.expect. An error is not reported: Call tries again, and reports its own. The end of the request does not end it, since
// nobody would close a session that the server has made and we do not know yet.
func (s *Server) connectAhead(ctx context.Context) {
	s.mu.Lock()
	s.ahead = true
	s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	s.client.parting.Go(func() {
		ctx, cancel := within(ctx, s.client.opts.DiscoveryTimeout)
		defer cancel()
		defer s.exchange()()
		_, _ = s.connected(ctx)
	})
}

// answered notes that a tool has answered.
func (s *Server) answered() {
	s.mu.Lock()
	first := !s.called
	s.called = true
	s.mu.Unlock()
	if first {
		s.client.expect(s, true)
	}
}

// pages reads all pages of the server's list.
func (s *Server) pages(ctx context.Context, session *session) (tools []Tool, life lifetime, err error) {
	life = lifetime{maxCacheFor, true}
	params := &mcp.ListToolsParams{}
	for range maxPages {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			if ctx.Err() != nil {
				// The library cancels the request in the background; see wire.settle.
				session.wire.owe()
			}
			s.drop(session)
			return nil, life, session.wire.explain(ctx, err)
		}
		life = life.with(page, session.hints())
		for _, t := range page.Tools {
			if t.Name != "" && len(t.Name) <= maxToolName {
				tools = append(tools, newTool(t))
			}
		}
		if len(tools) > maxTools {
			return nil, life, fail(fmt.Sprintf("it lists more than %d tools", maxTools), nil)
		}
		if page.NextCursor == "" {
			return tools, life, nil
		}
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, life, fail(fmt.Sprintf("its list of tools does not end after %d pages", maxPages), nil)
}

// newTool converts a tool to the form in which models see it.
func newTool(t *mcp.Tool) Tool {
	tool := Tool{Name: t.Name, Description: excerpt.Of(t.Description, maxDescription), Schema: json.RawMessage(anyObject)}
	tool.ReadOnly = t.Annotations != nil && t.Annotations.ReadOnlyHint
	if tool.Description == "" {
		tool.Description = excerpt.Of(t.Title, maxDescription)
	}
	schema, ok := t.InputSchema.(map[string]any)
	if !ok {
		return tool
	}
	// Providers require an object. The schema belongs to this message alone, so it may be changed.
	schema["type"] = "object"
	if _, ok := schema["properties"].(map[string]any); !ok {
		schema["properties"] = map[string]any{} // some providers require the field, even if it is empty
	}
	if raw, err := json.Marshal(schema); err == nil && len(raw) <= maxSchema {
		tool.Schema = raw
	}
	return tool
}

// Call calls a tool. A tool that reports a failure is still a Result; an error, always a *Failure,
// means that there is no result.
func (s *Server) Call(ctx context.Context, tool string, arguments json.RawMessage) (*Result, error) {
	ctx, cancel := within(ctx, s.client.opts.CallTimeout)
	defer cancel()
	defer s.exchange()()
	session, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	for range maxRetries {
		answer, err := session.CallTool(ctx, params)
		if err != nil {
			return nil, s.brokenCall(ctx, session, err)
		}
		if !answer.NeedsInput() {
			s.answered()
			return newResult(answer), nil
		}
		// Nobody is there to answer: elicitation is not offered.
		if len(answer.InputRequests) > 0 || answer.RequestState == "" {
			return nil, fail("it asks for more input, which cannot be provided here", nil)
		}
		// The server only wants to be called again, with what it gave us to keep for it.
		params = &mcp.CallToolParams{Name: tool, Arguments: arguments, RequestState: answer.RequestState}
	}
	return nil, fail(fmt.Sprintf("it asked %d times to be called again", maxRetries), nil)
}

// maxRetries is how often a server may ask for the same call again.
const maxRetries = 8

// brokenCall does what follows from the failure of a call, and returns it in words.
func (s *Server) brokenCall(ctx context.Context, session *session, err error) error {
	switch {
	// The call may still run on the server. It is told that the call is canceled, and the
	// session stays usable.
	case ctx.Err() != nil:
		session.wire.owe()
	// The exchange itself failed, not the tool. The session cannot be trusted any more.
	case spoken(err) == nil:
		s.drop(session)
	}
	s.client.forget(s) // the tool may no longer exist
	return session.wire.explain(ctx, err)
}
