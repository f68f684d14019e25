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
	cmd := &cobra.Command{Use: "matter", Short: "Work off what customers ask and what needs support", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.matterListCmd(), p.matterShowCmd(), p.matterOpenCmd(), p.matterAnswerCmd(), p.matterAssignCmd(), p.matterSnoozeCmd(),
		p.matterCloseCmd(), p.matterReopenCmd(), p.matterDecideCmd())
	return cmd
}

// matterListCmd prints the queue, the oldest matter first.
func (p *program) matterListCmd() *cobra.Command {
	in := admin.MatterQuery{}
	cmd := &cobra.Command{
		Use: "list", Short: "List what waits for support, oldest first", Args: args(),
		Long: "List what waits for support, oldest first: messages of customers, accounts whose\nkeys are off, scores past 90, fast climbs and failed payments. The list closed has\nthe newest first.",
		RunE: func(c *cobra.Command, _ []string) error {
			// Not nil: without matters --json prints an empty list.
			all := []admin.Matter{}
			for {
				var out admin.List[admin.Matter]
				if err := p.call(c.Context(), "matter.list", in, &out); err != nil {
					return err
				}
				all = append(all, out.Data...)
				if in.After = out.Next; in.After == "" {
					break
				}
			}
			return p.print(all, func(w io.Writer) {
				rows := [][]string{{"ID", "SINCE", "KIND", "ACCOUNT", "SUBJECT", "STATE", "WAITS FOR", "ASSIGNEE", "MESSAGES"}}
				for i := range all {
					m := &all[i]
					rows = append(rows, []string{m.ID, timeText(&m.Since), m.Kind, m.Email, m.Subject, m.State, m.WaitsFor, m.Assignee, strconv.Itoa(m.Messages)})
				}
				table(w, rows)
			})
		},
	}
	cmd.Flags().StringVar(&in.View, "view", "waiting", "`list`: waiting, answered, snoozed or closed")
	cmd.Flags().StringVar(&in.Kind, "kind", "", "only matters of a `kind`")
	cmd.Flags().StringVar(&in.Assignee, "assignee", "", "only matters of a member of staff, `who`, or - for nobody's")
	cmd.Flags().StringVar(&in.Account, "account", "", "all matters of one account, by its `id` or address")
	return cmd
}

// matterShowCmd prints one thread.
func (p *program) matterShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show MATTER", Short: "Show a matter with its messages", Args: args("MATTER"),
		RunE: func(c *cobra.Command, given []string) error {
			return p.callMatter(c, "matter.show", admin.MatterRef{ID: given[0]})
		},
	}
}

// matterOpenCmd writes to a customer who has not asked.
func (p *program) matterOpenCmd() *cobra.Command {
	in := admin.NewMatter{}
	cmd := &cobra.Command{
		Use: "open ID|E-MAIL --subject S --text T", Short: "Write to a customer", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			in.Actor, in.Ref = p.actor(), given[0]
			return p.callMatter(c, "matter.open", in)
		},
	}
	cmd.Flags().StringVar(&in.Kind, "kind", "other", "`kind`: restore, downgrade, billing, inquiry or other")
	cmd.Flags().StringVar(&in.Subject, "subject", "", "`subject` of the message")
	cmd.Flags().StringVar(&in.Text, "text", "", "`text` of the message")
	for _, name := range []string{"subject", "text"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}

func (p *program) matterAnswerCmd() *cobra.Command {
	cmd, in := p.matterStepCmd("matter.answer", "answer MATTER --text T", "Answer a customer")
	cmd.Flags().StringVar(&in.Text, "text", "", "`text` of the message")
	_ = cmd.MarkFlagRequired("text") // the flag exists
	return cmd
}

// matterAssignCmd assigns a matter. Without a name it is taken from whoever has it.
func (p *program) matterAssignCmd() *cobra.Command {
	return &cobra.Command{
		Use: "assign MATTER [WHO]", Short: "Assign a matter to a member of staff, or to nobody", Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, given []string) error {
			in := admin.MatterStep{Actor: p.actor(), ID: given[0]}
			if len(given) == 2 {
				in.To = given[1]
			}
			return p.callMatter(c, "matter.assign", in)
		},
	}
}

// matterSnoozeCmd takes a matter out of the queue for a while.
func (p *program) matterSnoozeCmd() *cobra.Command {
	var until string
	cmd := &cobra.Command{
		Use: "snooze MATTER --until DATE", Short: "Take a matter out of the queue until a date", Args: args("MATTER"),
		Example: "  sluice matter snooze mat_7X… --until 2027-03-01",
		RunE: func(c *cobra.Command, given []string) error {
			at, err := parseDate(until)
			if err != nil {
				return misused(c, err)
			}
			return p.callMatter(c, "matter.snooze", admin.MatterStep{Actor: p.actor(), ID: given[0], Until: at})
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "`date`, such as 2027-03-01 or 2027-03-01T12:00:00Z")
	_ = cmd.MarkFlagRequired("until") // the flag exists
	return cmd
}

func (p *program) matterCloseCmd() *cobra.Command {
	cmd, in := p.matterStepCmd("matter.close", "close MATTER", "Close a matter; a message of the customer opens it again")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`reason` for the audit log")
	return cmd
}

func (p *program) matterReopenCmd() *cobra.Command {
	cmd, _ := p.matterStepCmd("matter.reopen", "reopen MATTER", "Put a closed or snoozed matter back into the queue")
	return cmd
}

// matterDecideCmd does what support has decided, tells the customer and closes the matter.
func (p *program) matterDecideCmd() *cobra.Command {
	in := admin.MatterStep{}
	cmd := &cobra.Command{
		Use: "decide MATTER DECISION --reason R --text T", Short: "Decide on an account: clear, warn, restore or suspend", Args: args("MATTER", "DECISION"),
		Long: "Decide on the account of a matter, tell the customer and close the matter.\nclear closes it, warn sends the text, restore makes the keys and the account work\nagain, and suspend suspends the account.",
		RunE: func(c *cobra.Command, given []string) error {
			in.Actor, in.ID, in.Decision = p.actor(), given[0], given[1]
			return p.callMatter(c, "matter.decide", in)
		},
	}
	addReason(cmd, &in.Reason)
	cmd.Flags().StringVar(&in.Text, "text", "", "`text` of the message to the customer; only clear needs none")
	return cmd
}

// matterStepCmd returns a command that changes a matter, and its argument, for flags to write to.
func (p *program) matterStepCmd(operation, use, short string) (*cobra.Command, *admin.MatterStep) {
	in := &admin.MatterStep{}
	return &cobra.Command{
		Use: use, Short: short, Args: args("MATTER"),
		RunE: func(c *cobra.Command, given []string) error {
			in.Actor, in.ID = p.actor(), given[0]
			return p.callMatter(c, operation, in)
		},
	}, in
}

// callMatter runs an operation that returns a matter, and prints it.
func (p *program) callMatter(c *cobra.Command, name string, in any) error {
	var out admin.MatterThread
	if err := p.call(c.Context(), name, in, &out); err != nil {
		return err
	}
	return p.print(out, func(w io.Writer) { printMatter(w, &out) })
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
