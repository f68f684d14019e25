package dashboard

import (
	"net/http"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/matter"
)

// newMatterView is the data of the form that begins a conversation.
type newMatterView struct {
	Kind     matter.Kind
	Subject  string
	Text     string
	Problems problems
}

// newMatterPage shows the form. A link may choose what it is about.
func (d *Dashboard) newMatterPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := newMatterView{Kind: matter.Kind(r.FormValue("kind")), Subject: r.FormValue("subject")}
	if view.Kind == "" && v.Deactivated != nil {
		view.Kind = matter.Restore
	}
	return d.showNewMatter(w, r, v, http.StatusOK, view)
}

func (d *Dashboard) showNewMatter(w http.ResponseWriter, r *http.Request, v *visitor, status int, view newMatterView) error {
	return d.ui.Render(w, r, status, newMatterPage(d.frame(w, r, v, "Contact support"), view, d.ui.Settings().Support))
}

// beginMatter begins a conversation with support. It works for a deactivated or suspended account, too: only the
// API is shut then.
func (d *Dashboard) beginMatter(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := newMatterView{Kind: matter.Kind(r.FormValue("kind")), Subject: r.FormValue("subject"), Text: r.FormValue("text")}
	m, err := d.Matters.Begin(r.Context(), v.Account, view.Kind, view.Subject, view.Text)
	if err != nil {
		var status int
		if view.Problems, status, err = refused(err, "kind", "subject", "text"); err != nil {
			return err
		}
		return d.showNewMatter(w, r, v, status, view)
	}
	return d.seeOther(w, r, home+"/messages/"+m.ID, "support-asked")
}

// matterView is the data of a conversation.
type matterView struct {
	Matter   *matter.Matter
	Messages []matter.Message
	Text     string // as it was typed
	Problems problems
}

// matterPage shows a conversation.
func (d *Dashboard) matterPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.showMatter(w, r, v, http.StatusOK, matterView{})
}

func (d *Dashboard) showMatter(w http.ResponseWriter, r *http.Request, v *visitor, status int, view matterView) error {
	var err error
	if view.Matter, view.Messages, err = d.Matters.Thread(r.Context(), v.ID, r.PathValue("id")); err != nil {
		return err
	}
	return d.ui.Render(w, r, status, matterPage(d.frame(w, r, v, view.Matter.Subject), view))
}

// replyToMatter adds the customer's message to a conversation.
func (d *Dashboard) replyToMatter(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := matterView{Text: r.FormValue("text")}
	if _, err := d.Matters.Reply(r.Context(), v.ID, r.PathValue("id"), view.Text); err != nil {
		if fault.Is(err, fault.NotFound) {
			return err
		}
		var status int
		if view.Problems, status, err = refused(err, "text"); err != nil {
			return err
		}
		return d.showMatter(w, r, v, status, view)
	}
	return d.seeOther(w, r, home+"/messages/"+r.PathValue("id"), "answered")
}

// downgradeMatter tells support in a conversation that the customer wants a lower plan.
func (d *Dashboard) downgradeMatter(r *http.Request, v *visitor, plan account.Plan, message string) (*matter.Matter, error) {
	text := "Please downgrade my plan to " + planName(plan) + "."
	if message != "" {
		text += "\n\n" + message
	}
	return d.Matters.Begin(r.Context(), v.Account, matter.Downgrade, "Downgrade to "+planName(plan), text)
}

// asks reports whether support waits for the first answer to its question.
func asks(m *matter.Matter) bool {
	return m.Kind == matter.Inquiry && m.Waits == matter.Customer && m.Messages == 1
}

// matterState says to the customer where a conversation is.
func matterState(m *matter.Matter) string {
	switch {
	case m.State == matter.Closed:
		return "closed"
	case asks(m):
		return "please answer"
	case m.Waits == matter.Customer:
		return "answered"
	}
	return "waiting for support"
}

// matterTone returns the colour of matterState.
func matterTone(m *matter.Matter) string {
	switch {
	case m.State == matter.Closed:
		return ""
	case m.Waits == matter.Customer && !asks(m):
		return "good"
	}
	return "warn"
}

// author says to the customer who wrote a message. Who of the staff it was is not told.
func author(m *matter.Message) string {
	if m.From == matter.Customer {
		return "You"
	}
	return "Support"
}
