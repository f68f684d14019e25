package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/web/webui"
)

// accountView is the data of the account page, which has several forms. Form names the one
// that Problems belongs to.
type accountView struct {
	Account     *account.Account
	HasPassword bool
	TOTPOn      bool
	TwoSteps    bool
	// Passkeys are those of the account. MayPasskey reports whether the address of the pages allows any.
	Passkeys   []signin.Passkey
	MayPasskey bool
	// Demand says which proof of ownership the forms must include.
	Demand signin.Demand
	// Enrolment is a second factor that is being set up, or nil.
	Enrolment *signin.Enrolment
	// Recovery are recovery codes that were just made, or nil; RecoveryLeft is how many are still good.
	Recovery     []string
	RecoveryLeft int
	Sessions     []signin.Session
	// Here is the id of this browser's session.
	Here string
	// Email is the new address as it was typed.
	Email string
	// Form names the form that Problems belongs to.
	Form     string
	Problems problems
	Now      time.Time
}

// accountPage shows the page.
func (d *Dashboard) accountPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.showAccount(w, r, v, http.StatusOK, accountView{})
}

// accountPath is the path of the page, and enrolPath stands for a second factor that is being set up.
const (
	accountPath = home + "/account"
	enrolPath   = accountPath + "/totp"
)

// showAccount renders the page. The caller sets Enrolment, Email, Form and Problems of the
// view; showAccount fills in the rest.
func (d *Dashboard) showAccount(w http.ResponseWriter, r *http.Request, v *visitor, status int, view accountView) error {
	login, err := d.Logins.Login(r.Context(), v.ID)
	if err != nil {
		return err
	}
	if view.Sessions, err = d.Logins.Sessions(r.Context(), v.ID); err != nil {
		return err
	}
	if shown := d.ui.TakeShown(w, r, v.session.ID, accountPath); shown != nil {
		view.Recovery = strings.Fields(shown.Secret)
	}
	if view.Passkeys, err = d.Logins.Passkeys(r.Context(), v.ID); err != nil {
		return err
	}
	_, view.MayPasskey = d.Logins.PasskeySite()
	if view.TwoSteps = login.TwoSteps(); view.TwoSteps {
		if view.RecoveryLeft, err = d.Logins.RecoveryCodesLeft(r.Context(), v.ID); err != nil {
			return err
		}
	}
	if kept := d.ui.TakeShown(w, r, v.session.ID, enrolPath); kept != nil {
		if view.Enrolment, err = d.Logins.Enrolling(r.Context(), v.Account, d.ui.Settings().Brand, kept.Secret); err != nil {
			return err
		}
	}
	view.Account, view.HasPassword, view.TOTPOn, view.Here, view.Now = v.Account, login.Password != "", login.TOTPOn, v.session.ID, time.Now()
	view.Demand = d.Logins.Demand(login, v.session)
	p := d.frame(w, r, v, "Account")
	p.Scripts = []string{passkeyScript}
	return d.ui.Render(w, r, status, accountPage(p, view))
}

// accountRefused renders the page again with the problem of one of its forms.
func (d *Dashboard) accountRefused(w http.ResponseWriter, r *http.Request, v *visitor, view accountView, err error, fields ...string) error {
	return again(err, &view.Problems, func(status int) error {
		return d.showAccount(w, r, v, status, view)
	}, fields...)
}

// owner returns who wants to change the account, with the proof that was typed. Package signin
// decides which proof is needed.
func (d *Dashboard) owner(r *http.Request, v *visitor) signin.Owner {
	return signin.Owner{Account: v.Account, Session: v.session, Visit: d.visit(r), Password: r.FormValue("current"), Code: r.FormValue("proof"), Passkey: r.FormValue("proof_key")}
}

// changeEmail sends a link to the new address. The address changes when the link is opened.
func (d *Dashboard) changeEmail(w http.ResponseWriter, r *http.Request, v *visitor) error {
	email := r.FormValue("email")
	if err := d.Logins.RequestEmail(r.Context(), d.owner(r, v), email); err != nil {
		view := accountView{Form: "email"}
		// An address that is too long is not echoed.
		if len(email) <= maxEmail {
			view.Email = email
		}
		return d.accountRefused(w, r, v, view, err, "email", "current", "code")
	}
	return d.seeOther(w, r, accountPath, "email-sent")
}

// changeReplies changes what the replies to the account's calls say, whether its calls leave receipts, and whether marks are
// set for the vendors' caches. A form without that leaves it as it is.
func (d *Dashboard) changeReplies(w http.ResponseWriter, r *http.Request, v *visitor) error {
	cost, receipts := r.FormValue("show_cost") == "yes", r.FormValue("receipts") == "yes"
	to := account.Replies{ShowCost: &cost, Receipts: &receipts}
	if auto, ok := chat.ParseSwitch(r.FormValue("auto_cache")); ok {
		to.AutoCache = &auto
	}
	if _, err := d.Accounts.SetReplies(r.Context(), actor, v.ID, to); err != nil {
		return err
	}
	return d.seeOther(w, r, accountPath, "replies-changed")
}

