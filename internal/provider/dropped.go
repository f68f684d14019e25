package provider

import (
	"cmp"
	"slices"

	"sluice/internal/chat"
	"sluice/internal/fault"
)

const (
	maxDropped     = 32 // names in one reply's header
	maxDroppedName = 64 // bytes
)

// Drop notes the fields among names that the caller sent, and that ask for something: the upstream
// does not see them.
func (c *Call) Drop(names ...string) {
	for _, name := range names {
		if asks(c.Request.Member(name)) {
			c.Omit(name)
		}
	}
}

// DropUnread notes every field that only upstreams of OpenAI's dialect are given: those that the
// contract does not know.
func (c *Call) DropUnread() {
	for name, value := range c.Request.Unread() {
		if asks(value) && isFieldName(name) {
			c.Omit(name)
		}
	}
}

// Omit notes a field that is known to have been sent, or one inside of another, once.
func (c *Call) Omit(name string) {
	if len(c.Dropped) < maxDropped && !slices.Contains(c.Dropped, name) {
		c.Dropped = append(c.Dropped, name)
	}
}

// DropEffort notes reasoning_effort, for a model that does not think. None is what it does anyway.
func (c *Call) DropEffort() {
	if c.Request.ReasoningEffort != chat.EffortNone {
		c.Drop("reasoning_effort")
	}
}

// asks reports whether the JSON of a field asks for something.
func asks(value []byte) bool {
	switch string(value) {
	case "", "null", "false", "0":
		return false
	}
	return true
}

// isFieldName reports whether a caller's name may stand in a header.
func isFieldName(name string) bool {
	for _, b := range []byte(name) {
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '_' && b != '-' && b != '.' {
			return false
		}
	}
	return name != "" && len(name) <= maxDroppedName
}

// Limit is the most tokens that the reply may have: the caller's bound, clamped to what the model
// writes; 0: there is neither. A bound that is clamped is noted.
func (c *Call) Limit() int {
	if c.MaxOutput > 0 && c.Request.MaxTokens > c.MaxOutput {
		c.Drop("max_tokens", "max_completion_tokens")
		return c.MaxOutput
	}
	return cmp.Or(c.Request.MaxTokens, c.MaxOutput)
}

// Plain refuses a request with something in it that the upstream does not know: files, sound, custom
// tools and their like.
func (c *Call) Plain() error {
	if f := c.Request.Foreign(); f.Path != "" {
		return fault.New(fault.Invalid, "This model does not know %s.", f.What).At(f.Path)
	}
	return nil
}
