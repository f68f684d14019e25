package support

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/internal/account/billing"
	"sluice/internal/account/signin"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/cluster"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// planName returns the plan of an account in words.
func planName(a admin.Account) string {
	if a.Granted {
		return plan(a.Plan) + " (granted)"
	}
	return plan(a.Plan)
}

// plan returns the name of a plan as customers know it.
func plan(name string) string {
	if name == "" || name == "none" {
		return "No plan"
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// tierName returns the name of a tier of models; empty stays empty.
func tierName(name string) string {
	if name == "" {
		return ""
	}
	return plan(name)
}

// statusName returns what a status of an account is called.
func statusName(status string) string {
	if status == "deactivated" {
		return "Keys off"
	}
	return strings.ToUpper(status[:1]) + status[1:]
}

// listName is the title of the list of accounts.
func (v *accountsView) listName() string {
	if v.Order.Plan == "" && v.Order.Status == "" {
		return "All accounts"
	}
	return "Accounts"
}

// scoreTone returns the colour of an abuse score.
func scoreTone(score int) string {
	switch {
	case score >= 90:
		return "bad"
	case score >= 50:
		return "warn"
	}
	return "good"
}

// scoreEvent returns what an event of abuse control was, in words.
func scoreEvent(kind abuse.Kind) string {
	return cmp.Or(map[abuse.Kind]string{
		abuse.Warning: "Warned", abuse.Inquiry: "Inquiry", abuse.Review: "Fast climb", abuse.Deactivated: "Keys switched off", abuse.Restored: "Restored",
	}[kind], string(kind))
}

// latencyText formats a mean latency, which is 0 where nothing was measured.
func latencyText(ms int64) string {
	if ms == 0 {
		return "–"
	}
	return webui.Millis(ms)
}

// tokensOr formats a number of tokens, of which models without text have none.
func tokensOr(n int64) string {
	if n == 0 {
		return "–"
	}
	return webui.Short(n)
}

// firstText formats a mean wait for the first token of calls that were answered.
func firstText(ms int64) string {
	if ms == 0 {
		return "<1 ms"
	}
	return webui.Millis(ms)
}

// creditText says what is credited, or nothing.
func creditText(cents int64) string {
	if cents == 0 {
		return ""
	}
	return "credit " + webui.Cents(cents)
}

// subscriptionText says where a subscription stands.
func subscriptionText(b admin.Billing) string {
	if b.Status == billing.NotSubscribed || b.PeriodEnd == nil {
		return "no subscription"
	}
	text := plan(b.Plan) + ", " + webui.Cents(b.PriceCents) + " a month, until " + webui.Date(*b.PeriodEnd)
	switch {
	case b.Status == billing.PastDue:
		text += ", past due"
	case b.CancelAtEnd:
		text += ", then cancelled"
	case b.NextPlan != "":
		text += ", then " + plan(b.NextPlan)
	}
	return text
}

// groups returns the headings of the actions, in order.
func groups(list []action) (names []string) {
	for _, a := range list {
		if !slices.Contains(names, a.group) {
			names = append(names, a.group)
		}
	}
	return names
}

// confirmation returns the attributes that make the page ask before it sends a form.
func confirmation(a action, v *accountView) templ.Attributes {
	if !a.ask {
		return nil
	}
	return templ.Attributes{"data-confirm": a.says(v) + "?", "data-detail": a.hint, "data-yes": a.button}
}

// blanks are the places of a text that are filled with what is typed.
var blanks = regexp.MustCompile(`\{\w+(?:\|([^}]*))?\}`)

// saysNow returns what an action does as it is said without scripts: with what stands for an empty field.
func saysNow(a action, v *accountView) string {
	return blanks.ReplaceAllStringFunc(a.says(v), func(blank string) string {
		if instead := blanks.FindStringSubmatch(blank)[1]; instead != "" {
			return instead
		}
		return "…"
	}) + "."
}

// foundBy says what a search has matched.
func foundBy(by string) string {
	return cmp.Or(map[string]string{"email": "e-mail", "id": "account id", "key": "key id", "last_four": "end of a key"}[by], by)
}

// reachesText says when the score would reach 100.
func reachesText(a admin.Abuse) string {
	var first *time.Time
	for _, t := range a.Tiers {
		if t.Reaches != nil && (first == nil || t.Reaches.Before(*first)) {
			first = t.Reaches
		}
	}
	switch {
	case a.Score >= 100:
		return "keys are off"
	case first == nil:
		return "stays below 100"
	}
	return "reaches 100 on " + webui.Date(*first)
}

// refusedSum is how many calls were refused.
func refusedSum(list []admin.RefusedSum) (n int64) {
	for _, s := range list {
		n += s.Calls
	}
	return n
}

// refusedText divides refused calls by their status.
func refusedText(list []admin.RefusedSum) string {
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = fmt.Sprintf("%d: %s", s.Status, webui.Short(s.Calls))
	}
	return strings.Join(parts, ", ")
}

// lastPayment says what was paid last.
func lastPayment(b admin.Billing) string {
	if len(b.Invoices) == 0 {
		return "no payments"
	}
	return "last " + webui.Cents(b.Invoices[0].Cents) + " on " + webui.Date(b.Invoices[0].PaidAt)
}

// paidFor says what a payment was for.
func paidFor(kind billing.Kind) string {
	if kind == billing.ForStart {
		return "first period"
	}
	return string(kind)
}

// viaText says how a session was opened.
func viaText(step signin.Step) string {
	return strings.ReplaceAll(strings.TrimPrefix(string(step), "enter-"), "-", " ")
}

// refunds reports whether something was paid back.
func refunds(b admin.Billing) bool {
	return slices.ContainsFunc(b.Invoices, func(i admin.BillingRecord) bool { return i.Refunded != 0 })
}

// unitsOf writes units, without what is behind the point from a hundred on.
func unitsOf(n json.Number) string {
	whole, _, _ := strings.Cut(n.String(), ".")
	if v, err := strconv.ParseInt(whole, 10, 64); err == nil && v >= 100 {
		return webui.Number(v)
	}
	return n.String()
}

// costOr writes a cost. If no call has a price, it is unknown.
func costOr(usd json.Number, unpriced int64) string {
	if unpriced > 0 && usd == "0" {
		return "–"
	}
	return webui.Amount(usd)
}

// unpricedText says how many calls have no cost.
func unpricedText(n int64) string {
	if n == 0 {
		return ""
	}
	return webui.Number(n) + " with no price"
}

// limitsCounted says how a server counts limits.
func limitsCounted(mode cluster.Mode) string {
	return cmp.Or(map[cluster.Mode]string{cluster.Alone: "counted here alone", cluster.Approximate: "divided among servers", cluster.Exact: "counted together, in Redis"}[mode], string(mode))
}

// marksOf says what stands against an account now.
func marksOf(v accountView) (list []string) {
	if m := v.Account.Suspended; m != nil {
		list = append(list, "Suspended since "+webui.DateTime(m.At)+": "+m.Reason)
	}
	if m := v.Account.Deactivated; m != nil {
		list = append(list, "Keys switched off since "+webui.DateTime(m.At)+": "+m.Reason)
	}
	if v.Billing.Stopped != nil {
		list = append(list, "Payments are stopped: "+v.Billing.Stopped.Why)
	}
	return list
}
