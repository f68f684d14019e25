package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/web/webui"
)

// accountView is the data of the account page.
type accountView struct {
	Account     *account.Account
	HasPassword bool
	TOTPOn      bool
	TwoSteps    bool
	// Passkeys are those of the account. MayPasskey reports whether the address of the pages allows any.
	Passkeys   []signin.Passkey
	MayPasskey bool
	// Demand says which proof of ownership the forms must include, and ProvedUntil until when they need none because it was
	// given in this session; zero: it was not.
	Demand      signin.Demand
	ProvedUntil time.Time
	// Enrolment is a second factor that is being set up, or nil.
	Enrolment *signin.Enrolment
	// Recovery are recovery codes that were just made, or nil; RecoveryLeft is how many are still good.
	Recovery     []string
	RecoveryLeft int
	Sessions     []signin.Session
	// Here is the id of this browser's session.
	Here string
	// Dialog names the dialog that is open, one of accountDialogNames, or "" for none. Key is the passkey that it is about.
	Dialog string
	Key    *signin.Passkey
	// Email is the new address as it was typed.
	Email string
	// Details are what the customer wants on invoices; Typed: as they were typed.
	Details  billing.Details
	Typed    bool
	Problems problems
	Now      time.Time
}

// accountDialogNames are the dialogs of the page, by the names that its address has.
var accountDialogNames = []string{"email", "details", "password", "totp", "passkeys", "passkey", "unkey", "recovery", "sessions", "replies", "export", "close"}

// accountDialog returns the address of the page with a dialog open.
func accountDialog(name string) string { return accountPath + "?" + name }

// accountPage shows the page, with the dialog that its address asks for. One about a passkey that is gone is not shown.
func (d *Dashboard) accountPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	q := r.URL.Query()
	var view accountView
	for _, name := range accountDialogNames {
		if q.Has(name) {
			view.Dialog = name
			break
		}
	}
	if view.Dialog == "unkey" {
		var err error
		if view.Key, err = d.passkey(r, v, q.Get("unkey")); err != nil {
			return err
		}
		if view.Key == nil {
			return d.seeOther(w, r, accountPath, "passkey-gone")
		}
	}
	return d.showAccount(w, r, v, http.StatusOK, view)
}

// passkey returns a passkey of the visitor by its handle, or nil.
func (d *Dashboard) passkey(r *http.Request, v *visitor, handle string) (*signin.Passkey, error) {
	list, err := d.Logins.Passkeys(r.Context(), v.ID)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Handle() == handle {
			return &list[i], nil
		}
	}
	return nil, nil
}

// accountPath is the path of the page, and enrolPath stands for a second factor that is being set up.
const (
	accountPath = home + "/account"
	enrolPath   = accountPath + "/totp"
)

// showAccount renders the page. The caller sets Dialog, Key, Email, Details and Problems of the view; showAccount fills in
// the rest.
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
	if !view.Typed {
		if view.Details, err = d.Billing.Details(r.Context(), v.ID); err != nil {
			return err
		}
	}
	_, view.MayPasskey = d.Logins.PasskeySite()
	if view.TwoSteps = login.TwoSteps(); view.TwoSteps {
		if view.RecoveryLeft, err = d.Logins.RecoveryCodesLeft(r.Context(), v.ID); err != nil {
			return err
		}
	}
	if view.Dialog == "totp" {
		if kept := d.ui.TakeShown(w, r, v.session.ID, enrolPath); kept != nil {
			if view.Enrolment, err = d.Logins.Enrolling(r.Context(), v.Account, d.ui.Settings().Brand, kept.Secret); err != nil {
				return err
			}
		}
	}
	view.Account, view.HasPassword, view.TOTPOn, view.Here, view.Now = v.Account, login.Password != "", login.TOTPOn, v.session.ID, time.Now()
	view.Demand, view.ProvedUntil = d.Logins.Demand(login, v.session), d.Logins.ProvedUntil(v.session)
	p := d.frame(w, r, v, "Account")
	p.Styles, p.Scripts = []string{accountStyle}, []string{passkeyScript}
	return d.ui.Render(w, r, status, accountPage(p, view))
}

// accountStyle is the style sheet of the pages about the account: the account itself, its plan, its messages and its videos.
const accountStyle = "account.css"

// accountRefused renders the page again with the dialog whose form was refused.
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
		view := accountView{Dialog: "email"}
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
		return d.accountRefused(w, r, v, accountView{Dialog: "password"}, err, "password", "current", "code")
	}
	return d.seeOther(w, r, accountPath, "password-changed")
}

// enrolTOTP creates a TOTP secret and shows it. Two-step sign-in is off until activateTOTP
// receives a valid code, so that a failed scan cannot lock the owner out.
func (d *Dashboard) enrolTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	enrolment, err := d.Logins.Enrol(r.Context(), d.owner(r, v), d.ui.Settings().Brand)
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Dialog: "totp"}, err, "current", "code")
	}
	d.ui.Keep(w, v.session.ID, enrolPath, webui.Shown{Title: "totp", Secret: enrolment.Secret})
	return d.seeOther(w, r, accountDialog("totp"), "")
}

