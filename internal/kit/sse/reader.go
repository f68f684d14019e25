// Package sse reads server-sent events from an upstream.
//
// A Reader returns the name and the data of each event as slices of its own buffer, without a copy:
// a stream has thousands of events, and each would otherwise cost an allocation. An event counts
// only when the blank line after it has arrived. What a cut connection leaves behind is not an
// event.
//
// A Reader that waits with nothing in its buffer has none, if its source can wait without one: see
// Waiter.
package sse

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// ErrTooLong means that one event is longer than the reader's bound. The reader cannot be used
// after it.
var ErrTooLong = errors.New("an event of the stream is too long")

// flood is the size, in bytes, that a buffer grows to when more arrives at once than it holds.
// Fewer, larger reads save system calls; a bigger buffer would cost memory in every stream.
const flood = 16 << 10

// mostKept is the size of the largest buffer that returns to the pool. One huge event must not keep its
// memory for ever.
const mostKept = 64 << 10

// Waiter is implemented by a source that can wait without memory to read into.
type Waiter interface {
	// Await returns when Read would return at once, with bytes or an error.
	Await()
}

// Event is one event. Its slices belong to the Reader and are valid until the next call of Next or
// Ready.
type Event struct {
	Name []byte // the event field; empty if there is none
	Data []byte // the data lines, joined by newlines; never empty
}

// Reader splits a stream into events. It must be used by one goroutine at a time.
type Reader struct {
	src  io.Reader
	wait Waiter     // src, if it is one; else nil
	pool *sync.Pool // of *[]byte; may be nil
	lent *[]byte    // from the pool, and returns to it; nil: there is none
	buf  []byte     // buf[r:w] has been read and not yet returned
	r, w int
	max  int   // the longest event, in bytes
	end  int   // length of the next event in buf[r:w], blank line included; 0: not known to be complete
	err  error // of the last read; returned when buf has no complete event left
}

// NewReader returns a Reader over src that refuses events longer than max bytes. It takes its buffer from
// pool, whose values are *[]byte of 512 bytes or more, and puts it back while it waits, and with Close. Without a pool it
// has a buffer of its own. When an event needs a larger one, it is allocated.
func NewReader(src io.Reader, pool *sync.Pool, max int) *Reader {
	rd := &Reader{src: src, pool: pool, max: max}
	rd.wait, _ = src.(Waiter)
	return rd
}

// Close gives the buffer back. The last event is not valid after it, and rd must not be used.
func (rd *Reader) Close() { rd.give() }

// take provides a buffer.
func (rd *Reader) take() {
	switch {
	case rd.buf != nil:
	case rd.pool == nil:
		rd.buf = make([]byte, 4<<10)
	default:
		rd.lent = rd.pool.Get().(*[]byte)
		rd.buf = (*rd.lent)[:cap(*rd.lent)]
	}
}

// give returns the buffer to the pool.
func (rd *Reader) give() {
	if rd.lent == nil {
		return
	}
	if cap(rd.buf) <= mostKept {
		*rd.lent = rd.buf
		rd.pool.Put(rd.lent)
	}
	rd.lent, rd.buf, rd.r, rd.w = nil, nil, 0, 0
}

// AtEOF reports whether the source has ended. Events that arrived before may still be in the buffer.
func (rd *Reader) AtEOF() bool { return errors.Is(rd.err, io.EOF) }

// Ready reports whether Next would return an event without reading from the source. Callers use it
// to decide when to flush: while more events wait, writing can too. It skips events without data,
// as Next does.
func (rd *Reader) Ready() bool {
	for {
		if rd.end == 0 {
			rd.end = eventEnd(rd.buf[rd.r:rd.w], 0)
		}
		if rd.end == 0 {
			return false
		}
		block := rd.buf[rd.r : rd.r+rd.end]
		if bytes.HasPrefix(block, dataPrefix) && block[len(dataPrefix)] > ' ' {
			return true
		}
		if _, ok := parse(block); ok {
			return true
		}
		rd.r += rd.end // no data: Next would skip it and then block
		rd.end = 0
	}
}

// Next returns the next event that has data, and blocks until it has arrived. At the end of the
// source it returns the source's error: io.EOF, or whatever cut the source short. Bytes of an event
// that never ended are dropped.
func (rd *Reader) Next() (Event, error) {
	for {
		block, err := rd.block()
		if err != nil {
			return Event{}, err
		}
		if ev, ok := parse(block); ok {
			return ev, nil
		}
	}
}

