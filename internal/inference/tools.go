package inference

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/relay"
	"sluice/internal/toolloop"
)

// converse opens a reply whose tools are on MCP servers: several turns of the model, the first asked
// of whom the plan says, the others of the model that answered it.
func (l *Line) converse(ctx context.Context, w http.ResponseWriter, models Models, s *settling) (provider.Stream, error) {
	if l.tools == nil {
		return nil, fault.New(fault.Invalid, "Remote MCP tools are not offered here. Use function tools.").At("tools")
	}
	first := s.stream
	loop, err := l.tools.Open(ctx, toolloop.Ask{
		ID: s.call.ID, Request: s.call.Request, Memory: first.call.Memory, Images: first.model.Images, Depth: s.call.Depth, CountPrompt: promptTokens,
		Turn: func(ctx context.Context, turn int, req *chat.Request) (provider.Stream, error) {
			a := first
			if turn > 0 {
				answered, _ := first.used()
				a = l.attempts(ctx, models.Routes.Plan(answered), answered, &s.call)
				a.start = time.Now()
				a.until = a.start.Add(l.patience)
				a.call.ID += "t" + strconv.Itoa(turn)
			}
			a.ctx, a.call.Request = ctx, req
			a.prompt = size{req: req, tokenize: l.tokenize}
			return a, nil
		},
	})
	if err != nil {
		return nil, err
	}
	s.loop, s.header = loop, w.Header()
	return loop, nil
}

// callsHeader says how many MCP tools were called. In a stream it is a trailer: what it says is not
// known when the headers go out.
const callsHeader = "X-Sluice-Mcp-Calls"

// conversed brings what a reply of several turns came to into its outcome, and returns how many turns
// the model answered.
func (s *settling) conversed(o *relay.Outcome) (turns int64) {
	spent := s.loop.Spent()
	o.Usage, o.HasUsage = spent.Usage, !spent.Counted
	name := callsHeader
	if s.call.Request.Stream {
		name = http.TrailerPrefix + name
	}
	s.header.Set(name, strconv.Itoa(spent.Calls))
	return int64(spent.Turns)
}

// remote is how many MCP tools were called, and how many of them gave no result.
func (s *settling) remote() (calls, failed int) {
	if s.loop == nil {
		return 0, 0
	}
	spent := s.loop.Spent()
	return spent.Calls, spent.Failed
}
