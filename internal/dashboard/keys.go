package dashboard

import (
	"net/http"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
	"sluice/internal/usage"
)

// keysView is what the page of keys shows.
type keysView struct {
	Keys     []account.Key // the master key first
	Requests map[string]int64
	Used     map[string]time.Time // when each was last used
	Left     int                  // sub-keys that may still be made
	Off      bool                 // the keys are deactivated
	New      string               // a raw key, in the reply to its making alone
	NewName  string
	Name     string // as it was typed
	Problems problems
	Now      time.Time
}

func (d *Dashboard) keysPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.showKeys(w, r, v, http.StatusOK, keysView{})
}

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
			view.Used[k.ID] = used // it is stored once a minute
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

func (d *Dashboard) regenerateMaster(w http.ResponseWriter, r *http.Request, v *visitor) error {
	raw, err := d.Accounts.RegenerateMaster(r.Context(), actor, v.ID)
	if err != nil {
		return err
	}
	return d.showKeys(w, r, v, http.StatusOK, keysView{New: raw, NewName: "The master key"})
}

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

// owns refuses a key that is not the visitor's, like one that does not exist.
func owns(v *visitor, keyID string) error {
	for i := range v.Keys {
		if v.Keys[i].ID == keyID {
			return nil
		}
	}
	return fault.New(fault.NotFound, "There is no such key.")
}
