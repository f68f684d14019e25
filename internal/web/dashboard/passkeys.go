package dashboard

import (
	"encoding/json"
	"net/http"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/web/webui"
)

// attemptCookie ties a sign-in with a passkey to the browser that began it.
const attemptCookie = "passkey"

// attemptLife is as long as a challenge of package signin.
const attemptLife = 5 * time.Minute

// passkeyScript makes and uses passkeys, on the pages that have such forms.
const passkeyScript = "passkey.js"

// tellScript answers the page's script: with the value, or with what is wrong.
func tellScript(w http.ResponseWriter, value any, err error) error {
	status := http.StatusOK
	if err != nil {
		field, text, rest := webui.Complaint(err)
		if rest != nil {
			return rest
		}
		value, status = map[string]string{"problem": text, "field": field}, fault.From(err).Kind.Status()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(value)
}

// askEnter begins a sign-in with a passkey alone.
func (d *Dashboard) askEnter(w http.ResponseWriter, r *http.Request) error {
	ask, token, err := d.Logins.AskEnter(r.Context(), d.visit(r))
	if err == nil {
		d.ui.SetCookie(w, attemptCookie, token, attemptLife)
	}
	return tellScript(w, ask, err)
}

// signInPasskey signs in with a passkey alone.
func (d *Dashboard) signInPasskey(w http.ResponseWriter, r *http.Request) error {
	f := d.entryForm(r)
	entry, err := d.Logins.SignInPasskey(r.Context(), d.ui.Cookie(r, attemptCookie), r.FormValue("passkey"), d.visit(r))
	if err != nil {
		return d.signInRefused(w, r, f, err)
	}
	d.ui.DropCookie(w, attemptCookie)
	return d.enter(w, r, entry, f.Next)
}

// askFinish begins the second step of a sign-in with a passkey.
func (d *Dashboard) askFinish(w http.ResponseWriter, r *http.Request) error {
	ask, err := d.Logins.AskFinish(r.Context(), d.ui.Cookie(r, codeCookie))
	return tellScript(w, ask, err)
}

// askProof begins to prove with a passkey who sits at the session.
func (d *Dashboard) askProof(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ask, err := d.Logins.AskProof(r.Context(), d.owner(r, v))
	return tellScript(w, ask, err)
}

// askPasskey begins to add a passkey: the proof is checked before the device makes one.
func (d *Dashboard) askPasskey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ask, err := d.Logins.AskPasskey(r.Context(), d.owner(r, v), r.FormValue("name"))
	return tellScript(w, ask, err)
}

// addPasskey keeps the passkey that the browser has made.
func (d *Dashboard) addPasskey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	codes, err := d.Logins.AddPasskey(r.Context(), d.owner(r, v), r.FormValue("name"), r.FormValue("passkey"))
	if err != nil {
		return d.accountRefused(w, r, v, accountView{Dialog: "passkey"}, err, "name")
	}
	if codes != nil {
		return d.showRecovery(w, r, v, "passkey-added", codes)
	}
	return d.seeOther(w, r, accountPath, "passkey-added")
}

// removePasskey removes a passkey.
func (d *Dashboard) removePasskey(w http.ResponseWriter, r *http.Request, v *visitor) error {
	key, err := d.passkey(r, v, r.FormValue("id"))
	if err != nil {
		return err
	}
	if key == nil {
		return d.seeOther(w, r, accountPath, "passkey-gone")
	}
	if err := d.Logins.RemovePasskey(r.Context(), d.owner(r, v), key.Handle()); err != nil {
		return d.accountRefused(w, r, v, accountView{Dialog: "unkey", Key: key}, err, "current", "code")
	}
	return d.seeOther(w, r, accountPath, "passkey-removed")
}
