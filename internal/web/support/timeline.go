package support

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/ticket"
	"sluice/internal/web/webui"
)

// timelineAtOnce is how many entries a page of a timeline has.
const timelineAtOnce = 10

// timelineNames are the kinds of a timeline as the page names them.
var timelineNames = map[admin.TimelineKind]string{
	"": "Everything", admin.TimelinePlan: "Plan and payments", admin.TimelineTickets: "Tickets", admin.TimelineMessages: "Messages", admin.TimelineKeys: "Keys",
	admin.TimelineAccess: "Access", admin.TimelineLimits: "Limits", admin.TimelineUsage: "Unusual usage",
}

// timelineTone returns the colour of an entry.
func timelineTone(h *admin.Happening) string {
	switch h.Name {
	case "account.suspend", "account.terminate", "keys.deactivate", "score.deactivated", "ledger.payment_failed", "ledger.renewal_failed", "ledger.disputed", "ledger.lapsed", "key.pause", "budget.runaway":
		return "bad"
	case "account.create", "account.unsuspend", "keys.restore", "score.restored", "ledger.charged", "ledger.started", "ledger.upgraded", "ledger.renewed", "key.resume":
		return "good"
	}
	if strings.HasPrefix(h.Name, "score.") {
		return "warn"
	}
	return ""
}

// names are what happened, in words.
var names = map[string]string{
	"account.create": "Signed up", "account.set_plan": "Plan granted", "account.suspend": "Account suspended", "account.unsuspend": "Suspension lifted",
	"account.terminate": "Account terminated", "account.terminate_ordered": "Termination ordered", "account.close": "Account closed by its owner", "account.note": "Note",
	"account.set_limits": "Limits overridden", "account.clear_limits": "Overrides removed", "account.set_aliases": "Aliases changed", "account.set_email": "E-mail address changed",
	"account.set_replies": "Replies changed", "account.set_staff": "Staff flag changed", "account.sign_out": "Signed out everywhere", "account.signin_link": "Sign-in link made",
	"account.reset_second_factor": "Second factor reset", "account.review": "Marked for review",
	"billing.chose_free": "Chose the free plan", "billing.revoked": "Subscription revoked", "billing.superseded": "Subscription replaced by a granted plan",
	"billing.started": "Subscription started", "billing.upgraded": "Plan upgraded", "billing.renewed": "Subscription renewed", "billing.charged": "Payment",
	"billing.cancel_planned": "Cancelled for the end of the period", "billing.cancel_taken_back": "Cancellation taken back", "billing.ended": "Subscription ended", "billing.lapsed": "Subscription lapsed",
	"billing.downgrade_planned": "Downgrade planned", "billing.downgrade_taken_back": "Downgrade taken back",
	"billing.refund": "Refund ordered", "billing.credit": "Credit changed", "billing.downgrade": "Downgrade ordered", "billing.release": "Payments released",
	"key.create": "Key created", "key.delete": "Key deleted", "key.rename": "Key renamed", "key.set_limits": "Limits of a key changed", "key.regenerate_master": "Master key replaced",
	"key.deactivate": "Key switched off", "key.restore": "Key switched on", "key.pause": "Key paused: its program ran away", "key.resume": "Key resumed",
	"keys.deactivate": "All keys switched off", "keys.restore": "All keys restored", "keys.restore_ordered": "Restoring ordered",
	"budget.create": "Budget created", "budget.change": "Budget changed", "budget.delete": "Budget deleted", "budget.runaway": "Watch over programs changed",
	"matter.open": "Ticket opened by the customer", "matter.raised": "Ticket opened by the service", "matter.answer": "Ticket answered", "matter.assign": "Ticket assigned", "matter.snooze": "Ticket snoozed",
	"matter.close": "Ticket closed", "matter.reopen": "Ticket put back", "matter.clear": "Cleared", "matter.warn": "Warned", "matter.restore": "Restored after review", "matter.suspend": "Suspended after review",
	"ledger.charged": "Payment", "ledger.refunded": "Refund", "ledger.disputed": "Payment disputed", "ledger.dispute_won": "Dispute won", "ledger.dispute_lost": "Dispute lost",
	"ledger.chose_free": "Chose the free plan", "ledger.started": "Subscription started", "ledger.upgraded": "Plan upgraded", "ledger.renewed": "Subscription renewed",
	"ledger.payment_failed": "Payment failed", "ledger.renewal_failed": "Renewal failed", "ledger.cancel_planned": "Cancelled for the end of the period", "ledger.cancel_taken_back": "Cancellation taken back",
	"ledger.downgrade_requested": "Downgrade requested", "ledger.downgrade_planned": "Downgrade planned", "ledger.ended": "Subscription ended", "ledger.lapsed": "Subscription lapsed",
	"ledger.revoked": "Subscription revoked", "ledger.superseded": "Subscription replaced by a granted plan", "ledger.clock_moved": "Test clock moved",
	"ledger.billing_stopped": "Payments stopped", "ledger.billing_released": "Payments released", "ledger.credited": "Credit", "ledger.credit_used": "Credit used",
	"score.warning": "Abuse score: warning", "score.inquiry": "Abuse score: inquiry", "score.review": "Abuse score: fast climb", "score.deactivated": "Abuse score: keys switched off", "score.restored": "Abuse score: restored",
	"webhook.create": "Webhook created", "webhook.delete": "Webhook deleted",
	"incident.open": "Incident opened", "incident.update": "Incident updated", "incident.edit": "Incident corrected", "incident.delete": "Incident deleted",
	"announcement.post": "Announcement posted", "announcement.end": "Announcement removed", "maintenance.start": "Maintenance started", "maintenance.end": "Maintenance ended",
	"totp.on": "Two-step sign-in turned on", "totp.off": "Two-step sign-in turned off", "passkey.add": "Passkey added", "passkey.remove": "Passkey removed", "passkey.refused": "Passkey refused",
}

