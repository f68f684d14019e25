package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/doctor"
)

// doctorCmd checks everything it can without changing anything. An invalid configuration is a
// finding like any other, so that doctor reports it instead of failing. It works with and
// without a running server. The exit code is 1 if there is a problem; warnings do not count.
func (p *program) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the configuration, database and providers, and report problems", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error { return p.examine(c.Context(), app.Examine) },
	}
}

// examine prints what look finds about the configured site, and fails if there is a problem.
func (p *program) examine(ctx context.Context, look func(context.Context, *config.Config) []doctor.Finding) error {
	var findings []doctor.Finding
	cfg, err := p.load()
	if err != nil {
		// Load joins all mistakes, one per line. Each becomes a finding.
		for line := range strings.Lines(err.Error()) {
			findings = append(findings, doctor.Finding{
				Subject: "configuration", State: doctor.StateProblem, Message: strings.TrimSpace(line),
				Advice: "Fix it there. \"sluice config docs\" explains every setting.",
			})
		}
	} else {
		findings = look(ctx, cfg)
	}
	// Everything is printed before the exit code is decided.
	if err := p.print(findings, func(w io.Writer) { printFindings(w, findings) }); err != nil {
		return err
	}
	for _, f := range findings {
		if f.State == doctor.StateProblem {
			return errSilent
		}
	}
	return nil
}

// printFindings prints one line per finding, its advice below it, and a summary. What is right is
// listed too, so that people see what was checked.
func printFindings(w io.Writer, findings []doctor.Finding) {
	// Every state has a mark of its own, because output may have no colours.
	marks := map[string]string{doctor.StateOK: "✓", doctor.StateWarning: "!", doctor.StateProblem: "✗"}
	counts := map[string]int{}
	for _, f := range findings {
		counts[f.State]++
		fmt.Fprintf(w, "%s %s: %s\n", marks[f.State], f.Subject, f.Message)
		if f.Advice != "" {
			fmt.Fprintf(w, "    → %s\n", f.Advice)
		}
	}
	switch {
	case counts[doctor.StateProblem] > 0:
		fmt.Fprintf(w, "\nProblems: %d, warnings: %d.\n", counts[doctor.StateProblem], counts[doctor.StateWarning])
	case counts[doctor.StateWarning] > 0:
		fmt.Fprintf(w, "\nNo problems. Warnings: %d.\n", counts[doctor.StateWarning])
	default:
		fmt.Fprintln(w, "\nNo problems found.")
	}
}
