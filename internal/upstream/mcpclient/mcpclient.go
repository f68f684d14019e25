// Package mcpclient calls the tools of remote MCP servers.
//
// A Server is an MCP server as one caller names it: an address, and the headers to send with every
// request. A connection is made when its tools are listed or called, over streamable HTTP or, for
// older servers, over HTTP+SSE. Whatever a server does, each exchange is bounded in time and bytes.
// It ends with a result, or with a Failure whose reason callers and models may read. What the tools
// are used for is not decided here; see package toolloop.
package mcpclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/netguard"
)

// Options are the optional settings of New. The zero value is the default.
type Options struct {
	CallTimeout      time.Duration // limit for one tool call; default 60 s
	DiscoveryTimeout time.Duration // limit for connecting and listing the tools; default 20 s
	MaxResult        int           // maximum size of one result in bytes; default 1 MiB

	// LocalURL returns the address of our own MCP server, which a reload may change. Local returns the handler that serves it in
	// process to calls that are nested this deep. If Local is nil, the address is treated like any
	// other.
	LocalURL func() string
	Local    func(depth int) http.Handler

	Now func() time.Time // default time.Now
}

// Client connects to servers. It is safe for concurrent use.
type Client struct {
	guard *netguard.Guard
	opts  Options

	parting sync.WaitGroup // sessions that are being closed or made ahead, and handlers in process
	held    atomic.Int64   // approximate bytes being read and decoded; bounded by maxHeld

	// mu guards lists, which caches tool lists by Server.key.
	mu    sync.Mutex
	lists map[[sha256.Size]byte]list
}

// list is a cached tool list of a server.
type list struct {
	tools   []Tool
	expires time.Time
	calls   bool // the last request that could call one of the tools did
}

const (
	cacheFor    = 30 * time.Second // how long a list is cached if the protocol version has no hints for that
	maxCacheFor = time.Hour        // the longest time that a server's hint counts for
	maxLists    = 256              // maximum number of cached lists
	maxListSize = 256 << 10        // maximum size of a cached list in bytes; larger ones are not cached
)

// New returns a client that dials through the guard. A nil opts means the defaults.
func New(guard *netguard.Guard, opts *Options) *Client {
	c := &Client{guard: guard, lists: make(map[[sha256.Size]byte]list)}
	if opts != nil {
		c.opts = *opts
	}
	o := &c.opts
	o.CallTimeout = cmp.Or(o.CallTimeout, time.Minute)
	o.DiscoveryTimeout = cmp.Or(o.DiscoveryTimeout, 20*time.Second)
	o.MaxResult = cmp.Or(o.MaxResult, 1<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	return c
}

// Close waits until every session has been closed. A session takes at most partingTime for that.
func (c *Client) Close() { c.parting.Wait() }

// maxDepth is how deep calls of our own server may be nested. Without a limit, a model could make
// the service call itself forever.
const maxDepth = 2

// Server is a server as one caller names it. Its methods are safe for concurrent use. Call Close
// when it is no longer needed.
type Server struct {
	client *Client
	key    [sha256.Size]byte // hash of address and headers: callers with other credentials share no cache entry
	public [sha256.Size]byte // the same without Authorization, for lists that the server says are for everybody
	url    *url.URL
	header http.Header
	local  http.Handler // serves it in process; nil for a remote server

	lists   *Budget                // limits its tool list; nil means a budget of its own
	listing atomic.Pointer[Budget] // the budget in use while the tools are being listed; else nil

	connecting chan struct{} // a lock that can be waited for with a context: whoever puts a token in may connect
	// mu guards the fields below.
	mu        sync.Mutex
	exchanges int      // in progress
	decoded   int64    // the share of Client.held that finished replies still account for
	session   *session // nil if there is none yet or the last one broke
	ahead     bool     // it was connected before anything was to be sent
	called    bool     // a tool has answered
	closed    bool
}

// Server returns the server at an address. Depth is how many of our own calls the current one is
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
	if s.header["User-Agent"] == nil { // the caller's own wins
		s.header["User-Agent"] = []string{"sluice/" + buildinfo.Version()}
	}
	s.key, s.public = s.digest("private", ""), s.digest("public", "Authorization")
	if c.opts.Local != nil && strings.TrimSuffix(u.String(), "/") == strings.TrimSuffix(c.opts.LocalURL(), "/") {
		if depth >= maxDepth {
			return nil, fail(fmt.Sprintf("it is this service itself, and its calls are nested more than %d deep", maxDepth), nil)
		}
		s.local = c.opts.Local(depth + 1)
	}
	return s, nil
}

