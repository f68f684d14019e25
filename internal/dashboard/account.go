package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"sluice/internal/abuse"
	"sluice/internal/account"
	"sluice/internal/billing"
	"sluice/internal/fault"
	"sluice/internal/notice"
	"sluice/internal/signin"
	"sluice/internal/usage"
)

// accountView is what the account's page shows.
type accountView struct {
	Account     *account.Account
	HasPassword bool
	TOTPOn      bool
	Enrolment   *signin.Enrolment // a second factor on its way
	Sessions    []signin.Session
	Here        string // the id of this browser's session
	Email       string // a new one, as it was typed
	Form        string // the form that Problems is about
	Problems    problems
	Now         time.Time
}

func (d *Dashboard) account(w http.ResponseWriter, r *http.Request, v *visitor) error {
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

func (d *Dashboard) changeEmail(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := accountView{Form: "email", Email: r.FormValue("email")}
	if err := d.Desk.RequestEmail(r.Context(), v.Account, r.FormValue("current"), view.Email); err != nil {
		return d.accountRefused(w, r, v, view, err, "email", "current")
	}
	return d.seeOther(w, r, home+"/account", "email-sent")
}

func (d *Dashboard) changePassword(w http.ResponseWriter, r *http.Request, v *visitor) error {
	err := d.Desk.ChangePassword(r.Context(), v.Account, v.session.ID, r.FormValue("current"), r.FormValue("password"))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "password"}, err, "password", "current")
	}
	return d.seeOther(w, r, home+"/account", "password-changed")
}

func (d *Dashboard) enrolTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	enrolment, err := d.Desk.Enrol(r.Context(), v.Account, d.ui.Settings().Brand)
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err)
	}
	return d.showAccount(w, r, v, http.StatusOK, accountView{Enrolment: enrolment})
}

func (d *Dashboard) activateTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Desk.Activate(r.Context(), v.Account, r.FormValue("code")); err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err)
	}
	return d.seeOther(w, r, home+"/account", "totp-on")
}

func (d *Dashboard) removeTOTP(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Desk.RemoveTOTP(r.Context(), v.Account, r.FormValue("current")); err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "totp"}, err, "current")
	}
	return d.seeOther(w, r, home+"/account", "totp-off")
}

func (d *Dashboard) closeSession(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if err := d.Desk.SignOut(r.Context(), v.ID, r.PathValue("id")); err != nil {
		return err
	}
	return d.seeOther(w, r, home+"/account", "session-closed")
}

// closeAccount ends the account for good on its owner's word: its subscription, its keys, the way in. What
// it consumed stays on the books.
func (d *Dashboard) closeAccount(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ctx := r.Context()
	err := d.mayClose(ctx, v, r.FormValue("current"), r.FormValue("email"))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Form: "close"}, err, "current", "email")
	}
	if d.Billing != nil {
		if err := d.Billing.EndNow(ctx, actor, v.ID, "the account is closed"); err != nil {
			return err
		}
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

func (d *Dashboard) mayClose(ctx context.Context, v *visitor, current, email string) error {
	if v.Staff {
		return fault.New(fault.Conflict, "An account of staff cannot be closed here.")
	}
	if account.NormalEmail(email) != v.Email {
		return fault.New(fault.Invalid, "Type the address of your account to close it.").At("email")
	}
	return d.Desk.Prove(ctx, v.ID, current)
}

// export is everything that is kept of an account, except what would let somebody in.
type export struct {
	MadeAt   time.Time          `json:"made_at"`
	Account  exportedAccount    `json:"account"`
	Keys     []exportedKey      `json:"keys"`
	Sessions []exportedSession  `json:"sessions"`
	Messages []notice.Notice    `json:"messages"`
	Scores   []abuse.Event      `json:"abuse_events"`
	Changes  []account.Entry    `json:"changes"`
	Invoices []billing.Payment  `json:"invoices"`
	Days     []exportedDay      `json:"usage_by_day"`
	Calls    []usage.Settlement `json:"calls"`
}

type exportedAccount struct {
	ID        string    `json:"id"`
	Email     string    `json:"email"`
	Plan      string    `json:"plan"`
	Granted   bool      `json:"granted"`
	CreatedAt time.Time `json:"created_at"`
}

type exportedKey struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	LastFour   string    `json:"last_four"`
	CreatedAt  time.Time `json:"created_at"`
	LastUsedAt time.Time `json:"last_used_at"`
}

type exportedSession struct {
	CreatedAt time.Time `json:"created_at"`
	SeenAt    time.Time `json:"seen_at"`
	Remote    string    `json:"remote"`
	Agent     string    `json:"agent"`
}

type exportedDay struct {
	Day   string `json:"day"`
	KeyID string `json:"key_id"`
	Model string `json:"model"`
	usage.Sums
}

// mostExported bounds the calls of an export; the sums have all of them.
const mostExported = 100_000

// exportAccount is the account's own data as a file.
func (d *Dashboard) exportAccount(w http.ResponseWriter, r *http.Request, v *visitor) error {
	out, err := d.gather(r.Context(), v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="account.json"`)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(out) // an error means that the browser left
	return nil
}

func (d *Dashboard) gather(ctx context.Context, v *visitor) (*export, error) {
	out := &export{MadeAt: d.now().UTC(), Account: exportedAccount{v.ID, v.Email, v.Plan.String(), v.Granted, v.CreatedAt}}
	for i := range v.Keys {
		k := &v.Keys[i]
		out.Keys = append(out.Keys, exportedKey{k.ID, nameOf(k), k.LastFour, k.CreatedAt, k.LastUsedAt})
	}
	sessions, err := d.Desk.Sessions(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		out.Sessions = append(out.Sessions, exportedSession{s.CreatedAt, s.SeenAt, s.Remote, s.Agent})
	}
	if out.Messages, err = d.Notices.List(ctx, v.ID, mostExported); err != nil {
		return nil, err
	}
	if out.Scores, err = d.Abuse.Events(ctx, v.ID, mostExported); err != nil {
		return nil, err
	}
	if out.Changes, err = d.Accounts.History(ctx, v.ID, mostExported); err != nil {
		return nil, err
	}
	if d.Billing != nil {
		if out.Invoices, err = d.Billing.Invoices(ctx, v.ID, mostExported); err != nil {
			return nil, err
		}
	}
	days, err := d.Usage.UsageByDay(ctx, v.ID, time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	for i := range days {
		out.Days = append(out.Days, exportedDay{days[i].Start.Format(time.DateOnly), days[i].KeyID, days[i].Model, days[i].Sums})
	}
	out.Calls, err = d.Usage.RecentSettlements(ctx, v.ID, usage.Point{At: d.now().Add(time.Minute)}, mostExported)
	return out, err
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
