package dashboard

import "sluice/internal/webui"

// tabIndex makes only the first of several tabs reachable with the Tab key. app.js moves
// between tabs with the arrow keys.
func tabIndex(i int) string {
	if i == 0 {
		return "0"
	}
	return "-1"
}

// unpriced returns the note below a cost: whether it leaves out calls to models without a
// price.
func unpriced(n int64) string {
	if n == 0 {
		return "covered by your plan"
	}
	return webui.Number(n) + " without a price"
}
