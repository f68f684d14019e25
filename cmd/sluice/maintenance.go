package main

import (
	"cmp"
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
	return group("maintenance", "Close models for maintenance", p.maintenanceStartCmd(),
		p.ordersCmd("list", p.ops.MaintenanceList, "List current and planned maintenance"), p.endCmd(p.ops.MaintenanceEnd, "End maintenance"))
}

func (p *program) maintenanceStartCmd() *cobra.Command {
	var in admin.NewMaintenance
	var starts, lasts time.Duration
	cmd := does(p, &cobra.Command{
		Use: "start [MODEL...]", Short: "Answer calls to some or all models with 503", Args: cobra.ArbitraryArgs,
		Long: `Answer calls to the models with 503 and Retry-After, on all servers of the
installation, and show a banner on the pages. Without MODEL it applies to all models
and videos. Calls in progress finish as usual.`,
		Example: `  sluice maintenance start lab/large --for 30m --text "We are adding capacity." --reason "new hardware"`,
		PreRunE: func(_ *cobra.Command, given []string) error {
			in.Models = given
			in.From, in.Until = span(starts, lasts)
			return nil
		},
	}, p.ops.MaintenanceStart, &in, printOrder)
	cmd.Flags().StringVar(&in.Text, "text", "", "`what` callers and customers read")
	cmd.Flags().DurationVar(&starts, "in", 0, "`when` it begins, such as 2h (default at once)")
	cmd.Flags().DurationVar(&lasts, "for", 0, "`how long` it lasts, such as 30m (default until it is ended)")
	return addWhy(cmd, &in.Reason)
}

// announceCmd groups the commands about announcements.
func (p *program) announceCmd() *cobra.Command {
	return group("announce", "Show announcements on the pages", p.announcePostCmd(),
		p.ordersCmd("list", p.ops.AnnouncementList, "List current and planned announcements"), p.endCmd(p.ops.AnnouncementEnd, "Remove an announcement"))
}

func (p *program) announcePostCmd() *cobra.Command {
	var in admin.NewAnnouncement
	var starts, lasts time.Duration
	cmd := does(p, &cobra.Command{
		Use: "post TEXT", Short: "Show a banner on every page",
		Example: `  sluice announce post "Prices change on 1 December." --for 168h`,
		PreRunE: func(*cobra.Command, []string) error {
			in.From, in.Until = span(starts, lasts)
			return nil
		},
	}, p.ops.AnnouncementPost, &in, printOrder, &in.Text)
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
func (p *program) ordersCmd(name string, op admin.Op[admin.Cursor, admin.List[steering.Order]], short string) *cobra.Command {
	return lists(p, &cobra.Command{Use: name, Short: short}, op, &admin.Cursor{}, orderColumns())
}

// endCmd ends an order.
func (p *program) endCmd(op admin.Op[admin.EndedOrder, steering.Order], short string) *cobra.Command {
	in := admin.EndedOrder{}
	return addWhy(does(p, &cobra.Command{Use: "end ID", Short: short}, op, &in, func(w io.Writer, o *steering.Order) {
		fmt.Fprintf(w, "%s has ended\n", o.ID)
	}, &in.ID), &in.Reason)
}

// printOrder prints maintenance or an announcement.
func printOrder(w io.Writer, o *steering.Order) { orderColumns().write(w, []steering.Order{*o}) }

// orderColumns returns maintenance, announcements or moves as a table.
func orderColumns() columns[steering.Order] {
	return columns[steering.Order]{[]string{"ID", "FROM", "UNTIL", "CONCERNS", "TEXT", "BY", "REASON"}, func(o *steering.Order) []string {
		concerns := "all pages"
		switch o.Kind {
		case steering.Move:
			concerns = o.Model + " to " + o.Plan
		case steering.Maintenance:
			concerns = cmp.Or(strings.Join(o.Models, ", "), "all models")
		}
		return []string{o.ID, timeText(&o.From), endText(o), concerns, o.Text, o.Actor, o.Reason}
	}}
}
