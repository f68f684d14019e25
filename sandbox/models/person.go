package models

import (
	"regexp"
	"strings"
)

// Agents add to what a person says: reminders, the state of the editor, the time. They write it into the same message,
// in blocks with names such as <system-reminder>, or send it as a message of its own.
var (
	// blockStart matches the beginning of a block at the beginning of a line. Its group is the name.
	blockStart = regexp.MustCompile(`(?m)^[ \t]*<([A-Za-z][\w-]*)(?:\s[^<>]*)?>`)
	// blockName matches names of blocks that agents write. Other names are the person's own, as in <p>.
	blockName = regexp.MustCompile(`(?i)[-_]|^(?:environment|reminder|system|task|timestamp|feedback)$`)
	// personal matches names of blocks that hold what the person said.
	personal = regexp.MustCompile(`(?i)(?:^|[-_])(?:answer|feedback|input|message|prompt|query|question|request|task)$`)
	// clock matches a line that only says what time it is.
	clock = regexp.MustCompile(`(?mi)^[ \t]*(?:(?:current |local |today's )?(?:date|time|datetime|timestamp)\b[^:\n?]{0,40}(?::|\bis\b)[^\n?]*\d[^\n?]*|\[?\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?\]?)[ \t]*$`)
)

// personsWords returns what the person says in a user message, without what an agent has added.
func personsWords(text string) string {
	if !strings.ContainsAny(text, "<0123456789") {
		return strings.TrimSpace(text)
	}
	return strings.TrimSpace(clock.ReplaceAllString(withoutBlocks(text), ""))
}

// withoutBlocks removes the blocks that agents write, and the marks around those that hold what the person said.
func withoutBlocks(text string) string {
	var rest strings.Builder
	for {
		at := blockStart.FindStringSubmatchIndex(text)
		if at == nil {
			rest.WriteString(text)
			return rest.String()
		}
		name := text[at[2]:at[3]]
		inside, after, closed := strings.Cut(text[at[1]:], "</"+name+">")
		if !closed || !blockName.MatchString(name) {
			rest.WriteString(text[:at[1]])
			text = text[at[1]:]
			continue
		}
		rest.WriteString(text[:at[0]])
		if personal.MatchString(name) {
			rest.WriteString(inside)
		}
		text = after
	}
}
