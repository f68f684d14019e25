// Package typo suggests what somebody may have meant who typed a name that does not exist.
package typo

import (
	"fmt"
	"strings"
)

// DidYouMean returns the end of a message that suggests the candidate closest to name, such as `; did you mean "listen"?`.
// It returns "" if none is close enough to be a typo. Longer names may differ in more letters, up to three. A candidate that
// is name behind a slash, as in the id of a model, is close, too.
func DidYouMean(name string, candidates []string) string {
	best, nearest := "", min(len(name)/3, 3)+1
	for _, candidate := range candidates {
		// What differs more in length need not be compared: a name from outside may be long.
		if d := len(name) - len(candidate); max(d, -d) < nearest {
			if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < nearest {
				best, nearest = candidate, d
			}
		} else if best == "" && name != "" && strings.HasSuffix(candidate, "/"+name) {
			best = candidate
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance returns the Levenshtein distance: how many letters must be added, removed or
// changed to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
