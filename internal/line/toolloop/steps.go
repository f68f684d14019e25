package toolloop

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// steps is what an assistant message with calls for the caller stands for: the hidden turns before it, and
// the message itself with all its calls. The caller sends the message back without them, so they are kept
// and put back by the next request.
//
// Example: the model calls a hidden tool, gets its result, and then calls a function of the caller. The
// caller knows one assistant message with one call. The model must see two: its call of the tool with the
// result, and its call of the function, under the ids that it used itself.
type steps struct {
	Messages []json.RawMessage `json:"messages"`         // replace the message that the caller knows
	Images   []json.RawMessage `json:"images,omitempty"` // follow the results of the message's calls
	IDs      map[string]string `json:"ids"`              // the upstream's id of each call, by ours
}

// approval is a call that the caller has allowed and that has not run yet.
type approval struct {
	call *call
	at   int // index of its tool message in the conversation
}

// keepTime bounds how long a request waits for the store. The reply does not depend on it.
const keepTime = 5 * time.Second

// stepsKey and resultKey return the keys under which the steps and the result of a call are kept. Adapters
// keep state of their own under the id itself, so the keys have prefixes.
func stepsKey(id string) string  { return "mcp steps " + id }
func resultKey(id string) string { return "mcp result " + id }

// keep stores the steps of this request under the first call that the caller gets. An error is ignored: a
// conversation whose steps are lost continues without them, as after their hour is over.
func (s *Stream) keep(images [][]byte) {
	kept := steps{IDs: make(map[string]string)}
	// What was there before this request's own turns comes back with the caller's next request anyway.
	for _, m := range s.messages[s.own:] {
		kept.Messages = append(kept.Messages, m)
	}
	for _, m := range images {
		kept.Images = append(kept.Images, m)
	}
	first := ""
	for _, c := range s.turn.calls {
		if c.ours == "" {
			continue
		}
		if first == "" {
			first = c.ours
		}
		kept.IDs[c.ours] = c.id
	}
	// Every call of the message is in IDs, so that recall can tell whether the caller has changed it.
	if raw, err := json.Marshal(kept); err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, keepTime)
		defer cancel()
		_ = s.task.Memory.Keep(ctx, stepsKey(first), raw)
	}
}

// recall returns the steps that an assistant message stands for; nil: there are none, or they have expired.
// The ids must be the same as then: a caller may have changed the message, and the results of other calls
// do not fit the steps.
func (s *Stream) recall(m *chat.Message) *steps {
	if !isOurs(m.ToolCalls[0].ID) {
		return nil
	}
	raw, ok, err := s.task.Memory.Recall(s.ctx, stepsKey(m.ToolCalls[0].ID))
	if err != nil || !ok {
		return nil
	}
	var kept steps
	if json.Unmarshal(raw, &kept) != nil || len(kept.IDs) != len(m.ToolCalls) {
		return nil
	}
	for _, c := range m.ToolCalls {
		if kept.IDs[c.ID] == "" {
			return nil
		}
	}
	return &kept
}

// isOurs reports whether an id looks like one that provider.CallID made. It saves looking up every id of
// other services.
func isOurs(id string) bool {
	random, ok := strings.CutPrefix(id, "call_")
	return ok && len(random) > 20 && strings.Trim(random, "0123456789abcdef") == ""
}

// restore builds the conversation from the request's messages. It puts hidden steps back in their place and
// replaces approvals with the results of their calls.
func (s *Stream) restore() {
	all := s.task.Request.Messages
	for i := 0; i < len(all); i++ {
		m := &all[i]
		if m.Role != chat.RoleAssistant || len(m.ToolCalls) == 0 {
			s.messages = append(s.messages, m.Raw())
			continue
		}
		kept := s.recall(m)
		if kept == nil {
			kept = &steps{Messages: []json.RawMessage{m.Raw()}}
		}
		for _, step := range kept.Messages {
			s.messages = append(s.messages, step)
		}
		// The answers to the message's calls follow it directly.
		end := i + 1
		for end < len(all) && all[end].Role == chat.RoleTool {
			end++
		}
		for k := i + 1; k < end; k++ {
			s.answer(m, &all[k], kept.IDs, end == len(all))
		}
		for _, image := range kept.Images {
			s.messages = append(s.messages, image)
		}
		i = end - 1
	}
	s.own = len(s.messages)
}

