package resume

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// Source is what a later connection reads.
type Source interface {
	// Next returns the next events, whole. It waits for them, for at most the given time, and returns nothing if none
	// has come. The bytes are good until the next call. It returns io.EOF after the last event, ErrTakenOver if a newer
	// connection has taken over, and other errors if the stream is lost.
	Next(ctx context.Context, wait time.Duration) ([]byte, error)
	// Close must be called when the caller has left or has read everything.
	Close()
}

// Header is the request header with the id of the last event that the caller has.
const Header = "Last-Event-Id"

// Attach continues a stream of an account after the event that values, those of the request header, name; if there
// are none, from its beginning. The stream may be on another node. The one who has read it until now gets nothing
// more.
func (s *Streams) Attach(ctx context.Context, id, account string, values []string) (Source, error) {
	tag, after, err := lastEvent(values)
	if err != nil {
		return nil, err
	}
	switch r, err := s.attach(id, account, after); {
	case err != nil:
		return nil, err
	case r != nil:
		return r, nil
	case s.peers == nil:
		return nil, Unknown(excerpt.Of(id, maxID))
	}
	return s.peers.attach(ctx, tag, question{account: account, after: after, stream: id})
}

// Has reports whether this node holds a stream of the account.
func (s *Streams) Has(id, account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byID[id]
	return st != nil && st.account == account
}

const (
	maxID  = 100 // bytes of an id that a message repeats
	maxTag = 16  // bytes of the name of a node
)

// lastEvent reads the header: the node, if there are several, and the number of the event.
func lastEvent(values []string) (tag string, number int, err error) {
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return "", 0, nil
	}
	bad := func() error {
		return fault.New(fault.Invalid, "Last-Event-ID must be the id of an event of this stream, once; got %s.", strconv.Quote(excerpt.Of(values[0], maxID))).At("Last-Event-ID")
	}
	if len(values) != 1 {
		return "", 0, bad()
	}
	digits := values[0]
	if before, rest, ok := strings.Cut(digits, "-"); ok {
		tag, digits = before, rest
	}
	if len(digits) == 0 || len(digits) > 9 || len(tag) > maxTag || strings.ContainsRune(tag, ' ') {
		return "", 0, bad()
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return "", 0, bad()
		}
		number = 10*number + int(digits[i]-'0')
	}
	return tag, number, nil
}

// attach continues a stream of this node. It returns nil and no error if there is none of the account.
func (s *Streams) attach(id, account string, after int) (*Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byID[id]
	if st == nil || st.account != account {
		return nil, nil
	}
	switch have := st.dropped + len(st.ends); {
	case after > have:
		return nil, fault.New(fault.Invalid, "Last-Event-ID names event %d, and this stream has had %d.", after, have).At("Last-Event-ID")
	case after < st.dropped:
		return nil, fault.New(fault.Invalid, "Last-Event-ID names event %d, and the events up to %d are no longer kept.", after, st.dropped).At("Last-Event-ID")
	}
	st.attended()
	if st.direct {
		// A write that is stuck must not hold the call up any longer.
		st.direct = false
		st.expire()
	}
	r := &Reader{stream: st, next: after}
	st.reader = r
	st.wake() // the one before
	st.yield()
	s.resumed++
	return r, nil
}

// Reader reads a stream of this node. One goroutine uses it.
type Reader struct {
	stream *Stream
	next   int // how many events were read, from the first of the stream on; guarded by streams.mu
	out    []byte
}

// Next implements Source.
func (r *Reader) Next(ctx context.Context, wait time.Duration) ([]byte, error) {
	st := r.stream
	mu := &st.streams.mu
	var timer *time.Timer
	for {
		mu.Lock()
		switch {
		case st.reader != r:
			mu.Unlock()
			return nil, ErrTakenOver
		case r.next < st.dropped, st.over && !st.whole:
			mu.Unlock()
			return nil, ErrLost
		case r.next < st.dropped+len(st.ends):
			r.out = r.take(r.out[:0])
			mu.Unlock()
			return r.out, nil
		case st.over:
			mu.Unlock()
			return nil, io.EOF
		}
		if st.changed == nil {
			st.changed = make(chan struct{})
		}
		changed := st.changed
		mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take appends the next events. There is one. The caller holds the lock.
func (r *Reader) take(out []byte) []byte {
	st := r.stream
	i := r.next - st.dropped
	from := 0
	if i > 0 {
		from = st.ends[i-1]
	}
	to := st.ends[i]
	for i++; i < len(st.ends) && st.ends[i]-from <= piece; i++ {
		to = st.ends[i]
	}
	r.next = st.dropped + i
	st.yield()
	return append(out, st.buf[from:to]...)
}

// Close implements Source.
func (r *Reader) Close() {
	st := r.stream
	st.streams.mu.Lock()
	defer st.streams.mu.Unlock()
	if st.reader == r {
		st.reader = nil
		st.alone()
	}
	st.yield()
}
