// Package webui is the shared part of the customer's and the staff's pages: layout and style,
// forms, cookies, assets, and the security rules that every page follows.
//
// A page is a templ component that Render writes. A handler returns an error, and Handle turns
// it into an error page. Nothing is loaded from other hosts, no page contains inline scripts
// or styles, and templ escapes all text from outside. What the pages show is decided
// elsewhere; see package dashboard.
package webui

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
)

// Settings holds what a reload of the configuration may change.
type Settings struct {
	// Origin is the public origin of the pages. With https, cookies are secure.
	Origin string
	Brand  string
	// FormTargets are other origins that a form may redirect to, such as that of a payment
	// page. The Content-Security-Policy blocks all others.
	FormTargets []string
	// Announcements are shown above every page, to everybody.
	Announcements []Banner
	Support       Support
	Site          Site
	// Key seals what cookies carry. It is the same on all nodes.
	Key seal.Key
}

// Support is how customers reach support besides the messages page. Each field may be empty.
type Support struct {
	Email string
	URL   string
}

// Address returns where a link to support leads, or "" if there is none.
func (s Support) Address() string {
	if s.Email != "" {
		return "mailto:" + s.Email
	}
	return s.URL
}

// UI renders pages. It is safe for concurrent use.
type UI struct {
	settings func() Settings
	log      *slog.Logger
	guard    *http.CrossOriginProtection
}

// New returns a UI. settings is called for every request and must be safe for concurrent use.
func New(settings func() Settings, log *slog.Logger) *UI {
	return &UI{settings: settings, log: log, guard: http.NewCrossOriginProtection()}
}

// Settings returns the current settings.
func (u *UI) Settings() Settings { return u.settings() }

// Protect wraps the handler of all pages. It refuses requests that a page of another site
// sends, and sets the headers that forbid the browser everything our pages do not need.
func (u *UI) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", u.policy())
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
		// Pages show keys and personal data: nothing may store them. ServeAsset overrides this
		// for assets.
		h.Set("Cache-Control", "no-store")
		if err := u.guard.Check(r); err != nil {
			u.Error(w, r, fault.New(fault.Forbidden, "This form was sent by another site. Open the page here and try again.").Because(err))
			return
		}
		if to, ok := withoutSlash(r); ok {
			http.Redirect(w, r, to, http.StatusPermanentRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withoutSlash returns where a page is whose address was typed with a slash at its end: the address without it.
func withoutSlash(r *http.Request) (to string, ok bool) {
	path := strings.TrimRight(r.URL.Path, "/")
	if path == r.URL.Path || path == "" || strings.HasPrefix(path, "//") || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return "", false
	}
	return (&url.URL{Path: path, RawQuery: r.URL.RawQuery}).String(), true
}

// policy returns the Content-Security-Policy. Scripts and styles come from our own assets
// only, so text that slips through escaping cannot run.
func (u *UI) policy() string {
	targets := append([]string{"'self'"}, u.settings().FormTargets...)
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; connect-src 'self'; " +
		"form-action " + strings.Join(targets, " ") + "; frame-ancestors 'none'; base-uri 'none'"
}

// Handler serves a request, or returns an error that becomes a page.
type Handler func(w http.ResponseWriter, r *http.Request) error

// Handle returns an http.Handler that runs h and renders its error as a page. The request's
// form is read and checked against its limits before h runs.
func (u *UI) Handle(h Handler) http.Handler {
	return u.HandleUnread(func(w http.ResponseWriter, r *http.Request) error {
		if err := readForm(w, r); err != nil {
			return err
		}
		return h(w, r)
	})
}

// HandleUnread is like Handle but leaves the body to h, for requests that are not forms.
func (u *UI) HandleUnread(h Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			u.Error(w, r, err)
		}
	})
}

// failer is a ResponseWriter of package httpapi, which replies with the error object once the page has returned.
type failer interface{ Fail(err error) }

// wantsObject reports whether a program sent the request, which reads the error object and no page.
func wantsObject(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// Error renders an error page. Only errors that are not the visitor's fault are logged.
func (u *UI) Error(w http.ResponseWriter, r *http.Request, err error) {
	if x, ok := w.(failer); ok && wantsObject(r) {
		x.Fail(err)
		return
	}
	f := fault.From(err)
	if f.Kind == fault.Internal || f.Kind == fault.Unavailable {
		u.log.Error("a page could not be rendered", "path", r.URL.Path, "request_id", w.Header().Get("X-Request-Id"), "error", err.Error())
	}
	status := f.Kind.Status()
	fault.SetRetryAfter(w.Header(), f.RetryAfter)
	title, id := strings.TrimSuffix(Sentence(strings.ToLower(http.StatusText(status))), "."), w.Header().Get("X-Request-Id")
	if status == http.StatusNotFound { // nothing to ask anybody about
		title, id = "Page not found", ""
	}
	if renderErr := u.Render(w, r, status, errorPage(u.Page(w, r, title), f.Message, id)); renderErr != nil {
		u.log.Error("the page of an error could not be rendered", "error", renderErr.Error())
	}
}

// Render writes a page. It renders into memory first, so that a failure becomes an error page
// and not half a page.
func (u *UI) Render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) error {
	var b bytes.Buffer
	if err := page.Render(r.Context(), &b); err != nil {
		return err
	}
	send(w, r, status, b.Bytes())
	return nil
}

