package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/steering"
)

// maintenanceCmd groups the commands about maintenance.
func (p *program) maintenanceCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "maintenance", Short: "Close models for maintenance", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.maintenanceStartCmd(), p.ordersCmd("maintenance.list", "List the maintenance that holds or will"),
		p.endCmd("maintenance.end", "End maintenance"))
	return cmd
}

func (p *program) maintenanceStartCmd() *cobra.Command {
	var in admin.NewMaintenance
	var starts, lasts time.Duration
	cmd := &cobra.Command{
		Use: "start [MODEL...]", Short: "Answer calls of models, or of all, with 503",
		Long: `Answer calls of the models with 503 and Retry-After, on all servers of the
installation, and show a banner on the pages. Without MODEL it concerns all models
and videos. Calls that have begun end as usual.`,
		Example: `  sluice maintenance start lab/large --for 30m --text "We are adding capacity." --reason "new hardware"`,
		RunE: func(c *cobra.Command, given []string) error {
			in.Actor, in.Models = p.actor(), given
			in.From, in.Until = span(starts, lasts)
			var o steering.Order
			if err := p.call(c.Context(), "maintenance.start", in, &o); err != nil {
				return err
			}
			return p.print(o, func(w io.Writer) { printOrders(w, []steering.Order{o}) })
		},
	}
	cmd.Flags().StringVar(&in.Text, "text", "", "`what` callers and customers read")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`why`, for the audit log")
	cmd.Flags().DurationVar(&starts, "in", 0, "`when` it begins, such as 2h (default at once)")
	cmd.Flags().DurationVar(&lasts, "for", 0, "`how long` it lasts, such as 30m (default until it is ended)")
	return cmd
}

// announceCmd groups the commands about announcements.
func (p *program) announceCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "announce", Short: "Show announcements on the pages", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.announcePostCmd(), p.ordersCmd("announcement.list", "List the announcements that are shown or will be"),
		p.endCmd("announcement.end", "Remove an announcement"))
	return cmd
}

func (p *program) announcePostCmd() *cobra.Command {
	var in admin.NewAnnouncement
	var starts, lasts time.Duration
	cmd := &cobra.Command{
		Use: "post TEXT", Short: "Show a banner on every page", Args: args("TEXT"),
		Example: `  sluice announce post "Prices change on 1 December." --for 168h`,
		RunE: func(c *cobra.Command, given []string) error {
			in.Actor, in.Text = p.actor(), given[0]
			in.From, in.Until = span(starts, lasts)
			var o steering.Order
			if err := p.call(c.Context(), "announcement.post", in, &o); err != nil {
				return err
			}
			return p.print(o, func(w io.Writer) { printOrders(w, []steering.Order{o}) })
		},
	}
	cmd.Flags().StringVar(&in.Tone, "tone", "info", "how it looks: `info`, warn or bad")
	cmd.Flags().DurationVar(&starts, "in", 0, "`when` it appears, such as 2h (default at once)")
	cmd.Flags().DurationVar(&lasts, "for", 0, "`how long` it is shown, such as 24h (default until it is removed)")
	return cmd
}

// span returns when an order begins and ends. Zero stands for at once and for no end.
func span(starts, lasts time.Duration) (from, until time.Time) {
	now := time.Now()
	if starts > 0 {
		from = now.Add(starts)
	}
	if lasts > 0 {
		until = now.Add(starts + lasts)
	}
	return from, until
}

// ordersCmd lists orders.
func (p *program) ordersCmd(operation, short string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: short, Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := fetchAll[steering.Order](c.Context(), p, operation, plainCursor)
			if err != nil {
				return err
			}
			return p.print(list, func(w io.Writer) { printOrders(w, list) })
		},
	}
}

// endCmd ends an order.
func (p *program) endCmd(operation, short string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "end ID", Short: short, Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			var o steering.Order
			if err := p.call(c.Context(), operation, admin.EndedOrder{Actor: p.actor(), ID: given[0], Reason: reason}, &o); err != nil {
				return err
			}
			return p.print(o, func(w io.Writer) { fmt.Fprintf(w, "%s has ended\n", o.ID) })
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the audit log")
	return cmd
}

// printOrders prints maintenance, announcements or moves.
func printOrders(w io.Writer, list []steering.Order) {
	rows := [][]string{{"ID", "FROM", "UNTIL", "CONCERNS", "TEXT", "BY", "REASON"}}
	for i := range list {
		o := &list[i]
		concerns := "all pages"
		switch o.Kind {
		case steering.Move:
			concerns = o.Model + " to " + o.Plan
		case steering.Maintenance:
			concerns = "all models"
			if len(o.Models) > 0 {
				concerns = strings.Join(o.Models, ", ")
			}
		}
		rows = append(rows, []string{o.ID, timeText(&o.From), endText(o), concerns, o.Text, o.Actor, o.Reason})
	}
	table(w, rows)
}

// plainCursor is for lists that need nothing but a cursor.
func plainCursor(at admin.Cursor) any { return at }
