package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// response is a reply of the Responses API, as server-sent events or in one piece.
//
// A reply is a list of items: messages, reasoning, calls, and whatever tools of the vendor have
// done. Events name an item by its place in that list, output_index.
type response struct {
	provider.Decoded
	ctx  context.Context //nolint:containedctx // one call's, to keep the reasoning at its end
	call *provider.Call

	bill      provider.Bill     // without its uses
	uses      map[string]int    // calls of tools that the vendor charges for, by their names; nil: there are none
	calls     []called          // in the order in which they began
	reasoning []json.RawMessage // items that must come back with the results of the calls

	containers []string // that code has run in
	named      bool     // the vendor's names of models are those that it is called with
}

// called is a call that has begun.
type called struct {
	output int // its place among the items
	id     string
	some   bool // some of its arguments have come
}

// keptReasoning is the state.Member under which the reasoning of a response is kept.
const keptReasoning = "responses"

// Next implements provider.Stream.
func (s *response) Next() (*provider.Event, error) { return s.Pull(s.read) }

// Bill implements provider.Billed.
func (s *response) Bill() provider.Bill {
	b := s.bill
	b.Uses = provider.Used(s.uses)
	return b
}

// ran counts an item that is about a call of a tool that the vendor has run. Calls of MCP servers cost nothing beside their
// tokens. Only the searches among the calls of a web search are charged for, not the pages that it opens. Code is charged for
// by the container that it runs in.
func (s *response) ran(item *responseItem) {
	if !isServed(item.Type) {
		return
	}
	s.bill.Calls++
	name, isCall := strings.CutSuffix(item.Type, "_call")
	switch {
	case !isCall, name == "mcp":
		return
	case name == "web_search" && item.Action.Type != "" && item.Action.Type != "search":
		return
	case name == "code_interpreter" && item.Container != "":
		if slices.Contains(s.containers, item.Container) {
			return
		}
		s.containers = append(s.containers, item.Container)
	}
	if s.uses == nil {
		s.uses = map[string]int{}
	}
	s.uses[name]++
}

// isServed reports whether an item is about a call of a tool that the vendor has run: one that is no call for the caller, or
// the output of a call, which otherwise only callers write.
func isServed(kind string) bool {
	switch kind {
	case "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call", "tool_search_call":
		return false
	case "tool_search_output":
		return false
	}
	return strings.HasSuffix(kind, "_call") || strings.HasSuffix(kind, "_call_output")
}

// read reads the next event, or the one piece.
func (s *response) read() error {
	if s.Single {
		return s.Whole(func(raw []byte) error {
			var o responseObject
			if err := json.Unmarshal(raw, &o); err != nil {
				return provider.Garbled(err)
			}
			err := s.object(&o)
			s.Quote(raw, false)
			return err
		})
	}
	ev, err := s.Reply.Event()
	switch {
	case errors.Is(err, io.EOF):
		return provider.Cut(io.ErrUnexpectedEOF) // the last event ends the reply
	case err != nil:
		return err
	case string(bytes.TrimSpace(ev.Data)) == doneMark: // some upstreams send it here, too
		return nil
	}
	return s.decode(ev.Data)
}

// responseEvent is one event of a stream. Which members are set depends on Type.
type responseEvent struct {
	Type      string          `json:"type"`
	Output    int             `json:"output_index"`
	Delta     string          `json:"delta"`
	Item      *responseItem   `json:"item"`
	Response  *responseObject `json:"response"`
	Arguments string          `json:"arguments"`
}

// responseObject is a whole reply. The first events of a stream have one without output.
type responseObject struct {
	Status     string            `json:"status"`
	Error      json.RawMessage   `json:"error"`
	Incomplete *incomplete       `json:"incomplete_details"`
	Output     []json.RawMessage `json:"output"`
	Usage      *responseUsage    `json:"usage"`
	Tier       any               `json:"service_tier"` // a string
	Model      any               `json:"model"`        // a string
}

// incomplete says why a reply was cut.
type incomplete struct {
	Reason string `json:"reason"`
}

