package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/kit/fault"
	"sluice/internal/store/installation"
)

// backupCmd copies a whole installation, on either engine, while its servers work.
func (p *program) backupCmd() *cobra.Command {
	videos, keep := "", 0
	cmd := &cobra.Command{
		Use: "backup FOLDER", Short: "Copy the whole installation while its servers are running", Args: args("FOLDER"),
		Long: `Copy the installation to a new folder: the database, on either engine, as of one
moment; what the journal still holds; and the files of videos, or only the names
of those that are in an object store. Servers keep running. Every call that
ended before the command began is in the backup.

The secret that decrypts the data is not part of the backup. The command says
where it is; keep a copy of it in another place.

The journals of other servers on the same database are not copied: each settles
its own. To be sure of their last seconds, stop them first.

With --keep, FOLDER is a folder of backups. The new one gets a name with the time
in it, and when it is complete, the oldest ones are deleted. Other files
and folders there are left alone.`,
		Example: "  sluice backup /srv/backups/monday\n  sluice backup --keep 7 /srv/backups\n  sluice restore --check /srv/backups/monday",
		RunE: func(c *cobra.Command, given []string) error {
			var copyVideos *bool
			switch videos {
			case "":
			case "copy", "reference":
				yes := videos == "copy"
				copyVideos = &yes
			default:
				return misused(c, fmt.Errorf("--videos must be copy or reference, and not %q", videos))
			}
			rotate := c.Flags().Changed("keep")
			if rotate && keep < 1 {
				return misused(c, fmt.Errorf("--keep must be at least 1, and not %d", keep))
			}
			cfg, err := p.load()
			if err != nil {
				return err
			}
			to, err := filepath.Abs(given[0])
			if err != nil {
				return err
			}
			folder := to
			if rotate {
				// Only this one folder: a missing one above it is rather a disk that is not mounted.
				if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
					return fmt.Errorf("the backup cannot be written: %w", err)
				}
				to = filepath.Join(folder, installation.DatedName(time.Now()))
			}
			m, err := app.Backup(c.Context(), cfg, to, copyVideos, p.progress())
			if err != nil {
				return err
			}
			var deleted []string
			if rotate {
				deleted, err = installation.Prune(folder, keep, time.Now())
			}
			out := struct {
				Path    string   `json:"path"`
				Deleted []string `json:"deleted,omitempty"`
				*installation.Manifest
			}{to, deleted, m}
			// The backup is made, whatever became of the old ones.
			return errors.Join(err, p.print(out, func(w io.Writer) {
				printBackup(w, to, m)
				if len(deleted) > 0 {
					fmt.Fprintf(w, "Deleted from %s: %s.\n", folder, strings.Join(deleted, ", "))
				}
			}))
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 0, "make the backup in FOLDER under a name with the time, and keep only the newest `N` there")
	cmd.Flags().StringVar(&videos, "videos", "", "`copy` the files of videos, or only reference them (default copy, unless they are in an object store)")
	return cmd
}

// printBackup prints what a backup holds, and what it does not.
func printBackup(w io.Writer, to string, m *installation.Manifest) {
	fmt.Fprintf(w, "Wrote %s.\n", to)
	fmt.Fprintf(w, "Database (%s): %d rows in %d tables; %d calls, %d single records.\n", m.Engine, m.Rows, len(m.Tables), m.Books.Requests, m.Books.Settlements)
	fmt.Fprintf(w, "Journal: %d records in %d files.\n", m.Journal.Records, m.Journal.Files)
	v := m.Videos
	if v.Copied {
		fmt.Fprintf(w, "Videos: %d, copied (%d bytes).\n", v.Count, v.Bytes)
		printFiles(w, v.Copy)
	} else {
		fmt.Fprintf(w, "Videos: %d, not copied (%d bytes). They stay in %s; --videos copy copies them, too.\n", v.Count, v.Bytes, v.Place)
	}
	if m.Secret.Configured {
		fmt.Fprintln(w, "Secret: not part of the backup. It is the one in SLUICE_SECRET (or the field secret); keep it in another place.")
	} else {
		fmt.Fprintf(w, "Secret: not part of the backup. Keep a copy of %s in another place.\n", m.Secret.KeyFile)
	}
	fmt.Fprintln(w, "The configuration file is not part of it, either.")
}

