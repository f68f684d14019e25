package guide_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"sluice/docs"
	"sluice/internal/web/guide"
	"sluice/internal/web/webui"
)

// served returns the guide of a site.
func served(t *testing.T) http.Handler {
	t.Helper()
	return sample().Handler()
}

// sample returns a guide of two pages.
func sample() *guide.Guide {
	ui := webui.New(func() webui.Settings {
		return webui.Settings{Origin: "https://x.example", Brand: "acme", Site: webui.Site{Name: "Example AI", Footer: "Example Ltd"}}
	}, slog.New(slog.DiscardHandler))
	frame := func(w http.ResponseWriter, r *http.Request, title string) (webui.Page, webui.Opening, error) {
		return ui.Page(w, r, title), webui.Opening{Footer: "Example Ltd"}, nil
	}
	files := fstest.MapFS{
		"README.md":              {Data: []byte("# The guide\n\n## Start\n\n- [First](start/README.md): the first answer\n\n## Call it\n\n- [Limits](call/limits.md): why 429\n")},
		"start/README.md":        {Data: []byte("# First\n\nProxy to http://127.0.0.1:8080.\n\n## One\n\nx\n\n## Two\n\n## Three\n\n![Keys](../pictures/keys.png)\n")},
		"call/limits.md":         {Data: []byte("# Limits\n\n```sh\ncurl http://127.0.0.1:8080/v1/models -d service/auto service-…\n```\n\n## Why <429>\n\nRetry a 429 & wait.\n")},
		"pictures/keys.png":      {Data: []byte("\x89PNG")},
		"examples/a.yaml":        {Data: []byte("listen: <b>")},
		"examples/page.html":     {Data: []byte("<script>")},
		"pictures/keys-dark.png": {Data: []byte("\x89PNG dark")},
	}
	return guide.New(ui, frame, files)
}

// get asks for a path. Header holds pairs of names and values.
func get(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Accept", "text/html")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPages(t *testing.T) {
	t.Parallel()
	h := served(t)
	for _, tt := range []struct {
		path   string
		status int
		has    []string
		not    []string
	}{
		{"/docs/guide", 200, []string{"<title>The guide · Example AI</title>", `<a href="/docs/guide/call/limits">Limits</a>`, `<h1 id="the-guide">`, `action="/docs/guide/search"`, `type="search"`}, []string{"<style", "style=", "onclick"}},
		{"/docs/guide/start", 200, []string{`aria-current="page">First</a>`, "http://127.0.0.1:8080", `<a href="#two">Two</a>`, `rel="next" href="/docs/guide/call/limits"`, `class="shot on-dark" src="/docs/guide/pictures/keys-dark.png?v=`}, []string{`rel="prev"`}},
		{"/docs/guide/call/limits", 200, []string{"https://x.example/v1/models -d acme/auto acme-…", `rel="prev" href="/docs/guide/start"`, "Why &lt;429&gt;"}, []string{"127.0.0.1", `rel="next"`}},
		{"/docs/guide/search?q=why+429", 200, []string{`<a href="/docs/guide/call/limits#why-429">`, "<mark>", `value="why 429"`, "Call it ›", ">2 results<"}, nil},
		{"/docs/guide/search?q=%3Cscript%3E", 200, []string{"Nothing was found", "&lt;script&gt;"}, []string{"<script>"}},
		{"/docs/guide/search", 200, []string{"Type a few words"}, nil},
		{"/docs/guide/search?q=" + strings.Repeat("limit+", 20_000), 200, []string{`<a href="/docs/guide/call/limits">`}, []string{strings.Repeat("limit ", 40)}},
		{"/docs/guide/limits-of-keys", 404, []string{"There is no page at this address", `<a href="/docs/guide/call/limits">`}, nil},
		{"/docs/guide/zebra", 404, []string{"or choose a page from the list"}, nil},
		{"/docs/guide/pictures", 404, nil, nil},
	} {
		w := get(h, "GET", tt.path)
		body := w.Body.String()
		if w.Code != tt.status {
			t.Errorf("GET %.60s = %d, want %d", tt.path, w.Code, tt.status)
		}
		for _, want := range tt.has {
			if !strings.Contains(body, want) {
				t.Errorf("GET %.60s lacks %s:\n%.3000s", tt.path, want, body)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(body, not) {
				t.Errorf("GET %.60s has %s", tt.path, not)
			}
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'; script-src 'self'; style-src 'self'") {
			t.Errorf("GET %.60s has the policy %q", tt.path, csp)
		}
	}
}

func TestOtherForms(t *testing.T) {
	t.Parallel()
	h := served(t)
	for from, to := range map[string]string{"call/limits.md": "/docs/guide/call/limits", "start/README": "/docs/guide/start", "README.md": "/docs/guide"} {
		if w := get(h, "GET", "/docs/guide/"+from); w.Code != 301 || w.Header().Get("Location") != to {
			t.Errorf("GET %s = %d %s, want a redirect to %s", from, w.Code, w.Header().Get("Location"), to)
		}
	}
	if w := get(h, "POST", "/docs/guide/start"); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST = %d, Allow %q, want 405", w.Code, w.Header().Get("Allow"))
	}
	if w := get(h, "HEAD", "/docs/guide/start"); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "0" {
		t.Errorf("HEAD = %d with %d bytes, want 200 and none", w.Code, w.Body.Len())
	}
	if w := get(h, "GET", "/docs/guide/none", "Accept", "*/*"); w.Code != 404 || strings.Contains(w.Body.String(), "type=\"search\"") {
		t.Errorf("a program gets %d %.200s, want the short page", w.Code, w.Body)
	}
}

