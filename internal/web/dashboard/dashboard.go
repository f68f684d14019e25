// Package dashboard serves the customer's pages: sign-up and sign-in, keys, activity, budgets, sessions, models, the
// playground, videos, plan and billing, messages, webhooks, and the account.
//
// Each page is a noun with one file of handlers and one of templates. A handler reads a form,
// calls the same package that the API and the command line call, and renders the result. The
// pages that use the API (playground, videos) call it through /dashboard/v1, where the
// visitor's session replaces a key; see docs/decisions/0011-dashboard.md. What all pages share
// is in package webui.
package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/sharing"
	"sluice/internal/account/signin"
	"sluice/internal/api/httpapi"
	"sluice/internal/api/responses"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/turnstile"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/activity"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/misses"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/session"
	"sluice/internal/ledger/usage"
	"sluice/internal/ledger/whatif"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/ticket"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/front"
	"sluice/internal/web/webui"
)

// actor names the account's owner in the audit log.
const actor = "owner"

// Usage reads recorded usage. Every method returns the rows of one account only.
type Usage interface {
	// UsageBy returns an account's usage, summed by day, model or key.
	UsageBy(ctx context.Context, q usage.Query) ([]usage.Row, error)
	// RecentSettlements returns an account's calls before a point in time, newest first, at
	// most limit of them.
	RecentSettlements(ctx context.Context, accountID string, before usage.Point, limit int) ([]usage.Settlement, error)
	// UsageByDay returns an account's sums by day, key and model, starting with the day of
	// from.
	UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error)
	// RoutedCalls returns what an account's calls to the router became, by the model that answered.
	RoutedCalls(ctx context.Context, accountID, asked string, from time.Time) ([]usage.Routed, error)
}

// Sources holds the packages that the pages read from and write to. All fields are required
// unless they say otherwise.
type Sources struct {
	Logins *signin.Service
	// Stored calls each with the responses that are stored of the account's requests, in their order, up to a number of bytes.
	// It holds one at a time, for which it calls take. Nil: none is stored.
	Stored func(ctx context.Context, accountID string, requestIDs []string, most int64, take responses.Take, each func(stored []byte) error) error
	// Shares are the conversations that customers show to others.
	Shares *sharing.Shares
	// Forget deletes what is stored of an account's conversations; nil: nothing is.
	Forget func(ctx context.Context, accountID string) error
	// Docs searches the documentation.
	Docs func(query string) webui.Findings
	// Provider is the identity provider, or nil if there is none.
	Provider *signin.Provider
	Accounts *account.Accounts
	// Account returns the current state of an account, or nil if there is none with this id.
	Account func(id string) *account.Account
	// LastUsed returns when this process last saw a key, or the zero time if it has not.
	LastUsed func(k *account.Key) time.Time
	Plans    func() account.Plans
	Catalog  func() *catalog.Catalog
	Ledger   admission.Ledger
	Abuse    *abuse.Control
	Usage    Usage
	Activity *activity.Log
	// Misses says why calls did not find their prompts in caches.
	Misses   *misses.Log
	WhatIf   *whatif.Calculator
	Costs    *costs.Costs
	Refusals activity.Refusals
	Notices  *notice.Notices
	Tickets  *ticket.Office
	Billing  *billing.Billing
	Receipts *receipt.Log
	Hooks    *alert.Hooks
	Sessions *session.Log
	Budgets  Budgets
	// Raise adds to the budget of a session, and returns all that was added to it.
	Raise func(ctx context.Context, accountID, count string, by price.Nano) (price.Nano, error)
	// Flush stores what calls have cost that have just ended, if that can be done quickly.
	Flush func(ctx context.Context)
	// API returns the API's handler. It is a function because the API is built after the
	// pages.
	API func() *httpapi.API
	// Reads bounds how many pages of one account are made at once. If nil, nothing does.
	Reads *turnstile.Gate
	// Shelf knows what pages show of models.
	Models *front.ModelInfo
	// MailIsLogged reports whether mails are written to the server log because no mail server
	// is configured. Pages then tell the reader where to find the link.
	MailIsLogged bool
	// VideoModel returns the id of the model that creates videos.
	VideoModel func() string
	// VideosKept is how long videos are kept.
	VideosKept func() time.Duration
}

// Dashboard serves the pages. It has no state of its own: any number of requests may run at
// the same time.
type Dashboard struct {
	Sources
	ui *webui.UI
}

// New returns a Dashboard.
func New(ui *webui.UI, sources Sources) *Dashboard { return &Dashboard{Sources: sources, ui: ui} }

// visitor is the account that is signed in and the session it uses. The account is a shared
// snapshot: handlers must not change it.
type visitor struct {
	*account.Account
	session *signin.Session
}

