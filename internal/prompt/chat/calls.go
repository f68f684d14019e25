package chat

import (
	"fmt"
	"slices"
)

// CallIndex finds the tool calls of one message by id. It makes both duplicate ids and unknown ids
// cheap to detect, even in a message with thousands of calls; the zero value is empty.
type CallIndex struct {
	// Calls are in the order of the message. The Message takes the same slice, so it is not changed after
	// the message was read.
	Calls []PastCall
	byID  map[string]int // position in Calls; nil below manyCalls
}

// manyCalls is the number of calls from which a map is faster than comparing ids one by one.
const manyCalls = 16

// Find returns the position of the call, or -1.
func (x *CallIndex) Find(id string) int {
	if x.byID != nil {
		if i, ok := x.byID[id]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(x.Calls, func(c PastCall) bool { return c.ID == id })
}

// Add appends a call. Its id must be new: the caller has asked Find.
func (x *CallIndex) Add(call PastCall) {
	x.Calls = append(x.Calls, call)
	switch n := len(x.Calls); {
	case n == manyCalls:
		x.byID = make(map[string]int, 2*manyCalls)
		for i := range x.Calls {
			x.byID[x.Calls[i].ID] = i
		}
	case n > manyCalls:
		x.byID[call.ID] = n - 1
	}
}

// openCalls are the calls of the last assistant message. The tool messages that follow answer them.
// In the zero value Find finds nothing, so a tool message that begins a conversation is refused.
type openCalls struct {
	CallIndex
	message  int    // the position of that message in messages
	answered []bool // by position of the call
	left     int    // how many are false in answered
}

// checkTurn checks that tool messages answer the calls of the assistant message before them, each
// one once, and that nothing else comes before all are answered (docs/api.md#tool-calling). It is
// called once per message, in order, because it compares m with the message before it.
//
// Upstreams check this too. Checking it here gives callers the same message for every upstream.
func (p *parser) checkTurn(m *Message, calls CallIndex) {
	if p.failed() {
		return
	}
	if m.Role == RoleTool {
		p.answer(m.ToolCallID)
		return
	}
	if !p.allAnswered() {
		return
	}
	// Reuse the slice of answers: a conversation may have hundreds of such turns.
	p.open.CallIndex = calls
	p.open.message = p.index()
	p.open.left = len(calls.Calls)
	p.open.answered = p.open.answered[:0]
	for range calls.Calls {
		p.open.answered = append(p.open.answered, false)
	}
}

// answer records that a tool message answers the call with an id. It refuses an id that no call has
// and one that was answered before.
func (p *parser) answer(id string) {
	// The cases are ordered: without open calls every id is unknown, and that message would mislead.
	i := p.open.Find(id)
	switch {
	case len(p.open.Calls) == 0:
		p.bad(".tool_call_id", "answers no call: tool messages must directly follow an assistant message with tool_calls")
	case i < 0:
		p.bad(".tool_call_id", "must be the id of a call in messages[%d].tool_calls; got %s",
			p.open.message, quoteShort(id))
	case p.open.answered[i]:
		p.bad(".tool_call_id", "answers call %s a second time; send one tool message for each call", quoteShort(id))
	default:
		p.open.answered[i] = true
		p.open.left--
	}
}

// allAnswered reports whether every call has been answered. If not, it refuses the body and names the
// first call without an answer. It is asked before each message that is not a tool message, and after
// the last message.
func (p *parser) allAnswered() bool {
	if p.open.left == 0 {
		return true
	}
	// Name the first one only. A caller who fixes it sees the next one, if there is any.
	for i, done := range p.open.answered {
		if !done {
			p.badAt(fmt.Sprintf("messages[%d].tool_calls[%d]", p.open.message, i),
				"is not answered: a tool message with tool_call_id %s must follow the assistant message",
				quoteShort(p.open.Calls[i].ID))
			break
		}
	}
	return false
}

// toolCalls reads the tool_calls of an assistant message. Null and an empty array are both no calls.
// Two calls of one message must not share an id: a tool message could not say which one it answers.
func (p *parser) toolCalls() CallIndex {
	var x CallIndex
	if p.null() || !p.array("an array of tool calls") {
		return x
	}
	for p.element() {
		call, ok := p.toolCall()
		if !ok {
			break
		}
		// Find before Add: that is what keeps ids unique.
		if i := x.Find(call.ID); i >= 0 {
			p.bad(".id", "must differ from that of tool_calls[%d]; both are %s", i, quoteShort(call.ID))
			break
		}
		x.Add(call)
	}
	return x
}

// toolCall reads one call and checks that it has an id, and a function or a custom tool. The name is
// not looked up in tools: callers may drop a tool from the request after the model has called it.
func (p *parser) toolCall() (PastCall, bool) {
	if !p.entry() || !p.object("an object with id, type and function") {
		return PastCall{}, false
	}
	var (
		call             PastCall
		function, custom bool
		kind             = "function" // also if type is absent
	)
	for p.member() {
		switch string(p.key) {
		case "id":
			call.ID = p.requiredText()
		case "type":
			if k := p.oneOf(`"function" or "custom"`, "function", "custom"); k != "" {
				kind = k
			}
		case "function":
			if !p.null() {
				function = true
				p.called(&call, "arguments", "a string of JSON")
			}
		case "custom":
			if !p.null() {
				custom = true
				p.called(&call, "input", "a string")
			}
		default:
			p.other(toolCallShape)
		}
	}
	switch {
	case call.ID == "":
		p.bad(".id", "is required: the id that the reply gave the call")
	case kind == "function" && !function:
		p.bad(".function", "is required: an object with name and arguments")
	case kind == "custom" && !custom:
		p.bad(".custom", "is required: an object with name and input")
	case function && custom:
		p.bad("", "has both function and custom; keep the one that type names")
	case custom:
		call.Custom = true
		p.foreign("calls of custom tools")
	}
	// Models read earlier calls, so they count toward the prompt.
	p.req.size.calls++
	p.req.size.bytes += len(call.ID) + len(call.Name)
	return call, !p.failed()
}

// called reads the function or the custom tool of a call into call: its name, and the member that
// holds its input, "arguments" or "input". want describes that member in messages. The input is not
// parsed as JSON, because models write arguments that are not valid JSON, and the caller must be able
// to send such a reply back.
func (p *parser) called(call *PastCall, member, want string) {
	if !p.object("an object with name and " + member) {
		return
	}
	arguments := false
	for p.member() {
		switch string(p.key) {
		case "name":
			call.Name = p.requiredText()
		case member:
			if !p.null() {
				t := p.text(want)
				if p.failed() {
					return
				}
				arguments, call.quoted, call.raw = true, true, p.body[t.from:t.to]
				p.req.size.bytes += t.size
			}
		default:
			p.other(calledShape)
		}
	}
	switch {
	case call.Name == "":
		p.bad(".name", "is required: the name of the tool that was called")
	case !arguments:
		p.bad("."+member, "is required: %s", want)
	}
}

// oneOf reads one of the words, which want lists for the message. It returns an empty string for null
// and after a problem. The result is one of words itself, so it does not keep the body alive.
func (p *parser) oneOf(want string, words ...string) string {
	if p.null() {
		return ""
	}
	t := p.text(want)
	got := p.word(t)
	for _, w := range words {
		if string(got) == w {
			return w
		}
	}
	if !p.failed() {
		p.bad("", "must be %s; got %s", want, describe(p.body[t.from:t.to]))
	}
	return ""
}

// toolCallID reads the tool_call_id of a tool message. It counts toward the prompt. It returns an empty
// string for null and after a problem; checkMessage knows whether the role needs one.
func (p *parser) toolCallID() string {
	if p.null() {
		return ""
	}
	id := p.requiredText()
	p.req.size.bytes += len(id)
	return id
}

// requiredText reads a string that must not be empty. It returns an empty string for null; the caller
// then reports the field as missing.
func (p *parser) requiredText() string {
	if p.null() {
		return ""
	}
	t := p.text("a string")
	if t.size == 0 {
		p.bad("", "must not be empty")
	}
	return p.unquoted(t)
}
