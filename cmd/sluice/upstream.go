package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
	"sluice/internal/upstream/routing"
)

// upstreamCmd groups the commands about the targets that serve models.
func (p *program) upstreamCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "upstream", Short: "Look at upstreams, drain and enable them", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.upstreamListCmd(), p.upstreamDrainCmd(), p.upstreamEnableCmd(), p.upstreamHistoryCmd())
	return cmd
}

func (p *program) upstreamListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the upstreams of the server and what is drained", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			targets, err := fetchAll[routing.Standing](c.Context(), p, "upstream.list", plainCursor)
			if err != nil {
				return err
			}
			drains, err := fetchAll[steering.Order](c.Context(), p, "upstream.drains", plainCursor)
			if err != nil {
				return err
			}
			return p.print(map[string]any{"targets": targets, "drains": drains}, func(w io.Writer) { printUpstreams(w, targets, drains) })
		},
	}
}

// printUpstreams prints the targets of the server, then the orders, which may concern targets that it does not have.
func printUpstreams(w io.Writer, targets []routing.Standing, drains []steering.Order) {
	rows := [][]string{{"PROVIDER", "UPSTREAM", "KEY", "BREAKER", "DRAINED", "RUNNING", "ANSWERED", "FAILED", "BEGINS AFTER"}}
	for i := range targets {
		t := &targets[i]
		drained := "no"
		if t.Drained {
			drained = "yes"
		}
		rows = append(rows, []string{
			t.Provider, t.Upstream, t.Key, t.State.String(), drained, fmt.Sprint(t.Running), fmt.Sprint(t.Answered), fmt.Sprint(t.Failed), t.Latency.Round(time.Millisecond).String(),
		})
	}
	if len(targets) > 0 {
		table(w, rows)
	}
	if len(drains) == 0 {
		return
	}
	if len(targets) > 0 {
		fmt.Fprintln(w)
	}
	orders := [][]string{{"DRAINED", "SINCE", "UNTIL", "BY", "REASON"}}
	for i := range drains {
		o := &drains[i]
		orders = append(orders, []string{o.Target.String(), timeText(&o.From), endText(o), o.Actor, o.Reason})
	}
	table(w, orders)
}

// endText says when an order ends.
func endText(o *steering.Order) string {
	if o.Until.IsZero() {
		return "it is ended"
	}
	return timeText(&o.Until)
}

// targetOf reads PROVIDER or PROVIDER/UPSTREAM.
func (p *program) targetOf(name, key, reason string) admin.UpstreamTarget {
	provider, upstream, _ := strings.Cut(name, "/")
	return admin.UpstreamTarget{Actor: p.actor(), Provider: provider, Upstream: upstream, Key: key, Reason: reason}
}

func (p *program) upstreamDrainCmd() *cobra.Command {
	var key, reason string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "drain PROVIDER[/UPSTREAM]", Short: "Send no new calls to an upstream", Args: args("PROVIDER"),
		Long: `Send no new calls to an upstream, on all servers of the installation.

Running calls end as usual; their retries go elsewhere. Without UPSTREAM all models
of the provider are drained. The order survives restarts.`,
		Example: `  sluice upstream drain openai/gpt-4o --for 2h --reason "their incident 812"`,
		RunE: func(c *cobra.Command, given []string) error {
			in := p.targetOf(given[0], key, reason)
			if lasts > 0 {
				in.Until = time.Now().Add(lasts)
			}
			var o steering.Order
			if err := p.call(c.Context(), "upstream.drain", in, &o); err != nil {
				return err
			}
			return p.print(o, func(w io.Writer) { fmt.Fprintf(w, "%s gets no new calls\n", o.Target) })
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`last four` characters of the provider's key (default all keys)")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the audit log")
	cmd.Flags().DurationVar(&lasts, "for", 0, "`how long`, such as 30m (default until it is enabled)")
	return cmd
}

func (p *program) upstreamEnableCmd() *cobra.Command {
	var key, reason string
	cmd := &cobra.Command{
		Use: "enable PROVIDER[/UPSTREAM]", Short: "Send calls to an upstream again", Args: args("PROVIDER"),
		Long: "Send calls to an upstream again. Name it as it was drained; \"sluice upstream list\" shows that.",
		RunE: func(c *cobra.Command, given []string) error {
			var o steering.Order
			if err := p.call(c.Context(), "upstream.enable", p.targetOf(given[0], key, reason), &o); err != nil {
				return err
			}
			return p.print(o, func(w io.Writer) { fmt.Fprintf(w, "%s gets calls again\n", o.Target) })
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`last four` characters of the key that was drained")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the audit log")
	return cmd
}

func (p *program) upstreamHistoryCmd() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "history", Short: "Show who drained, moved, closed and announced what", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return misused(c, errors.New("--limit is from 1 to 1000"))
			}
			var page admin.List[admin.Entry]
			if err := p.call(c.Context(), "steering.history", admin.Cursor{Limit: limit}, &page); err != nil {
				return err
			}
			log := page.Data
			return p.print(log, func(w io.Writer) {
				rows := [][]string{{"WHEN", "WHO", "WHAT", "DETAIL", "REASON"}}
				for i := range log {
					e := &log[i]
					rows = append(rows, []string{timeText(&e.At), e.Actor, e.Action, e.Detail, e.Reason})
				}
				table(w, rows)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "how many `entries`, the newest first")
	return cmd
}
