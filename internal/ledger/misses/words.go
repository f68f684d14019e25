package misses

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/internal/prompt/prefix"
)

// Text says in a sentence or two what happened and what to do about it. Staff is told who served, customers are not.
func (w *Why) Text(staff bool) string {
	switch w.Reason {
	case Hit:
		return fmt.Sprintf("%s of the prompt came from a cache.", percent(w.Share))
	case NoCache:
		return "The provider reports no caches for this model, so no part of the prompt can be cheaper."
	case Short:
		return fmt.Sprintf("The prompt is too short for a cache: the provider keeps prompts from %s tokens on.", number(w.Cache.Least))
	case First:
		return "This is the first call of its conversation, so there was nothing to read. It fills the cache for the next one."
	case Unmarked:
		return "This provider keeps only what the request marks, and nothing was marked: set cache_control at the end of what stays the same."
	case Together:
		return "The call before it in the conversation had not begun to answer, so its prompt was not in the cache yet: send the first of several calls alone."
	case Moved:
		return w.moved(staff)
	case Changed:
		return w.partly() + changed(w.Change)
	case Expired:
		if w.Life() == 0 {
			return fmt.Sprintf("The call before it in the conversation was %s ago, and providers rarely keep a prompt for longer than an hour: send the next call earlier.", duration(w.Gap))
		}
		return fmt.Sprintf("The call before it in the conversation was %s ago, and the provider keeps a prompt for %s after its last use: ask for a longer time where the provider has one, or send the next call earlier.",
			duration(w.Gap), duration(w.Life()))
	case Vendor:
		return fmt.Sprintf("The same beginning was sent to the same model and provider %s ago, and the provider still read nothing from its cache. That is the provider's decision: caches are not promised.", duration(w.Gap))
	default:
		return "The call before it in the conversation has no fingerprint, so the prompts cannot be compared."
	}
}

// partly says how much was read, if something was.
func (w *Why) partly() string {
	if w.Share == 0 {
		return ""
	}
	return fmt.Sprintf("Only %s of the prompt came from a cache. ", percent(w.Share))
}

// moved says that another target answered.
func (w *Why) moved(staff bool) string {
	text := "Another model, provider or upstream key answered the call before it in the conversation, and each has a cache of its own"
	if staff {
		text = fmt.Sprintf("The call before it in the conversation was answered by %s at %s", w.Before.ModelUsed, w.Before.Provider)
		if a := answered(w.Before); a != nil && a.Key != "" {
			text += " with the key that ends in " + strings.TrimPrefix(a.Key, "…")
		}
		text += ", and a cache belongs to one target"
	}
	if w.Affinity != "" {
		text += ". It moved because of this: " + w.Affinity
	}
	return text + "."
}

// changed says where a prompt changed.
func changed(c *prefix.Change) string {
	switch {
	case c.Part == prefix.Tools && c.Of == 0:
		return "The call before it had tools, and this one has none: send the same tools with every call, and forbid them with tool_choice."
	case c.Part == prefix.Tools:
		return "The tools changed " + where(c) + ": send the same tools in the same order with every call."
	case c.Part == prefix.System && c.Of == 0:
		return "The system prompt is missing: send the same one with every call."
	case c.Part == prefix.System:
		return "The system prompt changed " + where(c) + ": put what changes at the end of the conversation."
	case c.Message == 1 && c.To == 1:
		return "The first message changed " + where(c) + ": put what changes at the end of the conversation."
	case c.Message == c.To:
		return fmt.Sprintf("Message %s after the system prompt is not what it was: add messages at the end, and leave earlier ones as they are.", number(c.To))
	default:
		return fmt.Sprintf("One of the messages %s to %s after the system prompt is not what it was: add messages at the end, and leave earlier ones as they are.", number(c.Message), number(c.To))
	}
}

// where says between which bytes a part changed.
func where(c *prefix.Change) string {
	switch {
	case c.Until > 0 && c.From == 0:
		return fmt.Sprintf("within its first %s bytes", number(c.Until))
	case c.Until > 0:
		return fmt.Sprintf("between byte %s and byte %s", number(c.From), number(c.Until))
	default:
		return fmt.Sprintf("after byte %s", number(c.From))
	}
}

// number writes a number with commas between its thousands.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent writes a share.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + "%" }

// duration writes a time as people do.
func duration(d time.Duration) string {
	unit := func(n int, name string) string {
		if n == 1 {
			return "1 " + name
		}
		return strconv.Itoa(n) + " " + name + "s"
	}
	switch {
	case d < 2*time.Minute:
		return unit(int(d.Round(time.Second)/time.Second), "second")
	case d < 2*time.Hour && d != time.Hour:
		return unit(int(d.Round(time.Minute)/time.Minute), "minute")
	default:
		return unit(int(d.Round(time.Hour)/time.Hour), "hour")
	}
}
