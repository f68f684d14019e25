package archtest

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// citation matches a page of docs/ that a comment names, and the heading where it names one.
var citation = regexp.MustCompile(`\bdocs/[A-Za-z0-9/_-]+\.md(?:#([A-Za-z0-9_-]*))?`)

// unciteable matches a citation of a document that is not in the repository. It is put together from
// pieces so that this file does not match.
var unciteable = regexp.MustCompile(`\bspec` + `:`)

// link matches a link from a page to another, to a file or a picture, or to a heading of the same page.
var link = regexp.MustCompile(`(?:\]\(|src(?:set)?=")([A-Za-z0-9/._-]*)(?:#([A-Za-z0-9_-]+))?[)"]`)

// cited matches a file that a page names: a path in backticks, from the root or from internal/.
var cited = regexp.MustCompile("`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+\\.(?:go|templ|sql|txtar|yaml|json|mjs|md))`")

// guides are the pages that tell a newcomer where to change what. The files that they name must exist.
var guides = []string{"CONTRIBUTING.md", "docs/architecture.md", "docs/rooms.md", "docs/changes.md"}

// checkCitations checks that every page and heading of docs/ that a Go comment cites exists. A rule
// of the contract is cited by its heading, so that the reader of the code can find it.
func checkCitations(t *tree) (problems []string) {
	pages := t.pages()
	for _, dir := range t.paths() {
		for _, f := range t.packages[dir].files {
			for _, group := range f.syntax.Comments {
				for _, c := range group.List {
					for _, problem := range judgeCitations(pages, c.Text) {
						problems = append(problems, t.at(c, "%s", problem))
					}
				}
			}
		}
	}
	return problems
}

// checkLinks checks that links of pages lead to pages, headings, files and pictures that exist.
func checkLinks(t *tree) (problems []string) {
	pages := t.pages()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		number := 0
		for line := range bytes.Lines(t.texts[name]) {
			number++
			for _, m := range link.FindAllSubmatch(line, -1) {
				target, anchor := name, string(m[2])
				if len(m[1]) > 0 {
					target = path.Join(path.Dir(name), string(m[1]))
				}
				if !t.exists[target] || anchor != "" && !pages[target][anchor] {
					problems = append(problems, fmt.Sprintf("%s:%d: the link (%s) leads nowhere", name, number, strings.TrimSuffix(string(m[1])+"#"+anchor, "#")))
				}
			}
		}
	}
	return problems
}

// checkGuides checks that the files that the guides name exist.
func checkGuides(t *tree) (problems []string) {
	for _, name := range guides {
		number := 0
		for line := range bytes.Lines(t.texts[name]) {
			number++
			for _, m := range cited.FindAllSubmatch(line, -1) {
				file := string(m[1])
				if t.texts[file] == nil && t.texts["internal/"+file] == nil {
					problems = append(problems, fmt.Sprintf("%s:%d: there is no %s, here or in internal/", name, number, file))
				}
			}
		}
	}
	return problems
}

// pages returns the anchors of every page of the repository, by the page's path.
func (t *tree) pages() map[string]map[string]bool {
	found := map[string]map[string]bool{}
	for name, text := range t.texts {
		if path.Ext(name) == ".md" {
			found[name] = anchors(text)
		}
	}
	return found
}

// judgeCitations returns what is wrong with the citations in a comment.
func judgeCitations(pages map[string]map[string]bool, comment string) (problems []string) {
	if found := unciteable.FindString(comment); found != "" {
		problems = append(problems, fmt.Sprintf("%q cites a document that is not in the repository: cite a heading of docs/api.md", found))
	}
	for _, m := range citation.FindAllStringSubmatch(comment, -1) {
		page, _, hasAnchor := strings.Cut(m[0], "#")
		switch have, ok := pages[page]; {
		case !ok:
			problems = append(problems, page+" does not exist")
		case hasAnchor && !have[m[1]]:
			problems = append(problems, fmt.Sprintf("%s has no heading #%s; it has %s", page, m[1], strings.Join(slices.Sorted(maps.Keys(have)), " ")))
		}
	}
	return problems
}

// anchors returns the anchors that GitHub gives the headings of a page: the text in lower case,
// without punctuation, with a hyphen for each space. A repeated anchor gets -1, -2 and so on.
func anchors(page []byte) map[string]bool {
	found := map[string]bool{}
	count := map[string]int{}
	fenced := false
	for line := range bytes.Lines(page) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "```") {
			fenced = !fenced // a shell comment inside a fence is no heading
		}
		level := len(text) - len(strings.TrimLeft(text, "#"))
		if fenced || level == 0 || level > 6 || !strings.HasPrefix(text[level:], " ") {
			continue
		}
		anchor := strings.Map(anchorRune, strings.TrimSpace(text[level:]))
		n := count[anchor]
		count[anchor]++
		if n > 0 {
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		found[anchor] = true
	}
	return found
}

// anchorRune returns what a rune of a heading becomes in its anchor; -1 drops it.
func anchorRune(r rune) rune {
	switch {
	case r == ' ':
		return '-'
	case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
		return unicode.ToLower(r)
	}
	return -1
}
