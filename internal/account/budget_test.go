package account_test

import (
	"testing"

	"sluice/internal/account"
)

// The zone of a budget is the same on every server: one that a machine defines for itself would begin days at other times.
func TestTimezones(t *testing.T) {
	t.Parallel()
	for zone, ok := range map[string]bool{
		"": true, "UTC": true, "Europe/Paris": true, "America/Argentina/Ushuaia": true, "Etc/GMT+5": true,
		"Local": false, "localtime": false, "posixrules": false, "posix/Europe/Paris": false, "right/Europe/Paris": false, "../localtime": false, "Mars/Olympus": false,
	} {
		b := account.Budget{Name: "n", Window: account.Daily, Timezone: zone, Scope: account.BudgetScope{Account: true}}
		if err := b.Check(nil); (err == nil) != ok {
			t.Errorf("a budget in %q = %v, want it to be possible: %v", zone, err, ok)
		}
	}
}
