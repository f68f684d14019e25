package archtest

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// longest is the maximum number of lines of a hand-written file of product code.
const longest = 700

// private matches text that ties a file to one machine or to one way of fetching packages. It is put
// together from pieces so that this file does not match.
var private = regexp.MustCompile(
	`(?:^|[^A-Za-z0-9_.\-])/(?:work|root)` + `/` +
		`|` + `proxy\.` + `golang` +
		`|` + `registry\.` + `npmjs` +
		`|` + `deb\.` + `debian`)

// checkTexts searches every text file for private: source, pages, configuration, scripts.
func checkTexts(t *tree) (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(t.texts)) {
		number := 0
		for line := range bytes.Lines(t.texts[name]) {
			number++
			if found := private.Find(line); found != nil {
				problems = append(problems, fmt.Sprintf("%s:%d mentions %q: no machine's paths and no package host belong in the repository (npm leaves its host out of package-lock.json with omit-lockfile-registry-resolved=true in .npmrc)", name, number, found))
				break // one is enough to find the rest
			}
		}
	}
	return problems
}

// checkLength reports files that are longer than longest.
func checkLength(t *tree) (problems []string) {
	for _, dir := range t.paths() {
		for f := range t.packages[dir].source {
			if lines := bytes.Count(t.texts[f.path], []byte("\n")); lines > longest {
				problems = append(problems, fmt.Sprintf("%s has %d lines, %d are the most: split it by noun", f.path, lines, longest))
			}
		}
	}
	return problems
}
