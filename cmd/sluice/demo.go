package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sluice/internal/app/demo"
	"sluice/internal/kit/datadir"
)

// demoCmd runs a demonstration. It reads no configuration: a demonstration is the same everywhere.
func (p *program) demoCmd() *cobra.Command {
	var opts demo.Options
	cmd := &cobra.Command{
		Use: "demo", Short: "Show the pages with a month of made-up calls", Args: args(),
		Long: `Run the gateway of a made-up company until it is interrupted: a month of calls
by eight people and their programs, with plans, invoices, tickets, alerts and an
outage. It prints links that sign you in to the dashboard and to the support
console, and a key to call with.

Sandbox models answer, under the names and prices of well-known ones. Nothing
leaves this machine, and no provider key is used.

Everything is in a temporary folder, which is removed at the end. --data DIR keeps
it in a folder that is new or empty, or shows the demonstration that DIR holds.`,
		RunE: func(c *cobra.Command, _ []string) error {
			opts.Dir = p.overrides["data"]
			return p.demo(c.Context(), &opts)
		},
	}
	cmd.Flags().StringVar(&opts.Listen, "listen", "", "`address` to serve on (default 127.0.0.1:8080, or a free port if that is taken)")
	cmd.Flags().Uint64Var(&opts.Seed, "seed", 1, "`number` that the figures are made from; the same one gives the same figures")
	cmd.Flags().Float64Var(&opts.Size, "size", 1, "`share` of the usual calls to make up")
	_ = cmd.Flags().MarkHidden("size") // for tests; fails only for a flag that is not there
	return cmd
}

// demo runs a demonstration until ctx is done.
func (p *program) demo(ctx context.Context, opts *demo.Options) error {
	fmt.Fprintln(p.stderr, "Making up a month of calls. This takes a few seconds.")
	d, err := demo.Start(ctx, opts)
	if errors.Is(err, context.Canceled) {
		return nil // stopped before there was anything to see
	}
	if err != nil {
		return err
	}
	presentDemo(p.stdout, d)
	return d.Run(ctx)
}

// presentDemo prints what a person needs to look at a demonstration.
func presentDemo(w io.Writer, d *demo.Demo) {
	fmt.Fprint(w, "This is a demonstration of Sluice: the gateway of a company that does not exist.\nThese links sign you in, as often as you like:\n\n")
	for _, l := range d.Links() {
		fmt.Fprintf(w, "  %-24s%s\n", l.Text, l.URL)
	}
	fmt.Fprintf(w, `
Call it; the call appears on the dashboard:

  curl %s/v1/chat/completions -H "Authorization: Bearer %s" -H "Content-Type: application/json" \
    -d '{"model": "fast", "messages": [{"role": "user", "content": "What is 17 * 23 + 4?"}]}'

`, d.Origin(), d.Key())
	dir, temporary := d.Dir()
	fmt.Fprintf(w, "Look at it with other commands:\n\n  sluice overview --data %s\n\n", datadir.ShellWord(dir))
	if temporary {
		fmt.Fprintln(w, "Press Ctrl-C to end it and remove its folder.")
	} else {
		fmt.Fprintln(w, "Press Ctrl-C to end it. Its folder is kept; the same command shows it again.")
	}
}
