package resume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
)

// call opens a stream with the id s of the account a.
func call(t *testing.T, s *Streams, keep bool) (*Stream, context.Context, *httptest.ResponseRecorder) {
	t.Helper()
	w := httptest.NewRecorder()
	st, ctx := s.Open(t.Context(), w, Call{ID: "s", Account: "a", Location: "/s", Keep: keep})
	return st, ctx, w
}

// left counts what is still held.
func (s *Streams) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.byID) + len(s.ended) + len(s.held) + s.total + s.detached
	if p := s.peers; p != nil {
		n += len(p.reading) + len(p.lent)
	}
	return n
}

func write(t *testing.T, st *Stream, p string) {
	t.Helper()
	if n, err := st.Write([]byte(p)); n != len(p) || err != nil {
		t.Fatalf("Write(%q) = %d, %v", p, n, err)
	}
}

// rest reads a source to its end, which may be an error.
func rest(t *testing.T, src Source) (string, error) {
	t.Helper()
	var b strings.Builder
	for {
		p, err := src.Next(t.Context(), time.Minute)
		if err != nil {
			return b.String(), err
		}
		b.Write(p)
	}
}

func attach(t *testing.T, s *Streams, after string) Source {
	t.Helper()
	src, err := s.Attach(t.Context(), "s", "a", []string{after})
	if err != nil {
		t.Fatalf("Attach(%q) = %v", after, err)
	}
	return src
}

func TestStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		st, ctx, w := call(t, s, false)
		write(t, st, ": keep-alive\n")
		write(t, st, "data: one\n\ndata: two\n\n")
		st.Flush()
		if got, want := w.Body.String(), ": keep-alive\nid: 1\ndata: one\n\nid: 2\ndata: two\n\n"; got != want {
			t.Errorf("the caller got %q, want %q", got, want)
		}
		if got := w.Header().Get(Location); got != "/s" {
			t.Errorf("%s = %q, want /s", Location, got)
		}
		st.HungUp()
		write(t, st, "data: three\n\n")
		if strings.Contains(w.Body.String(), "three") {
			t.Error("a caller that hung up got an event")
		}
		time.Sleep(patience - time.Second)
		src := attach(t, s, "1")
		time.Sleep(patience) // as long as there is a reader, there is time
		if ctx.Err() != nil {
			t.Fatal("the call was canceled although somebody reads")
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if got, err := rest(t, src); got != "id: 2\ndata: two\n\nid: 3\ndata: three\n\nid: 4\ndata: [DONE]\n\n" || !errors.Is(err, io.EOF) {
				t.Errorf("after event 1 = %q, %v", got, err)
			}
		}()
		synctest.Wait()
		write(t, st, "data: [DONE]\n\n")
		if st.Close(true) {
			t.Error("Close says that the first connection got all")
		}
		<-done
		src.Close()
		if got, err := rest(t, attach(t, s, "3")); got != "id: 4\ndata: [DONE]\n\n" || !errors.Is(err, io.EOF) {
			t.Errorf("after the end = %q, %v", got, err)
		}
		time.Sleep(patience + time.Second)
		if _, err := s.Attach(t.Context(), "s", "a", nil); fault.From(err).Kind != fault.NotFound {
			t.Errorf("Attach two minutes after the end = %v, want 404", err)
		}
		if s.left() != 0 {
			t.Error("something is left")
		}
	})
}

func TestNobodyComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		st, ctx, _ := call(t, s, false)
		write(t, st, "data: one\n\n")
		st.HungUp()
		if s.Waiting() != 1 {
			t.Errorf("Waiting() = %d, want 1", s.Waiting())
		}
		time.Sleep(patience - time.Second)
		attach(t, s, "0").Close() // the time begins anew
		time.Sleep(patience - time.Second)
		if ctx.Err() != nil {
			t.Fatal("canceled too early")
		}
		time.Sleep(2 * time.Second)
		if !errors.Is(context.Cause(ctx), ErrLeft) {
			t.Fatalf("the cause = %v, want ErrLeft", context.Cause(ctx))
		}
		st.Close(false)
		if s.left() != 0 {
			t.Error("something is left")
		}
	})
}

// Nobody can know the id of a reply that has not begun; but a repeat with the same Idempotency-Key wants it.
func TestHungUpBeforeTheReply(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		s := New(nil)
		st, ctx, _ := call(t, s, keep)
		st.HungUp()
		if (ctx.Err() == nil) != keep {
			t.Errorf("with keep %t the call is canceled: %v", keep, ctx.Err())
		}
		st.Close(false)
	}
}

