package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/web/front"
	"sluice/internal/web/webui"
)

// journeyCookie holds the state of a sign-in through the identity provider while the browser is there.
const (
	journeyCookie = "journey"
	// planCookie holds the plan that was chosen before, for as long as a journey takes.
	planCookie = "plan"
	// codeCookie holds the token of a first step while the browser shows the form of the second.
	codeCookie = "code"
)

// journeyLife is the time to sign in at the identity provider, codeLife that for the second step. deviceLife is as long
// as sessionLife.
const (
	journeyLife = 10 * time.Minute
	codeLife    = 5 * time.Minute
	deviceLife  = 90 * 24 * time.Hour
)

// Limits in bytes of form values that are shown again or passed on. 254 is the longest address
// that mail can carry (RFC 5321).
const (
	maxEmail = 254
	maxNext  = 512
)

// entryForm is the data of the forms for visitors who are not signed in.
type entryForm struct {
	Email string
	Next  string
	// Provider is the name of the identity provider, or "".
	Provider string
	// Open reports whether anyone may sign up.
	Open bool
	// Plan is the paid plan that the visitor has chosen before; None if it is not known.
	Plan account.Plan
	// Passkeys reports whether the address of the pages allows passkeys.
	Passkeys bool
	// Contact is where somebody asks for an invitation; empty if nobody said where.
	Contact  string
	Problems problems
}

// entryForm reads the form of a request. Without a form it returns an empty one.
func (d *Dashboard) entryForm(r *http.Request) entryForm {
	f := entryForm{Email: r.FormValue("email"), Next: next(r), Open: d.Logins.CurrentSettings().Open, Plan: d.chosenPlan(r.FormValue("plan")), Contact: d.ui.Settings().Support.Address()}
	_, f.Passkeys = d.Logins.PasskeySite()
	if d.Provider != nil {
		f.Provider = d.Provider.Name()
	}
	return f
}

// chosenPlan returns the plan with a name, if it is for sale, and else None. It comes with the address of a page, so it
// may be anything.
func (d *Dashboard) chosenPlan(name string) account.Plan {
	plan, err := account.ParsePlan(name)
	if err != nil || plan <= account.Free || !d.Billing.Sells() {
		return account.None
	}
	return plan
}

// providerPath returns where a sign-up through the identity provider begins.
func providerPath(plan account.Plan) string {
	if plan == account.None {
		return "/signin/provider"
	}
	return "/signin/provider?plan=" + plan.String()
}

// chosen returns the name of the chosen plan; empty if there is none.
func chosen(p account.Plan) string {
	if p == account.None {
		return ""
	}
	return p.String()
}

// shown returns the form for rendering it again. An address that is too long is dropped rather
// than echoed.
func (f entryForm) shown() entryForm {
	if len(f.Email) > maxEmail {
		f.Email = ""
	}
	return f
}

// next returns the path to open after the sign-in. It is always a path of these pages:
// SafePath prevents redirects to other sites.
func next(r *http.Request) string {
	path := r.FormValue("next")
	if len(path) > maxNext {
		path = ""
	}
	if to := webui.SafePath(path, webui.StaffHome); to == path {
		return to
	}
	return webui.SafePath(path, home)
}

// showSignIn shows the form, or the overview to somebody who is signed in already.
func (d *Dashboard) showSignIn(w http.ResponseWriter, r *http.Request) error {
	if v, err := d.visitor(w, r); err != nil || v != nil {
		if err != nil {
			return err
		}
		return d.seeOther(w, r, home, "")
	}
	return d.ui.Render(w, r, http.StatusOK, signInPage(d.signInPage(w, r), d.entryForm(r).shown()))
}

// signInPage returns the page of a sign-in form.
func (d *Dashboard) signInPage(w http.ResponseWriter, r *http.Request) webui.Page {
	p := d.ui.Page(w, r, "Sign in")
	p.Scripts = []string{passkeyScript}
	return p
}

// signInRefused shows the form again with what is wrong.
func (d *Dashboard) signInRefused(w http.ResponseWriter, r *http.Request, f entryForm, err error) error {
	return again(err, &f.Problems, func(status int) error {
		return d.ui.Render(w, r, status, signInPage(d.signInPage(w, r), f.shown()))
	}, "email")
}

// signIn checks the password. The error is the same for an unknown address and a wrong
// password.
func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request) error {
	f := d.entryForm(r)
	entry, err := d.Logins.SignIn(r.Context(), f.Email, r.FormValue("password"), d.visit(r))
	if err != nil {
		return d.signInRefused(w, r, f, err)
	}
	return d.enter(w, r, entry, f.Next)
}

// showCode shows the form of the second step. The cookie of the first one stands for the password that was accepted.
func (d *Dashboard) showCode(w http.ResponseWriter, r *http.Request) error {
	return d.renderCode(w, r, http.StatusOK, "")
}

