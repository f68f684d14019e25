package bedrock

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// stream is a reply, in frames of AWS's event stream or in one piece.
//
// A frame has a length, headers, a payload of JSON, and two checksums. The AWS decoder reads it;
// what it contains is read here.
type stream struct {
	claude.Builder

	frames  *bufio.Reader // of the body; nil until the first read
	decode  eventstream.Decoder
	payload []byte // the memory of the last frame's payload, for the next one
	broken  error  // how the body ended; nil until then

	called string // the id of the model
	bill   provider.Bill
}

// Next implements provider.Stream.
func (s *stream) Next() (*provider.Event, error) { return s.Pull(s.read) }

// read reads the next frame, or the one piece.
//
// Peek is used to tell an end between frames from one inside a frame, which the decoder reports
// alike.
func (s *stream) read() error {
	if s.Single {
		return s.Whole(s.message)
	}
	if s.frames == nil {
		s.frames = bufio.NewReader(source{s})
	}
	// An end between two frames is a normal one, if the stop reason has come. Inside a frame it never is.
	if _, err := s.frames.Peek(1); errors.Is(err, io.EOF) {
		if !s.Finished() {
			return provider.Cut(io.ErrUnexpectedEOF)
		}
		s.End()
		return nil
	}
	// The decoder checks the sums of the frame. If it fails, the body's own error, if there is one, says more.
	m, err := s.decode.Decode(s.frames, s.payload[:0])
	switch {
	case err == nil:
		s.payload = m.Payload
		return s.frame(&m)
	case errors.Is(s.broken, io.EOF):
		return provider.Cut(io.ErrUnexpectedEOF)
	case s.broken != nil:
		return s.Reply.Fault(s.broken)
	}
	return provider.Garbled(err)
}

// source reads the body and remembers how it ended. The decoder's error does not tell a frame that is garbled
// from one that is not complete.
type source struct{ s *stream }

// Read implements io.Reader.
func (r source) Read(p []byte) (int, error) {
	n, err := r.s.Reply.Read(p)
	if err != nil {
		r.s.broken = err
	}
	return n, err
}

// frame reads one frame: an event, or an error that ends the reply.
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

// header returns a header of a frame; empty if there is none or if it is not a string.
func header(m *eventstream.Message, name string) string {
	if v, ok := m.Headers.Get(name).(eventstream.StringValue); ok {
		return string(v)
	}
	return ""
}

// exceptionStatus maps the types of exceptions inside a stream to their HTTP status.
var exceptionStatus = map[string]int{
	"validationException":         http.StatusBadRequest,
	"throttlingException":         http.StatusTooManyRequests,
	"internalServerException":     http.StatusInternalServerError,
	"serviceUnavailableException": http.StatusServiceUnavailable,
	"modelTimeoutException":       http.StatusRequestTimeout,
	"modelStreamErrorException":   http.StatusFailedDependency,
}

// failure returns the fault of an error inside a stream. A status of 0 is one that is not known.
func (s *stream) failure(status int, raw []byte) error {
	raw = s.Reply.Conceal(raw)
	if status == 0 {
		return provider.Failed(raw)
	}
	return provider.Refused(status, nil, raw)
}

// Ready implements provider.Stream. A frame begins with its length in four bytes; Next does not wait if all of
// it has been read from the body.
func (s *stream) Ready() bool {
	if s.Waiting() {
		return true
	}
	if s.frames == nil || s.frames.Buffered() < 4 {
		return false
	}
	size, err := s.frames.Peek(4)
	return err == nil && uint64(binary.BigEndian.Uint32(size)) <= uint64(s.frames.Buffered())
}

// wireEvent is the payload of an event. Which members are set depends on its type.
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
	wireBill
}

// wireToolUse is a tool call, or the start of one in a stream.
type wireToolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"` // in a reply that is not streamed
}

// wireReasoning is a block of thinking in a reply that is not streamed. It goes back in the same form.
type wireReasoning struct {
	Text     *reasoningText `json:"reasoningText,omitempty"`
	Redacted []byte         `json:"redactedContent,omitempty"`
}

// reasoningText is thinking that can be read. Without a signature it is of no use to the model.
type reasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature,omitempty"`
}

// wireMessage is a reply in one piece.
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
	wireBill
}

// wireBill is what the price of a reply depends on, beside its figures.
type wireBill struct {
	Tier struct {
		Type string `json:"type"` // default, priority, flex or reserved
	} `json:"serviceTier"`
	Performance struct {
		Latency string `json:"latency"` // standard or optimized
	} `json:"performanceConfig"`
	Trace struct {
		Router struct {
			Model string `json:"invokedModelId"`
		} `json:"promptRouter"`
	} `json:"trace"`
}

