package resume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
)

// network connects the nodes of a test: each has a server, and connections are pipes.
type network struct {
	key seal.Key

	mu    sync.Mutex               // guards the fields below
	late  map[string]time.Duration // by how much the clock of a node is late
	nodes []Node
	away  map[string]bool // addresses that take no connections
	seen  bytes.Buffer    // what went over connections, from the side that dialed
	conns map[string]chan net.Conn
}

type node struct {
	*network
	tag string
}

func (n node) Tag() string { return n.tag }

func (n node) Now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(-n.late[n.tag])
}

func (n node) Others() (others []Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.nodes {
		if o.Tag != n.tag {
			others = append(others, o)
		}
	}
	return others
}

// change changes the network while nodes use it.
func (n *network) change(how func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	how()
}

// dial opens a connection to a node.
func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	away, conns := n.away[address], n.conns[address]
	n.mu.Unlock()
	if away || conns == nil {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	select {
	case conns <- there:
		return &tapped{here, n}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tapped is a connection that is listened to.
type tapped struct {
	net.Conn
	by *network
}

func (c *tapped) note(p []byte) {
	c.by.mu.Lock()
	defer c.by.mu.Unlock()
	c.by.seen.Write(p)
}

func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.note(p[:n])
	return n, err
}

func (c *tapped) Write(p []byte) (int, error) {
	c.note(p)
	return c.Conn.Write(p)
}

// pipes is the listener of a node.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipes) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// join runs so many nodes until stop is called. They are called node0, node1, ..., at addresses of the same name.
func join(t *testing.T, nodes int) (net *network, streams []*Streams, stop func()) {
	t.Helper()
	net = &network{key: seal.NewKey(), late: map[string]time.Duration{}, away: map[string]bool{}, conns: map[string]chan netConn{}}
	var running sync.WaitGroup
	var servers []*http.Server
	for i := range nodes {
		tag := fmt.Sprint("node", i)
		net.change(func() { net.nodes = append(net.nodes, Node{tag, "http://" + tag + ":80"}) })
		s := New(&Options{Nodes: node{net, tag}, Key: net.key, Dial: net.dial})
		l := &pipes{conns: make(chan netConn), closed: make(chan struct{})}
		net.change(func() { net.conns[tag+":80"] = l.conns })
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.Serve(r.Context(), w, r) {
				http.NotFound(w, r)
			}
		})}
		running.Go(func() { _ = server.Serve(l) })
		servers, streams = append(servers, server), append(streams, s)
	}
	return net, streams, func() {
		for _, s := range servers {
			_ = s.Close()
		}
		running.Wait()
	}
}

type netConn = net.Conn

func TestPeers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net, streams, stop := join(t, 3)
		net.change(func() { net.late["node1"], net.late["node2"] = -10*time.Second, 10*time.Second }) // a clock is never quite right
		st, _ := streams[0].Open(t.Context(), httptest.NewRecorder(), Call{ID: "s", Account: "a"})
		write(t, st, "data: secret one\n\n")
		st.HungUp()
		var want strings.Builder
		for i := range 40 { // the last ones are larger than a frame
			fmt.Fprintf(&want, "id: node0-%d\ndata: secret %s\n\n", i+2, strings.Repeat("x", i*i*100))
		}
		go func() {
			for i := range 40 {
				time.Sleep(100 * time.Millisecond)
				write(t, st, fmt.Sprintf("data: secret %s\n\n", strings.Repeat("x", i*i*100)))
			}
			st.Close(true)
		}()
		// The reader changes the node in the middle.
		src := attach(t, streams[1], "node0-1")
		var got strings.Builder
		for range 5 {
			p, err := src.Next(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(p)
		}
		whole := got.String()[:strings.LastIndex(got.String(), "\n\n")+2]
		number := strings.Count(whole, "id: ") + 1
		newer := attach(t, streams[2], fmt.Sprint("node0-", number))
		if _, err := rest(t, src); !errors.Is(err, ErrTakenOver) {
			t.Errorf("the older reader ends with %v, want ErrTakenOver", err)
		}
		src.Close()
		tail, err := rest(t, newer)
		if whole+tail != want.String() || !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes and %d bytes, %v, want %d together", len(whole), len(tail), err, want.Len())
		}
		newer.Close()

		for _, test := range []struct {
			id, account, after string
			want               fault.Kind
		}{
			{"s", "b", "node0-1", fault.NotFound},
			{"s", "b", "", fault.NotFound},
			{"t", "a", "node0-1", fault.NotFound},
			{"s", "a", "node7-1", fault.NotFound},
			{"s", "a", "node1-1", fault.NotFound}, // it would have it itself
			{"s", "a", "node0-99", fault.Invalid},
			{"a b", "a", "node0-1", fault.NotFound},
		} {
			if _, err := streams[1].Attach(t.Context(), test.id, test.account, []string{test.after}); err == nil || fault.From(err).Kind != test.want {
				t.Errorf("Attach(%s, %s, %s) = %v, want %v", test.id, test.account, test.after, err, test.want)
			}
		}
		again := attach(t, streams[1], "")
		if all, err := rest(t, again); !strings.HasPrefix(all, "id: node0-1\n") || !errors.Is(err, io.EOF) {
			t.Errorf("from the beginning = %.40q, %v", all, err)
		}
		again.Close()
		var sent []byte
		net.change(func() { sent = bytes.Clone(net.seen.Bytes()) })
		if len(sent) < want.Len() || bytes.Contains(sent, []byte("secret")) {
			t.Errorf("%d bytes went from node to node, want them sealed", len(sent))
		}
		time.Sleep(patience + time.Minute)
		for i, s := range streams {
			if s.left() != 0 {
				t.Errorf("node %d: something is left", i)
			}
		}
		stop()
	})
}

