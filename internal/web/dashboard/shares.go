package dashboard

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/sharing"
	"sluice/internal/kit/fault"
	"sluice/internal/web/webui"
)

// sharesPath is the page of the conversations that somebody shares, and sharedPath what the links begin with.
const (
	sharesPath = playgroundPath + "/shares"
	sharedPath = "/shared"
)

// sharedAt returns the path of a shared conversation.
func sharedAt(token string) string { return sharedPath + "/" + token }

// sharesPage lists what the visitor shares.
func (d *Dashboard) sharesPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	list, err := d.Shares.List(r.Context(), v.ID)
	if err != nil {
		return err
	}
	return d.ui.Render(w, r, http.StatusOK, sharesPage(d.frame(w, r, v, "Shared links"), d.ui.Settings().Origin, list))
}

// createShare shares a conversation, which is the body, and replies with its address. A script of the page sends it.
func (d *Dashboard) createShare(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if !d.ui.Settings().Site.Sharing {
		return fault.New(fault.Forbidden, "Sharing is turned off on this site.")
	}
	if v.Suspended != nil || v.Deactivated != nil {
		return fault.New(fault.Forbidden, "Your account is suspended, or its keys are switched off, so you cannot share anything. Support can help.")
	}
	if r.ContentLength > sharing.MaxBody { // before anything is read
		return sharing.TooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, sharing.MaxBody+1))
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	if err != nil {
		return fault.New(fault.Invalid, "The conversation was cut off before its end.").Because(err)
	}
	days, _ := strconv.Atoi(r.URL.Query().Get("days")) // 0 is refused
	made, err := d.Shares.Create(r.Context(), v.ID, body, days)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	return json.NewEncoder(w).Encode(map[string]string{
		"url": d.ui.Settings().Origin + sharedAt(made.Token), "expires_at": made.ExpiresAt.UTC().Format(time.RFC3339),
	})
}

// deleteShare deletes what the visitor shares by a link.
func (d *Dashboard) deleteShare(w http.ResponseWriter, r *http.Request, v *visitor) error {
	was, err := d.Shares.Delete(r.Context(), v.ID, r.PathValue("token"))
	if err != nil {
		return err
	}
	if !was {
		return d.seeOther(w, r, sharesPath, "share-gone")
	}
	return d.seeOther(w, r, sharesPath, "share-deleted")
}

// sharedPage shows a shared conversation to everybody who has its link. Those of an account that is suspended or closed
// are not shown, and search engines are told to leave all of them out.
func (d *Dashboard) sharedPage(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("X-Robots-Tag", "noindex, nofollow")
	owner, err := d.ownerOf(r)
	if err != nil {
		return err
	}
	// A page may have a MiB, which strangers may read slowly. They take no place of the owner's own reads.
	leave, err := d.Reads.Enter(r.Context(), "shared "+owner.ID)
	if err != nil {
		return gone(r, err)
	}
	defer leave()
	chat, found, err := d.Shares.Find(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	if chat == nil {
		return noShare()
	}
	signedIn, err := d.SignedIn(w, r)
	if err != nil {
		return err
	}
	title := chat.Title
	if title == "" {
		title = "A shared conversation"
	}
	p := d.ui.Page(w, r, title)
	p.Home, p.Path = "/", ""
	p.Styles, p.Scripts = []string{"front.css", "play.css"}, []string{"text.js"}
	s := d.ui.Settings()
	o := webui.Opening{SignedIn: signedIn, Joinable: d.Logins.CurrentSettings().Open, Footer: s.Site.Footer, Support: s.Support}
	return d.ui.Render(w, r, http.StatusOK, sharedPage(p, o, chat, found))
}

// ownerOf returns the account that shares what a link leads to, if it is in order and the site allows links.
func (d *Dashboard) ownerOf(r *http.Request) (*account.Account, error) {
	if !d.ui.Settings().Site.Sharing {
		return nil, noShare()
	}
	id, err := d.Shares.Owner(r.Context(), r.PathValue("token"))
	if err != nil {
		return nil, err
	}
	owner := d.Account(id)
	if owner == nil || owner.Suspended != nil || owner.Deactivated != nil {
		return nil, noShare()
	}
	return owner, nil
}

// noShare is the fault of a link that leads nowhere.
func noShare() error {
	return fault.New(fault.NotFound, "This link leads nowhere. The conversation was deleted, or the link has expired.")
}

// modelOf returns the name beside a message of a model.
func modelOf(m *sharing.Message, lane *sharing.Lane) string {
	if m.Model != "" {
		return m.Model
	}
	return lane.Model
}
