package relay

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/provider"
)

// script is a stream of events. At the end it cancels the call, with a cause, and fails as an upstream does then.
type script struct {
	events []provider.Event
	cancel func()
	at     int
}

func (s *script) Next() (*provider.Event, error) {
	if s.at == len(s.events) {
		s.cancel()
		return nil, context.Canceled
	}
	s.at++
	return &s.events[s.at-1], nil
}

func (*script) Ready() bool  { return false }
func (*script) Close() error { return nil }

// A call that ends because the server stops was not given up by its caller: the caller is told, and it is
// settled as one that was cut.
func TestStopping(t *testing.T) {
	t.Parallel()
	hello := []provider.Event{{Kind: provider.Text, Text: "hello"}}
	for name, tt := range map[string]struct {
		cause  error
		events []provider.Event
		stream bool
		fail   int // the write that fails
		told   bool
		gone   bool
	}{
		"a stream, stopped":                      {ErrStopping, hello, true, 0, true, false},
		"a stream, hung up":                      {context.Canceled, hello, true, 0, false, true},
		"a stream that has not begun, stopped":   {ErrStopping, nil, true, 0, false, false},
		"a stream that has not begun, hung up":   {context.Canceled, nil, true, 0, false, true},
		"a whole reply, stopped":                 {ErrStopping, hello, false, 0, false, false},
		"a whole reply, hung up":                 {context.Canceled, hello, false, 0, false, true},
		"a whole reply without a word, stopped":  {ErrStopping, nil, false, 0, false, false},
		"a stream to a caller who does not read": {ErrStopping, hello, true, 2, false, true},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &caller{fail: tt.fail, header: map[string][]string{}}
		err := c.take(ctx, &script{events: tt.events, cancel: func() { cancel(tt.cause) }}, tt.stream, Options{})
		cancel(nil)
		if errors.Is(err, ErrTold) != tt.told || errors.Is(err, ErrGone) != tt.gone {
			t.Errorf("%s: %v, want told %t and gone %t", name, err, tt.told, tt.gone)
		}
		stopped := errors.Is(tt.cause, ErrStopping)
		if !tt.gone && !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v, want a 503", name, err)
		}
		if tt.told && (strings.Count(c.body.String(), `data: {"error":`) != 1 || strings.Contains(c.body.String(), "[DONE]")) {
			t.Errorf("%s: the caller got %s, want one error event at the end", name, c.body.String())
		}
		for _, s := range c.settled {
			if errors.Is(s.outcome.Err, ErrGone) == stopped {
				t.Errorf("%s: settled with %v", name, s.outcome.Err)
			}
		}
		if len(tt.events) > 0 && len(c.settled) != 1 {
			t.Errorf("%s: settled %d times, want once", name, len(c.settled))
		}
	}
}

// A write that fails because we closed the connection at the end of a stop is no hang-up either.
func TestStoppingWhileWriting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cause error
		gone  bool
	}{{ErrStopping, false}, {nil, true}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if tt.cause != nil {
			cancel(tt.cause)
		}
		c := &caller{fail: 1, header: map[string][]string{}}
		_ = c.take(ctx, &script{events: []provider.Event{{Kind: provider.Text, Text: "hello"}}, cancel: func() {}}, true, Options{})
		cancel(nil)
		if len(c.settled) != 1 || errors.Is(c.settled[0].outcome.Err, ErrGone) != tt.gone {
			t.Errorf("canceled with %v: settled %+v, want a hang-up: %t", tt.cause, c.settled, tt.gone)
		}
	}
}

// endless is an upstream that never stops talking.
type endless struct{ sent int }

func (e *endless) Next() (*provider.Event, error) {
	const piece = 64 << 10
	if e.sent += piece; e.sent > 4*provider.MaxText {
		return nil, io.EOF
	}
	return &provider.Event{Kind: provider.Text, Text: strings.Repeat("x", piece)}, nil
}

func (*endless) Ready() bool  { return true }
func (*endless) Close() error { return nil }

// A reply that is put together from a stream without an end is given up at the bound. A streamed one goes on: it
// takes no memory.
func TestEndlessReply(t *testing.T) {
	t.Parallel()
	in := &endless{}
	c, err := send(t.Context(), in, false, Options{})
	if !fault.Is(err, fault.Unavailable) || in.sent > provider.MaxText+1<<20 {
		t.Errorf("an endless reply = %v after %d bytes, want a 503 at %d", err, in.sent, provider.MaxText)
	}
	if len(c.settled) != 1 || c.body.Len() != 0 {
		t.Errorf("an endless reply was settled %d times and sent %d bytes, want once and nothing", len(c.settled), c.body.Len())
	}
}
