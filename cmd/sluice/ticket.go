package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/ticket"
)

// ticketCmd groups the commands of support: the queue, and the threads with customers (docs/sell/tickets.md).
func (p *program) ticketCmd() *cobra.Command {
	in := &admin.TicketStep{} // only one of the commands runs
	step := func(cmd *cobra.Command, op admin.Op[admin.TicketStep, admin.TicketThread], into ...*string) *cobra.Command {
		return does(p, cmd, op, in, printTicket, append([]*string{&in.ID}, into...)...)
	}
	answer := step(&cobra.Command{Use: "answer TICKET --text T", Short: "Answer a customer"}, p.ops.TicketAnswer)
	answer.Flags().StringVar(&in.Text, "text", "", "`text` of the message")
	shut := step(&cobra.Command{Use: "close TICKET", Short: "Close a ticket; a message of the customer opens it again"}, p.ops.TicketClose)
	shut.Flags().StringVar(&in.Reason, "reason", "", "`reason` for the audit log")
	decide := step(&cobra.Command{
		Use: "decide TICKET DECISION --reason R --text T", Short: "Decide on an account: clear, warn, restore or suspend",
		Long: "Decide on the account of a ticket, tell the customer and close the ticket.\nclear closes it, warn sends the text, restore makes the keys and the account work\nagain, and suspend suspends the account.",
	}, p.ops.TicketDecide, &in.Decision)
	decide.Flags().StringVar(&in.Text, "text", "", "`text` of the message to the customer; only clear needs none")
	one := &admin.TicketRef{}
	return group("ticket", "Answer customers, and decide on their accounts", p.ticketListCmd(), p.ticketOpenCmd(), p.ticketSnoozeCmd(),
		requires(answer, "text"), shut, addReason(decide, &in.Reason),
		does(p, &cobra.Command{Use: "show TICKET", Short: "Show a ticket with its messages"}, p.ops.TicketShow, one, printTicket, &one.ID),
		// Without a name it is taken from whoever has it.
		step(&cobra.Command{Use: "assign TICKET [WHO]", Short: "Assign a ticket to a member of staff, or to nobody", Args: cobra.RangeArgs(1, 2)}, p.ops.TicketAssign, &in.To),
		step(&cobra.Command{Use: "reopen TICKET", Short: "Put a closed or snoozed ticket back into the queue"}, p.ops.TicketReopen))
}

// matterCmd is ticketCmd by the name it had before, which scripts may still use. It is hidden, and goes with the next
// release.
func (p *program) matterCmd() *cobra.Command {
	cmd := p.ticketCmd()
	cmd.Use, cmd.Hidden = "matter", true
	return cmd
}

// ticketListCmd prints the queue, the oldest ticket first.
func (p *program) ticketListCmd() *cobra.Command {
	in := admin.TicketQuery{}
	cmd := lists(p, &cobra.Command{
		Use: "list", Short: "List what is waiting for support, oldest first",
		Long: "List what is waiting for support, oldest first: messages of customers, accounts whose\nkeys are off, scores past 90, fast climbs and failed payments. The list of closed\ntickets has the newest first.",
	}, p.ops.TicketList, &in, columns[ticket.Ticket]{
		[]string{"ID", "SINCE", "KIND", "ACCOUNT", "SUBJECT", "STATE", "WAITS FOR", "ASSIGNEE", "MESSAGES"}, func(m *ticket.Ticket) []string {
			return []string{m.ID, timeText(&m.Since), string(m.Kind), m.Email, m.Subject, string(m.State), string(m.Waits), m.Assignee, strconv.Itoa(m.Messages)}
		},
	})
	cmd.Flags().StringVar(&in.View, "view", "waiting", "`list`: waiting, answered, snoozed or closed")
	cmd.Flags().StringVar(&in.Kind, "kind", "", "only tickets of a `kind`")
	cmd.Flags().StringVar(&in.Assignee, "assignee", "", "only tickets of a member of staff, `who`, or - for nobody's")
	cmd.Flags().StringVar(&in.Account, "account", "", "all tickets of one account, by its `id` or address")
	return cmd
}

// ticketOpenCmd writes to a customer who has not asked.
func (p *program) ticketOpenCmd() *cobra.Command {
	in := admin.NewTicket{}
	cmd := does(p, &cobra.Command{Use: "open ID|E-MAIL --subject S --text T", Short: "Write to a customer"}, p.ops.TicketOpen, &in, printTicket, &in.Ref)
	cmd.Flags().StringVar(&in.Kind, "kind", "other", "`kind`: restore, downgrade, billing, inquiry or other")
	cmd.Flags().StringVar(&in.Subject, "subject", "", "`subject` of the message")
	cmd.Flags().StringVar(&in.Text, "text", "", "`text` of the message")
	return requires(cmd, "subject", "text")
}

// ticketSnoozeCmd takes a ticket out of the queue for a while.
func (p *program) ticketSnoozeCmd() *cobra.Command {
	in := admin.TicketStep{}
	var until string
	cmd := does(p, &cobra.Command{
		Use: "snooze TICKET --until DATE", Short: "Take a ticket out of the queue until a date",
		Example: "  sluice ticket snooze mat_7X… --until 2027-03-01",
		PreRunE: func(c *cobra.Command, _ []string) error { return parseDate(c, until, &in.Until) },
	}, p.ops.TicketSnooze, &in, printTicket, &in.ID)
	cmd.Flags().StringVar(&until, "until", "", "`date`, such as 2027-03-01 or 2027-03-01T12:00:00Z")
	return requires(cmd, "until")
}

// printTicket prints a ticket as a list of properties, followed by its messages.
func printTicket(w io.Writer, m *admin.TicketThread) {
	rows := [][]string{
		{"id", m.ID},
		{"account", m.Email + " (" + m.AccountID + ")"},
		{"kind", string(m.Kind)},
		{"subject", m.Subject},
		{"state", string(m.State)},
		{"waits for", string(m.Waits)},
		{"since", timeText(&m.Since)},
		{"opened", timeText(&m.OpenedAt)},
	}
	if m.Assignee != "" {
		rows = append(rows, []string{"assignee", m.Assignee})
	}
	if !m.SnoozedUntil.IsZero() {
		rows = append(rows, []string{"snoozed until", m.SnoozedUntil.UTC().Format(time.RFC3339)})
	}
	table(w, rows)
	for _, x := range m.Thread {
		fmt.Fprintf(w, "\n%s (%s), %s:\n%s\n", x.From, x.Author, timeText(&x.At), x.Text)
	}
}
