package support

import (
	"cmp"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"sluice/internal/account/billing"
	"sluice/internal/operate/admin"
	"sluice/internal/web/webui"
)

// planName returns the plan of an account in words.
func planName(a admin.Account) string {
	switch {
	case a.Granted:
		return a.Plan + " (granted)"
	case a.Plan == "none":
		return "no plan"
	}
	return a.Plan
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
	text := b.Plan + ", " + webui.Cents(b.PriceCents) + " a month, until " + webui.Date(*b.PeriodEnd)
	switch {
	case b.Status == billing.PastDue:
		text += ", past due"
	case b.CancelAtEnd:
		text += ", then cancelled"
	case b.NextPlan != "":
		text += ", then " + b.NextPlan
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
func confirmation(a action, customer string) templ.Attributes {
	if a.confirm == "" {
		return nil
	}
	return templ.Attributes{"data-confirm": strings.ReplaceAll(a.confirm, "{customer}", customer), "data-detail": a.hint, "data-yes": a.button}
}

// foundBy says what a search has matched.
func foundBy(by string) string {
	return cmp.Or(map[string]string{"email": "e-mail", "id": "account id", "key": "key id", "last_four": "end of a key"}[by], by)
}
