package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/store/installation"
	"sluice/internal/store/sqlstore"
)

// progressEvery is how often the progress of a migration is printed.
const progressEvery = 2 * time.Second

// migrateFlags are the flags of the command.
type migrateFlags struct {
	from, to, storage    string
	live, dryRun, cancel bool
	wait                 time.Duration
}

// migrateCmd moves an installation from SQLite to PostgreSQL.
func (p *program) migrateCmd() *cobra.Command {
	f := &migrateFlags{}
	cmd := &cobra.Command{
		Use: "migrate --to postgres://…", Short: "Move a SQLite installation to PostgreSQL", Args: args(),
		Long: `Move everything from the SQLite database of a data folder to an empty
PostgreSQL database: accounts, keys, usage, billing, sign-in and the rest. What the
journal still holds is settled first. At the end every row is read again on
both sides, and the counts and checksums of all tables must be equal.

Stop the server first, or add --live: then most is copied while the server
runs, and the rest after you have stopped it. The command may be interrupted;
run it again to continue. When it has finished, it only compares.

Video files stay in the data folder. To copy them to another place, name a
folder or a bucket with --storage:
  --storage /srv/videos
  --storage 's3://bucket/prefix?endpoint=https://s3.example.com&region=eu-1'
The keys of the bucket are those in blob.access_key and blob.secret_key of the
configuration, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.

A password in --to can be seen by other users of this machine. Leave it out and
set PGPASSWORD, or use a ~/.pgpass file.

Exit codes: 0 all is there and equal, 1 it is not, 2 a mistake in the command
line.`,
		Example: "  sluice migrate --from ./data --to postgres://sluice@db.example.com/sluice --dry-run\n  sluice migrate --from ./data --to postgres://sluice@db.example.com/sluice --live",
		RunE:    func(c *cobra.Command, _ []string) error { return p.migrate(c, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "data `folder` to move (default the configured one)")
	flags.StringVar(&f.to, "to", "", "`address` of an empty PostgreSQL database")
	flags.StringVar(&f.storage, "storage", "", "`place` to copy video files to (default they stay)")
	flags.BoolVar(&f.live, "live", false, "copy while the server runs, then wait until it is stopped")
	flags.DurationVar(&f.wait, "wait", 10*time.Minute, "with --live, `time` to wait for the server to stop")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the plan and change nothing")
	flags.BoolVar(&f.cancel, "cancel", false, "use the SQLite database of --from again after it was moved")
	return cmd
}

// migrate checks the flags and does what they ask for: cancel, plan or move. A wrong address is found before anything is
// opened.
func (p *program) migrate(c *cobra.Command, f *migrateFlags) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	m := &app.Migration{From: cmp.Or(f.from, cfg.Data), To: f.to, Live: f.live, Patience: f.wait}
	if f.cancel {
		return p.cancelMigration(c, m.From)
	}
	if u, err := url.Parse(f.to); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return misused(c, errors.New("--to must be the address of a database, such as postgres://user@host/name"))
	}
	if m.Storage, err = p.storage(f.storage, cfg); err != nil {
		return misused(c, err)
	}
	if f.dryRun {
		plan, err := app.PlanMigration(c.Context(), cfg, m)
		if err != nil {
			return err
		}
		return p.print(plan, func(w io.Writer) { printPlan(w, plan, m) })
	}
	m.Report = p.progress()
	moved, err := app.Migrate(c.Context(), cfg, m)
	if err != nil {
		return err
	}
	return p.print(moved, func(w io.Writer) { printMoved(w, moved, m) })
}

// cancelMigration makes a SQLite database usable again. Repeating it is no error; the output says whether it changed
// anything.
func (p *program) cancelMigration(c *cobra.Command, from string) error {
	was, err := installation.CancelMove(c.Context(), from)
	if err != nil {
		return err
	}
	return p.print(map[string]bool{"cancelled": was}, func(w io.Writer) {
		if !was {
			fmt.Fprintf(w, "The database in %s was not moved. Nothing was changed.\n", from)
			return
		}
		fmt.Fprintf(w, "The SQLite database in %s can be used again. What servers on PostgreSQL have stored since the move is not in it. To move again, name an empty database.\n", from)
	})
}

// storage reads the flag --storage. It returns nil if the files stay.
func (p *program) storage(text string, cfg *config.Config) (*config.Blob, error) {
	if text == "" {
		return nil, nil
	}
	b, err := config.ParseStorage(text, config.Blob{
		AccessKey: cmp.Or(cfg.Blob.AccessKey, config.Secret(p.variable("AWS_ACCESS_KEY_ID"))),
		SecretKey: cmp.Or(cfg.Blob.SecretKey, config.Secret(p.variable("AWS_SECRET_ACCESS_KEY"))),
	})
	if err != nil {
		return nil, fmt.Errorf("--storage: %w", err)
	}
	return &b, nil
}

// progress returns a function that prints each new step, and every few seconds how far it is: the table, the rows, the
// rate and the time that is left. It goes to standard error, so that the result stays alone on standard output.
func (p *program) progress() func(string, sqlstore.Progress) {
	var step string
	var began, printed time.Time
	return func(now string, at sqlstore.Progress) {
		t := time.Now()
		if now != step {
			step, began, printed = now, t, t
			fmt.Fprintln(p.stderr, step)
		}
		if t.Sub(printed) < progressEvery || at.Table == "" {
			return
		}
		printed = t
		fmt.Fprintln(p.stderr, progressText(at, t.Sub(began)))
	}
}

