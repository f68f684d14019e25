package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/overview"
)

// overviewCmd shows what the service does now.
func (p *program) overviewCmd() *cobra.Command {
	return does(p, &cobra.Command{
		Use: "overview", Short: "Show current traffic and the busiest accounts",
		Long: `Show the traffic of all servers of the installation in the last minutes, the
accounts that make the most calls, plans, sign-ups and revenue. With --json it
prints the last three hours by minute and the last 30 days.`,
	}, p.ops.OverviewShow, &admin.Empty{}, printOverview)
}

// minutesShown is how many minutes are printed.
const minutesShown = 10

// printOverview prints a report as tables.
func printOverview(w io.Writer, r *overview.Report) {
	rows := [][]string{{"MINUTE", "CALLS", "FAILED", "REFUSED", "TOKENS", "P50", "P95", "STREAMS", "JOURNAL"}}
	for _, m := range r.Points[max(0, len(r.Points)-minutesShown):] {
		rows = append(rows, []string{
			m.At.Local().Format("15:04"), fmt.Sprint(m.Calls), fmt.Sprint(m.Failed), fmt.Sprint(m.Refused), fmt.Sprint(m.Prompt + m.Answer),
			millisText(m.Median), millisText(m.Slow), fmt.Sprint(m.Streams), fmt.Sprint(m.Journal),
		})
	}
	table(w, rows)
	fmt.Fprintln(w)
	busy := [][]string{{"BUSY NOW", "PLAN", "CALLS IN 5 MIN", "FAILED", "TOKENS"}}
	for _, b := range r.Busy {
		name := b.Email
		if name == "" {
			name = b.AccountID
		}
		busy = append(busy, []string{name, b.Plan, fmt.Sprint(b.Calls), fmt.Sprint(b.Failed), fmt.Sprint(b.Tokens)})
	}
	table(w, busy)
	fmt.Fprintln(w)
	signUps, cents := 0, int64(0)
	for _, d := range r.Days {
		signUps += d.SignUps
		cents += d.Cents
	}
	plans := ""
	for i, pc := range r.Plans {
		if i > 0 {
			plans += ", "
		}
		plans += fmt.Sprintf("%d %s", pc.Accounts, pc.Plan)
	}
	table(w, [][]string{
		{"servers", fmt.Sprint(r.Nodes)},
		{"upstreams", fmt.Sprintf("%d, of which %d down and %d drained", r.Targets.All, r.Targets.Down, r.Targets.Drained)},
		{"videos waiting", fmt.Sprintf("%d, the oldest for %s", r.Videos.Waiting, time.Duration(r.Videos.OldestSeconds)*time.Second)},
		{"accounts", fmt.Sprintf("%d: %s", r.Accounts, plans)},
		{"last 30 days", fmt.Sprintf("%d sign-ups, $%d.%02d paid", signUps, cents/100, cents%100)},
	})
	for _, problem := range r.Problems {
		fmt.Fprintln(w, problem)
	}
}

// millisText formats a time; empty if there is none.
func millisText(ms int64) string {
	if ms == 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String()
}
