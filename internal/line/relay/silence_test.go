package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/pulse"
	"sluice/internal/upstream/provider"
)

// timed is a caller in a bubble: it notes when something is written, and may be slow to take it.
type timed struct {
	start    time.Time
	header   http.Header
	written  []string
	at       []time.Duration
	writing  bool
	overlap  bool
	slow     func(i int, gaveUp <-chan struct{}) error // called for write i
	gaveUp   chan struct{}                             // closed when the deadline passes
	outcomes []Outcome
	takes    time.Duration // how long settling takes
}

func newTimed() *timed {
	return &timed{start: time.Now(), header: http.Header{}, gaveUp: make(chan struct{})}
}

func (c *timed) Header() http.Header { return c.header }
func (c *timed) WriteHeader(int)     {}
func (c *timed) Flush()              {}
func (c *timed) settle(o *Outcome) {
	time.Sleep(c.takes) // the bubble's clock
	c.outcomes = append(c.outcomes, *o)
}

func (c *timed) Write(b []byte) (int, error) {
	c.overlap = c.overlap || c.writing
	c.writing = true
	defer func() { c.writing = false }()
	if c.slow != nil {
		if err := c.slow(len(c.written), c.gaveUp); err != nil {
			return 0, err
		}
	}
	c.written = append(c.written, string(b))
	c.at = append(c.at, time.Since(c.start))
	return len(b), nil
}

// SetWriteDeadline is what http.ResponseController looks for.
func (c *timed) SetWriteDeadline(d time.Time) error {
	if !d.IsZero() && !d.After(time.Now()) {
		select {
		case <-c.gaveUp:
		default:
			close(c.gaveUp)
		}
	}
	return nil
}

const comment = ": keep-alive\n"

// comments are the times at which the caller got one.
func (c *timed) comments() (at []time.Duration) {
	for i, w := range c.written {
		if w == comment {
			at = append(at, c.at[i].Truncate(time.Second))
		}
	}
	return at
}

// pausing plays events, each after a pause.
func pausing(events []provider.Event, pauses []time.Duration, err error) *played {
	return &played{events: events, err: err, before: func(i int) {
		if i < len(pauses) {
			time.Sleep(pauses[i]) // the bubble's clock
		}
	}}
}

// bubble streams to the caller under a beating pulse, and leaves the pulse beating for another minute.
func bubble(t *testing.T, c *timed, in provider.Stream) error {
	t.Helper()
	p := pulse.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go p.Run(ctx)
	var receipt *[sha256.Size]byte
	sign := func(reply *[sha256.Size]byte) string { receipt = reply; return "" }
	err := relayTo(t.Context(), c, in, testHead, Options{Stream: true, N: 1, Pulse: p, Sign: sign}, c.settle)
	// The receipt is about the events: a repeat has no comments.
	if want := sha256.Sum256([]byte(strings.ReplaceAll(strings.Join(c.written, ""), comment, ""))); err == nil && *receipt != want {
		t.Errorf("the receipt is about %x, want %x, the hash of %q without comments", *receipt, want, c.written)
	}
	if n := p.Watched(); n != 0 {
		t.Errorf("%d streams are watched behind the end", n)
	}
	writes := len(c.written)
	time.Sleep(time.Minute) // the bubble's clock
	if len(c.written) != writes {
		t.Errorf("%q was written behind the end", c.written[writes:])
	}
	if c.overlap {
		t.Error("two writes at once")
	}
	if len(c.outcomes) > 1 {
		t.Errorf("settled %d times", len(c.outcomes))
	}
	return err
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	const s = time.Second
	reply := []provider.Event{chunk("a"), chunk("b"), finished}
	for name, tt := range map[string]struct {
		pauses []time.Duration
		least  []time.Duration // when comments come, at the earliest
	}{
		"no silence":                     {nil, nil},
		"just below":                     {[]time.Duration{13 * s, 13 * s, 13 * s, 13 * s}, nil},
		"before the first event":         {[]time.Duration{20 * s}, []time.Duration{15 * s}},
		"long before the first event":    {[]time.Duration{50 * s}, []time.Duration{15 * s, 30 * s, 45 * s}},
		"in the middle":                  {[]time.Duration{s, 20 * s}, []time.Duration{16 * s}},
		"twice":                          {[]time.Duration{0, 20 * s, 20 * s}, []time.Duration{15 * s, 35 * s}},
		"between finish and end":         {[]time.Duration{0, 0, 0, 40 * s}, []time.Duration{15 * s, 30 * s}},
		"silence, then a steady trickle": {[]time.Duration{20 * s, 10 * s, 10 * s, 10 * s}, []time.Duration{15 * s}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newTimed()
			if err := bubble(t, c, pausing(reply, tt.pauses, nil)); err != nil {
				t.Errorf("%s: Stream = %v", name, err)
			}
			got := c.comments()
			if len(got) != len(tt.least) {
				t.Fatalf("%s: comments at %v, want %v", name, got, tt.least)
			}
			for i := range got {
				if late := got[i] - tt.least[i]; late < 0 || late > 5*s {
					t.Errorf("%s: comments at %v, want about %v", name, got, tt.least)
				}
			}
			if c.header.Get("Content-Type") != "text/event-stream" || !strings.HasSuffix(strings.Join(c.written, ""), "data: [DONE]\n\n") {
				t.Errorf("%s: the caller got %q with %v", name, c.written, c.header)
			}
		})
	}
}

