package resume

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
)

const (
	// atOnce is how many streams of other nodes are read here at a time. Other nodes together may read lentAtOnce here.
	atOnce     = 64
	lentAtOnce = 16 * atOnce
	// askAtOnce is how many nodes are asked at a time for a stream whose node is not known.
	askAtOnce = 16
	// connectIn is how long a connection to another node may take, and answerIn how long it may take until the answer begins.
	connectIn = 2 * time.Second
	answerIn  = 3 * time.Second
	// holding is how long the node that holds a stream waits for events before it says that there were none. If it says
	// nothing for absent, it is gone.
	holding = time.Second
	absent  = 15 * time.Second
	// maxHead is how large the head of another node's reply may be.
	maxHead = 16 << 10
)

// peers reads streams of other nodes, and lets them read those of this one. A node sends another one a request to
// NodePath, whose reply is the stream. See question for what it asks, and frames for what it gets.
type peers struct {
	streams *Streams
	nodes   Nodes
	tag     string
	key     seal.Key
	client  http.RoundTripper
	reading chan struct{} // has a token for each stream of another node that is read
	lent    chan struct{} // has one for each of this node that another one reads
	asked   nonces
}

func newPeers(s *Streams, opts *Options) *peers {
	open := opts.Dial
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	// A Transport goes on to connect when the request has ended.
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectIn)
		defer cancel()
		return open(ctx, network, address)
	}
	return &peers{
		streams: s, nodes: opts.Nodes, tag: opts.Nodes.Tag(), key: opts.Key, reading: make(chan struct{}, atOnce), lent: make(chan struct{}, lentAtOnce),
		// No proxy, no pool: each stream has a connection, which ends with it.
		client: &http.Transport{
			DialContext: dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
			// The certificate is that of the name that callers use, and nodes call an address. What both say is sealed.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		},
	}
}

// attach continues a stream that another node holds.
func (p *peers) attach(ctx context.Context, tag string, q question) (Source, error) {
	r, err := p.begin(ctx, tag, q)
	if err != nil {
		return nil, err
	}
	if r.first.what == refused {
		defer r.Close()
		return nil, fault.New(fault.Invalid, "%s", r.first.events).At("Last-Event-ID")
	}
	return r, nil
}

// end ends the call of a stream that another node holds.
func (p *peers) end(ctx context.Context, tag string, q question) error {
	r, err := p.begin(ctx, tag, q)
	if err == nil {
		r.Close()
	}
	return err
}

// begin asks the node that holds a stream, or all of them if tag is empty, and returns what has begun to answer. The
// caller closes it.
func (p *peers) begin(ctx context.Context, tag string, q question) (*remote, error) {
	missing := Unknown(excerpt.Of(q.stream, maxID))
	var nodes []Node
	for _, n := range p.nodes.Others() {
		if tag == "" || tag == n.Tag {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 || !plain(q.stream) {
		return nil, missing
	}
	select {
	case p.reading <- struct{}{}:
	default:
		return nil, fault.New(fault.Unavailable, "This server resumes as many streams of other servers as it can. Try again in a moment.").After(time.Second)
	}
	r, err := p.find(ctx, nodes, q)
	if r != nil {
		return r, nil
	}
	<-p.reading
	if err == nil || tag == "" {
		return nil, missing
	}
	return nil, fault.New(fault.Unavailable, "The server that holds this stream does not answer. Try again.").After(time.Second).Because(err)
}

// find asks nodes, and returns the one that has the stream. It returns nil if none has it, and why if that is not known.
func (p *peers) find(ctx context.Context, nodes []Node, q question) (found *remote, failed error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	var mu sync.Mutex // guards the results
	var asking sync.WaitGroup
	room := make(chan struct{}, askAtOnce)
	for _, n := range nodes {
		asking.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			r, err := p.ask(ctx, n, q)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = err
			case r.first.what == unknown || found != nil:
				r.end()
			default:
				found = r
				cancel()
			}
		})
	}
	asking.Wait()
	return found, failed
}

var errSilence = errors.New("the other node cannot be reached, or does not answer as a node does")

// ask asks a node, and returns its answer. It ends with ctx until then.
func (p *peers) ask(ctx context.Context, n Node, q question) (*remote, error) {
	if n.Address == "" || ctx.Err() != nil {
		return nil, errSilence // such as a node of an earlier version
	}
	q.at, q.nonce = p.nodes.Now(), rand.Text()
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	req, err := http.NewRequestWithContext(reading, http.MethodPost, n.Address+NodePath, http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header[nodeHeader] = []string{q.seal(p.key, n.Tag)}
	resp, err := p.client.RoundTrip(req)
	if err != nil {
		cancel()
		return nil, err
	}
	r := &remote{peers: p, frames: frames{key: p.key, nonce: q.nonce, from: resp.Body}, body: resp.Body, cancel: cancel}
	if resp.StatusCode != http.StatusOK {
		err = errSilence
	} else {
		r.first, err = r.frames.next()
	}
	if !stop() || err == nil && r.first.what == busy {
		err = errSilence
	}
	if err != nil {
		r.end()
		return nil, err
	}
	r.waiting = true
	return r, nil
}

// plain reports whether an id can be part of a question.
func plain(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}