// RenderPublic is like Render, and compresses the page. It is for pages that hold nothing of an
// account: the size of a compressed page can reveal a secret that stands beside text from outside.
func (u *UI) RenderPublic(w http.ResponseWriter, r *http.Request, status int, page templ.Component) error {
	var b bytes.Buffer
	if err := page.Render(r.Context(), &b); err != nil {
		return err
	}
	sendZipped(w, r, status, b.Bytes())
	return nil
}

// sendZipped writes a page, compressed if the browser wants that.
func sendZipped(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Vary", "Accept-Encoding, Cookie")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		body = zip(body)
	}
	send(w, r, status, body)
}

// RenderTagged is like RenderPublic, for pages that stay the same for long: a browser may keep them, and asks whether they
// have changed.
func (u *UI) RenderTagged(w http.ResponseWriter, r *http.Request, page templ.Component) error {
	var b bytes.Buffer
	if err := page.Render(r.Context(), &b); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	// A weak tag: it stands for both encodings.
	if !unchanged(w, r, `W/"`+tagOf(b.Bytes())+`"`) {
		sendZipped(w, r, http.StatusOK, b.Bytes())
	}
	return nil
}

// unchanged sets the tag of a reply, and replies itself if the browser has it already.
func unchanged(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	for have := range strings.SplitSeq(strings.Join(r.Header.Values("If-None-Match"), ","), ",") {
		if have = strings.TrimSpace(have); have == tag || have == "*" {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}

// send writes a page. It is complete before the first byte goes out, so an error in a template never leaves half a page.
func send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the browser disconnected
	}
}

// Page holds what the layout shows around the content of a page.
type Page struct {
	Title string
	Brand string
	// Home is where the name of the service leads, and Part what stands beside it; empty on the customer's pages.
	Home string
	Part string
	// Path is the path of the navigation link to highlight.
	Path string
	// Theme is "light", "dark", or "" for the theme of the system.
	Theme string
	Flash *Flash
	Links []Link
	// Find is the path of the search over everything, or "", and FindHint says what it finds.
	Find, FindHint string
	// Person is who is signed in, or "".
	Person string
	Banner *Banner
	// Announcements are those of the settings.
	Announcements []Banner
	// Logo, Icon and Skin are addresses of the site's own look. Logo and Skin are "" for ours.
	Logo, Icon, Skin string
	// Share is what is shown of a page for everybody where its address is sent.
	Share Share
	// Styles and Scripts are assets that only this page needs.
	Styles  []string
	Scripts []string
}

// Share is what other services show of a page when somebody sends its address: the title, and Summary. URL is the address under
// which the page is known, without what may be asked of it. The zero value shows nothing.
type Share struct{ Summary, URL string }

// Link is one entry of the navigation.
type Link struct {
	Path string
	Text string
	Icon string
	// Group is the heading above the first link of its group; empty: none. Words are others that a search finds it by.
	Group, Words string
	// Count is a number beside the link, such as unread messages. 0 is not shown.
	Count int
}

// Banner is a message above every page until its cause is gone. Path and Link may be empty.
type Banner struct {
	// Tone is "info", "warn" or "bad". It selects the colour.
	Tone string
	Text string
	Path string
	Link string
}

// Page returns the layout data of a request. It consumes the flash message, which is shown
// once.
func (u *UI) Page(w http.ResponseWriter, r *http.Request, title string) Page {
	s := u.settings()
	p := Page{
		Title: title, Brand: s.Brand, Home: CustomerHome, Path: r.URL.Path, Flash: u.takeFlash(w, r), Announcements: s.Announcements,
		Logo: s.Site.Logo(), Icon: s.Site.Icon(), Skin: s.Site.Skin(),
	}
	if s.Site.Name != "" {
		p.Brand = s.Site.Name
	}
	if c, err := r.Cookie("theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		p.Theme = c.Value
	}
	return p
}

// SafePath returns path if it is first or below it, and first otherwise. It keeps the next
// parameter of a sign-in from redirecting to another site: "//host", "\host" and full URLs are
// refused.
func SafePath(path, first string) string {
	if !strings.HasPrefix(path, first) || strings.ContainsAny(path, "\\\r\n") || strings.Contains(path, "//") {
		return first
	}
	if rest := path[len(first):]; rest != "" && rest[0] != '/' && rest[0] != '?' {
		return first
	}
	return path
}

// Swapping reports whether htmx requests a part of a page.
func Swapping(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }
