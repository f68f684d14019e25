package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
	"sluice/internal/store/installation"
)

// pricesCmd groups the commands about what models cost at their vendors.
func (p *program) pricesCmd() *cobra.Command {
	return group("prices", "Show, check and import what models cost", p.pricesListCmd(), p.pricesShowCmd(), p.pricesCheckCmd(), p.pricesImportCmd(), p.pricesHistoryCmd(), p.repriceCmd())
}

// askPrices runs an operation about prices. Without an installation it works on the configuration alone.
func askPrices[In, Out any](ctx context.Context, p *program, op admin.Op[In, Out], in In) (out Out, err error) {
	out, err = ask(ctx, p, op, in)
	if !errors.Is(err, installation.ErrNone) {
		return out, err
	}
	cfg, err := p.load()
	if err != nil {
		return out, err
	}
	client, err := app.Catalog(cfg)
	if err != nil {
		return out, err
	}
	return op.Call(ctx, client, in)
}

// allPrices returns all pages of a list of prices.
func allPrices(ctx context.Context, p *program, in admin.PriceQuery) ([]admin.Price, error) {
	return admin.All(in, func(at admin.PriceQuery) (admin.List[admin.Price], error) {
		return askPrices(ctx, p, p.ops.PricesList, at)
	})
}

func (p *program) pricesListCmd() *cobra.Command {
	var in admin.PriceQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List what the models of the catalog cost", Args: args(),
		Long: `List what the models of the catalog cost at their vendors now, in dollars per
million tokens, and where each price comes from: the list of the program, an
imported list, models[].pricing or prices of the configuration. A model whose
price is not known is marked unpriced: its calls have no cost.`,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := allPrices(c.Context(), p, in)
			if err != nil {
				return err
			}
			return priceColumns().print(p, list)
		},
	}
	cmd.Flags().BoolVar(&in.All, "all", false, "list the whole book, also prices of models that are not in the catalog and of other times")
	return cmd
}

// priceColumns are those of prices in one line each.
func priceColumns() columns[admin.Price] {
	return columns[admin.Price]{[]string{"MODEL", "PROVIDER", "PRICES", "CONDITIONS", "SINCE", "UNTIL", "FROM", "VERSION"}, func(m *admin.Price) []string {
		if m.Unpriced {
			return []string{m.Model, m.Provider, "unpriced", "", "", "", "", ""}
		}
		e := m.Entry
		return []string{m.Model, m.Provider, e.Text(), e.Conditions(), dayText(e.From, "always"), dayText(e.Until, ""), m.Origin, m.Version}
	}}
}

// dayText writes a time to the day if it is the beginning of one, or else to the minute; otherwise is for the zero time.
func dayText(t time.Time, otherwise string) string {
	switch t = t.UTC(); {
	case t.IsZero():
		return otherwise
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Format(time.DateOnly)
	default:
		return t.Format("2006-01-02 15:04 UTC")
	}
}

func (p *program) pricesShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show MODEL", Short: "Show all prices of a model over time", Args: args("MODEL"),
		Long: `Show all prices of a model at all places that serve it, those with precedence
first, and how the cost of a call follows from them. A model that the catalog
does not have may be on the list of a vendor.`,
		RunE: func(c *cobra.Command, given []string) error {
			list, err := allPrices(c.Context(), p, admin.PriceQuery{Model: given[0]})
			if err != nil {
				return err
			}
			return p.print(list, func(w io.Writer) { printPrices(w, given[0], list) })
		},
	}
}

// placed says which model has a price, and where.
func placed(m *admin.Price) string {
	switch {
	case m.Upstream != "":
		return m.Model + " at " + m.Provider + " as " + m.Upstream
	case m.Provider != "":
		return m.Model + " on the list of " + m.Provider
	}
	return m.Model
}

// printPrices prints the prices of one model, a paragraph each.
func printPrices(w io.Writer, model string, list []admin.Price) {
	if len(list) == 0 {
		fmt.Fprintf(w, "%s costs nothing: it is the router, or a model of the sandbox\n", model)
		return
	}
	for i := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		m := &list[i]
		fmt.Fprintf(w, "%s\n", placed(m))
		if m.Unpriced {
			fmt.Fprintln(w, "  not known now: calls have no cost")
			continue
		}
		state := "not in force now"
		if m.InForce {
			state = "in force"
		}
		printEntry(w, m, state)
	}
	fmt.Fprintln(w, "\ncost of a call = (tokens × dollars per million, summed) × tier × region × hour + fees, rounded once to the nano-dollar")
}

