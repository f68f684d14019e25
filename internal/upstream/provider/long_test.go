package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"testing"

	"sluice/internal/kit/fault"
)

// long is a body of so many bytes; below 0: it never ends.
type long struct{ left int }

func (b *long) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n := len(p)
	if b.left > 0 {
		n = min(n, b.left)
		b.left -= n
	}
	return n, nil
}

func (*long) Close() error { return nil }

// reply returns a reply of the client with a body; length is what its head says, -1: nothing.
func (b *long) reply(c *Client, length int64) *Reply {
	return &Reply{Header: http.Header{}, length: length, body: b, client: c, ctx: context.Background(), cancel: func(error) {}}
}

// A whole reply without an end takes little more memory than the longest legal one, and it is not asked for again.
func TestLongReplies(t *testing.T) { //nolint:paralleltest // it measures what it allocates
	c := NewClient(nil)
	read := func(size int, length int64) (n int, allocated int64, err error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := (&long{size}).reply(c, length)
		raw, err := r.Whole()
		_ = r.Close(false)
		runtime.ReadMemStats(&after)
		return len(raw), int64(after.TotalAlloc - before.TotalAlloc), err
	}
	for _, tt := range []struct {
		name   string
		size   int
		length int64
		ok     bool
		most   int64 // bytes to allocate
	}{
		{"short", 1000, -1, true, 16 << 10},
		{"long", 10 << 20, -1, true, 40 << 20},
		{"long, known", 10 << 20, 10 << 20, true, 11 << 20},
		{"the longest", MaxReply, -1, true, 2*MaxReply + 1<<20},
		{"too long", MaxReply + 1, -1, false, 2*MaxReply + 1<<20},
		{"endless", -1, -1, false, 2*MaxReply + 1<<20},
		{"said to be too long", -1, MaxReply + 1, false, 16 << 10},
	} {
		n, allocated, err := read(tt.size, tt.length)
		if (err == nil) != tt.ok || tt.ok && n != tt.size || allocated > tt.most {
			t.Errorf("%s: %d bytes, %v, allocating %d, want at most %d", tt.name, n, err, allocated, tt.most)
		}
		if !tt.ok && (!errors.Is(err, ErrTooLong) || !fault.Is(err, fault.Unavailable)) {
			t.Errorf("%s: %v, want that it is too long", tt.name, err)
		}
	}
	if held := c.large.Load(); held != 0 {
		t.Errorf("%d bytes count as held after all replies were closed", held)
	}
}

// Many long replies at once are refused beyond a bound, and their room is free again when they are closed.
func TestManyLongReplies(t *testing.T) {
	t.Parallel()
	c := NewClient(nil)
	var held []*Reply
	for range maxLarge / MaxReply {
		r := (&long{0}).reply(c, MaxReply)
		r.pooled = new([]byte)
		if err := r.room(MaxReply, 0); err != nil {
			t.Fatalf("room within the bound = %v", err)
		}
		held = append(held, r)
	}
	r := (&long{-1}).reply(c, -1)
	if _, err := r.Whole(); !fault.Is(err, fault.Unavailable) || errors.Is(err, ErrTooLong) {
		t.Errorf("one more = %v, want a refusal that a retry may mend", err)
	}
	_ = r.Close(false)
	for _, r := range held {
		_ = r.Close(false)
	}
	if n := c.large.Load(); n != 0 {
		t.Errorf("%d bytes count as held after all were closed", n)
	}
}
