package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

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
	Choices []wireChoice `json:"choices"`
	Usage   *figures     `json:"usage"`
	XGroq   struct {
		Usage *figures `json:"usage"`
	} `json:"x_groq"` // where Groq has its figures
	Error json.RawMessage `json:"error"`
}

type wireChoice struct {
	Index   *int            `json:"index"`
	Delta   *wireDelta      `json:"delta"`
	Message *wireDelta      `json:"message"`
	Finish  *string         `json:"finish_reason"`
	Error   json.RawMessage `json:"error"`
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
	Custom *struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"custom"`
}

// figures is a usage object; one that cannot be read is as good as none.
type figures struct {
	usage chat.Usage
	ok    bool
}

func (f *figures) UnmarshalJSON(raw []byte) error {
	f.usage, f.ok = ReadUsage(raw)
	return nil
}

type wireUsage struct {
	Prompt        int             `json:"prompt_tokens"`
	Completion    int             `json:"completion_tokens"`
	Total         json.RawMessage `json:"total_tokens"`
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
	if isThere(w.Error) {
		return nil, Failed(w.Error)
	}
	var events []Event
	for i := range w.Choices {
		c := &w.Choices[i]
		if isThere(c.Error) {
			return nil, Failed(c.Error)
		}
		index := i
		if c.Index != nil {
			index = *c.Index
		}
		switch {
		case c.Delta != nil:
			events = d.delta(events, index, c.Delta)
		case c.Message != nil:
			events = d.delta(events, index, c.Message)
		}
		if c.Finish == nil || *c.Finish == "" {
			continue
		}
		finish, ok := finishOf(*c.Finish)
		if !ok {
			return nil, Cut(errors.New("the upstream's finish reason means that it failed"))
		}
		events = append(events, Event{Kind: Finish, Choice: index, Finish: finish})
	}
	for _, f := range []*figures{w.Usage, w.XGroq.Usage} {
		if f != nil && f.ok {
			return append(events, Event{Kind: Usage, Usage: f.usage}), nil
		}
	}
	return events, nil
}

// isThere reports whether a member was given, and not as null.
func isThere(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// ReadUsage reads a usage object of the OpenAI dialect; false where there are no figures in it.
func ReadUsage(raw []byte) (chat.Usage, bool) {
	if len(raw) == 0 {
		return chat.Usage{}, false
	}
	var w wireUsage
	if json.Unmarshal(raw, &w) != nil || w.Prompt <= 0 && w.Completion <= 0 {
		return chat.Usage{}, false
	}
	// The wire counts some parts twice; ours are disjoint.
	prompt, completion := ClampTokens(w.Prompt), ClampTokens(w.Completion)
	if r := w.CompletionDetails.Reasoning; r > 0 && string(w.Total) == strconv.Itoa(w.Prompt+w.Completion+r) {
		completion = ClampTokens(w.Completion + r) // xAI counts them apart, as its total tells
	}
	u := chat.Usage{
		Cached:    min(ClampTokens(w.PromptDetails.Cached), prompt),
		Reasoning: min(ClampTokens(w.CompletionDetails.Reasoning), completion),
	}
	u.Prompt, u.Completion = prompt-u.Cached, completion-u.Reasoning
	return u, true
}

// maxTokens is more than any call can consume. A larger figure is an error of the upstream.
const maxTokens = 1 << 30

// ClampTokens returns a token count that an upstream reported, within 0 and a bound that no call reaches.
// Sums of clamped counts do not overflow.
func ClampTokens(n int) int { return max(0, min(n, maxTokens)) }

func (d *Decoder) delta(events []Event, choice int, w *wireDelta) []Event {
	text := func(kind Kind, s string) {
		if s != "" {
			events = append(events, Event{Kind: kind, Choice: choice, Text: s})
		}
	}
	switch { // some write both, the same
	case w.ReasoningContent != nil && *w.ReasoningContent != "":
		text(Reasoning, *w.ReasoningContent)
	case w.Reasoning != nil:
		text(Reasoning, *w.Reasoning)
	}
	thought, said := contentText(w.Content)
	text(Reasoning, thought)
	text(Text, said)
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
	if w.Custom != nil {
		w.Function.Name, w.Function.Arguments = w.Custom.Name, w.Custom.Input
	}
	piece := ToolPiece{Arguments: argumentsText(w.Function.Arguments), Custom: w.Custom != nil}
	ours := 0
	for i := range slices.Backward(d.calls) { // the newest first: some upstreams give all calls one index
		c := &d.calls[i]
		if c.choice != choice {
			continue
		}
		var same bool
		switch {
		case w.Index == nil && w.ID == "":
			same = ours == 0 && w.Function.Name == ""
		case w.Index == nil:
			same = w.ID == c.id
		default:
			same = *w.Index == c.index && (w.ID == "" || w.ID == c.id || c.id == "" && w.Function.Name == "")
		}
		if same {
			piece.Index = c.ours
			return piece
		}
		ours++
	}
	c := decodedCall{choice: choice, ours: ours, index: ours, id: w.ID}
	if w.Index != nil {
		c.index = *w.Index
	}
	d.calls = append(d.calls, c)
	piece.Index, piece.ID, piece.Name = ours, w.ID, w.Function.Name
	return piece
}

// contentText is a content's text: a string, or the texts of its parts. Mistral thinks in parts, too.
func contentText(raw json.RawMessage) (thought, said string) {
	if json.Unmarshal(raw, &said) == nil {
		return "", said
	}
	type textPart struct {
		Text string `json:"text"`
	}
	var parts []struct {
		textPart
		Thinking []textPart `json:"thinking"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", ""
	}
	for _, p := range parts {
		said += p.Text
		for _, t := range p.Thinking {
			thought += t.Text
		}
	}
	return thought, said
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

// finishOf maps the finish reasons that compatible upstreams use to the four of the contract. It
// reports false for those that mean that the reply broke off.
func finishOf(s string) (chat.Finish, bool) {
	s, _, _ = strings.Cut(strings.ToLower(s), ":") // content_filter: RECITATION
	switch s {
	case "length", "max_tokens", "model_length":
		return chat.FinishLength, true
	case "tool_calls", "function_call", "tool_use":
		return chat.FinishToolCalls, true
	case "content_filter", "safety", "recitation":
		return chat.FinishContentFilter, true
	case "error", "abort", "insufficient_system_resource":
		return "", false
	default: // stop, eos, end_turn and whatever else a normal end is called
		return chat.FinishStop, true
	}
}

// CallID makes an id for a call whose upstream gave none. The end of the request's id tells the turns of
// one request apart; all of it would be longer than the 40 characters that some upstreams take back.
func CallID(requestID string, index int) string {
	return "call_" + requestID[max(0, len(requestID)-20):] + strconv.Itoa(index)
}