// answer adds the caller's answer to a call of an assistant message. Ids are those of the message's steps;
// nil: it has none. Open reports that the conversation ends with these answers, so that an approval among
// them must be acted on now; an earlier one has been acted on before.
func (s *Stream) answer(assistant, m *chat.Message, ids map[string]string, open bool) {
	var made chat.PastCall
	for _, c := range assistant.ToolCalls {
		if c.ID == m.ToolCallID {
			made = c
		}
	}
	id := ids[made.ID]
	if id == "" {
		id = made.ID
	}
	// A text like {"approve":true} is an approval if the tool needs one. If no server offers the tool any
	// more, its prefixed name shows that it was an MCP tool.
	r := s.offer.find(made.Name)
	approve, decided := decision(m.Content.Text())
	isApproval := r != nil && r.approve || r == nil && decided && !s.offer.functions[made.Name] && strings.Contains(made.Name, "__")
	switch {
	case !isApproval && ids == nil: // an ordinary result: the caller's own bytes
		s.messages = append(s.messages, m.Raw())
	case !isApproval || !decided: // the same, under the id that the upstream knows
		s.messages = append(s.messages, toolMessage(id, m.Content.Text()))
	case !approve:
		s.messages = append(s.messages, toolMessage(id, "The user has not approved this call."))
	default:
		s.allow(made, id, r, open)
	}
}

// maxDecision is the longest text in bytes that is read as a decision, spaces included. Longer texts are
// results, which may be large and are not decoded.
const maxDecision = 256

// decision reads {"approve":true} or {"approve":false}. It reports false for any other text.
func decision(text string) (approve, ok bool) {
	if len(text) > maxDecision {
		return false, false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil || len(members) != 1 {
		return false, false
	}
	// Only the two literals: "true" as a string, or 1, is no decision to run something.
	switch string(members["approve"]) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// allow replaces the approval of a call with its result. An approved call runs once: a request that is sent
// again, or that has the approval further back, gets the result of the first run. An id is kept per call,
// not per approval, so a caller cannot make a call run twice by approving it twice.
func (s *Stream) allow(made chat.PastCall, id string, r *remote, open bool) {
	if result, ok, err := s.task.Memory.Recall(s.ctx, resultKey(made.ID)); err == nil && ok {
		s.messages = append(s.messages, toolMessage(id, string(result)))
		return
	}
	if !open {
		s.messages = append(s.messages, toolMessage(id, "(The call was approved and has run. Its result is no longer known.)"))
		return
	}
	// The call runs later, in Start, when the caller is getting keep-alive comments. Its place in the
	// conversation is reserved now.
	c := &call{id: id, name: made.Name, remote: r, ours: made.ID}
	c.arguments.WriteString(made.Arguments())
	s.approved = append(s.approved, approval{c, len(s.messages)})
	s.messages = append(s.messages, nil) // runApproved fills it in
}

// runApproved runs the calls that the caller has allowed, puts their results into the conversation, and
// keeps them for repeats. It does nothing if there are none.
func (s *Stream) runApproved() {
	if len(s.approved) == 0 {
		return
	}
	calls := make([]*call, len(s.approved))
	for i, a := range s.approved {
		calls[i] = a.call
	}
	s.runAll(calls)
	// The results go to the places that allow reserved, in the order of the conversation.
	for _, a := range s.approved {
		s.messages[a.at] = toolMessage(a.call.id, a.call.text)
		if s.task.Show && a.call.remote != nil {
			s.early = append(s.early, s.show(a.call))
		}
		if len(a.call.images) > 0 {
			s.messages = append(s.messages, imageMessage(a.call))
		}
		ctx, cancel := context.WithTimeout(s.ctx, keepTime)
		_ = s.task.Memory.Keep(ctx, resultKey(a.call.ours), []byte(a.call.text)) // else it is as good as expired
		cancel()
	}
	s.approved, s.own = nil, len(s.messages)
}

var _ provider.Stream = (*Stream)(nil)
