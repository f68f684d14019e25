package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/reconcile"
	"sluice/internal/ledger/reconcile/fetch"
	"sluice/internal/operate/admin"
)

// reconcilePatience is how long a comparison may take: it reads all calls of its days.
const reconcilePatience = 6 * time.Hour

// comparison has the flags of reconcile.
type comparison struct {
	vendor    string
	fetch     bool
	url       string
	from, to  string
	providers []string
	keys      []string
	models    []string
	all       bool
}

// vendorKeys are the variables with the keys that may read an organisation's usage.
var vendorKeys = map[reconcile.Vendor]string{
	reconcile.OpenAI: "OPENAI_ADMIN_KEY", reconcile.Anthropic: "ANTHROPIC_ADMIN_KEY", reconcile.OpenRouter: "OPENROUTER_MANAGEMENT_KEY",
}

// reconcileCmd compares settlements with what a vendor charges.
func (p *program) reconcileCmd() *cobra.Command {
	in := comparison{}
	cmd := &cobra.Command{
		Use: "reconcile FILE...", Short: "Compare the calls with what a vendor says that it served and charged",
		Long: `Compare the calls that were settled here with a vendor's own usage and cost
exports: day by day (UTC), model by model, bucket by bucket. Every difference has
a class: missing_here, missing_there, duplicate, tokens_differ, unknown_tier,
stale_price or rounding. Prices that follow from the vendor's charges are printed
as entries for the configuration.

FILE is what the vendor exports, as CSV or JSON; give usage and costs together.
With --fetch, the vendor's API is asked, with the key in OPENAI_ADMIN_KEY,
ANTHROPIC_ADMIN_KEY or OPENROUTER_MANAGEMENT_KEY, or with the AWS keys in
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.

The exit code is 1 if there is a difference that is not rounding. The report is
kept: "sluice reconcile list" and the console show the last ones.`,
		Example: "  sluice reconcile --vendor anthropic usage.csv costs.csv\n  sluice reconcile --vendor openai --fetch --from 2026-10-01 --to 2026-10-31",
		Args:    func(*cobra.Command, []string) error { return nil },
		RunE:    func(c *cobra.Command, files []string) error { return p.reconcile(c, &in, files) },
	}
	in.flags(cmd)
	list := admin.Cursor{}
	show := admin.ReportQuery{}
	cmd.AddCommand(
		lists(p, &cobra.Command{Use: "list", Short: "List the last comparisons"}, p.ops.ReconcileList, &list, reportColumns()),
		does(p, &cobra.Command{Use: "show ID", Short: "Show a comparison"}, p.ops.ReconcileShow, &show, func(w io.Writer, r *reconcile.Report) { printReport(w, r, true) }, &show.ID))
	return cmd
}

// flags adds the flags of a comparison.
func (in *comparison) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&in.vendor, "vendor", "", "whose exports they are: openai, anthropic, aws or openrouter")
	f.BoolVar(&in.fetch, "fetch", false, "ask the vendor's API instead of reading files")
	f.StringVar(&in.url, "url", "", "`address` of the vendor's API, if it is another one")
	f.StringVar(&in.from, "from", "", "first `day`, such as 2026-10-01 (default the first of the export)")
	f.StringVar(&in.to, "to", "", "last `day` (default the last of the export)")
	f.StringArrayVar(&in.providers, "provider", nil, "`name` of a provider whose calls the vendor charges for (default all of the vendor's kind)")
	f.StringArrayVar(&in.keys, "key", nil, "API `key` whose rows count, by the name that the export has for it (default all)")
	f.StringArrayVar(&in.models, "model", nil, "`THEIRS=ID`: what the vendor calls a model, and its id here, where the names are not alike")
	f.BoolVar(&in.all, "all", false, "print all findings, also those about rounding")
}

// reconcile reads the exports and has them compared.
func (p *program) reconcile(c *cobra.Command, in *comparison, files []string) error {
	vendor := reconcile.Vendor(in.vendor)
	order := admin.ReconcileOrder{Providers: in.providers, From: in.from, To: in.to}
	if err := in.check(&order, files); err != nil {
		return misused(c, err)
	}
	reader := reconcile.NewReader(vendor, in.keys)
	if in.fetch {
		if err := p.fetchExports(c.Context(), in, reader); err != nil {
			return err
		}
	}
	for _, name := range files {
		if err := readExport(reader, name); err != nil {
			return err
		}
	}
	var err error
	if order.Exports, err = reader.Exports(); err != nil {
		return err
	}
	r, err := askWithin(c.Context(), p, reconcilePatience, p.ops.ReconcileRun, order)
	if err != nil {
		return err
	}
	return p.judge(r, r.InOrder(), func(w io.Writer) { printReport(w, &r, in.all) })
}