// nameOf returns what happened, in words.
func nameOf(name string) string {
	if strings.HasPrefix(name, "told.") {
		return "Message to the customer"
	}
	return cmp.Or(names[name], name)
}

// detailOf returns the detail of an entry, and the page of the incident or the ticket whose id it begins with. The id is left
// out; the path is empty where there is no page.
func detailOf(e *account.Entry) (path, text string) {
	switch {
	case e.Action == "incident.delete":
		_, text, _ = strings.Cut(e.Detail, ": ")
		return "", text
	case strings.HasPrefix(e.Detail, "inc_"):
		id, text, _ := strings.Cut(e.Detail, ": ")
		return incidentsPath + "/" + id, cmp.Or(text, id)
	case strings.HasPrefix(e.Detail, "mat_"):
		id, rest, found := strings.Cut(e.Detail, ", ")
		if kind := ticket.Kind(rest); kind.Title() != "" {
			return ticketPath(id), "Ticket: " + kind.Title()
		}
		if found {
			rest = ", " + rest
		}
		return ticketPath(id), "Ticket" + rest
	}
	return "", e.Detail
}

var (
	// named is the detail of a change of a key or of a budget: its id, its name and what else there is to say.
	named = regexp.MustCompile(`^((?:key|bud)_\w+) (?:\(([^()]*)\)|"([^"]*)")(.*)$`)
	// hook is the detail of a change of a webhook: its id and its host.
	hook = regexp.MustCompile(`^(whk_\w+) at (.*)$`)
	// fromTo is the detail of a change of the plan.
	fromTo = regexp.MustCompile(`^(none|free|basic|premium|scale) to (none|free|basic|premium|scale)$`)
	// signedUp is the detail of a new account.
	signedUp = regexp.MustCompile(`^plan (none|free|basic|premium|scale), staff (true|false)$`)
	// clock is the time of a moment whose day is enough.
	clock = regexp.MustCompile(` \d\d:\d\d UTC`)
)

