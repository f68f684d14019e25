package httpserver

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/kit/datadir"
)

func TestIsLocalHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:8080": true, "localhost.": true, "app.localhost": true, "app.localhost:80": true, "app.LocalHost.:80": true,
		"127.0.0.1": true, "127.0.0.1:8080": true, "127.8.9.10": true, "[::1]": true, "[::1]:8080": true, "::1": true, "[::ffff:127.0.0.1]:80": true,
		"": false, ":8080": false, "example.com": false, "example.com:8080": false, "evil.example": false, "localhost.example.com": false, "notlocalhost": false, ".localhost": false,
		"127.0.0.1.nip.io": false, "127.1": false, "0x7f.1": false, "2130706433": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1": false, "169.254.169.254": false,
		"192.0.2.1:80": false, "host.docker.internal:8080": false, "[fe80::1%lo]:80": false, "127.0.0.1:80:90": false,
	} {
		if got := isLocalHost(host); got != want {
			t.Errorf("isLocalHost(%q) = %t, want %t", host, got, want)
		}
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		host, proto string
		header      []string
		why         string // what the reason names; empty: the request is a local one
	}{
		"local":                     {header: []string{"User-Agent: curl", "Accept: */*"}},
		"a browser":                 {header: []string{"Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:8080", "Referer: http://127.0.0.1:8080/signup"}},
		"a browser, the first page": {header: []string{"Sec-Fetch-Site: none"}},
		"a page elsewhere":          {header: []string{"Sec-Fetch-Site: cross-site", "Origin: https://app.example.com"}},
		"an opaque origin":          {header: []string{"Sec-Fetch-Site: same-origin", "Origin: null"}},
		"another host":              {host: "gw.example.com", why: "the host gw.example.com"},
		"a rebound name":            {host: "evil.example:8080", why: "the host evil.example:8080"},
		"no host":                   {host: "-", why: "the host"},
		"forwarded":                 {header: []string{"Forwarded: for=192.0.2.1"}, why: "Forwarded"},
		"forwarded for":             {header: []string{"X-Forwarded-For: 192.0.2.1"}, why: "X-Forwarded-For"},
		"forwarded, empty":          {header: []string{"X-Forwarded-Proto: "}, why: "X-Forwarded-Proto"},
		"forwarded, by any name":    {header: []string{"x-forwarded-tls-version: 1.3"}, why: "X-Forwarded-Tls-Version"},
		"real ip":                   {header: []string{"X-Real-IP: 192.0.2.1"}, why: "X-Real-Ip"},
		"via":                       {header: []string{"Via: 1.1 proxy"}, why: "Via"},
		"a content network":         {header: []string{"CF-Connecting-IP: 192.0.2.1"}, why: "Cf-Connecting-Ip"},
		"nginx as it comes":         {proto: "HTTP/1.0", header: []string{"Connection: close"}, why: "HTTP/1.0"},
		"a page behind a proxy":     {header: []string{"Sec-Fetch-Site: same-origin", "Origin: https://gw.example.com"}, why: "a page of gw.example.com"},
		"its stylesheet":            {header: []string{"Sec-Fetch-Site: same-origin", "Referer: https://gw.example.com/signup"}, why: "a page of gw.example.com"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = "127.0.0.1:8080"
		if tt.host != "" {
			r.Host = strings.TrimPrefix(tt.host, "-")
		}
		if tt.proto != "" {
			r.Proto, r.ProtoMajor, r.ProtoMinor = tt.proto, 1, 0
		}
		for _, h := range tt.header {
			k, v, _ := strings.Cut(h, ": ")
			r.Header.Add(k, v)
		}
		if got := foreign(r); (got != "") != (tt.why != "") || !strings.Contains(got, tt.why) {
			t.Errorf("%s: foreign = %q, want %q", name, got, tt.why)
		}
	}
}

// The first foreign request finds it over already, and is the only one that is logged. A restart knows of it.
func TestLocal(t *testing.T) {
	t.Parallel()
	dir, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var log strings.Builder
	l := NewLocal(dir, func() []string { return []string{"sign-up"} }, slog.New(slog.NewTextHandler(&log, nil)))
	held := true
	h := l.Watch(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { held = l.Holds() }))
	for i, step := range []struct {
		host string
		want bool
	}{{"127.0.0.1:8080", true}, {"localhost:8080", true}, {"gw.example.com", false}, {"127.0.0.1:8080", false}, {"other.example.com", false}} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = step.host
		h.ServeHTTP(httptest.NewRecorder(), r)
		if held != step.want {
			t.Errorf("request %d to %s found Holds = %t, want %t", i, step.host, held, step.want)
		}
	}
	if got := log.String(); strings.Count(got, "level=") != 1 || !strings.Contains(got, `by="the host gw.example.com" closed=sign-up`) {
		t.Errorf("the log has %s, want the first foreign request alone", got)
	}
	if NewLocal(dir, nil, nil).Holds() {
		t.Error("Holds after a restart = true, want false")
	}
}

// A local request passes without an allocation.
func TestForeignAllocates(t *testing.T) {
	r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	r.Host = "127.0.0.1:8080"
	for _, name := range []string{"Authorization", "Content-Type", "User-Agent", "Accept", "Accept-Encoding", "Content-Length"} {
		r.Header.Set(name, "x")
	}
	if n := testing.AllocsPerRun(100, func() { foreign(r) }); n > 0 {
		t.Errorf("foreign allocates %v times, want 0", n)
	}
}
