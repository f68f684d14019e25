package dashboard

import (
	"net/http"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/ticket"
)

// newTicketView is the data of the form that begins a conversation.
type newTicketView struct {
	Kind     ticket.Kind
	Subject  string
	Text     string
	Problems problems
}

// newTicketPage shows the form. A link may choose what it is about.
func (d *Dashboard) newTicketPage(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := newTicketView{Kind: ticket.Kind(r.FormValue("kind")), Subject: r.FormValue("subject")}
	if view.Kind == "" && v.Deactivated != nil {
		view.Kind = ticket.Restore
	}
	return d.showNewTicket(w, r, v, http.StatusOK, view)
}

// showNewTicket renders the form, empty or with what was typed and is wrong.
func (d *Dashboard) showNewTicket(w http.ResponseWriter, r *http.Request, v *visitor, status int, view newTicketView) error {
	return d.ui.Render(w, r, status, newTicketPage(d.messagesFrame(w, r, v, "Contact support"), view, d.ui.Settings().Support))
}

// beginTicket begins a conversation with support. It works for a deactivated or suspended account, too: only the
// API is shut then.
func (d *Dashboard) beginTicket(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := newTicketView{Kind: ticket.Kind(r.FormValue("kind")), Subject: r.FormValue("subject"), Text: r.FormValue("text")}
	m, err := d.Tickets.Begin(r.Context(), v.Account, view.Kind, view.Subject, view.Text)
	if err != nil {
		return again(err, &view.Problems, func(status int) error {
			return d.showNewTicket(w, r, v, status, view)
		}, "kind", "subject", "text")
	}
	return d.seeOther(w, r, home+"/messages/"+m.ID, "support-asked")
}

// ticketView is the data of a conversation.
type ticketView struct {
	Ticket   *ticket.Ticket
	Messages []ticket.Message
	Text     string // as it was typed
	Problems problems
}

// showTicket renders a conversation. Thread finds only those of the account, so an id of another one is a 404.
func (d *Dashboard) showTicket(w http.ResponseWriter, r *http.Request, v *visitor, status int, view ticketView) error {
	var err error
	if view.Ticket, view.Messages, err = d.Tickets.Thread(r.Context(), v.ID, r.PathValue("id")); err != nil {
		return err
	}
	return d.ui.Render(w, r, status, ticketPage(d.messagesFrame(w, r, v, view.Ticket.Subject), view))
}

// replyToTicket adds the customer's message to a conversation.
func (d *Dashboard) replyToTicket(w http.ResponseWriter, r *http.Request, v *visitor) error {
	view := ticketView{Text: r.FormValue("text")}
	if _, err := d.Tickets.Reply(r.Context(), v.ID, r.PathValue("id"), view.Text); err != nil {
		if fault.Is(err, fault.NotFound) {
			return err
		}
		return again(err, &view.Problems, func(status int) error {
			return d.showTicket(w, r, v, status, view)
		}, "text")
	}
	return d.seeOther(w, r, home+"/messages/"+r.PathValue("id"), "answered")
}

// resolveTicket closes a conversation for the customer.
func (d *Dashboard) resolveTicket(w http.ResponseWriter, r *http.Request, v *visitor) error {
	if _, err := d.Tickets.Resolve(r.Context(), v.ID, r.PathValue("id")); err != nil {
		return err
	}
	return d.seeOther(w, r, home+"/messages", "ticket-resolved")
}

// downgradeTicket tells support in a conversation that the customer wants a lower plan.
func (d *Dashboard) downgradeTicket(r *http.Request, v *visitor, plan account.Plan, message string) (*ticket.Ticket, error) {
	text := "Please downgrade my plan to " + planName(plan) + "."
	if message != "" {
		text += "\n\n" + message
	}
	return d.Tickets.Begin(r.Context(), v.Account, ticket.Downgrade, "Downgrade to "+planName(plan), text)
}

// asks reports whether support waits for the first answer to its question.
func asks(m *ticket.Ticket) bool {
	return m.Kind == ticket.Inquiry && m.Waits == ticket.Customer && m.Messages == 1
}

// ticketState says to the customer where a conversation is.
func ticketState(m *ticket.Ticket) string {
	switch {
	case m.State == ticket.Closed:
		return "closed"
	case asks(m):
		return "please answer"
	case m.Waits == ticket.Customer:
		return "answered"
	}
	return "waiting for support"
}

// ticketTone returns the colour of ticketState.
func ticketTone(m *ticket.Ticket) string {
	switch {
	case m.State == ticket.Closed:
		return ""
	case m.Waits == ticket.Customer && !asks(m):
		return "good"
	}
	return "warn"
}

// author says to the customer who wrote a message. Who of the staff it was is not told.
func author(m *ticket.Message) string {
	if m.From == ticket.Customer {
		return "You"
	}
	return "Support"
}
