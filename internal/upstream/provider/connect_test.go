package provider_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/upstream/provider"
)

// Connect finds out whether an upstream can be reached, and sends no request.
func TestConnect(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	plain, secure, gone := httptest.NewServer(count), httptest.NewTLSServer(count), httptest.NewServer(count)
	defer plain.Close()
	defer secure.Close()
	gone.Close()
	trusting := &provider.PoolOptions{TLS: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate of httptest
	for _, tt := range []struct {
		name, url string
		opts      *provider.PoolOptions
		want      bool
	}{
		{"plain", plain.URL, nil, true},
		{"TLS", secure.URL, trusting, true},
		{"TLS that nobody trusts", secure.URL, nil, false},
		{"refused", gone.URL, nil, false},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		c := provider.NewClient(&provider.ClientOptions{Transport: provider.Connections(time.Minute, tt.opts)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := c.Connect(ctx, u); (err == nil) != tt.want {
			t.Errorf("%s: Connect = %v, want success: %t", tt.name, err, tt.want)
		}
		cancel()
		c.Close()
	}
	u, _ := url.Parse(plain.URL)
	if err := provider.NewClient(&provider.ClientOptions{Transport: http.DefaultTransport}).Connect(t.Context(), u); !errors.Is(err, provider.ErrNotTried) {
		t.Errorf("Connect through a transport that is not ours = %v, want %v", err, provider.ErrNotTried)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were sent, want none", n)
	}
}
