package dashboard

import (
	"net/http"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
	"sluice/internal/usage"
)

// keysView is the data of the keys page.
type keysView struct {
	// Keys holds the master key first.
	Keys     []account.Key
	Requests map[string]int64
	// Used is when each key was last used, by id.
	Used map[string]time.Time
	// Left is how many sub-keys may still be created.
	Left int
	// Off reports whether the keys are deactivated.
	Off bool
	// New is the raw key that this request created, or "". It is shown only in this reply.
	New     string
	NewName string
	// Name is the name as it was typed, if the form is shown again.
	Name     string
	Problems problems
	Now      time.Time
}

// keysPage shows the page.
func (d *Dashboard) keysPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.showKeys(w, r, v, http.StatusOK, keysView{})
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
	rows, err := d.Usage.UsageBy(r.Context(), usage.Query{AccountID: v.ID, From: firstDay(d.now()), By: usage.ByKey})
	if err != nil {
		return err
	}
	view.Requests = map[string]int64{}
	for i := range rows {
		view.Requests[rows[i].KeyID] = rows[i].Requests
	}
	view.Keys, view.Left, view.Off, view.Now = present.Keys, account.MaxSubKeys-present.SubKeys(), present.Deactivated != nil, d.now()
	return d.ui.Render(w, r, status, keysPage(d.frame(w, r, v, "Keys"), view))
}

// createKey creates a sub-key and shows it in the reply. There is no redirect: the raw key is
// not stored anywhere, so a second request could not show it.
func (d *Dashboard) createKey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := keysView{Name: r.FormValue("name")}
	k, raw, err := d.Accounts.CreateKey(r.Context(), actor, v.ID, view.Name)
	if err != nil {
		var status int
		if view.Problems, status, err = refused(err, "name"); err != nil {
			return err
		}
		return d.showKeys(w, r, v, status, view)
	}
	return d.showKeys(w, r, v, http.StatusOK, keysView{New: raw, NewName: k.Name})
}

// regenerateMaster replaces the master key. The old one is refused from then on.
func (d *Dashboard) regenerateMaster(w http.ResponseWriter, r *http.Request, v *visitor) error {
	raw, err := d.Accounts.RegenerateMaster(r.Context(), actor, v.ID)
	if err != nil {
		return err
	}
	return d.showKeys(w, r, v, http.StatusOK, keysView{New: raw, NewName: "The master key"})
}

// renameKey changes the display name of a sub-key.
func (d *Dashboard) renameKey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	id := r.PathValue("id")
	if err := owns(v, id); err != nil {
		return err
	}
	if _, err := d.Accounts.RenameKey(r.Context(), actor, id, r.FormValue("name")); err != nil {
		view := keysView{}
		var status int
		if view.Problems, status, err = refused(err); err != nil {
			return err
		}
		return d.showKeys(w, r, v, status, view)
	}
	return d.seeOther(w, r, home+"/keys", "key-renamed")
}

// deleteKey deletes a sub-key. It is refused from the next request on.
func (d *Dashboard) deleteKey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	id := r.PathValue("id")
	if err := owns(v, id); err != nil {
		return err
	}
	if err := d.Accounts.DeleteKey(r.Context(), actor, id); err != nil {
		return err
	}
	return d.seeOther(w, r, home+"/keys", "key-deleted")
}

// owns returns an error unless the key belongs to the visitor. The error is the one for keys
// that do not exist, so that nobody can probe ids.
func owns(v *visitor, keyID string) error {
	for i := range v.Keys {
		if v.Keys[i].ID == keyID {
			return nil
		}
	}
	return fault.New(fault.NotFound, "There is no such key.")
}

// nameOf returns a key's display name. The master key has none of its own.
func nameOf(k *account.Key) string {
	if k.Master {
		return "Master key"
	}
	return k.Name
}