// block returns the bytes of the next event, with the blank line that ends it, and moves past them.
func (rd *Reader) block() ([]byte, error) {
	searched := 0
	for {
		if rd.end == 0 {
			rd.end = eventEnd(rd.buf[rd.r:rd.w], searched)
		}
		if rd.end > 0 {
			b := rd.buf[rd.r : rd.r+rd.end]
			rd.r += rd.end
			rd.end = 0
			return b, nil
		}
		if rd.err != nil {
			return nil, rd.err
		}
		// What was searched is not searched again, except the last three bytes: \r\n\r\n may be cut
		// anywhere.
		searched = max(0, rd.w-rd.r-3)
		if err := rd.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads once from the source. If the buffer is empty, it gives it back while it waits; if it is full,
// it first moves what is left to the front or allocates a larger buffer. It keeps the error of the source in rd.err, because events that
// arrived with it come first; it returns ErrTooLong only.
func (rd *Reader) fill() error {
	if rd.r == rd.w {
		rd.r, rd.w = 0, 0
		if rd.wait != nil {
			rd.give()
			rd.wait.Await()
		}
	}
	rd.take()
	if rd.w == len(rd.buf) {
		if rd.r > 0 {
			rd.w = copy(rd.buf, rd.buf[rd.r:rd.w])
			rd.r = 0
		} else {
			if len(rd.buf) >= rd.max {
				return ErrTooLong
			}
			grown := make([]byte, min(2*len(rd.buf), rd.max))
			copy(grown, rd.buf)
			rd.buf = grown
		}
	}
	n, err := rd.src.Read(rd.buf[rd.w:])
	rd.w += n
	if rd.w == len(rd.buf) && len(rd.buf) < flood { // the read filled the buffer, so more is waiting
		rd.buf = append(make([]byte, 0, 2*len(rd.buf)), rd.buf...)
		rd.buf = rd.buf[:cap(rd.buf)]
	}
	rd.err = err
	if n == 0 && err == nil {
		rd.err = io.ErrNoProgress
	}
	return nil
}

// eventEnd returns the offset after the first blank line of b, or 0 if there is none. It searches
// from the given offset. Lines end with \n, \r\n or \r, as the standard allows.
func eventEnd(b []byte, from int) int {
	for i := from; i < len(b); {
		j := bytes.IndexByte(b[i:], '\n')
		k := -1
		if cr := bytes.IndexByte(b[i:min(len(b), endOr(i, j, len(b)))], '\r'); cr >= 0 {
			k = cr
		}
		switch {
		case k >= 0: // a carriage return comes first: the rare dialects
			i += k
			if n := blankAt(b, i); n > 0 {
				return n
			}
			i++
		case j >= 0:
			i += j
			if n := blankAt(b, i); n > 0 {
				return n
			}
			i++
		default:
			return 0
		}
	}
	return 0
}

// endOr returns the offset of the newline that was found j bytes after i, or end if j is negative.
func endOr(i, j, end int) int {
	if j < 0 {
		return end
	}
	return i + j
}

// blankAt returns the offset after the blank line that follows the line end at i, or 0 if no blank
// line follows. A carriage return at the very end of b may still get its newline, so it does not
// count yet.
func blankAt(b []byte, i int) int {
	next := i + 1
	if b[i] == '\r' && next < len(b) && b[next] == '\n' {
		next++
	}
	if next >= len(b) {
		return 0
	}
	switch b[next] {
	case '\n':
		return next + 1
	case '\r':
		if next+1 >= len(b) {
			return 0
		}
		if b[next+1] == '\n' {
			return next + 2
		}
		return next + 1
	}
	return 0
}

// dataPrefix starts nearly every event.
var dataPrefix = []byte("data: ")

// parse returns the fields of an event. It reports false for an event without data, such as a
// comment that keeps the connection alive.
func parse(block []byte) (Event, bool) {
	// The usual event is a single data line, which needs no allocation and no loop.
	if bytes.HasPrefix(block, dataPrefix) {
		if i := bytes.IndexByte(block, '\n'); i == len(block)-2 && block[i-1] != '\r' {
			return Event{Data: block[len(dataPrefix):i]}, i > len(dataPrefix)
		}
	}
	block = bytes.TrimPrefix(block, []byte("\xef\xbb\xbf"))
	var ev Event
	lines := 0
	for len(block) > 0 {
		i := bytes.IndexAny(block, "\r\n")
		if i < 0 {
			break
		}
		line := block[:i]
		block = block[i+1:]
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if lines++; lines == 1 {
				ev.Data = value
			} else {
				ev.Data = append(append(bytes.Clone(ev.Data), '\n'), value...)
			}
		case "event":
			ev.Name = value
		}
	}
	return ev, len(ev.Data) > 0
}
