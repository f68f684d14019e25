package webui

import (
	"net/http"
	"strings"
	"time"
)

// Flash is a sentence that the next page shows once.
type Flash struct {
	Tone string // good or bad
	Text string
}

// flashes are all there are. The cookie holds a name alone, so that nobody can make a page say something
// by setting a cookie.
var flashes = map[string]Flash{
	"signed-out":       {"good", "You are signed out."},
	"password-set":     {"good", "Your password is set. You are signed out everywhere else."},
	"password-changed": {"good", "Your password is changed. Other browsers are signed out."},
	"email-sent":       {"good", "Open the link that was sent to the new address."},
	"email-changed":    {"good", "Your address is changed."},
	"session-closed":   {"good", "That browser is signed out."},
	"sessions-closed":  {"good", "All other browsers are signed out."},
	"key-renamed":      {"good", "The key has its new name."},
	"key-deleted":      {"good", "The key is deleted. It is refused from now on."},
	"totp-on":          {"good", "Two-step sign-in is on."},
	"totp-off":         {"good", "Two-step sign-in is off."},
	"answered":         {"good", "Thank you. Support reads your answer."},
	"account-closed":   {"good", "Your account is closed."},
	"subscribed":       {"good", "Your plan is active."},
	"upgraded":         {"good", "Your new plan is active."},
	"cancelled":        {"good", "Your plan ends with this period and is not renewed."},
	"resumed":          {"good", "Your plan goes on and is renewed as before."},
	"card-changed":     {"good", "Your payment method is changed."},
	"support-asked":    {"good", "Support has your request and answers by mail."},
}

const flashCookie = "flash"

// SetFlash has the next page show a sentence, by its name in flashes.
func (u *UI) SetFlash(w http.ResponseWriter, name string) {
	u.SetCookie(w, flashCookie, name, time.Minute)
}

func (u *UI) takeFlash(w http.ResponseWriter, r *http.Request) *Flash {
	c, err := r.Cookie(u.cookieName(flashCookie))
	if err != nil {
		return nil
	}
	u.DropCookie(w, flashCookie)
	if f, ok := flashes[c.Value]; ok {
		return &f
	}
	return nil
}

// SetCookie gives the browser a cookie that no script can read and no other site can send along.
func (u *UI) SetCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, u.newCookie(name, value, int(life.Seconds())))
}

// DropCookie takes a cookie back.
func (u *UI) DropCookie(w http.ResponseWriter, name string) {
	http.SetCookie(w, u.newCookie(name, "", -1))
}

// Cookie is the value of a cookie; empty: there is none.
func (u *UI) Cookie(r *http.Request, name string) string {
	c, err := r.Cookie(u.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

func (u *UI) newCookie(name, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: u.cookieName(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: u.secure(), SameSite: http.SameSiteLaxMode,
	}
}

// cookieName binds a cookie to this host alone where that can be done, which needs https.
func (u *UI) cookieName(name string) string {
	if u.secure() {
		return "__Host-" + name
	}
	return "sluice_" + name
}

func (u *UI) secure() bool { return strings.HasPrefix(u.settings().Origin, "https://") }
