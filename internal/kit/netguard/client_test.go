package netguard

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// sent is what arrived at a server.
type sent struct {
	at     string
	header http.Header
}

type record struct {
	mu  sync.Mutex
	all []sent
}

func (r *record) add(s sent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, s)
}

// site is a server that notes what arrives and answers as told.
func site(t *testing.T, name string, log *record, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.add(sent{name + r.URL.Path, r.Header.Clone()})
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func newVisit(t *testing.T, server string, allow ...string) *http.Client {
	t.Helper()
	g := New(&Options{Allow: allow})
	t.Cleanup(g.Close)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return g.Client(u, http.Header{"Authorization": {"Bearer secret"}, "X-Team": {"blue"}, "Accept": {"nothing"}})
}

func post(t *testing.T, c *http.Client, address string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Mcp-Session-Id", "s1")
	resp, err := c.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// The caller's headers, and the session's, stay with the server they are meant for.
func TestHeadersStayHome(t *testing.T) {
	t.Parallel()
	var log record
	ok := func(http.ResponseWriter, *http.Request) {}
	other := site(t, "other", &log, ok)
	home := site(t, "home", &log, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other.URL+"/there", http.StatusTemporaryRedirect)
		}
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
		}
	})
	c := newVisit(t, home.URL, "127.0.0.1")
	for _, path := range []string{"/mcp", "/moved", "/away"} {
		if err := post(t, c, home.URL+path); err != nil {
			t.Fatalf("Post(%s) = %v", path, err)
		}
	}
	for _, s := range log.all {
		home := strings.HasPrefix(s.at, "home")
		for _, name := range []string{"Authorization", "X-Team", "Mcp-Session-Id"} {
			if got := s.header.Get(name); (got != "") != home {
				t.Errorf("%s got %s %q, want it sent: %t", s.at, name, got, home)
			}
		}
		if got := s.header.Get("Accept"); got != "application/json" {
			t.Errorf("%s got Accept %q, want the protocol's own", s.at, got)
		}
	}
	if len(log.all) != 5 {
		t.Errorf("%d requests arrived, want 5", len(log.all))
	}
	if err := post(t, c, other.URL+"/named"); err == nil {
		t.Error("Post to another host without a redirect = nil, want an error")
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	var log record
	home := site(t, "home", &log, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
	})
	client := newVisit(t, home.URL, strings.TrimPrefix(home.URL, "http://"))
	for _, to := range []string{
		"http://127.0.0.1:" + c.port + "/", "http://localhost:" + c.port + "/", "http://[::1]:" + c.port + "/", "http://0.0.0.0:" + c.port + "/",
		"http://[::ffff:127.0.0.1]:" + c.port + "/", "http://169.254.169.254/latest/meta-data/", "http://user:secret@127.0.0.1:" + c.port + "/",
		"//127.0.0.2:" + c.port + "/", "file:///etc/passwd", "gopher://127.0.0.1:" + c.port + "/", "/?to=/", // the last without end
	} {
		if err := post(t, client, home.URL+"/?to="+url.QueryEscape(to)); err == nil {
			t.Errorf("a redirect to %q = nil, want an error", to)
		}
	}
	if n := c.hits.Load(); n != 0 {
		t.Errorf("the canary was reached %d times, want 0", n)
	}
}
