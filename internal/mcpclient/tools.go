package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/excerpt"
)

// Tool is a tool that a server offers.
type Tool struct {
	Name        string
	Description string          // bounded
	Schema      json.RawMessage // of its arguments, an object
}

func (t *Tool) size() int { return len(t.Name) + len(t.Description) + len(t.Schema) }

const (
	maxPages       = 32
	maxTools       = 1024
	maxDescription = 1024     // bytes; what the strictest provider takes
	maxSchema      = 32 << 10 // bytes
	maxToolName    = 256      // bytes
)

// anyObject is the schema of a tool whose own cannot be handed on.
const anyObject = `{"type":"object","properties":{}}`

// Tools lists the server's tools: what it said a moment ago, or all pages of what it says now.
func (s *Server) Tools(ctx context.Context) ([]Tool, error) {
	if tools, ok := s.client.known(s.key); ok && s.local == nil {
		return tools, nil
	}
	ctx, cancel := within(ctx, s.client.opts.DiscoveryTimeout)
	defer cancel()
	defer s.exchange()()
	session, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	lists := s.lists
	if lists == nil {
		lists = NewBudget()
	}
	s.listing.Store(lists)
	defer s.listing.Store(nil)
	var tools []Tool
	params := &mcp.ListToolsParams{}
	for range maxPages {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			if ctx.Err() != nil {
				session.wire.owe()
			}
			s.drop(session)
			return nil, session.wire.explain(ctx, err)
		}
		for _, t := range page.Tools {
			if t.Name != "" && len(t.Name) <= maxToolName {
				tools = append(tools, newTool(t))
			}
		}
		if len(tools) > maxTools {
			return nil, fail(fmt.Sprintf("it lists more than %d tools", maxTools), nil)
		}
		if page.NextCursor == "" {
			s.client.learn(s.key, tools)
			return tools, nil
		}
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fail(fmt.Sprintf("its list of tools does not end after %d pages", maxPages), nil)
}

// newTool takes over what a model may be told of a tool.
func newTool(t *mcp.Tool) Tool {
	tool := Tool{Name: t.Name, Description: excerpt.Of(t.Description, maxDescription), Schema: json.RawMessage(anyObject)}
	if tool.Description == "" {
		tool.Description = excerpt.Of(t.Title, maxDescription)
	}
	schema, ok := t.InputSchema.(map[string]any)
	if !ok {
		return tool
	}
	schema["type"] = "object"
	if _, ok := schema["properties"].(map[string]any); !ok {
		schema["properties"] = map[string]any{} // some providers want them, if there are none
	}
	if raw, err := json.Marshal(schema); err == nil && len(raw) <= maxSchema {
		tool.Schema = raw
	}
	return tool
}

// Call calls a tool. A tool that fails is a result like any other; a Failure means that there is none.
func (s *Server) Call(ctx context.Context, tool string, arguments json.RawMessage) (*Result, error) {
	ctx, cancel := within(ctx, s.client.opts.CallTimeout)
	defer cancel()
	defer s.exchange()()
	session, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		switch {
		case ctx.Err() != nil:
			session.wire.owe()
		case spoken(err) == nil:
			s.drop(session)
		}
		s.client.forget(s.key) // the tool may be gone
		return nil, session.wire.explain(ctx, err)
	}
	if answer.NeedsInput() {
		return nil, fail("it asks for more input, which nobody here can give", nil)
	}
	return newResult(answer), nil
}
