package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/feedback"
)

// routerCmd groups the commands about what the router has been told.
func (p *program) routerCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "router", Short: "Look at feedback about models, and reset it", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.routerFeedbackCmd(), p.routerResetCmd())
	return cmd
}

func (p *program) routerFeedbackCmd() *cobra.Command {
	return &cobra.Command{
		Use: "feedback", Short: "List how far feedback has moved models at each kind of task", Args: args(),
		Long: `List how far feedback has moved what the router expects of models, in points of 100.

Votes and calls are shown as they count: half for each week since, and a few of
one account at most. Feedback is off unless the configuration has router.feedback.`,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := fetchAll[feedback.Standing](c.Context(), p, "router.feedback", plainCursor)
			if err != nil {
				return err
			}
			return p.print(list, func(w io.Writer) {
				rows := [][]string{{"MODEL", "TASK", "POINTS", "ACCOUNTS", "GOOD", "BAD", "CALLS", "TROUBLED"}}
				for i := range list {
					s := &list[i]
					rows = append(rows, []string{s.Model, s.Task, fmt.Sprintf("%+.2f", s.Points), fmt.Sprint(s.Accounts), amount(s.Good), amount(s.Bad), amount(s.Calls), amount(s.Troubled)})
				}
				table(w, rows)
			})
		},
	}
}

// amount prints a number of votes or calls.
func amount(v float64) string { return fmt.Sprintf("%.1f", v) }

func (p *program) routerResetCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "reset [MODEL]", Short: "Forget the feedback about a model, or all of it", Args: optional("MODEL"),
		Long: "Forget the feedback about a model, or all of it, on all servers of the installation.",
		RunE: func(c *cobra.Command, given []string) error {
			in := admin.RouterReset{Actor: p.actor(), Reason: reason}
			if len(given) > 0 {
				in.Model = given[0]
			}
			var out admin.RouterReset
			if err := p.call(c.Context(), "router.reset", in, &out); err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				what := "all models"
				if out.Model != "" {
					what = out.Model
				}
				fmt.Fprintf(w, "the feedback about %s is forgotten\n", what)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the audit log")
	return cmd
}
