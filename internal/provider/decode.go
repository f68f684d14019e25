package provider

import (
	"bytes"
	"encoding/json"
	"strconv"

	"sluice/internal/chat"
)

// Decoder turns replies of the OpenAI dialect, whole or in chunks, into events. It forgives what
// compatible upstreams get wrong: repeated ids and names, missing indexes, arguments that are not a
// string, finish reasons of their own. It remembers the calls of one reply; use one for each.
type Decoder struct {
	calls []decodedCall
}

type decodedCall struct {
	choice int
	index  int // the upstream's, which may have gaps
	id     string
	ours   int // the index within the choice that we hand out
}

type wireReply struct {
	Choices []wireChoice    `json:"choices"`
	Usage   *wireUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type wireChoice struct {
	Index   int        `json:"index"`
	Delta   *wireDelta `json:"delta"`
	Message *wireDelta `json:"message"`
	Finish  *string    `json:"finish_reason"`
}

type wireDelta struct {
	Content          json.RawMessage `json:"content"`
	Refusal          *string         `json:"refusal"`
	ReasoningContent *string         `json:"reasoning_content"`
	Reasoning        *string         `json:"reasoning"`
	ToolCalls        []wireCall      `json:"tool_calls"`
}

type wireCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type wireUsage struct {
	Prompt        int `json:"prompt_tokens"`
	Completion    int `json:"completion_tokens"`
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// Decode reads one chat.completion or chat.completion.chunk. A reply that says it failed, or that
// cannot be read, is a fault.
func (d *Decoder) Decode(raw []byte) ([]Event, error) {
	var w wireReply
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, Garbled(err)
	}
	if len(w.Error) > 0 && !bytes.Equal(w.Error, []byte("null")) {
		return nil, Failed(w.Error)
	}
	var events []Event
	for i := range w.Choices {
		events = d.choice(events, &w.Choices[i])
	}
	if w.Usage != nil {
		events = append(events, Event{Kind: Usage, Usage: w.Usage.usage()})
	}
	return events, nil
}

// ReadUsage reads a usage object of the OpenAI dialect; false where it is null or no such thing.
func ReadUsage(raw []byte) (chat.Usage, bool) {
	var w *wireUsage
	if json.Unmarshal(raw, &w) != nil || w == nil {
		return chat.Usage{}, false
	}
	return w.usage(), true
}

// usage takes the parts apart that the wire counts twice.
func (w *wireUsage) usage() chat.Usage {
	u := chat.Usage{
		Cached:    clamp(w.PromptDetails.Cached, w.Prompt),
		Reasoning: clamp(w.CompletionDetails.Reasoning, w.Completion),
	}
	u.Prompt, u.Completion = max(0, w.Prompt)-u.Cached, max(0, w.Completion)-u.Reasoning
	return u
}

func clamp(part, whole int) int { return max(0, min(part, whole)) }

func (d *Decoder) choice(events []Event, c *wireChoice) []Event {
	if delta := c.Delta; delta != nil {
		events = d.delta(events, c.Index, delta)
	}
	if c.Message != nil {
		events = d.delta(events, c.Index, c.Message)
	}
	if c.Finish != nil && *c.Finish != "" {
		events = append(events, Event{Kind: Finish, Choice: c.Index, Finish: finishOf(*c.Finish)})
	}
	return events
}

func (d *Decoder) delta(events []Event, choice int, w *wireDelta) []Event {
	text := func(kind Kind, s string) {
		if s != "" {
			events = append(events, Event{Kind: kind, Choice: choice, Text: s})
		}
	}
	switch {
	case w.ReasoningContent != nil:
		text(Reasoning, *w.ReasoningContent)
	case w.Reasoning != nil:
		text(Reasoning, *w.Reasoning)
	}
	text(Text, contentText(w.Content))
	if w.Refusal != nil {
		text(Text, *w.Refusal)
	}
	for i := range w.ToolCalls {
		events = append(events, Event{Kind: ToolCall, Choice: choice, Tool: d.call(choice, &w.ToolCalls[i])})
	}
	return events
}

// call finds which call a piece belongs to: by index, else by id, else it goes on with the last one.
func (d *Decoder) call(choice int, w *wireCall) ToolPiece {
	piece := ToolPiece{Arguments: argumentsText(w.Function.Arguments)}
	ours := 0
	for i := range d.calls {
		c := &d.calls[i]
		if c.choice != choice {
			continue
		}
		ours++
		same := w.Index != nil && *w.Index == c.index && (w.ID == "" || c.id == w.ID)
		if w.Index == nil {
			same = w.ID != "" && w.ID == c.id || w.ID == "" && w.Function.Name == "" && i == d.last(choice)
		}
		if same {
			piece.Index = c.ours
			return piece
		}
	}
	c := decodedCall{choice: choice, ours: ours, index: ours, id: w.ID}
	if w.Index != nil {
		c.index = *w.Index
	}
	d.calls = append(d.calls, c)
	piece.Index, piece.ID, piece.Name = ours, w.ID, w.Function.Name
	return piece
}

// last is the position of the choice's newest call.
func (d *Decoder) last(choice int) int {
	for i := len(d.calls) - 1; i >= 0; i-- {
		if d.calls[i].choice == choice {
			return i
		}
	}
	return -1
}

// contentText is a content's text: a string, or the texts of its parts.
func contentText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// argumentsText is a call's arguments as a text, also where the upstream sent the object itself.
func argumentsText(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// finishOf maps the finish reasons that compatible upstreams use to the four of the contract.
func finishOf(s string) chat.Finish {
	switch s {
	case "length", "max_tokens", "model_length":
		return chat.FinishLength
	case "tool_calls", "function_call", "tool_use":
		return chat.FinishToolCalls
	case "content_filter", "safety", "recitation":
		return chat.FinishContentFilter
	default: // stop, eos, end_turn and whatever else a normal end is called
		return chat.FinishStop
	}
}

// CallID makes an id for a call whose upstream gave none.
func CallID(requestID string, index int) string {
	return "call_" + requestID[:min(len(requestID), 20)] + strconv.Itoa(index)
}
