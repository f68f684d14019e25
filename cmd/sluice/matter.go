package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
)

// matterCmd groups the commands of support: the queue, and the threads with customers (docs/support.md#matters).
func (p *program) matterCmd() *cobra.Command {
	return group("matter", "Work off what customers ask and what needs support", p.matterListCmd(), p.matterShowCmd(), p.matterOpenCmd(),
		p.matterAnswerCmd(), p.matterAssignCmd(), p.matterSnoozeCmd(), p.matterCloseCmd(), p.matterReopenCmd(), p.matterDecideCmd())
}

// matterListCmd prints the queue, the oldest matter first.
func (p *program) matterListCmd() *cobra.Command {
	in := admin.MatterQuery{}
	cmd := lists(p, &cobra.Command{
		Use: "list", Short: "List what waits for support, oldest first", Args: args(),
		Long: "List what waits for support, oldest first: messages of customers, accounts whose\nkeys are off, scores past 90, fast climbs and failed payments. The list closed has\nthe newest first.",
	}, p.ops.MatterList, &in, columns[admin.Matter]{
		[]string{"ID", "SINCE", "KIND", "ACCOUNT", "SUBJECT", "STATE", "WAITS FOR", "ASSIGNEE", "MESSAGES"}, func(m *admin.Matter) []string {
			return []string{m.ID, timeText(&m.Since), m.Kind, m.Email, m.Subject, m.State, m.WaitsFor, m.Assignee, strconv.Itoa(m.Messages)}
		},
	})
	cmd.Flags().StringVar(&in.View, "view", "waiting", "`list`: waiting, answered, snoozed or closed")
	cmd.Flags().StringVar(&in.Kind, "kind", "", "only matters of a `kind`")
	cmd.Flags().StringVar(&in.Assignee, "assignee", "", "only matters of a member of staff, `who`, or - for nobody's")
	cmd.Flags().StringVar(&in.Account, "account", "", "all matters of one account, by its `id` or address")
	return cmd
}

// matterShowCmd prints one thread.
func (p *program) matterShowCmd() *cobra.Command {
	in := admin.MatterRef{}
	return does(p, &cobra.Command{Use: "show MATTER", Short: "Show a matter with its messages", Args: args("MATTER")}, p.ops.MatterShow, &in, printMatter, &in.ID)
}

// matterOpenCmd writes to a customer who has not asked.
func (p *program) matterOpenCmd() *cobra.Command {
	in := admin.NewMatter{}
	cmd := does(p, &cobra.Command{Use: "open ID|E-MAIL --subject S --text T", Short: "Write to a customer", Args: args("ID")}, p.ops.MatterOpen, &in, printMatter, &in.Ref)
	cmd.Flags().StringVar(&in.Kind, "kind", "other", "`kind`: restore, downgrade, billing, inquiry or other")
	cmd.Flags().StringVar(&in.Subject, "subject", "", "`subject` of the message")
	cmd.Flags().StringVar(&in.Text, "text", "", "`text` of the message")
	return requires(cmd, "subject", "text")
}

func (p *program) matterAnswerCmd() *cobra.Command {
	in := admin.MatterStep{}
	cmd := does(p, &cobra.Command{Use: "answer MATTER --text T", Short: "Answer a customer", Args: args("MATTER")}, p.ops.MatterAnswer, &in, printMatter, &in.ID)
	cmd.Flags().StringVar(&in.Text, "text", "", "`text` of the message")
	return requires(cmd, "text")
}

// matterAssignCmd assigns a matter. Without a name it is taken from whoever has it.
func (p *program) matterAssignCmd() *cobra.Command {
	in := admin.MatterStep{}
	return does(p, &cobra.Command{Use: "assign MATTER [WHO]", Short: "Assign a matter to a member of staff, or to nobody", Args: cobra.RangeArgs(1, 2)},
		p.ops.MatterAssign, &in, printMatter, &in.ID, &in.To)
}

// matterSnoozeCmd takes a matter out of the queue for a while.
func (p *program) matterSnoozeCmd() *cobra.Command {
	in := admin.MatterStep{}
	var until string
	cmd := does(p, &cobra.Command{
		Use: "snooze MATTER --until DATE", Short: "Take a matter out of the queue until a date", Args: args("MATTER"),
		Example: "  sluice matter snooze mat_7X… --until 2027-03-01",
		PreRunE: func(c *cobra.Command, _ []string) error { return parseDate(c, until, &in.Until) },
	}, p.ops.MatterSnooze, &in, printMatter, &in.ID)
	cmd.Flags().StringVar(&until, "until", "", "`date`, such as 2027-03-01 or 2027-03-01T12:00:00Z")
	return requires(cmd, "until")
}

func (p *program) matterCloseCmd() *cobra.Command {
	in := admin.MatterStep{}
	cmd := does(p, &cobra.Command{Use: "close MATTER", Short: "Close a matter; a message of the customer opens it again", Args: args("MATTER")}, p.ops.MatterClose, &in, printMatter, &in.ID)
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`reason` for the audit log")
	return cmd
}

func (p *program) matterReopenCmd() *cobra.Command {
	in := admin.MatterStep{}
	return does(p, &cobra.Command{Use: "reopen MATTER", Short: "Put a closed or snoozed matter back into the queue", Args: args("MATTER")}, p.ops.MatterReopen, &in, printMatter, &in.ID)
}

// matterDecideCmd does what support has decided, tells the customer and closes the matter.
func (p *program) matterDecideCmd() *cobra.Command {
	in := admin.MatterStep{}
	cmd := does(p, &cobra.Command{
		Use: "decide MATTER DECISION --reason R --text T", Short: "Decide on an account: clear, warn, restore or suspend", Args: args("MATTER", "DECISION"),
		Long: "Decide on the account of a matter, tell the customer and close the matter.\nclear closes it, warn sends the text, restore makes the keys and the account work\nagain, and suspend suspends the account.",
	}, p.ops.MatterDecide, &in, printMatter, &in.ID, &in.Decision)
	cmd.Flags().StringVar(&in.Text, "text", "", "`text` of the message to the customer; only clear needs none")
	return addReason(cmd, &in.Reason)
}

// printMatter prints a matter as a list of properties, followed by its messages.
func printMatter(w io.Writer, m *admin.MatterThread) {
	rows := [][]string{
		{"id", m.ID},
		{"account", m.Email + " (" + m.Account + ")"},
		{"kind", m.Kind},
		{"subject", m.Subject},
		{"state", m.State},
		{"waits for", m.WaitsFor},
		{"since", timeText(&m.Since)},
		{"opened", timeText(&m.OpenedAt)},
	}
	if m.Assignee != "" {
		rows = append(rows, []string{"assignee", m.Assignee})
	}
	if m.SnoozedUntil != nil {
		rows = append(rows, []string{"snoozed until", m.SnoozedUntil.UTC().Format(time.RFC3339)})
	}
	table(w, rows)
	for _, x := range m.Thread {
		fmt.Fprintf(w, "\n%s (%s), %s:\n%s\n", x.From, x.Author, timeText(&x.At), x.Text)
	}
}
