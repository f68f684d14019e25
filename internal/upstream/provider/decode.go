package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/prompt/chat"
)

// Decoder turns replies of OpenAI's dialect, whole or in chunks, into events. It accepts what compatible
// upstreams get wrong: repeated ids and names, missing indexes, arguments that are not a string, finish reasons
// of their own. It remembers the calls of one reply, so each reply needs a Decoder of its own. The zero value is
// ready for use.
//
// Relay decodes only what its scanner does not accept, so the Decoder may see some chunks of a
// reply and not others; it never relies on having seen the first.
type Decoder struct {
	// Fingerprint is the upstream's system_fingerprint, a JSON string, if the last reply or chunk had one.
	Fingerprint []byte

	tier  string        // the last that was told
	calls []decodedCall // in the order in which they began
}

// TierOf returns the service tier with that name, or an empty string for one that OpenAI's clients do not know. It
// returns a constant, so that name may be a temporary copy.
func TierOf(name string) string {
	for _, tier := range [...]string{"default", "auto", "flex", "scale", "priority", "fast", "ultrafast"} {
		if name == tier {
			return tier
		}
	}
	return ""
}

// decodedCall identifies a call that has begun.
// Relay's rules ask for indexes without gaps, so each call gets a number of ours.
type decodedCall struct {
	choice int
	index  int    // the upstream's index, which may have gaps
	id     string // the upstream's id; empty if it gave none
	ours   int    // the index that events carry: within the choice, without gaps
}

// wireReply is a chat.completion or a chat.completion.chunk.
// Members that nobody reads are left out. A member of a wrong type fails the whole decoding, so
// those that upstreams use freely are raw or any.
type wireReply struct {
	Choices []wireChoice `json:"choices"`
	Usage   *figures     `json:"usage"`
	XGroq   struct {
		Usage *figures `json:"usage"`
	} `json:"x_groq"` // where Groq puts the figures of a stream
	Error       json.RawMessage `json:"error"`
	Fingerprint json.RawMessage `json:"system_fingerprint"`
	Tier        any             `json:"service_tier"` // a string
}

// wireChoice has a Delta in a chunk and a Message in a whole reply.
type wireChoice struct {
	Index   *int            `json:"index"`
	Delta   *wireDelta      `json:"delta"`
	Message *wireDelta      `json:"message"`
	Finish  *string         `json:"finish_reason"`
	Error   json.RawMessage `json:"error"`

	Logprobs json.RawMessage `json:"logprobs"`
}

// wireDelta is a message or a piece of one.
type wireDelta struct {
	Content          json.RawMessage `json:"content"` // a string, null, or a list of parts
	Refusal          *string         `json:"refusal"`
	ReasoningContent *string         `json:"reasoning_content"` // DeepSeek's name, which most others use
	Reasoning        *string         `json:"reasoning"`         // the name of OpenRouter, Groq and newer vLLM
	ToolCalls        []wireCall      `json:"tool_calls"`
	Annotations      json.RawMessage `json:"annotations"`
	Audio            json.RawMessage `json:"audio"`
}

// wireCall is a tool call or a piece of one.
type wireCall struct {
	Index    *int   `json:"index"` // nil in whole replies, and in the chunks of some upstreams
	ID       string `json:"id"`
	Type     any    `json:"type"` // a string
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a string; some upstreams send the object itself
	} `json:"function"`
	Custom *struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"custom"`
}

// figures is a usage object. One that cannot be read counts as none and does not fail the reply.
type figures struct {
	usage chat.Usage
	ok    bool // there are figures in it
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (f *figures) UnmarshalJSON(raw []byte) error {
	f.usage, f.ok = ReadUsage(raw)
	return nil
}

// wireUsage is a usage object on the wire. The total is raw, because only one comparison needs it
// and some upstreams send it as a string.
type wireUsage struct {
	Prompt        int             `json:"prompt_tokens"`
	Completion    int             `json:"completion_tokens"`
	Total         json.RawMessage `json:"total_tokens"`
	PromptDetails struct {
		wireModes
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"`
		// Qwen's: how much it has written to its cache, and how much of that for five minutes.
		Created int `json:"cache_creation_input_tokens"`
		Kept    struct {
			Minutes int `json:"ephemeral_5m_input_tokens"`
		} `json:"cache_creation"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		wireModes
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`

	// What others call cached_tokens: DeepSeek, Kimi and Mistral.
	Hit       int `json:"prompt_cache_hit_tokens"`
	Cached    int `json:"cached_tokens"`
	NumCached int `json:"num_cached_tokens"`
}

