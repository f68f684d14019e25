package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"

	"sluice/internal/account"
	"sluice/internal/web/webui"
)

// The paths that only a demonstration has.
const (
	doorPath = "/demo/"      // and who to be: signs in, as often as it is opened
	hookPath = "/demo/hooks" // takes the webhooks of the company
)

// door is somebody whom the demonstration lets a visitor be.
type door struct {
	name  string // in the path
	email string
	leads string // to which page
	tries string // a page that shows whether somebody is signed in
}

// doors are everybody whom a visitor can be.
func doors() []door {
	return []door{
		{"customer", engineering + domain, webui.CustomerHome, webui.CustomerHome + "/keys"},
		{"owner", account.OwnerEmail, webui.CustomerHome, webui.CustomerHome + "/keys"},
		{"console", helpdesk + domain, webui.StaffHome, webui.StaffHome + "/tokens"},
	}
}

// Link is a page of the demonstration for people to open.
type Link struct{ Text, URL string }

// Links returns the pages to begin with. Those that need it sign the visitor in.
func (d *Demo) Links() []Link {
	o := d.Origin()
	return []Link{
		{"Dashboard of a team", o + doorPath + "customer"},
		{"Support console", o + doorPath + "console"},
		{"Dashboard of the owner", o + doorPath + "owner"},
		{"Front page", o + "/"},
		{"Guide", o + "/docs/guide"},
		{"API reference", o + "/docs"},
	}
}

// pages returns what is served beside the pages of the product.
func (d *Demo) pages() map[string]http.Handler {
	all := map[string]http.Handler{hookPath: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })}
	for _, who := range doors() {
		all[doorPath+who.name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.enter(w, r, who) })
	}
	return all
}

// enter signs a browser in: it does what its owner would do, and hands over the cookies.
func (d *Demo) enter(w http.ResponseWriter, r *http.Request, who door) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	cookies, err := d.session(ctx, who)
	if err != nil {
		d.opts.Log.Warn("a visitor could not be signed in", "error", err.Error())
		http.Error(w, "The demonstration could not sign you in. Wait for half a minute, and open the link again.", http.StatusServiceUnavailable)
		return
	}
	for _, c := range cookies {
		http.SetCookie(w, &http.Cookie{Name: c.Name, Value: c.Value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	}
	http.Redirect(w, r, who.leads, http.StatusSeeOther)
}

// session returns the cookies of a session that is signed in. It uses the last one while that is good, because a code can be
// used only once.
func (d *Demo) session(ctx context.Context, who door) ([]*http.Cookie, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if had := d.sessions[who.name]; had != nil && d.holds(ctx, who, had) {
		return had, nil
	}
	cookies, err := d.signIn(ctx, who.email)
	if err != nil {
		return nil, err
	}
	if d.sessions == nil {
		d.sessions = map[string][]*http.Cookie{}
	}
	d.sessions[who.name] = cookies
	return cookies, nil
}

// holds reports whether the cookies still open the page that the door leads to.
func (d *Demo) holds(ctx context.Context, who door, cookies []*http.Cookie) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.Origin()+who.tries, nil)
	if err != nil {
		return false
	}
	for _, c := range cookies {
		req.AddCookie(c)
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // it follows no redirect
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// signIn signs somebody in with their password and, if it is asked for, a code of their authenticator app.
func (d *Demo) signIn(ctx context.Context, email string) ([]*http.Cookie, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	origin := d.Origin()
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	post := func(path string, form url.Values) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, origin+path, strings.NewReader(form.Encode()))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", origin)
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusSeeOther {
			return "", fmt.Errorf("%s answered %s", path, resp.Status)
		}
		return resp.Header.Get("Location"), nil
	}
	to, err := post("/signin", url.Values{"email": {email}, "password": {d.note.Password}})
	if err == nil && strings.HasPrefix(to, "/signin/code") {
		var code string
		if code, err = totp.GenerateCode(d.note.Code, time.Now()); err == nil {
			_, err = post("/signin/code", url.Values{"code": {code}})
		}
	}
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	return jar.Cookies(u), nil
}
