// Package sse reads server-sent events from an upstream.
//
// It yields the name and the data of each event as slices of its own buffer, without a copy. An event
// counts only once the blank line behind it has arrived: what a cut connection leaves behind is not one.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// ErrTooLong means that one event exceeds the reader's bound.
var ErrTooLong = errors.New("an event of the stream is too long")

// flood is the size a buffer grows to when more arrives at once than it holds.
const flood = 16 << 10

// Event is one event. Its slices are valid until the next call of Next.
type Event struct {
	Name []byte // the event field; empty where none was given
	Data []byte // the data lines, joined by newlines
}

// Reader splits a stream into events.
type Reader struct {
	src  io.Reader
	buf  []byte // buf[r:w] has been read and not yet handed out
	r, w int
	max  int
	end  int // behind the blank line of the next event in buf; 0: not known to be there
	err  error
}

// NewReader returns a Reader over src that refuses events longer than max bytes. The buffer may be
// nil; it grows when an event needs it to.
func NewReader(src io.Reader, buf []byte, max int) *Reader {
	if cap(buf) < 512 {
		buf = make([]byte, 4<<10)
	}
	return &Reader{src: src, buf: buf[:cap(buf)], max: max}
}

// Buffer returns the buffer for another reader; this one must not be used after.
func (rd *Reader) Buffer() []byte { return rd.buf }

// AtEOF reports whether the source has ended.
func (rd *Reader) AtEOF() bool { return errors.Is(rd.err, io.EOF) }

// Ready reports whether the next event that has data has arrived whole.
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
		rd.r += rd.end // Next would skip it, and wait
		rd.end = 0
	}
}

// Next returns the next event that has data. At the end of the source it returns the source's error:
// io.EOF, or whatever cut it short. Bytes of an event that never ended are dropped.
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

// block returns the bytes of the next event with the blank line that ends it.
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
		searched = max(0, rd.w-rd.r-3) // a blank line may be cut anywhere
		if err := rd.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more, moving or growing the buffer where it is full.
func (rd *Reader) fill() error {
	if rd.r == rd.w {
		rd.r, rd.w = 0, 0
	}
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
	if rd.w == len(rd.buf) && len(rd.buf) < flood { // more is waiting: take it in larger steps
		rd.buf = append(make([]byte, 0, 2*len(rd.buf)), rd.buf...)
		rd.buf = rd.buf[:cap(rd.buf)]
	}
	rd.err = err
	if n == 0 && err == nil {
		rd.err = io.ErrNoProgress
	}
	return nil
}

// eventEnd returns the offset behind the first blank line of b, searching from the given offset; 0
// where there is none. Lines end with \n, \r\n or \r.
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

func endOr(i, j, end int) int {
	if j < 0 {
		return end
	}
	return i + j
}

// blankAt returns the offset behind a blank line that follows the line end at i, or 0. A carriage
// return at the very end may still be followed by its newline, so it does not count yet.
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

var dataPrefix = []byte("data: ")

// parse reads the fields of an event. It reports false for one without data, such as a comment.
func parse(block []byte) (Event, bool) {
	// The usual event is a single data line.
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
