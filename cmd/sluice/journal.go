package main

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/store/installation"
)

// journalCmd groups the commands about journals.
func (p *program) journalCmd() *cobra.Command {
	return group("journal", "Inspect and repair the journal of settlements", p.journalReplayCmd(),
		does(p, &cobra.Command{Use: "damage", Short: "Show what was damaged in the journal, and what may be lost"},
			p.ops.JournalDamage, &admin.Empty{}, func(w io.Writer, list *[]usage.Damage) {
				printDamage(w, *list)
				if len(*list) == 0 {
					fmt.Fprintln(w, "There is no damage that was not acknowledged.")
				}
			}),
		does(p, &cobra.Command{
			Use: "acknowledge", Short: "Record that damage to the journal was dealt with",
			Long: `Record that somebody has read what "sluice journal damage" reports. From then on
/readyz and "sluice audit" do not mention it any more. The damaged files and the
reports stay in the folder journal/damaged of the data folder; delete them when
you do not need them any more.`,
		}, p.ops.JournalAcknowledge, &admin.Target{}, func(w io.Writer, list *[]usage.Damage) {
			printDamage(w, *list)
			fmt.Fprintf(w, "Acknowledged: %d.\n", len(*list))
		}))
}

// printDamage prints each damage of a journal: where it is, what it can have cost, and where the file is kept.
func printDamage(w io.Writer, list []usage.Damage) {
	for i := range list {
		d := &list[i]
		fmt.Fprintf(w, "%s %s: %s: %s.", d.Found.Format(time.DateTime), cmp.Or(d.File, "journal"), d.What, d.Loss())
		if !d.From.IsZero() || !d.Until.IsZero() {
			fmt.Fprintf(w, " It is between the calls that ended at %s and %s (UTC).", secondText(d.From), secondText(d.Until))
		}
		if d.Stored > 0 {
			fmt.Fprintf(w, " In the database already: %d.", d.Stored)
		}
		if d.Kept != "" {
			fmt.Fprintf(w, " Recovered from the file: %d. The damaged file is kept as %s.", d.Recovered, d.Kept)
		}
		fmt.Fprintln(w)
	}
}

func (p *program) journalReplayCmd() *cobra.Command {
	opts := &usage.ReplayOptions{}
	cmd := &cobra.Command{
		Use: "replay DIR", Short: "Settle what the journal of a lost server still holds", Args: args("DIR"),
		Long: `Settle the calls in the journal of a server that does not come back, in the
database of the configuration. DIR is the data folder of that server, or the
folder journal in it; a copy or a mounted disk will do. It is only read.

Every call is settled once, however often this command runs. A journal that a
running server uses is refused: that server settles it itself.`,
		Example: "  sluice journal replay /mnt/lost/data",
		RunE: func(c *cobra.Command, given []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			out, err := installation.ReplayJournal(c.Context(), cfg.Database, cfg.Data, cfg.Secret.Reveal(), given[0], opts)
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { printReplayed(w, &out, opts.Dry) })
		},
	}
	cmd.Flags().BoolVar(&opts.Dry, "dry-run", false, "only count")
	cmd.Flags().BoolVar(&opts.KnownOnly, "known-only", false, "leave out calls of accounts that are not in the database")
	return cmd
}

// secondText formats a time to the second. A zero time is not known.
func secondText(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.UTC().Format(time.DateTime)
}

// printReplayed prints what was found and what became of it.
func printReplayed(w io.Writer, out *usage.Replayed, dry bool) {
	fmt.Fprintf(w, "Found %d calls in %d files", out.Records, out.Files)
	if out.Records > 0 {
		fmt.Fprintf(w, ", from %s to %s", timeText(&out.From), timeText(&out.Until))
	}
	settled := "settled now"
	if dry {
		settled = "would be settled"
	}
	fmt.Fprintf(w, ".\nAlready in the database: %d. New, %s: %d.\n", out.Present, settled, out.New)
	if out.Old > 0 {
		fmt.Fprintf(w, "Left out: %d, of days whose single records the database has deleted (usage.keep_days). They may have been settled before.\n", out.Old)
	}
	if out.Unknown > 0 {
		fmt.Fprintf(w, "Left out: %d, of accounts that are not in the database.\n", out.Unknown)
	}
	for _, path := range out.Damaged {
		fmt.Fprintf(w, "Damaged, or something before it is missing: %s.\n", path)
	}
	if len(out.Damaged) > 0 {
		loss := usage.Damage{Lost: out.Lost, AtMost: out.AtMost}
		fmt.Fprintf(w, "Everything else was read: %s, unless they were in the database.\n", loss.Loss())
	}
}
