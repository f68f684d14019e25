package plainhttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// body is the body of a reply. When it has been read to the end, its connection returns to the
// pool.
// It is used by one goroutine, except that Close may come from another, as callers of net/http
// expect.
type body struct {
	conn *conn
	// stop ends the watch over ctx. It reports false if ctx was canceled first.
	stop func() bool
	ctx  context.Context //nolint:containedctx // one call's
	// left is how much of the body, or of its current chunk, has not been read; -1: until the connection ends.
	left    int64
	chunked bool
	begun   bool  // a chunk has been read, so the end of its line comes before the next one
	excess  int64 // by how much the framing of the chunks is longer than usual
	waited  error // what Await has met; the next Read returns it
	// state is open, ended or closed. Whoever moves it away from open decides what happens to
	// the connection: end and Close may run at the same time.
	state atomic.Int32
}

// States of a body.
const (
	open   = iota
	ended  // read to its end
	closed // before its end
)

// Read implements io.Reader. After a cancellation it returns the cause.
func (b *body) Read(p []byte) (int, error) {
	switch b.state.Load() {
	case ended:
		return 0, io.EOF
	case closed:
		return 0, http.ErrBodyReadAfterClose
	}
	if len(p) == 0 {
		return 0, nil
	}
	var n int
	err := b.waited
	if err == nil {
		n, err = b.read(p)
	}
	if err == nil {
		return n, nil
	}
	// A server that notices that it was left may end its reply as if it were complete, before we have closed
	// the connection.
	if errors.Is(err, io.EOF) && b.end() {
		return n, err
	}
	if b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// Await returns when Read would return at once, with bytes or an error. Unlike Read it needs no memory of its caller while
// it waits. It is called by the goroutine that reads.
func (b *body) Await() {
	if b.state.Load() == open && b.waited == nil {
		b.waited = b.await()
	}
}

// await waits for the next byte of the body. An error must be kept: the connection may not repeat it, and the end of one that
// was reset would look like that of the body.
func (b *body) await() error {
	if b.chunked && b.left == 0 {
		if _, err := b.nextChunk(true); err != nil {
			return err
		}
	}
	if b.left == 0 {
		return nil // the body has ended, and Read says so
	}
	_, err := b.conn.reader.Peek(1)
	if b.left > 0 {
		err = noEOF(err)
	}
	return err
}

// read reads once from the connection, or what is buffered. It returns io.EOF with the last byte, so that the connection
// is free as early as possible.
func (b *body) read(p []byte) (n int, err error) {
	switch {
	case b.chunked:
		return b.readChunks(p)
	case b.left < 0:
		return b.conn.reader.Read(p)
	}
	n, err = b.readLeft(p)
	if err == nil && b.left == 0 {
		err = io.EOF
	}
	return n, err
}

// readLeft reads no more than what is left. The end of the connection is an error.
// Before the announced length, it would otherwise make a truncated reply look complete.
func (b *body) readLeft(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.conn.reader.Read(p)
	b.left -= int64(n)
	if b.left == 0 {
		return n, nil // an error shows again at the next read
	}
	return n, noEOF(err)
}

// readChunks fills p with the chunks that are buffered. Only for its first byte it waits.
// One read may therefore return many chunks: a model that writes token by token sends a chunk for
// each.
func (b *body) readChunks(p []byte) (n int, err error) {
	for n < len(p) {
		if b.left == 0 {
			more, err := b.nextChunk(n == 0)
			if err != nil || !more {
				return n, err
			}
		}
		if n > 0 && b.conn.reader.Buffered() == 0 {
			break
		}
		m, err := b.readLeft(p[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	// If the end has arrived, too, the caller need not ask again.
	if b.left == 0 {
		_, err = b.nextChunk(false)
	}
	return n, err
}

// errChunk means that the chunks of a reply are not well formed.
var errChunk = errors.New("the reply has a chunk that is not well formed")

// nextChunk moves to the next chunk. It reports false if that has not arrived; then it has waited for it only if it was
// told to wait. After the last chunk and its trailers it returns io.EOF.
// It parses what is buffered from the start each time. A line is short, so this is cheaper than
// keeping the state of a parser between reads.
func (b *body) nextChunk(wait bool) (bool, error) {
	r := b.conn.reader
	for {
		buffered, _ := r.Peek(r.Buffered()) // never fails
		used, size, err := parseChunk(buffered, b.begun)
		if err != nil {
			return false, err
		}
		if used > 0 {
			r.Discard(used)
			if size == 0 {
				return false, io.EOF
			}
			// A server may send a few bytes with much around them now and then, but not for ever: that would cost us more
			// than it costs the server.
			b.excess = max(0, b.excess+int64(used)-16-2*min(size, 1<<20))
			if b.excess > maxExcess {
				return false, errChunk
			}
			b.begun, b.left = true, size
			return true, nil
		}
		if !wait {
			return false, nil
		}
		if _, err := r.Peek(len(buffered) + 1); err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = errChunk
			}
			return false, noEOF(err)
		}
	}
}

// maxExcess is how many bytes of framing a reply may have beyond 16 and twice the length of each chunk.
const maxExcess = 16 << 10

// parseChunk reads the line before a chunk, and the trailers after the last one, whose size is 0. It returns how many bytes
// that takes, or 0 if not all of it is there. after reports that a chunk ends before it, whose line end is still
// to be read. Extensions and trailers are dropped; nothing of ours asks for them.
//
// A size has at most 15 hexadecimal digits, which fit an int64. Servers and proxies that disagree
// about sizes and line ends can be made to disagree about where a reply ends, so nothing unusual
// is accepted.
func parseChunk(b []byte, after bool) (used int, size int64, err error) {
	all := len(b)
	if after {
		switch {
		case all > 0 && b[0] != '\r', all > 1 && b[1] != '\n':
			return 0, 0, errChunk
		case all < 2:
			return 0, 0, nil
		}
		b = b[2:]
	}
	// The usual line is a number alone.
	for i, c := range b {
		digit := hexDigit(c)
		if digit >= 0 && i < 15 {
			size = size<<4 | int64(digit)
			continue
		}
		if c == '\r' && size > 0 && i+1 < len(b) && b[i+1] == '\n' {
			return all - len(b) + i + 2, size, nil
		}
		break
	}
	// Anything else: an extension, the last chunk, a line that is not complete, or an error.
	size = 0
	line, b, ok := chunkLine(b)
	if !ok {
		return 0, 0, nil
	}
	number, extension, _ := bytes.Cut(bytes.TrimRight(line, " \t"), semicolon)
	if line == nil || len(number) == 0 || len(number) > 15 || hasControl(extension) {
		return 0, 0, errChunk
	}
	for _, c := range number {
		digit := hexDigit(c)
		if digit < 0 {
			return 0, 0, errChunk
		}
		size = size<<4 | int64(digit)
	}
	// After the last chunk come trailers, up to an empty line.
	for fields := 0; size == 0; fields++ {
		if line, b, ok = chunkLine(b); !ok {
			return 0, 0, nil
		}
		if line != nil && len(line) == 0 {
			break
		}
		name, value, named := bytes.Cut(line, colon)
		if !named || !isToken(name) || hasControl(value) || fields == maxFields {
			return 0, 0, errChunk
		}
	}
	return all - len(b), size, nil
}

// chunkLine returns the first line and the rest. ok is false if the line has not ended. The line is nil if it ends with
// a bare line feed.
func chunkLine(b []byte) (line, rest []byte, ok bool) {
	if bytes.IndexByte(b, '\n') < 0 {
		return nil, b, false
	}
	line, rest = cutLine(b)
	return line, rest, true
}

// hexDigit returns the value of a hexadecimal digit, or -1.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

var semicolon = []byte(";")

// end releases the connection after the last byte of the reply. The connection is closed
// instead if it must not be reused, or has more to read than the reply. It reports false, and closes
// it as well, if the call was canceled before.
func (b *body) end() bool {
	if !b.state.CompareAndSwap(open, ended) {
		return true
	}
	if !b.stop() {
		b.conn.Close()
		return false
	}
	if b.conn.once || b.conn.reader.Buffered() > 0 {
		b.conn.Close()
		return true
	}
	b.conn.from.put(b.conn)
	return true
}

// Close implements io.Closer. It closes the connection if the reply was not read to its end:
// reading the rest could take arbitrarily long.
func (b *body) Close() error {
	if !b.state.CompareAndSwap(open, closed) {
		return nil
	}
	b.stop()
	return b.conn.Close()
}
