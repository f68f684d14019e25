// Package dashboard is the customer's pages: signing up and in, keys, usage, models, the playground, videos,
// plan and billing, messages, the account itself.
//
// A page is a noun with a file of handlers and a file of templates. A handler reads a form, calls the
// capability that the API and the command line call as well, and renders what came of it. The pages that
// talk to the API (playground, videos) do so through /dashboard/v1, where the visitor's session stands in
// for a key; see docs/decisions/0011-dashboard.md. What pages have in common is package webui's.
package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"sluice/internal/abuse"
	"sluice/internal/account"
	"sluice/internal/admission"
	"sluice/internal/auth"
	"sluice/internal/billing"
	"sluice/internal/catalog"
	"sluice/internal/fault"
	"sluice/internal/httpapi"
	"sluice/internal/notice"
	"sluice/internal/signin"
	"sluice/internal/usage"
	"sluice/internal/webui"
)

// actor is who the audit log names for what an account's owner does here.
const actor = "owner"

// Usage is what the pages read of the books.
type Usage interface {
	// UsageBy adds up an account's usage by one of day, model and key.
	UsageBy(ctx context.Context, q usage.Query) ([]usage.Row, error)
	// RecentSettlements returns an account's last calls before a point, newest first.
	RecentSettlements(ctx context.Context, accountID string, before usage.Point, limit int) ([]usage.Settlement, error)
	// UsageByDay returns an account's sums by day, key and model, from a day on.
	UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error)
}

// API is the front door, for requests that a session stands behind.
type API interface {
	ServeAs(caller auth.Caller, w httpapi.Exchange, r *http.Request)
}

