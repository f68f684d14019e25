package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"sluice/internal/buildinfo"
)

// versionCmd prints the version. With --json it also prints the commit and the Go version. The
// commit is empty if the binary was built outside of a repository.
func (p *program) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			out := map[string]string{"version": buildinfo.Version, "commit": buildinfo.Commit(), "go": runtime.Version()}
			return p.print(out, func(w io.Writer) {
				fmt.Fprint(w, "sluice ", buildinfo.Version)
				if c := buildinfo.Commit(); c != "" {
					fmt.Fprint(w, " (", c, ")")
				}
				fmt.Fprintln(w)
			})
		},
	}
}
