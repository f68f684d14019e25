package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"time"
)

// request is the part of a request that the reply depends on.
type request struct {
	stream bool
	// usage reports whether the stream ends with a usage chunk.
	usage  bool
	chunks int
	pause  time.Duration
	// tool is the name of the function to call; empty: there is an answer.
	tool string
	// last reports whether the connection closes after this request.
	last bool
}

// reader parses requests just well enough for the clients of this package. It reuses its
// buffers.
type reader struct {
	c    net.Conn
	buf  *bufio.Reader
	body []byte
}

func newReader(c net.Conn) *reader { return &reader{c: c, buf: bufio.NewReaderSize(c, 8<<10)} }

const maxBody = 64 << 20

var errBody = errors.New("the body is too large, or of unknown length")

// next reads one request to its end.
func (r *reader) next() (request, error) {
	// The request line does not matter: every path gets the same reply.
	if _, err := r.buf.ReadSlice('\n'); err != nil {
		return request{}, err
	}
	length, chunked, last := 0, false, false
	for {
		line, err := r.buf.ReadSlice('\n')
		if err != nil {
			return request{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, contentLength):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return request{}, err
			}
		case bytes.EqualFold(name, transferEncoding):
			chunked = true
		case bytes.EqualFold(name, connection):
			last = bytes.EqualFold(value, closing)
		}
	}
	var err error
	if chunked {
		err = r.readChunks()
	} else {
		err = r.read(0, length)
	}
	req := parse(r.body)
	req.last = last
	return req, err
}

var (
	contentLength    = []byte("Content-Length")
	transferEncoding = []byte("Transfer-Encoding")
	connection       = []byte("Connection")
	closing          = []byte("close")
)

// read reads n bytes of the body and stores them after the first from bytes.
func (r *reader) read(from, n int) error {
	if n < 0 || from+n > maxBody {
		return errBody
	}
	// Twice the size, so that a connection's buffer settles after a few requests.
	if cap(r.body) < from+n {
		r.body = append(make([]byte, 0, 2*(from+n)), r.body[:from]...)
	}
	r.body = r.body[:from+n]
	_, err := io.ReadFull(r.buf, r.body[from:])
	return err
}

func (r *reader) readChunks() error {
	r.body = r.body[:0]
	for {
		line, err := r.buf.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(bytes.TrimRight(line, "\r\n")), 16, 31)
		if err != nil {
			return err
		}
		if err := r.read(len(r.body), int(size)); err != nil {
			return err
		}
		if _, err := r.buf.Discard(len("\r\n")); err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
	}
}

// parse looks for the few things that matter without parsing JSON, which would take CPU time
// from the gateway that is measured.
func parse(body []byte) request {
	req := request{
		stream: bytes.Contains(body, []byte(`"stream":true`)),
		usage:  bytes.Contains(body, []byte(`"include_usage":true`)),
		chunks: Chunks,
	}
	_, rest, ok := bytes.Cut(body, []byte(mark))
	if !ok {
		return req
	}
	directive, rest, _ := bytes.Cut(rest, []byte("]]"))
	if string(directive) == call && !bytes.Contains(rest, []byte(`"role":"tool"`)) {
		_, tools, _ := bytes.Cut(body, []byte(`"tools":[`))
		_, name, _ := bytes.Cut(tools, []byte(`"name":"`))
		name, _, _ = bytes.Cut(name, []byte(`"`))
		req.tool = string(name)
	}
	chunks, pause, _ := bytes.Cut(directive, []byte(","))
	if n, err := strconv.Atoi(string(chunks)); err == nil {
		req.chunks = n
	}
	if n, err := strconv.Atoi(string(pause)); err == nil {
		req.pause = time.Duration(n) * time.Microsecond
	}
	return req
}
