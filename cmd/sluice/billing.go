package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/account/billing"
	"sluice/internal/operate/admin"
)

// billingCmd groups the commands about subscriptions and payments (docs/api.md#billing).
// Amounts are given in cents and printed in dollars. Times are in UTC.
func (p *program) billingCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "billing", Short: "Show subscriptions, refund payments and downgrade plans", Args: subcommand, RunE: needsSubcommand}
	cmd.AddCommand(p.billingShowCmd(), p.billingDowngradeCmd(), p.billingRefundCmd(), p.billingCreditCmd(), p.billingStopsCmd(), p.billingReleaseCmd(), p.billingAdvanceCmd())
	return cmd
}

// billingShowCmd prints everything that billing knows about an account. It changes nothing.
func (p *program) billingShowCmd() *cobra.Command {
	return &cobra.Command{
		Use: "show ID|E-MAIL", Short: "Show an account's subscription, invoices and ledger", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			return p.callBilling(c, "billing.show", admin.Target{Ref: given[0]})
		},
	}
}

// billingDowngradeCmd is how support fulfils a customer's request for a lower plan
// (docs/api.md#plan-changes).
func (p *program) billingDowngradeCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "downgrade ID PLAN", Short: "Downgrade to a lower paid plan at the end of the period", Args: args("ID", "PLAN"),
		Long: "Downgrade an account to a lower paid plan at the end of the billing period, as a\ncustomer requested. The current plan, which is paid for, stays until then.",
		RunE: func(c *cobra.Command, given []string) error {
			return p.callBilling(c, "billing.downgrade", admin.Target{Actor: p.actor(), Ref: given[0], Plan: given[1], Reason: reason})
		},
	}
	mayReason(cmd, &reason)
	return cmd
}

// billingRefundCmd refunds a payment. The amount is required, so that nobody refunds
// everything by accident.
func (p *program) billingRefundCmd() *cobra.Command {
	in := admin.RefundOrder{}
	cmd := &cobra.Command{
		Use: "refund PAYMENT --cents N", Short: "Refund a payment, or a part of it", Args: args("PAYMENT"),
		Example: "  sluice billing refund pay_7x… --cents 1000",
		RunE: func(c *cobra.Command, given []string) error {
			in.Actor, in.Payment = p.actor(), given[0]
			// The server limits the amount to what is left of the payment.
			return p.callBilling(c, "billing.refund", in)
		},
	}
	cmd.Flags().Int64Var(&in.Cents, "cents", 0, "`amount` to refund, in cents")
	mayReason(cmd, &in.Reason)
	_ = cmd.MarkFlagRequired("cents") // the flag exists
	return cmd
}

// billingCreditCmd changes what the next renewals are lowered by (docs/billing.md#credits).
func (p *program) billingCreditCmd() *cobra.Command {
	in := admin.Credit{}
	cmd := &cobra.Command{
		Use: "credit ID --cents N --reason R", Short: "Give an account a credit, which lowers its next renewals", Args: args("ID"),
		Long:    "Give an account a credit. It lowers the next renewals until it is used up. A\nnegative amount takes back what is not used yet.",
		Example: "  sluice billing credit ana@example.com --cents 500 --reason \"the outage of Monday\"",
		RunE: func(c *cobra.Command, given []string) error {
			in.Actor, in.Ref = p.actor(), given[0]
			return p.callBilling(c, "billing.credit", in)
		},
	}
	cmd.Flags().Int64Var(&in.Cents, "cents", 0, "`amount` of the credit, in cents")
	_ = cmd.MarkFlagRequired("cents") // the flag exists
	addReason(cmd, &in.Reason)
	return cmd
}

// billingStopsCmd lists what the brake has stopped (docs/billing.md#the-brake).
func (p *program) billingStopsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "stops", Short: "List accounts whose payments were refunded twice in a row", Args: args(),
		Long: "List the accounts whose billing is stopped, because two payments in a row were\ncharged and had to be refunded. Nothing is charged until the account is released.",
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := fetchAll[admin.BillingStop](c.Context(), p, "billing.stops", func(at admin.Cursor) any { return at })
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) {
				rows := [][]string{{"ACCOUNT", "E-MAIL", "SINCE", "WHY"}}
				for _, x := range out {
					rows = append(rows, []string{x.ID, x.Email, utcText(x.At), x.Why})
				}
				table(w, rows)
			})
		},
	}
}

// billingReleaseCmd ends a stop. Staff must have found out why the payments were refunded, or they will be again.
func (p *program) billingReleaseCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "release ID", Short: "Let payments of a stopped account be made again", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			return p.callBilling(c, "billing.release", admin.Target{Actor: p.actor(), Ref: given[0], Reason: reason})
		},
	}
	mayReason(cmd, &reason)
	return cmd
}

