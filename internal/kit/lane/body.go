package lane

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// discardMost is how much of a body that the handler has not read is read before the reply, so
// that the connection can be used again. net/http has the same bound.
const discardMost = 256 << 10

// body is the body of a request, whose length is known.
// It reads what is left in the connection's buffer first and then from the connection itself,
// straight into the memory of the handler.
type body struct {
	conn *conn
	some bool // there is a body
	left int64
	// short reports that the handler has met the end of the connection before that of the body. As in net/http, it gets an
	// error once, and then the end.
	short bool
	// closed reports that the rest was discarded, because the reply has begun.
	closed bool
	// until is the deadline of reads. It is set on the connection, which costs a timer, only when
	// a read has to wait; limited reports whether it was.
	until   time.Time
	limited bool
}

// reset prepares the body of the next request.
func (b *body) reset(length int64) {
	b.some, b.left, b.short, b.closed, b.until = length > 0, length, false, false, time.Time{}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.read(p)
}

// read is Read also for a body that the handler may no longer read.
func (b *body) read(p []byte) (int, error) {
	if b.left == 0 || b.short {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), b.left)]
	if len(p) == 0 {
		return 0, nil
	}
	c := b.conn
	var n int
	var err error
	if c.w > c.r {
		n = copy(p, c.buf[c.r:c.w])
		c.r += n
	} else {
		if !b.until.IsZero() && !b.limited {
			b.limited = true
			_ = c.nc.SetReadDeadline(b.until) // an error shows again at the read
		}
		// No buffer in between: a body that does not fit into the first read is usually large.
		n, err = c.nc.Read(p)
	}
	if c.r == c.w {
		c.giveBuffer() // a request that is being served holds no buffer
	}
	b.left -= int64(n)
	switch {
	case b.left == 0:
		return n, io.EOF // net/http also reports the end of a body of known length at once
	case n > 0:
		return n, nil
	case errors.Is(err, io.EOF):
		b.short, err = true, io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer. As in net/http, it reads the rest of the body, unless that is too much.
func (b *body) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.left > discardMost {
		return nil
	}
	return b.rest()
}

// rest reads what the handler has left.
func (b *body) rest() error {
	var room [1 << 10]byte
	for b.left > 0 && !b.short {
		if _, err := b.read(room[:]); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// setDeadline changes the deadline of reads.
// If no read has had to wait yet, the deadline is only noted; read sets it when one does.
func (b *body) setDeadline(t time.Time) error {
	b.until = t
	if !b.limited {
		return nil
	}
	b.limited = !t.IsZero()
	return b.conn.nc.SetReadDeadline(t)
}

// discard reads what the handler has left, and ends its reading. It reports false if that is too much, or if the caller
// does not send it: the connection must then be closed after the reply.
// It stops at the deadline that the handler has set, if any.
func (b *body) discard() bool {
	if b.left > discardMost {
		return false
	}
	if b.rest() != nil {
		return false
	}
	b.closed = true
	return true
}
