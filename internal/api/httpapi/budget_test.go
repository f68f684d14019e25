package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
)

// A refusal by a budget says where its owner can raise it, if the service knows its own address. What is kept of the call has no
// link: one to a session has the caller's own name of it.
func TestNameBudget(t *testing.T) {
	t.Parallel()
	const site = "https://ai.example.com"
	for _, tt := range []struct {
		url, budget, want string
	}{
		{site, `{"id":"bud_1","needed":"1.00","scope":{"account":true}}`, " Its owner can raise it at " + site + "/dashboard/budgets"},
		{site, `{"id":"bud_1","needed":"1.00","scope":{"key":"k"}}`, " Its owner can raise it at " + site + "/dashboard/budgets"},
		{site, `{"id":"bud_1","needed":"1.00","scope":{"session":"*"}}`, " Its owner can raise it at " + site + "/dashboard/budgets"},
		{site, `{"id":"bud_1","needed":"1.00","scope":{"session":"run-7"}}`, " Its owner can raise it at " + site + "/dashboard/budgets/raise?count=bud_1/run-7"},
		{site, `{"id":"bud_1","needed":"1.00","scope":{"session":"a&b"}}`, " Its owner can raise it at " + site + "/dashboard/budgets/raise?count=bud_1/a%26b"},
		{site, `{"id":null,"scope":{"request":true}}`, ""},
		{"", `{"id":"bud_1","needed":"1.00","scope":{"account":true}}`, ""},
	} {
		f := fault.New(fault.BudgetExceeded, "Too dear.")
		f.Budget = json.RawMessage(tt.budget)
		x := &exchange{settings: &Settings{Origin: tt.url}}
		told := keptMessage(f)
		x.nameBudget(f)
		if f.Message != "Too dear."+tt.want || told != "Too dear." {
			t.Errorf("nameBudget(%s) at %q = %q, kept %q, want %q at its end", tt.budget, tt.url, f.Message, told, tt.want)
		}
	}
	other := fault.New(fault.PaymentRequired, "No plan.")
	(&exchange{settings: &Settings{Origin: site}}).nameBudget(other)
	if strings.Contains(other.Message, site) {
		t.Errorf("nameBudget changes %q", other.Message)
	}
}
