package resume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
)

// network connects the nodes of a test. It can lose messages.
type network struct {
	mu    sync.Mutex
	got   map[string]func(string)
	sent  int
	loses func(n int, message string) bool
	seen  []string
}

type node struct {
	*network
	tag string
}

func (n node) Hear(got func(string)) { n.got[n.tag] = got }
func (n node) Tag() string           { return n.tag }
func (n node) Lives(tag string) bool { return n.got[tag] != nil && tag != n.tag }
func (n node) Tell(_ context.Context, message string) error {
	if len(message) > 7000 {
		return fmt.Errorf("a message of %d bytes", len(message))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent++
	n.seen = append(n.seen, message)
	if n.loses != nil && n.loses(n.sent, message) {
		return nil
	}
	for tag, got := range n.got {
		if tag != n.tag {
			got(message)
		}
	}
	return nil
}

// join runs so many nodes until stop is called.
func (n *network) join(t *testing.T, nodes int) (streams []*Streams, stop func()) {
	t.Helper()
	key := seal.NewKey()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range nodes {
		s := New(&Options{Bus: node{network: n, tag: fmt.Sprint("node", i)}, Key: key})
		running.Go(func() { s.Run(ctx) })
		streams = append(streams, s)
	}
	return streams, func() { cancel(); running.Wait() }
}

func TestPeers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := &network{got: map[string]func(string){}, loses: func(n int, _ string) bool { return n%5 == 0 }}
		streams, stop := net.join(t, 3)
		st, _ := streams[0].Open(t.Context(), httptest.NewRecorder(), Call{ID: "s", Account: "a"})
		write(t, st, "data: secret one\n\n")
		st.HungUp()
		var want strings.Builder
		for i := range 40 { // the last ones are larger than a message
			fmt.Fprintf(&want, "id: node0-%d\ndata: secret %s\n\n", i+2, strings.Repeat("x", i*i*10))
		}
		go func() {
			for i := range 40 {
				time.Sleep(100 * time.Millisecond)
				write(t, st, fmt.Sprintf("data: secret %s\n\n", strings.Repeat("x", i*i*10)))
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
		net.loses = nil // a question to everybody is not repeated
		again := attach(t, streams[1], "")
		if all, err := rest(t, again); !strings.HasPrefix(all, "id: node0-1\n") || !errors.Is(err, io.EOF) {
			t.Errorf("from the beginning = %.40q, %v", all, err)
		}
		again.Close()
		for _, m := range net.seen {
			if strings.Contains(m, "secret") {
				t.Fatalf("a message is not sealed: %.80q", m)
			}
		}
		// Somebody without the key cannot answer, and a node that has gone is noticed.
		net.loses = func(int, string) bool { return true }
		if _, err := streams[1].Attach(t.Context(), "s", "a", []string{"node0-1"}); err == nil || fault.From(err).Kind != fault.Unavailable {
			t.Errorf("Attach while nobody answers = %v, want 503", err)
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

func TestPeersAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := &network{got: map[string]func(string){}}
		streams, stop := net.join(t, 2)
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

// A call is ended by its own account alone, on its node and from another one.
func TestEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := &network{got: map[string]func(string){}, loses: func(int, string) bool { return false }}
		streams, stop := net.join(t, 2)
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
		for i, s := range streams {
			if s.left() != 0 {
				t.Errorf("node %d: something is left", i)
			}
		}
		stop()
	})
}
