package mcpclient

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// inProcess is an http.RoundTripper that serves requests with a handler of this process, without a
// network connection. It is used when the MCP server is this service itself.
type inProcess struct {
	handler http.Handler
	header  http.Header     // the headers that the caller configured for this server
	serving *sync.WaitGroup // counts running handlers; Client.Close waits for them
}

// RoundTrip implements http.RoundTripper. It returns as soon as the handler has written the header.
// The body is a pipe, so a streamed reply arrives while the handler still runs.
func (p *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	for name, values := range p.header {
		if r.Header[name] == nil {
			r.Header[name] = values
		}
	}
	// The handler expects the fields that net/http sets for a request from a connection. The request has no
	// address, so that no header of the caller's makes it one of a trusted proxy: a key that is limited to
	// addresses would work from anywhere.
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "in-process"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	w := &responder{header: make(http.Header), pipe: writer, begun: make(chan struct{})}
	w.out = bufio.NewWriter(writer)
	// The handler runs in a goroutine of its own. It is expected to end when its request's context
	// does, or when a write fails because the reader has closed the pipe.
	p.serving.Go(func() {
		defer func() {
			// A panic must not end the process. The client sees an error status if nothing was sent
			// yet, and a broken body otherwise.
			if v := recover(); v != nil {
				w.WriteHeader(http.StatusInternalServerError)
				writer.CloseWithError(fmt.Errorf("serving a nested call: %v", v))
			}
		}()
		p.handler.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		w.Flush()
		writer.Close()
	})
	select {
	case <-w.begun:
		return &http.Response{
			StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: w.sent, Body: reader, ContentLength: -1, Request: req,
		}, nil
	// Closing the reader makes the handler's next write fail.
	case <-req.Context().Done():
		reader.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
}

// responder is the ResponseWriter of a request that is served in process. Only the handler's
// goroutine uses it, except for status and sent, which may be read once begun is closed.
type responder struct {
	header http.Header
	out    *bufio.Writer
	pipe   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when status and sent are set
	status int
	// sent is a copy of header, because the handler may still modify header.
	sent http.Header
}

// Header implements http.ResponseWriter.
func (w *responder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Only the first call counts.
func (w *responder) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

// Write implements http.ResponseWriter. The data waits in a buffer until Flush.
func (w *responder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(p)
}

// Flush implements http.Flusher.
func (w *responder) Flush() {
	w.WriteHeader(http.StatusOK)
	_ = w.out.Flush() // fails only if the reader is gone; the next write reports that
}
