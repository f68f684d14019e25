package sse

import (
	"io"
	"slices"
	"sync"
	"testing"
)

// patient is a source that waits without memory. It notes whether its reader had a buffer meanwhile.
type patient struct {
	rd     *Reader
	pieces []string
	held   []bool
}

func (p *patient) Await() { p.held = append(p.held, p.rd.buf != nil) }

func (p *patient) Read(to []byte) (int, error) {
	if len(p.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.pieces[0])
	p.pieces = p.pieces[1:]
	return n, nil
}

// A reader that waits with nothing in its buffer has none, and half an event is kept.
func TestSilenceHoldsNoBuffer(t *testing.T) {
	t.Parallel()
	src := &patient{pieces: []string{"data: a\n\ndata: b\n\n", "data: c", "c\n\n"}}
	src.rd = NewReader(src, &sync.Pool{New: func() any { b := make([]byte, 512); return &b }}, 1<<10)
	var got []string
	for {
		ev, err := src.rd.Next()
		if err != nil {
			break
		}
		got = append(got, string(ev.Data))
	}
	if want := []string{"a", "b", "cc"}; !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
	// Before the first piece, the second, and the end; not between the halves of an event.
	if want := []bool{false, false, false}; !slices.Equal(src.held, want) {
		t.Errorf("it waited with a buffer: %v, want %v", src.held, want)
	}
	if src.rd.Close(); src.rd.buf != nil {
		t.Error("a closed reader has a buffer")
	}
}
