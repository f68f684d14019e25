// Package webui is what the customer's and the staff's pages share: the frame and the look, forms, cookies,
// assets, and the rules of safety that every page keeps.
//
// A page is a templ component that Render writes; a handler returns an error, and Handle makes a page of
// it. Nothing is loaded from elsewhere, no script or style stands inside a page, and text from outside is
// escaped by templ. What the pages show is not decided here; see dashboard and support.
package webui

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"sluice/internal/fault"
)

// Settings is what a reload may change.
type Settings struct {
	Origin string // where browsers find the pages: https makes cookies secure
	Brand  string
	// FormTargets are other origins that a form may lead to, such as a payment page's.
	FormTargets []string
}

// UI renders pages.
type UI struct {
	settings func() Settings
	log      *slog.Logger
	guard    *http.CrossOriginProtection
}

// New returns a UI.
func New(settings func() Settings, log *slog.Logger) *UI {
	return &UI{settings: settings, log: log, guard: http.NewCrossOriginProtection()}
}

// Settings is what holds now.
func (u *UI) Settings() Settings { return u.settings() }

// Protect stands around all pages: it refuses what another site's page sends, and sets the headers that keep
// a browser from doing what no page of ours asks for.
func (u *UI) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", u.policy())
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		h.Set("Cache-Control", "no-store")
		if err := u.guard.Check(r); err != nil {
			u.Error(w, r, fault.New(fault.Forbidden, "This form was sent by another site. Open the page here and try again.").Because(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (u *UI) policy() string {
	targets := append([]string{"'self'"}, u.settings().FormTargets...)
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; connect-src 'self'; " +
		"form-action " + strings.Join(targets, " ") + "; frame-ancestors 'none'; base-uri 'none'"
}

// Handler answers a request, or returns why it cannot.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Handle makes an http.Handler of h: what it returns becomes a page. The request's form is read, and held
// to its bounds, before h runs.
func (u *UI) Handle(h Handler) http.Handler {
	return u.HandleUnread(func(w http.ResponseWriter, r *http.Request) error {
		if err := readForm(w, r); err != nil {
			return err
		}
		return h(w, r)
	})
}

// HandleUnread is Handle for requests that are no forms: their body is left to h.
func (u *UI) HandleUnread(h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			u.Error(w, r, err)
		}
	})
}

// Error answers with a page that says what is wrong.
func (u *UI) Error(w http.ResponseWriter, r *http.Request, err error) {
	f := fault.From(err)
	if f.Kind == fault.Internal || f.Kind == fault.Unavailable {
		u.log.Error("a page could not be made", "path", r.URL.Path, "request_id", w.Header().Get("X-Request-Id"), "error", err.Error())
	}
	status := f.Kind.Status()
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())+1))
	}
	if renderErr := u.Render(w, r, status, errorPage(u.Page(w, r, http.StatusText(status)), f.Message, w.Header().Get("X-Request-Id"))); renderErr != nil {
		u.log.Error("the page of an error could not be made", "error", renderErr.Error())
	}
}

// Render writes a page.
func (u *UI) Render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) error {
	var b bytes.Buffer
	if err := page.Render(r.Context(), &b); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes()) // a browser that left needs no page
	}
	return nil
}

// Page is what a frame shows around a page.
type Page struct {
	Title  string
	Brand  string
	Path   string // of the link that is lit
	Theme  string // light, dark, or empty: the system's
	Flash  *Flash
	Links  []Link
	Person string // who is signed in; empty: nobody
	Banner *Banner
	// Styles and Scripts are assets that only this page needs.
	Styles  []string
	Scripts []string
}

// Link is one entry of the column of links.
type Link struct {
	Path  string
	Text  string
	Icon  string
	Count int // shown where it is not zero
}

// Banner stands above every page until its cause is gone.
type Banner struct {
	Tone string // warn or bad
	Text string
	Path string
	Link string
}

// Page fills in what a request says about its frame. The flash is taken: it shows once.
func (u *UI) Page(w http.ResponseWriter, r *http.Request, title string) Page {
	p := Page{Title: title, Brand: u.settings().Brand, Path: r.URL.Path, Flash: u.takeFlash(w, r)}
	if c, err := r.Cookie("theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		p.Theme = c.Value
	}
	return p
}

// SafePath is where a sign-in may lead: a path of these pages, or the first page.
func SafePath(path, first string) string {
	if !strings.HasPrefix(path, first) || strings.ContainsAny(path, "\\\r\n") || strings.Contains(path, "//") {
		return first
	}
	if rest := path[len(first):]; rest != "" && rest[0] != '/' && rest[0] != '?' {
		return first
	}
	return path
}

// Swapping reports whether htmx asks for a part of a page.
func Swapping(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }
