// Package resume lets a Go client survive broken connections: an http.RoundTripper that goes below any client library
// and continues streamed chat completions where they broke off (docs/api.md#resumable-streams).
//
//	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: &resume.Transport{}}))
//
// Copy this file into your program; it needs nothing but the standard library.
package resume

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// Transport asks for resumable streams and resumes them. Other requests pass through it unchanged.
type Transport struct {
	// Base sends the requests; nil: http.DefaultTransport.
	Base http.RoundTripper
	// Patience is how long it tries to get the rest of a stream. Default 2 minutes, which is how long the server waits.
	Patience time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		return t.base().RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("X-Sluice-Resume", "1")
	if r.Header.Get("Idempotency-Key") == "" && r.GetBody != nil {
		// A request that is lost before its reply has begun is sent again, and not charged twice.
		r.Header.Set("Idempotency-Key", rand.Text())
	}
	resp, err := t.base().RoundTrip(r)
	if err != nil && r.GetBody != nil && r.Context().Err() == nil {
		if r.Body, err = r.GetBody(); err == nil {
			resp, err = t.base().RoundTrip(r)
		}
	}
	if err != nil {
		return nil, err
	}
	if at := resp.Header.Get("X-Sluice-Resume"); at != "" {
		where, err := r.URL.Parse(at)
		if err != nil {
			return nil, errors.Join(err, resp.Body.Close())
		}
		again, err := http.NewRequestWithContext(r.Context(), http.MethodGet, where.String(), nil)
		if err != nil {
			return nil, errors.Join(err, resp.Body.Close())
		}
		again.Header.Set("Authorization", r.Header.Get("Authorization"))
		resp.Body = &stream{t: t, body: resp.Body, again: again}
	}
	return resp, nil
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// stream is the body of a streamed reply. It returns whole events only, and ends only where the stream does.
type stream struct {
	t     *Transport
	body  io.ReadCloser
	again *http.Request // for the rest
	in    []byte        // read from the body, not yet a whole event
	out   []byte        // whole events that were not returned yet
	last  string        // id of the last of them
	done  bool          // the last one was [DONE] or an error
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.done {
			return 0, io.EOF
		}
		buf := make([]byte, 16<<10)
		n, err := s.body.Read(buf)
		s.in = append(s.in, buf[:n]...)
		s.takeEvents()
		if err != nil && len(s.out) == 0 && !s.done {
			if err := s.resume(err); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// takeEvents moves whole events from in to out.
func (s *stream) takeEvents() {
	for {
		i := bytes.Index(s.in, []byte("\n\n"))
		if i < 0 {
			return
		}
		event := s.in[:i+2]
		for line := range bytes.Lines(event) {
			if id, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
				s.last = string(bytes.TrimSpace(id))
			}
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				s.done = bytes.HasPrefix(data, []byte("[DONE]")) || bytes.HasPrefix(data, []byte(`{"error"`))
			}
		}
		s.out = append(s.out, event...)
		s.in = s.in[i+2:]
	}
}

// resume replaces the body by the rest of the stream. It returns why, if that is not possible.
func (s *stream) resume(why error) error {
	_ = s.body.Close()
	s.in = s.in[:0]
	patience := s.t.Patience
	if patience == 0 {
		patience = 2 * time.Minute
	}
	for until, pause := time.Now().Add(patience), 100*time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		r := s.again.Clone(s.again.Context())
		if s.last != "" {
			r.Header.Set("Last-Event-ID", s.last)
		}
		resp, err := s.t.base().RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusOK {
			s.body = resp.Body
			return nil
		}
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode < 500 {
				return errors.Join(why, errors.New("the stream cannot be resumed: "+resp.Status))
			}
		}
		if time.Now().After(until) {
			return errors.Join(why, err)
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(pause):
		}
	}
}

// Close implements io.Closer.
func (s *stream) Close() error { return s.body.Close() }
