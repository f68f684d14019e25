package claude

import (
	"strconv"
	"strings"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Model is what one generation of Claude accepts. The generations differ: a field that one requires is
// refused by the next.
// The zero value accepts no sampling, thinks by a budget when asked, and is not held to schemas.
type Model struct {
	// Adaptive models are told how hard to think by an effort; the others get a budget of tokens.
	Adaptive bool
	// Samples is whether the model accepts a temperature or a top_p. It accepts only one of them, unless
	// Both is set.
	Samples, Both bool
	// Structured is whether the model can be held to a schema, in its text and in the arguments of strict
	// tools.
	Structured bool
	// Idle is the thinking type that turns thinking off. It is empty for models that think only when asked,
	// and Always for models that cannot stop thinking.
	Idle string
	// Binds is whether the model checks thinking that comes back: everything before it must be what it was. If
	// Account is set, it must come back to the account that made it, too
	// (platform.claude.com/docs/en/build-with-claude/preserved-thinking).
	Binds, Account bool
	// Instructs is whether system messages may stand between the others. For other models they go to the front.
	Instructs bool
	// Caches is whether the model keeps prompts up to the marks that it is sent.
	Caches bool
	// Unforced is whether the model refuses to be told that it must call a tool.
	Unforced bool
}

// Always is the Idle of models that always think.
const Always = "always"

// ModelOf reads the generation from a model's name, in any of the forms that vendors use:
// claude-sonnet-4-5-20250929, us.anthropic.claude-opus-4-6-v1:0, anthropic/claude-sonnet-4.6. It reports
// false if the name is not a Claude's. A model that is newer than this table is treated like the newest of
// its line.
func ModelOf(name string) (Model, bool) {
	line, version, ok := generation(name)
	if !ok {
		return Model{}, false
	}
	// Lines that came after the table, and names without a number such as claude-opus-latest.
	if line == "fable" || line == "mythos" || version == 0 {
		m := Model{Adaptive: true, Structured: true, Caches: true, Idle: Always}
		m.Binds = version > 50 || line != "fable" && line != "mythos"
		m.Account, m.Unforced = line == "sonnet" || line == "haiku", m.Binds && line != "haiku"
		m.Instructs = m.Binds || version == 50
		return m, true
	}
	m := Model{Adaptive: version >= 46, Samples: version <= 46, Structured: version >= 45, Idle: idle(line, version)}
	m.Binds, m.Account = version >= 55, version >= 55 && line != "opus"
	m.Instructs = m.Binds || line == "opus" && version >= 48
	m.Unforced = m.Binds && line != "haiku"
	m.Caches = version >= 37 || line == "haiku" && version >= 35
	return m, true
}

// generation reads the line of a model's name, and its version times ten: 45 for 4.5. A number of two digits or more after
// it is a date. It reports false if the name is not a Claude's.
func generation(name string) (line string, version int, ok bool) {
	_, rest, ok := strings.Cut(strings.ToLower(name), "claude-")
	if !ok {
		return "", 0, false
	}
	for word := range strings.FieldsFuncSeq(rest, func(r rune) bool { return strings.ContainsRune("-._@:/", r) }) {
		switch n, err := strconv.Atoi(word); {
		case err == nil && version == 0:
			version = 10 * min(n, 99)
		case err == nil && version%10 == 0 && n < 10:
			version += n
		case err != nil && line == "":
			line = word
		}
	}
	return line, version, true
}

// Keeps returns how many tokens a prompt must have so that a Claude, given by the name of its upstream, keeps it, and whether
// it can keep it for an hour; 0 for other models (platform.claude.com/docs/en/build-with-claude/prompt-caching). Where
// sources differ, and for newer models, it is the smaller number: a mark on less costs nothing.
func Keeps(name string) (least int, hour bool) {
	line, version, ok := generation(name)
	switch {
	case !ok:
		return 0, false
	case version == 0, version >= 50 && line != "sonnet" && line != "haiku":
		return 512, true
	case line == "haiku" && version == 45, line == "opus" && (version == 45 || version == 46):
		return 4096, true
	case line == "haiku" && version < 45, line == "opus" && version == 47:
		return 2048, version >= 45
	}
	return 1024, version >= 45
}

// efforts returns the efforts of the model, without none, which turns thinking off. The first generation that was told an
// effort still samples.
func (m Model) efforts() []chat.Effort {
	switch {
	case !m.Adaptive:
		return budgeted
	case m.Samples:
		return firstEfforts
	}
	return efforts
}

// The efforts of generations: those of today, those of the first that had any, and those that have a budget instead
// (platform.claude.com/docs/en/build-with-claude/effort).
var (
	efforts      = []chat.Effort{chat.EffortLow, chat.EffortMedium, chat.EffortHigh, chat.EffortXHigh, chat.EffortMax}
	firstEfforts = []chat.Effort{chat.EffortLow, chat.EffortMedium, chat.EffortHigh, chat.EffortMax}
	budgeted     = []chat.Effort{chat.EffortMinimal, chat.EffortLow, chat.EffortMedium, chat.EffortHigh}
)

// idle returns the thinking type that turns the thinking of a model off; see Model.Idle.
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

// leastThought is the smallest thinking budget that the vendor accepts, in tokens.
const leastThought = 1024

// budgets maps reasoning_effort to a budget in tokens, for models that are not Adaptive.
var budgets = map[chat.Effort]int{chat.EffortMinimal: leastThought, chat.EffortLow: 4096, chat.EffortMedium: 10240, chat.EffortHigh: 24576}

// Thinking is the thinking member of a request. Converse passes it to Claude unchanged, so both APIs use it.
type Thinking struct {
	Type    string   `json:"type"`
	Budget  int      `json:"budget_tokens,omitempty"`
	Display string   `json:"display,omitempty"`
	Binding *Binding `json:"block_binding,omitempty"`
}

// Binding says what becomes of thinking that comes back and does not fit what stands before it.
type Binding struct {
	Mismatch string `json:"prefix_mismatch_behavior"` // drop_block or error
}

// BindingFeature is the beta feature without which the vendor refuses a Binding.
const BindingFeature = "thinking-binding-controls-2026-08-01"

// Bind returns the thinking of a call that has thinking of earlier turns in it: if some of it does not fit after all, the
// vendor is to drop it, instead of refusing the call. t may be nil. It reports false if the model knows no such thing, or
// if it does not think about this call.
func (m Model) Bind(t *Thinking) (*Thinking, bool) {
	switch {
	case !m.Binds || t != nil && t.Type != "adaptive":
		return t, false
	case t == nil: // what is the default of these models
		t = &Thinking{Type: "adaptive"}
	}
	t.Binding = &Binding{Mismatch: "drop_block"}
	return t, true
}

// Thought says how a model is to think about one call.
type Thought struct {
	Thinking *Thinking // nil leaves it to the model's default
	Effort   string    // empty leaves it to the model's default
	Max      int       // bounds the tokens of thinking and reply together
}

// Think translates reasoning_effort for this generation, and drops it where it cannot be followed. Bound is
// the bound on the reply's tokens; it must be positive. Forced says that the model must call a tool: the
// vendor refuses that together with thinking. Unsigned says that the call answers tool calls that were made
// without thinking, or whose thinking is lost; see Conversation.Unsigned.
//
// In all cases but the last the bound stays what it is.
func (m Model) Think(call *provider.Call, bound int, forced, unsigned bool) Thought {
	effort := call.Request.ReasoningEffort
	thought := Thought{Max: bound}
	switch {
	case forced:
		// Thinking that is on by default must be turned off. Models that cannot are refused by ChoiceOf, or left to
		// refuse the call themselves: the caller learns the reason from the vendor.
		if m.Idle != Always && (m.Adaptive || effort != "") {
			thought = m.rest(bound)
		}
		call.Drop("reasoning_effort")
	case !call.Thinks:
		call.DropEffort()
	case effort == "":
	case effort == chat.EffortNone:
		if thought = m.rest(bound); m.Idle == Always {
			call.Drop("reasoning_effort") // it gets the lowest effort
		}
	case m.Adaptive:
		thought.Thinking = &Thinking{Type: "adaptive", Display: "summarized"}
		thought.Effort = string(call.Effort(m.efforts()))
	default:
		return m.budget(call, bound, unsigned)
	}
	return thought
}

// Off reports whether the model does not think about a call at all. Then it wants no thinking of earlier turns either.
func (m Model) Off(call *provider.Call, forced bool) bool {
	return m.Idle == "disabled" && (forced || call.Thinks && call.Request.ReasoningEffort == chat.EffortNone)
}

// rest turns thinking off. Models that always think get the lowest effort instead.
func (m Model) rest(bound int) Thought {
	switch m.Idle {
	case "":
		return Thought{Max: bound}
	case Always:
		return Thought{Max: bound, Effort: "low"}
	}
	return Thought{Max: bound, Thinking: &Thinking{Type: m.Idle}}
}

// budget gives the model a budget of tokens to think with. The budget is part of the bound, and leaves at
// least a quarter of it for the reply. A bound that is only our default is raised by the budget, so that
// thinking does not shorten the reply. An exchange of tool calls that began without thinking cannot continue
// with it: the vendor wants a signed block in front of the calls.
func (m Model) budget(call *provider.Call, bound int, unsigned bool) Thought {
	tokens := budgets[call.Effort(m.efforts())]
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

// maxTemperature is the highest temperature Claude accepts, and its default. A higher one is sent as the
// default, by leaving it out.
const maxTemperature = 1

// leastThinkingTopP is the lowest top_p that Claude accepts while it thinks.
const leastThinkingTopP = 0.95

// Sample returns the temperature and the top_p to send; nil leaves one out. It drops those that the model
// refuses, and those that are refused while it thinks. t is the thinking of the same call and may be nil.
//
// A value that equals the default is left out without a note: the reply is the same.
func (m Model) Sample(call *provider.Call, t *Thinking) (temperature, topP *float64) {
	// Claudes that think without being asked do not sample at all, so t alone tells whether thinking is in the way.
	thinks := t != nil && t.Type != m.Idle
	if v := call.Request.Temperature; v != nil && *v < maxTemperature {
		if m.Samples && !thinks {
			temperature = v
		} else {
			call.Omit("temperature")
		}
	}
	if v := call.Request.TopP; v != nil && *v < 1 {
		if m.Samples && (temperature == nil || m.Both) && (!thinks || *v >= leastThinkingTopP) {
			topP = v
		} else {
			call.Omit("top_p")
		}
	}
	return temperature, topP
}

// EmulatesJSON reports whether response_format must be emulated: the model is told to write JSON (see
// JSONInstruction), and JSONText cuts off what it writes around it. The vendor itself enforces strict
// schemas only, and only on newer models.
func (m Model) EmulatesJSON(f chat.Format) bool {
	return f.Kind == chat.FormatJSONObject || f.Kind == chat.FormatJSONSchema && (!f.Strict || f.Schema == nil || !m.Structured)
}