// changePassword sets a new password and ends all other sessions. An account without a
// password gets its first one here.
func (d *Dashboard) changePassword(w http.ResponseWriter, r *http.Request, v *visitor) error {
	err := d.Logins.ChangePassword(r.Context(), d.owner(r, v), r.FormValue("password"))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "password"}, err, "password", "current", "code")
	}
	return d.seeOther(w, r, accountPath, "password-changed")
}

// enrolTOTP creates a TOTP secret and shows it. Two-step sign-in is off until activateTOTP
// receives a valid code, so that a failed scan cannot lock the owner out.
func (d *Dashboard) enrolTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	enrolment, err := d.Logins.Enrol(r.Context(), d.owner(r, v), d.ui.Settings().Brand)
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err, "current", "code")
	}
	d.ui.Keep(w, v.session.ID, enrolPath, webui.Shown{Title: "totp", Secret: enrolment.Secret})
	return d.seeOther(w, r, accountPath+"#totp-title", "")
}

// activateTOTP turns on two-step sign-in after the first valid code.
func (d *Dashboard) activateTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	codes, err := d.Logins.Activate(r.Context(), d.owner(r, v), r.FormValue("code"))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err, "code")
	}
	return d.showRecovery(w, r, v, "totp-on", codes)
}

// showRecovery leads to the page that shows recovery codes.
func (d *Dashboard) showRecovery(w http.ResponseWriter, r *http.Request, v *visitor, flash string, codes []string) error {
	d.ui.Show(w, v.session.ID, accountPath, webui.Shown{Title: "recovery", Secret: strings.Join(codes, " ")})
	// The codes are shown once, so the page opens where they are. The message stays in view; see app.css.
	d.ui.SetFlash(w, flash)
	return d.seeOther(w, r, accountPath+"#recovery-title", "")
}

// makeRecovery makes new recovery codes. Those before stop working.
func (d *Dashboard) makeRecovery(w http.ResponseWriter, r *http.Request, v *visitor) error {
	codes, err := d.Logins.RecoveryCodes(r.Context(), d.owner(r, v))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "recovery"}, err, "current", "code")
	}
	return d.showRecovery(w, r, v, "recovery-made", codes)
}

// removeTOTP turns off two-step sign-in.
func (d *Dashboard) removeTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Logins.RemoveTOTP(r.Context(), d.owner(r, v)); err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err, "current", "code")
	}
	return d.seeOther(w, r, accountPath, "totp-off")
}

// closeSession ends one session. SignOut checks that it belongs to the visitor.
func (d *Dashboard) closeSession(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Logins.SignOut(r.Context(), v.ID, r.PathValue("id")); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return d.seeOther(w, r, accountPath, "session-closed")
}

// closeOtherSessions ends all sessions but this one, or with everywhere this one, too.
func (d *Dashboard) closeOtherSessions(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if r.FormValue("everywhere") != "" {
		if err := d.Logins.SignOutEverywhere(r.Context(), v.ID, ""); err != nil {
			return err
		}
		d.ui.DropCookie(w, webui.SessionCookie)
		return d.seeOther(w, r, "/signin", "signed-out-all")
	}
	if err := d.Logins.SignOutEverywhere(r.Context(), v.ID, v.session.ID); err != nil {
		return err
	}
	return d.seeOther(w, r, accountPath, "sessions-closed")
}

// closeAccount closes the account permanently: subscription first, then keys, then stored responses and shares, then sign-in. If
// a step fails, the owner can still sign in and try again. Recorded usage is kept.
func (d *Dashboard) closeAccount(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ctx := r.Context()
	if err := d.mayClose(ctx, v, d.owner(r, v), r.FormValue("email")); err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "close"}, err, "current", "code", "email")
	}
	if err := d.Billing.EndNow(ctx, actor, v.ID, "the account is closed"); err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "close"}, err)
	}
	if _, err := d.Accounts.Close(ctx, actor, v.ID); err != nil {
		return err
	}
	if d.Forget != nil {
		if err := d.Forget(ctx, v.ID); err != nil {
			return err
		}
	}
	if err := d.Shares.Forget(ctx, v.ID); err != nil {
		return err
	}
	if err := d.Logins.Erase(ctx, v.ID); err != nil {
		return err
	}
	d.ui.DropCookie(w, webui.SessionCookie)
	return d.seeOther(w, r, "/signin", "account-closed")
}

// mayClose checks that the owner really means it: the address typed matches, and the proof is
// valid.
func (d *Dashboard) mayClose(ctx context.Context, v *visitor, o signin.Owner, email string) error {
	if v.Staff {
		return fault.New(fault.Conflict, "Staff accounts cannot be closed here.")
	}
	if err := v.Held(account.ToClose); err != nil {
		return err
	}
	// ParseEmail normalizes the address, so that upper case does not matter.
	if typed, err := account.ParseEmail(email); err != nil || typed != v.Email {
		return fault.New(fault.Invalid, "Enter the e-mail address of your account to close it.").At("email")
	}
	return d.Logins.Prove(ctx, signin.CloseAccount, o)
}

// problem returns the error of a field of one of the page's forms, or "".
func (v *accountView) problem(form, field string) string {
	if v.Form != form {
		return ""
	}
	return v.Problems[field]
}
