package budget_test

import (
	"slices"
	"testing"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
)

// A budget of each session of a key counts only calls of sessions with that key.
func TestOf(t *testing.T) {
	t.Parallel()
	a := &account.Account{}
	for id, scope := range map[string]account.BudgetScope{
		"all": {Account: true}, "key": {Key: "key_1"}, "tag": {Tag: "team=search"}, "each": {Session: account.EachSession},
		"each of 1": {Session: account.EachSession, Key: "key_1"}, "each of 2": {Session: account.EachSession, Key: "key_2"},
	} {
		a.Budgets = append(a.Budgets, account.Budget{ID: id, Scope: scope})
	}
	for _, tt := range []struct {
		key, tag, session string
		want              []string
	}{
		{"key_1", "", "", []string{"all", "key"}},
		{"key_1", "", "run", []string{"all", "each of 1/run", "each/run", "key"}},
		{"key_2", "team=search", "run", []string{"all", "each of 2/run", "each/run", "tag"}},
		{"key_3", "", "run", []string{"all", "each/run"}},
	} {
		var got []string
		for _, d := range budget.Of(a, tt.key, []string{tt.tag}, tt.session) {
			got = append(got, d.Count())
		}
		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("Of(%q, %q, %q) = %q, want %q", tt.key, tt.tag, tt.session, got, tt.want)
		}
	}
}
