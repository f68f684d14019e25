package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"sluice/internal/chat"
	"sluice/internal/provider"
)

// stream is a reply, in events or in one piece.
type stream struct {
	decoder
	reply provider.Reply
	ended func() // keeps what the next turn needs, before the finish reason goes out
	whole bool   // it comes in one piece
	done  bool   // all of it has come
	next  int    // of the events that are ready
}

func (s *stream) Next() (*provider.Event, error) {
	for s.next == len(s.events) {
		if s.done {
			return nil, io.EOF
		}
		s.events, s.next = s.events[:0], 0
		if err := s.read(); err != nil {
			return nil, err
		}
	}
	ev := &s.events[s.next]
	s.next++
	if ev.Kind == provider.Finish {
		s.ended()
	}
	return ev, nil
}

// read takes in the next event, or the one piece.
func (s *stream) read() error {
	if s.whole {
		raw, err := s.reply.Whole()
		if err != nil {
			return err
		}
		s.done = true
		return s.message(raw)
	}
	ev, err := s.reply.Event()
	switch {
	case errors.Is(err, io.EOF) && s.finished:
		s.done = true
		return nil
	case errors.Is(err, io.EOF):
		return provider.Cut(io.ErrUnexpectedEOF)
	case err != nil:
		return err
	}
	s.done, err = s.decode(ev.Data)
	return err
}

func (s *stream) Ready() bool {
	return s.next < len(s.events) || s.done || !s.whole && s.reply.Ready()
}

func (s *stream) Close() error { return s.reply.Close(s.done) }

// decoder makes the dialect's events into ours.
type decoder struct {
	key    []byte // ours, which no error may tell
	names  provider.ToolNames
	json   *provider.JSONText // where the text must be JSON and the model knows no such mode
	turn   provider.Turn
	events []provider.Event

	blocks   []openBlock // that have begun and not ended
	calls    int
	usage    wireUsage
	finished bool
}

// openBlock is a block on its way.
type openBlock struct {
	wireBlock
	at      int // the upstream's index
	call    int // ours, of a call
	some    bool
	thought []byte
}

