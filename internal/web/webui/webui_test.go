package webui_test

import (
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/web/webui"
)

func newUI(origin string) *webui.UI {
	return webui.New(func() webui.Settings { return webui.Settings{Origin: origin, Brand: "service"} }, slog.New(slog.DiscardHandler))
}

func TestSafePath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/dashboard/activity":           "/dashboard/activity",
		"/dashboard/activity?model=a/b": "/dashboard/activity?model=a/b",
		"/dashboard":                    "/dashboard",
		"":                              "/dashboard",
		"/signout":                      "/dashboard",
		"//evil.example":                "/dashboard",
		"/dashboard//evil.example":      "/dashboard",
		"/dashboard.evil.example":       "/dashboard",
		"/dashboard@evil.example":       "/dashboard",
		"https://evil.example":          "/dashboard",
		"/\\evil.example":               "/dashboard",
		"/dashboard/\\evil.example":     "/dashboard",
		"/dashboard/\r\nLocation: x":    "/dashboard",
		"javascript:alert(1)":           "/dashboard",
		"/dashboard?next=//evil":        "/dashboard",
	} {
		if got := webui.SafePath(path, "/dashboard"); got != want {
			t.Errorf("SafePath(%q) = %q, want %q", path, got, want)
		}
	}
}

// What another site's page sends has no effect, and every reply carries the rules that browsers keep.
func TestProtect(t *testing.T) {
	t.Parallel()
	reached := 0
	h := newUI("https://x.example").Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	tests := []struct {
		name   string
		method string
		header map[string]string
		passes bool
	}{
		{"our own form", "POST", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "https://x.example"}, true},
		{"another site's form", "POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, false},
		{"a sister site's form", "POST", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "https://y.x.example"}, false},
		{"an old browser's form from elsewhere", "POST", map[string]string{"Origin": "https://evil.example"}, false},
		{"a sandboxed frame", "POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "null"}, false},
		{"a link from elsewhere", "GET", map[string]string{"Sec-Fetch-Site": "cross-site"}, true},
		{"a DELETE from elsewhere", "DELETE", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, false},
		{"a program", "POST", nil, true},
	}
	for _, tt := range tests {
		reached = 0
		r := httptest.NewRequest(tt.method, "https://x.example/dashboard/keys", nil)
		for k, v := range tt.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if passes := reached == 1; passes != tt.passes {
			t.Errorf("%s: passes = %t, want %t", tt.name, passes, tt.passes)
		}
		if !tt.passes && w.Code != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", tt.name, w.Code)
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "form-action 'self';", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: the policy %q lacks %q", tt.name, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("X-Frame-Options") != "DENY" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", tt.name, w.Header())
		}
	}
}

// An address with a slash at its end leads to the page, and nowhere else.
func TestSlashAtTheEnd(t *testing.T) {
	t.Parallel()
	h := newUI("https://x.example").Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for _, tt := range []struct{ method, address, to string }{
		{"GET", "/dashboard/", "/dashboard"},
		{"HEAD", "/models/?q=a%2Fb", "/models?q=a%2Fb"},
		{"GET", "/dashboard/keys//", "/dashboard/keys"},
		{"GET", "/", ""},
		{"GET", "/dashboard", ""},
		{"POST", "/dashboard/", ""},
		{"GET", "//evil.example/", ""},
		{"GET", "/\\evil.example/", "/%5Cevil.example"},
	} {
		r := httptest.NewRequest(tt.method, "https://x.example", nil)
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(tt.address, "?")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != tt.to || tt.to != "" && w.Code != http.StatusPermanentRedirect {
			t.Errorf("%s %s: %d to %q, want %q", tt.method, tt.address, w.Code, got, tt.to)
		}
	}
}

func TestCookies(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]struct {
		name   string
		secure bool
	}{"https://x.example": {"__Host-session", true}, "http://127.0.0.1:8080": {"sluice_session", false}} {
		w := httptest.NewRecorder()
		newUI(origin).SetCookie(w, "session", "value", time.Hour)
		c := w.Result().Cookies()[0]
		if c.Name != want.name || c.Secure != want.secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("cookie of %s = %+v", origin, c)
		}
	}
}

