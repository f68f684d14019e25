package provider_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"sluice/internal/provider"
)

// Upstreams without TLS are called by our own client, which refuses a folded header, or by that of net/http,
// which takes it.
func TestConnectionsStandard(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadAtLeast(c, make([]byte, 4096), 4)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			c.Close()
		}
	}()
	defer func() { l.Close(); <-served }()
	for _, standard := range []bool{false, true} {
		pool := provider.Connections(10*time.Second, &provider.PoolOptions{Standard: standard})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := pool.RoundTrip(req)
		if (err == nil) != standard {
			t.Errorf("Standard %t: RoundTrip = %v, want success: %t", standard, err, standard)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}