// responseUsage has the figures of a reply. Input includes the cached tokens, and output the
// reasoning.
type responseUsage struct {
	Input        int `json:"input_tokens"`
	InputDetails struct {
		responseModes
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output        int `json:"output_tokens"`
	OutputDetails struct {
		responseModes
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

// responseModes are the tokens of sound and of pictures.
type responseModes struct {
	Audio int `json:"audio_tokens"`
	Image int `json:"image_tokens"`
}

// figures translates the usage.
func (u *responseUsage) figures() chat.Usage {
	in, out := &u.InputDetails, &u.OutputDetails
	return provider.Split(provider.Disjoint(u.Input, in.Cached, u.Output, out.Reasoning), chat.Usage{
		CacheWrite: in.Written, AudioIn: in.Audio, ImageIn: in.Image, AudioOut: out.Audio, ImageOut: out.Image,
	})
}

// responseItem is an item of the output.
type responseItem struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Input     string `json:"input"` // of a custom tool
	Encrypted string `json:"encrypted_content"`
	Container string `json:"container_id"` // of code that the vendor has run
	Action    struct {
		Type string `json:"type"`
	} `json:"action"` // of a web search
	Content []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
	raw json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler. In items of other types the members may be of other types, too.
// A copy of the JSON is kept, because reasoning must go back as it came.
func (i *responseItem) UnmarshalJSON(raw []byte) error {
	type plain responseItem
	i.raw = append([]byte(nil), raw...)
	err := json.Unmarshal(raw, (*plain)(i))
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); other {
		return nil
	}
	return err
}

// read decodes an event. The delta of one that is only quoted may be no text, such as that of a shell's output.
func (ev *responseEvent) read(raw []byte) error {
	err := json.Unmarshal(raw, ev)
	if other, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && other.Field == "delta" {
		switch ev.Type {
		case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta", "response.reasoning_text.delta",
			"response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		default:
			return nil
		}
	}
	return err
}

// decode turns an event into those of a reply.
//
// Events that are not listed repeat what was said before, such as the whole text at its end, and
// are only quoted.
func (s *response) decode(raw []byte) error {
	var ev responseEvent
	if err := ev.read(raw); err != nil {
		return provider.Garbled(err)
	}
	strange := false
	switch ev.Type {
	case "response.output_text.delta":
		s.PushText(provider.Text, 0, ev.Delta)
	case "response.refusal.delta":
		s.PushText(provider.Declined, 0, ev.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		s.PushText(provider.Reasoning, 0, ev.Delta)
	case "response.output_item.added":
		if ev.Item != nil {
			strange = s.begin(ev.Output, ev.Item)
		}
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		s.arguments(ev.Output, ev.Delta)
	case "response.output_item.done":
		if ev.Item != nil {
			s.done(ev.Output, ev.Item)
		}
	case "response.completed", "response.incomplete", "response.failed":
		if ev.Response == nil {
			return provider.Garbled(errors.New("the last event has no response"))
		}
		if err := s.end(ev.Response); err != nil {
			return err
		}
		s.End()
	case "error":
		return provider.Failed(s.Reply.Conceal(raw))
	}
	s.Quote(raw, strange)
	return nil
}

// begin begins an item. It reports whether the item is of a kind that only callers of the dialect know, such as a search.
func (s *response) begin(output int, item *responseItem) (strange bool) {
	switch item.Type {
	case "function_call", "custom_tool_call":
		s.calls = append(s.calls, called{output: output, id: item.CallID})
		s.Push(provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: len(s.calls) - 1, ID: item.CallID, Name: item.Name, Custom: item.Type == "custom_tool_call"}})
		s.arguments(output, item.Arguments+item.Input)
	case "message", "reasoning":
	default:
		return true
	}
	return false
}

// arguments adds a piece of the arguments of a call.
func (s *response) arguments(output int, piece string) {
	for i := range s.calls {
		if c := &s.calls[i]; c.output == output && piece != "" {
			c.some = true
			s.Push(provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, Arguments: piece}})
		}
	}
}

// done ends an item.
// Only encrypted reasoning is kept: nothing is stored at the vendor, so an id alone would be of no
// use there.
func (s *response) done(output int, item *responseItem) {
	s.ran(item)
	switch item.Type {
	case "reasoning":
		if item.Encrypted != "" {
			s.reasoning = append(s.reasoning, item.raw)
		}
	case "function_call", "custom_tool_call":
		for i := range s.calls {
			if s.calls[i].output == output && !s.calls[i].some { // the upstream sends no pieces
				s.arguments(output, item.Arguments+item.Input)
			}
		}
	}
}

// object turns a whole reply into events.
func (s *response) object(o *responseObject) error {
	for i, raw := range o.Output {
		var item responseItem
		if json.Unmarshal(raw, &item) != nil {
			continue // of a kind that is not known
		}
		for _, part := range item.Summary {
			s.PushText(provider.Reasoning, 0, part.Text)
		}
		for _, part := range item.Content {
			switch {
			case item.Type == "reasoning":
				s.PushText(provider.Reasoning, 0, part.Text)
			case part.Type == "refusal":
				s.PushText(provider.Declined, 0, part.Refusal)
			default:
				s.PushText(provider.Text, 0, part.Text)
			}
		}
		s.begin(i, &item)
		s.done(i, &item)
	}
	return s.end(o)
}

// end pushes the end of a reply and its figures, and keeps what the next turn needs.
//
// A status other than completed and incomplete is a failure, with or without an error object.
func (s *response) end(o *responseObject) error {
	finish := chat.FinishStop
	switch {
	case o.Status == "incomplete" && o.Incomplete != nil && o.Incomplete.Reason == "content_filter":
		finish = chat.FinishContentFilter
	case o.Status == "incomplete":
		finish = chat.FinishLength
	case o.Status != "completed":
		if len(o.Error) == 0 || string(o.Error) == "null" {
			return provider.Cut(errors.New("the response has the status " + o.Status))
		}
		return provider.Failed(s.Reply.Conceal(o.Error))
	case len(s.calls) > 0:
		finish = chat.FinishToolCalls
	}
	s.bill.Tier, _ = o.Tier.(string)
	if s.Words == nil { // otherwise it is in what the upstream itself says
		s.PushText(provider.Tier, 0, provider.TierOf(s.bill.Tier))
	}
	if model, _ := o.Model.(string); s.named {
		s.bill.Model = provider.Served(s.call.Upstream, model)
	}
	s.Push(provider.Event{Kind: provider.Finish, Finish: finish})
	if u := o.Usage; u != nil && (u.Input > 0 || u.Output > 0) {
		s.Push(provider.Event{Kind: provider.Usage, Usage: u.figures()})
	}
	if len(s.calls) > 0 && len(s.reasoning) > 0 && s.Words == nil {
		value, err := json.Marshal(s.reasoning)
		if err == nil {
			value, err = json.Marshal(state{Dialect: dialect, Member: keptReasoning, Value: value})
		}
		if err == nil {
			_ = s.call.Memory.Keep(s.ctx, s.calls[0].id, value) // without it the next turn is worse, but this reply is complete
		}
	}
	return nil
}
