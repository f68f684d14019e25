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
		Asking: func() { s.out = true },
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
			s.turn = a
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

// tellCalls sets the header, where there was a conversation with tools.
func (s *settling) tellCalls() {
	if s.loop == nil {
		return
	}
	name := callsHeader
	if s.call.Request.Stream {
		name = http.TrailerPrefix + name
	}
	s.header.Set(name, strconv.Itoa(s.loop.Spent().Calls))
}

// conversed is what a reply of several turns came to. It puts the usage of all turns into the outcome. Free
// says that the last turn costs nothing if it had no content.
func (s *settling) conversed(o *relay.Outcome, free bool) spent {
	all := s.loop.Spent()
	sp := spent{tokens: all.Usage, counted: all.Counted, turns: int64(all.Turns), content: all.Turns > 0}
	if last := s.turn; last.had && !last.begun && !free { // the last turn has read its prompt and said nothing
		prompt, has := last.Figures()
		if !has {
			prompt, sp.counted = chat.Usage{Prompt: promptTokens(last.call.Request)}, true
		}
		sp.tokens.Prompt += prompt.Prompt
		sp.tokens.Cached += prompt.Cached
		sp.turns++
	}
	o.Usage, o.HasUsage = sp.tokens, !sp.counted
	return sp
}

// remote is how many MCP tools were called, and how many of them gave no result.
func (s *settling) remote() (calls, failed int) {
	if s.loop == nil {
		return 0, 0
	}
	spent := s.loop.Spent()
	return spent.Calls, spent.Failed
}
