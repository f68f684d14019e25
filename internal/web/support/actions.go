package support

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// action is something that staff can do with an account: a form on its page.
type action struct {
	name   string // the last part of the form's path
	group  string // of the page
	title  string
	hint   string // what happens, and whether the customer is told
	button string
	// says is exactly what the form does, with the name of the customer and the figures of the account. {name} in it is what
	// is typed into a field, or chosen, and what follows a bar stands for an empty one: console.js writes it while people
	// type. Without scripts it is said as for an empty form.
	says func(v *accountView) string
	// danger marks what takes something from the customer. ask says that the page asks once more before it sends the form.
	danger, ask bool
	fields      []field
	noReason    bool // a note is its own reason
	// possible reports whether the action makes sense for the account as it is. nil: always.
	possible func(v *accountView) bool
	// order does what the form says, for a member.
	order func(ctx context.Context, s *admin.Service, c admin.Caller, f form) error
}

// orders returns the order of an action that runs an operation. argument reads its argument from the form.
func orders[In, Out any](op admin.Op[In, Out], argument func(f form) (In, error)) func(context.Context, *admin.Service, admin.Caller, form) error {
	return func(ctx context.Context, s *admin.Service, c admin.Caller, f form) error {
		in, err := argument(f)
		if err == nil {
			_, err = op.Run(ctx, s, c, in)
		}
		return err
	}
}

// field is an input of an action's form.
type field struct {
	name, label, kind string                        // the kind is "select", "textarea", "amount", "limit" or "text"
	options           func(v *accountView) []option // of a select
}

type option struct{ value, text string }

// form is what a member typed.
type form struct {
	id      string // of the account
	reason  string
	version int64 // that the member looked at
	value   func(name string) string
}

// target returns the argument of an operation that needs a reason and nothing else.
func target(f form) (admin.Target, error) {
	return admin.Target{Ref: f.id, Reason: f.reason, Version: f.version}, nil
}

// planned returns the argument of an operation that needs a plan.
func planned(f form) (admin.Target, error) {
	return admin.Target{Ref: f.id, Reason: f.reason, Version: f.version, Plan: f.value("plan")}, nil
}

