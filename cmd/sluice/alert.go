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

// alertCmd groups the commands about alerts (docs/care/notifications.md).
func (p *program) alertCmd() *cobra.Command {
	in := &admin.Target{} // only one of the commands runs
	return group("alert", "List webhooks and mails sent to operators and customers, and resend them", p.alertDeliveriesCmd(), p.alertSecretCmd(),
		lists(p, &cobra.Command{Use: "list", Short: "List the alerts of the operator, newest first"}, p.ops.AlertList, &admin.Cursor{},
			columns[alert.Event]{[]string{"AT", "TYPE", "ALERT"}, func(e *alert.Event) []string {
				return []string{timeText(&e.At), string(e.Type), e.Title}
			}}),
		lists(p, &cobra.Command{Use: "endpoints", Short: "List where the operator's alerts go"}, p.ops.AlertEndpoints, &admin.Cursor{},
			columns[alert.Endpoint]{[]string{"ENDPOINT", "EVENTS", "TO"}, func(e *alert.Endpoint) []string {
				return []string{e.ID, cmp.Or(commas(e.Types), "all"), e.To}
			}}),
		page(p, &cobra.Command{
			Use: "test", Short: "Send a test alert to all endpoints of the operator",
			Long: "Send a test alert to all endpoints of the operator. The running server delivers it\nwithin seconds; \"sluice alert deliveries\" shows the result.",
		}, p.ops.AlertTest, &admin.Empty{}, deliveryColumns()),
		does(p, &cobra.Command{Use: "show DELIVERYID", Short: "Show a delivery with its body"}, p.ops.AlertShow, in, func(w io.Writer, d *alert.Delivery) {
			deliveryColumns().write(w, []alert.Delivery{*d})
			fmt.Fprintf(w, "\n%s\n\n%s\n", d.Title, d.Body)
		}, &in.Ref),
		does(p, &cobra.Command{
			Use: "replay DELIVERYID", Short: "Resend a delivery that has succeeded or was given up",
			Long: "Resend a delivery that has succeeded or was given up. It keeps its webhook-id, and\ngets as many attempts as a new one.",
		}, p.ops.AlertReplay, in, func(w io.Writer, d *alert.Delivery) {
			fmt.Fprintf(w, "%s is sent again to %s.\n", d.ID, d.EndpointID)
		}, &in.Ref))
}

// commas joins texts.
func commas[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = string(x)
	}
	return strings.Join(texts, ",")
}

// alertDeliveriesCmd prints deliveries, of the operator or of an account.
func (p *program) alertDeliveriesCmd() *cobra.Command {
	in := admin.AlertQuery{}
	cmd := lists(p, &cobra.Command{
		Use: "deliveries [ID]", Short: "List deliveries to the operator, or to an account, newest first",
		Example: "  sluice alert deliveries --state dead",
	}, p.ops.AlertDeliveries, &in, deliveryColumns(), &in.Ref)
	cmd.Flags().StringVar((*string)(&in.State), "state", "", "only those that are `waiting`, delivered or dead")
	return cmd
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
