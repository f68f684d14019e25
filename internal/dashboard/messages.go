package dashboard

import (
	"net/http"

	"sluice/internal/notice"
)

const messagesShown = 100

// messagesView is what the page of messages shows.
type messagesView struct {
	Notices  []notice.Notice
	Answer   string // as it was typed
	To       string // the message it answers
	Problems problems
}

func (d *Dashboard) messagesPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	return d.showMessages(w, r, v, http.StatusOK, messagesView{})
}

func (d *Dashboard) showMessages(w http.ResponseWriter, r *http.Request, v *visitor, status int, view messagesView) error {
	var err error
	if view.Notices, err = d.Notices.List(r.Context(), v.ID, messagesShown); err != nil {
		return err
	}
	if r.Method != http.MethodHead {
		if err := d.Notices.Read(r.Context(), v.ID); err != nil {
			return err
		}
	}
	return d.ui.Render(w, r, status, messagesPage(d.frame(w, r, v, "Messages"), view))
}

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

// noticeTone is how a notice looks.
func noticeTone(k notice.Kind) string {
	switch k {
	case notice.Suspended, notice.Deactivated:
		return "bad"
	case notice.Restored:
		return "good"
	}
	return "warn"
}

// answerTo is what was typed as the answer to a notice.
func answerTo(n notice.Notice, v messagesView) string {
	if v.To == n.ID {
		return v.Answer
	}
	return ""
}
