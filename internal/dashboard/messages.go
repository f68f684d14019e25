package dashboard

import (
	"net/http"

	"sluice/internal/notice"
)

// messagesShown limits the page. The export has all messages.
const messagesShown = 100

// messagesView is the data of the messages page.
type messagesView struct {
	Notices []notice.Notice
	// Answer is the text as it was typed, and To the id of the message that it answers.
	Answer   string
	To       string
	Problems problems
}

// messagesPage shows the page.
func (d *Dashboard) messagesPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.showMessages(w, r, v, http.StatusOK, messagesView{})
}

// showMessages renders the page and marks the messages as read. They are listed first, so that
// new ones still carry their badge this time.
func (d *Dashboard) showMessages(w http.ResponseWriter, r *http.Request, v *visitor, status int, view messagesView) error {
	var err error
	if view.Notices, err = d.Notices.List(r.Context(), v.ID, messagesShown); err != nil {
		return err
	}
	// A HEAD request shows nothing, so it must not mark anything as read.
	if r.Method != http.MethodHead {
		if err := d.Notices.Read(r.Context(), v.ID); err != nil {
			return err
		}
	}
	return d.ui.Render(w, r, status, messagesPage(d.frame(w, r, v, "Messages"), view))
}

// answerMessage stores the owner's answer to an inquiry, where support reads it.
func (d *Dashboard) answerMessage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := messagesView{Answer: r.FormValue("answer"), To: r.PathValue("id")}
	if err := d.Notices.Answer(r.Context(), v.ID, view.To, view.Answer); err != nil {
		var status int
		if view.Problems, status, err = refused(err, "answer"); err != nil {
			return err
		}
		return d.showMessages(w, r, v, status, view)
	}
	return d.seeOther(w, r, home+"/messages", "answered")
}

// noticeTone returns the colour of a notice's badge.
func noticeTone(k notice.Kind) string {
	switch k {
	case notice.Suspended, notice.Deactivated:
		return "bad"
	case notice.Restored:
		return "good"
	case notice.Support:
		return "accent"
	}
	return "warn"
}

// answerTo returns the text typed for this notice when its form is shown again, or "".
func answerTo(n notice.Notice, v messagesView) string {
	if v.To == n.ID {
		return v.Answer
	}
	return ""
}
