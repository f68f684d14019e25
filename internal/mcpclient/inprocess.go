package mcpclient

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// inProcess serves requests with a handler of our own.
type inProcess struct {
	handler http.Handler
	header  http.Header     // the caller's
	serving *sync.WaitGroup // counts handlers that run
}

// RoundTrip returns as soon as the handler has decided on the reply's head.
func (p *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	for name, values := range p.header {
		if r.Header[name] == nil {
			r.Header[name] = values
		}
	}
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:0"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	reader, writer := io.Pipe()
	w := &responder{header: make(http.Header), pipe: writer, begun: make(chan struct{})}
	w.out = bufio.NewWriter(writer)
	p.serving.Go(func() {
		defer func() {
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
	case <-req.Context().Done():
		reader.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
}

// responder is the ResponseWriter of a request in process.
type responder struct {
	header http.Header
	out    *bufio.Writer
	pipe   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
}

func (w *responder) Header() http.Header { return w.header }

func (w *responder) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *responder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(p)
}

func (w *responder) Flush() {
	w.WriteHeader(http.StatusOK)
	_ = w.out.Flush() // the reader is gone, and the next write will tell
}
