package webui

import (
	"net/http"
	"strings"
	"time"
)

// The cookies that the customer's and the staff's pages share.
const (
	// SessionCookie holds the session token.
	SessionCookie = "session"
	// DeviceCookie marks a browser that has signed in before; package signin tells it from a stranger's.
	DeviceCookie = "device"
)

// The first pages of customers and of staff. All other pages for signed-in visitors are below them.
const (
	CustomerHome = "/dashboard"
	StaffHome    = "/support"
	// CustomerFind is where customers search over everything, and PublicFind where everybody does; PublicHint says what that
	// finds.
	CustomerFind = CustomerHome + "/find"
	PublicFind   = "/find"
	PublicHint   = "Search pages, models and docs"
)

// Flash is a message that the next page shows once, after a redirect.
type Flash struct {
	// Tone is "good" or "bad". It selects the colour.
	Tone string
	Text string
}

// flashes holds all messages by name. The cookie holds only the name, so that nobody can make
// a page show another text by setting a cookie.
var flashes = map[string]Flash{
	"signed-out":          {"good", "You have been signed out."},
	"session-ended":       {"bad", "Your session has ended. Sign in to continue where you left off. Your last change was not saved."},
	"code-late":           {"bad", "Your sign-in timed out. Sign in again."},
	"password-set":        {"good", "Your password was set. You have been signed out everywhere else."},
	"password-changed":    {"good", "Your password was changed. You have been signed out in all other browsers."},
	"email-sent":          {"good", "We sent a link to the new address. Open it to confirm the change."},
	"email-changed":       {"good", "Your e-mail address was changed."},
	"replies-changed":     {"good", "Saved. It applies from the next reply on."},
	"session-closed":      {"good", "That session was signed out."},
	"sessions-closed":     {"good", "All other sessions were signed out."},
	"key-changed":         {"good", "The key was changed."},
	"key-deleted":         {"good", "The key was deleted. Requests that use it are refused."},
	"key-gone":            {"bad", "This key no longer exists. The list is up to date."},
	"budget-created":      {"good", "The budget was created. It applies from the next call on."},
	"budget-changed":      {"good", "The budget was changed. It applies from the next call on."},
	"budget-deleted":      {"good", "The budget was deleted. Calls are no longer limited by it."},
	"budget-gone":         {"bad", "This budget no longer exists. The list is up to date."},
	"budget-raised":       {"good", "The amount was added. The agent can go on if its next call costs no more than what is left."},
	"watch-changed":       {"good", "Saved. It applies from the next call on."},
	"key-resumed":         {"good", "The key was resumed. Calls with it are accepted again."},
	"totp-on":             {"good", "The authenticator app was turned on."},
	"passkey-added":       {"good", "The passkey was added. You have been signed out in all other browsers."},
	"passkey-removed":     {"good", "The passkey was removed. You have been signed out in all other browsers."},
	"passkey-gone":        {"bad", "This passkey no longer exists. The list is up to date."},
	"recovery-made":       {"good", "You have new recovery codes. The old ones no longer work."},
	"signed-out-all":      {"good", "You have been signed out everywhere."},
	"totp-off":            {"good", "The authenticator app was turned off."},
	"answered":            {"good", "Your message was sent to support."},
	"account-closed":      {"good", "Your account was closed."},
	"subscribed":          {"good", "Your plan is active."},
	"upgraded":            {"good", "Your new plan is active."},
	"cancelled":           {"good", "Your plan was cancelled. It stays active until the end of the billing period."},
	"downgrade-asked":     {"good", "Your request was sent to support. You will get an answer in your messages and by e-mail."},
	"downgrade-withdrawn": {"good", "Your request was withdrawn. Your plan stays as it is."},
	"plan-kept":           {"good", "Saved. Your plan stays as it is."},
	"resumed":             {"good", "Your plan was resumed. It will renew as before."},
	"details-saved":       {"good", "Saved. Invoices show these details from the next payment on."},
	"card-changed":        {"good", "Your payment method was updated."},
	"webhook-deleted":     {"good", "The webhook was deleted."},
	"webhook-tested":      {"good", "A test is on its way. The list below shows the result."},
	"alerts-tested":       {"good", "A test is on its way to all endpoints. The list below shows the result."},
	"webhook-resumed":     {"good", "The webhook was resumed. It receives new events again."},
	"webhook-replayed":    {"good", "The message is being sent again, with the same id."},
	"video-mail-on":       {"good", "You will get an e-mail when a video is ready."},
	"video-mail-off":      {"good", "You will no longer get e-mail about videos."},
	"matter-done":         {"good", "Done. The change is in the audit log of the account."},
	"ordered":             {"good", "Done. It takes effect on all servers within a second."},
	"incident-told":       {"good", "Published. It is on the status page of all servers within a second."},
	"account-done":        {"good", "Done. The change is in the audit log below."},
	"share-deleted":       {"good", "The shared conversation was deleted. Its link no longer works."},
	"share-gone":          {"bad", "This shared conversation no longer exists. The list is up to date."},
	"token-deleted":       {"good", "The token was deleted. Requests that use it are refused."},
	"ticket-resolved":     {"good", "The conversation was closed. Write in it again whenever you need to."},
	"messages-read":       {"good", "All messages are marked as read."},
	"support-asked":       {"good", "Your message was sent to support. You will get an answer here and by e-mail."},
}

// flashCookie holds the name of the next flash message.
const flashCookie = "flash"

// SetFlash makes the next page show a message of flashes. The cookie lasts a minute: long
// enough for the redirect.
func (u *UI) SetFlash(w http.ResponseWriter, name string) {
	u.SetCookie(w, flashCookie, name, time.Minute)
}

// takeFlash returns the message of the flash cookie and deletes the cookie. It returns nil if
// there is none.
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

// SetCookie sets a cookie that scripts cannot read and that browsers do not send with requests
// of other sites, except when a link is followed.
func (u *UI) SetCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, u.newCookie(name, value, int(life.Seconds())))
}

// DropCookie deletes a cookie.
func (u *UI) DropCookie(w http.ResponseWriter, name string) {
	http.SetCookie(w, u.newCookie(name, "", -1))
}

// Cookie returns the value of a cookie, or "" if there is none.
func (u *UI) Cookie(r *http.Request, name string) string {
	c, err := r.Cookie(u.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// newCookie returns a cookie with the attributes that all of ours have. maxAge is in seconds; -1
// deletes it.
func (u *UI) newCookie(name, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: u.cookieName(name), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: u.secure(), SameSite: http.SameSiteLaxMode,
	}
}

// cookieName returns the name that is sent to the browser. The prefix __Host- binds a cookie
// to this exact host, but browsers accept it only over HTTPS.
func (u *UI) cookieName(name string) string {
	if u.secure() {
		return "__Host-" + name
	}
	return "sluice_" + name
}

// secure reports whether the pages are served over HTTPS.
func (u *UI) secure() bool { return strings.HasPrefix(u.settings().Origin, "https://") }
