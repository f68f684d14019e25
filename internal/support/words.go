package support

import "sluice/internal/admin"

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
