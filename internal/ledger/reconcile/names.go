package reconcile

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	// dated is what vendors add to a name for a fixed state of the model.
	dated = regexp.MustCompile(`[-@ ](\d{4}-\d{2}-\d{2}|20\d{6})\b`)
	// revised is the revision that Bedrock adds to its names.
	revised = regexp.MustCompile(`(-v\d+)?:\d+$`)
	// whole is a number that is written with a needless zero: Nova2.0Lite is nova-2-lite.
	whole = regexp.MustCompile(`(\d)\.0\b|(\d)\.0([a-z])`)
	parts = regexp.MustCompile(`[a-z]+|\d+|:[a-z]+`)
)

// owners are words of names at Bedrock that do not tell models apart: who made them, and where they are served.
var owners = []string{"anthropic", "amazon", "openai", "meta", "mistral", "deepseek", "cohere", "us", "eu", "apac", "jp", "au", "global", "mantle", "edition", "bedrock"}

// canonical returns the form of a model's name in which the spellings of one vendor are equal: Claude Opus 5, claude-opus-5 and
// Claude5Opus; gpt-6-sol and gpt-6-sol-2026-09-01. Words are sorted, numbers are not.
func canonical(v Vendor, name string) string {
	name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "models/")
	name = dated.ReplaceAllString(revised.ReplaceAllString(name, ""), "")
	name = whole.ReplaceAllString(name, "$1$2 $3")
	var words, numbers []string
	for _, part := range parts.FindAllString(name, -1) {
		switch {
		case part[0] >= '0' && part[0] <= '9':
			numbers = append(numbers, part)
		case v != AWS || !slices.Contains(owners, part):
			words = append(words, part)
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ") + " " + strings.Join(numbers, " ")
}

// tierOf returns a service tier as settlements have it. The list price has none.
func tierOf(name string) string {
	switch name = strings.ToLower(strings.TrimSpace(name)); name {
	case "default", "standard", "auto", "on_demand", "not_available", "message", "messages":
		return ""
	case "priority_on_demand":
		return "priority"
	case "flex_discount":
		return "flex"
	}
	return name
}

// regionOf returns a region as settlements have it. The list price has none.
func regionOf(name string) string {
	switch name = strings.ToLower(strings.TrimSpace(name)); name {
	case "global", "not_available", "default":
		return ""
	}
	return name
}

func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}