// check refuses what cannot be compared, and fills in the names of models.
func (in *comparison) check(order *admin.ReconcileOrder, files []string) error {
	const known = "openai, anthropic, aws or openrouter"
	switch {
	case in.vendor == "":
		return errors.New("--vendor is missing: it is " + known)
	case !slices.Contains(reconcile.Vendors(), reconcile.Vendor(in.vendor)):
		return fmt.Errorf("--vendor is %s, not %q", known, in.vendor)
	case in.fetch == (len(files) > 0):
		return errors.New("name the files of an export, or use --fetch, but not both")
	case in.fetch && (in.from == "" || in.to == ""):
		return errors.New("--fetch needs --from and --to")
	}
	for _, day := range []string{in.from, in.to} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return fmt.Errorf("%q is no day such as 2026-10-01", day)
		}
	}
	order.Models = map[string]string{}
	for _, pair := range in.models {
		theirs, id, ok := strings.Cut(pair, "=")
		if !ok || theirs == "" || id == "" {
			return fmt.Errorf("--model needs the vendor's name and the id here, such as claude-opus=lab/large, not %q", pair)
		}
		order.Models[theirs] = id
	}
	return nil
}

// readExport reads one file.
func readExport(reader *reconcile.Reader, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return reader.Read(filepath.Base(name), f)
}

// fetchExports asks the vendor's API. What it has read so far is told on standard error.
func (p *program) fetchExports(ctx context.Context, in *comparison, reader *reconcile.Reader) error {
	vendor := reconcile.Vendor(in.vendor)
	opts := fetch.Options{
		Vendor: vendor, Base: in.url, Keys: len(in.keys) > 0, Progress: func(text string) { fmt.Fprintln(p.stderr, text) },
		AWS: fetch.Keys{ID: p.variable("AWS_ACCESS_KEY_ID"), Secret: p.variable("AWS_SECRET_ACCESS_KEY"), Token: p.variable("AWS_SESSION_TOKEN")},
	}
	variable := cmp.Or(vendorKeys[vendor], "AWS_ACCESS_KEY_ID")
	if opts.Key = p.variable(variable); opts.Key == "" || vendor == reconcile.AWS && opts.AWS.Secret == "" {
		return fmt.Errorf("%s is not set: --fetch needs a key that may read the organisation's usage", variable)
	}
	source, err := fetch.New(opts)
	if err != nil {
		return err
	}
	defer source.Close()
	from, _ := time.Parse(time.DateOnly, in.from) // check has parsed both
	to, _ := time.Parse(time.DateOnly, in.to)
	return source.Read(ctx, reader, from, to)
}

func reportColumns() columns[reconcile.Report] {
	return columns[reconcile.Report]{[]string{"ID", "WHEN", "VENDOR", "DAYS", "OURS USD", "THEIRS USD", "DIFFERENCES"}, func(r *reconcile.Report) []string {
		return []string{r.ID, timeText(&r.At), string(r.Vendor), r.From + " to " + r.To, price.Nano(r.Ours).String(), price.Nano(r.Theirs).String(), sumsOf(r)}
	}}
}

// sumsOf returns how many differences of each class there are.
func sumsOf(r *reconcile.Report) string {
	var text []string
	for _, s := range r.Sums {
		text = append(text, fmt.Sprintf("%s %d", s.Class, s.Findings))
	}
	return cmp.Or(strings.Join(text, ", "), "none")
}

// printReport prints a comparison. Without all, rounding is only counted.
func printReport(w io.Writer, r *reconcile.Report, all bool) {
	rows := [][]string{{"CLASS", "DAY", "MODEL", "TIER", "ROW", "USD", "WHAT"}}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Class == reconcile.Rounding && !all {
			continue
		}
		row := ""
		if f.Row > 0 {
			row = strconv.Itoa(f.Row)
		}
		rows = append(rows, []string{string(f.Class), f.Day, f.Model, strings.TrimSpace(f.Tier + " " + f.Region), row, price.Nano(f.Amount).String(), figuresText(f)})
	}
	if len(rows) > 1 {
		table(w, rows)
		fmt.Fprintln(w)
	}
	if r.LeftOff > 0 {
		fmt.Fprintf(w, "%d more findings are counted, but not listed.\n", r.LeftOff)
	}
	for _, pr := range r.Proposals {
		fmt.Fprintf(w, "%s (%s), charged on %d days, %s USD more than here: %s\n%s\n", pr.Model, pr.Upstream, pr.Days, price.Nano(pr.Amount), pr.Why, pr.YAML)
	}
	for _, o := range r.Others {
		fmt.Fprintf(w, "Not compared: %s, %d rows, %s USD\n", o.Name, o.Rows, price.Nano(o.Cost))
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintf(w, "%s, %s to %s: %d of %d days and models agree. Ours %s USD, theirs %s USD. Differences: %s. The report is %s.\n",
		r.Vendor, r.From, r.To, r.Matched, r.Compared, price.Nano(r.Ours), price.Nano(r.Theirs), sumsOf(r), r.ID)
}

// figuresText says what differs, in short.
func figuresText(f *reconcile.Finding) string {
	var text []string
	for i := range f.Figures {
		x := &f.Figures[i]
		switch {
		case x.Theirs != nil && (x.Ours == nil || *x.Ours != *x.Theirs):
			text = append(text, x.String())
		case x.OurRate != nil && x.TheirRate != nil && *x.OurRate != *x.TheirRate:
			text = append(text, fmt.Sprintf("%s at %s, charged %s", x.Bucket, price.Nano(*x.OurRate), price.Nano(*x.TheirRate)))
		}
	}
	if len(text) > 3 {
		text = append(text[:3], "…")
	}
	return strings.TrimSpace(strings.Join(text, "; ") + " " + f.Note)
}
