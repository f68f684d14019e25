package webui

import (
	"context"
	"html"
	"strings"
)

// DressDocs returns what gives the reference page the look of the other pages: the end of its head, with the colours of
// the site and the script that searches and copies, and the bar at the top. The page itself is made in package api.
func (s *Site) DressDocs(brand string) (head, top string) {
	if s.Name != "" {
		brand = s.Name
	}
	var h, t strings.Builder
	h.WriteString(`<link rel="stylesheet" href="` + Asset("docs.css") + `">`)
	if s.skin != nil {
		h.WriteString(`<link rel="stylesheet" href="` + s.Skin() + `">`)
	}
	// Not deferred: it sets the theme before the page is drawn.
	h.WriteString(`<script src="` + Asset("docs.js") + `"></script><script src="` + Asset("app.js") + `" defer></script>`)
	t.WriteString(`<header class="site"><a class="site-name" href="/">`)
	if s.logo != nil {
		t.WriteString(`<img src="` + s.Logo() + `" alt="" height="24">`)
	} else {
		_ = sign().Render(context.Background(), &t)
	}
	t.WriteString(html.EscapeString(brand) + `</a><nav aria-label="Pages">`)
	for _, l := range publicLinks {
		t.WriteString(`<a href="` + l.Path + `"`)
		if l.Path == "/docs" {
			t.WriteString(` aria-current="page"`)
		}
		t.WriteString(`>` + l.Text + `</a>`)
	}
	t.WriteString(`</nav>`)
	// Writing into memory cannot fail, and the components depend on nothing else.
	p := Page{Find: PublicFind, FindHint: PublicHint}
	_ = paletteButton(p).Render(context.Background(), &t)
	t.WriteString(`<a class="site-in" href="` + CustomerHome + `">Dashboard</a></header>`)
	_ = palette(p).Render(context.Background(), &t)
	return h.String(), t.String()
}
