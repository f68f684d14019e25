package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/app"
)

// doctorCmd checks everything it can without changing anything. An invalid configuration is a
// finding like any other, so that doctor reports it instead of failing.
func (p *program) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the configuration, database and providers, and report problems", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			var findings []app.Finding
			cfg, err := p.load()
			if err != nil {
				// Load joins all mistakes, one per line. Each becomes a finding.
				for line := range strings.Lines(err.Error()) {
					findings = append(findings, app.Finding{
						Subject: "configuration", State: app.StateProblem, Message: strings.TrimSpace(line),
						Advice: "Fix it there. \"sluice config docs\" explains every setting.",
					})
				}
			} else {
				findings = app.Examine(c.Context(), cfg)
			}
			if err := p.print(findings, func(w io.Writer) { printFindings(w, findings) }); err != nil {
				return err
			}
			for _, f := range findings {
				if f.State == app.StateProblem {
					return errSilent
				}
			}
			return nil
		},
	}
}

// printFindings prints one line per finding, its advice below it, and a summary.
func printFindings(w io.Writer, findings []app.Finding) {
	marks := map[string]string{app.StateOK: "✓", app.StateWarning: "!", app.StateProblem: "✗"}
	counts := map[string]int{}
	for _, f := range findings {
		counts[f.State]++
		fmt.Fprintf(w, "%s %s: %s\n", marks[f.State], f.Subject, f.Message)
		if f.Advice != "" {
			fmt.Fprintf(w, "    → %s\n", f.Advice)
		}
	}
	switch {
	case counts[app.StateProblem] > 0:
		fmt.Fprintf(w, "\nProblems: %d, warnings: %d.\n", counts[app.StateProblem], counts[app.StateWarning])
	case counts[app.StateWarning] > 0:
		fmt.Fprintf(w, "\nNo problems. Warnings: %d.\n", counts[app.StateWarning])
	default:
		fmt.Fprintln(w, "\nNo problems found.")
	}
}
