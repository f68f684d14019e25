// Package toolloop runs a chat completion whose tools include remote MCP servers.
//
// Open discovers the servers' tools and offers them to the model as functions (offer.go). The Stream that
// it returns takes several turns of the model (stream.go): it runs the tool calls of a turn (calls.go),
// adds their results to the conversation, and calls the model again, until a turn needs no more tools. The
// reader of the Stream sees one ordinary reply. What the caller does not see and a later request needs is
// kept in a continuation (steps.go).
//
// After discovery, no failure of a server fails the reply: the model gets the error as the result of its
// call and continues.
package toolloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/kit/telemetry"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/continuation"
	"sluice/internal/upstream/mcpclient"
	"sluice/internal/upstream/provider"
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	MaxServers int // of one request; default 8
	MaxTools   int // of one request, functions included; default 128
	MaxRounds  int // rounds of calls after which the model must answer; default 16
}

// Loop opens streams. It is safe for concurrent use.
type Loop struct {
	client *mcpclient.Client
	opts   Options
}

// New returns a loop that reaches servers through the client.
func New(client *mcpclient.Client, opts *Options) *Loop {
	if opts == nil {
		opts = &Options{}
	}
	return &Loop{client: client, opts: Options{
		MaxServers: cmp.Or(opts.MaxServers, chat.MaxMCPServers), MaxTools: cmp.Or(opts.MaxTools, chat.MaxTools), MaxRounds: cmp.Or(opts.MaxRounds, 16),
	}}
}

// Task is one completion to run.
type Task struct {
	ID      string // the request's id
	Request *chat.Request
	// Turn calls the model and returns its reply once that has something to say. Turns are numbered from 0.
	// The stream of a turn is closed before the next turn.
	Turn func(ctx context.Context, turn int, req *chat.Request) (provider.Stream, error)
	// Memory keeps hidden steps for the caller's next request; nil: they are lost.
	Memory *continuation.Memory
	// Images says whether the model takes images. If not, it gets a note instead of an image.
	Images bool
	// Depth is the number of calls through our own MCP server that this one is nested in. It ends loops in
	// which the service calls itself.
	Depth int
	// Show says that the stream also yields what the loop does, as events of the kind Other.
	Show bool
	// Span is what the spans of tool calls belong to; nil: they are not traced.
	Span *telemetry.Span
	// Wait gets the time that servers take; nil: it is not measured.
	Wait *telemetry.Wait
	// Contacting, unless it is nil, is called before the first server is contacted: from then on the request
	// has caused work.
	Contacting func()
	// CountPrompt returns the number of tokens of a request's prompt, for upstreams that give no figures;
	// nil: it is estimated by the bytes.
	CountPrompt func(*chat.Request) int
}

// Turns returns how many turns of the model a conversation has at most.
func (l *Loop) Turns() int { return l.opts.MaxRounds + 1 }

