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
	in := &admin.Target{} // only one of the commands runs
	return group("billing", "Show subscriptions, refund payments and downgrade plans", p.billingRefundCmd(), p.billingCreditCmd(), p.billingAdvanceCmd(),
		does(p, &cobra.Command{Use: "show ID|E-MAIL", Short: "Show an account's subscription, invoices and ledger"}, p.ops.BillingShow, in, printBilling, &in.Ref),
		// How support fulfils a customer's request for a lower plan (docs/api.md#plan-changes).
		mayReason(does(p, &cobra.Command{
			Use: "downgrade ID PLAN", Short: "Downgrade to a lower paid plan at the end of the period",
			Long: "Downgrade an account to a lower paid plan at the end of the billing period, as a\ncustomer requested. The current plan, which is paid for, stays until then.",
		}, p.ops.BillingDowngrade, in, printBilling, &in.Ref, &in.Plan), &in.Reason),
		// What the brake has stopped (docs/sell/billing.md#the-brake).
		lists(p, &cobra.Command{
			Use: "stops", Short: "List accounts whose payments were refunded twice in a row",
			Long: "List the accounts whose billing is stopped, because two payments in a row were\ncharged and had to be refunded. Nothing is charged until the account is released.",
		}, p.ops.BillingStops, &admin.Cursor{}, columns[billing.Stopped]{[]string{"ACCOUNT", "E-MAIL", "SINCE", "WHY"}, func(x *billing.Stopped) []string {
			return []string{x.AccountID, x.Email, utcText(x.At), x.Why}
		}}),
		// Staff must have found out why the payments were refunded, or they will be again.
		mayReason(does(p, &cobra.Command{Use: "release ID", Short: "Resume the payments of a stopped account"}, p.ops.BillingRelease, in, printBilling, &in.Ref), &in.Reason))
}

// billingRefundCmd refunds a payment. The amount is required, so that nobody refunds
// everything by accident.
func (p *program) billingRefundCmd() *cobra.Command {
	in := admin.RefundOrder{}
	// The server limits the amount to what is left of the payment.
	cmd := does(p, &cobra.Command{
		Use: "refund PAYMENT --cents N", Short: "Refund a payment, or a part of it", Args: args("PAYMENT"),
		Example: "  sluice billing refund pay_7x… --cents 1000",
	}, p.ops.BillingRefund, &in, printBilling, &in.Payment)
	cmd.Flags().Int64Var(&in.Cents, "cents", 0, "`amount` to refund, in cents")
	return requires(mayReason(cmd, &in.Reason), "cents")
}

// billingCreditCmd changes what the next renewals are lowered by (docs/sell/billing.md#credits).
func (p *program) billingCreditCmd() *cobra.Command {
	in := admin.Credit{}
	cmd := does(p, &cobra.Command{
		Use: "credit ID --cents N --reason R", Short: "Give an account a credit, which lowers its next renewals", Args: args("ID"),
		Long:    "Give an account a credit. It lowers the next renewals until it is used up. A\nnegative amount takes back what is not used yet.",
		Example: "  sluice billing credit ana@example.com --cents 500 --reason \"the outage of Monday\"",
	}, p.ops.BillingCredit, &in, printBilling, &in.Ref)
	cmd.Flags().Int64Var(&in.Cents, "cents", 0, "`amount` of the credit, in cents")
	return addReason(requires(cmd, "cents"), &in.Reason)
}

// billingAdvanceCmd lets testers see renewals and failed payments without waiting for a month.
// The server refuses it unless the test processor is configured, because nobody can be charged
// for a month that has not happened.
func (p *program) billingAdvanceCmd() *cobra.Command {
	in := admin.Move{}
	var to string
	cmd := does(p, &cobra.Command{
		Use: "advance ID --to DATE", Short: "Move an account's clock forward, in test mode", Args: args("ID"),
		Long:    "Move an account's clock to a later date. Everything that is due before then\nhappens: renewals, retries, the end of a subscription. The clock continues from\nthere. This works only with test cards.",
		Example: "  sluice billing advance ana@example.com --to 2027-03-01",
		// Parsed here, so that a mistyped date is a mistake in the command line and not a refusal.
		PreRunE: func(c *cobra.Command, _ []string) error { return parseDate(c, to, &in.To) },
	}, p.ops.BillingAdvance, &in, printBilling, &in.Ref)
	cmd.Flags().StringVar(&to, "to", "", "`date`, such as 2027-03-01 or 2027-03-01T12:00:00Z")
	return requires(cmd, "to")
}

// parseDate parses a day or a full time of the command line. A day starts at midnight UTC.
func parseDate(c *cobra.Command, text string, to *time.Time) (err error) {
	// A time of day needs its zone, because billing periods are in UTC.
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if *to, err = time.Parse(layout, text); err == nil {
			return nil
		}
	}
	return misused(c, fmt.Errorf("%q is not a date; use a format like 2027-03-01 or 2027-03-01T12:00:00Z", text))
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
		columns[admin.BillingRecord]{[]string{"INVOICE", "PAID", "FOR", "PLAN", "AMOUNT", "REFUNDED", "PAYMENT"}, func(r *admin.BillingRecord) []string {
			return []string{
				strconv.FormatInt(r.Invoice, 10), utcText(r.PaidAt), string(r.Kind), r.Plan, billing.Dollars(r.Cents), billing.Dollars(r.Refunded), r.Payment,
			}
		}}.write(w, b.Invoices)
	}
	if len(b.Ledger) > 0 {
		fmt.Fprintln(w)
		columns[billing.Entry]{[]string{"WHEN", "WHO", "WHAT", "PLAN", "AMOUNT", "DETAIL"}, func(e *billing.Entry) []string {
			// Most entries of the ledger, such as a change of plan, move no money.
			amount := ""
			if e.AmountCents != 0 {
				amount = billing.Dollars(e.AmountCents)
			}
			return []string{utcText(e.At), e.Actor, string(e.What), e.Plan.String(), amount, e.Detail}
		}}.write(w, b.Ledger)
	}
}

// utcText formats a time in UTC, which billing periods are based on.
func utcText(t time.Time) string { return t.UTC().Format(time.DateTime) }