// wireModes are the tokens of sound and of pictures.
type wireModes struct {
	Audio int `json:"audio_tokens"`
	Image int `json:"image_tokens"`
}

// Decode reads one chat.completion or chat.completion.chunk. It returns a fault if the JSON cannot be read, or
// if it says that the reply failed. The events do not refer to raw.
//
// The events of a chunk come in a fixed order: the tier, then for each choice reasoning, text,
// refusal, calls and the finish reason, then the usage.
func (d *Decoder) Decode(raw []byte) ([]Event, error) {
	var w wireReply
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, Garbled(err)
	}
	if isThere(w.Error) {
		return nil, Failed(w.Error)
	}
	if d.Fingerprint = nil; bytes.HasPrefix(w.Fingerprint, []byte{'"'}) {
		d.Fingerprint = w.Fingerprint
	}
	var events []Event
	name, _ := w.Tier.(string)
	if tier := TierOf(name); tier != "" && tier != d.tier {
		d.tier = tier
		events = append(events, Event{Kind: Tier, Text: tier})
	}
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
		events = append(events, Event{Kind: Finish, Choice: index, Finish: finish, Rest: c.rest()})
	}
	for _, f := range []*figures{w.Usage, w.XGroq.Usage} {
		if f != nil && f.ok {
			return append(events, Event{Kind: Usage, Usage: f.usage}), nil
		}
	}
	return events, nil
}

// rest returns what is passed on of a whole choice beside its texts and calls, or nil.
func (c *wireChoice) rest() *Rest {
	if c.Message == nil || !isThere(c.Logprobs) && !isThere(c.Message.Annotations) && !isThere(c.Message.Audio) {
		return nil
	}
	return &Rest{Logprobs: c.Logprobs, Annotations: c.Message.Annotations, Audio: c.Message.Audio}
}

