// Package support serves the support console: the pages on which staff looks after customers and the service.
//
// Each page is a noun with one file of handlers and one of templates, as in package dashboard. A page reads and changes
// everything through operations of package admin, on behalf of the member who is signed in, so that the console, the
// admin API and the command line cannot differ. Who is a member is decided by package staff.
package support

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/account/staff"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/turnstile"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// Sources holds what the console works with. All fields are required.
type Sources struct {
	Logins *signin.Service
	Roster *staff.Roster
	// Account returns the current state of an account, or nil if there is none with this id.
	Account func(id string) *account.Account
	Admin   *admin.Service
	// Docs searches the documentation.
	Docs func(query string) webui.Findings
	// Reads bounds how many pages of one member are made at once. If nil, nothing does.
	Reads *turnstile.Gate
}

// Console serves the pages. It has no state of its own: any number of requests may run at the same time.
type Console struct {
	Sources
	ui  *webui.UI
	ops *admin.Operations
}

// New returns a Console.
func New(ui *webui.UI, sources Sources) *Console {
	return &Console{Sources: sources, ui: ui, ops: admin.Ops()}
}

// member is the member of staff who is signed in. The account is a shared snapshot: handlers must not change it.
type member struct {
	*account.Account
	session *signin.Session
}

// caller returns the member as the caller of operations.
func (m *member) caller() admin.Caller {
	return admin.Caller{Actor: admin.Actor(m.Account), AccountID: m.ID}
}

// run runs an operation for a member.
func run[In, Out any](c *Console, r *http.Request, m *member, op admin.Op[In, Out], in In) (Out, error) {
	return op.Run(r.Context(), c.Admin, m.caller(), in)
}

// read runs an operation for a member and keeps its result, as one of the reads that a page makes together.
func read[In, Out any](c *Console, m *member, op admin.Op[In, Out], in In, to *Out) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		*to, err = op.Run(ctx, c.Admin, m.caller(), in)
		return err
	}
}

// together makes reads at the same time. It returns the first error.
func together(ctx context.Context, reads ...func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, read := range reads {
		g.Go(func() error { return read(ctx) })
	}
	return g.Wait()
}

// again is a form that is shown again because it was refused. The zero value is none.
type again struct {
	Form     string     // which one of the page
	Typed    url.Values // what it had
	Problems webui.Problems
}

// typed returns what was typed into a field of a form that was refused, or the given text.
func (a *again) typed(form, field, otherwise string) string {
	if a.Form == form && a.Typed.Has(field) {
		return a.Typed.Get(field)
	}
	return otherwise
}

// wrong returns what is wrong with a field of a form, or "".
func (a *again) wrong(form, field string) string {
	if a.Form != form {
		return ""
	}
	return a.Problems[field]
}

// confirmPath takes the code of the second factor.
const confirmPath = home + "/confirm"

// visitor returns who is signed in and what they lack to be a member. It returns nil if nobody is signed in.
func (c *Console) visitor(r *http.Request) (*member, staff.Access, error) {
	s, err := c.Logins.Session(r.Context(), c.ui.Cookie(r, webui.SessionCookie))
	if fault.Is(err, fault.Unauthenticated) {
		return nil, staff.Stranger, nil
	}
	if err != nil {
		return nil, staff.Stranger, err
	}
	a := c.Account(s.AccountID)
	if a == nil {
		return nil, staff.Stranger, nil
	}
	access, err := c.Roster.Access(r.Context(), a, s)
	return &member{a, s}, access, err
}

// staff wraps a page so that only members reach it. Somebody who is not signed in is sent to the sign-in page, a
// customer learns nothing, and a member who has not proved a second factor is asked for it.
func (c *Console) staff(p page) webui.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		m, access, err := c.visitor(r)
		switch {
		case err != nil:
			return err
		case m == nil:
			return c.toSignIn(w, r)
		case access == staff.Member:
			leave, err := c.Reads.Enter(r.Context(), m.ID)
			if err != nil {
				return err
			}
			defer leave()
			return p(w, r, m)
		case access == staff.Stranger:
			return nothingHere()
		case webui.Swapping(r): // a part of a page cannot ask: the whole page does
			w.Header().Set("HX-Refresh", "true")
			w.WriteHeader(http.StatusForbidden)
			return nil
		case access == staff.NoFactor:
			return c.ui.Render(w, r, http.StatusForbidden, factorPage(c.ui.Page(w, r, "Turn on two-step sign-in")))
		}
		next := home
		if r.Method == http.MethodGet {
			next = r.URL.EscapedPath()
		}
		return c.ui.Render(w, r, http.StatusForbidden, confirmPage(c.ui.Page(w, r, "Confirm that it is you"), next, ""))
	}
}

// toSignIn sends somebody who is not signed in to the sign-in page, which leads back here.
func (c *Console) toSignIn(w http.ResponseWriter, r *http.Request) error {
	to := "/signin"
	if r.Method == http.MethodGet && !webui.Swapping(r) {
		to += "?next=" + r.URL.EscapedPath()
	}
	// htmx follows a plain redirect and would put the sign-in page into a part of this page.
	if webui.Swapping(r) {
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusUnauthorized)
		return nil
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// confirm checks a code of the second factor. Until it is right, the member sees nothing of the console.
func (c *Console) confirm(w http.ResponseWriter, r *http.Request) error {
	m, access, err := c.visitor(r)
	switch {
	case err != nil:
		return err
	case m == nil:
		return c.toSignIn(w, r)
	case access == staff.Stranger:
		return nothingHere()
	case access == staff.NoFactor:
		return c.ui.Render(w, r, http.StatusForbidden, factorPage(c.ui.Page(w, r, "Turn on two-step sign-in")))
	}
	next := webui.SafePath(r.FormValue("next"), home)
	visit := signin.Visit{Remote: r.RemoteAddr, Agent: r.UserAgent(), Device: c.ui.Cookie(r, webui.DeviceCookie)}
	err = c.Logins.Confirm(r.Context(), signin.Owner{Account: m.Account, Session: m.session, Visit: visit, Code: r.FormValue("code")})
	if err != nil {
		_, text, rest := webui.Complaint(err)
		if rest != nil {
			return rest
		}
		return c.ui.Render(w, r, fault.From(err).Kind.Status(), confirmPage(c.ui.Page(w, r, "Confirm that it is you"), next, text))
	}
	return c.seeOther(w, r, next, "")
}

// frame returns the frame around a page: navigation and who is signed in.
func (c *Console) frame(w http.ResponseWriter, r *http.Request, m *member, title string) webui.Page {
	p := c.ui.Page(w, r, title)
	p.Home, p.Part, p.Person, p.Links = home, "Support", m.Email, c.links()
	p.Styles, p.Scripts = []string{"console.css"}, []string{"console.js"}
	p.Find, p.FindHint = findPath, "Search pages, accounts, requests, tickets and docs"
	for _, l := range p.Links {
		if strings.HasPrefix(r.URL.Path, l.Path+"/") {
			p.Path = l.Path // a page below the one of the link
		}
	}
	return p
}

// homePage leads to the first page of the navigation.
func (c *Console) homePage(w http.ResponseWriter, r *http.Request, _ *member) error {
	return c.seeOther(w, r, c.links()[0].Path, "")
}

// seeOther redirects after a form was processed. flash is the name of a message in package webui that the next page
// shows, or "".
func (c *Console) seeOther(w http.ResponseWriter, r *http.Request, path, flash string) error {
	if flash != "" {
		path, _, _ = strings.Cut(path, "#") // the message is at the top of the page
		c.ui.SetFlash(w, flash)
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}