// progressText describes the progress of a step that has taken so long.
func progressText(at sqlstore.Progress, taken time.Duration) string {
	rate := float64(at.AllRows) / max(taken.Seconds(), 0.001)
	if at.AllOf == 0 {
		text := fmt.Sprintf("  %s: %d rows; all: %d rows, %.0f a second", at.Table, at.Rows, at.AllRows, rate)
		if at.Tables > 0 {
			text += fmt.Sprintf(", table %d of %d", at.Number, at.Tables)
		}
		return text
	}
	text := fmt.Sprintf("  %s: %d of %d; all: %d of %d, %.0f a second", at.Table, at.Rows, at.Of, at.AllRows, at.AllOf, rate)
	if left := at.AllOf - at.AllRows; left > 0 && rate > 0 {
		text += fmt.Sprintf(", %v left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

// printPlan prints what a migration would do.
func printPlan(w io.Writer, plan *installation.Plan, m *app.Migration) {
	rows := [][]string{{"TABLE", "ROWS"}}
	for _, t := range plan.Tables {
		rows = append(rows, []string{t.Table, strconv.FormatInt(t.Rows, 10)})
	}
	table(w, append(rows, []string{"all", strconv.FormatInt(plan.Rows, 10)}))
	fmt.Fprintln(w)
	switch plan.Target {
	case sqlstore.Empty:
		fmt.Fprintln(w, "The target is empty. Everything above would be copied.")
	case sqlstore.Incomplete:
		fmt.Fprintln(w, "The target holds an unfinished copy of this installation. What is missing or has changed would be copied.")
	case sqlstore.Complete:
		fmt.Fprintln(w, "The target holds a finished copy of this installation. Both sides would be compared, and nothing copied.")
	}
	if plan.Version < plan.Known {
		fmt.Fprintf(w, "The SQLite database is at version %d and would first be brought to version %d. Make a backup before.\n", plan.Version, plan.Known)
	}
	if plan.Running {
		fmt.Fprintln(w, "A server uses the data folder. Stop it, or use --live.")
	}
	if m.Storage == nil {
		fmt.Fprintln(w, "Video files would stay where they are.")
	} else {
		fmt.Fprintf(w, "Files of videos to copy: %d, %d bytes. Those that are at the new place already would be left alone.\n", plan.Videos, plan.Bytes)
	}
	fmt.Fprintln(w, secretText(plan.KeyFile))
	fmt.Fprintln(w, "Nothing was changed.")
}

// printMoved prints the result of a migration and what to do next.
func printMoved(w io.Writer, moved *installation.Moved, m *app.Migration) {
	rows := [][]string{{"TABLE", "SQLITE", "POSTGRESQL", "CHECKSUM", ""}}
	for _, t := range moved.Tables {
		rows = append(rows, []string{t.Table, strconv.FormatInt(t.Rows, 10), strconv.FormatInt(t.TargetRows, 10), t.Checksum[:16], "equal"})
	}
	table(w, rows)
	fmt.Fprintln(w)
	b := moved.Books
	fmt.Fprintf(w, "Rows: %d, equal on both sides. Written by this run: %d.\n", moved.Rows, moved.Written)
	fmt.Fprintf(w, "Books: %d calls, %d thousandths of a unit, %d micro-dollars; %d single records; %d invoices, ledger %d cents: equal on both sides.\n",
		b.Requests, b.UnitMilli, b.CostNano, b.Settlements, b.Invoices, b.LedgerCents)
	if moved.Mended > 0 {
		fmt.Fprintf(w, "Texts with characters that PostgreSQL cannot store: %d. The characters were replaced by U+FFFD.\n", moved.Mended)
	}
	if f := moved.Files; f != nil {
		fmt.Fprintf(w, "Video files: %d copied (%d bytes), %d already there.\n", f.Copied, f.Bytes, f.There)
		printFiles(w, f)
	}
	if moved.Verified {
		fmt.Fprintln(w, "The move was finished before. Nothing was written.")
		return
	}
	fmt.Fprintln(w, "\nNext:\n- Set database in the configuration (or SLUICE_DATABASE) to the address in --to, and start the server.")
	if m.Storage == nil {
		fmt.Fprintf(w, "- Keep the data folder %s: it holds the video files and the journal.\n", m.From)
	} else {
		fmt.Fprintln(w, "- Set blob in the configuration to the place in --storage.")
	}
	fmt.Fprintln(w, "- "+secretText(moved.KeyFile))
	fmt.Fprintf(w, "- The SQLite database in %s was not changed, except that servers refuse it now. Keep it as a backup. To go back: sluice migrate --from %s --cancel\n", m.From, m.From)
}

// secretText says what must be carried over so that sealed values can be read.
func secretText(keyFile string) string {
	if keyFile == "" {
		return "The secret is the one in SLUICE_SECRET (or the field secret). Keep it, and set the same on every node."
	}
	return fmt.Sprintf("The secret is in %s. A server that uses another data folder, and every further node, needs the same: set SLUICE_SECRET to what the file holds, or copy the file.", keyFile)
}
