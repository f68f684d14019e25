package contracts

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Known are the decisions about names that the gateway does not take or send as the SDK means them.
type Known struct{ Lines []*Decision }

// Decision is one line: the names it is about, what the gateway does with them, and why that is right, or what is to be done.
type Decision struct {
	Names, Verdict, Reason string
	Used                   int // names that it has decided
	Seen                   int // names that it is about
	match                  *regexp.Regexp
}

var columns = regexp.MustCompile(`\s{2,}`)

// ReadKnown reads a file of decisions. Its columns are divided by two spaces or more; an asterisk in a name stands for any text.
func ReadKnown(file string) (*Known, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	k := &Known{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := columns.Split(line, 3)
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s: %q has no names, verdict and reason with two spaces between them", file, line)
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(parts[0]), `\*`, `.*`)
		k.Lines = append(k.Lines, &Decision{Names: parts[0], Verdict: parts[1], Reason: parts[2], match: regexp.MustCompile("^" + pattern + "$")})
	}
	return k, nil
}

// Decide returns the first decision about a name with a verdict, or nil.
func (k *Known) Decide(name, verdict string) (found *Decision) {
	for _, d := range k.Lines {
		if !d.match.MatchString(name) {
			continue
		}
		d.Seen++
		if found == nil && strings.HasSuffix(verdict, d.Verdict) {
			found = d
			d.Used++
		}
	}
	return found
}
