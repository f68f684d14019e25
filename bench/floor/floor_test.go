package floor_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/bench/floor"
	"sluice/bench/upstream"
)

func TestProxy(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- upstream.Serve(l) }()
	p, err := floor.New("http://"+l.Addr().String()+"/v1", "key")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p)
	t.Cleanup(func() {
		s.Close()
		p.Close()
		l.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})

	ask := func(key, body string) (int, string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			req.Header.Set("Authorization", key)
		}
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, tt := range []struct {
		name, key, body string
		status          int
		begins, ends    string
	}{
		{"no key", "", `{"model":"m"}`, 401, "", ""},
		{"wrong key", "Bearer other", `{"model":"m"}`, 401, "", ""},
		{"no body", "Bearer key", "", 400, "", ""},
		{"no model", "Bearer key", `{}`, 400, "", ""},
		{"plain", "Bearer key", `{"model":"m"}`, 200, `{"id":"`, `}}`},
		{"streamed", "Bearer key", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"user":"` + upstream.Directive(2, 0) + `"}`, 200, `data: {"id":"`, "data: [DONE]\n\n"},
	} {
		status, text := ask(tt.key, tt.body)
		if status != tt.status || !strings.HasPrefix(text, tt.begins) || !strings.HasSuffix(text, tt.ends) {
			t.Errorf("%s: POST = %d %s, want %d %s … %s", tt.name, status, text, tt.status, tt.begins, tt.ends)
		}
	}
	if prompt, completion := p.Used("key"); prompt != 57+57 || completion != 125+100 {
		t.Errorf("Used(key) = %d, %d, want the sum of both replies, 114 and 225", prompt, completion)
	}
	if prompt, completion := p.Used("other"); prompt != 0 || completion != 0 {
		t.Errorf("Used(other) = %d, %d, want nothing", prompt, completion)
	}

	l.Close()
	<-ended
	ended <- nil
	p.Close()
	if status, _ := ask("Bearer key", `{"model":"m"}`); status != http.StatusBadGateway {
		t.Errorf("POST without an upstream = %d, want 502", status)
	}
}
