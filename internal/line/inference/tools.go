package inference

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/line/toolloop"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// converse returns a reply whose tools are on MCP servers. It takes several turns of the model. The first
// turn tries the targets of the call's plan; the others go to the model that answered the first, since only
// that model knows the calls it has made.
func (l *Line) converse(ctx context.Context, w http.ResponseWriter, models *Models, s *settling) (reply, error) {
	if l.tools == nil {
		return nil, fault.New(fault.Invalid, "Remote MCP tools are not offered here. Use function tools.").At("tools")
	}
	loop, err := l.tools.Open(ctx, toolloop.Task{
		ID: s.call.ID, Request: s.call.Request, Memory: s.first.call.Memory, Images: s.first.model.Images, Depth: s.call.Depth, CountPrompt: promptTokens,
		Span: s.call.Span, Wait: s.call.Wait, Show: s.call.Door == usage.DoorResponses,
		Contacting: func() { s.contacted = true },
		Turn: func(ctx context.Context, turn int, req *chat.Request) (provider.Stream, error) {
			a := s.first
			if turn > 0 {
				answered, _ := s.first.used()
				a = l.attempts(ctx, models.Routes.Plan(answered), answered, s.call)
				a.requestTrace, a.start = &s.requestTrace, time.Now()
				a.until = a.start.Add(l.patience)
				a.call.ID += "t" + strconv.Itoa(turn) // adapters keep state by this id, so each turn needs its own
			}
			a.ctx, a.call.Request = ctx, req
			a.prompt = &size{req: req, counting: l.counting}
			s.last = a // before it starts: s.close frees it if an adapter panics
			s.asked = append(s.asked, a)
			if err := a.Start(); err != nil {
				return nil, err
			}
			return a, nil
		},
	})
	if err != nil {
		return nil, err
	}
	// Only now: without a loop the call is settled like any other.
	s.loop = loop
	return loop, nil
}

// callsHeader is the number of MCP tool calls. In a stream it is a trailer, because the number is not known
// when the headers go out.
const callsHeader = "X-Sluice-Mcp-Calls"

// tellCalls sets the header or trailer if the call has MCP tools. The relay must have stopped writing
// comments: headers have no lock.
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

// conversed returns what a reply of several turns consumed, and sets the usage of all turns in the outcome.
// If free is set, a last turn without content costs nothing.
func (s *settling) conversed(o *relay.Outcome, free bool) spent {
	// The loop counts turns that have produced something. The last one may have failed before that, but only
	// after its upstream had read the prompt.
	all := s.loop.Spent()
	sp := spent{counted: all.Counted, turns: int64(all.Turns), content: all.Turns > 0, estimated: !o.Complete}
	for i, t := range all.Each {
		by := s.asked[i]
		if t.Counted || i == len(all.Each)-1 && !o.Complete {
			t.Usage = by.bounded(t.Usage, 1)
		}
		sp.add(turn{by, t.Usage, t.Tier})
	}
	if last := s.last; last.had && !last.begun && !free { // the last turn's upstream read its prompt and said nothing
		prompt, has := last.Figures()
		if !has {
			prompt, sp.counted = chat.Usage{Prompt: promptTokens(last.call.Request)}, true
		}
		prompt.Completion, prompt.Reasoning = 0, 0
		sp.add(turn{by: last, usage: prompt})
		sp.turns++
	}
	o.Usage, o.HasUsage = sp.tokens, !sp.counted
	return sp
}

// add adds what a turn consumed.
func (sp *spent) add(t turn) {
	sp.tokens.Add(t.usage)
	sp.each = append(sp.each, t)
}

// remote returns the number of MCP tool calls, and how many of them gave no result.
func (s *settling) remote() (calls, failed int) {
	if s.loop == nil {
		return 0, 0
	}
	spent := s.loop.Spent()
	return spent.Calls, spent.Failed
}