// Sources are what the pages show and change.
type Sources struct {
	Desk     *signin.Desk
	Provider *signin.Provider // nil: there is no identity provider
	Accounts *account.Accounts
	// Account is the present state of an account, or nil.
	Account func(id string) *account.Account
	// LastUsed is when this process last saw a key; zero: never.
	LastUsed func(k *account.Key) time.Time
	Plans    func() account.Plans
	Catalog  func() *catalog.Catalog
	Ledger   admission.Ledger
	Abuse    *abuse.Control
	Usage    Usage
	Notices  *notice.Board
	Billing  *billing.Billing
	// API is asked for when a request comes: it is made after the pages.
	API func() API
	// Health says in a few words how well a model is; empty: not known. May be nil.
	Health func(m *catalog.Model) string
	// MailIsLogged says that links are in the server's log because no mail server is set up.
	MailIsLogged bool
	// VideoModel is the id of the model that makes videos.
	VideoModel func() string
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Dashboard answers the customer's requests.
type Dashboard struct {
	Sources
	ui  *webui.UI
	now func() time.Time
}

// New returns the pages.
func New(ui *webui.UI, sources Sources, opts *Options) *Dashboard {
	d := &Dashboard{Sources: sources, ui: ui, now: time.Now}
	if opts != nil && opts.Now != nil {
		d.now = opts.Now
	}
	return d
}

// visitor is who looks at a page.
type visitor struct {
	*account.Account
	session *signin.Session
}

// page is a handler for somebody who is signed in.
type page func(w http.ResponseWriter, r *http.Request, v *visitor) error

// sessionCookie holds the token of a session.
const sessionCookie = "session"

// sessionLife is how long a browser keeps the cookie; the session itself may end before.
const sessionLife = 90 * 24 * time.Hour

// visitor finds who is signed in; nil: nobody.
func (d *Dashboard) visitor(w http.ResponseWriter, r *http.Request) (*visitor, error) {
	token := d.ui.Cookie(r, sessionCookie)
	if token == "" {
		return nil, nil
	}
	s, err := d.Desk.Session(r.Context(), token)
	if fault.Is(err, fault.Unauthenticated) {
		d.ui.DropCookie(w, sessionCookie)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if a := d.Account(s.AccountID); a != nil {
		return &visitor{a, s}, nil
	}
	return nil, nil
}

// private asks whoever is not signed in to do so first, and leads back.
func (d *Dashboard) private(p page) webui.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := d.visitor(w, r)
		if err != nil {
			return err
		}
		if v != nil {
			return p(w, r, v)
		}
		to := "/signin"
		if r.Method == http.MethodGet && !webui.Swapping(r) && r.URL.Path != home {
			to += "?next=" + r.URL.EscapedPath()
		}
		if webui.Swapping(r) {
			w.Header().Set("HX-Redirect", to)
			w.WriteHeader(http.StatusUnauthorized)
			return nil
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	}
}

// frame is the frame of a page for a visitor.
func (d *Dashboard) frame(w http.ResponseWriter, r *http.Request, v *visitor, title string) webui.Page {
	p := d.ui.Page(w, r, title)
	p.Person = v.Email
	unread, err := d.Notices.Unread(r.Context(), v.ID)
	if err != nil {
		unread = 0 // the page itself says more where the database is away
	}
	p.Links = []webui.Link{
		{Path: home, Text: "Overview", Icon: "overview"},
		{Path: home + "/keys", Text: "Keys", Icon: "keys"},
		{Path: home + "/usage", Text: "Usage", Icon: "usage"},
		{Path: home + "/models", Text: "Models", Icon: "models"},
		{Path: home + "/playground", Text: "Playground", Icon: "playground"},
		{Path: home + "/videos", Text: "Videos", Icon: "videos"},
		{Path: home + "/plan", Text: "Plan and billing", Icon: "plan"},
		{Path: home + "/messages", Text: "Messages", Icon: "messages", Count: unread},
		{Path: home + "/account", Text: "Account", Icon: "account"},
	}
	for _, l := range p.Links {
		if l.Path != home && strings.HasPrefix(r.URL.Path, l.Path+"/") {
			p.Path = l.Path // a form's answer belongs to the page of the form
		}
	}
	p.Banner = d.banner(r, v)
	return p
}

// banner is what stands above every page while something is wrong with an account.
func (d *Dashboard) banner(r *http.Request, v *visitor) *webui.Banner {
	switch {
	case v.Suspended != nil && v.Suspended.Final:
		return &webui.Banner{Tone: "bad", Text: "Your account was terminated: " + v.Suspended.Reason + ". Requests are refused.", Path: home + "/messages", Link: "Messages"}
	case v.Suspended != nil:
		return &webui.Banner{Tone: "bad", Text: "Your account is suspended: " + v.Suspended.Reason + ". Requests are refused until support unlocks it.", Path: home + "/messages", Link: "Messages"}
	case v.Deactivated != nil:
		return &webui.Banner{Tone: "bad", Text: "Your keys are switched off: " + v.Deactivated.Reason + ". Support can restore them.", Path: home + "/messages", Link: "Messages"}
	}
	if v.Plan < account.Basic || v.Granted || r.URL.Path == home+"/plan" { // that page says more
		return nil
	}
	if b, err := d.Billing.Show(r.Context(), v.ID); err == nil && b.Status() == billing.PastDue {
		return &webui.Banner{Tone: "warn", Text: "Your last payment failed. Pay now to keep your plan.", Path: home + "/plan", Link: "Plan and billing"}
	}
	return nil
}

// seeOther leads on after a form.
func (d *Dashboard) seeOther(w http.ResponseWriter, r *http.Request, path, flash string) error {
	if flash != "" {
		d.ui.SetFlash(w, flash)
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
	return nil
}

// complaint splits an error into what belongs to one field of a form and what to the form; any other error
// is returned.
func complaint(err error) (field, text string, rest error) {
	if err == nil {
		return "", "", nil
	}
	f := fault.From(err)
	switch f.Kind {
	case fault.Internal, fault.Unavailable:
		return "", "", err
	}
	return f.Param, sentence(f.Message), nil
}

// sentence is a message with a capital and a full stop, as pages write.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if c := text[0]; c >= 'a' && c <= 'z' {
		text = string(c-'a'+'A') + text[1:]
	}
	if last := text[len(text)-1]; last != '.' && last != '!' && last != '?' {
		text += "."
	}
	return text
}

// problems is what is wrong with a form, by field; the empty field is the form itself.
type problems map[string]string

// refused shows a form again with what is wrong with it; fields are those the form has.
func refused(err error, fields ...string) (problems, int, error) {
	field, text, rest := complaint(err)
	if rest != nil {
		return nil, 0, rest
	}
	status := fault.From(err).Kind.Status()
	for _, f := range fields {
		if f == field {
			return problems{field: text}, status, nil
		}
	}
	return problems{"": text}, status, nil
}