// page is a handler for requests of a signed-in visitor. The visitor is never nil.
type page func(w http.ResponseWriter, r *http.Request, v *visitor) error

// sessionLife is how long a browser keeps the cookie. The session itself may end earlier, on
// the server.
const sessionLife = 90 * 24 * time.Hour

// visitor returns who is signed in, or nil if nobody is. A cookie whose session has ended is
// deleted.
func (d *Dashboard) visitor(w http.ResponseWriter, r *http.Request) (*visitor, error) {
	token := d.ui.Cookie(r, webui.SessionCookie)
	if token == "" {
		return nil, nil
	}
	// Session fails with Unauthenticated if the token is unknown, expired or signed out. Any
	// other error means that we do not know, and must not sign anybody out.
	s, err := d.Logins.Session(r.Context(), token)
	if fault.Is(err, fault.Unauthenticated) {
		d.ui.DropCookie(w, webui.SessionCookie)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// The account may have been closed while its session was still open.
	if a := d.Account(s.AccountID); a != nil {
		return &visitor{a, s}, nil
	}
	return nil, nil
}

// SignedIn reports whether the visitor has a session.
func (d *Dashboard) SignedIn(w http.ResponseWriter, r *http.Request) (bool, error) {
	v, err := d.visitor(w, r)
	return v != nil, err
}

// private wraps a page so that only signed-in visitors reach it. Others are sent to the
// sign-in page, which leads back here.
func (d *Dashboard) private(p page) webui.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := d.visitor(w, r)
		if err != nil {
			return err
		}
		if v != nil {
			leave, err := d.Reads.Enter(r.Context(), v.ID)
			if err != nil {
				return gone(r, err)
			}
			defer leave()
			return p(w, r, v)
		}
		// A form cannot be repeated, and a part of a page is not a page: whoever sent one comes back to its page.
		back := r.URL.RequestURI()
		switch {
		case webui.Swapping(r):
			back = pathOf(r.Header.Get("HX-Current-URL"))
		case r.Method != http.MethodGet:
			back = pageOf(r.URL.Path)
		}
		to := signInPath(webui.SafePath(back, home))
		if d.ui.Cookie(r, webui.SessionCookie) != "" {
			d.ui.SetFlash(w, "session-ended")
		}
		// htmx follows a plain redirect and would put the sign-in page into a part of this
		// page. HX-Redirect makes it load the whole page.
		if webui.Swapping(r) {
			w.Header().Set("HX-Redirect", to)
			w.WriteHeader(http.StatusUnauthorized)
			return nil
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	}
}

// counted wraps a form so that an account can send only a limited number of them; see signin.Service.CountForm.
func (d *Dashboard) counted(p page, pays bool) page {
	return func(w http.ResponseWriter, r *http.Request, v *visitor) error {
		if err := d.Logins.CountForm(r.Context(), v.ID, pays); err != nil {
			return err
		}
		return p(w, r, v)
	}
}

// gone returns the error of a request that waited for its turn. Who has left in the meantime needs no page.
func gone(r *http.Request, err error) error {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	return err
}

// pathOf returns the path and the query of an address of these pages, or "".
func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.RequestURI()
}

// pageOf returns the path of the page that a form belongs to: /dashboard/keys of /dashboard/keys/x/delete. On the account
// page it is that of the dialog: /dashboard/account?totp of /dashboard/account/totp/enrol.
func pageOf(path string) string {
	rest, ok := strings.CutPrefix(path, home+"/")
	if !ok {
		return home
	}
	noun, rest, _ := strings.Cut(rest, "/")
	dialog, _, _ := strings.Cut(rest, "/")
	if path := home + "/" + noun; path != accountPath || !slices.Contains(accountDialogNames, dialog) {
		return path
	}
	return accountDialog(dialog)
}

// backToPage leads from the address of a form to its page: a browser that loads the address again, or a reader who
// opens it from the history, must not end at an error.
func (d *Dashboard) backToPage(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	return d.seeOther(w, r, pageOf(r.URL.Path), "")
}

