package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/usage"
)

// journalCmd groups the commands about journals.
func (p *program) journalCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "journal", Short: "Recover the journal of a lost server", Args: cobra.NoArgs, RunE: needsSubcommand}
	cmd.AddCommand(p.journalReplayCmd())
	return cmd
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
			out, err := app.ReplayJournal(c.Context(), cfg, given[0], opts)
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
		fmt.Fprintf(w, "Damaged: %s. What follows its last readable record is lost.\n", path)
	}
}