// printEntry prints one entry as a list of properties.
func printEntry(w io.Writer, m *admin.Price, state string) {
	e := m.Entry
	rows := [][]string{
		{"  version", m.Version + ", " + state},
		{"  from", m.Origin},
		{"  valid", dayText(e.From, "always") + " until " + dayText(e.Until, "further notice")},
	}
	rates := func(before string, r *price.Rates) {
		for b := range r {
			if !r.Follows(price.Bucket(b)) {
				rows = append(rows, []string{before + price.Bucket(b).String(), r[b].String()})
			}
		}
	}
	rates("  ", &e.Rates)
	for i := range e.Bands {
		rows = append(rows, []string{fmt.Sprintf("  prompts above %d tokens", e.Bands[i].Above), ""})
		rates("    ", &e.Bands[i].Rates)
	}
	for _, table := range []struct {
		what string
		of   map[string]price.Factor
	}{{"tier", e.Tiers}, {"region", e.Regions}} {
		for _, name := range slices.Sorted(maps.Keys(table.of)) {
			rows = append(rows, []string{"  " + table.what + " " + name, "×" + table.of[name].String()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fees)) {
		rows = append(rows, []string{"  one " + name, e.Fees[name].String()})
	}
	if e.Source != "" {
		rows = append(rows, []string{"  source", strings.TrimSuffix(e.Source+", read on "+e.Read, ", read on ")})
	}
	table(w, rows)
}

func (p *program) pricesCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Look for prices that are missing, have ended or differ from the list", Args: args(),
		Long: `Compare the prices of the configuration, and imported ones, with the list of the
program, and look for models without a price. It ends with 1 if calls have no
cost because of what it found. What it marks as a note is for you to judge: a
price of your own may differ from the vendor's list on purpose.`,
		RunE: func(c *cobra.Command, _ []string) error {
			found, err := askPrices(c.Context(), p, p.ops.PricesCheck, admin.Empty{})
			if err != nil {
				return err
			}
			good := !slices.ContainsFunc(found, func(f admin.PriceFinding) bool { return f.Wrong })
			return p.judge(found, good, func(w io.Writer) { printPriceFindings(w, found) })
		},
	}
}

func printPriceFindings(w io.Writer, found []admin.PriceFinding) {
	if len(found) == 0 {
		fmt.Fprintln(w, "every model has a price, and none is old")
	}
	for _, f := range found {
		mark := "note "
		if f.Wrong {
			mark = "wrong"
		}
		fmt.Fprintf(w, "%s  %s\n", mark, strings.TrimSpace(f.Model+" "+f.Text))
	}
}

func (p *program) pricesHistoryCmd() *cobra.Command {
	in := admin.Cursor{}
	cmd := page(p, &cobra.Command{
		Use: "history", Short: "List the prices that are or were in force, the latest first",
		Long: `List every price that was ever in force on this installation, when that began, and
who imported it. Settlements name the version of their prices, so each cost of
the past can be explained.`,
		PreRunE: func(c *cobra.Command, _ []string) error {
			if in.Limit < 1 || in.Limit > 1000 {
				return misused(c, errors.New("--limit is from 1 to 1000"))
			}
			return nil
		},
	}, p.ops.PricesHistory, &in, columns[price.Seen]{[]string{"FIRST SEEN", "VENDOR", "MODEL", "PRICES", "CONDITIONS", "FROM", "BY", "VERSION"}, func(s *price.Seen) []string {
		return []string{timeText(&s.At), s.Entry.Vendor, s.Entry.Model, s.Entry.Text(), s.Entry.Conditions(), s.Origin, s.By, s.Version}
	}})
	cmd.Flags().IntVar(&in.Limit, "limit", 50, "how many `prices`, the latest first")
	return cmd
}

// priceImport is the command "prices import".
type priceImport struct{ take, all bool }

