package webui_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/web/webui"
)

// Whatever a browser sends as cookies, a value is one that could be sent back, and a path to go on to is one of ours.
func FuzzCookie(f *testing.F) {
	for _, s := range []string{"sluice_flash=ordered", "sluice_flash=\"x\"; sluice_flash=y", "__Host-flash=a", "=", ";;;", "sluice_flash=\x00", "/dashboard//evil.example", "/dashboard/usage?model=a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, origin := range []string{"http://x.example", "https://x.example"} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header["Cookie"] = []string{text}
			if v := newUI(origin).Cookie(r, "flash"); strings.ContainsAny(v, "\r\n\x00;") {
				t.Errorf("Cookie of %q = %q", text, v)
			}
		}
		if path := webui.SafePath(text, "/dashboard"); !strings.HasPrefix(path, "/dashboard") || strings.Contains(path, "//") && !strings.Contains(path, "?") || strings.ContainsAny(path, "\r\n\\") {
			t.Errorf("SafePath(%q) = %q", text, path)
		}
	})
}