// Once a comment has gone out, a failure can no longer be a plain fault.
func TestLateErrorAfterComment(t *testing.T) {
	t.Parallel()
	overloaded := provider.Failed([]byte(`{}`))
	for name, tt := range map[string]struct {
		events []provider.Event
		pauses []time.Duration
		told   bool
	}{
		"before the first event, no comment yet": {nil, []time.Duration{10 * time.Second}, false},
		"before the first event":                 {nil, []time.Duration{20 * time.Second}, true},
		"in the middle":                          {[]provider.Event{chunk("a")}, []time.Duration{0, 20 * time.Second}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newTimed()
			err := bubble(t, c, pausing(tt.events, tt.pauses, overloaded))
			if errors.Is(err, ErrTold) != tt.told || isPlain(err) == tt.told {
				t.Errorf("%s: Stream = %v, want it told: %t", name, err, tt.told)
			}
			all := strings.Join(c.written, "")
			if (strings.Count(all, `data: {"error":`) == 1) != tt.told || strings.Contains(all, "[DONE]") || (len(c.outcomes) == 1) != tt.told {
				t.Errorf("%s: the caller got %q, settled %d times", name, all, len(c.outcomes))
			}
			if tt.told && (!c.outcomes[0].Begun || c.outcomes[0].Complete) {
				t.Errorf("%s: settled with %+v", name, c.outcomes[0])
			}
		})
	}
}

// A caller who is slow to read gets no comment in between, and is waited for, within reason.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTimed()
		c.slow = func(i int, gaveUp <-chan struct{}) error {
			if i != 1 {
				return nil
			}
			select {
			case <-time.After(40 * time.Second):
				return nil
			case <-gaveUp:
				return os.ErrDeadlineExceeded
			}
		}
		if err := bubble(t, c, pausing([]provider.Event{chunk("a"), chunk("b"), finished}, nil, nil)); err != nil {
			t.Errorf("Stream = %v, want 40 seconds waited for", err)
		}
		if got := c.comments(); len(got) > 0 {
			t.Errorf("comments at %v while something was being written", got)
		}
	})
}

