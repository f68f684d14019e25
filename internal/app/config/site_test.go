package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What operators may choose for their pages: what people can read, and files that browsers show.
func TestSite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	svg := write("logo.svg", "<?xml version=\"1.0\"?>\n<svg/>")
	for _, tt := range []struct{ yaml, want string }{
		{"site: {name: Example, headline: One key, intro: For all, footer: Example Ltd, logo: " + svg + ", accent: \"#3451d1\", accent_dark: \"#8ea6ff\"}", ""},
		{"site: {logo: " + write("logo.png", "\x89PNG\r\n\x1a\n....") + "}", ""},
		{"site: {logo: " + write("logo.webp", "RIFF....WEBPVP8 ") + "}", ""},
		{"site: {logo: " + write("page.html", "<p>hello") + "}", "it is neither SVG nor PNG nor WebP"},
		{"site: {logo: " + write("big.svg", "<svg>"+strings.Repeat(" ", maxLogo)) + "}", "it is larger than 64 KiB"},
		{"site: {logo: " + filepath.Join(dir, "none.svg") + "}", "no such file"},
		{"site: {logo: " + dir + "}", "cannot use"},
		{"site: {accent: blue}", "is not a colour"},
		{"site: {accent: \"#ffd400\"}", "choose a darker colour"},
		{"site: {accent_dark: \"#14213d\"}", "choose a lighter colour"},
		{"site: {taxes: [{country: DE, name: VAT, percent: 19}, {name: None, percent: 0, note: Reverse charge.}]}", ""},
		{"site: {taxes: [{country: Germany, name: VAT, percent: 19}]}", "is no country"},
		{"site: {taxes: [{percent: 19}]}", "site.taxes[0].name: is required"},
		{"site: {taxes: [{name: VAT, percent: 101}]}", "must be at most 100"},
		{"site: {taxes: [{name: VAT, percent: 1, note: " + strings.Repeat("x", 401) + "}]}", "has 401 characters; at most 400"},
		{"site: {intro: " + strings.Repeat("x", 401) + "}", "has 401 characters; at most 400"},
	} {
		_, problem := loadText(t, tt.yaml)
		if !strings.Contains(problem, tt.want) || problem != "" && tt.want == "" {
			t.Errorf("%.60s = %q, want %q", tt.yaml, problem, tt.want)
		}
	}
}