func TestTakenOver(t *testing.T) {
	t.Parallel()
	s := New(nil)
	st, _, w := call(t, s, false)
	write(t, st, "data: one\n\n")
	first := attach(t, s, "0")
	write(t, st, "data: two\n\n")
	if strings.Contains(w.Body.String(), "two") {
		t.Error("the first connection got an event after it was taken over")
	}
	second := attach(t, s, "1")
	if _, err := first.Next(t.Context(), time.Minute); !errors.Is(err, ErrTakenOver) {
		t.Errorf("Next of the older reader = %v, want ErrTakenOver", err)
	}
	first.Close()
	st.Close(true)
	if got, err := rest(t, second); got != "id: 2\ndata: two\n\n" || !errors.Is(err, io.EOF) {
		t.Errorf("the newer reader got %q, %v", got, err)
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	s := New(nil)
	st, _, _ := call(t, s, false)
	write(t, st, "data: one\n\n")
	src := attach(t, s, "1")
	st.Close(false)
	if _, err := src.Next(t.Context(), time.Minute); !errors.Is(err, ErrLost) {
		t.Errorf("Next of a stream that broke off = %v, want ErrLost", err)
	}
}

func TestLastEvent(t *testing.T) {
	t.Parallel()
	s := New(nil)
	st, _, _ := call(t, s, false)
	defer st.Close(false)
	write(t, st, "data: one\n\n")
	for _, test := range []struct {
		id, account string
		values      []string
		want        string // of the message; "": it is good
	}{
		{"s", "a", nil, ""},
		{"s", "a", []string{""}, ""},
		{"s", "a", []string{"0"}, ""},
		{"s", "a", []string{"1"}, ""},
		{"s", "a", []string{"other-1"}, ""},
		{"s", "a", []string{"2"}, "this stream has had 1"},
		{"s", "a", []string{"-1x"}, "must be the id"},
		{"s", "a", []string{"1234567890"}, "must be the id"},
		{"s", "a", []string{"x y-1"}, "must be the id"},
		{"s", "a", []string{"abcdefghijklmnopq-1"}, "must be the id"},
		{"s", "a", []string{"a-"}, "must be the id"},
		{"s", "a", []string{"1", "1"}, "must be the id"},
		{"s", "b", []string{"1"}, "There is no stream"},
		{"t", "a", []string{"1"}, "There is no stream"},
	} {
		_, err := s.Attach(t.Context(), test.id, test.account, test.values)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("Attach(%s, %s, %q) = %v, want %q", test.id, test.account, test.values, err, test.want)
		}
	}
	if s.Has("s", "b") || !s.Has("s", "a") {
		t.Error("Has does not tell accounts apart")
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	event := "data: " + strings.Repeat("x", 80) + "\n\n" // 93 bytes and more with its number
	s := New(&Options{MaxStream: 1000, MaxAccount: 1500, MaxAll: 2000})
	open := func(id, account string) *Stream {
		st, _ := s.Open(t.Context(), httptest.NewRecorder(), Call{ID: id, Account: account})
		return st
	}
	within := func(when string) {
		t.Helper()
		sum := 0
		for _, st := range s.byID {
			if len(st.buf) > 1000 {
				t.Errorf("%s: a stream holds %d bytes, want 1000 at most", when, len(st.buf))
			}
			sum += len(st.buf)
		}
		if s.total != sum || s.total > 2000 || s.held["a"] > 1500 {
			t.Errorf("%s: %d bytes are held, %d of the account, want %d, 1500 at most", when, s.total, s.held["a"], sum)
		}
	}
	one := open("1", "a")
	for range 100 {
		write(t, one, event)
		within("one stream")
	}
	if one.dropped == 0 || len(one.ends) < 4 {
		t.Errorf("%d events were dropped and %d kept, want the newest half of the bound at least", one.dropped, len(one.ends))
	}
	if _, err := s.Attach(t.Context(), "1", "a", []string{"1"}); err == nil || !strings.Contains(err.Error(), "no longer kept") {
		t.Errorf("Attach after an event that was dropped = %v", err)
	}
	one.Close(true)
	two := open("2", "a")
	for range 100 {
		write(t, two, event)
		within("two streams")
	}
	if s.byID["1"] != nil {
		t.Error("a stream that has ended is kept although a running one needs the room")
	}
	other := open("3", "b")
	for range 100 {
		write(t, other, event)
		write(t, two, event)
		within("two accounts")
	}
	write(t, other, "data: "+strings.Repeat("x", 3000)+"\n\n")
	within("an event larger than all")
	for _, st := range []*Stream{two, other} {
		st.Close(false)
	}
	if s.left() != 0 {
		t.Error("something is left")
	}
}

// A reader that is slower than the model holds it up, as the first connection would.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(&Options{MaxStream: 1000})
		st, _, _ := call(t, s, false)
		write(t, st, "data: first\n\n")
		src := attach(t, s, "0")
		var want strings.Builder
		want.WriteString("id: 1\ndata: first\n\n")
		for i := range 500 {
			fmt.Fprintf(&want, "id: %d\ndata: %d\n\n", i+2, i)
		}
		go func() {
			for i := range 500 {
				write(t, st, fmt.Sprintf("data: %d\n\n", i))
			}
			st.Close(true)
		}()
		synctest.Wait()
		s.mu.Lock()
		over := st.over
		s.mu.Unlock()
		if over {
			t.Fatal("the writer did not wait for the reader")
		}
		if got, err := rest(t, src); got != want.String() || !errors.Is(err, io.EOF) {
			t.Errorf("the reader got %d bytes, %v, want %d", len(got), err, want.Len())
		}
		src.Close()
		time.Sleep(patience + time.Second)
	})
}