// Open contacts the servers, discovers their tools, and returns a stream that has not been started. A
// server that cannot be used, or a request that does not fit its tools, is the caller's fault. Canceling
// ctx ends the model's turn, all calls and their sessions. The stream must be closed.
func (l *Loop) Open(ctx context.Context, task Task) (*Stream, error) {
	if task.Request.N > 1 {
		return nil, fault.New(fault.Invalid, "n must be 1 in a request with MCP tools.").At("n")
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{loop: l, task: task, ctx: ctx, cancel: cancel}
	if err := s.prepare(); err != nil {
		s.Close() // servers that were contacted have sessions
		return nil, err
	}
	return s, nil
}

// prepare does the work whose errors the caller gets as an ordinary error response. It does not run
// approved calls and does not call the model: both may take long, and by then the caller must be getting
// keep-alive comments. Start does them.
func (s *Stream) prepare() error {
	found, err := s.discover()
	if err != nil {
		return err
	}
	if s.offer, err = newOffer(s.task.Request, found, s.loop.opts.MaxTools); err != nil {
		return err
	}
	if s.task.Show {
		for i := range found {
			s.early = append(s.early, listed(&found[i]))
		}
	}
	s.restore()
	return nil
}

// listed returns the event that tells what tools a server has.
func listed(d *discovery) provider.Event {
	b := []byte{'['}
	for i := range d.tools {
		t := &d.tools[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonscan.AppendQuoted(append(b, `{"name":`...), t.Name)
		b = jsonscan.AppendQuoted(append(b, `,"description":`...), t.Description)
		b = append(append(b, `,"input_schema":`...), t.Schema...)
		b = strconv.AppendBool(append(b, `,"annotations":{"read_only":`...), t.ReadOnly)
		b = append(b, "}}"...)
	}
	return provider.Event{Kind: provider.Other, Step: &provider.Step{Server: d.label, Tools: append(b, ']')}}
}

// show passes on that a call has run.
func (s *Stream) show(c *call) provider.Event {
	step := &provider.Step{Server: c.remote.label, Tool: c.remote.name, Arguments: c.arguments.String(), Output: c.text, Failed: c.failed}
	if c.ours != "" {
		step.Approval = c.ours
	}
	return provider.Event{Kind: provider.Other, Step: step}
}

// discovery is the result of one MCP entry of the request's tools.
type discovery struct {
	entry  int    // index in the request's tools
	label  string // what the server is called in names and messages
	server *mcpclient.Server
	tools  []mcpclient.Tool // shared with other requests: must not be changed
	err    error            // why the server cannot be used
}

// discover lists the tools of all servers at the same time. All lists share one budget of bytes.
func (s *Stream) discover() ([]discovery, error) {
	// Servers are created one after the other, which costs nothing; they are contacted below.
	var found []discovery
	lists := mcpclient.NewBudget()
	for i, t := range s.task.Request.Tools {
		if t.MCP == nil {
			continue
		}
		d := discovery{entry: i, label: labelOf(t.MCP)}
		if d.server, d.err = s.loop.client.Server(t.MCP.ServerURL, t.MCP.Headers, s.task.Depth); d.err == nil {
			d.server.Share(lists)
			s.servers = append(s.servers, d.server)
		}
		found = append(found, d)
	}
	if most := s.loop.opts.MaxServers; len(found) > most {
		return nil, fault.New(fault.Invalid, "tools has %d MCP servers; at most %d are possible.", len(found), most).At(fmt.Sprintf("tools[%d]", found[most].entry))
	}
	if s.task.Contacting != nil && len(s.servers) > 0 {
		s.task.Contacting()
	}
	// Each goroutine writes only to its own entry, so they need no lock. Errors are reported in the order of
	// the request's tools, whichever server fails first.
	var all sync.WaitGroup
	for i := range found {
		if d := &found[i]; d.err == nil {
			all.Go(func() { d.tools, d.err = d.server.Tools(s.ctx) })
		}
	}
	s.waiting(all.Wait)
	for i := range found {
		if err := s.unusable(&found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// unusable returns the fault for a server that failed; nil: it did not fail. A server that is only busy is
// a 503, so that clients retry; anything else is a 400 at the entry of the tools.
func (s *Stream) unusable(d *discovery) error {
	if d.err == nil {
		return nil
	}
	if s.ctx.Err() != nil { // the caller hung up: no server is at fault
		return fmt.Errorf("discovering tools: %w", context.Cause(s.ctx))
	}
	reason, field := "it failed", "server_url"
	if f, ok := errors.AsType[*mcpclient.Failure](d.err); ok {
		reason = f.Reason
		if f.Busy {
			return fault.New(fault.Unavailable, "The MCP server %q cannot be used now: %s. Try again shortly.", excerpt.Of(d.label, 100), f.Reason).After(time.Second).Because(d.err)
		}
		if f.Status == 401 || f.Status == 403 { // credentials are in the headers
			field = "headers"
		}
	}
	return fault.New(fault.Invalid, "The MCP server %q cannot be used: %s.", excerpt.Of(d.label, 100), reason).
		At(fmt.Sprintf("tools[%d].%s", d.entry, field)).Because(d.err)
}
