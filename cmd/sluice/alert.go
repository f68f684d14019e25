package main

import (
	"cmp"
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
	return group("alert", "See what operators and customers were told by webhook and mail, and send it again",
		p.alertListCmd(), p.alertEndpointsCmd(), p.alertTestCmd(), p.alertDeliveriesCmd(), p.alertShowCmd(), p.alertReplayCmd(), p.alertSecretCmd())
}

// alertListCmd prints the operator's alerts.
func (p *program) alertListCmd() *cobra.Command {
	return lists(p, &cobra.Command{Use: "list", Short: "List what the operator was told, newest first", Args: args()}, p.ops.AlertList, &admin.Cursor{},
		columns[alert.Event]{[]string{"AT", "TYPE", "ALERT"}, func(e *alert.Event) []string {
			return []string{timeText(&e.At), string(e.Type), e.Title}
		}})
}

// alertEndpointsCmd prints where alerts go.
func (p *program) alertEndpointsCmd() *cobra.Command {
	return lists(p, &cobra.Command{Use: "endpoints", Short: "List where the operator's alerts go", Args: args()}, p.ops.AlertEndpoints, &admin.Cursor{},
		columns[alert.Endpoint]{[]string{"ENDPOINT", "EVENTS", "TO"}, func(e *alert.Endpoint) []string {
			return []string{e.ID, cmp.Or(commas(e.Types), "all"), e.To}
		}})
}

// commas joins texts.
func commas[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = string(x)
	}
	return strings.Join(texts, ",")
}

// alertTestCmd sends a test.
func (p *program) alertTestCmd() *cobra.Command {
	return &cobra.Command{
		Use: "test", Short: "Send a test to all endpoints of the operator", Args: args(),
		Long: "Send a test to all endpoints of the operator. The running server delivers it\nwithin seconds; \"sluice alert deliveries\" shows what became of it.",
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := ask(c.Context(), p, p.ops.AlertTest, admin.Empty{})
			if err != nil {
				return err
			}
			return deliveryColumns().print(p, out.Data)
		},
	}
}

// alertDeliveriesCmd prints deliveries, of the operator or of an account.
func (p *program) alertDeliveriesCmd() *cobra.Command {
	in := admin.AlertQuery{}
	cmd := lists(p, &cobra.Command{
		Use: "deliveries [ID]", Short: "List deliveries to the operator, or to an account, newest first", Args: optional("ID"),
		Example: "  sluice alert deliveries --state dead",
	}, p.ops.AlertDeliveries, &in, deliveryColumns(), &in.Ref)
	cmd.Flags().StringVar((*string)(&in.State), "state", "", "only those that are `waiting`, delivered or dead")
	return cmd
}

// alertShowCmd prints one delivery with what is sent.
func (p *program) alertShowCmd() *cobra.Command {
	in := admin.Target{}
	return does(p, &cobra.Command{Use: "show DELIVERYID", Short: "Show a delivery with its body", Args: args("DELIVERYID")},
		p.ops.AlertShow, &in, func(w io.Writer, d *alert.Delivery) {
			deliveryColumns().write(w, []alert.Delivery{*d})
			fmt.Fprintf(w, "\n%s\n\n%s\n", d.Title, d.Body)
		}, &in.Ref)
}

// alertReplayCmd sends deliveries again.
func (p *program) alertReplayCmd() *cobra.Command {
	in := admin.Target{}
	return does(p, &cobra.Command{
		Use: "replay DELIVERYID", Short: "Send a delivery again that was delivered or given up", Args: args("DELIVERYID"),
		Long: "Send a delivery again that was delivered or given up. It keeps its webhook-id, and\ngets as many attempts as a new one.",
	}, p.ops.AlertReplay, &in, func(w io.Writer, d *alert.Delivery) {
		fmt.Fprintf(w, "%s is sent again to %s.\n", d.ID, d.EndpointID)
	}, &in.Ref)
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

// deliveryColumns returns deliveries as a table.
func deliveryColumns() columns[alert.Delivery] {
	return columns[alert.Delivery]{[]string{"DELIVERY", "TYPE", "TO", "STATE", "ATTEMPTS", "NEXT", "PROBLEM"}, func(d *alert.Delivery) []string {
		due := "-"
		if !d.DueAt.IsZero() {
			due = timeText(&d.DueAt)
		}
		return []string{d.ID, string(d.Type), d.EndpointID, string(d.State), strconv.Itoa(d.Attempts), due, d.Problem}
	}}
}
