package provider

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
)

// The header x-sluice-dropped names the dropped fields. Callers choose some of the names, so their number and
// length are bounded.
const (
	MaxDropped     = 32 // names
	maxDroppedName = 64 // bytes of a name
)

// Drop adds the named fields to Dropped, except those that the caller did not send and those that ask for
// nothing, such as false or null. Of some fields, 0 is a wish like any other.
func (c *Call) Drop(names ...string) {
	for _, name := range names {
		value := c.Request.Member(name)
		if chat.Asks(value) || string(value) == "0" && slices.Contains(zeros, name) {
			c.Omit(name)
		}
	}
}

// zeros are the fields whose default is not 0.
var zeros = []string{"temperature", "top_p", "seed"}

// DropUnread drops every field that the reference does not list, except for those that the adapter has passed on, and what
// only chat completions have in messages. Only upstreams of OpenAI's dialect get the others.
func (c *Call) DropUnread(passed ...string) {
	for name, value := range c.Request.Unread() {
		if chat.Asks(value) && IsFieldName(name) && !slices.Contains(passed, name) {
			c.Omit(name)
		}
	}
	for i := range c.Request.Messages {
		for _, name := range c.Request.Messages[i].Beside() {
			c.Omit("messages[]." + name)
		}
	}
}

// Omit adds a field to Dropped without a look at the request: one that is known to have been sent, or that is
// a member of another, such as tools[].function.strict. It adds each name once.
func (c *Call) Omit(name string) {
	if len(c.Dropped) < MaxDropped && !slices.Contains(c.Dropped, name) {
		c.Dropped = append(c.Dropped, name)
	}
}

// DropMarks drops the marks of messages, of their parts and of tools, for an upstream that decides itself what it keeps.
func (c *Call) DropMarks() {
	if !c.Request.Marked() { // nearly every request
		return
	}
	for i := range c.Request.Messages {
		for _, k := range c.Request.Messages[i].Marks() {
			c.Omit(k.Name()) // each once
		}
	}
	c.DropToolMarks(false)
}

// DropToolMarks drops the marks of tools alone, unless they are kept.
func (c *Call) DropToolMarks(kept bool) {
	for i := range c.Request.Tools {
		if mark, ok := c.Request.Tools[i].Cache(); ok && !kept {
			c.Omit(mark.Name())
		}
	}
}

// DropTimes drops the times of marks that are written as marks of the other kind. An upstream with breakpoints keeps all prompts for half
// an hour: of the times of cache_control only more than that is noted.
func (c *Call) DropTimes(breakpoints bool) {
	for i := range c.Request.Messages {
		for _, k := range c.Request.Messages[i].Marks() {
			if k.Breakpoint != breakpoints && k.TTL != "" && k.TTL != "5m" {
				c.Omit(k.Name() + ".ttl")
			}
		}
	}
}

// Keep takes a field out of Dropped, for one that the adapter passes on after all.
func (c *Call) Keep(name string) {
	c.Dropped = slices.DeleteFunc(c.Dropped, func(n string) bool { return n == name })
}

// DropEffort drops reasoning_effort, for a model that does not think. The value none is not noted: the model
// does what it asks for.
func (c *Call) DropEffort() {
	if c.Request.ReasoningEffort != chat.EffortNone {
		c.Drop("reasoning_effort")
	}
}

// Effort returns the effort to ask the model for: the caller's, or the nearest that the model takes, which is then noted as
// dropped; empty if the caller gives none. has is what the adapter knows of the model, nil if that is nothing. What the
// catalog says of the model goes before it.
func (c *Call) Effort(has []chat.Effort) chat.Effort {
	nearest := c.Nearest(has)
	if nearest != c.Request.ReasoningEffort {
		c.Drop("reasoning_effort")
	}
	return nearest
}

// Nearest is Effort without the note.
func (c *Call) Nearest(has []chat.Effort) chat.Effort {
	asked := c.Request.ReasoningEffort
	if asked == "" {
		return ""
	}
	if c.Efforts != nil {
		has = c.Efforts
	}
	return asked.Nearest(has)
}

// IsFieldName reports whether a name that a caller chose may be in a header.
func IsFieldName(name string) bool {
	for _, b := range []byte(name) {
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '_' && b != '-' && b != '.' {
			return false
		}
	}
	return name != "" && len(name) <= maxDroppedName
}

// Limit returns the bound on the reply's tokens: the caller's, but at most MaxOutput. It returns 0 if there is
// neither. A caller's bound that is too high is noted as dropped, since the vendor would refuse it.
func (c *Call) Limit() int {
	if c.MaxOutput > 0 && c.Request.MaxTokens > c.MaxOutput {
		c.Drop("max_tokens", "max_completion_tokens")
		return c.MaxOutput
	}
	return cmp.Or(c.Request.MaxTokens, c.MaxOutput)
}

// Withhold returns the members of a chat completion that its upstream must not get, because they are for the operator to
// allow, and notes that they are dropped. The error is a fault if the request would mean something else without them; see
// package allowance. Adapters that pass on members which they do not read call it.
func (c *Call) Withhold() (drop []string, err error) {
	if !c.Request.Reserved { // nearly every request
		return nil, nil
	}
	for name, value := range c.Request.Unread() {
		e := allowance.Field(name)
		if e == nil || c.Allow.Has(e) {
			continue
		}
		drop = append(drop, name)
		switch {
		case !chat.Asks(value):
		case e.Refused&allowance.Chat != 0:
			return nil, chat.Unallowed(name, e)
		case IsFieldName(name):
			c.Omit(name)
		default:
			c.Omit(e.Name)
		}
	}
	for i := range c.Request.Messages {
		for j, p := range c.Request.Messages[i].Content.Parts() {
			if e := allowance.ID("file_id"); p.File != nil && p.File.Stored && !c.Allow.Has(e) {
				return nil, chat.Unallowed(fmt.Sprintf("messages[%d].content[%d].file.file_id", i, j), e)
			}
		}
	}
	return drop, nil
}

// Translated refuses a request that cannot be translated: only an upstream of the dialect in which the caller sent it
// understands it.
func (c *Call) Translated() error {
	if o := c.Request.Original; o != nil {
		return unknown(o.Needs)
	}
	return nil
}

// Plain refuses a request that has files, sound, custom tools and the like, for upstreams that know none of
// them. Without them the answer would be a different one, so they are not dropped.
func (c *Call) Plain() error { return unknown(c.Request.Foreign()) }

// PlainBesideFiles is Plain for upstreams that read files of users. What they do with each is up to the adapter.
func (c *Call) PlainBesideFiles() error { return unknown(c.Request.ForeignBesideFiles()) }

// unknown returns the fault of a request that has something an upstream does not know; nil if there is nothing.
func unknown(f chat.Foreign) error {
	if f.Path == "" {
		return nil
	}
	refusal := fault.New(fault.Invalid, "This model does not know %s.", f.What).At(f.Path)
	refusal.Details = f.Details()
	return refusal
}
