package moving

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Outcome is what became of a value of the source.
type Outcome string

const (
	// Taken values are in the result as they are.
	Taken Outcome = "taken"
	// Changed values are in the result in another form.
	Changed Outcome = "changed"
	// Dropped values have no counterpart.
	Dropped Outcome = "no counterpart"
	// Missing is what our configuration needs and the source does not say. Its path is one of the result.
	Missing Outcome = "missing"
)

// fate is what became of one value.
type fate struct {
	outcome Outcome
	text    string
}

// Entry is one line of a report.
type Entry struct {
	Path    string  `json:"path"`
	Line    int     `json:"line,omitempty"`
	Outcome Outcome `json:"outcome"`
	Text    string  `json:"text"`
}

// Report says what became of every value of a source. It never holds a value.
type Report struct {
	Counts  map[Outcome]int `json:"counts"`
	Entries []Entry         `json:"entries"`
}

// advice explains values of a source that have no counterpart. The longest path that a value's path begins with wins.
type advice struct {
	path string // a pattern; "" is for all
	text string
}

// explain returns the advice for a value.
func explain(table []advice, path string) string {
	best, text := -1, "this setting has no counterpart"
	p := pattern(path)
	for _, reply := range []string{"data.items[]", "data[]", "items[]"} { // rows inside the reply of an API
		if rest, ok := strings.CutPrefix(p, reply); ok {
			p = "[]" + rest
		}
	}
	for _, a := range table {
		rest, ok := strings.CutPrefix(p, a.path)
		if ok && len(a.path) > best && (a.path == "" || rest == "" || strings.ContainsRune(".[", rune(rest[0]))) {
			best, text = len(a.path), a.text
		}
	}
	return text
}

// newReport lists what became of every value of the sources of a draft.
func newReport(d *draft, table []advice) *Report {
	r := &Report{Counts: map[Outcome]int{}}
	for _, root := range d.sources {
		root.leaves(func(v *value) {
			if v.fate == nil {
				v.fate = &fate{Dropped, explain(table, v.path)}
				if v.form != isPlain && v.text == "" { // null, "", {} or []
					v.fate.text = "it is empty, so there is nothing to take"
				}
			}
			r.add(Entry{cmp.Or(v.path, "the file"), v.line, v.fate.outcome, v.fate.text})
		})
	}
	for _, m := range d.missing {
		r.add(m)
	}
	return r
}

func (r *Report) add(e Entry) {
	r.Counts[e.Outcome]++
	r.Entries = append(r.Entries, e)
}

// heads are the sections of a written report.
var heads = []struct {
	outcome Outcome
	text    string
}{
	{Missing, "Missing: please fill in or confirm"},
	{Changed, "Changed"},
	{Dropped, "No counterpart"},
}

// Write writes the report for people. Values that were taken as they are, are only counted.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "Values of the source: %d. Taken as they are: %d. Changed: %d. No counterpart: %d. Missing: %d.\n",
		len(r.Entries)-r.Counts[Missing], r.Counts[Taken], r.Counts[Changed], r.Counts[Dropped], r.Counts[Missing])
	for _, head := range heads {
		lines := r.group(head.outcome)
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", head.text)
		for _, l := range lines {
			fmt.Fprintf(w, "  %s\n", l)
		}
	}
}

// group returns one line for entries of the same kind and the same text, in the order of the first.
func (r *Report) group(o Outcome) []string {
	type group struct {
		text  string
		paths []string
		line  int
	}
	var groups []*group
	for _, e := range r.Entries {
		if e.Outcome != o {
			continue
		}
		i := slices.IndexFunc(groups, func(g *group) bool { return g.text == e.Text })
		if i < 0 {
			groups = append(groups, &group{text: e.Text, line: e.Line})
			i = len(groups) - 1
		}
		groups[i].paths = append(groups[i].paths, e.Path)
	}
	var lines []string
	for _, g := range groups {
		show := 1
		if o == Missing { // each of them needs a look
			show = min(len(g.paths), 20)
		}
		name := strings.Join(g.paths[:show], ", ")
		if g.line > 0 {
			name += fmt.Sprintf(" (line %d)", g.line)
		}
		if n := len(g.paths) - show; n > 0 {
			name += fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, name+": "+g.text)
	}
	return lines
}
