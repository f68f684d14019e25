package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
	"sluice/internal/upstream/routing"
)

// upstreamCmd groups the commands about the targets that serve models.
func (p *program) upstreamCmd() *cobra.Command {
	return group("upstream", "List, drain and enable upstreams", p.upstreamListCmd(), p.upstreamDrainCmd(), p.upstreamEnableCmd(), p.upstreamHistoryCmd())
}

func (p *program) upstreamListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the upstreams of the server and what is drained", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			targets, err := allOf(c.Context(), p, p.ops.UpstreamList, admin.Cursor{})
			if err != nil {
				return err
			}
			drains, err := allOf(c.Context(), p, p.ops.UpstreamDrains, admin.Cursor{})
			if err != nil {
				return err
			}
			return p.print(map[string]any{"targets": targets, "drains": drains}, func(w io.Writer) { printUpstreams(w, targets, drains) })
		},
	}
}

// printUpstreams prints the targets of the server, then the orders, which may concern targets that it does not have.
func printUpstreams(w io.Writer, targets []routing.TargetHealth, drains []steering.Order) {
	if len(targets) > 0 {
		heads := []string{"PROVIDER", "UPSTREAM", "KEY", "BREAKER", "DRAINED", "RUNNING", "ANSWERED", "FAILED", "BEGINS AFTER"}
		replicas := slices.ContainsFunc(targets, func(t routing.TargetHealth) bool { return t.Replica != "" })
		if replicas {
			heads = append(heads, "REPLICA", "ITS RUNNING", "ITS WAITING", "ITS CACHE")
		}
		columns[routing.TargetHealth]{heads, func(t *routing.TargetHealth) []string {
			drained := "no"
			if t.Drained {
				drained = "yes"
			}
			row := []string{
				t.Provider, t.Upstream, t.Key, t.State.String(), drained, fmt.Sprint(t.Running), fmt.Sprint(t.Answered), fmt.Sprint(t.Failed), t.Latency.Round(time.Millisecond).String(),
			}
			if replicas {
				row = append(append(row, t.Replica), serverColumns(t.Server)...)
			}
			return row
		}}.write(w, targets)
	}
	if len(drains) == 0 {
		return
	}
	if len(targets) > 0 {
		fmt.Fprintln(w)
	}
	columns[steering.Order]{[]string{"DRAINED", "SINCE", "UNTIL", "BY", "REASON"}, func(o *steering.Order) []string {
		return []string{o.Target.String(), timeText(&o.From), endText(o), o.Actor, o.Reason}
	}}.write(w, drains)
}

// serverColumns returns what a replica says of itself: the calls that it works on, those in its queue, and how much of its
// cache is in use.
func serverColumns(f *routing.Figures) []string {
	if f == nil {
		return []string{"", "", ""}
	}
	use := ""
	if f.CacheUse != nil {
		use = fmt.Sprintf("%.0f%%", 100**f.CacheUse)
	}
	return []string{fmt.Sprint(f.Running), fmt.Sprint(f.Waiting), use}
}

// endText says when an order ends.
func endText(o *steering.Order) string {
	if o.Until.IsZero() {
		return "it is ended"
	}
	return timeText(&o.Until)
}

// readTarget reads PROVIDER or PROVIDER/UPSTREAM.
func readTarget(in *admin.UpstreamTarget, name string) {
	in.Provider, in.Upstream, _ = strings.Cut(name, "/")
}

func (p *program) upstreamDrainCmd() *cobra.Command {
	in := admin.UpstreamTarget{}
	var lasts time.Duration
	cmd := does(p, &cobra.Command{
		Use: "drain PROVIDER[/UPSTREAM]", Short: "Send no new calls to an upstream",
		Long: `Send no new calls to an upstream, on all servers of the installation.

Calls in progress finish as usual; their retries go elsewhere. Without UPSTREAM all models
of the provider are drained. --replica drains one of several servers of a provider, with
all its models. The order survives restarts.`,
		Example: `  sluice upstream drain openai/gpt-4o --for 2h --reason "their incident 812"`,
		PreRunE: func(_ *cobra.Command, given []string) error {
			readTarget(&in, given[0])
			_, in.Until = span(0, lasts)
			return nil
		},
	}, p.ops.UpstreamDrain, &in, func(w io.Writer, o *steering.Order) { fmt.Fprintf(w, "%s gets no new calls\n", o.Target) })
	cmd.Flags().StringVar(&in.Key, "key", "", "`last four` characters of the provider's key (default all keys)")
	cmd.Flags().StringVar(&in.Replica, "replica", "", "`host:port` of one of the provider's servers (default all servers)")
	cmd.Flags().DurationVar(&lasts, "for", 0, "`how long`, such as 30m (default until it is enabled)")
	return addWhy(cmd, &in.Reason)
}

func (p *program) upstreamEnableCmd() *cobra.Command {
	in := admin.UpstreamTarget{}
	cmd := does(p, &cobra.Command{
		Use: "enable PROVIDER[/UPSTREAM]", Short: "Send calls to an upstream again",
		Long: "Send calls to an upstream again. Name it as it was drained; \"sluice upstream list\" shows that.",
		PreRunE: func(_ *cobra.Command, given []string) error {
			readTarget(&in, given[0])
			return nil
		},
	}, p.ops.UpstreamEnable, &in, func(w io.Writer, o *steering.Order) { fmt.Fprintf(w, "%s gets calls again\n", o.Target) })
	cmd.Flags().StringVar(&in.Key, "key", "", "`last four` characters of the key that was drained")
	cmd.Flags().StringVar(&in.Replica, "replica", "", "`host:port` of the server that was drained")
	return addWhy(cmd, &in.Reason)
}

func (p *program) upstreamHistoryCmd() *cobra.Command {
	in := admin.Cursor{}
	cmd := page(p, &cobra.Command{
		Use: "history", Short: "Show who drained, moved, closed and announced what",
		PreRunE: func(c *cobra.Command, _ []string) error {
			if in.Limit < 1 || in.Limit > 1000 {
				return misused(c, errors.New("--limit is from 1 to 1000"))
			}
			return nil
		},
	}, p.ops.SteeringHistory, &in, entryColumns("REASON"))
	cmd.Flags().IntVar(&in.Limit, "limit", 50, "how many `entries`, the newest first")
	return cmd
}