// worded puts the name of a key, a budget, a webhook or a plan before its id, which is worth less; empty: it has none.
func worded(text string) (words, id string) {
	if m := named.FindStringSubmatch(text); m != nil {
		return m[2] + m[3] + m[4], m[1]
	}
	if m := hook.FindStringSubmatch(text); m != nil {
		return m[2], m[1]
	}
	if m := signedUp.FindStringSubmatch(text); m != nil {
		words = plan(m[1])
		if m[2] == "true" {
			words += ", staff"
		}
		return words, ""
	}
	if m := fromTo.FindStringSubmatch(text); m != nil {
		return plan(m[1]) + " to " + plan(m[2]), ""
	}
	return text, ""
}

// happened says what an entry of the timeline was about, and returns the id that is worth less than the name; empty: none.
func happened(h *admin.Happening) (text, id string) {
	text = clock.ReplaceAllString(h.Text, "")
	if words, id := worded(text); words != text {
		return words, id
	}
	if h.Name == "account.create" || h.Plan == "" {
		return text, ""
	}
	switch billing.What(strings.TrimPrefix(h.Name, "ledger.")) {
	case billing.Credited, billing.CreditUsed, billing.BillingStopped, billing.BillingReleased, billing.ClockMoved:
		return strings.Replace(text, " are left", " left", 1), ""
	case billing.Charged, billing.Refunded:
		return strings.TrimSuffix("for "+plan(h.Plan)+", "+text, ", "), ""
	}
	switch first, _, _ := strings.Cut(text, " "); first {
	case "":
		return plan(h.Plan), ""
	case "until", "from", "for", "ends":
		return plan(h.Plan) + " " + text, ""
	}
	return plan(h.Plan) + ": " + text, ""
}

// ticketOf returns what the ticket of an entry is called.
func (v *accountView) ticketOf(h *admin.Happening) string {
	if i := slices.IndexFunc(v.Tickets, func(t ticket.Ticket) bool { return t.ID == h.Ticket }); i >= 0 {
		return staffTitle(&v.Tickets[i])
	}
	if h.State != "" { // the entry is of the ticket itself
		return h.Text
	}
	return "Ticket"
}

// decisionsOf leaves out of some decisions those that follow from another one of the same moment: what a decision about a ticket does to
// the account has an entry of its own in the audit log.
func decisionsOf(list []account.Entry) []account.Entry {
	const moment = 10 * time.Second
	follow := map[string][]string{"matter.restore": {"keys.restore", "keys.restore_ordered", "account.unsuspend"}, "matter.suspend": {"account.suspend"}}
	return slices.DeleteFunc(slices.Clone(list), func(e account.Entry) bool {
		return slices.ContainsFunc(list, func(of account.Entry) bool {
			return slices.Contains(follow[of.Action], e.Action) && of.Actor == e.Actor && of.At.Sub(e.At).Abs() < moment
		})
	})
}

// decidedText is why something was decided, or what.
func decidedText(e account.Entry) string {
	if strings.HasPrefix(e.Action, "matter.") { // its detail is the id of the ticket
		return e.Reason
	}
	return cmp.Or(e.Reason, e.Detail)
}

// timelinePath returns the address of a part of the timeline.
func (v *accountView) timelinePath(kind admin.TimelineKind, after string) string {
	q := url.Values{}
	if kind != "" {
		q.Set("kind", string(kind))
	}
	if after != "" {
		q.Set("after", after)
	}
	if len(q) == 0 {
		return accountPath(v.Account.ID) + "#timeline"
	}
	return accountPath(v.Account.ID) + "?" + q.Encode() + "#timeline"
}

// isNew reports whether an entry of the log was made after the member had opened the page.
func (v *accountView) isNew(seq int64) bool { return v.Seen > 0 && seq > v.Seen }

// who returns who did something, as people are called.
func who(actor string) string {
	if actor == "owner" {
		return "the customer"
	}
	return staffName(actor)
}

// money returns the amount of an entry.
func money(h *admin.Happening) string {
	if h.Cents == 0 {
		return ""
	}
	return webui.Cents(h.Cents)
}