func (p *program) pricesImportCmd() *cobra.Command {
	var f priceImport
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Compare a list of prices with the book, and take what differs", Args: args("FILE"),
		Long: `Read a list of prices: our own format ({"prices": [...]}, as in the configuration),
LiteLLM's model_prices_and_context_window.json, or models.dev's api.json. The
command prints what differs from the book. It changes nothing without --take; on
a terminal it asks.

What is taken is stored in the database and in force on all servers at once.
It stands above the list of the program and below the configuration. Prices
that do not say when they begin begin now, so calls of the past keep theirs.`,
		Example: "  sluice prices import model_prices_and_context_window.json\n  sluice prices import model_prices_and_context_window.json --take",
		RunE:    func(c *cobra.Command, given []string) error { return p.pricesImport(c.Context(), given[0], &f) },
	}
	cmd.Flags().BoolVar(&f.take, "take", false, "take what differs")
	cmd.Flags().BoolVar(&f.all, "all", false, "also prices of models that are neither in the catalog nor in the book")
	return cmd
}

// importResult is what "prices import" prints as JSON.
type importResult struct {
	Format string `json:"format"`
	admin.PriceChanges
	Ignored map[string]int `json:"ignored"` // fields without a counterpart here, and how many models have them
	Refused []string       `json:"refused"`
}

// pricesImport runs "prices import".
func (p *program) pricesImport(ctx context.Context, file string, f *priceImport) error {
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	list, err := price.Import(r)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	out := importResult{Format: list.Format, Ignored: list.Ignored, Refused: append([]string{}, list.Refused...)}
	in := admin.PriceImport{Format: list.Format, All: f.all}
	if out.PriceChanges, err = p.sendPrices(ctx, in, list.Entries); err != nil {
		return err
	}
	if !p.asJSON {
		printImport(p.stdout, &out)
	}
	if len(out.Changes) > 0 && (f.take || p.agrees(len(out.Changes))) {
		in.Take = true
		var changed []*price.Entry
		for i := range out.Changes {
			changed = append(changed, out.Changes[i].New)
		}
		done, err := p.sendPrices(ctx, in, changed)
		if err != nil {
			return err
		}
		out.Taken = done.Taken
	}
	return p.print(out, func(w io.Writer) {
		switch {
		case out.Taken > 0:
			fmt.Fprintf(w, "%d prices taken\n", out.Taken)
		case len(out.Changes) > 0:
			fmt.Fprintln(w, "nothing was changed; --take takes these prices")
		}
	})
}

// agrees asks whether to take prices. Without a terminal nobody answers, and nothing is taken.
func (p *program) agrees(n int) bool {
	if p.asJSON || !isTerminal(p.stdout) || !isTerminal(os.Stdin) {
		return false
	}
	fmt.Fprintf(p.stdout, "Take these %d prices? [y/N] ", n)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err == nil && strings.EqualFold(strings.TrimSpace(answer), "y")
}

// maxSent bounds the entries that are sent at once, in bytes: the admin API takes 64 KiB.
const maxSent = 48 << 10

// sendPrices sends entries in parts, and returns the sum of what came of them.
func (p *program) sendPrices(ctx context.Context, in admin.PriceImport, entries []*price.Entry) (sum admin.PriceChanges, err error) {
	sum.Changes = []admin.PriceChange{}
	size := 0
	send := func() error {
		out, err := askPrices(ctx, p, p.ops.PricesImport, in)
		sum.Changes = append(sum.Changes, out.Changes...)
		sum.Same, sum.Skipped, sum.Taken = sum.Same+out.Same, sum.Skipped+out.Skipped, sum.Taken+out.Taken
		in.Entries, size = nil, 0
		return err
	}
	for _, e := range entries {
		raw, err := json.Marshal(e)
		if err != nil {
			return sum, err
		}
		if size+len(raw) > maxSent {
			if err := send(); err != nil {
				return sum, err
			}
		}
		in.Entries, size = append(in.Entries, e), size+len(raw)+1
	}
	if len(in.Entries) > 0 {
		err = send()
	}
	return sum, err
}

// printImport prints what an import would change.
func printImport(w io.Writer, r *importResult) {
	fmt.Fprintf(w, "format %s: %d prices differ, %d are the same, %d are of models that are not used here (--all)\n", r.Format, len(r.Changes), r.Same, r.Skipped)
	rows := [][]string{}
	for i := range r.Changes {
		c := &r.Changes[i]
		rows = append(rows, []string{"  " + cmp.Or(c.Vendor, "(catalog)"), c.Model, cmp.Or(c.Text, "another time")})
	}
	table(w, rows)
	for _, field := range slices.Sorted(maps.Keys(r.Ignored)) {
		fmt.Fprintf(w, "not read: %s, of %d models\n", field, r.Ignored[field])
	}
	for _, text := range r.Refused {
		fmt.Fprintf(w, "refused: %s\n", text)
	}
}