// digest returns a hash of scope, address and headers but one, so that they need not be stored in the cache. Each
// part is written with its length, so that no two different inputs look the same.
func (s *Server) digest(scope, except string) [sha256.Size]byte {
	sum := sha256.New()
	note := func(text string) { fmt.Fprint(sum, len(text), " ", text) }
	note(scope)
	note(s.url.String())
	for _, name := range slices.Sorted(maps.Keys(s.header)) {
		if name == except {
			continue
		}
		note(name)
		note(s.header[name][0])
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// Share makes the server's tool list count against a shared budget. It must be called before Tools.
func (s *Server) Share(b *Budget) { s.lists = b }

// exchange records that an exchange with the server has begun, and returns the function that ends
// it. Everything read meanwhile counts as held until the last exchange ends, because the library
// decodes a message after reading it.
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

// leave takes over the bytes that a reply held, when its body is closed. They are released now if
// no exchange is in progress, and else when the last one ends.
func (s *Server) leave(held int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exchanges == 0 {
		s.client.held.Add(-held)
		return
	}
	s.decoded += held
}

// Close ends the session, if there is one. It does not wait for the server to confirm; see
// Client.Close.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.ahead && !s.called {
		s.client.expect(s, false)
	}
	if s.session != nil {
		s.client.part(s.session)
		s.session = nil
	}
}

// connected returns the current session, or makes a new one. Only one goroutine at a time connects;
// the others wait for it and then use the same session.
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
	// Connect without holding mu: it can take as long as the server likes.
	if have != nil {
		return have, nil
	}
	made, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Close was called while connecting, so nobody would close this session.
	if s.closed {
		s.client.part(made)
		return nil, fail("the call was canceled", context.Canceled)
	}
	s.session = made
	return made, nil
}

// drop gives up a session that broke, so that the next call makes a new one. It does nothing if
// another goroutine has already replaced the session.
func (s *Server) drop(broken *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == broken {
		s.session = nil
		s.client.part(broken)
	}
}

// part closes a session in the background: a server that does not answer must not delay a reply
// that is already complete.
func (c *Client) part(s *session) { c.parting.Go(s.close) }

// known returns a server's cached tool list if it has not expired: that of the caller, or one for everybody.
func (c *Client) known(s *Server) (list, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range [][sha256.Size]byte{s.key, s.public} {
		if l, ok := c.lists[key]; ok && c.opts.Now().Before(l.expires) {
			return l, true
		}
	}
	return list{}, false
}

// expect notes whether the next request with the same list will probably call a tool: as the last one did, or did not.
func (c *Client) expect(s *Server, calls bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range [][sha256.Size]byte{s.key, s.public} {
		if l, ok := c.lists[key]; ok {
			l.calls = calls
			c.lists[key] = l
		}
	}
}

// learn caches a server's tool list for its lifetime. When the cache is full, it drops expired lists; if that
// does not help, the one that would stay longest, so that servers with long lifetimes cannot keep the others out.
func (c *Client) learn(s *Server, tools []Tool, life lifetime) {
	key := s.key
	if life.public {
		key = s.public
	}
	if life.ttl <= 0 {
		return
	}
	size := 0
	for i := range tools {
		size += tools[i].size()
	}
	if size > maxListSize {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Now()
	if len(c.lists) >= maxLists {
		maps.DeleteFunc(c.lists, func(_ [sha256.Size]byte, l list) bool { return !now.Before(l.expires) })
	}
	if len(c.lists) >= maxLists {
		latest := func(a, b [sha256.Size]byte) int { return c.lists[b].expires.Compare(c.lists[a].expires) }
		delete(c.lists, slices.MinFunc(slices.Collect(maps.Keys(c.lists)), latest))
	}
	c.lists[key] = list{tools: tools, expires: now.Add(life.ttl)}
}

// forget removes a server's tool lists from the cache.
func (c *Client) forget(s *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lists, s.key)
	delete(c.lists, s.public)
}
