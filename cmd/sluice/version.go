package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/store/sqlstore"
)

// release is what version --json prints. Scripts compare its fields, so they only get more.
type release struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // empty if the build does not know it
	Date     string `json:"date"`   // of the commit; empty if the build does not know it
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Schema   int64  `json:"schema"` // the newest migration that this program has
}

// versionCmd prints the version. With --json it also prints what the program was built from and for.
func (p *program) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(),
		Long: `Print the version and the source revision that this program was built from. With
--json, also the date of the revision, the version of Go, the platform and the
newest version of the database that this program knows.

Only a release has a plain number. "0.3.0-dev" is a build of the source on its way
to 0.3.0.`,
		RunE: func(*cobra.Command, []string) error {
			out := release{buildinfo.Version(), buildinfo.Commit(), buildinfo.Date(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, sqlstore.Newest()}
			return p.print(out, func(w io.Writer) {
				fmt.Fprint(w, "sluice ", buildinfo.Version())
				if c := buildinfo.Commit(); c != "" {
					fmt.Fprint(w, " (", c, ")")
				}
				fmt.Fprintln(w)
			})
		},
	}
}
