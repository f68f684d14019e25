package config

import (
	"fmt"
	"strings"
)

// oneSetting returns what a row of the reference says about a setting, as text for a terminal, with an example.
func oneSetting(row, example string) string {
	cells := strings.SplitN(strings.Trim(strings.ReplaceAll(row, "`", ""), "| \n"), " | ", 5)
	meaning, restart := strings.CutSuffix(cells[4], needsRestartWords)
	change := "a running server loads it"
	if restart {
		change = "needs a restart"
	}
	out := fmt.Sprintf("%s\n\n%s\n\n", cells[0], meaning)
	for _, line := range [][2]string{{"value", cells[1]}, {"default", cells[2]}, {"variable", cells[3]}, {"change", change}} {
		if line[1] == "–" {
			line[1] = "none"
		}
		out += fmt.Sprintf("  %-10s%s\n", line[0], line[1])
	}
	if example == "" {
		return out
	}
	return out + "\nExample:\n\n" + example
}

// exampleLine is a line of the example file that sets something.
type exampleLine struct {
	indent     int // of the key
	key, value string
	item       bool // it is in an entry of a list
}

// exampleLines returns the lines of the example file, without what explains them.
func exampleLines() (lines []exampleLine) {
	for line := range strings.Lines(example) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "#")
		if !ok || strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "  ") {
			continue // one space begins a sentence
		}
		body := strings.TrimLeft(text, " -")
		if key, value, ok := strings.Cut(body, ":"); ok {
			lines = append(lines, exampleLine{len(text) - len(body), key, value, strings.HasPrefix(strings.TrimLeft(text, " "), "- ")})
		}
	}
	return lines
}

// exampleOf returns how the example file sets a setting, with the sections that it is in, or "". The path has no marks of
// lists and plans.
func exampleOf(want string) string {
	lines := exampleLines()
	var way []exampleLine
	for i, l := range lines {
		for len(way) > 0 && way[len(way)-1].indent >= l.indent {
			above := way[len(way)-1]
			l.item = l.item || above.item && above.indent == l.indent
			way = way[:len(way)-1]
		}
		way = append(way, l)
		var path []string
		for depth, w := range way {
			if depth != 1 || way[0].key != "plans" { // that is the name of a plan
				path = append(path, w.key)
			}
		}
		if strings.Join(path, ".") == want {
			return nested(way, lines[i+1:])
		}
	}
	return ""
}

// nested returns the lines of way, each inside of the one before, and those below the last one.
func nested(way, after []exampleLine) string {
	var b strings.Builder
	margin := "  "
	put := func(l exampleLine) {
		mark := ""
		if l.item {
			mark = "- "
		}
		fmt.Fprintf(&b, "%s%s%s:%s\n", margin, mark, l.key, l.value)
		margin += strings.Repeat(" ", 2+len(mark))
	}
	for i, l := range way {
		if i < len(way)-1 {
			l.value = "" // a comment
		}
		put(l)
	}
	below := margin
	for _, l := range after {
		if l.indent <= way[len(way)-1].indent {
			break
		}
		margin = below
		put(l)
	}
	return b.String()
}
