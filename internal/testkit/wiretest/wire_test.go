package wiretest_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"sluice/internal/testkit/wiretest"
)

// echo answers every connection with what it sends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				io.Copy(c, c) // ends with the connection
			})
		}
	})
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// client is one end of a wire.
type client struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, w *wiretest.Wire) client {
	t.Helper()
	c, err := net.Dial("tcp", w.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return client{t, c}
}

// says sends a letter and returns the answer, or "" if none comes within a while.
func (c client) says(letter string, within time.Duration) (string, error) {
	c.t.Helper()
	if _, err := c.Write([]byte(letter)); err != nil {
		return "", err
	}
	return c.hears(within)
}

func (c client) hears(within time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(within))
	buf := make([]byte, 1)
	n, err := c.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", nil
	}
	return string(buf[:n]), err
}

const (
	long  = time.Minute // only ends a test that hangs
	short = 50 * time.Millisecond
)

func TestWire(t *testing.T) {
	t.Parallel()
	w := wiretest.New(t, echo(t))
	old := dial(t, w)
	expect := func(what string, c client, letter string, within time.Duration, want string) {
		t.Helper()
		if got, err := c.says(letter, within); err != nil || got != want {
			t.Fatalf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	expect("a wire", old, "a", long, "a")

	thaw := w.Freeze()
	expect("frozen", old, "b", short, "")
	late := dial(t, w)
	expect("frozen, a new connection", late, "c", short, "")
	thaw()
	for c, want := range map[client]string{old: "b", late: "c"} {
		if got, err := c.hears(long); err != nil || got != want {
			t.Fatalf("after the thaw: %q, %v, want %q", got, err, want)
		}
	}

	release := w.Stall()
	before := w.Replies()
	expect("stalled", old, "d", short, "")
	release()
	if got, err := old.hears(long); err != nil || got != "d" || w.Replies() == before {
		t.Fatalf("after the stall: %q, %v, %d replies more", got, err, w.Replies()-before)
	}

	w.Swallow()
	expect("swallowed", old, "e", short, "")
	fresh := dial(t, w)
	expect("after swallowing, a new connection", fresh, "f", long, "f")
	expect("swallowed for ever", old, "g", short, "")

	w.Cut()
	if got, err := fresh.hears(long); err == nil {
		t.Errorf("cut: %q, want an error", got)
	}
	if got, err := dial(t, w).says("h", long); err == nil {
		t.Errorf("cut, a new connection: %q, want an error", got)
	}
	w.Mend()
	expect("mended", dial(t, w), "i", long, "i")
}