// printFiles prints which files of videos could not be copied as they should be.
func printFiles(w io.Writer, f *installation.MovedFiles) {
	if f == nil {
		return
	}
	if f.MissingCount > 0 {
		fmt.Fprintf(w, "Video files that were not found: %d, such as those of %s.\n", f.MissingCount, strings.Join(f.Missing, ", "))
	}
	if len(f.Damaged) > 0 {
		fmt.Fprintf(w, "Video files whose content is not what was stored: %s. They were copied as they are.\n", strings.Join(f.Damaged, ", "))
	}
}

// restoreCmd works on the data folder itself, since no server may be using it. It refuses a database that has any
// data, so that a wrong path or address destroys nothing.
func (p *program) restoreCmd() *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use: "restore BACKUP", Short: "Restore a backup, on SQLite or PostgreSQL", Args: args("BACKUP"),
		Long: `Restore a backup into the database that the configuration names: SQLite in an
empty data folder, or an empty PostgreSQL, whichever engine the backup was made
on. The files of videos that are part of the backup are put where the
configuration says, and what its journal holds is settled.

With --check the command reads the whole backup, compares it with the checksums
that were taken when it was made, looks for the files of videos, and changes
nothing. The exit code is 1 if anything is missing or damaged.`,
		Example: "  sluice restore --check /srv/backups/monday\n  sluice restore /srv/backups/monday --data ./new",
		RunE: func(c *cobra.Command, given []string) error {
			// Before the data folder is made.
			if !exists(given[0]) {
				return fault.New(fault.NotFound, "there is no %s: name a backup that \"sluice backup\" has made", given[0])
			}
			cfg, err := p.load()
			if err != nil {
				return err
			}
			if check {
				out, err := app.CheckBackup(c.Context(), cfg, given[0], p.progress())
				if err != nil {
					return err
				}
				return p.judge(out, len(out.Problems) == 0, func(w io.Writer) { printChecked(w, out) })
			}
			out, err := app.Restore(c.Context(), cfg, given[0], p.progress())
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { printRestored(w, out) })
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "read the backup and report whether it is complete; change nothing")
	return cmd
}

// printChecked prints problems first: whoever reads only the top must not take a damaged backup for a good one.
func printChecked(w io.Writer, out *installation.Checked) {
	for _, problem := range out.Problems {
		fmt.Fprintf(w, "✗ %s\n", problem)
	}
	for _, note := range out.Notes {
		fmt.Fprintf(w, "! %s\n", note)
	}
	if len(out.Problems) > 0 {
		fmt.Fprintln(w, "The backup cannot be restored as it is.")
		return
	}
	made := "a single file, which has no checksums"
	if m := out.Manifest; m != nil {
		made = fmt.Sprintf("made on %s from %s by sluice %s", m.MadeAt.Format("2006-01-02 15:04 UTC"), m.Engine, m.Sluice)
	}
	fmt.Fprintf(w, "The backup is complete: %s; %d rows, %d videos", made, out.Rows, out.Videos)
	if out.Journal != nil {
		fmt.Fprintf(w, ", %d records in its journal", out.Journal.Records)
	}
	fmt.Fprintln(w, ". Nothing was changed.")
}

// printRestored prints what was restored, and what to do before the first start.
func printRestored(w io.Writer, out *installation.Restored) {
	fmt.Fprintf(w, "Restored %s (%s): %d rows, %d calls; %d settled from the journal; %d account days audited.\n", out.Data, out.Engine, out.Rows, out.Books.Requests, out.Settled, out.Days)
	if out.Files != nil {
		fmt.Fprintf(w, "Video files: %d copied (%d bytes), %d already there.\n", out.Files.Copied, out.Files.Bytes, out.Files.There)
		printFiles(w, out.Files)
	}
	if out.Note == "" {
		out.Note = "You can start the server now."
	}
	fmt.Fprintln(w, out.Note)
}