// What a caller gets while the node that holds its stream is away, and when it goes.
func TestPeerAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net, streams, stop := join(t, 4)
		st, _ := streams[0].Open(t.Context(), httptest.NewRecorder(), Call{ID: "s", Account: "a"})
		write(t, st, "data: one\n\n")
		fails := func(what, after string, want fault.Kind) {
			t.Helper()
			if _, err := streams[1].Attach(t.Context(), "s", "a", []string{after}); err == nil || fault.From(err).Kind != want {
				t.Errorf("%s: Attach(%q) = %v, want %v", what, after, err, want)
			}
			if err := streams[1].End(t.Context(), "s", "a", []string{after}); err == nil || fault.From(err).Kind != want {
				t.Errorf("%s: End(%q) = %v, want %v", what, after, err, want)
			}
		}
		net.change(func() { net.away["node0:80"] = true })
		fails("nobody listens", "node0-1", fault.Unavailable)
		fails("nobody listens", "", fault.NotFound)
		net.change(func() { net.away["node0:80"] = false })
		net.change(func() { net.conns["node3:80"] = make(chan netConn) }) // nobody accepts
		began := time.Now()
		fails("nobody accepts", "node3-1", fault.Unavailable)
		if took := time.Since(began); took > 2*answerIn {
			t.Errorf("an answer that does not come was waited for %v, want %v", took/2, answerIn)
		}
		attach(t, streams[1], "").Close() // the other three were asked at the same time
		time.Sleep(connectIn)             // so long a connection is tried
		net.change(func() { net.late["node0"] = 2 * window })
		fails("a clock that is wrong", "node0-1", fault.Unavailable)
		net.change(func() { net.late["node0"] = 0 })
		net.change(func() { net.nodes[0].Address = "http://node2:80" }) // such as the address of a machine that another has now
		fails("another node answers", "node0-1", fault.Unavailable)
		net.change(func() { net.nodes[0].Address = "" })
		fails("a node of an earlier version", "node0-1", fault.Unavailable)
		fails("a node of an earlier version", "", fault.NotFound)
		net.change(func() { net.nodes[0].Address = "http://node0:80" })

		// The reader leaves: its node learns it at once, and the time to come back begins.
		src := attach(t, streams[1], "node0-1")
		if got := streams[0].Waiting(); got != 0 {
			t.Errorf("%d calls wait for their caller, want none", got)
		}
		src.Close()
		synctest.Wait()
		if got := streams[0].Waiting(); got != 1 {
			t.Errorf("%d calls wait for their caller after it has left, want 1", got)
		}
		// The caller leaves while it waits for events.
		src = attach(t, streams[1], "node0-1")
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, leave)
		if _, err := src.Next(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("Next = %v, want that the caller has left", err)
		}
		src.Close()
		// Nothing comes for a while: that is no end.
		src = attach(t, streams[1], "node0-1")
		for _, wait := range []time.Duration{15 * time.Second, time.Minute} {
			began := time.Now()
			if p, err := src.Next(t.Context(), wait); len(p) != 0 || err != nil || time.Since(began) < wait || time.Since(began) > wait+2*holding {
				t.Errorf("Next = %q, %v after %v, want nothing after %v", p, err, time.Since(began), wait)
			}
		}
		// The node goes, and the stream with it.
		stop()
		if _, err := src.Next(t.Context(), time.Hour); !errors.Is(err, ErrLost) {
			t.Errorf("Next = %v after the node went, want ErrLost", err)
		}
		src.Close()
		st.Close(false)
		for i, s := range streams {
			if s.left() != 0 {
				t.Errorf("node %d: something is left", i)
			}
		}
	})
}

