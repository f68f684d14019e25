package provider

import (
	"strconv"
	"strings"

	"sluice/internal/chat"
)

// Claude is what a model of that name takes, whichever API it is asked through. The generations
// differ: a field that one needs is refused by the next.
type Claude struct {
	// Adaptive: it is told how hard to think by an effort; else by a budget of tokens.
	Adaptive bool
	// Samples: it takes a temperature or a top_p, one of them, and with Both the two together.
	Samples, Both bool
	// Structured: it can be held to a schema, in its text and in the arguments of strict tools.
	Structured bool
	// Idle is the kind of thinking that turns it off. Empty: it is off unless asked for.
	Idle string
}

// Always is the Claude.Idle of models that cannot but think.
const Always = "always"

// ClaudeOf reads the generation from a model's name; false where it is no Claude.
// Models newer than those known here are taken to be like the newest of their line.
func ClaudeOf(model string) (Claude, bool) {
	_, name, ok := strings.Cut(strings.ToLower(model), "claude-")
	if !ok {
		return Claude{}, false
	}
	line, version := "", 0
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return strings.ContainsRune("-._@:/", r) }) {
		switch n, err := strconv.Atoi(word); {
		case err == nil && version == 0:
			version = 10 * min(n, 99)
		case err == nil && version%10 == 0 && n < 10:
			version += n
		case err != nil && line == "":
			line = word
		}
	}
	if line == "fable" || line == "mythos" || version == 0 {
		return Claude{Adaptive: true, Structured: true, Idle: Always}, true
	}
	return Claude{Adaptive: version >= 46, Samples: version <= 46, Structured: version >= 45, Idle: idle(line, version)}, true
}

// idle is what turns the thinking of a model off.
func idle(line string, version int) string {
	switch {
	case version < 50:
		return ""
	case line == "haiku", version < 55:
		return "disabled"
	case line == "sonnet":
		return "between_tools"
	}
	return Always
}

// leastThought is the smallest budget, in tokens.
const leastThought = 1024

// budgets are the tokens that an effort is worth, for models that are given a budget.
var budgets = map[chat.Effort]int{chat.EffortMinimal: leastThought, chat.EffortLow: 4096, chat.EffortMedium: 10240, chat.EffortHigh: 24576}

// Thinking is the vendor's configuration of it.
type Thinking struct {
	Type    string `json:"type"`
	Budget  int    `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

// Thought is how a model is to think about one call.
type Thought struct {
	Thinking *Thinking // nil: as the model does by itself
	Effort   string    // empty: the model's own
	Max      int       // tokens of thinking and reply together
}

// Think makes reasoning_effort into what the generation understands. Bound is that on the tokens.
// A model that is forced to call a tool must not think: the vendor refuses both. Unsigned says that
// the call answers tools that were called without thinking, or with thinking that is lost.
func (c Claude) Think(call *Call, bound int, forced, unsigned bool) Thought {
	effort := call.Request.ReasoningEffort
	thought := Thought{Max: bound}
	switch {
	case forced:
		if c.Idle != Always && (c.Adaptive || effort != "") {
			thought = c.rest(bound)
		}
		call.Drop("reasoning_effort")
	case !call.Thinks:
		call.DropEffort()
	case effort == "":
	case effort == chat.EffortNone:
		thought = c.rest(bound)
	case c.Adaptive:
		thought.Thinking = &Thinking{Type: "adaptive", Display: "summarized"}
		if thought.Effort = string(effort); effort == chat.EffortMinimal {
			thought.Effort = "low"
		}
	default:
		return budgeted(call, bound, unsigned)
	}
	return thought
}

// rest turns thinking off where it would be on; models that cannot but think, think little.
func (c Claude) rest(bound int) Thought {
	switch c.Idle {
	case "":
		return Thought{Max: bound}
	case Always:
		return Thought{Max: bound, Effort: "low"}
	}
	return Thought{Max: bound, Thinking: &Thinking{Type: c.Idle}}
}

// budgeted lets the model think for so many tokens. They come out of the bound, of which at least a
// quarter is left for the reply; one that nobody gave is raised. Within a tool exchange the model must
// have been thinking from the start.
func budgeted(call *Call, bound int, unsigned bool) Thought {
	tokens := budgets[call.Request.ReasoningEffort]
	raised := bound
	if call.Request.MaxTokens == 0 && call.MaxOutput == 0 {
		raised += tokens
	}
	tokens = min(tokens, raised/4*3)
	if tokens < leastThought || unsigned {
		call.Drop("reasoning_effort")
		return Thought{Max: bound}
	}
	return Thought{Max: raised, Thinking: &Thinking{Type: "enabled", Budget: tokens}}
}

// Sample is what of temperature and top_p the model takes, where they are not at their default of 1,
// beyond which no temperature goes here. While it thinks it takes hardly any.
func (c Claude) Sample(call *Call, t *Thinking) (temperature, topP *float64) {
	thinks := t != nil && t.Type != c.Idle
	if v := call.Request.Temperature; v != nil && *v < 1 {
		if c.Samples && !thinks {
			temperature = v
		} else {
			call.Omit("temperature")
		}
	}
	if v := call.Request.TopP; v != nil && *v < 1 {
		if c.Samples && (temperature == nil || c.Both) && (!thinks || *v >= 0.95) {
			topP = v
		} else {
			call.Omit("top_p")
		}
	}
	return temperature, topP
}

// EmulatesJSON reports whether the model must be told to write JSON, and what it writes around it be
// cut off. The vendor's own way knows strict schemas alone, and newer models alone know that.
func (c Claude) EmulatesJSON(f chat.Format) bool {
	return f.Kind == chat.FormatJSONObject || f.Kind == chat.FormatJSONSchema && (!f.Strict || f.Schema == nil || !c.Structured)
}