// billingAdvanceCmd lets testers see renewals and failed payments without waiting for a month.
// The server refuses it unless the test processor is configured, because nobody can be charged
// for a month that has not happened.
func (p *program) billingAdvanceCmd() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "advance ID --to DATE", Short: "Move an account's clock forward, in test mode", Args: args("ID"),
		Long:    "Move an account's clock to a later date. Everything that is due before then\nhappens: renewals, retries, the end of a subscription. The clock continues from\nthere. This works only with test cards.",
		Example: "  sluice billing advance ana@example.com --to 2027-03-01",
		RunE: func(c *cobra.Command, given []string) error {
			// Parsed here, so that a mistyped date is a mistake in the command line and not a refusal.
			at, err := parseDate(to)
			if err != nil {
				return misused(c, err)
			}
			return p.callBilling(c, "billing.advance", admin.Move{Actor: p.actor(), Ref: given[0], To: at})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`date`, such as 2027-03-01 or 2027-03-01T12:00:00Z")
	_ = cmd.MarkFlagRequired("to") // the flag exists
	return cmd
}

// accountTerminateCmd terminates an account. It is here because it also ends the subscription.
func (p *program) accountTerminateCmd() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "terminate ID --reason R", Short: "Terminate an account permanently and end its subscription", Args: args("ID"),
		RunE: func(c *cobra.Command, given []string) error {
			return p.changeAccount(c, "account.terminate", admin.Target{Actor: p.actor(), Ref: given[0], Reason: reason})
		},
	}
	addReason(cmd, &reason)
	return cmd
}

// callBilling runs an operation that returns an account's billing, and prints it. Every change
// prints the state after it.
func (p *program) callBilling(c *cobra.Command, name string, in any) error {
	var out admin.Billing
	if err := p.call(c.Context(), name, in, &out); err != nil {
		return err
	}
	return p.print(out, func(w io.Writer) { printBilling(w, &out) })
}

// parseDate parses a day or a full time. A day starts at midnight UTC.
func parseDate(text string) (time.Time, error) {
	// A time of day needs its zone, because billing periods are in UTC.
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a date; use a format like 2027-03-01 or 2027-03-01T12:00:00Z", text)
}

// printBilling prints the subscription, then the invoices and the ledger. b.Due is not nil if
// b.PeriodEnd is not.
func printBilling(w io.Writer, b *admin.Billing) {
	plan := b.Plan
	if b.Granted {
		plan += " (granted)"
	}
	rows := [][]string{{"account", b.ID + " " + b.Email}, {"plan", plan}, {"subscription", string(b.Status)}}
	// Free, granted and missing plans have no period.
	if b.PeriodEnd != nil {
		// What happens at the end of the period; a failed renewal is the most important news.
		next := "renews " + utcText(*b.Due)
		switch {
		case b.Failed > 0:
			next = fmt.Sprintf("%d renewal attempts failed; next attempt %s", b.Failed, utcText(*b.Due))
		case b.CancelAtEnd:
			next = "ends " + utcText(*b.Due)
		case b.NextPlan != "":
			next += " as " + b.NextPlan
		}
		rows = append(rows, []string{"price", billing.Dollars(b.PriceCents) + " per month"},
			[]string{"period", utcText(*b.PeriodStart) + " to " + utcText(*b.PeriodEnd)}, []string{"next", next})
	}
	if b.Stopped != nil {
		rows = append(rows, []string{"stopped", utcText(b.Stopped.At) + ": " + b.Stopped.Why})
	}
	if b.Method != "" {
		rows = append(rows, []string{"payment method", b.Method})
	}
	rows = append(rows, []string{"total charged", billing.Dollars(b.Balance)}, []string{"clock", utcText(b.Now)})
	table(w, rows)
	// Sections without rows are left out.
	if len(b.Invoices) > 0 {
		fmt.Fprintln(w)
		rows = [][]string{{"INVOICE", "PAID", "FOR", "PLAN", "AMOUNT", "REFUNDED", "PAYMENT"}}
		for _, r := range b.Invoices {
			rows = append(rows, []string{
				strconv.FormatInt(r.Invoice, 10), utcText(r.PaidAt), string(r.Kind), r.Plan, billing.Dollars(r.Cents), billing.Dollars(r.Refunded), r.Payment,
			})
		}
		table(w, rows)
	}
	if len(b.Ledger) > 0 {
		fmt.Fprintln(w)
		rows = [][]string{{"WHEN", "WHO", "WHAT", "PLAN", "AMOUNT", "DETAIL"}}
		for _, e := range b.Ledger {
			// Most entries of the ledger, such as a change of plan, move no money.
			amount := ""
			if e.Cents != 0 {
				amount = billing.Dollars(e.Cents)
			}
			rows = append(rows, []string{utcText(e.At), e.Actor, string(e.What), e.Plan, amount, e.Detail})
		}
		table(w, rows)
	}
}

// utcText formats a time in UTC, which billing periods are based on.
func utcText(t time.Time) string { return t.UTC().Format(time.DateTime) }
