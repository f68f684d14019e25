package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/store/sqlstore"
)

// upgradeDatabaseCmd migrates the database without serving. Deployments that replace nodes one after the other run it
// first: if it fails, no node has been touched.
func (p *program) upgradeDatabaseCmd() *cobra.Command {
	return &cobra.Command{
		Use: "database", Short: "Migrate the database to this version, and end", Args: args(),
		Long: `Change the tables of the database to what this version of sluice needs, as the
first start of its server would, and end. Run "sluice upgrade check" first: it
says what will change, and about how long that takes.

With PostgreSQL, servers of the version before may keep running. With SQLite,
stop the server first.

It may be interrupted and run again. If there is nothing to change, it says so.`,
		Example: "  /tmp/sluice-new upgrade database --config /etc/sluice/sluice.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			was, is, err := app.UpgradeDatabase(c.Context(), cfg, func(m sqlstore.Migration) {
				if m.News() {
					fmt.Fprintln(p.stderr, m)
				}
			})
			if err != nil {
				return err
			}
			out := struct {
				Before int64 `json:"before"`
				After  int64 `json:"after"`
			}{was, is}
			return p.print(out, func(w io.Writer) {
				if was == is {
					fmt.Fprintf(w, "The database is at version %d already. Nothing was changed.\n", is)
					return
				}
				fmt.Fprintf(w, "The database is now at version %d. It was at version %d.\n", is, was)
			})
		},
	}
}
