package webui

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// shownCookie holds a secret that a page shows after a redirect.
	shownCookie = "shown"
	// shownLife is how long a page can show it.
	shownLife = 10 * time.Minute
	// shownViews is how often it is shown: once, and once more if the page is loaded again. keptViews is how often
	// what Keep keeps can be used.
	shownViews = 2
	keptViews  = 50
	// maxShown bounds a secret with its title, in bytes: a browser keeps a cookie of 4 KiB.
	maxShown = 2000
)

// Shown is a secret that its owner sees on one page, such as a new key.
type Shown struct {
	// Title says what the secret is.
	Title  string
	Secret string
}

// Show makes a page show a secret after a redirect, so that loading the page again does not repeat the form that made
// the secret. The secret is nowhere on the server: it travels in a cookie, sealed under the data key and bound to the
// session and the page.
func (u *UI) Show(w http.ResponseWriter, session, page string, s Shown) {
	u.show(w, session, page, s, shownViews, time.Now().Add(shownLife))
}

// Keep is Show for what several pages in a row need, such as a form that may be refused.
func (u *UI) Keep(w http.ResponseWriter, session, page string, s Shown) {
	u.show(w, session, page, s, keptViews, time.Now().Add(shownLife))
}

// show seals the secret into the cookie, with how often and until when it may be shown.
func (u *UI) show(w http.ResponseWriter, session, page string, s Shown, views int, until time.Time) {
	if len(s.Title)+len(s.Secret) > maxShown {
		return // cannot happen: titles and keys are short
	}
	text := strings.Join([]string{strconv.Itoa(views), strconv.FormatInt(until.Unix(), 10), s.Title, s.Secret}, "\x00")
	sealed := u.settings().Key.Box("shown", session+" "+page, "").Seal([]byte(text))
	u.SetCookie(w, shownCookie, base64.RawURLEncoding.EncodeToString(sealed), time.Until(until))
}

// TakeShown returns the secret that a page of the session is to show, or nil. It counts as one view.
func (u *UI) TakeShown(w http.ResponseWriter, r *http.Request, session, page string) *Shown {
	value := u.Cookie(r, shownCookie)
	// A HEAD shows nothing to anybody, so it must not use up a view.
	if value == "" || r.Method == http.MethodHead {
		return nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return nil
	}
	plain, err := u.settings().Key.Box("shown", session+" "+page, "").Open(sealed)
	if err != nil {
		return nil // of another page, or of another session
	}
	parts := strings.SplitN(string(plain), "\x00", 4)
	if len(parts) != 4 {
		return nil
	}
	views, _ := strconv.Atoi(parts[0])
	seconds, _ := strconv.ParseInt(parts[1], 10, 64)
	until := time.Unix(seconds, 0)
	if !time.Now().Before(until) {
		return nil
	}
	s := Shown{Title: parts[2], Secret: parts[3]}
	if views > 1 {
		u.show(w, session, page, s, views-1, until)
	} else {
		u.DropCookie(w, shownCookie)
	}
	return &s
}