// isThere reports whether a member is present and not null.
func isThere(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// ReadUsage reads a usage object of OpenAI's dialect. It reports false if there are no figures in it.
func ReadUsage(raw []byte) (chat.Usage, bool) {
	if len(raw) == 0 {
		return chat.Usage{}, false
	}
	var w wireUsage
	if json.Unmarshal(raw, &w) != nil || w.Prompt <= 0 && w.Completion <= 0 {
		return chat.Usage{}, false
	}
	if r := w.CompletionDetails.Reasoning; r > 0 && string(w.Total) == strconv.Itoa(w.Prompt+w.Completion+r) {
		w.Completion += r // xAI does not include them, as its total shows
	}
	in, out := &w.PromptDetails, &w.CompletionDetails
	u := Disjoint(w.Prompt, cmp.Or(in.Cached, w.Hit, w.Cached, w.NumCached), w.Completion, out.Reasoning)
	minutes := ClampTokens(in.Kept.Minutes)
	return Split(u, chat.Usage{
		CacheWrite5m: minutes, CacheWrite: ClampTokens(cmp.Or(in.Written, in.Created-minutes)),
		AudioIn: in.Audio, ImageIn: in.Image, AudioOut: out.Audio, ImageOut: out.Image,
	}), true
}

// Split returns figures with the parts of their prompt and of their completion that parts has. A part is at most what the
// parts before it have left.
func Split(u, parts chat.Usage) chat.Usage {
	prompt, completion := u.Prompt, u.Completion
	for _, p := range [...]struct {
		to, left *int
		n        int
	}{
		{&u.CacheWrite5m, &prompt, parts.CacheWrite5m},
		{&u.CacheWrite1h, &prompt, parts.CacheWrite1h},
		{&u.CacheWrite, &prompt, parts.CacheWrite},
		{&u.AudioIn, &prompt, parts.AudioIn},
		{&u.ImageIn, &prompt, parts.ImageIn},
		{&u.AudioOut, &completion, parts.AudioOut},
		{&u.ImageOut, &completion, parts.ImageOut},
	} {
		*p.to = min(ClampTokens(p.n), *p.left)
		*p.left -= *p.to
	}
	return u
}

// Disjoint returns figures of a wire on which the prompt includes its cached tokens and the completion its reasoning. The
// parts of a chat.Usage are disjoint. Figures out of range are clamped.
func Disjoint(prompt, cached, completion, reasoning int) chat.Usage {
	prompt, completion = ClampTokens(prompt), ClampTokens(completion)
	u := chat.Usage{Cached: min(ClampTokens(cached), prompt), Reasoning: min(ClampTokens(reasoning), completion)}
	u.Prompt, u.Completion = prompt-u.Cached, completion-u.Reasoning
	return u
}

// maxTokens is more than any call can consume. A larger figure is an error of the upstream.
const maxTokens = 1 << 30

// ClampTokens returns a token count that an upstream reported, within 0 and a bound that no call reaches.
// Sums of clamped counts do not overflow.
func ClampTokens(n int) int { return max(0, min(n, maxTokens)) }

// delta appends the events of a message or a piece of one.
func (d *Decoder) delta(events []Event, choice int, w *wireDelta) []Event {
	text := func(kind Kind, s string) {
		if s != "" {
			events = append(events, Event{Kind: kind, Choice: choice, Text: s})
		}
	}
	switch { // some upstreams write the same text into both
	case w.ReasoningContent != nil && *w.ReasoningContent != "":
		text(Reasoning, *w.ReasoningContent)
	case w.Reasoning != nil:
		text(Reasoning, *w.Reasoning)
	}
	thought, said := contentText(w.Content)
	text(Reasoning, thought)
	text(Text, said)
	if w.Refusal != nil {
		text(Declined, *w.Refusal)
	}
	for i := range w.ToolCalls {
		events = append(events, Event{Kind: ToolCall, Choice: choice, Tool: d.call(choice, &w.ToolCalls[i])})
	}
	return events
}

// call returns the piece with the index of the call that it belongs to. The call is found by the upstream's
// index, else by its id; a piece with neither continues the last call. If none fits, a new call begins.
//
// Only the piece that begins a call has an id and a name, whatever the upstream repeats.
func (d *Decoder) call(choice int, w *wireCall) ToolPiece {
	if w.Custom != nil {
		w.Function.Name, w.Function.Arguments = w.Custom.Name, w.Custom.Input
	}
	piece := ToolPiece{Arguments: argumentsText(w.Function.Arguments), Custom: w.Custom != nil || w.Type == "custom"}
	ours := 0
	for i := range slices.Backward(d.calls) { // the newest first: some upstreams give all calls the same index
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

// contentText returns the text of a content, which is a string or a list of parts. Mistral also puts its
// thinking into parts; that is returned as thought.
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

// argumentsText returns a call's arguments as text, also if the upstream sent the object itself. Unlike
// ArgumentsText it returns no text for none: more pieces may follow.
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

// finishOf translates the finish reasons of compatible upstreams to the four of our API. It reports false for
// those that say that the reply broke off.
func finishOf(s string) (chat.Finish, bool) {
	s, _, _ = strings.Cut(strings.ToLower(s), ":") // as in content_filter: RECITATION
	switch s {
	case "length", "max_tokens", "model_length":
		return chat.FinishLength, true
	case "tool_calls", "function_call", "tool_use":
		return chat.FinishToolCalls, true
	case "content_filter", "safety", "recitation":
		return chat.FinishContentFilter, true
	case "error", "abort", "insufficient_system_resource":
		return "", false
	default: // stop, eos, end_turn and other names of a normal end
		return chat.FinishStop, true
	}
}

// CallID returns an id for a call whose upstream gave none. It uses the end of the request's id, which differs
// between the turns of one request. The whole id would make it longer than the 40 characters that some upstreams
// accept when the call comes back.
func CallID(requestID string, index int) string {
	return "call_" + requestID[max(0, len(requestID)-20):] + strconv.Itoa(index)
}
