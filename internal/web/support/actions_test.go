package support

import (
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
)

func TestParseDollars(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"12": 1200, "12.50": 1250, " $0.05 ": 5, "-3": -300, "-3.25": -325, "0": 0, "1000000": 100_000_000} {
		if got, err := parseDollars(text); err != nil || got != want {
			t.Errorf("parseDollars(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "1.5", "1.234", "1.-5", "--1", "1,5", "1.+5", "99999999999999999999", "-"} {
		if got, err := parseDollars(text); !fault.Is(err, fault.Invalid) || fault.From(err).Param != "cents" {
			t.Errorf("parseDollars(%q) = %d, %v, want it refused", text, got, err)
		}
	}
}

func TestOrderLimits(t *testing.T) {
	t.Parallel()
	read := func(values map[string]string) (admin.NewLimits, error) {
		return limitsOf(form{id: "acct_1", reason: "r", version: 3, value: func(name string) string { return values[name] }})
	}
	in, err := read(map[string]string{"rpm": " 1,000 ", "tpm": "unlimited"})
	if err != nil || *in.Set.RequestsPerMinute != 1000 || in.Set.Concurrent != nil || *in.Set.TokensPerMinute != account.Unlimited || in.Reason != "r" || in.Version != 3 || in.Clear {
		t.Errorf("limitsOf = %+v, %v", in, err)
	}
	for _, text := range []string{"-1", "many", "1.5", "99999999999999999999"} {
		if _, err := read(map[string]string{"concurrent": text}); !fault.Is(err, fault.Invalid) || fault.From(err).Param != "concurrent" {
			t.Errorf("limitsOf with %q = %v, want it refused", text, err)
		}
	}
}

func TestOrderAliases(t *testing.T) {
	t.Parallel()
	read := func(text string) (admin.NewAliases, error) {
		return aliasesOf(form{id: "acct_1", reason: "r", version: 3, value: func(string) string { return text }})
	}
	in, err := read(" fast = sandbox/small\r\n\n old=\n")
	if err != nil || len(in.Set) != 2 || in.Set["fast"] != "sandbox/small" || in.Set["old"] != "" || in.Clear || in.Version != 3 || in.Reason != "r" {
		t.Errorf("aliasesOf = %+v, %v", in, err)
	}
	for _, text := range []string{"fast", "=x", "fast=x\nslow"} {
		if in, err := read(text); !fault.Is(err, fault.Invalid) || fault.From(err).Param != "set" {
			t.Errorf("aliasesOf(%q) = %+v, %v, want it refused", text, in, err)
		}
	}
}

// Every action has a name of its own, says what it does, and belongs to a group that is not interrupted by another.
func TestActions(t *testing.T) {
	t.Parallel()
	names, closed, last := map[string]bool{}, map[string]bool{}, ""
	for _, a := range actions(admin.Ops()) {
		if a.name == "" || names[a.name] || a.title == "" || a.hint == "" || a.button == "" || a.order == nil {
			t.Errorf("the action %q is not complete, or its name is there twice", a.name)
		}
		if a.group != last && closed[a.group] {
			t.Errorf("the group %q is in two places", a.group)
		}
		names[a.name], closed[last], last = true, true, a.group
	}
}

// What an action says names the customer, and the figures of the account.
func TestActionsSay(t *testing.T) {
	t.Parallel()
	v := &accountView{}
	v.Account = admin.Account{Email: "mira@example.com", Plan: "basic", Keys: make([]admin.Key, 3), Deactivated: &account.Mark{}}
	v.Billing = admin.Billing{Plan: "premium", CreditCents: 500}
	v.Refundable = []admin.BillingRecord{{Invoice: 8, Cents: 7500, Refunded: 1000, Payment: "pay_1"}}
	said := map[string]string{}
	for _, a := range actions(admin.Ops()) {
		if said[a.name] = saysNow(a, v); !strings.Contains(said[a.name], "mira@example.com") {
			t.Errorf("%s says %q, which does not name the customer", a.name, said[a.name])
		}
		if asks := confirmation(a, v); a.ask != (asks != nil) || a.ask && !strings.Contains(asks["data-confirm"].(string), "mira@example.com") {
			t.Errorf("%s asks %v", a.name, asks)
		}
	}
	for name, want := range map[string]string{
		"restore": "Restore 3 keys of mira@example.com.", "credit": "Change the credit of mira@example.com by $…; it is $5.00 now.", "downgrade": "Downgrade mira@example.com from Premium to … on the end of the period.", "plan": "Grant … to mira@example.com (now: Basic).",
	} {
		if said[name] != want {
			t.Errorf("%s says %q, want %q", name, said[name], want)
		}
	}
	if got := refundable(v)[0].text; !strings.HasPrefix(got, "$75.00 (invoice 8 of") || !strings.HasSuffix(got, "$65.00 left)") {
		t.Errorf("the payment to refund is %q", got)
	}
}
