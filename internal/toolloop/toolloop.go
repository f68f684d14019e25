// Package toolloop answers a chat completion whose tools include remote MCP servers.
//
// Open discovers the servers' tools and offers them to the model as functions. The Stream it returns
// runs over several model turns: it calls the servers' tools that a turn asks for, puts the results
// before the model, and asks again, until a turn is final. To whoever pulls it, it is one reply like
// any other. What the caller must not see, and a later request needs, is kept in a continuation.
//
// After discovery nothing that a server does fails the reply: the model is told, and goes on.
package toolloop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/internal/chat"
	"sluice/internal/continuation"
	"sluice/internal/excerpt"
	"sluice/internal/fault"
	"sluice/internal/mcpclient"
	"sluice/internal/provider"
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	MaxServers int // of a request; default 8
	MaxTools   int // of a request, functions included; default 128
	MaxRounds  int // of calls before the model must answer; default 16
}

// Loop opens streams.
type Loop struct {
	client *mcpclient.Client
	opts   Options
}

// New returns a loop that reaches servers through the client.
func New(client *mcpclient.Client, opts *Options) *Loop {
	l := &Loop{client: client}
	if opts != nil {
		l.opts = *opts
	}
	if l.opts.MaxServers == 0 {
		l.opts.MaxServers = chat.MaxMCPServers
	}
	if l.opts.MaxTools == 0 {
		l.opts.MaxTools = chat.MaxTools
	}
	if l.opts.MaxRounds == 0 {
		l.opts.MaxRounds = 16
	}
	return l
}

// Ask is one completion.
type Ask struct {
	ID      string // the request's
	Request *chat.Request
	// Turn asks the model; turns are counted from 0.
	Turn func(ctx context.Context, turn int, req *chat.Request) (provider.Stream, error)
	// Memory keeps hidden steps for the caller's next request; nil: they are lost.
	Memory *continuation.Memory
	// Images is whether the model takes images.
	Images bool
	// Depth is how many calls of our own MCP server this one is nested in.
	Depth int
	// Asking, where given, is called before a server is asked for the first time.
	Asking func()
	// CountPrompt is how many tokens a request makes the model read, for upstreams that give no figures.
	CountPrompt func(*chat.Request) int
}

// Open discovers the tools and asks for the first turn. A server that cannot be used, or a request
// that its tools do not fit, is the caller's fault. Canceling ctx ends the model's turn, all calls and
// their sessions.
func (l *Loop) Open(ctx context.Context, ask Ask) (*Stream, error) {
	if ask.Request.N > 1 {
		return nil, fault.New(fault.Invalid, "n must be 1 in a request with MCP tools.").At("n")
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{loop: l, ask: ask, ctx: ctx, cancel: cancel}
	if err := s.prepare(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prepare does everything that the caller can be told of with a plain fault.
func (s *Stream) prepare() error {
	found, err := s.discover()
	if err != nil {
		return err
	}
	if s.offer, err = newOffer(s.ask.Request, found, s.loop.opts.MaxTools); err != nil {
		return err
	}
	s.restore()
	if len(s.approved) > 0 {
		return nil // tools run first, and that may take a while: the stream shall be alive by then
	}
	return s.begin()
}

// discovery is one MCP entry of the tools.
type discovery struct {
	entry  int // in the request's tools
	label  string
	server *mcpclient.Server
	tools  []mcpclient.Tool
	err    error
}

// discover asks all servers for their tools at the same time.
func (s *Stream) discover() ([]discovery, error) {
	var found []discovery
	lists := mcpclient.NewBudget()
	for i, t := range s.ask.Request.Tools {
		if t.MCP == nil {
			continue
		}
		d := discovery{entry: i, label: labelOf(t.MCP)}
		if d.server, d.err = s.loop.client.Server(t.MCP.ServerURL, t.MCP.Headers, s.ask.Depth); d.err == nil {
			d.server.Share(lists)
			s.servers = append(s.servers, d.server)
		}
		found = append(found, d)
	}
	if most := s.loop.opts.MaxServers; len(found) > most {
		return nil, fault.New(fault.Invalid, "tools has %d MCP servers; at most %d are possible.", len(found), most).At(fmt.Sprintf("tools[%d]", found[most].entry))
	}
	if s.ask.Asking != nil && len(s.servers) > 0 {
		s.ask.Asking()
	}
	var all sync.WaitGroup
	for i := range found {
		if d := &found[i]; d.err == nil {
			all.Go(func() { d.tools, d.err = d.server.Tools(s.ctx) })
		}
	}
	all.Wait()
	for i := range found {
		if err := s.unusable(&found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// unusable is what the caller is told of a server that failed; nil: it did not.
func (s *Stream) unusable(d *discovery) error {
	if d.err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return fmt.Errorf("discovering tools: %w", context.Cause(s.ctx))
	}
	reason, field := "it failed", "server_url"
	var f *mcpclient.Failure
	if errors.As(d.err, &f) {
		reason = f.Reason
		if f.Busy {
			return fault.New(fault.Unavailable, "The MCP server %q cannot be used now: %s. Try again shortly.", excerpt.Of(d.label, 100), f.Reason).After(time.Second).Because(d.err)
		}
		if f.Status == 401 || f.Status == 403 {
			field = "headers"
		}
	}
	return fault.New(fault.Invalid, "The MCP server %q cannot be used: %s.", excerpt.Of(d.label, 100), reason).
		At(fmt.Sprintf("tools[%d].%s", d.entry, field)).Because(d.err)
}
