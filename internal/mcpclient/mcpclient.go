// Package mcpclient calls the tools of remote MCP servers.
//
// A Server is a server as one caller names it: an address, and the headers that go with every request
// to it. It is connected when its tools are asked for or called, over streamable HTTP or, where the
// server is older, HTTP+SSE. Whatever a server does, each exchange is bounded in time and bytes, and
// ends in a result or in a Failure whose reason callers and models may read. What the tools are for is
// the caller's matter; see toolloop.
package mcpclient

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/netguard"
)

// Options are the choices of New; the zero value is the default.
type Options struct {
	CallTimeout      time.Duration // of one call of a tool; default 60 s
	DiscoveryTimeout time.Duration // of connecting and listing the tools; default 20 s
	MaxResult        int           // bytes of one result on the wire; default 1 MiB
	CacheFor         time.Duration // how long a list of tools is believed; default 30 s; negative: not at all

	// LocalURL is the address of our own MCP server, and Local what serves it in process to calls that
	// are nested so deep. Nil: the address is like any other.
	LocalURL string
	Local    func(depth int) http.Handler

	Now func() time.Time // default time.Now
}

// Client connects to servers.
type Client struct {
	guard *netguard.Guard
	opts  Options

	parting sync.WaitGroup // sessions that are being closed
	held    atomic.Int64   // about what is being read and decoded, in bytes

	mu    sync.Mutex
	lists map[[sha256.Size]byte]list
}

// list is what a server said its tools are.
type list struct {
	tools   []Tool
	expires time.Time
}

const (
	maxLists    = 256       // servers whose lists are kept
	maxListSize = 256 << 10 // bytes of one that is
)

// New returns a client that dials through the guard.
func New(guard *netguard.Guard, opts *Options) *Client {
	c := &Client{guard: guard, lists: make(map[[sha256.Size]byte]list)}
	if opts != nil {
		c.opts = *opts
	}
	o := &c.opts
	if o.CallTimeout == 0 {
		o.CallTimeout = 60 * time.Second
	}
	if o.DiscoveryTimeout == 0 {
		o.DiscoveryTimeout = 20 * time.Second
	}
	if o.MaxResult == 0 {
		o.MaxResult = 1 << 20
	}
	if o.CacheFor == 0 {
		o.CacheFor = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return c
}

// Close waits until every session has been closed, which takes some seconds at most.
func (c *Client) Close() { c.parting.Wait() }

// maxDepth is how deep calls of our own server may be nested.
const maxDepth = 2

// Server is a server as one caller names it. Its methods may be called at the same time; Close ends it.
type Server struct {
	client *Client
	key    [sha256.Size]byte // of the address and the headers
	url    *url.URL
	header http.Header
	local  http.Handler // serves it in process; nil: it is somewhere else

	lists   *Budget                // for its list of tools; nil: one of its own
	listing atomic.Pointer[Budget] // while it is being listed

	connecting chan struct{} // holds one token for whoever connects
	mu         sync.Mutex
	exchanges  int      // under way
	decoded    int64    // of Client.held: what has been read in them
	session    *session // nil: none yet, or the last one broke
	closed     bool
}

// Server returns the server at an address. Depth is how many of our own calls the present one is
// nested in. Nothing is sent before the first method is called.
func (c *Client) Server(address string, headers map[string]string, depth int) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fail("its address is not a URL", err)
	}
	u.Fragment = ""
	s := &Server{client: c, url: u, header: make(http.Header, len(headers)), connecting: make(chan struct{}, 1)}
	for name, value := range headers {
		s.header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	s.key = s.digest()
	if c.opts.Local != nil && strings.TrimSuffix(u.String(), "/") == strings.TrimSuffix(c.opts.LocalURL, "/") {
		if depth >= maxDepth {
			return nil, fail(fmt.Sprintf("it is this service itself, and its calls are nested more than %d deep", maxDepth), nil)
		}
		s.local = c.opts.Local(depth + 1)
	}
	return s, nil
}

// digest identifies address and headers without keeping what they say.
func (s *Server) digest() [sha256.Size]byte {
	sum := sha256.New()
	note := func(text string) { fmt.Fprint(sum, len(text), " ", text) }
	note(s.url.String())
	names := make([]string, 0, len(s.header))
	for name := range s.header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		note(name)
		note(s.header[name][0])
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// Share makes the server's list of tools a part of what a budget allows. It must be called before Tools.
func (s *Server) Share(b *Budget) { s.lists = b }

// exchange notes that something is asked of the server, until the returned function is called: what it
// answers counts as held until then, since it is decoded after it was read.
func (s *Server) exchange() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.exchanges--; s.exchanges == 0 {
			s.client.held.Add(-s.decoded)
			s.decoded = 0
		}
	}
}

// leave takes over what a reply that was read still holds.
func (s *Server) leave(held int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exchanges == 0 {
		s.client.held.Add(-held)
		return
	}
	s.decoded += held
}

// Close ends the session, if there is one. It does not wait for the server to agree; see Client.Close.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.session != nil {
		s.client.part(s.session)
		s.session = nil
	}
}

// connected returns a session, a new one where there is none that works.
func (s *Server) connected(ctx context.Context) (*session, error) {
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-ctx.Done():
		return nil, ended(ctx)
	}
	s.mu.Lock()
	have := s.session
	s.mu.Unlock()
	if have != nil {
		return have, nil
	}
	made, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.client.part(made)
		return nil, fail("the call was ended", context.Canceled)
	}
	s.session = made
	return made, nil
}

// drop gives up a session that broke, so that the next call makes a new one.
func (s *Server) drop(broken *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == broken {
		s.session = nil
		s.client.part(broken)
	}
}

// part closes a session behind the caller's back: a server that does not answer must not hold up a
// reply that is complete.
func (c *Client) part(s *session) { c.parting.Go(s.close) }

// known is a server's list of tools, if it is fresh.
func (c *Client) known(key [sha256.Size]byte) ([]Tool, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.lists[key]
	if !ok || !c.opts.Now().Before(l.expires) {
		return nil, false
	}
	return l.tools, true
}

// learn keeps a server's list of tools for a while.
func (c *Client) learn(key [sha256.Size]byte, tools []Tool) {
	size := 0
	for i := range tools {
		size += tools[i].size()
	}
	if size > maxListSize || c.opts.CacheFor < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Now()
	if len(c.lists) >= maxLists {
		for other, l := range c.lists {
			if !now.Before(l.expires) {
				delete(c.lists, other)
			}
		}
	}
	if len(c.lists) < maxLists {
		c.lists[key] = list{tools, now.Add(c.opts.CacheFor)}
	}
}

// forget drops what is known of a server's tools.
func (c *Client) forget(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lists, key)
}
