package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
)

// replayPatience is how long a replay may take. A million calls take some seconds.
const replayPatience = 10 * time.Minute

// maxPrices bounds a list of prices, in bytes: it is sent to the server in one message.
const maxPrices = 12 << 20

// whatIfCmd prints what past calls would have cost. The server replays their settlements; prompts are not needed.
func (p *program) whatIfCmd() *cobra.Command {
	in, file, by := admin.WhatIfQuery{}, "", ""
	cmd := &cobra.Command{
		Use: "whatif", Short: "Say what past calls would have cost with other prices, models or policies", Args: args(),
		Long: `Replay settled calls against other prices, other models, another time in the
cache, or with a share of them sent in batches, and print what they cost, what
they would have cost, and the difference: to the nano-dollar, by account, key,
model and day. Nothing is changed, and no prompt is needed. At least one of
--prices, --model, --cache-ttl and --batch-share is needed; they can be
combined.

Counts of tokens stay as they were. Another model would have written other
replies; the notes at the end say what a replay cannot know.`,
		Example: `  sluice whatif --model lab/large=lab/small
  sluice whatif --from 2026-10-01 --to 2026-11-01 --prices next-year.json
  sluice whatif --account ana@example.com --cache-ttl 1h --by key
  sluice whatif --batch-share 0.3 --json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if by != "" && !slices.Contains(whatIfTables(), by) {
				return misused(c, fmt.Errorf("there is no table by %q; use %s", by, strings.Join(whatIfTables(), ", ")))
			}
			if file != "" {
				text, err := readPrices(file)
				if err != nil {
					return err
				}
				in.Prices = text
			}
			out, err := askWithin(c.Context(), p, replayPatience, p.ops.WhatIfRun, in)
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { printWhatIf(w, &out, by) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&in.From, "from", "", "first `day` (2026-11-01) or moment (default 30 days)")
	flags.StringVar(&in.To, "to", "", "first `day` or moment that does not count (default now)")
	flags.StringVar(&in.Account, "account", "", "`ID or e-mail` of the only account whose calls count")
	flags.StringVar(&file, "prices", "", "`file` with other prices: ours, LiteLLM's model_prices_and_context_window or models.dev's api.json")
	flags.StringArrayVar(&in.Models, "model", nil, "price what one model answered as another: `a=b`; may be repeated")
	flags.StringVar(&in.CacheTTL, "cache-ttl", "", "how `long` prompts stay in the cache: 5m, 1h or none")
	flags.StringVar(&in.BatchShare, "batch-share", "", "`share` of each day's calls that are sent in batches, from 0 to 1")
	flags.StringVar(&by, "by", "", "print one `table`: account, key, model, day or all (default the first four)")
	return cmd
}

// readPrices reads a list of prices.
func readPrices(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPrices+1))
	if err == nil && len(text) > maxPrices {
		err = errors.New(path + " is larger than " + strconv.Itoa(maxPrices>>20) + " MiB; leave out the models that you do not use")
	}
	return string(text), err
}

// whatIfTables returns the names of the tables.
func whatIfTables() []string { return []string{"account", "key", "model", "day", "all"} }

// printWhatIf prints the tables, the total, and what the replay cannot know.
func printWhatIf(w io.Writer, out *admin.WhatIf, by string) {
	fmt.Fprintf(w, "Calls from %s to %s (UTC).\n\n", secondText(out.From), secondText(out.To))
	for _, t := range []struct {
		name, head string
		rows       []admin.WhatIfRow
		cells      func(r *admin.WhatIfRow) []string
	}{
		{"account", "ACCOUNT", out.Accounts, func(r *admin.WhatIfRow) []string { return []string{r.Account} }},
		{"key", "ACCOUNT KEY", out.Keys, func(r *admin.WhatIfRow) []string { return []string{r.Account, r.Key} }},
		{"model", "MODEL", out.Models, func(r *admin.WhatIfRow) []string { return []string{r.Model} }},
		{"day", "DAY", out.Days, func(r *admin.WhatIfRow) []string { return []string{r.Day} }},
		{"all", "DAY ACCOUNT KEY MODEL", out.Rows, func(r *admin.WhatIfRow) []string { return []string{r.Day, r.Account, r.Key, r.Model} }},
	} {
		if by != t.name && (by != "" || t.name == "all") {
			continue
		}
		rows := [][]string{append(strings.Fields(t.head), "CALLS", "COST USD", "WOULD COST", "DIFFERENCE")}
		for i := range t.rows {
			rows = append(rows, append(t.cells(&t.rows[i]), sumCells(&t.rows[i].WhatIfSums)...))
		}
		table(w, rows)
		fmt.Fprintln(w)
	}
	table(w, [][]string{{"", "CALLS", "COST USD", "WOULD COST", "DIFFERENCE"}, append([]string{"total"}, sumCells(&out.Total)...)})
	for _, n := range out.Notes {
		fmt.Fprintln(w, "- "+n)
	}
}

// sumCells returns the cells of sums. A difference says by its sign whether the scenario costs more.
func sumCells(s *admin.WhatIfSums) []string {
	difference := s.Difference.String()
	if difference[0] != '-' && difference != "0" {
		difference = "+" + difference
	}
	return []string{strconv.FormatInt(s.Calls, 10), s.Cost.String(), s.Would.String(), difference}
}
