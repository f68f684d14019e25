package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/ledger/costs"
	"sluice/internal/operate/admin"
)

// usageExplainCmd prints what the costs of an account consist of.
func (p *program) usageExplainCmd() *cobra.Command {
	in := admin.ExplainQuery{Cursor: admin.Cursor{Limit: 20}}
	cmd := does(p, &cobra.Command{
		Use: "explain ID|E-MAIL", Short: "Show what the costs of an account consist of",
		Long: `Show the costs of an account by day, by model and by call, each call with the
formula of its cost: its counts, who counted them, and the prices of its time.
The days, the models and the calls of all pages add up to the total, to the last
nano-dollar. Costs are what the vendors charge; the margin is what the markup of
the account adds to them.`,
		Example: "  sluice usage explain ana@example.com --from 2026-11-01 --to 2026-12-01 --model openai/gpt-5\n  sluice usage explain ana@example.com --day 2026-11-18 --json",
	}, p.ops.UsageExplain, &in, printExplained, &in.Ref)
	flags := cmd.Flags()
	for _, f := range []struct {
		to          *string
		name, about string
	}{
		{&in.From, "from", "the first `day`, in UTC, or a moment such as 2026-11-18T09:00:00Z (default: 30 days)"},
		{&in.To, "to", "the first `day` that is left out (default: tomorrow)"},
		{&in.Day, "day", "one `day` alone"},
		{&in.Month, "month", "one `month` alone, such as 2026-11"},
		{&in.Key, "key", "only calls with the key of this `id`"},
		{&in.Model, "model", "only calls that asked for this `model`, or that it answered"},
		{&in.Served, "served", "only calls that this `model` answered"},
		{&in.Outcome, "outcome", "only calls with this `outcome`: completed, errors or disconnected"},
		{&in.After, "after", "continue with the `cursor` that the page before has as next"},
	} {
		flags.StringVar(f.to, f.name, "", f.about)
	}
	flags.IntVar(&in.Limit, "limit", in.Limit, "the `number` of calls that are shown, at most 200")
	return cmd
}

// printExplained prints an explanation for people.
func printExplained(w io.Writer, e *costs.Reply) {
	unix := func(s int64) string { return time.Unix(s, 0).UTC().Format("2006-01-02 15:04") }
	fmt.Fprintf(w, "From %s to %s UTC\n\n", unix(e.From), unix(e.To))
	rows := [][]string{{"", "REQUESTS", "COST USD", "MARGIN USD", "UNPRICED"}}
	line := func(name string, s *costs.SumsReply) {
		margin := ""
		if s.Margin != nil {
			margin = s.Margin.String()
		}
		rows = append(rows, []string{name, strconv.FormatInt(s.Requests, 10), s.Cost.String(), margin, strconv.FormatInt(s.Unpriced, 10)})
	}
	for i := range e.Days {
		line(e.Days[i].Day, &e.Days[i].SumsReply)
	}
	for i := range e.Models {
		line(e.Models[i].Model, &e.Models[i].SumsReply)
	}
	line("total", &e.Total)
	table(w, rows)
	if e.Kept != nil {
		fmt.Fprintf(w, "\nCalls before %s UTC are in the sums, but no longer kept.\n", unix(*e.Kept))
	}
	for i := range e.Data {
		printExplainedCall(w, &e.Data[i])
	}
	if e.Next != nil {
		fmt.Fprintf(w, "\nThere are more calls: --after %s\n", *e.Next)
	}
}

// printExplainedCall prints a call with the formula of its cost.
func printExplainedCall(w io.Writer, c *costs.CallReply) {
	cost := "no cost"
	switch {
	case c.Cost != nil:
		cost = "$" + c.Cost.String()
		if c.Margin != nil && *c.Margin != "0" {
			cost += " + margin " + c.Margin.String()
		}
	case c.Unpriced:
		cost = "unpriced"
	}
	model := c.Model
	if c.ModelAsked != c.Model {
		model += " (asked for " + c.ModelAsked + ")"
	}
	fmt.Fprintf(w, "\n%s  %s  %s at %s: %s\n", c.At, c.ID, model, c.Provider, cost)
	for i := range c.Formula {
		fmt.Fprintf(w, "  %s\n", formulaText(&c.Formula[i]))
	}
	if c.Rounding != "0" {
		fmt.Fprintf(w, "  rounding: %s\n", c.Rounding)
	}
	switch {
	case c.Version == "":
	case len(c.Formula) == 0 && c.Cost != nil && *c.Cost != "0":
		fmt.Fprintf(w, "  prices %s, which are no longer known\n", c.Version)
	default:
		fmt.Fprintf(w, "  prices %s\n", c.Version)
	}
	for i := range c.Corrections {
		f := &c.Corrections[i]
		fmt.Fprintf(w, "  corrected on %s by %s: %s, prices %s to %s. %s\n", time.Unix(f.At, 0).UTC().Format(time.DateOnly), f.By, f.Cost, dashed(f.Old), f.New, f.Reason)
	}
}

// formulaText returns a product of a formula.
func formulaText(l *costs.LineReply) string {
	parts := []string{l.Count.String() + " " + l.Name, "$" + l.Rate.String()}
	if l.Per > 1 {
		parts[1] += " per million"
	}
	if l.Turn > 0 {
		parts[0] = fmt.Sprintf("turn %d: %s", l.Turn, parts[0])
	}
	if l.Factor != "1" {
		parts = append(parts, l.Factor.String())
	}
	return strings.Join(parts, " × ") + " = $" + l.Amount.String() + " (" + map[string]string{"vendor": "counted by the vendor", "ours": "counted by us", "estimate": "estimated"}[l.Source] + ")"
}

// dashed returns a text, or "none".
func dashed(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