// frame returns the frame around a page for a signed-in visitor: navigation, banner and unread
// messages.
func (d *Dashboard) frame(w http.ResponseWriter, r *http.Request, v *visitor, title string) webui.Page {
	p := d.ui.Page(w, r, title)
	p.Person = v.Email
	unread, err := d.Notices.Unread(r.Context(), v.ID)
	if err != nil {
		// If the database is down, the page itself reports it.
		unread = 0
	}
	if n, err := d.Tickets.Unread(r.Context(), v.ID); err == nil {
		unread += n
	}
	p.Links = v.links()
	for i := range p.Links {
		if p.Links[i].Path == home+"/messages" {
			p.Links[i].Count = unread
		}
	}
	p.Find, p.FindHint = findPath, "Search pages, keys, models, requests and docs"
	for _, l := range p.Links {
		if l.Path != home && strings.HasPrefix(r.URL.Path, l.Path+"/") {
			// The page after a form, such as /dashboard/keys/x/name, belongs to the page of
			// the form.
			p.Path = l.Path
		}
	}
	p.Banner = d.banner(r, v)
	return p
}

// links returns the navigation, in its order.
func (v *visitor) links() []webui.Link {
	const build, usage, owner = "Build", "Usage", "Account"
	list := []webui.Link{
		{Path: home, Text: "Overview", Icon: "overview", Words: "home start limits allowance"},
		{Path: home + "/keys", Text: "Keys", Icon: "keys", Group: build, Words: "api key master sub-key token"},
		{Path: home + "/models", Text: "Models", Icon: "models", Group: build, Words: "prices context"},
		{Path: home + "/playground", Text: "Playground", Icon: "playground", Group: build, Words: "chat try prompt compare"},
		{Path: home + "/videos", Text: "Videos", Icon: "videos", Group: build, Words: "generate clip"},
		{Path: home + "/webhooks", Text: "Webhooks", Icon: "webhooks", Group: build, Words: "events endpoint notifications"},
		{Path: home + "/activity", Text: "Activity", Icon: "usage", Group: usage, Words: "usage requests log errors latency export csv"},
		{Path: sessionsPath, Text: "Sessions", Icon: "sessions", Group: usage, Words: "agents runs tags"},
		{Path: budgetsPath, Text: "Budgets", Icon: "budgets", Group: usage, Words: "spending limit runaway"},
		{Path: home + "/plan", Text: "Plan and billing", Icon: "plan", Group: owner, Words: "invoice payment card upgrade subscription cancel"},
		{Path: home + "/messages", Text: "Messages", Icon: "messages", Group: owner, Words: "support contact help ticket"},
		{Path: home + "/account", Text: "Account", Icon: "account", Group: owner, Words: "settings password e-mail passkey two-step sign-in security close export"},
	}
	if v.Staff {
		list = append(list, webui.Link{Path: webui.StaffHome, Text: "Support console", Icon: "support"})
	}
	return list
}

// banner returns the warning above every page while something is wrong with the account, or
// nil. The most serious problem comes first.
func (d *Dashboard) banner(r *http.Request, v *visitor) *webui.Banner {
	switch {
	// A terminated account is also suspended, so this case comes first.
	case v.Suspended != nil && v.Suspended.Final:
		return &webui.Banner{Tone: "bad", Text: "Your account was terminated: " + v.Suspended.Reason + ". Requests are refused.", Path: home + "/messages/new", Link: "Contact support"}
	case v.Suspended != nil:
		return &webui.Banner{Tone: "bad", Text: "Your account is suspended: " + v.Suspended.Reason + ". Requests are refused until support unlocks it.", Path: home + "/messages/new", Link: "Contact support"}
	case v.Deactivated != nil:
		return &webui.Banner{Tone: "bad", Text: "Your keys are switched off: " + v.Deactivated.Reason + ". Support can restore them.", Path: home + "/messages/new?kind=restore", Link: "Contact support"}
	}
	// Only a subscription can be past due, and the plan page itself says more about it.
	if v.Plan < account.Basic || v.Granted || r.URL.Path == home+"/plan" {
		return nil
	}
	if b, err := d.Billing.Show(r.Context(), v.ID); err == nil && b.Status() == billing.PastDue {
		return &webui.Banner{Tone: "warn", Text: "Your last payment failed. Pay now to keep your plan.", Path: home + "/plan", Link: "Plan and billing"}
	}
	return nil
}

// seeOther redirects after a form was processed, so that a reload does not send the form
// again. flash is the name of a message in package webui that the next page shows, or "".
func (d *Dashboard) seeOther(w http.ResponseWriter, r *http.Request, path, flash string) error {
	if flash != "" {
		path, _, _ = strings.Cut(path, "#") // the message is at the top of the page
		d.ui.SetFlash(w, flash)
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}

// problems are what is wrong with a form; see webui.Refused.
type problems = webui.Problems

// again shows a form again after err. It puts what is wrong with it into to, and calls show with the status of the page.
// fields are those of webui.Refused.
func again(err error, to *problems, show func(status int) error, fields ...string) error {
	wrong, status, err := webui.Refused(err, fields...)
	if err != nil {
		return err
	}
	*to = wrong
	return show(status)
}
