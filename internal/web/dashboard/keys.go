package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/web/webui"
)

// keysPath is the path of the page.
const keysPath = home + "/keys"

// keysView is the data of the keys page.
type keysView struct {
	// Keys holds the master key first.
	Keys []account.Key
	// Used30 is what each key did in the last 30 days, by id.
	Used30 map[string]*usage.Sums
	// Used is when each key was last used, by id.
	Used map[string]time.Time
	// Left is how many sub-keys may still be created.
	Left int
	// Off reports whether the keys are deactivated.
	Off bool
	// New is a key that was just created, or nil.
	New *webui.Shown
	// Dialog names the dialog that is open: "new", "edit", "delete", "regenerate", or "" for none. Key is the key that
	// it is about, or nil, and Form what it shows.
	Dialog string
	Key    *account.Key
	Form   keyForm
	// Models are the ids that a key can be limited to.
	Models []string
	Now    time.Time
}

// keyForm is the form of a sub-key as it was typed, by the names of keyFields.
type keyForm struct {
	url.Values
	Problems problems
}

// expiresForm is how a browser writes a date and time. The pages take it as UTC.
const expiresForm = "2006-01-02T15:04"

// keyFields are the fields of the form, by the names of their faults.
var keyFields = []string{"name", "requests_per_minute", "tokens_per_minute", "units_per_month", "models", "addresses", "expires_at", "session_cap"}

// formOf returns the form of a key.
func formOf(k *account.Key) keyForm {
	f := keyForm{Values: url.Values{"name": {k.Name}}}
	l := k.Limits
	if l == nil {
		return f
	}
	for _, n := range l.Rates() {
		if *n.Limit != nil {
			f.Set(n.Name, strconv.FormatInt(int64(**n.Limit), 10))
		}
	}
	f.Values["models"] = l.Models
	f.Set("addresses", l.AddressList())
	if !l.ExpiresAt.IsZero() {
		f.Set("expires_at", l.ExpiresAt.Format(expiresForm))
	}
	return f
}

// limits returns the limits that the form asks for, or all that is wrong with them and with the name.
func (f *keyForm) limits() (*account.KeyLimits, error) {
	_, err := account.ParseKeyName(f.Get("name"))
	wrong := []error{err}
	l := &account.KeyLimits{Models: f.Values["models"]}
	for _, n := range l.Rates() {
		text := strings.TrimSpace(f.Get(n.Name))
		if text == "" {
			continue
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 1 {
			wrong = append(wrong, fault.New(fault.Invalid, "enter a whole number from 1, or leave it empty").At(n.Name))
			continue
		}
		*n.Limit = new(account.Limit(v))
	}
	l.Addresses, err = account.ParseAddresses(f.Get("addresses"))
	wrong = append(wrong, err)
	if text := strings.TrimSpace(f.Get("expires_at")); text != "" {
		at, err := time.Parse(expiresForm, text)
		if err != nil {
			if at, err = time.Parse(expiresForm+":05", text); err != nil {
				wrong = append(wrong, fault.New(fault.Invalid, "enter a date and a time, or leave it empty").At("expires_at"))
			}
		}
		l.ExpiresAt = at
	}
	return l, errors.Join(wrong...)
}

// keysPage shows the page, with the dialog that its address asks for. A dialog about a key that is gone is not shown:
// the page is that of a tab that was left open.
func (d *Dashboard) keysPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := keysView{New: d.ui.TakeShown(w, r, v.session.ID, keysPath)}
	q := r.URL.Query()
	for _, name := range []string{"new", "edit", "delete", "regenerate"} {
		if q.Has(name) {
			view.Dialog = name
			view.Key = v.Account.Key(q.Get(name))
			break
		}
	}
	switch {
	case view.Dialog == "edit" && view.Key != nil:
		view.Form = formOf(view.Key)
	case view.Dialog == "new", view.Dialog == "regenerate", view.Key != nil:
	case view.Dialog != "":
		return d.seeOther(w, r, keysPath, "key-gone")
	}
	return d.showKeys(w, r, v, http.StatusOK, view)
}

// showKeys renders the page. It reads the account from the database, because the visitor's
// snapshot may be older than the change that was just made.
func (d *Dashboard) showKeys(w http.ResponseWriter, r *http.Request, v *visitor, status int, view keysView) error {
	present, err := d.Accounts.Find(r.Context(), v.ID)
	if err != nil {
		return err
	}
	view.Used = map[string]time.Time{}
	for i := range present.Keys {
		k := &present.Keys[i]
		view.Used[k.ID] = k.LastUsedAt
		if used := d.LastUsed(k); used.After(k.LastUsedAt) {
			// The database is updated only once a minute, so this process may know better.
			view.Used[k.ID] = used
		}
	}
	rows, err := d.Usage.UsageBy(r.Context(), usage.Query{AccountID: v.ID, From: firstDay(time.Now()), By: usage.ByKey})
	if err != nil {
		return err
	}
	view.Used30 = map[string]*usage.Sums{}
	for i := range rows {
		view.Used30[rows[i].KeyID] = &rows[i].Sums
	}
	view.Keys, view.Left, view.Off, view.Now = present.Keys, account.MaxSubKeys-present.SubKeys(), present.Deactivated != nil, time.Now()
	if view.Dialog == "new" || view.Dialog == "edit" {
		view.Models = d.limitable(view.Form.Values["models"])
	}
	return d.ui.Render(w, r, status, keysPage(d.frame(w, r, v, "Keys"), view))
}

