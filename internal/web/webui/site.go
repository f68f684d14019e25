package webui

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/account/billing"
	"sluice/internal/kit/colour"
	"sluice/internal/kit/fault"
)

// Site is how the pages look to customers: what an operator has chosen in place of our own. The
// zero value is our own look. A Site does not change once it is used.
type Site struct {
	// Name is the name of the service as people read it; "" for the brand.
	Name string
	// The texts of the first page and the foot of the public ones; "" for ours.
	Headline, Intro, Footer string
	Seller                  billing.Seller
	Sharing                 bool // conversations may be shared by links

	logo, skin *asset // nil: ours
}

// NewSite returns a site with a logo and the colours of the light and the dark pages. Each may be
// empty. kind is the media type of the logo.
func NewSite(texts Site, logo []byte, kind, light, dark string) (Site, error) {
	s := texts
	if len(logo) > 0 {
		s.logo = &asset{kind: kind, plain: logo}
		s.logo.address = "/logo?v=" + tagOf(logo)
	}
	var rules strings.Builder
	for _, part := range []struct {
		text, selector string
		dark           bool
	}{{light, "light", false}, {dark, "dark", true}} {
		if part.text == "" {
			continue
		}
		c, err := colour.Parse(part.text)
		if err != nil {
			return s, err
		}
		a := colour.NewAccent(c, part.dark)
		declare := "{--accent:" + a.Colour.String() + ";--accent-soft:" + a.Soft.String() + ";--on-accent:" + a.On.String() + "}\n"
		// The theme of the system holds unless the visitor has chosen one.
		rules.WriteString("@media(prefers-color-scheme:" + part.selector + "){:root:not([data-theme])" + declare + "}\n:root[data-theme=" + part.selector + "]" + declare)
	}
	if rules.Len() > 0 {
		text := []byte(rules.String())
		s.skin = &asset{kind: "text/css; charset=utf-8", plain: text, address: "/theme.css?v=" + tagOf(text)}
	}
	return s, nil
}

// tagOf returns a short hash of a text, for its address.
func tagOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Logo returns the address of the logo, or "" for our own mark.
func (s *Site) Logo() string { return s.logo.at() }

// Skin returns the address of the style sheet with the colours, or "" for our own.
func (s *Site) Skin() string { return s.skin.at() }

// Icon returns the address of the icon of the pages.
func (s *Site) Icon() string {
	if s.logo != nil {
		return s.logo.address
	}
	return Asset("icon.svg")
}

func (a *asset) at() string {
	if a == nil {
		return ""
	}
	return a.address
}

// ServeSite serves what belongs to the site of the operator: GET /theme.css, /logo and
// /favicon.ico. The address has a hash of the content, so browsers may keep it.
func (u *UI) ServeSite(w http.ResponseWriter, r *http.Request) {
	site := u.settings().Site
	a := site.logo
	switch r.URL.Path {
	case "/theme.css":
		a = site.skin
	case "/favicon.ico":
		if a == nil {
			a = assets()["icon.svg"]
		}
	}
	if a == nil {
		notFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") != "" {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	// An SVG may hold scripts, which browsers run if somebody opens it as a page.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(a.plain)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.plain) // an error means that the browser disconnected
	}
}

// NotFound returns the page for browsers that ask for a path that does not exist.
func (u *UI) NotFound() http.Handler {
	return u.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.Error(w, r, fault.New(fault.NotFound, "There is no page at this address. It may have moved, or the address has a typo."))
	}))
}

// Opening is what the frame of public pages shows beside the Page.
type Opening struct {
	SignedIn bool
	// Joinable reports whether anybody may sign up.
	Joinable bool
	Footer   string
	Support  Support
}

// PublicLinks returns the pages for everybody.
func PublicLinks() []Link { return slices.Clone(publicLinks) }

// publicLinks are the pages for everybody, in the order of the navigation.
var publicLinks = []Link{
	{Path: "/models", Text: "Models", Icon: "models"},
	{Path: "/pricing", Text: "Pricing", Icon: "plan", Words: "plans cost limits quota price"},
	{Path: "/docs/guide", Text: "Guide", Icon: "docs", Words: "documentation help"},
	{Path: "/docs", Text: "API", Icon: "docs", Words: "reference endpoints fields documentation"},
	{Path: "/status", Text: "Status", Icon: "usage", Words: "incidents uptime"},
}
