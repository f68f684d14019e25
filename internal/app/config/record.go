package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxErrors is the number of mistakes that Load reports at once.
const maxErrors = 20

// Error is one mistake. Load joins all of them with errors.Join.
type Error struct {
	// File is the file with the mistake. If Line is 0 it may be a variable or flag instead.
	File         string
	Line, Column int
	// Field is the path of the setting, such as models[0].plan. It is empty if the mistake
	// concerns the whole file.
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

// record remembers where each value came from, so that a mistake found later can be reported
// at that place. It also collects the mistakes.
type record struct {
	// places holds where each value was written, by path.
	places map[string]place
	// env is the environment, for variables that are not ours, such as AWS_ACCESS_KEY_ID.
	env map[string]string
	// failed holds the paths that were reported already.
	failed   map[string]bool
	errors   []*Error
	warnings []string
}

// place is where a value was written. A variable or flag has no line.
type place struct {
	// source is the file, the variable or the flag.
	source       string
	line, column int
	// raw is the text before ${…} in it was expanded. Messages show it instead of the value.
	raw string
}

// around returns the path of the value that contains path. The whole file has the empty path.
func around(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// placeOf returns where the value at path was written, or the nearest value around it.
func (r *record) placeOf(path string) place {
	for {
		if at, ok := r.places[path]; ok || path == "" {
			return at
		}
		path = around(path)
	}
}

// shown returns the value at path for a message: the text in the file, never what ${…} was
// replaced with.
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

// fail reports a mistake at the place of path, unless it or a value around it was reported
// already.
func (r *record) fail(path, format string, args ...any) {
	r.failAt(r.placeOf(path), path, format, args...)
}

// failIf reports a mistake if the value at path is wrong.
func (r *record) failIf(wrong bool, path, format string, args ...any) {
	if wrong {
		r.fail(path, format, args...)
	}
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

// failedIn reports whether there is a mistake at path or inside it.
func (r *record) failedIn(path string) bool {
	for failed := range r.failed {
		if strings.HasPrefix(failed, path) {
			return true
		}
	}
	return false
}

// warn records something valid that is probably a mistake.
func (r *record) warn(path, format string, args ...any) {
	at := r.placeOf(path)
	e := Error{at.source, at.line, at.column, path, fmt.Sprintf(format, args...)}
	r.warnings = append(r.warnings, e.Error())
}

// err returns all mistakes, or nil: those of the file in its order, then variables, then
// flags.
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
