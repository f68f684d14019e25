package dashboard

import (
	"net/http"
	"time"

	"sluice/internal/fault"
	"sluice/internal/signin"
	"sluice/internal/webui"
)

// journeyCookie holds the way to an identity provider and back; deviceCookie tells a browser that has signed in
// before from a stranger's.
const (
	journeyCookie = "journey"
	deviceCookie  = "device"
)

const (
	journeyLife = 10 * time.Minute
	deviceLife  = 90 * 24 * time.Hour
)

// What the forms of strangers may hold, in bytes, as far as it is shown again or handed on.
const (
	maxEmail = 254
	maxNext  = 512
)

// entryForm is the sign-in form as it was sent.
type entryForm struct {
	Email    string
	Next     string
	Provider string // name of the identity provider; empty: there is none
	Open     bool   // anybody may sign up
	Problems problems
}

func (d *Dashboard) entryForm(r *http.Request) entryForm {
	f := entryForm{Email: r.FormValue("email"), Next: next(r), Open: d.Desk.CurrentSettings().Open}
	if d.Provider != nil {
		f.Provider = d.Provider.Name()
	}
	return f
}

// shown is the form as its page shows it again: no more of an address than one may have.
func (f entryForm) shown() entryForm {
	if len(f.Email) > maxEmail {
		f.Email = ""
	}
	return f
}

// next is the page that a sign-in leads to.
func next(r *http.Request) string {
	path := r.FormValue("next")
	if len(path) > maxNext {
		path = ""
	}
	return webui.SafePath(path, home)
}

func (d *Dashboard) showSignIn(w http.ResponseWriter, r *http.Request) error {
	if v, err := d.visitor(w, r); err != nil || v != nil {
		if err != nil {
			return err
		}
		return d.seeOther(w, r, home, "")
	}
	return d.ui.Render(w, r, http.StatusOK, signInPage(d.ui.Page(w, r, "Sign in"), d.entryForm(r).shown()))
}

func (d *Dashboard) signIn(w http.ResponseWriter, r *http.Request) error {
	f := d.entryForm(r)
	entry, err := d.Desk.SignIn(r.Context(), f.Email, r.FormValue("password"), d.visit(r))
	if err != nil {
		var status int
		if f.Problems, status, err = refused(err, "email"); err != nil {
			return err
		}
		return d.ui.Render(w, r, status, signInPage(d.ui.Page(w, r, "Sign in"), f.shown()))
	}
	return d.enter(w, r, entry, f.Next)
}

func (d *Dashboard) finishSignIn(w http.ResponseWriter, r *http.Request) error {
	token := r.FormValue("token")
	entry, err := d.Desk.Finish(r.Context(), token, r.FormValue("code"), d.visit(r))
	if err != nil {
		_, text, rest := complaint(err)
		if rest != nil {
			return rest
		}
		return d.ui.Render(w, r, fault.From(err).Kind.Status(), codePage(d.ui.Page(w, r, "Sign in"), token, next(r), text))
	}
	return d.enter(w, r, entry, next(r))
}

// enter gives the browser its session and leads on, or asks for the code first.
func (d *Dashboard) enter(w http.ResponseWriter, r *http.Request, entry signin.Entry, next string) error {
	if entry.Code != "" {
		return d.ui.Render(w, r, http.StatusOK, codePage(d.ui.Page(w, r, "Sign in"), entry.Code, next, ""))
	}
	d.keep(w, entry)
	return d.seeOther(w, r, next, "")
}

// keep gives the browser the tokens of a new session.
func (d *Dashboard) keep(w http.ResponseWriter, entry signin.Entry) {
	d.ui.SetCookie(w, sessionCookie, entry.Session, sessionLife)
	d.ui.SetCookie(w, deviceCookie, entry.Device, deviceLife)
}

// visit is where a request came from.
func (d *Dashboard) visit(r *http.Request) signin.Visit {
	return signin.Visit{Remote: r.RemoteAddr, Agent: r.UserAgent(), Device: d.ui.Cookie(r, deviceCookie)}
}

