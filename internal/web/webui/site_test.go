package webui_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/web/webui"
)

// What is served is what stands in the folder of sources.
func TestSourcesArePacked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("sources/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("sources: %v, %v", files, err)
	}
	for _, file := range files {
		name, parts := filepath.Base(file), []string{file}
		if filepath.Ext(name) == "" { // a script in several files
			name += ".js"
			parts, _ = filepath.Glob(file + "/*")
		}
		var want strings.Builder
		for _, part := range parts {
			text, err := os.ReadFile(part)
			if err != nil {
				t.Fatal(err)
			}
			want.Write(text)
		}
		r := httptest.NewRequest("GET", webui.Asset(name), nil)
		r.SetPathValue("name", name)
		w := httptest.NewRecorder()
		webui.ServeAsset(w, r)
		if w.Body.String() != want.String() {
			t.Errorf("%s is not what assets have: run go generate ./internal/web/webui", file)
		}
	}
}

// An operator's look is served with addresses that change with the content, and a logo that is a program runs nowhere.
func TestSite(t *testing.T) {
	t.Parallel()
	site, err := webui.NewSite(webui.Site{Name: "Example"}, []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), "image/svg+xml", "#0b6e4f", "#7be0b8")
	if err != nil {
		t.Fatal(err)
	}
	ui := webui.New(func() webui.Settings { return webui.Settings{Origin: "http://x.example", Site: site} }, slog.New(slog.DiscardHandler))
	serve := ui.Protect(http.HandlerFunc(ui.ServeSite))
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		serve.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	skin := get(site.Skin())
	if text := skin.Body.String(); skin.Code != 200 || !strings.Contains(text, "--accent:#0b6e4f") || !strings.Contains(text, "[data-theme=dark]{--accent:#7be0b8") {
		t.Errorf("GET %s = %d %s", site.Skin(), skin.Code, text)
	}
	if got := skin.Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Errorf("the theme has Cache-Control %q", got)
	}
	for _, path := range []string{site.Logo(), "/favicon.ico"} {
		w := get(path)
		if w.Code != 200 || w.Header().Get("Content-Type") != "image/svg+xml" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("GET %s = %d %v", path, w.Code, w.Header())
		}
	}
	w := httptest.NewRecorder()
	ui.NotFound().ServeHTTP(w, httptest.NewRequest("GET", "/nowhere", nil))
	for _, want := range []string{site.Logo(), site.Skin(), "Example", "There is no page at this address"} {
		if body := w.Body.String(); w.Code != 404 || !strings.Contains(body, strings.ReplaceAll(want, "&", "&amp;")) {
			t.Errorf("the page that is not there, %d, does not show %q", w.Code, want)
		}
	}
	if _, err := webui.NewSite(webui.Site{}, nil, "", "blue", ""); err == nil {
		t.Error("NewSite takes blue for a colour, want an error")
	}
}
