package bedrock

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"sluice/internal/chat"
	"sluice/internal/jsonscan"
	"sluice/internal/provider"
)

// stream is a reply, in frames or in one piece.
type stream struct {
	decoder
	reply   provider.Reply
	secrets aws.Credentials // ours, which no error may tell
	ended   func()          // keeps what the next turn needs, before the finish reason goes out
	whole   bool            // it comes in one piece
	done    bool            // all of it has come
	next    int             // of the events that are ready

	frames  *bufio.Reader
	decode  eventstream.Decoder
	payload []byte // of the last frame, for the next
	broken  error  // why no more could be read
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

// read takes in the next frame, or the one piece.
func (s *stream) read() error {
	if s.whole {
		raw, err := s.reply.Whole()
		if err != nil {
			return err
		}
		s.done = true
		return s.message(raw)
	}
	if s.frames == nil {
		s.frames = bufio.NewReader(source{s})
	}
	if _, err := s.frames.Peek(1); errors.Is(err, io.EOF) {
		s.done = s.finished
		if !s.finished {
			return provider.Cut(io.ErrUnexpectedEOF)
		}
		return nil
	}
	m, err := s.decode.Decode(s.frames, s.payload[:0])
	switch {
	case err == nil:
		s.payload = m.Payload
		return s.frame(&m)
	case errors.Is(s.broken, io.EOF):
		return provider.Cut(io.ErrUnexpectedEOF)
	case s.broken != nil:
		return s.reply.Fault(s.broken)
	}
	return provider.Garbled(err)
}

// source is the body, and remembers how it ended: a frame that cannot be read is the upstream's fault
// where all its bytes came.
type source struct{ s *stream }

func (r source) Read(p []byte) (int, error) {
	n, err := r.s.reply.Read(p)
	if err != nil {
		r.s.broken = err
	}
	return n, err
}

// frame reads one frame: an event, or the failure of all.
func (s *stream) frame(m *eventstream.Message) error {
	switch kind := header(m, ":message-type"); kind {
	case "event":
		return s.event(header(m, ":event-type"), m.Payload)
	case "exception":
		return s.failure(exceptionStatus[header(m, ":exception-type")], m.Payload)
	default: // error: a failure without a shape
		text := jsonscan.AppendQuoted([]byte(`{"message":`), header(m, ":error-message"))
		return s.failure(0, append(text, '}'))
	}
}

func header(m *eventstream.Message, name string) string {
	if v, ok := m.Headers.Get(name).(eventstream.StringValue); ok {
		return string(v)
	}
	return ""
}

// exceptionStatus is the status that goes with each exception.
var exceptionStatus = map[string]int{
	"validationException":         http.StatusBadRequest,
	"throttlingException":         http.StatusTooManyRequests,
	"internalServerException":     http.StatusInternalServerError,
	"serviceUnavailableException": http.StatusServiceUnavailable,
	"modelTimeoutException":       http.StatusRequestTimeout,
	"modelStreamErrorException":   http.StatusFailedDependency,
}

// failure is what an error inside a stream means.
func (s *stream) failure(status int, raw []byte) error {
	for _, secret := range []string{s.secrets.AccessKeyID, s.secrets.SecretAccessKey, s.secrets.SessionToken} {
		if secret != "" {
			raw = bytes.ReplaceAll(raw, []byte(secret), []byte("…"))
		}
	}
	if status == 0 {
		return provider.Failed(raw)
	}
	return provider.Refused(status, nil, raw)
}

// Ready reports whether a whole frame waits.
func (s *stream) Ready() bool {
	if s.next < len(s.events) || s.done {
		return true
	}
	if s.frames == nil || s.frames.Buffered() < 4 {
		return false
	}
	size, err := s.frames.Peek(4)
	return err == nil && uint64(binary.BigEndian.Uint32(size)) <= uint64(s.frames.Buffered())
}

func (s *stream) Close() error { return s.reply.Close(s.done) }

// decoder makes the dialect's events into ours.
type decoder struct {
	names  provider.ToolNames
	json   *provider.JSONText // where the text must be JSON and the model knows no such mode
	turn   provider.Turn
	events []provider.Event

	blocks   []openBlock // that have begun and not ended
	calls    int
	finished bool
}

// openBlock is a block on its way.
type openBlock struct {
	at      int // the upstream's index
	call    int // ours, -1: it is no call
	some    bool
	thought wireReasoning
	text    []byte // of the thought
}

type wireEvent struct {
	Index int `json:"contentBlockIndex"`
	Start struct {
		ToolUse *wireToolUse `json:"toolUse"`
	} `json:"start"`
	Delta struct {
		Text    string `json:"text"`
		ToolUse *struct {
			Input string `json:"input"`
		} `json:"toolUse"`
		Reasoning *struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
			Redacted  []byte `json:"redactedContent"`
		} `json:"reasoningContent"`
	} `json:"delta"`
	StopReason string     `json:"stopReason"`
	Usage      *wireUsage `json:"usage"`
}

type wireToolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// wireReasoning is a thought, as it comes in one piece and as it goes back.
type wireReasoning struct {
	Text     *reasoningText `json:"reasoningText,omitempty"`
	Redacted []byte         `json:"redactedContent,omitempty"`
}

type reasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

type wireMessage struct {
	Output struct {
		Message struct {
			Content []struct {
				Text      string         `json:"text"`
				ToolUse   *wireToolUse   `json:"toolUse"`
				Reasoning *wireReasoning `json:"reasoningContent"`
			} `json:"content"`
		} `json:"message"`
	} `json:"output"`
	StopReason string     `json:"stopReason"`
	Usage      *wireUsage `json:"usage"`
}

