package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/doctor"
)

// doctorCmd checks everything it can without changing anything. An invalid configuration is a
// finding like any other, so that doctor reports it instead of failing. It works with and
// without a running server. The exit code is 1 if there is a problem; warnings do not count.
func (p *program) doctorCmd() *cobra.Command {
	var clients bool
	o := doctor.ClientsOptions{}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the configuration, database and providers, and report problems", Args: args(),
		Long: "Check the configuration, database and providers, and report problems.\n\nWith --clients, do on the running server what clients of each dialect do: chat\n" +
			"completions, responses, messages, embeddings and lists of models, whole and streamed,\nwith tools and with mistakes. This calls models as any client does, with an API key.",
		Example: "  sluice doctor\n  sluice doctor --clients --key service-…",
		RunE: func(c *cobra.Command, _ []string) error {
			if clients {
				return p.tryClients(c, o)
			}
			return p.report(p.findings(c.Context()))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&clients, "clients", false, "try what clients do on the running server")
	flags.StringVar(&o.Key, "key", "", "with --clients: API `key` (default $SLUICE_KEY)")
	flags.StringVar(&o.URL, "url", "", "with --clients: origin of the service, such as https://api.example.com (default: that of the server on the data folder)")
	flags.StringVar(&o.Model, "model", "", "with --clients: chat `model` to call (default: a sandbox model)")
	flags.StringVar(&o.Embedder, "embedder", "", "with --clients: embedding `model` to call (default: a sandbox model)")
	return cmd
}

// tryClients prints what a client of each dialect gets from the running server, and fails if anything is not as it should be.
func (p *program) tryClients(c *cobra.Command, o doctor.ClientsOptions) error {
	if o.Key = p.setting(o.Key, "SLUICE_KEY"); o.Key == "" {
		return misused(c, errors.New("no API key; use --key or set SLUICE_KEY"))
	}
	if o.URL == "" {
		var err error
		if o.URL, err = p.origin(c.Context()); err != nil {
			return err
		}
	}
	o.URL = strings.TrimSuffix(o.URL, "/") + "/v1"
	done := doctor.Clients(c.Context(), o)
	failed := 0
	for i := range done {
		if !done[i].OK {
			failed++
		}
	}
	return p.judge(done, failed == 0, func(w io.Writer) {
		columns[doctor.ClientCheck]{[]string{"DOOR", "CHECK", "RESULT", "MS", "DETAIL"}, func(r *doctor.ClientCheck) []string {
			result := "ok"
			if !r.OK {
				result = "FAILED"
			}
			return []string{r.Door, r.What, result, strconv.FormatInt(r.TookMS, 10), r.Detail}
		}}.write(w, done)
		fmt.Fprintf(w, "\n%d of %d checks passed.\n", len(done)-failed, len(done))
	})
}

// findings returns what the server on the data folder finds about itself, or, if none answers, what this program finds
// about the configured site. The server's configuration is another one if it was started with other flags or
// variables.
func (p *program) findings(ctx context.Context) []doctor.Finding {
	if client, _, err := p.dial(ctx); err == nil && client != nil {
		var findings []doctor.Finding
		raw, err := p.ops.ServerExamine.Call(ctx, client, admin.Asking{Version: buildinfo.Version()})
		// A server of a version before this one does not know the operation.
		if err == nil && json.Unmarshal(raw, &findings) == nil {
			return findings
		}
	}
	return p.examine(ctx, app.Examine)
}

// examine returns what look finds about the configured site.
func (p *program) examine(ctx context.Context, look func(context.Context, *config.Config) []doctor.Finding) (findings []doctor.Finding) {
	cfg, err := p.load()
	if err != nil {
		// Load joins all mistakes, one per line. Each becomes a finding.
		for line := range strings.Lines(err.Error()) {
			findings = append(findings, doctor.Finding{
				Subject: "configuration", State: doctor.StateProblem, Message: strings.TrimSpace(line),
				Advice: "Fix it there. \"sluice config docs\" explains every setting.",
			})
		}
		return findings
	}
	return look(ctx, cfg)
}

// report prints findings, and fails if there is a problem.
func (p *program) report(findings []doctor.Finding) error {
	good := !slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.State == doctor.StateProblem })
	return p.judge(findings, good, func(w io.Writer) { printFindings(w, findings) })
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
