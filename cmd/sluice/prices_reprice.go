package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
)

// repriceCmd computes past calls by today's prices. The server does a few thousand calls at a time, and this command asks
// for one part after the other, so that it can show how far it is and be stopped anywhere.
func (p *program) repriceCmd() *cobra.Command {
	in := admin.RepriceOrder{}
	cmd := &cobra.Command{
		Use: "reprice --from DAY --to DAY", Short: "Correct the costs of past calls by today's prices", Args: args(),
		Long: `Compute what past calls cost by the prices that are known today for the time of
each call, and store the differences as corrections. Settlements never change: a
correction is an entry of its own, and sums, pages and exports include it. Calls
without a cost get one if there is a price now. Calls for which there is none
stay as they are, and so does the markup of each call.

--to is the first day that is left out. Repeating the command changes nothing
twice, so it can be stopped and started again. Look at the result of --dry-run
first: corrections can only be undone by other prices and another run.`,
		Example: "  sluice prices reprice --from 2026-11-01 --to 2026-11-18 --dry-run",
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := p.reprice(c, in)
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { printRepriced(w, out, in.DryRun) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&in.From, "from", "", "the first `day`, in UTC, or a moment such as 2026-11-18T09:00:00Z")
	flags.StringVar(&in.To, "to", "", "the first `day` that is left out")
	flags.StringVar(&in.Model, "model", "", "only calls that this `model` answered")
	flags.StringVar(&in.Ref, "account", "", "only calls of the account with this `ID or e-mail`")
	flags.StringVar(&in.Reason, "reason", "", "a `text` for the corrections, which customers can read")
	flags.BoolVar(&in.DryRun, "dry-run", false, "show what would change, and change nothing")
	for _, name := range []string{"from", "to"} {
		_ = cmd.MarkFlagRequired(name) // it exists
	}
	return cmd
}

// reprice asks for all parts of an order, and adds them up.
func (p *program) reprice(c *cobra.Command, in admin.RepriceOrder) (*admin.Repriced, error) {
	all := &admin.Repriced{Models: []admin.RepricedModel{}}
	printed := time.Now()
	for {
		part, err := ask(c.Context(), p, p.ops.PricesReprice, in)
		if err != nil {
			if all.Looked > 0 {
				fmt.Fprintf(p.stderr, "Stopped after %d calls. Run the same command again to go on; nothing is corrected twice.\n", all.Looked)
			}
			return nil, err
		}
		all.Looked += part.Looked
		addRepriced(all, &part)
		if in.After = part.Next; in.After == "" {
			return all, nil
		}
		if time.Since(printed) >= progressEvery {
			printed = time.Now()
			fmt.Fprintf(p.stderr, "  %d calls\n", all.Looked)
		}
	}
}

// addRepriced adds the models of a part to all.
func addRepriced(all, part *admin.Repriced) {
	for i := range part.Models {
		m := &part.Models[i]
		at := slices.IndexFunc(all.Models, func(x admin.RepricedModel) bool { return x.Model == m.Model })
		if at < 0 {
			all.Models = append(all.Models, *m)
			continue
		}
		to := &all.Models[at]
		to.Changed, to.Priced, to.Unpriced = to.Changed+m.Changed, to.Priced+m.Priced, to.Unpriced+m.Unpriced
		to.CostUSD, to.Margin = plus(to.CostUSD, m.CostUSD), plus(to.Margin, m.Margin)
	}
	slices.SortFunc(all.Models, func(a, b admin.RepricedModel) int { return strings.Compare(a.Model, b.Model) })
}

// plus returns the sum of two amounts of dollars with at most nine decimals.
func plus(a, b json.Number) json.Number {
	sum := new(big.Rat)
	for _, n := range []json.Number{a, b} {
		if r, ok := new(big.Rat).SetString(n.String()); ok {
			sum.Add(sum, r)
		}
	}
	text := strings.TrimRight(sum.FloatString(9), "0")
	return json.Number(strings.TrimSuffix(text, "."))
}

// printRepriced prints what has changed by model.
func printRepriced(w io.Writer, out *admin.Repriced, dry bool) {
	rows := [][]string{{"MODEL", "CORRECTED", "NEWLY PRICED", "WITHOUT A PRICE", "COST USD", "MARGIN USD"}}
	changed, unpriced := 0, 0
	for i := range out.Models {
		m := &out.Models[i]
		changed, unpriced = changed+m.Changed, unpriced+m.Unpriced
		rows = append(rows, []string{m.Model, strconv.Itoa(m.Changed), strconv.Itoa(m.Priced), strconv.Itoa(m.Unpriced), m.CostUSD.String(), m.Margin.String()})
	}
	if len(out.Models) > 0 {
		table(w, rows)
	}
	did := "corrected"
	if dry {
		did = "would be corrected; nothing was changed"
	}
	fmt.Fprintf(w, "%d calls looked at, %d %s.\n", out.Looked, changed, did)
	if unpriced > 0 {
		fmt.Fprintf(w, "%d calls have no cost, because there is no price for their model at their time. Add one and run the command again.\n", unpriced)
	}
}
