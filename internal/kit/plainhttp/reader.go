package plainhttp

import (
	"bufio"
	"io"
	"net"
	"sync"
	"syscall"
)

// reader reads from a connection through a buffer, as a bufio.Reader does. A reader that waits with nothing in its
// buffer has none: thousands of streams wait nearly all the time.
//
// It is used by the goroutine of the call alone.
type reader struct {
	nc net.Conn
	// raw reads as soon as there is something to read; nil if the connection has no descriptor, or TLS is in
	// between. The buffer is then kept.
	raw syscall.RawConn
	// try is created once, so that a read does not allocate it. It leaves its result in n and err.
	try func(fd uintptr) bool
	n   int
	err error

	buf  []byte // nil if there is none
	lent *[readBuffer]byte
	r, w int // what was read and not used is buf[r:w]
}

// readBuffers holds the buffers of readers that have one.
var readBuffers = sync.Pool{New: func() any { return new([readBuffer]byte) }}

// newReader returns a reader of a connection.
func newReader(nc net.Conn) *reader {
	in := &reader{nc: nc}
	in.try = in.tryRead
	return in
}

// Buffered returns the number of bytes that can be read without waiting.
func (in *reader) Buffered() int { return in.w - in.r }

// size returns the length of the buffer.
func (in *reader) size() int { return max(len(in.buf), readBuffer) }

// Peek returns the next n bytes without using them up. They are valid until the next read. With fewer it
// returns an error that says why: bufio.ErrBufferFull if they do not fit the buffer.
// A larger n than the buffer can hold is an error even if more could arrive; see grow.
func (in *reader) Peek(n int) ([]byte, error) {
	for in.Buffered() < n {
		if n > in.size() {
			return in.buf[in.r:in.w], bufio.ErrBufferFull
		}
		if err := in.fill(); err != nil {
			return in.buf[in.r:in.w], err
		}
	}
	return in.buf[in.r : in.r+n], nil
}

// Discard uses up n bytes, which must be buffered.
func (in *reader) Discard(n int) { in.r += n }

// Read implements io.Reader. It waits at most once.
// A large p is filled from the connection directly, which saves a copy.
func (in *reader) Read(p []byte) (int, error) {
	if in.Buffered() == 0 {
		if len(p) >= in.size() {
			return in.nc.Read(p)
		}
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}

// fill reads once. There must be room in the buffer.
//
// With a descriptor it waits first and takes a buffer then, in tryRead. Without one, a read needs
// the buffer from the start.
func (in *reader) fill() error {
	if in.r > 0 {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	}
	if in.raw == nil {
		in.take()
		in.n, in.err = in.nc.Read(in.buf[in.w:])
	} else if err := in.raw.Read(in.try); err != nil {
		return err
	}
	in.w += in.n
	switch {
	case in.n > 0: // an error shows again at the next read
		return nil
	case in.err == nil && in.raw != nil:
		return io.EOF // that is what a read of nothing says
	case in.err == nil:
		return io.ErrNoProgress
	case in.raw != nil:
		return &net.OpError{Op: "read", Net: "tcp", Source: in.nc.LocalAddr(), Addr: in.nc.RemoteAddr(), Err: in.err}
	}
	return in.err
}

// take provides a buffer.
func (in *reader) take() {
	if in.buf == nil {
		in.lent = readBuffers.Get().(*[readBuffer]byte)
		in.buf = in.lent[:]
	}
}

// give returns the buffer if nothing is in it.
func (in *reader) give() {
	if in.lent != nil && in.Buffered() == 0 {
		readBuffers.Put(in.lent)
		in.lent, in.buf, in.r, in.w = nil, nil, 0, 0
	}
}

// grow makes room for size bytes. The buffer is then kept.
// It is not returned to the pool, whose buffers all have the same size.
func (in *reader) grow(size int) {
	buf := make([]byte, size)
	in.r, in.w = 0, copy(buf, in.buf[in.r:in.w])
	in.lent, in.buf = nil, buf
}