// One who does not read at all does not hold a stream, and with it the upstream, for ever.
func TestReaderWhoDoesNotRead(t *testing.T) {
	t.Parallel()
	for _, stuck := range []int{1, 2} { // in the middle, and at the very end
		synctest.Test(t, func(t *testing.T) {
			c := newTimed()
			c.slow = func(i int, gaveUp <-chan struct{}) error {
				if i < stuck {
					return nil
				}
				<-gaveUp
				return os.ErrDeadlineExceeded
			}
			start := time.Now()
			err := bubble(t, c, pausing([]provider.Event{chunk("a"), finished}, nil, nil))
			if !errors.Is(err, ErrGone) || len(c.outcomes) != 1 {
				t.Errorf("Stream = %v, settled %d times, want ErrGone and once", err, len(c.outcomes))
			}
			if took := time.Since(start) - time.Minute; took < 50*time.Second || took > 100*time.Second {
				t.Errorf("the caller was given up after %v, want about a minute", took)
			}
		})
	}
}

// While a reply is being settled its last bytes are due: a comment must not come between, or behind.
func TestNoCommentAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newTimed()
		c.takes = 40 * time.Second
		if err := bubble(t, c, pausing([]provider.Event{chunk("a"), finished}, nil, nil)); err != nil {
			t.Fatal(err)
		}
		if got := c.comments(); len(got) > 0 {
			t.Errorf("comments at %v, want none", got)
		}
	})
}

// The pulse serves all streams: one that cannot take a comment must not hold it up.
func TestCommentIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var deadlines []time.Duration
		c := newTimed()
		w := &deadlined{timed: c, set: func(d time.Time) {
			if d.IsZero() {
				deadlines = append(deadlines, 0)
			} else {
				deadlines = append(deadlines, time.Until(d))
			}
		}}
		p := pulse.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.Run(ctx)
		in := pausing([]provider.Event{chunk("a"), finished}, []time.Duration{20 * time.Second}, nil)
		if err := relayTo(t.Context(), w, in, testHead, Options{Stream: true, N: 1, Pulse: p}, c.settle); err != nil {
			t.Fatal(err)
		}
		if len(deadlines) != 2 || deadlines[0] <= 0 || deadlines[0] > 2*time.Second || deadlines[1] != 0 {
			t.Errorf("deadlines %v, want one for the comment, taken back behind it", deadlines)
		}
	})
}

type deadlined struct {
	*timed
	set func(time.Time)
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.set(at)
	return nil
}

// watched is a stream that notes whether its streamer had a buffer while it waited for an event.
type watched struct {
	provider.Stream
	of   *streamer
	held int
}

func (w *watched) Next() (*provider.Event, error) {
	if !w.Ready() && w.of.out != nil {
		w.held++
	}
	return w.Stream.Next()
}

// A stream that waits for its next event holds no buffer for output, also after an event that nothing is sent of.
func TestSilentStreamHoldsNoBuffer(t *testing.T) {
	t.Parallel()
	c := newTimed()
	s := newStreamer(c, testHead, &Options{Stream: true})
	defer s.Close()
	role := `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}`
	none := `{"choices":[]}`
	text := `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`
	in := &watched{of: s, Stream: &listed{events: []string{role, none, text, none, text, benchFinish}}}
	o := s.Relay(t.Context(), in)
	if !o.Complete || in.held != 0 {
		t.Errorf("complete: %t; it waited with a buffer %d times, want 0", o.Complete, in.held)
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(c.written, ""); strings.Count(all, `"content":"x"`) != 2 || !strings.HasSuffix(all, "data: [DONE]\n\n") {
		t.Errorf("the caller got %q, want both texts and the end", all)
	}
}

// listed is a stream of chunks, each of which has to be waited for.
type listed struct {
	events []string
	event  provider.Event
}

func (l *listed) Next() (*provider.Event, error) {
	if len(l.events) == 0 {
		return nil, io.EOF
	}
	l.event = provider.Event{Kind: provider.Chunk, Raw: []byte(l.events[0])}
	l.events = l.events[1:]
	return &l.event, nil
}

func (*listed) Ready() bool  { return false }
func (*listed) Close() error { return nil }