// A node that holds its connection and says nothing counts as gone.
func TestPeerSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net, streams, stop := join(t, 1)
		defer stop()
		net.change(func() { net.nodes = append(net.nodes, Node{"mute", "http://mute:80"}) })
		l := &pipes{conns: make(chan netConn), closed: make(chan struct{})}
		net.change(func() { net.conns["mute:80"] = l.conns })
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q, ok := openQuestion(net.key, "mute", r.Header.Get(nodeHeader))
			if !ok {
				t.Error("the question is not for this node")
			}
			f := frames{key: net.key, nonce: q.nonce}
			_, _ = w.Write(f.add(nil, someMore, nil))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})}
		var running sync.WaitGroup
		running.Go(func() { _ = server.Serve(l) })
		src := attach(t, streams[0], "mute-1")
		began := time.Now()
		if _, err := src.Next(t.Context(), time.Hour); !errors.Is(err, ErrLost) || time.Since(began) != absent {
			t.Errorf("Next = %v after %v, want ErrLost after %v", err, time.Since(began), absent)
		}
		src.Close()
		_ = server.Close()
		running.Wait()
	})
}

func TestPeersAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, streams, stop := join(t, 2)
		for i := range atOnce + 1 {
			st, _ := streams[0].Open(t.Context(), httptest.NewRecorder(), Call{ID: fmt.Sprint("s", i), Account: "a"})
			write(t, st, "data: x\n\n")
			st.Close(true)
			src, err := streams[1].Attach(t.Context(), fmt.Sprint("s", i), "a", []string{"node0-0"})
			if within := i < atOnce; within != (err == nil) || !within && fault.From(err).Kind != fault.Unavailable {
				t.Errorf("Attach of stream %d = %v", i, err)
			}
			if err == nil {
				defer src.Close()
			}
		}
		time.Sleep(patience + time.Minute)
		stop()
	})
}

// A node lends so many streams, and no more.
func TestLentAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, streams, stop := join(t, 2)
		st, _ := streams[0].Open(t.Context(), httptest.NewRecorder(), Call{ID: "s", Account: "a"})
		write(t, st, "data: x\n\n")
		for range lentAtOnce {
			streams[0].peers.lent <- struct{}{}
		}
		if _, err := streams[1].Attach(t.Context(), "s", "a", []string{"node0-1"}); err == nil || fault.From(err).Kind != fault.Unavailable {
			t.Errorf("Attach = %v while as many are read as may be, want 503", err)
		}
		<-streams[0].peers.lent
		attach(t, streams[1], "node0-1").Close()
		st.Close(false)
		stop()
	})
}

// Only a node of the installation is answered, once, and only about what it asked for.
func TestStrangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net, streams, stop := join(t, 1)
		defer stop()
		st, call := streams[0].Open(t.Context(), httptest.NewRecorder(), Call{ID: "s", Account: "a"})
		defer st.Close(false)
		write(t, st, "data: x\n\n")
		asked := 0
		ask := func(change func(q *question)) question {
			asked++
			q := question{at: time.Now(), nonce: fmt.Sprint("nonce", asked), account: "a", stream: "s", cut: true}
			if change != nil {
				change(&q)
			}
			return q
		}
		serve := func(method string, values ...string) bool {
			r := httptest.NewRequest(method, NodePath, nil)
			r.Header[nodeHeader] = values
			w := httptest.NewRecorder()
			served := streams[0].Serve(t.Context(), w, r)
			if !served && (w.Body.Len() > 0 || len(w.Header()) > 0 || w.Flushed) {
				t.Errorf("a stranger got %v %q", w.Header(), w.Body)
			}
			return served
		}
		q := ask(nil)
		good := q.seal(net.key, "node0")
		changed := "A"
		if good[0] == 'A' {
			changed = "B"
		}
		old := ask(func(q *question) { q.at = time.Now().Add(-window - time.Second) })
		early := ask(func(q *question) { q.at = time.Now().Add(window + time.Second) })
		for what, refused := range map[string]bool{
			"nothing":              serve("POST"),
			"an empty value":       serve("POST", ""),
			"no base64":            serve("POST", "?"),
			"no question":          serve("POST", "AAAA"),
			"two of them":          serve("POST", good, good),
			"another method":       serve("GET", good),
			"another key":          serve("POST", q.seal(seal.NewKey(), "node0")),
			"another node":         serve("POST", q.seal(net.key, "node1")),
			"an answer as one":     serve("POST", string((&frames{key: net.key}).add(nil, noMore, nil))),
			"a change":             serve("POST", changed+good[1:]),
			"an old one":           serve("POST", old.seal(net.key, "node0")),
			"one of tomorrow":      serve("POST", early.seal(net.key, "node0")),
			"one that is too long": serve("POST", strings.Repeat("A", maxQuestion+1)),
		} {
			if refused {
				t.Errorf("%s was answered", what)
			}
		}
		if call.Err() != nil {
			t.Fatal("a stranger has ended the call")
		}
		if !serve("POST", good) || call.Err() == nil {
			t.Error("the question of a node was not answered")
		}
		// A copy is refused for as long as it would be in time.
		for range 5 {
			if serve("POST", good) {
				t.Error("a copy was answered")
			}
			time.Sleep(window / 2)
		}
		streams[0].peers.asked.turned, streams[0].peers.asked.young = time.Now(), map[string]struct{}{}
		for i := range maxNonces {
			streams[0].peers.asked.young[fmt.Sprint(i)] = struct{}{}
		}
		next := ask(nil)
		if serve("POST", next.seal(net.key, "node0")) {
			t.Error("more questions were answered than are remembered")
		}
		time.Sleep(2 * window)
		next = ask(nil)
		if !serve("POST", next.seal(net.key, "node0")) {
			t.Error("a question was not answered after a while")
		}
	})
}