func TestCaching(t *testing.T) {
	t.Parallel()
	h := served(t)
	for _, path := range []string{"/docs/guide/start", "/docs/guide/search?q=limit", "/docs/guide/pictures/keys.png", "/docs/guide/examples/a.yaml"} {
		first := get(h, "GET", path)
		tag := first.Header().Get("ETag")
		if tag == "" || !strings.Contains(first.Header().Get("Cache-Control"), "no-cache") {
			t.Errorf("GET %s: ETag %q, Cache-Control %q", path, tag, first.Header().Get("Cache-Control"))
		}
		if w := get(h, "GET", path, "If-None-Match", `"other", `+tag); w.Code != 304 || w.Body.Len() != 0 {
			t.Errorf("GET %s again = %d with %d bytes, want 304", path, w.Code, w.Body.Len())
		}
	}
	page := get(h, "GET", "/docs/guide/start").Body.String()
	_, rest, _ := strings.Cut(page, `shot on-light" src="`)
	picture, _, _ := strings.Cut(rest, `"`)
	if w := get(h, "GET", picture); w.Code != 200 || w.Header().Get("Content-Type") != "image/png" || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("GET %s = %d %v, want a picture that may be kept", picture, w.Code, w.Header())
	}
	for _, name := range []string{"a.yaml", "page.html"} {
		if w := get(h, "GET", "/docs/guide/examples/"+name); w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("GET %s has the type %s, want text", name, w.Header().Get("Content-Type"))
		}
	}
	w := get(h, "GET", "/docs/guide/start", "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != page {
		t.Errorf("the compressed page differs (%v)", err)
	}
}

// Every page of the documentation is served.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	ui := webui.New(func() webui.Settings { return webui.Settings{Origin: "https://x.example", Brand: "acme"} }, slog.New(slog.DiscardHandler))
	h := guide.New(ui, func(w http.ResponseWriter, r *http.Request, title string) (webui.Page, webui.Opening, error) {
		return ui.Page(w, r, title), webui.Opening{}, nil
	}, docs.Files()).Handler()
	body := get(h, "GET", "/docs/guide").Body.String()
	n := 0
	for _, part := range strings.Split(body, `href="/docs/guide/`)[1:] {
		path, _, _ := strings.Cut(part, `"`)
		path, _, _ = strings.Cut(path, "#")
		n++
		if w := get(h, "GET", "/docs/guide/"+path); w.Code != 200 {
			t.Errorf("GET /docs/guide/%s = %d, want 200", path, w.Code)
		}
	}
	if n < 20 {
		t.Errorf("the index leads to %d pages, want at least 20", n)
	}
}

// The search over everything finds operations of the API by what they do and by their path, before the sections of the guide.
func TestFind(t *testing.T) {
	t.Parallel()
	for query, first := range map[string]string{
		"create embeddings": "/docs/createEmbeddings",
		"/v1/embeddings":    "/docs/createEmbeddings",
		"retry":             "/docs/guide/call/limits#why-429",
		"qwxyz":             "",
	} {
		found := sample().Find(query, false).List
		if len(found) == 0 && first == "" {
			continue
		}
		if len(found) == 0 || found[0].Path != first {
			t.Errorf("%q finds %+v, want %q first", query, found, first)
		}
	}
}

// Customers find pages about calling before those about running, and each finding says where it is. Operators find what fits best.
func TestFindForCustomers(t *testing.T) {
	t.Parallel()
	g := guide.New(nil, nil, fstest.MapFS{
		"README.md":      {Data: []byte("# The guide\n\n## Run it\n\n- [Limits](run/limits.md): a node\n\n## Call it\n\n- [Limits](call/limits.md): a key\n")},
		"run/limits.md":  {Data: []byte("# Limits\n\nLimits limits limits.\n")},
		"call/limits.md": {Data: []byte("# Limits\n\nLimits, and much else that nobody has asked for in this place.\n")},
	})
	for operator, want := range map[bool][]string{
		false: {"/docs/guide/call/limits, Call it › Limits", "/docs/guide/run/limits, Run it › Limits"},
		true:  {"/docs/guide/run/limits, Run it › Limits", "/docs/guide/call/limits, Call it › Limits"},
	} {
		var got []string
		for _, f := range g.Find("limits", operator).List {
			got = append(got, f.Path+", "+f.Note)
		}
		if !slices.Equal(got, want) {
			t.Errorf("Find(limits, %t) = %q, want %q", operator, got, want)
		}
	}
}