type wireUsage struct {
	Input      int `json:"inputTokens"`
	Output     int `json:"outputTokens"`
	CacheRead  int `json:"cacheReadInputTokens"`
	CacheWrite int `json:"cacheWriteInputTokens"`
}

// event reads one event of a stream.
func (d *decoder) event(kind string, raw []byte) error {
	var w wireEvent
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Garbled(err)
	}
	switch kind {
	case "contentBlockStart":
		if w.Start.ToolUse != nil {
			d.begin(w.Index, w.Start.ToolUse)
		}
	case "contentBlockDelta":
		d.delta(&w)
	case "contentBlockStop":
		d.end(w.Index)
	case "messageStop":
		if !d.finished {
			return d.finish(w.StopReason)
		}
	case "metadata":
		d.usage(w.Usage)
	}
	return nil
}

// message reads a reply that comes in one piece.
func (d *decoder) message(raw []byte) error {
	var w wireMessage
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Garbled(err)
	}
	for i := range w.Output.Message.Content {
		c := &w.Output.Message.Content[i]
		switch {
		case c.ToolUse != nil:
			d.begin(i, c.ToolUse)
			d.piece(&d.blocks[len(d.blocks)-1], provider.ArgumentsText(c.ToolUse.Input))
			d.end(i)
		case c.Reasoning != nil:
			if t := c.Reasoning.Text; t != nil {
				d.reasoning(t.Text)
			}
			d.keep(c.Reasoning)
		default:
			d.text(c.Text)
		}
	}
	if err := d.finish(w.StopReason); err != nil {
		return err
	}
	d.usage(w.Usage)
	return nil
}

// begin opens a call.
func (d *decoder) begin(at int, w *wireToolUse) {
	d.turn.Add(provider.TurnBlock{Call: w.ID})
	d.events = append(d.events, provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: d.calls, ID: w.ID, Name: d.names.Original(w.Name)}})
	d.blocks = append(d.blocks, openBlock{at: at, call: d.calls})
	d.calls++
}

// open finds a block that has begun; one of text or thinking begins by itself.
func (d *decoder) open(at int) *openBlock {
	for i := range d.blocks {
		if d.blocks[i].at == at {
			return &d.blocks[i]
		}
	}
	d.blocks = append(d.blocks, openBlock{at: at, call: -1})
	return &d.blocks[len(d.blocks)-1]
}

func (d *decoder) delta(w *wireEvent) {
	switch {
	case w.Delta.ToolUse != nil:
		if b := d.open(w.Index); b.call >= 0 && w.Delta.ToolUse.Input != "" {
			d.piece(b, w.Delta.ToolUse.Input)
		}
	case w.Delta.Reasoning != nil:
		r, b := w.Delta.Reasoning, d.open(w.Index)
		if b.thought.Text == nil && r.Redacted == nil {
			b.thought.Text = &reasoningText{}
		}
		if b.thought.Text != nil {
			b.thought.Text.Signature += r.Signature
		}
		b.thought.Redacted = append(b.thought.Redacted, r.Redacted...)
		b.text = append(b.text, r.Text...)
		d.reasoning(r.Text)
	default:
		d.text(w.Delta.Text)
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

func (d *decoder) reasoning(s string) {
	if s != "" {
		d.events = append(d.events, provider.Event{Kind: provider.Reasoning, Text: s})
	}
}

func (d *decoder) piece(b *openBlock, arguments string) {
	b.some = true
	d.events = append(d.events, provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: b.call, Arguments: arguments}})
}

// end closes a block. Only now a thought has its signature, and a call is known to have no arguments.
func (d *decoder) end(at int) {
	for i := range d.blocks {
		if d.blocks[i].at != at {
			continue
		}
		b := d.blocks[i]
		d.blocks = append(d.blocks[:i], d.blocks[i+1:]...)
		if b.call >= 0 && !b.some {
			d.piece(&b, "{}")
		}
		if b.thought.Text != nil {
			b.thought.Text.Text = string(b.text)
		}
		d.keep(&b.thought)
		return
	}
}

// keep notes a thought for the next turn, if the vendor vouches for it.
func (d *decoder) keep(r *wireReasoning) {
	if (r.Text == nil || r.Text.Signature == "") && len(r.Redacted) == 0 {
		return
	}
	if raw, err := json.Marshal(r); err == nil {
		d.turn.Add(provider.TurnBlock{State: raw})
	}
}

// finish ends the reply.
func (d *decoder) finish(reason string) error {
	var f chat.Finish
	switch reason {
	case "", "malformed_model_output", "malformed_tool_use":
		return provider.Cut(errors.New("the upstream's stop reason is " + reason))
	case "max_tokens", "model_context_window_exceeded":
		f = chat.FinishLength
	case "tool_use":
		f = chat.FinishToolCalls
	case "guardrail_intervened", "content_filtered", "refusal":
		f = chat.FinishContentFilter
	default: // end_turn, stop_sequence
		f = chat.FinishStop
	}
	if d.json != nil {
		if err := d.json.Check(f); err != nil {
			return err
		}
	}
	d.finished = true
	d.events = append(d.events, provider.Event{Kind: provider.Finish, Finish: f})
	return nil
}

// mostTokens is more than any call can consume; what is above it is an error of the upstream.
const mostTokens = 1 << 30

// usage puts out the figures. What was put into a cache was read as a prompt; thinking is not counted
// apart.
func (d *decoder) usage(w *wireUsage) {
	if w == nil {
		return
	}
	figure := func(n int) int { return max(0, min(n, mostTokens)) }
	u := chat.Usage{Prompt: figure(w.Input) + figure(w.CacheWrite), Cached: figure(w.CacheRead), Completion: figure(w.Output)}
	if u.Total() > 0 {
		d.events = append(d.events, provider.Event{Kind: provider.Usage, Usage: u})
	}
}