// wireUsage has the figures of a reply. They come once, after the stop reason, so there are no early figures of a
// reply that breaks off.
type wireUsage struct {
	Input      int `json:"inputTokens"`
	Output     int `json:"outputTokens"` // with thinking, which is not counted apart
	CacheRead  int `json:"cacheReadInputTokens"`
	CacheWrite int `json:"cacheWriteInputTokens"`
	// Details is CacheWrite by how long it is kept.
	Details []struct {
		TTL    string `json:"ttl"` // 5m or 1h
		Tokens int    `json:"inputTokens"`
	} `json:"cacheDetails"`
}

// event reads one event of a stream. kind is its type, raw its payload. Events come in this order: messageStart; the
// blocks, of which only calls have a contentBlockStart; messageStop with the stop reason; metadata with the figures.
// Events that are not known are ignored.
func (s *stream) event(kind string, raw []byte) error {
	var w wireEvent
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Garbled(err)
	}
	switch kind {
	case "contentBlockStart":
		if t := w.Start.ToolUse; t != nil {
			s.StartCall(w.Index, t.ID, t.Name, nil)
		}
	case "contentBlockDelta":
		s.delta(&w)
	case "contentBlockStop":
		s.end(w.Index)
	case "messageStop":
		if !s.Finished() {
			return s.finish(w.StopReason)
		}
	case "metadata":
		s.usage(w.Usage, &w.wireBill)
	}
	return nil
}

// message reads a reply that comes in one piece.
// The blocks have no index of their own, so their position is used.
func (s *stream) message(raw []byte) error {
	var w wireMessage
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Garbled(err)
	}
	for i := range w.Output.Message.Content {
		c := &w.Output.Message.Content[i]
		switch {
		case c.ToolUse != nil:
			s.StartCall(i, c.ToolUse.ID, c.ToolUse.Name, c.ToolUse.Input)
		case c.Reasoning != nil:
			thought := claude.Signed{Redacted: string(c.Reasoning.Redacted)}
			if t := c.Reasoning.Text; t != nil {
				thought.Text, thought.Signature = t.Text, t.Signature
			}
			s.Think(i, thought)
		default:
			s.Text(c.Text)
		}
		s.end(i)
	}
	if err := s.finish(w.StopReason); err != nil {
		return err
	}
	s.usage(w.Usage, &w.wireBill)
	return nil
}

// delta adds a piece to a block. Blocks of text and thinking start with their first piece.
func (s *stream) delta(w *wireEvent) {
	switch d := &w.Delta; {
	case d.ToolUse != nil:
		s.Arguments(w.Index, d.ToolUse.Input)
	case d.Reasoning != nil:
		s.Think(w.Index, claude.Signed{Text: d.Reasoning.Text, Signature: d.Reasoning.Signature, Redacted: string(d.Reasoning.Redacted)})
	default:
		s.Text(d.Text)
	}
}

// end ends a block, and keeps it if it is signed thinking.
func (s *stream) end(at int) {
	signed, ok := s.EndBlock(at)
	if !ok {
		return
	}
	// What is kept has the form of a reply that is not streamed, which is also the form of a request.
	r := wireReasoning{Redacted: []byte(signed.Redacted)}
	if signed.Text != "" || signed.Signature != "" {
		r.Text = &reasoningText{signed.Text, signed.Signature}
	}
	s.Keep(&r)
}

// finish ends the reply. Converse has stop reasons beside Claude's; some say that the model wrote something
// that Converse could not read, which is no reply.
func (s *stream) finish(reason string) error {
	switch reason {
	case "", "malformed_model_output", "malformed_tool_use":
		return provider.Cut(errors.New("the upstream's stop reason is " + reason))
	case "guardrail_intervened", "content_filtered":
		return s.Finish(chat.FinishContentFilter)
	}
	return s.Finish(claude.FinishOf(reason))
}

// Bill implements provider.Billed.
func (s *stream) Bill() provider.Bill { return s.bill }

// usage adds the final figures; w may be nil. What Claude writes to a cache is kept for five minutes unless the details say
// otherwise; other models do not say for how long.
func (s *stream) usage(w *wireUsage, b *wireBill) {
	router := b.Trace.Router.Model // an ARN
	s.bill = provider.Bill{Tier: b.Tier.Type, Model: provider.Served(s.called, router[strings.LastIndexByte(router, '/')+1:])}
	if b.Performance.Latency == "optimized" {
		s.bill.Tier = b.Performance.Latency
	}
	if w == nil {
		return
	}
	f := claude.Figures{Input: w.Input, CacheRead: w.CacheRead, CacheWritten: w.CacheWrite, Output: w.Output}
	if _, ok := claude.ModelOf(s.called); !ok && len(w.Details) == 0 {
		f.CacheOther = w.CacheWrite
	}
	for _, d := range w.Details {
		if d.TTL == "1h" {
			f.CacheHour = d.Tokens
		}
	}
	s.PushUsage(f)
}