func (d *Dashboard) signOut(w http.ResponseWriter, r *http.Request) error {
	v, err := d.visitor(w, r)
	if err != nil {
		return err
	}
	if v != nil {
		if err := d.Desk.SignOut(r.Context(), v.ID, v.session.ID); err != nil {
			return err
		}
	}
	d.ui.DropCookie(w, sessionCookie)
	return d.seeOther(w, r, "/signin", "signed-out")
}

func (d *Dashboard) showSignUp(w http.ResponseWriter, r *http.Request) error {
	return d.ui.Render(w, r, http.StatusOK, signUpPage(d.ui.Page(w, r, "Sign up"), d.entryForm(r).shown()))
}

func (d *Dashboard) signUp(w http.ResponseWriter, r *http.Request) error {
	f := d.entryForm(r)
	if err := d.Desk.SignUp(r.Context(), f.Email, d.visit(r)); err != nil {
		var status int
		if f.Problems, status, err = refused(err, "email"); err != nil {
			return err
		}
		return d.ui.Render(w, r, status, signUpPage(d.ui.Page(w, r, "Sign up"), f.shown()))
	}
	return d.ui.Render(w, r, http.StatusOK, sentPage(d.ui.Page(w, r, "Check your mail"), f.Email, d.MailIsLogged))
}

func (d *Dashboard) showReset(w http.ResponseWriter, r *http.Request) error {
	return d.ui.Render(w, r, http.StatusOK, resetPage(d.ui.Page(w, r, "New password"), d.entryForm(r).shown()))
}

func (d *Dashboard) requestReset(w http.ResponseWriter, r *http.Request) error {
	f := d.entryForm(r)
	if err := d.Desk.RequestReset(r.Context(), f.Email, d.visit(r)); err != nil {
		var status int
		if f.Problems, status, err = refused(err, "email"); err != nil {
			return err
		}
		return d.ui.Render(w, r, status, resetPage(d.ui.Page(w, r, "New password"), f.shown()))
	}
	return d.ui.Render(w, r, http.StatusOK, sentPage(d.ui.Page(w, r, "Check your mail"), f.Email, d.MailIsLogged))
}

// providerBack is where the identity provider sends browsers back to.
func (d *Dashboard) providerBack() string { return d.ui.Settings().Origin + "/signin/provider/back" }

func (d *Dashboard) beginProvider(w http.ResponseWriter, r *http.Request) error {
	if d.Provider == nil {
		return fault.New(fault.NotFound, "There is no identity provider here.")
	}
	if err := d.Desk.Knock(d.visit(r)); err != nil {
		return err
	}
	to, journey, err := d.Provider.Begin(r.Context(), d.providerBack())
	if err != nil {
		return err
	}
	d.ui.SetCookie(w, journeyCookie, journey.String(), journeyLife)
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

func (d *Dashboard) endProvider(w http.ResponseWriter, r *http.Request) error {
	journey, ok := signin.ParseJourney(d.ui.Cookie(r, journeyCookie))
	if d.Provider == nil || !ok {
		return fault.New(fault.Invalid, "This sign-in took too long or was begun in another browser. Begin again.")
	}
	d.ui.DropCookie(w, journeyCookie)
	if err := d.Desk.Knock(d.visit(r)); err != nil {
		return err
	}
	email, err := d.Provider.End(r.Context(), d.providerBack(), journey, r.FormValue("state"), r.FormValue("code"))
	if err != nil {
		return err
	}
	entry, masterKey, err := d.Desk.SignInVerified(r.Context(), email, d.visit(r))
	if err != nil {
		return err
	}
	if masterKey == "" {
		return d.enter(w, r, entry, home)
	}
	d.keep(w, entry)
	return d.ui.Render(w, r, http.StatusOK, welcomePage(d.ui.Page(w, r, "Welcome"), email, masterKey))
}