type wireEvent struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *wireMessage    `json:"message"`
	Block   *wireBlock      `json:"content_block"`
	Delta   wireDelta       `json:"delta"`
	Usage   *wireUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type wireMessage struct {
	Type       string          `json:"type"`
	Content    []wireBlock     `json:"content"`
	StopReason string          `json:"stop_reason"`
	Usage      *wireUsage      `json:"usage"`
	Error      json.RawMessage `json:"error"`
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

type wireDelta struct {
	Type       string `json:"type"`
	Text       string `json:"text"`
	Thinking   string `json:"thinking"`
	Signature  string `json:"signature"`
	Partial    string `json:"partial_json"`
	StopReason string `json:"stop_reason"`
}

// wireUsage is cumulative: what comes later replaces what came before.
type wireUsage struct {
	Input     *int `json:"input_tokens"`
	CacheMade *int `json:"cache_creation_input_tokens"`
	CacheRead *int `json:"cache_read_input_tokens"`
	Output    *int `json:"output_tokens"`
	Details   *struct {
		Thinking int `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// decode reads one event of a stream and reports whether it is the last.
func (d *decoder) decode(raw []byte) (last bool, err error) {
	var w wireEvent
	if err := json.Unmarshal(raw, &w); err != nil {
		return false, provider.Garbled(err)
	}
	switch w.Type {
	case "message_start":
		if w.Message != nil && w.Message.Usage != nil {
			d.usage.add(w.Message.Usage)
		}
	case "content_block_start":
		if w.Block != nil {
			d.begin(w.Index, w.Block)
		}
	case "content_block_delta":
		d.delta(w.Index, &w.Delta)
	case "content_block_stop":
		d.end(w.Index)
	case "message_delta":
		if w.Delta.StopReason != "" && !d.finished {
			return false, d.finish(w.Delta.StopReason, w.Usage)
		}
	case "message_stop":
		if !d.finished {
			return false, provider.Cut(errors.New("the upstream's reply ends without a stop reason"))
		}
		return true, nil
	case "error":
		return false, d.failure(w.Error)
	}
	return false, nil
}

// message reads a reply that comes in one piece.
func (d *decoder) message(raw []byte) error {
	var w wireMessage
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Garbled(err)
	}
	if w.Type == "error" {
		return d.failure(w.Error)
	}
	if w.StopReason == "" {
		return provider.Cut(errors.New("the upstream's reply has no stop reason"))
	}
	for i := range w.Content {
		d.begin(i, &w.Content[i])
		d.end(i)
	}
	return d.finish(w.StopReason, w.Usage)
}

// begin opens a block, with what it brings along.
func (d *decoder) begin(at int, w *wireBlock) {
	b := openBlock{wireBlock: *w, at: at, thought: []byte(w.Thinking)}
	switch w.Type {
	case "text":
		d.text(w.Text)
	case "thinking":
		d.add(provider.Event{Kind: provider.Reasoning, Text: w.Thinking})
	case "tool_use":
		b.call = d.calls
		d.calls++
		d.turn.Add(provider.TurnBlock{Call: w.ID})
		d.events = append(d.events, provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: b.call, ID: w.ID, Name: d.names.Original(w.Name)}})
	case "redacted_thinking":
	default:
		return // what we did not ask for
	}
	d.blocks = append(d.blocks, b)
}

// add puts out a piece of thinking, if there is any.
func (d *decoder) add(ev provider.Event) {
	if ev.Text != "" {
		d.events = append(d.events, ev)
	}
}

func (d *decoder) text(s string) {
	if d.json != nil {
		s = d.json.Pass(s)
	}
	if s != "" {
		d.turn.Add(provider.TurnBlock{Size: len(s)})
		d.events = append(d.events, provider.Event{Kind: provider.Text, Text: s})
	}
}

// open finds a block that has begun.
func (d *decoder) open(at int) int {
	for i := range d.blocks {
		if d.blocks[i].at == at {
			return i
		}
	}
	return -1
}

func (d *decoder) delta(at int, w *wireDelta) {
	i := d.open(at)
	if i < 0 {
		return
	}
	b := &d.blocks[i]
	switch w.Type {
	case "text_delta":
		d.text(w.Text)
	case "thinking_delta":
		b.thought = append(b.thought, w.Thinking...)
		d.add(provider.Event{Kind: provider.Reasoning, Text: w.Thinking})
	case "signature_delta":
		b.Signature += w.Signature
	case "input_json_delta":
		if b.Type == "tool_use" && w.Partial != "" {
			b.some = true
			d.piece(b, w.Partial)
		}
	}
}

func (d *decoder) piece(b *openBlock, arguments string) {
	d.events = append(d.events, provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: b.call, Arguments: arguments}})
}

// end closes a block. Only now thinking has its signature, and a call without pieces its arguments.
func (d *decoder) end(at int) {
	i := d.open(at)
	if i < 0 {
		return
	}
	b := d.blocks[i]
	d.blocks = append(d.blocks[:i], d.blocks[i+1:]...)
	switch b.Type {
	case "tool_use":
		if !b.some {
			d.piece(&b, provider.ArgumentsText(b.Input))
		}
	case "thinking":
		d.keep(signedThinking{b.Type, string(b.thought), b.Signature}, b.Signature)
	case "redacted_thinking":
		d.keep(redactedThinking{b.Type, b.Data}, b.Data)
	}
}

type signedThinking struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type redactedThinking struct {
	Type string `json:"type"`
	Data string `json:"data"`
}

// keep notes a block for the next turn, if the vendor vouches for it.
func (d *decoder) keep(block any, seal string) {
	if seal == "" {
		return
	}
	if raw, err := json.Marshal(block); err == nil {
		d.turn.Add(provider.TurnBlock{State: raw})
	}
}

// finish ends the reply. Figures that did not come with its end are not final: they are left out.
func (d *decoder) finish(reason string, u *wireUsage) error {
	f := finishOf(reason)
	if d.json != nil {
		if err := d.json.Check(f); err != nil {
			return err
		}
	}
	d.finished = true
	d.events = append(d.events, provider.Event{Kind: provider.Finish, Finish: f})
	if u != nil {
		d.usage.add(u)
		if usage, ok := d.usage.read(); ok {
			d.events = append(d.events, provider.Event{Kind: provider.Usage, Usage: usage})
		}
	}
	return nil
}

// Figures implements provider.Metered: the prompt's are there from the beginning.
func (d *decoder) Figures() (chat.Usage, bool) { return d.usage.read() }

// finishOf maps the reasons to stop. A pause is for tools of the vendor's own, which we never ask for.
func finishOf(reason string) chat.Finish {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return chat.FinishLength
	case "tool_use":
		return chat.FinishToolCalls
	case "refusal":
		return chat.FinishContentFilter
	default: // end_turn, stop_sequence, pause_turn
		return chat.FinishStop
	}
}

// failure is what an error inside a reply means.
func (d *decoder) failure(raw json.RawMessage) error {
	if len(d.key) > 0 {
		raw = bytes.ReplaceAll(raw, d.key, []byte("…"))
	}
	var w struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &w) == nil && errorStatus[w.Type] != 0 {
		return refused(errorStatus[w.Type], nil, raw)
	}
	return provider.Failed(raw)
}

func (u *wireUsage) add(more *wireUsage) {
	if more.Input != nil {
		u.Input = more.Input
	}
	if more.CacheMade != nil {
		u.CacheMade = more.CacheMade
	}
	if more.CacheRead != nil {
		u.CacheRead = more.CacheRead
	}
	if more.Output != nil {
		u.Output = more.Output
	}
	if more.Details != nil {
		u.Details = more.Details
	}
}

// mostTokens is more than any call can consume; what is above it is an error of the upstream.
const mostTokens = 1 << 30

// read are the figures; false where there are none. What was put into a cache was read as a prompt.
func (u *wireUsage) read() (chat.Usage, bool) {
	figure := func(p *int) int {
		if p == nil {
			return 0
		}
		return max(0, min(*p, mostTokens))
	}
	out := figure(u.Output)
	usage := chat.Usage{Prompt: figure(u.Input) + figure(u.CacheMade), Cached: figure(u.CacheRead), Completion: out}
	if u.Details != nil {
		usage.Reasoning = max(0, min(u.Details.Thinking, out))
		usage.Completion = out - usage.Reasoning
	}
	return usage, usage.Total() > 0
}