// Frames that were changed, left out, repeated or sent in another order are no answer, nor are those to another question.
func TestFrames(t *testing.T) {
	t.Parallel()
	key := seal.NewKey()
	f := frames{key: key, nonce: "n"}
	one, two := f.add(nil, someMore, []byte("one")), f.add(nil, noMore, nil)
	read := func(nonce string, parts ...[]byte) (said string, err error) {
		r := frames{key: key, nonce: nonce, from: bytes.NewReader(bytes.Join(parts, nil))}
		for {
			a, err := r.next()
			if err != nil {
				return said, err
			}
			said += string(rune(a.what)) + string(a.events)
		}
	}
	if said, err := read("n", one, two); said != "monee" || !errors.Is(err, io.EOF) {
		t.Errorf("the frames say %q, %v", said, err)
	}
	changed := bytes.Clone(one)
	changed[len(changed)-1] ^= 1
	for what, parts := range map[string][][]byte{
		"changed": {changed}, "without the first": {two}, "in another order": {two, one}, "too long": {{0xff, 0, 0, 0}}, "empty": {{0, 0, 0, 0}}, "cut": {one[:9]},
	} {
		if said, err := read("n", parts...); said != "" || err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: the frames say %q, %v, want an error", what, said, err)
		}
	}
	if said, err := read("n", one, one); said != "mone" || !errors.Is(err, seal.ErrUnreadable) {
		t.Errorf("a frame that is repeated says %q, %v, want an error", said, err)
	}
	if said, err := read("m", one); said != "" || !errors.Is(err, seal.ErrUnreadable) {
		t.Errorf("an answer to another question says %q, %v, want an error", said, err)
	}
}

// A call is ended by its own account alone, on its node and from another one.
func TestEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, streams, stop := join(t, 2)
		for _, after := range []string{"", "node0-1"} {
			for from, s := range streams {
				st, call := streams[0].Open(t.Context(), httptest.NewRecorder(), Call{ID: "s", Account: "a"})
				write(t, st, "data: one\n\n")
				for _, bad := range [][2]string{{"s", "b"}, {"t", "a"}} {
					if err := s.End(t.Context(), bad[0], bad[1], []string{after}); err == nil || fault.From(err).Kind != fault.NotFound {
						t.Errorf("End of %s by %s on node %d after %q = %v, want 404", bad[0], bad[1], from, after, err)
					}
				}
				if call.Err() != nil {
					t.Fatal("a stranger has ended the call")
				}
				if err := s.End(t.Context(), "s", "a", []string{after}); err != nil || !errors.Is(context.Cause(call), ErrEnded) {
					t.Errorf("End on node %d after %q = %v, and the call ended by %v", from, after, err, context.Cause(call))
				}
				st.Close(false)
			}
		}
		if err := streams[0].End(t.Context(), "s", "a", []string{"x y"}); err == nil || fault.From(err).Kind != fault.Invalid {
			t.Errorf("End after %q = %v, want 400", "x y", err)
		}
		synctest.Wait() // the last answer has been sent, and its request ends
		for i, s := range streams {
			if s.left() != 0 {
				t.Errorf("node %d: something is left", i)
			}
		}
		stop()
	})
}