// A flash is one of ours, shown once; a cookie cannot put words into a page's mouth.
func TestFlash(t *testing.T) {
	t.Parallel()
	ui := newUI("http://127.0.0.1")
	w := httptest.NewRecorder()
	ui.SetFlash(w, "key-deleted")
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(w.Result().Cookies()[0])
	w = httptest.NewRecorder()
	if p := ui.Page(w, r, "t"); p.Flash == nil || !strings.Contains(p.Flash.Text, "deleted") {
		t.Errorf("Page has the flash %+v", p.Flash)
	}
	if c := w.Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("the flash is not taken back: %v", c)
	}
	r = httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: "sluice_flash", Value: "Send your password to evil"})
	r.AddCookie(&http.Cookie{Name: "theme", Value: "\"><script>"})
	if p := ui.Page(httptest.NewRecorder(), r, "t"); p.Flash != nil || p.Theme != "" {
		t.Errorf("Page took %+v and the theme %q from a stranger", p.Flash, p.Theme)
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	ui := newUI("http://127.0.0.1")
	h := ui.Handle(func(http.ResponseWriter, *http.Request) error {
		return fault.New(fault.Invalid, "no <script>alert(1)</script> here")
	})
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "abc")
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	body := w.Body.String()
	if w.Code != http.StatusBadRequest || strings.Contains(body, "<script>alert") || !strings.Contains(body, "&lt;script&gt;") || !strings.Contains(body, "abc") {
		t.Errorf("status %d, body %s", w.Code, body)
	}
	h = ui.Handle(func(http.ResponseWriter, *http.Request) error { return io.ErrUnexpectedEOF })
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "EOF") {
		t.Errorf("status %d, body %s, want a page that says nothing of our insides", w.Code, w.Body)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", webui.ServeAsset)
	for _, name := range []string{"app.css", "app.js", "htmx.js", "icon.svg", "activity.js", "activity.css", "playground.js", "videos.js"} {
		r := httptest.NewRequest("GET", webui.Asset(name), nil)
		plain := httptest.NewRecorder()
		mux.ServeHTTP(plain, r)
		r.Header.Set("Accept-Encoding", "gzip")
		zipped := httptest.NewRecorder()
		mux.ServeHTTP(zipped, r)
		z, err := gzip.NewReader(zipped.Body)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(z)
		if err != nil || string(body) != plain.Body.String() || len(body) == 0 {
			t.Errorf("%s: %d bytes zipped, %d plain, %v", name, len(body), plain.Body.Len(), err)
		}
		if !strings.Contains(plain.Header().Get("Cache-Control"), "immutable") || plain.Header().Get("Content-Type") == "" {
			t.Errorf("%s: headers %v", name, plain.Header())
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/assets/none.js", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("an unknown asset is %d, want 404", w.Code)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ got, want string }{
		{webui.Number(0), "0"},
		{webui.Number(1234567), "1,234,567"},
		{webui.Number(-1234), "-1,234"},
		{webui.Short(9999), "9,999"},
		{webui.Short(12_345), "12.3K"},
		{webui.Short(2_000_000), "2M"},
		{webui.Thousandths(1500), "1.5"},
		{webui.Thousandths(1000), "1"},
		{webui.Total(47_261_135_000), "$47.26"},
		{webui.Total(1_995_000_000), "$2.00"},
		{webui.Total(12_345_000), "$0.012"},
		{webui.Total(302_500_000), "$0.30"},
		{webui.Total(9_999_000), "$0.01"},
		{webui.Total(422_350), "$0.00042"},
		{webui.Total(180), "$0.00000018"},
		{webui.Total(0), "$0.00"},
		{webui.Amount("47.261135"), "$47.26"},
		{webui.Amount("-0.0047"), "-$0.0047"},
		{webui.Amount("12"), "$12.00"},
		{webui.Dollars(0), "$0.00"},
		{webui.Dollars(28_000_000), "$0.028"},
		{webui.Dollars(125_000_000), "$0.125"},
		{webui.Dollars(65_000_000_000), "$65.00"},
		{webui.Dollars(-1_500_000_000), "-$1.50"},
		{webui.Total(-32_431_897_360), "-$32.43"},
		{webui.Total(-431_897_360), "-$0.43"},
		{webui.Dollars(1), "$0.000000001"},
		{webui.Dollars(2_500_000), "$0.0025"},
		{webui.Dollars(1_234_567_890_000), "$1,234.56789"},
		{webui.Cents(1000), "$10.00"},
		{webui.Cents(1049), "$10.49"},
		{webui.Cents(-5), "-$0.05"},
		{webui.Millis(999), "999 ms"},
		{webui.Millis(1500), "1.5 s"},
		{webui.Millis(90_000), "1.5 min"},
		{webui.Contexts(128_000), "128K"},
		{webui.Contexts(131_072), "128K"},
		{webui.Contexts(1_000_000), "1M"},
		{webui.Contexts(1_048_576), "1M"},
		{webui.Contexts(2_097_152), "2M"},
		{webui.Contexts(1_047_576), "1M"},
		{webui.Contexts(32_768), "32K"},
		{webui.Contexts(4096), "4K"},
		{webui.Contexts(8192), "8K"},
		{webui.Contexts(4000), "4K"},
		{webui.Contexts(512), "512"},
		{webui.Duration(400 * time.Microsecond), "0.4 ms"},
		{webui.Duration(90 * time.Second), "1.5 min"},
		{webui.Duration(0), "0 ms"},
		{webui.Date(now), "1 May 2026"},
		{webui.DayMonth(now), "1 May"},
		{webui.Month(now), "May 2026"},
		{webui.DateTime(now), "1 May 2026 12:00 UTC"},
		{webui.Ago(time.Time{}, now), "never"},
		{webui.Ago(now.Add(-time.Second), now), "just now"},
		{webui.Ago(now.Add(-time.Hour), now), "1 hour ago"},
		{webui.Ago(now.Add(-48*time.Hour), now), "2 days ago"},
		{webui.Ago(now.AddDate(-1, 0, 0), now), "1 May 2025"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
