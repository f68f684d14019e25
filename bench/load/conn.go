package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// patience is the timeout of a reply. A stalled reply is an error, not a slow one.
const patience = 60 * time.Second

// conn is one caller's connection. It does as little as possible per request, because it
// shares the processors with the gateway; net/http's client does much more. One goroutine
// uses it.
type conn struct {
	addr  string        // host and port
	c     net.Conn      // nil before the first request and after an error
	buf   *bufio.Reader // reads from c
	lines *bufio.Reader // reads the lines of a chunked body from buf
	// longer is added to the timeout of a reply, for streams that last.
	longer time.Duration
}

// newConn returns a connection that is opened by the first request.
func newConn(addr string) *conn {
	return &conn{addr: addr, buf: bufio.NewReaderSize(nil, 8<<10), lines: bufio.NewReaderSize(nil, 4<<10)}
}

// close closes the connection, if it is open. The next request opens a new one.
func (k *conn) close() {
	if k.c != nil {
		k.c.Close()
		k.c = nil
	}
}

// do sends the request and reads the whole reply. It calls each with every line of a chunked
// reply; the line is valid until each returns. After an error the next request uses a new
// connection.
func (k *conn) do(request []byte, each func(line []byte)) error {
	if k.c == nil {
		c, err := net.DialTimeout("tcp", k.addr, patience)
		if err != nil {
			return err
		}
		k.c = c
		k.buf.Reset(c)
	}
	err := k.roundTrip(request, each)
	if err != nil {
		k.close()
	}
	return err
}

// roundTrip sends the request on the open connection. Any status but 200 is an error with the
// start of the body.
func (k *conn) roundTrip(request []byte, each func(line []byte)) error {
	// One deadline for the whole reply.
	if err := k.c.SetDeadline(time.Now().Add(patience + k.longer)); err != nil {
		return err
	}
	if _, err := k.c.Write(request); err != nil {
		return err
	}
	line, err := k.buf.ReadSlice('\n')
	if err != nil {
		return err
	}
	// ReadSlice reuses the buffer, so what is needed of the line is taken before the next read.
	good := bytes.HasPrefix(line, []byte("HTTP/1.1 200 "))
	status := string(bytes.TrimSpace(line))
	length, err := k.header()
	if err != nil {
		return err
	}
	switch {
	case !good:
		text, _ := io.ReadAll(io.LimitReader(k.buf, int64(max(0, min(length, 400))))) // a part of it is enough
		return fmt.Errorf("%s: %s", status, text)
	case length < 0:
		return k.chunks(each)
	default:
		_, err := k.buf.Discard(length)
		return err
	}
}

// header reads the header and returns the length of the body, or -1 if it is chunked. It
// understands what the three targets send, and no more of HTTP than that.
func (k *conn) header() (length int, err error) {
	known := false
	for {
		line, err := k.buf.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
			known = true
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length, known = -1, true
		}
	}
	// Without a length the reply ends with the connection, which none of the targets does.
	if !known {
		return 0, errors.New("a reply without a length")
	}
	return length, nil
}

// chunks reads a chunked body line by line. A line that does not fit into the buffer is an
// error; the fake upstream sends none.
func (k *conn) chunks(each func(line []byte)) error {
	k.lines.Reset(httputil.NewChunkedReader(k.buf))
	for {
		line, err := k.lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		each(line)
	}
	_, err := k.buf.ReadSlice('\n') // the empty line that ends it
	return err
}
