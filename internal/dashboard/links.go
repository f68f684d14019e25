package dashboard

import (
	"context"
	"net/http"

	"sluice/internal/fault"
	"sluice/internal/signin"
)

// linkForm is the page of a link: what it is for, and whom.
type linkForm struct {
	Purpose  signin.Purpose
	Token    string
	Email    string
	Problems problems
}

// linkTexts say what a link's page asks.
var linkTexts = map[signin.Purpose]struct {
	title, lead, button string
	password            bool // the form asks for a new one
}{
	signin.SignUp: {"Confirm your address", "This opens your account.", "Open my account", false},
	signin.Invite: {"You are invited", "Choose a password, and your account is open.", "Open my account", true},
	signin.SignIn: {"Sign in", "This link signs you in, once.", "Sign in", false},
	signin.Reset:  {"Set a new password", "You are signed out everywhere else.", "Set the password", true},
	signin.Email:  {"Confirm your new address", "From now on you sign in with it.", "Use this address", false},
}

// showLink shows what a link does. It does so only when its button is pressed: programs that look at mail
// open links, too.
func (d *Dashboard) showLink(w http.ResponseWriter, r *http.Request) error {
	f := linkForm{Purpose: signin.Purpose(r.PathValue("purpose")), Token: r.FormValue("token")}
	if _, known := linkTexts[f.Purpose]; !known {
		return fault.New(fault.NotFound, "There is no such page.")
	}
	l, err := d.Desk.Peek(r.Context(), f.Purpose, f.Token)
	if err != nil {
		return err
	}
	f.Email = l.Email
	return d.ui.Render(w, r, http.StatusOK, linkPage(d.ui.Page(w, r, linkTexts[f.Purpose].title), f))
}

func (d *Dashboard) useLink(w http.ResponseWriter, r *http.Request) error {
	f := linkForm{Purpose: signin.Purpose(r.PathValue("purpose")), Token: r.FormValue("token")}
	l, err := d.Desk.Peek(r.Context(), f.Purpose, f.Token)
	if err != nil {
		return err
	}
	f.Email = l.Email
	err = d.follow(w, r, f)
	if fault.Is(err, fault.Invalid) {
		var status int
		if f.Problems, status, err = refused(err, "password"); err != nil {
			return err
		}
		return d.ui.Render(w, r, status, linkPage(d.ui.Page(w, r, linkTexts[f.Purpose].title), f))
	}
	return err
}

// follow does what a link is for.
func (d *Dashboard) follow(w http.ResponseWriter, r *http.Request, f linkForm) error {
	ctx := r.Context()
	switch f.Purpose {
	case signin.SignUp:
		return d.welcome(w, r, func(ctx context.Context) (*signin.Welcome, error) { return d.Desk.Confirm(ctx, f.Token, visit(r)) })
	case signin.Invite:
		return d.welcome(w, r, func(ctx context.Context) (*signin.Welcome, error) {
			return d.Desk.Accept(ctx, f.Token, r.FormValue("password"), visit(r))
		})
	case signin.SignIn:
		session, err := d.Desk.SignInByLink(ctx, f.Token, visit(r))
		if err != nil {
			return err
		}
		return d.enter(w, r, session, home)
	case signin.Reset:
		if err := d.Desk.ResetPassword(ctx, f.Token, r.FormValue("password")); err != nil {
			return err
		}
		return d.seeOther(w, r, "/signin", "password-set")
	case signin.Email:
		if _, err := d.Desk.ConfirmEmail(ctx, f.Token); err != nil {
			return err
		}
		return d.seeOther(w, r, home+"/account", "email-changed")
	}
	return fault.New(fault.NotFound, "There is no such page.")
}

// welcome opens an account and shows its master key: in the reply itself, so that it is nowhere else.
func (d *Dashboard) welcome(w http.ResponseWriter, r *http.Request, open func(context.Context) (*signin.Welcome, error)) error {
	made, err := open(r.Context())
	if err != nil {
		return err
	}
	d.ui.SetCookie(w, sessionCookie, made.Session, sessionLife)
	return d.ui.Render(w, r, http.StatusOK, welcomePage(d.ui.Page(w, r, "Welcome"), made.Account.Email, made.MasterKey))
}
