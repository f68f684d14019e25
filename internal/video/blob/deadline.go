package blob

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// stalled is how long nothing may be sent or received on a connection to an object store while somebody waits.
	// A file may be large and the line slow, so a whole transfer has no bound here: progress has one.
	stalled = 30 * time.Second
	// requestPatience bounds a request without a file.
	requestPatience = time.Minute
)

// boundedTransport returns a transport whose connections end when nothing passes any more. An object store that
// accepts a request and never answers would otherwise hold a job, or a reader, for ever.
func boundedTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true // the length of an object is that of its bytes
	dial := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &progressing{c}, nil
	}
	// The server computes nothing before it answers, beside a checksum of what was uploaded.
	t.ResponseHeaderTimeout = requestPatience
	return t
}

// progressing is a connection whose deadline moves with what passes. A connection that waits for its next request is
// closed by the deadline as well, which costs a new one.
type progressing struct{ net.Conn }

func (c *progressing) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(stalled)) // a closed connection says so itself
	return c.Conn.Read(b)
}

// Write moves the deadline of the reading, too: the reply is awaited while the file is still being sent.
func (c *progressing) Write(b []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(stalled))
	return c.Conn.Write(b)
}