// activateTOTP turns on two-step sign-in after the first valid code.
func (d *Dashboard) activateTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	codes, err := d.Logins.Activate(r.Context(), d.owner(r, v), r.FormValue("code"))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Dialog: "totp"}, err, "code")
	}
	return d.showRecovery(w, r, v, "totp-on", codes)
}

// showRecovery leads to the page that shows recovery codes.
func (d *Dashboard) showRecovery(w http.ResponseWriter, r *http.Request, v *visitor, flash string, codes []string) error {
	d.ui.Show(w, v.session.ID, accountPath, webui.Shown{Title: "recovery", Secret: strings.Join(codes, " ")})
	return d.seeOther(w, r, accountPath, flash)
}

// makeRecovery makes new recovery codes. Those before stop working.
func (d *Dashboard) makeRecovery(w http.ResponseWriter, r *http.Request, v *visitor) error {
	codes, err := d.Logins.RecoveryCodes(r.Context(), d.owner(r, v))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Dialog: "recovery"}, err, "current", "code")
	}
	return d.showRecovery(w, r, v, "recovery-made", codes)
}

// removeTOTP turns off two-step sign-in.
func (d *Dashboard) removeTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Logins.RemoveTOTP(r.Context(), d.owner(r, v)); err != nil {
		return d.accountRefused(w, r, v, accountView{Dialog: "totp"}, err, "current", "code")
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
		return d.accountRefused(w, r, v, accountView{Dialog: "close"}, err, "current", "code", "email")
	}
	if err := d.Billing.EndNow(ctx, actor, v.ID, "the account is closed"); err != nil {
		return d.accountRefused(w, r, v, accountView{Dialog: "close"}, err)
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

// saveDetails stores what the customer wants on invoices.
func (d *Dashboard) saveDetails(w http.ResponseWriter, r *http.Request, v *visitor) error {
	details := billing.Details{Name: r.FormValue("name"), Address: r.FormValue("address"), Country: r.FormValue("country"), TaxID: r.FormValue("tax_id"), Email: r.FormValue("email")}
	if err := d.Billing.SetDetails(r.Context(), v.ID, details); err != nil {
		return d.accountRefused(w, r, v, accountView{Dialog: "details", Details: details, Typed: true}, err, "name", "address", "country", "tax_id", "email")
	}
	return d.seeOther(w, r, accountPath, "details-saved")
}

// passwordButton and passwordTitle name what the password dialog does.
func passwordButton(v accountView) string {
	if v.HasPassword {
		return "Change"
	}
	return "Set"
}

func passwordTitle(v accountView) string {
	if v.HasPassword {
		return "Change your password"
	}
	return "Set a password"
}

// totpButton names what the dialog of the authenticator app does.
func totpButton(v accountView) string {
	if v.TOTPOn {
		return "Turn off"
	}
	return "Set up"
}

// passkeysText names the passkeys of an account in a line.
func passkeysText(list []signin.Passkey) string {
	if len(list) == 0 {
		return "None"
	}
	names := make([]string, 0, 3)
	for i := range list[:min(len(list), 3)] {
		names = append(names, list[i].Name)
	}
	text := strings.Join(names, ", ")
	if more := len(list) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// sessionsText says in how many browsers the account is signed in.
func sessionsText(n int) string {
	if n == 1 {
		return "Signed in here only"
	}
	return fmt.Sprintf("Signed in in %d browsers", n)
}

// usedText says when a passkey was last used.
func usedText(at, now time.Time) string {
	if at.IsZero() {
		return "never used"
	}
	return "last used " + webui.Ago(at, now)
}

// detailsText says in a line what invoices are made out to.
func detailsText(b billing.Details) string {
	var parts []string
	for _, part := range []string{b.Name, billing.CountryName(b.Country), b.TaxID} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if parts == nil && b.Address == "" {
		return "Not given; invoices show your e-mail address only"
	}
	return strings.Join(parts, " · ")
}

// repliesText says in a line what the account has chosen for its replies.
func repliesText(a *account.Account) string {
	parts := []string{"cost not included"}
	if a.ShowCost {
		parts[0] = "cost included"
	}
	if a.Receipts {
		parts = append(parts, "receipts kept")
	}
	switch a.AutoCache {
	case chat.On:
		parts = append(parts, "cache marks on")
	case chat.Off:
		parts = append(parts, "cache marks off")
	}
	text := strings.Join(parts, ", ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// askedOnce is the hint of the last field of a proof.
func askedOnce(last bool) string {
	if !last {
		return ""
	}
	return "You will not be asked again for ten minutes."
}

// codeLabel and codeHint are the words of the field for a code.
func codeLabel(v accountView) string {
	if v.TOTPOn {
		return "Authenticator code"
	}
	return "Recovery code"
}

func codeHint(v accountView) string {
	if len(v.Passkeys) > 0 {
		return "Leave it empty to use a passkey. " + askedOnce(true)
	}
	return "Or one of your recovery codes. " + askedOnce(true)
}