// actions returns all actions, in the order of the page.
func actions(ops *admin.Operations) []action {
	return []action{
		{
			name: "plan", group: "Plan and money", title: "Grant a plan", button: "Grant",
			says: func(v *accountView) string {
				return "Grant {plan} to " + v.Account.Email + " (now: " + planName(v.Account) + ")"
			},
			hint: "Free of charge, until you change it. An existing subscription ends. The customer is notified.",
			fields: []field{{name: "plan", label: "Plan", kind: "select", options: func(v *accountView) []option {
				return append(planOptions(v.Account.Plan, account.Free, account.Scale), option{"none", "no plan"})
			}}},
			order: orders(ops.AccountSetPlan, planned),
		},
		{
			name: "downgrade", group: "Plan and money", title: "Downgrade the subscription", button: "Downgrade",
			says: func(v *accountView) string {
				return "Downgrade " + v.Account.Email + " from " + plan(v.Billing.Plan) + " to {plan} on " + periodEnd(v)
			},
			hint:     "From the next period on. The customer is notified.",
			fields:   []field{{name: "plan", label: "Plan", kind: "select", options: lowerPlans}},
			possible: func(v *accountView) bool { return len(lowerPlans(v)) > 0 },
			order:    orders(ops.BillingDowngrade, planned),
		},
		{
			name: "credit", group: "Plan and money", title: "Give a credit", button: "Credit",
			says: func(v *accountView) string {
				return "Change the credit of " + v.Account.Email + " by ${cents|…}; it is " + webui.Cents(v.Billing.CreditCents) + " now"
			},
			hint:   "It lowers the next renewals. A negative amount takes credit back. The customer is notified.",
			ask:    true,
			fields: []field{{name: "cents", label: "Amount in dollars", kind: "amount"}},
			order: orders(ops.BillingCredit, func(f form) (admin.Credit, error) {
				cents, err := parseDollars(f.value("cents"))
				return admin.Credit{Ref: f.id, Cents: cents, Reason: f.reason, Version: f.version}, err
			}),
		},
		{
			name: "refund", group: "Plan and money", title: "Refund a payment", button: "Refund",
			says: func(v *accountView) string { return "Refund ${cents|…} of {payment} to " + v.Account.Email },
			hint: "The plan stays as it is. The customer is notified.", ask: true,
			fields: []field{
				{name: "payment", label: "Payment", kind: "select", options: refundable},
				{name: "cents", label: "Amount in dollars", kind: "amount"},
			},
			possible: func(v *accountView) bool { return len(refundable(v)) > 0 },
			order: orders(ops.BillingRefund, func(f form) (admin.RefundOrder, error) {
				cents, err := parseDollars(f.value("cents"))
				return admin.RefundOrder{Payment: f.value("payment"), Cents: cents, Reason: f.reason, Version: f.version}, err
			}),
		},
		{
			name: "release", group: "Plan and money", title: "Release payments", button: "Release",
			says:     func(v *accountView) string { return "Let payments of " + v.Account.Email + " be charged again" },
			hint:     "Payments are stopped because two in a row were charged and refunded. Find out why before you release them.",
			possible: func(v *accountView) bool { return v.Billing.Stopped != nil }, order: orders(ops.BillingRelease, target),
		},
		{
			name: "limits", group: "Limits", title: "Override limits", button: "Set limits",
			says: func(v *accountView) string {
				return "Give " + v.Account.Email + " {rpm|the same number of} requests a minute, {concurrent|as many} at once, and {tpm|as many} tokens a minute"
			},
			hint: "They replace those of the plan, from the next request on. Enter a number or “unlimited”; leave a field blank to keep its limit. The customer is notified.",
			fields: []field{
				{name: "rpm", label: "Requests per minute", kind: "limit"},
				{name: "concurrent", label: "Concurrent requests", kind: "limit"},
				{name: "tpm", label: "Tokens per minute", kind: "limit"},
			},
			order: orders(ops.AccountSetLimits, limitsOf),
		},
		{
			name: "clear-limits", group: "Limits", title: "Remove overrides", button: "Remove",
			says: func(v *accountView) string {
				return "Give " + v.Account.Email + " the limits of the plan " + plan(v.Account.Plan) + " again"
			},
			hint:     "The limits of the plan apply again. The customer is notified.",
			possible: func(v *accountView) bool { return v.Account.Overrides != (account.Overrides{}) },
			order: orders(ops.AccountSetLimits, func(f form) (admin.NewLimits, error) {
				return admin.NewLimits{Ref: f.id, Clear: true, Reason: f.reason, Version: f.version}, nil
			}),
		},
		{
			name: "aliases", group: "Models", title: "Change aliases", button: "Change",
			says:   func(v *accountView) string { return "Change the aliases of " + v.Account.Email },
			hint:   "Names that this account may use in place of the ids of models, one per line: name = model. Without a model the name is removed. The customer is not notified.",
			fields: []field{{name: "set", label: "Aliases", kind: "textarea"}},
			order:  orders(ops.AccountSetAliases, aliasesOf),
		},
		{
			name: "restore", group: "Access", title: "Restore keys", button: "Restore",
			says: restoreText,
			hint: "The keys work again, and the abuse score starts from zero. The customer is notified.", order: orders(ops.KeyRestore, target),
		},
		{
			name: "deactivate", group: "Access", title: "Switch keys off", button: "Switch off", danger: true,
			says:     func(v *accountView) string { return "Switch off " + keysOf(v) + " of " + v.Account.Email },
			hint:     "Every key is refused until somebody restores them. The customer is notified, with the reason.",
			possible: func(v *accountView) bool { return v.Account.Deactivated == nil }, order: orders(ops.KeyDeactivate, target),
		},
		{
			name: "suspend", group: "Access", title: "Suspend the account", button: "Suspend", danger: true,
			says:     func(v *accountView) string { return "Suspend " + v.Account.Email + " with " + keysOf(v) },
			hint:     "All requests are refused from the next one on. The customer is notified, with the reason, and can still use the pages.",
			possible: func(v *accountView) bool { return v.Account.Suspended == nil }, order: orders(ops.AccountSuspend, target),
		},
		{
			name: "unsuspend", group: "Access", title: "Lift the suspension", button: "Lift",
			says:     func(v *accountView) string { return "Lift the suspension of " + v.Account.Email },
			hint:     "The customer is notified.",
			possible: func(v *accountView) bool { return v.Account.Status == "suspended" }, order: orders(ops.AccountUnsuspend, target),
		},
		{
			name: "terminate", group: "Access", title: "Terminate the account", button: "Terminate", danger: true, ask: true,
			says:     func(v *accountView) string { return "Terminate the account of " + v.Account.Email + " for good" },
			hint:     "The subscription ends without a refund, and the account is locked permanently. The customer is notified, with the reason.",
			possible: func(v *accountView) bool { return v.Account.Status != "terminated" }, order: orders(ops.AccountTerminate, target),
		},
		{
			name: "sign-out", group: "Access", title: "Sign out everywhere", button: "Sign out",
			says: func(v *accountView) string {
				return "Sign " + v.Account.Email + " out of " + webui.Plural(len(v.Sessions), "browser")
			},
			hint:     "All sessions and mailed links end. The customer is notified.",
			possible: notStaff, order: orders(ops.AccountSignOut, target),
		},
		{
			name: "second-factor", group: "Access", title: "Reset the second factor", button: "Reset", danger: true, ask: true,
			says:     func(v *accountView) string { return "Turn two-step sign-in off for " + v.Account.Email },
			hint:     "Turns two-step sign-in off, removes all passkeys and signs out everywhere. Make sure first who is asking. The customer is notified by e-mail.",
			possible: notStaff, order: orders(ops.AccountResetSecondFactor, target),
		},
		{
			name: "note", group: "Notes", title: "Write a note", button: "Save note", noReason: true,
			says:   func(v *accountView) string { return "Write a note about " + v.Account.Email },
			hint:   "For the next member who looks at this account. The customer can read it in the export of their data.",
			fields: []field{{name: "note", label: "Note", kind: "textarea"}},
			order: orders(ops.AccountNote, func(f form) (admin.Note, error) {
				return admin.Note{Ref: f.id, Note: f.value("note"), Version: f.version}, nil
			}),
		},
	}
}

