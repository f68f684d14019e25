package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
)

// usageCmd prints an account's usage, including calls of the last second. Calls that are in the
// journal but not yet in the database count too.
func (p *program) usageCmd() *cobra.Command {
	in := admin.UsageQuery{}
	cmd := does(p, &cobra.Command{
		Use: "usage ID|E-MAIL", Short: "Show the usage of an account",
		Example: "  sluice usage ana@example.com --days 7 --by model",
	}, p.ops.UsageShow, &in, printUsage, &in.Ref)
	cmd.Flags().IntVar(&in.Days, "days", 30, "number of `days`, including today")
	cmd.Flags().StringVar(&in.By, "by", "", "group by `field`: model, key, day or month (default the first three)")
	cmd.AddCommand(p.usageExplainCmd())
	return cmd
}

// printUsage prints one line per row and a total. Columns that the rows are not grouped by
// stay empty. The cost leaves out calls of models without a price and says how many those are:
// a sum that ignored them silently would look complete.
func printUsage(w io.Writer, u *admin.Usage) {
	rows := [][]string{{"DAY", "MODEL", "KEY", "REQUESTS", "FAILED", "PROMPT", "COMPLETION", "UNITS", "COST USD", "LATENCY", "FIRST TOKEN", "CACHE HITS", "CACHE SAVED USD"}}
	// line appends a row. Latencies are means, in milliseconds.
	line := func(day, model, key string, s *admin.UsageSums) {
		cost := s.CostUSD.String()
		if s.ChargeUSD != "" {
			cost += " (charged " + s.ChargeUSD.String() + ")"
		}
		if s.Unpriced > 0 {
			cost += fmt.Sprintf(" (%d without a price)", s.Unpriced)
		}
		rows = append(rows, []string{
			day, model, key, strconv.FormatInt(s.Requests, 10), strconv.FormatInt(s.Failed, 10), strconv.FormatInt(s.PromptTokens, 10),
			strconv.FormatInt(s.CompletionTokens, 10), s.Units.String(), cost, fmt.Sprintf("%d ms", s.LatencyMS), fmt.Sprintf("%d ms", s.FirstTokenMS), cacheHits(s.CacheHitRate), cacheSaved(s),
		})
	}
	for i := range u.Rows {
		r := &u.Rows[i]
		line(r.Day, r.Model, r.Key, &r.UsageSums)
	}
	line("total", "", "", &u.Totals)
	table(w, rows)
}

// cacheHits writes a hit rate; a dash stands for none.
func cacheHits(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return strconv.FormatFloat(100**rate, 'f', 1, 64) + "%"
}

// cacheSaved writes what caches have saved, and what the customer is told of that.
func cacheSaved(s *admin.UsageSums) string {
	if s.SavedChargeUSD == "" {
		return s.SavedUSD.String()
	}
	return s.SavedUSD.String() + " (charged " + s.SavedChargeUSD.String() + ")"
}

// auditCmd checks the stored sums against the single calls. It changes nothing. A difference
// is a bug or a damaged database: every call is in both exactly once.
func (p *program) auditCmd() *cobra.Command {
	return &cobra.Command{
		Use: "audit", Short: "Recompute usage sums and report differences", Args: args(),
		Long: "Recompute the usage of every account and day from the journal and the database,\nand compare it with the hourly and daily sums. Then go through the calls in the\norder of time and check that at no instant more was reserved and spent than a\nhard budget has. The exit code is 1 if anything differs, if a budget was\noverspent, or if the journal was damaged and nobody has acknowledged it.",
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := ask(c.Context(), p, p.ops.AuditRun, admin.Empty{})
			if err != nil {
				return err
			}
			return p.judge(out, len(out.Differences)+len(out.Damage)+len(out.Overspent) == 0, func(w io.Writer) {
				// Only the sums that differ are printed, the recomputed ones first.
				for _, d := range out.Differences {
					fmt.Fprintf(w, "%s %s: %s: recomputed %s, stored %s\n", d.Day.Format(time.DateOnly), d.AccountID, d.What, sumsText(d.Rows, d.Sums), sumsText(d.Sums, d.Rows))
				}
				printDamage(w, out.Damage)
				printOverspent(w, out.Overspent)
				fmt.Fprintf(w, "%d account days compared, %d differences.\n", out.Compared, len(out.Differences))
				if out.Charges > 0 {
					fmt.Fprintf(w, "%d charges of budgets followed, %d budgets overspent.\n", out.Charges, len(out.Overspent))
				}
				if len(out.Damage) > 0 {
					fmt.Fprintln(w, "The journal was damaged. What it lost is in no sum. When you have dealt with it: sluice journal acknowledge")
				}
			})
		},
	}
}

// printOverspent prints when and by how much budgets were overspent.
func printOverspent(w io.Writer, list []budget.Overspend) {
	for i := range list {
		o, period := &list[i], ""
		if o.Period > 0 {
			period = " in the period from " + secondText(time.UnixMilli(o.Period))
		}
		fmt.Fprintf(w, "%s budget %s%s: %s USD reserved and %s USD spent are %s USD more than its %s USD, as at %d more instants; requests %s\n",
			o.At.Format("2006-01-02 15:04:05.000"), o.Count, period, o.Reserved, o.Spent, o.Over(), o.Amount, o.Instants-1, strings.Join(o.Requests, " "))
	}
}

// sumsText returns the sums of s that differ from those of others, by their JSON names. Going
// through JSON means that a field added to usage.Sums is compared without a change here.
func sumsText(s, others usage.Sums) string {
	// of returns the sums by their JSON names.
	of := func(s usage.Sums) (m map[string]int64) {
		raw, _ := json.Marshal(s) // only numbers: never fails
		_ = json.Unmarshal(raw, &m)
		return m
	}
	var text []string
	than := of(others)
	for name, n := range of(s) {
		if n != than[name] {
			text = append(text, fmt.Sprintf("%s %d", name, n))
		}
	}
	// Maps have no order, and the output must be the same each time.
	slices.Sort(text)
	return strings.Join(text, ", ")
}
