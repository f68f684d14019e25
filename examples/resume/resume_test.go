package resume_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/examples/resume"
)

// A stream of events that breaks after every few bytes arrives whole.
func TestTransport(t *testing.T) {
	t.Parallel()
	events := []string{"id: 1\ndata: {\"a\":1}\n\n", "id: 2\ndata: {\"b\":2}\n\n", ": keep-alive\nid: 3\ndata: [DONE]\n\n"}
	whole := strings.Join(events, "")
	for cut := 1; cut < len(whole); cut++ {
		var posts, gets atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			rest := whole
			if r.Method == http.MethodPost {
				first := posts.Add(1) == 1
				if r.Header.Get("X-Sluice-Resume") != "1" || r.Header.Get("Idempotency-Key") == "" {
					t.Errorf("POST with %v, want both headers", r.Header)
				}
				if first && cut%3 == 0 {
					panic(http.ErrAbortHandler) // lost before the reply
				}
				w.Header().Set("X-Sluice-Resume", "/v1/chat/completions/x/events")
			} else {
				if gets.Add(1) == 1 && cut%20 == 0 {
					w.WriteHeader(http.StatusServiceUnavailable) // for a moment
					return
				}
				last, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
				rest = strings.Join(events[last:], "")
			}
			if r.Header.Get("Authorization") != "Bearer key" {
				t.Errorf("%s without the key", r.Method)
			}
			if _, err := io.WriteString(w, rest[:min(len(rest), cut)]); err != nil || cut < len(rest) && gets.Load() < 3 {
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, rest[min(len(rest), cut):])
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer key")
		resp, err := (&resume.Transport{}).RoundTrip(req)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		got, err := io.ReadAll(resp.Body)
		if string(got) != whole || err != nil {
			t.Errorf("cut at %d = %q, %v, want %q", cut, got, err, whole)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

// What cannot be resumed ends with an error, not as if it were whole.
func TestTransportGivesUp(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("X-Sluice-Resume", "/gone")
		fmt.Fprint(w, "id: 1\ndata: {}\n\n")
	}))
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&resume.Transport{}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err == nil || string(got) != "id: 1\ndata: {}\n\n" {
		t.Errorf("a stream that is gone = %q, %v, want an error", got, err)
	}
}