// fieldNames returns the names of the inputs.
func (a action) fieldNames() (names []string) {
	for _, f := range a.fields {
		names = append(names, f.name)
	}
	return names
}

// notStaff leaves out what members may not do with each other's accounts.
func notStaff(v *accountView) bool { return !v.Account.Staff }

// aliasesOf reads lines of names and models.
func aliasesOf(f form) (admin.NewAliases, error) {
	in := admin.NewAliases{Ref: f.id, Set: map[string]string{}, Reason: f.reason, Version: f.version}
	for line := range strings.Lines(f.value("set")) {
		name, model, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); name == "" && !ok {
			continue
		}
		if !ok || name == "" {
			return in, fault.New(fault.Invalid, "each line is a name, an equals sign and a model").At("set")
		}
		in.Set[name] = strings.TrimSpace(model)
	}
	return in, nil
}

// limitsOf reads the three limits. An empty one stays as it is.
func limitsOf(f form) (admin.NewLimits, error) {
	in := admin.NewLimits{Ref: f.id, Reason: f.reason, Version: f.version}
	for name, to := range map[string]**account.Limit{"rpm": &in.Set.RequestsPerMinute, "concurrent": &in.Set.Concurrent, "tpm": &in.Set.TokensPerMinute} {
		text := strings.ReplaceAll(strings.TrimSpace(f.value(name)), ",", "")
		if text == "" {
			continue
		}
		l := account.Unlimited
		if text != "unlimited" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 || n > int64(account.MostLimit) {
				return in, fault.New(fault.Invalid, "enter a whole number or unlimited").At(name)
			}
			l = account.Limit(n)
		}
		*to = &l
	}
	return in, nil
}