// renderCode renders the form of the second step, with what is wrong. Without a first step it leads to that.
func (d *Dashboard) renderCode(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	login, err := d.Logins.Pending(r.Context(), d.ui.Cookie(r, codeCookie))
	if fault.Is(err, fault.NotFound) {
		d.ui.DropCookie(w, codeCookie)
		return d.seeOther(w, r, signInPath(next(r)), "code-late")
	}
	if err != nil {
		return err
	}
	return d.ui.Render(w, r, status, codePage(d.signInPage(w, r), login, next(r), problem, d.ui.Settings().Support))
}

// finishSignIn checks the authenticator code, the second step of a sign-in.
func (d *Dashboard) finishSignIn(w http.ResponseWriter, r *http.Request) error {
	token := d.ui.Cookie(r, codeCookie)
	if token == "" {
		return d.seeOther(w, r, signInPath(next(r)), "code-late")
	}
	var entry signin.Entry
	var err error
	if reply := r.FormValue("passkey"); reply != "" {
		entry, err = d.Logins.FinishPasskey(r.Context(), token, reply, d.visit(r))
	} else {
		entry, err = d.Logins.Finish(r.Context(), token, r.FormValue("code"), d.visit(r))
	}
	if err != nil {
		field, text, rest := webui.Complaint(err)
		if rest != nil {
			return rest
		}
		if field == "" && fault.Is(err, fault.Unauthenticated) { // the first step was too long ago
			d.ui.DropCookie(w, codeCookie)
			return d.seeOther(w, r, signInPath(next(r)), "code-late")
		}
		return d.renderCode(w, r, fault.From(err).Kind.Status(), text)
	}
	d.ui.DropCookie(w, codeCookie)
	return d.enter(w, r, entry, next(r))
}

// signInPath returns the path of the sign-in form that leads to next.
func signInPath(next string) string {
	if next == home {
		return "/signin"
	}
	return "/signin?next=" + url.QueryEscape(next)
}

// enter starts the session and redirects to next. If the account has two-step sign-in it asks
// for the code first.
func (d *Dashboard) enter(w http.ResponseWriter, r *http.Request, entry signin.Entry, next string) error {
	if entry.Code != "" {
		d.ui.SetCookie(w, codeCookie, entry.Code, codeLife)
		return d.seeOther(w, r, "/signin/code?next="+url.QueryEscape(next), "")
	}
	d.keep(w, entry)
	return d.seeOther(w, r, next, "")
}

// keep stores the tokens of a new session in the browser's cookies.
func (d *Dashboard) keep(w http.ResponseWriter, entry signin.Entry) {
	d.ui.SetCookie(w, webui.SessionCookie, entry.Session, sessionLife)
	d.ui.SetCookie(w, webui.DeviceCookie, entry.Device, deviceLife)
}

// visit describes where a request comes from. Package signin counts failed attempts by it.
func (d *Dashboard) visit(r *http.Request) signin.Visit {
	return signin.Visit{Remote: r.RemoteAddr, Agent: r.UserAgent(), Device: d.ui.Cookie(r, webui.DeviceCookie)}
}

// signOut ends the session on the server and deletes the cookie. It works without a session,
// too.
func (d *Dashboard) signOut(w http.ResponseWriter, r *http.Request) error {
	v, err := d.visitor(w, r)
	if err != nil {
		return err
	}
	if v != nil {
		if err := d.Logins.SignOut(r.Context(), v.ID, v.session.ID); err != nil {
			return err
		}
	}
	d.ui.DropCookie(w, webui.SessionCookie)
	return d.seeOther(w, r, "/signin", "signed-out")
}

// mailForm returns the handlers of a form at a path that asks for an address, and of which send sends a mail there. The
// reply is the same whether or not the address has an account, so that nobody can find out who has one.
func (d *Dashboard) mailForm(path, title string, page func(webui.Page, entryForm) templ.Component, send func(context.Context, entryForm, signin.Visit) error) (show, post webui.Handler) {
	render := func(w http.ResponseWriter, r *http.Request, status int, f entryForm) error {
		return d.ui.Render(w, r, status, page(d.ui.Page(w, r, title), f.shown()))
	}
	show = func(w http.ResponseWriter, r *http.Request) error {
		if r.URL.Query().Has("sent") {
			return d.showSent(w, r)
		}
		return render(w, r, http.StatusOK, d.entryForm(r))
	}
	post = func(w http.ResponseWriter, r *http.Request) error {
		f := d.entryForm(r)
		if err := send(r.Context(), f, d.visit(r)); err != nil {
			return again(err, &f.Problems, func(status int) error { return render(w, r, status, f) }, "email")
		}
		// A redirect, so that loading the page again sends no second mail.
		d.ui.Keep(w, "", sentPath, webui.Shown{Title: f.Email})
		return d.seeOther(w, r, path+"?sent", "")
	}
	return show, post
}