// limitable returns the ids of the models that a key can be limited to: those of the catalog, the one that makes videos,
// and those that the key has and that are gone.
func (d *Dashboard) limitable(chosen []string) []string {
	ids := slices.Clone(chosen)
	for _, m := range d.Catalog().Models() {
		ids = append(ids, m.ID)
	}
	ids = append(ids, d.VideoModel())
	slices.Sort(ids)
	return slices.Compact(ids)
}

// createKey creates a sub-key. The page that follows shows it.
func (d *Dashboard) createKey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	f := keyForm{Values: r.Form}
	limits, err := f.limits()
	var k *account.Key
	var raw string
	var perSession *int64
	if strings.TrimSpace(f.Get("session_cap")) != "" {
		amount, wrongCap := amountOf(r.Form, "session_cap")
		perSession, err = (*int64)(&amount), errors.Join(err, wrongCap)
	}
	if err == nil {
		k, raw, _, err = d.Accounts.CreateCappedKey(r.Context(), actor, v.ID, f.Get("name"), limits, perSession)
	}
	if err != nil {
		return d.keyRefused(w, r, v, keysView{Dialog: "new", Form: f}, err)
	}
	d.ui.Show(w, v.session.ID, keysPath, webui.Shown{Title: k.Name, Secret: raw})
	return d.seeOther(w, r, keysPath, "")
}

// keyRefused shows the dialog again, with what was wrong.
func (d *Dashboard) keyRefused(w http.ResponseWriter, r *http.Request, v *visitor, view keysView, err error) error {
	return again(err, &view.Form.Problems, func(status int) error {
		return d.showKeys(w, r, v, status, view)
	}, keyFields...)
}

// regenerateMaster replaces the master key. The old one is refused from then on.
func (d *Dashboard) regenerateMaster(w http.ResponseWriter, r *http.Request, v *visitor) error {
	raw, err := d.Accounts.RegenerateMaster(r.Context(), actor, v.ID)
	if err != nil {
		return err
	}
	d.ui.Show(w, v.session.ID, keysPath, webui.Shown{Title: "The master key", Secret: raw})
	return d.seeOther(w, r, keysPath, "")
}

// changeKey changes the name and the limits of a sub-key.
func (d *Dashboard) changeKey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	k := v.Account.Key(r.PathValue("id"))
	if k == nil {
		return d.seeOther(w, r, keysPath, "key-gone")
	}
	f := keyForm{Values: r.Form}
	limits, err := f.limits()
	if err == nil {
		_, err = d.Accounts.RenameKey(r.Context(), actor, k.ID, f.Get("name"))
	}
	if err == nil {
		_, err = d.Accounts.LimitKey(r.Context(), actor, k.ID, limits)
	}
	if err != nil {
		return d.keyRefused(w, r, v, keysView{Dialog: "edit", Key: k, Form: f}, err)
	}
	return d.seeOther(w, r, keysPath, "key-changed")
}

// deleteKey deletes a sub-key. It is refused from the next request on.
func (d *Dashboard) deleteKey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	k := v.Account.Key(r.PathValue("id"))
	if k == nil {
		return d.seeOther(w, r, keysPath, "key-gone")
	}
	if err := d.Accounts.DeleteKey(r.Context(), actor, k.ID); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return d.seeOther(w, r, keysPath, "key-deleted")
}

// requests returns how many requests a key made in the last 30 days.
func (v *keysView) requests(id string) int64 {
	if s := v.Used30[id]; s != nil {
		return s.Requests
	}
	return 0
}

// cost returns the list price of the requests of a key in the last 30 days, and the same exactly. Without a price it is a dash.
func (v *keysView) cost(id string) (text, exact string) {
	s := v.Used30[id]
	if s == nil {
		return webui.Total(0), ""
	}
	if s.Unpriced > 0 && s.Charge() == 0 {
		return "–", ""
	}
	return webui.Total(s.Charge()), webui.Dollars(s.Charge())
}

// madeBy returns who made a key, in the words of its owner.
func madeBy(by string) string {
	switch {
	case by == "":
		return "—"
	case by == actor:
		return "you"
	case strings.HasPrefix(by, "staff:"):
		return "support"
	}
	return "the operator"
}

// nameOf returns a key's display name. The master key has none of its own.
func nameOf(k *account.Key) string {
	if k.Master {
		return "Master key"
	}
	return k.Name
}