// typedAs returns the attributes of an input, so that a browser refuses at the field what its order would refuse.
func (f field) typedAs() templ.Attributes {
	switch f.kind {
	case "amount":
		return templ.Attributes{"required": true, "inputmode": "decimal", "pattern": `\s*\$?-?[0-9]{1,9}(\.[0-9]{2})?\s*`, "title": "An amount such as 12 or 12.50"}
	case "limit":
		return templ.Attributes{"pattern": `\s*([0-9,]+|unlimited)?\s*`, "title": "A whole number or unlimited"}
	}
	return nil
}

// parseDollars reads an amount such as 12, 12.50 or -3 and returns cents.
func parseDollars(text string) (int64, error) {
	wrong := fault.New(fault.Invalid, "enter an amount such as 12 or 12.50").At("cents")
	text = strings.TrimPrefix(strings.TrimSpace(text), "$")
	digits, negative := strings.CutPrefix(text, "-")
	whole, rest, dot := strings.Cut(digits, ".")
	if dot && len(rest) != 2 {
		return 0, wrong
	}
	if !dot {
		rest = "00"
	}
	dollars, err1 := strconv.ParseUint(whole, 10, 31)
	cents, err2 := strconv.ParseUint(rest, 10, 7)
	if errors.Join(err1, err2) != nil {
		return 0, wrong
	}
	total := int64(dollars*100 + cents)
	if negative {
		total = -total
	}
	return total, nil
}

// planOptions returns plans from one to another, without the one that the account has.
func planOptions(has string, from, to account.Plan) (list []option) {
	for p := from; p <= to; p++ {
		if p.String() != has {
			list = append(list, option{p.String(), plan(p.String())})
		}
	}
	return list
}

// lowerPlans returns the paid plans below that of the subscription.
func lowerPlans(v *accountView) []option {
	if v.Billing.Status == billing.NotSubscribed {
		return nil
	}
	p, err := account.ParsePlan(v.Billing.Plan)
	if err != nil {
		return nil
	}
	return planOptions(v.Billing.NextPlan, account.Basic, p-1)
}

// refundable returns the payments of which something can be given back.
func refundable(v *accountView) (list []option) {
	for _, p := range v.Refundable {
		text := fmt.Sprintf("%s (invoice %d of %s)", webui.Cents(p.Cents), p.Invoice, webui.Date(p.PaidAt))
		if p.Refunded > 0 {
			text = fmt.Sprintf("%s (invoice %d of %s, %s left)", webui.Cents(p.Cents), p.Invoice, webui.Date(p.PaidAt), webui.Cents(p.Cents-p.Refunded))
		}
		list = append(list, option{p.Payment, text})
	}
	return list
}

// restoreText says what restoring does to an account.
func restoreText(v *accountView) string {
	if v.Account.Deactivated == nil {
		return "Start the abuse score of " + v.Account.Email + " from zero; its keys already work"
	}
	return "Restore " + keysOf(v) + " of " + v.Account.Email
}

// keysOf counts the keys of an account.
func keysOf(v *accountView) string { return webui.Plural(len(v.Account.Keys), "key") }

// periodEnd is the day on which the period that is paid ends.
func periodEnd(v *accountView) string {
	if v.Billing.PeriodEnd == nil {
		return "the end of the period"
	}
	return webui.Date(*v.Billing.PeriodEnd)
}