// sentPath is what the address of a mail is kept for between a form and the page that follows.
const sentPath = "/sent"

// showSent says that a mail was sent.
func (d *Dashboard) showSent(w http.ResponseWriter, r *http.Request) error {
	email := ""
	if kept := d.ui.TakeShown(w, r, "", sentPath); kept != nil {
		email = kept.Title
	}
	return d.ui.Render(w, r, http.StatusOK, sentPage(d.ui.Page(w, r, "Check your e-mail"), email, d.MailIsLogged))
}

// providerBack returns the redirect URL that is registered with the identity provider.
func (d *Dashboard) providerBack() string { return d.ui.Settings().Origin + "/signin/provider/back" }

// beginProvider sends the browser to the identity provider. Knock limits how often one address
// may start, because each start can cost a request to the provider.
func (d *Dashboard) beginProvider(w http.ResponseWriter, r *http.Request) error {
	if d.Provider == nil {
		return fault.New(fault.NotFound, "No identity provider is configured.")
	}
	if err := d.Logins.Knock(r.Context(), d.visit(r)); err != nil {
		return err
	}
	to, journey, err := d.Provider.Begin(r.Context(), d.providerBack())
	if err != nil {
		return err
	}
	d.ui.SetCookie(w, journeyCookie, journey.String(), journeyLife)
	if plan := d.chosenPlan(r.FormValue("plan")); plan != account.None {
		d.ui.SetCookie(w, planCookie, plan.String(), journeyLife)
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// endProvider handles the return from the identity provider. The journey cookie ties the reply
// to the browser that started, and is used once. A verified address without an account opens
// one where sign-up is open; its master key is then shown once.
func (d *Dashboard) endProvider(w http.ResponseWriter, r *http.Request) error {
	journey, ok := signin.ParseJourney(d.ui.Cookie(r, journeyCookie))
	if d.Provider == nil || !ok {
		return fault.New(fault.Invalid, "This sign-in expired or was started in another browser. Start again.")
	}
	plan := d.chosenPlan(d.ui.Cookie(r, planCookie))
	d.ui.DropCookie(w, journeyCookie)
	d.ui.DropCookie(w, planCookie)
	if err := d.Logins.Knock(r.Context(), d.visit(r)); err != nil {
		return err
	}
	email, err := d.Provider.End(r.Context(), d.providerBack(), journey, r.FormValue("state"), r.FormValue("code"))
	if err != nil {
		return err
	}
	entry, masterKey, err := d.Logins.SignInVerified(r.Context(), email, d.visit(r))
	if err != nil {
		return err
	}
	// An existing account. A new one has its master key to show first.
	if masterKey == "" {
		if plan != account.None {
			return d.enter(w, r, entry, home+"/plan")
		}
		return d.enter(w, r, entry, home)
	}
	return d.greet(w, r, entry, masterKey, plan)
}

// welcomePath is the page that shows the master key of a new account.
const welcomePath = home + "/welcome"

// greet starts the first session of an account and leads to the page that shows its master key, and from there to the
// checkout of a plan, unless that is None.
func (d *Dashboard) greet(w http.ResponseWriter, r *http.Request, entry signin.Entry, masterKey string, plan account.Plan) error {
	d.keep(w, entry)
	s, err := d.Logins.Session(r.Context(), entry.Session)
	if err != nil {
		return err
	}
	d.ui.Show(w, s.ID, welcomePath, webui.Shown{Title: "The master key", Secret: masterKey})
	to := welcomePath
	if plan != account.None {
		to += "?plan=" + plan.String()
	}
	return d.seeOther(w, r, to, "")
}

// welcomeView is the data of the first page of a new account. Plan is the one that was chosen before signing up, or None.
type welcomeView struct {
	Email, MasterKey string
	First            []front.Snippet
	Model            string // that the first call asks
	Plan             account.Plan
	Plans            account.Plans
}

// welcomePage shows the master key of a new account. Without one to show it leads to the overview.
func (d *Dashboard) welcomePage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	key := d.ui.TakeShown(w, r, v.session.ID, welcomePath)
	if key == nil {
		return d.seeOther(w, r, home, "")
	}
	p, model := d.ui.Page(w, r, "Welcome"), exampleModel(d.Catalog(), v)
	p.Styles, p.Scripts = []string{"activity.css"}, []string{"activity.js"}
	return d.ui.Render(w, r, http.StatusOK, welcomePage(p, welcomeView{
		Email: v.Email, MasterKey: key.Secret, First: withKey(front.Snippets(d.ui.Settings().Origin, model), key.Secret), Model: model, Plan: d.chosenPlan(r.FormValue("plan")), Plans: d.Plans(),
	}))
}
