package signin

import (
	"slices"
	"strings"
	"time"
)

// At their full cost the hashes took most of the time of the tests.
func init() { argonMemory = 64 }

// HashPassword is for tests that need an account with a password.
var HashPassword = hashPassword

// NewMemoryTries and KeyOf are for the suite that every implementation of Tries passes.
func NewMemoryTries(now func() time.Time) Tries { return newMemoryTries(now) }

var KeyOf = keyOf

// Rules returns the rule of every step, as a copy.
func Rules() []Rule { return slices.Clone(rules) }

// RulesTable returns the rules as a table in Markdown.
func RulesTable() string {
	var b strings.Builder
	b.WriteString("| step | who may | needs | leads to | ends |\n|---|---|---|---|---|\n")
	for _, r := range rules {
		b.WriteString("| " + r.Title + " | " + r.Who + " | " + words(uint(r.Needs), needWords) + " | " + words(uint(r.Gives), giveWords) + " | " + words(uint(r.Ends), endWords) + " |\n")
	}
	return b.String()
}

// The words for each bit of Need, Give and End, lowest bit first.
var (
	needWords = []string{"`signup: open`", "the link, once", "the password", "an address that the provider has verified", "a code or a passkey before the session, if two-step sign-in is on", "a code of the new secret", "the passkey, with its user verified", "the new passkey", "a session", "fresh proof"}
	giveWords = []string{"a link by mail", "an account", "a session", "a mail to the owner"}
	endWords  = []string{"this session", "all other sessions", "all pending links"}
)

// words returns the names of the bits that are set, or a dash if none is.
func words(bits uint, names []string) string {
	var list []string
	for i, name := range names {
		if bits&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	if list == nil {
		return "–"
	}
	return strings.Join(list, "; ")
}
