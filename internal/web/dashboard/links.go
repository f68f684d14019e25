package dashboard

import (
	"net/http"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
)

// linkForm is the data of the page behind a link in a mail.
type linkForm struct {
	Purpose  signin.Purpose
	Token    string
	Email    string
	Plan     account.Plan // that was chosen before signing up; None if there is none
	Problems problems
}

// linkTexts holds the texts of each link's page. A purpose that is not in the map has no page.
var linkTexts = map[signin.Purpose]struct {
	title, lead, button string
	// password reports whether the form asks for a new password.
	password bool
}{
	signin.SignUp: {"Create your account", "Choose a password to create your account.", "Create account", true},
	signin.Invite: {"You are invited", "Choose a password to create your account.", "Create account", true},
	signin.SignIn: {"Sign in", "This link signs you in. It works once.", "Sign in", false},
	signin.Reset:  {"Set a new password", "You will be signed out everywhere else.", "Set password", true},
	signin.Email:  {"Confirm your new address", "From now on, sign in with this address. You will be signed out everywhere else.", "Confirm address", false},
}

// showLink shows what the link does. The link takes effect only when its button is pressed:
// mail scanners open links, too, and would use it up.
func (d *Dashboard) showLink(w http.ResponseWriter, r *http.Request) error {
	f, err := d.linkForm(r)
	if err != nil {
		return err
	}
	return d.ui.Render(w, r, http.StatusOK, linkPage(d.ui.Page(w, r, linkTexts[f.Purpose].title), f))
}

// linkForm reads the link of a request. Peek fails if the token is unknown, used or expired.
func (d *Dashboard) linkForm(r *http.Request) (linkForm, error) {
	f := linkForm{Purpose: signin.Purpose(r.PathValue("purpose")), Token: r.FormValue("token"), Plan: d.chosenPlan(r.FormValue("plan"))}
	if _, known := linkTexts[f.Purpose]; !known {
		return f, fault.New(fault.NotFound, "There is no such page.")
	}
	l, err := d.Logins.Peek(r.Context(), f.Purpose, f.Token)
	if err != nil {
		return f, err
	}
	f.Email = l.Email
	return f, nil
}

// useLink takes effect on the link. A refused password shows the form again; the link is still
// valid then.
func (d *Dashboard) useLink(w http.ResponseWriter, r *http.Request) error {
	f, err := d.linkForm(r)
	if err != nil {
		return err
	}
	// Only an invalid password can be corrected in the form. Other errors become a page.
	err = d.follow(w, r, f)
	if fault.Is(err, fault.Invalid) {
		return again(err, &f.Problems, func(status int) error {
			return d.ui.Render(w, r, status, linkPage(d.ui.Page(w, r, linkTexts[f.Purpose].title), f))
		}, "password")
	}
	return err
}

// follow does what the link is for.
func (d *Dashboard) follow(w http.ResponseWriter, r *http.Request, f linkForm) error {
	ctx, password := r.Context(), r.FormValue("password")
	switch f.Purpose {
	case signin.SignUp, signin.Invite:
		return d.welcome(w, r, f, password)
	case signin.SignIn:
		entry, err := d.Logins.SignInByLink(ctx, f.Token, d.visit(r))
		if err != nil {
			return err
		}
		return d.enter(w, r, entry, home)
	case signin.Reset:
		entry, err := d.Logins.ResetPassword(ctx, f.Token, password, d.visit(r))
		if err != nil {
			return err
		}
		// The password is set even if the sign-in still needs a code, so the message is stored
		// now.
		d.ui.SetFlash(w, "password-set")
		return d.enter(w, r, entry, home)
	case signin.Email:
		v, err := d.visitor(w, r)
		if err != nil {
			return err
		}
		// The link may be opened in another browser than the one that asked for it.
		// ConfirmEmail then gets no session and signs out all of them.
		var session *signin.Session
		if v != nil {
			session = v.session
		}
		if _, err := d.Logins.ConfirmEmail(ctx, f.Token, session); err != nil {
			return err
		}
		return d.seeOther(w, r, home+"/account", "email-changed")
	}
	return fault.New(fault.NotFound, "There is no such page.")
}

// welcome creates the account. The page that follows shows its master key.
func (d *Dashboard) welcome(w http.ResponseWriter, r *http.Request, f linkForm, password string) error {
	made, err := d.Logins.Join(r.Context(), f.Purpose, f.Token, password, d.visit(r))
	if err != nil {
		return err
	}
	return d.greet(w, r, made.Entry, made.MasterKey, f.Plan)
}
