package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
	"sluice/internal/signin"
)

// accountView is what the account's page shows.
type accountView struct {
	Account     *account.Account
	HasPassword bool
	TOTPOn      bool
	Demand      signin.Demand     // what the forms must come with
	Enrolment   *signin.Enrolment // a second factor on its way
	Sessions    []signin.Session
	Here        string // the id of this browser's session
	Email       string // a new one, as it was typed
	Form        string // the form that Problems is about
	Problems    problems
	Now         time.Time
}

func (d *Dashboard) accountPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.showAccount(w, r, v, http.StatusOK, accountView{})
}

func (d *Dashboard) showAccount(w http.ResponseWriter, r *http.Request, v *visitor, status int, view accountView) error {
	login, err := d.Desk.Login(r.Context(), v.ID)
	if err != nil {
		return err
	}
	if view.Sessions, err = d.Desk.Sessions(r.Context(), v.ID); err != nil {
		return err
	}
	view.Account, view.HasPassword, view.TOTPOn, view.Here, view.Now = v.Account, login.Password != "", login.TOTPOn, v.session.ID, d.now()
	view.Demand = d.Desk.Demand(login, v.session)
	return d.ui.Render(w, r, status, accountPage(d.frame(w, r, v, "Account"), view))
}

// accountRefused shows the page again with what is wrong with one of its forms.
func (d *Dashboard) accountRefused(w http.ResponseWriter, r *http.Request, v *visitor, view accountView, err error, fields ...string) error {
	var status int
	if view.Problems, status, err = refused(err, fields...); err != nil {
		return err
	}
	return d.showAccount(w, r, v, status, view)
}

// owner is who changes the account, and what they typed to prove that it is theirs.
func (d *Dashboard) owner(r *http.Request, v *visitor) signin.Owner {
	return signin.Owner{Account: v.Account, Session: v.session, Visit: d.visit(r), Password: r.FormValue("current"), Code: r.FormValue("proof")}
}

func (d *Dashboard) changeEmail(w http.ResponseWriter, r *http.Request, v *visitor) error {
	email := r.FormValue("email")
	if err := d.Desk.RequestEmail(r.Context(), d.owner(r, v), email); err != nil {
		view := accountView{Form: "email"}
		if len(email) <= maxEmail {
			view.Email = email
		}
		return d.accountRefused(w, r, v, view, err, "email", "current", "code")
	}
	return d.seeOther(w, r, home+"/account", "email-sent")
}

func (d *Dashboard) changePassword(w http.ResponseWriter, r *http.Request, v *visitor) error {
	err := d.Desk.ChangePassword(r.Context(), d.owner(r, v), r.FormValue("password"))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "password"}, err, "password", "current", "code")
	}
	return d.seeOther(w, r, home+"/account", "password-changed")
}

func (d *Dashboard) enrolTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	enrolment, err := d.Desk.Enrol(r.Context(), d.owner(r, v), d.ui.Settings().Brand)
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err, "current", "code")
	}
	return d.showAccount(w, r, v, http.StatusOK, accountView{Enrolment: enrolment})
}

func (d *Dashboard) activateTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Desk.Activate(r.Context(), d.owner(r, v), r.FormValue("code")); err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err)
	}
	return d.seeOther(w, r, home+"/account", "totp-on")
}

func (d *Dashboard) removeTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Desk.RemoveTOTP(r.Context(), d.owner(r, v)); err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err, "current", "code")
	}
	return d.seeOther(w, r, home+"/account", "totp-off")
}

func (d *Dashboard) closeSession(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Desk.SignOut(r.Context(), v.ID, r.PathValue("id")); err != nil {
		return err
	}
	return d.seeOther(w, r, home+"/account", "session-closed")
}

func (d *Dashboard) closeOtherSessions(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Desk.SignOutEverywhere(r.Context(), v.ID, v.session.ID); err != nil {
		return err
	}
	return d.seeOther(w, r, home+"/account", "sessions-closed")
}

// closeAccount ends the account for good on its owner's word: its subscription, its keys, the way in. What
// it consumed stays on the books.
func (d *Dashboard) closeAccount(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ctx := r.Context()
	if err := d.mayClose(ctx, v, d.owner(r, v), r.FormValue("email")); err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "close"}, err, "current", "code", "email")
	}
	if err := d.Billing.EndNow(ctx, actor, v.ID, "the account is closed"); err != nil {
		return err
	}
	if _, err := d.Accounts.Close(ctx, actor, v.ID); err != nil {
		return err
	}
	if err := d.Desk.Erase(ctx, v.ID); err != nil {
		return err
	}
	d.ui.DropCookie(w, sessionCookie)
	return d.seeOther(w, r, "/signin", "account-closed")
}

func (d *Dashboard) mayClose(ctx context.Context, v *visitor, o signin.Owner, email string) error {
	if v.Staff {
		return fault.New(fault.Conflict, "An account of staff cannot be closed here.")
	}
	if typed, err := account.ParseEmail(email); err != nil || typed != v.Email {
		return fault.New(fault.Invalid, "Type the address of your account to close it.").At("email")
	}
	return d.Desk.Prove(ctx, signin.CloseAccount, o)
}

// problem is what is wrong with a field of one of the page's forms.
func (v *accountView) problem(form, field string) string {
	if v.Form != form {
		return ""
	}
	return v.Problems[field]
}

// browser is what people call the program behind a user agent.
func browser(agent string) string {
	name := "Unknown browser"
	for _, known := range [][2]string{{"Firefox/", "Firefox"}, {"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"}} {
		if strings.Contains(agent, known[0]) {
			name = known[1]
			break
		}
	}
	for _, known := range [][2]string{{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS", "macOS"}, {"Linux", "Linux"}} {
		if strings.Contains(agent, known[0]) {
			return name + " on " + known[1]
		}
	}
	return name
}
