package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/alert"
)

// alertCmd groups the commands about alerts (docs/alerts.md).
func (p *program) alertCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "alert", Short: "See what operators and customers were told by webhook and mail, and send it again", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.alertListCmd(), p.alertEndpointsCmd(), p.alertTestCmd(), p.alertDeliveriesCmd(), p.alertShowCmd(), p.alertReplayCmd(), p.alertSecretCmd())
	return cmd
}

// alertListCmd prints the operator's alerts.
func (p *program) alertListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List what the operator was told, newest first", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := fetchAll[admin.AlertEvent](c.Context(), p, "alert.list", func(at admin.Cursor) any { return at })
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				rows := [][]string{{"AT", "TYPE", "ALERT"}}
				for i := range out {
					rows = append(rows, []string{timeText(&out[i].At), string(out[i].Type), out[i].Title})
				}
				table(w, rows)
			})
		},
	}
}

// alertEndpointsCmd prints where alerts go.
func (p *program) alertEndpointsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "endpoints", Short: "List where the operator's alerts go", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := fetchAll[admin.AlertEndpoint](c.Context(), p, "alert.endpoints", func(at admin.Cursor) any { return at })
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				rows := [][]string{{"ENDPOINT", "EVENTS", "TO"}}
				for _, e := range out {
					events := "all"
					if len(e.Events) > 0 {
						names := make([]string, len(e.Events))
						for i, t := range e.Events {
							names[i] = string(t)
						}
						events = strings.Join(names, ",")
					}
					rows = append(rows, []string{e.ID, events, e.To})
				}
				table(w, rows)
			})
		},
	}
}

// alertTestCmd sends a test.
func (p *program) alertTestCmd() *cobra.Command {
	return &cobra.Command{
		Use: "test", Short: "Send a test to all endpoints of the operator", Args: args(),
		Long: "Send a test to all endpoints of the operator. The running server delivers it\nwithin seconds; \"sluice alert deliveries\" shows what became of it.",
		RunE: func(c *cobra.Command, _ []string) error {
			var out admin.List[admin.AlertDelivery]
			if err := p.call(c.Context(), "alert.test", admin.Empty{}, &out); err != nil {
				return err
			}
			return p.print(out.Data, func(w io.Writer) { printDeliveries(w, out.Data) })
		},
	}
}

// alertDeliveriesCmd prints deliveries, of the operator or of an account.
func (p *program) alertDeliveriesCmd() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use: "deliveries [ID]", Short: "List deliveries to the operator, or to an account, newest first", Args: optional("ID"),
		Example: "  sluice alert deliveries --state dead",
		RunE: func(c *cobra.Command, given []string) error {
			ref := strings.Join(given, "")
			out, err := fetchAll[admin.AlertDelivery](c.Context(), p, "alert.deliveries", func(at admin.Cursor) any {
				return admin.AlertQuery{Ref: ref, State: alert.State(state), Cursor: at}
			})
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { printDeliveries(w, out) })
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only those that are `waiting`, delivered or dead")
	return cmd
}

// alertShowCmd prints one delivery with what is sent.
func (p *program) alertShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show DELIVERYID", Short: "Show a delivery with its body", Args: args("DELIVERYID"),
		RunE: func(c *cobra.Command, given []string) error {
			var d admin.AlertDelivery
			if err := p.call(c.Context(), "alert.show", admin.Target{Ref: given[0]}, &d); err != nil {
				return err
			}
			return p.print(d, func(w io.Writer) {
				printDeliveries(w, []admin.AlertDelivery{d})
				fmt.Fprintf(w, "\n%s\n\n%s\n", d.Title, d.Body)
			})
		},
	}
}

// alertReplayCmd sends deliveries again.
func (p *program) alertReplayCmd() *cobra.Command {
	return &cobra.Command{
		Use: "replay DELIVERYID", Short: "Send a delivery again that was delivered or given up", Args: args("DELIVERYID"),
		Long: "Send a delivery again that was delivered or given up. It keeps its webhook-id, and\ngets as many attempts as a new one.",
		RunE: func(c *cobra.Command, given []string) error {
			var d admin.AlertDelivery
			if err := p.call(c.Context(), "alert.replay", admin.Target{Actor: p.actor(), Ref: given[0]}, &d); err != nil {
				return err
			}
			return p.print(d, func(w io.Writer) { fmt.Fprintf(w, "%s is sent again to %s.\n", d.ID, d.EndpointID) })
		},
	}
}

// alertSecretCmd prints a random secret for a webhook in the configuration.
func (p *program) alertSecretCmd() *cobra.Command {
	return &cobra.Command{
		Use: "secret", Short: "Make a secret for a webhook of the operator", Args: args(),
		Long: "Make a random secret for a webhook in the section alerts of the configuration. The\nreceiver needs the same one to verify signatures.",
		RunE: func(*cobra.Command, []string) error {
			secret := alert.NewSecret().Reveal()
			return p.print(json.RawMessage(strconv.Quote(secret)), func(w io.Writer) { fmt.Fprintln(w, secret) })
		},
	}
}

// printDeliveries prints deliveries as a table.
func printDeliveries(w io.Writer, list []admin.AlertDelivery) {
	rows := [][]string{{"DELIVERY", "TYPE", "TO", "STATE", "ATTEMPTS", "NEXT", "PROBLEM"}}
	for i := range list {
		d := &list[i]
		due := "-"
		if !d.DueAt.IsZero() {
			due = timeText(&d.DueAt)
		}
		rows = append(rows, []string{d.ID, string(d.Type), d.EndpointID, string(d.State), strconv.Itoa(d.Attempts), due, d.Problem})
	}
	table(w, rows)
}
