package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxErrors is how many mistakes Load reports at once.
const maxErrors = 20

// Error is one mistake. Load joins all of them with errors.Join.
type Error struct {
	// File is the file the mistake stands in; without a Line it may be a variable or a flag instead.
	File         string
	Line, Column int
	// Field is the path of the setting, such as models[0].plan; empty where the file as a whole is at fault.
	Field   string
	Problem string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	for _, part := range []string{e.Field, e.Problem} {
		if b.Len() > 0 && part != "" {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	return b.String()
}

// record remembers where each value came from, so that whatever is found wrong with it later can be
// reported there, and collects what was found.
type record struct {
	places   map[string]place // by path
	failed   map[string]bool  // paths that have been reported
	errors   []*Error
	warnings []string
}

// place is where a value was written.
type place struct {
	source       string // file, variable or flag
	line, column int
	raw          string // the text before ${…} in it was expanded; messages show this instead of the value
}

// around is the path of what holds the value at path; the whole file has the empty path.
func around(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// placeOf is where the value at path was written, or else the nearest thing around it.
func (r *record) placeOf(path string) place {
	for {
		if at, ok := r.places[path]; ok || path == "" {
			return at
		}
		path = around(path)
	}
}

// shown is the value at path as messages quote it: what was written, never what ${…} stands for.
func (r *record) shown(path, value string) string {
	if raw := r.places[path].raw; raw != "" {
		return quote(raw)
	}
	return quote(value)
}

// quote quotes text for a message.
func quote(text string) string { return strconv.Quote(shorten(text)) }

// shorten cuts text that is too long for a message.
func shorten(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// fail reports a mistake at the place of path, unless it, or something around it, has been reported.
func (r *record) fail(path, format string, args ...any) {
	r.failAt(r.placeOf(path), path, format, args...)
}

func (r *record) failAt(at place, path, format string, args ...any) {
	for p := path; p != ""; p = around(p) {
		if r.failed[p] {
			return
		}
	}
	r.failed[path] = true
	r.errors = append(r.errors, &Error{at.source, at.line, at.column, path, fmt.Sprintf(format, args...)})
}

// failedIn reports whether anything at path or inside it has been reported.
func (r *record) failedIn(path string) bool {
	for failed := range r.failed {
		if strings.HasPrefix(failed, path) {
			return true
		}
	}
	return false
}

// warn notes something legal that is probably not meant.
func (r *record) warn(path, format string, args ...any) {
	at := r.placeOf(path)
	e := Error{at.source, at.line, at.column, path, fmt.Sprintf(format, args...)}
	r.warnings = append(r.warnings, e.Error())
}

// err is everything that was reported: mistakes in the file in its order, then variables, then flags.
func (r *record) err() error {
	slices.SortStableFunc(r.errors, func(a, b *Error) int {
		if (a.Line > 0) != (b.Line > 0) {
			return b.Line - a.Line
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	if more := len(r.errors) - maxErrors; more > 0 {
		r.errors = r.errors[:maxErrors]
		r.errors[maxErrors-1].Problem += fmt.Sprintf(" (and %d more mistakes after this one)", more)
	}
	joined := make([]error, len(r.errors))
	for i, e := range r.errors {
		joined[i] = e
	}
	return errors.Join(joined...)
}

// didYouMean suggests the candidate that is a typing slip away from name, if there is one.
func didYouMean(name string, candidates []string) string {
	best, nearest := "", min(len(name)/3, 3)+1
	for _, candidate := range candidates {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < nearest {
			best, nearest = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is how many letters must be added, dropped or changed to turn a into b.
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
