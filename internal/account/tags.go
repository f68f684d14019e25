package account

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

const (
	// MaxTag is how long the name and the value of a tag may be, in bytes.
	MaxTag = 64
	// MaxTags is how many tags a call or a key has at most.
	MaxTags = 8
)

// IsTag reports whether a text is a tag: a name, an equals sign and a value. It has nothing that separates texts where tags are listed
// or stored.
func IsTag(text string) bool {
	name, value, ok := strings.Cut(text, "=")
	return ok && name != "" && value != "" && len(name) <= MaxTag && len(value) <= MaxTag && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) || unicode.IsControl(r) }) && !strings.Contains(value, "=")
}

// AddTag adds a tag to those of a call. One with the name of another that is there is left out, and so is one beyond MaxTags: the
// first ones win. Full reports whether there is no room for more.
func AddTag(tags []string, tag string) (all []string, full bool) {
	name := tag[:strings.IndexByte(tag, '=')+1]
	if len(tags) < MaxTags && !slices.ContainsFunc(tags, func(t string) bool { return strings.HasPrefix(t, name) }) {
		tags = append(tags, tag)
	}
	return tags, len(tags) >= MaxTags
}

// checkTags returns the tags of a key in the form in which they are stored, or a fault. No tags are nil.
func checkTags(tags []string) ([]string, error) {
	for i, t := range tags {
		switch name, _, _ := strings.Cut(t, "="); {
		case !IsTag(t):
			return nil, fault.New(fault.Invalid, "%q is not a tag; write it like team=search: a name, an equals sign and a value, of at most %d bytes each and without spaces, commas and control characters", excerpt.Of(t, maxEcho), MaxTag).At("tags")
		case len(tags) > MaxTags:
			return nil, fault.New(fault.Invalid, "a key has at most %d tags", MaxTags).At("tags")
		case slices.ContainsFunc(tags[:i], func(o string) bool { return strings.HasPrefix(o, name+"=") }):
			return nil, fault.New(fault.Invalid, "a key has only one tag with the name %q", excerpt.Of(name, maxEcho)).At("tags")
		}
	}
	if len(tags) == 0 {
		return nil, nil
	}
	return slices.Sorted(slices.Values(tags)), nil
}

// TagsText returns tags as they are stored: separated by spaces, which none has.
func TagsText(tags []string) string { return strings.Join(tags, " ") }

// ParseTags is the inverse of TagsText. No tags are nil.
func ParseTags(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Fields(text)
}
