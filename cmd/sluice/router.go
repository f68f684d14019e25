package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/feedback"
)

// routerCmd groups the commands about what the router has been told.
func (p *program) routerCmd() *cobra.Command {
	in := &admin.RouterReset{}
	return group("router", "Show feedback about models, and reset it",
		lists(p, &cobra.Command{
			Use: "feedback", Short: "List how feedback has changed the scores of models, by kind of task",
			Long: `List how feedback has changed what the router expects of models, in points of 100.

Votes and calls are shown as they count: half for each week since, and a few of
one account at most. Feedback is off unless the configuration has router.feedback.`,
		}, p.ops.RouterFeedback, &admin.Cursor{}, columns[feedback.Rating]{
			[]string{"MODEL", "TASK", "POINTS", "ACCOUNTS", "GOOD", "BAD", "CALLS", "TROUBLED"}, func(s *feedback.Rating) []string {
				return []string{s.Model, s.Task, fmt.Sprintf("%+.2f", s.Points), fmt.Sprint(s.Accounts), amount(s.Good), amount(s.Bad), amount(s.Calls), amount(s.Troubled)}
			},
		}),
		addWhy(does(p, &cobra.Command{
			Use: "reset [MODEL]", Short: "Delete the feedback about a model, or all of it",
			Long: "Delete the feedback about a model, or all of it, on all servers of the installation.",
		}, p.ops.RouterForget, in, func(w io.Writer, out *admin.RouterReset) {
			fmt.Fprintf(w, "Deleted the feedback about %s.\n", cmp.Or(out.Model, "all models"))
		}, &in.Model), &in.Reason))
}

// amount prints a number of votes or calls.
func amount(v float64) string { return fmt.Sprintf("%.1f", v) }
