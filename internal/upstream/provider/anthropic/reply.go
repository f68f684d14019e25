package anthropic

import (
	"encoding/json"
	"errors"
	"io"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// stream is a reply, as server-sent events or in one piece.
//
// It serves two kinds of callers. For one of chat completions the events are translated. For one
// of the same dialect they are quoted as well; see provider.Words.
type stream struct {
	claude.Builder
	usage  wireUsage       // the figures so far
	known  bool            // the block that started last is of a type that is read
	called string          // the model that was called
	model  string          // that answers, as the vendor calls it
	ran    int             // calls of tools that the vendor has run
	tools  [len(tools)]int // those of them that it charges for
	id     string          // of the message, by which a later call continues it
}

// Next implements provider.Stream.
func (s *stream) Next() (*provider.Event, error) { return s.Pull(s.read) }

// read reads the next event, or the one piece.
func (s *stream) read() error {
	if s.Single {
		return s.Whole(func(raw []byte) error {
			err := s.message(raw)
			s.Quote(raw, false)
			return err
		})
	}
	ev, err := s.Reply.Event()
	switch {
	case errors.Is(err, io.EOF) && s.Finished(): // message_stop is missing, but nothing of the reply
		s.End()
		return nil
	case errors.Is(err, io.EOF):
		return provider.Cut(io.ErrUnexpectedEOF)
	case err != nil:
		return err
	}
	return s.decode(ev.Data)
}

// wireEvent is one event of a stream. Which members are set depends on Type.
type wireEvent struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"` // of a block
	Message *wireMessage    `json:"message"`
	Block   *wireBlock      `json:"content_block"`
	Delta   wireDelta       `json:"delta"`
	Usage   json.RawMessage `json:"usage"` // a wireUsage
	Error   json.RawMessage `json:"error"`
}

// wireMessage is a reply in one piece, or an error in its place. The first event of a stream has one without
// content.
type wireMessage struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Model      string          `json:"model"`
	Content    []wireBlock     `json:"content"`
	StopReason string          `json:"stop_reason"`
	Usage      json.RawMessage `json:"usage"` // a wireUsage
	Error      json.RawMessage `json:"error"`
	// Changes are what the vendor did to the request: thinking of earlier turns that it dropped.
	Changes []struct {
		Type string `json:"type"`
	} `json:"input_transformations"`
}

// parted reports whether the vendor has dropped thinking of earlier turns.
func (w *wireMessage) parted() bool {
	for _, c := range w.Changes {
		if c.Type != "thinking_mismatch_allowed" { // that was only noticed
			return true
		}
	}
	return false
}

// wireBlock is a block of a reply, or the start of one in a stream.
type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"` // of redacted thinking
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

// wireDelta is a piece of a block or, in a message_delta, the stop reason.
type wireDelta struct {
	Type       string `json:"type"`
	Text       string `json:"text"`
	Thinking   string `json:"thinking"`
	Signature  string `json:"signature"`
	Partial    string `json:"partial_json"`
	StopReason string `json:"stop_reason"`
}

// wireUsage holds cumulative figures: a later one replaces an earlier one. The start of a stream has the figures of the
// prompt, and the end at least those of the output.
type wireUsage struct {
	wireTokens
	Details struct {
		Thinking int `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	Tier  any `json:"service_tier"`  // a string, as the others
	Speed any `json:"speed"`         // fast or standard
	Geo   any `json:"inference_geo"` // where it was made, such as us
	// Served are the calls of tools that the vendor has run, by what they cost.
	Served *struct {
		Searches int `json:"web_search_requests"`
		Fetches  int `json:"web_fetch_requests"`
		Runs     int `json:"code_execution_requests"`
	} `json:"server_tool_use"`
	// Steps are the parts of a reply for which the vendor asked a model more than once.
	Steps []wireStep `json:"iterations"`
}

// wireStep is a part of a reply.
type wireStep struct {
	Type  string `json:"type"`
	Model string `json:"model"`
	wireTokens
}

// wireTokens are the tokens of a reply, or of one step of it.
type wireTokens struct {
	Input     int `json:"input_tokens"`
	CacheMade int `json:"cache_creation_input_tokens"`
	CacheKept struct {
		Hour int `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"` // part of CacheMade, by how long it is kept; absent in older replies
	CacheRead int `json:"cache_read_input_tokens"`
	Output    int `json:"output_tokens"`
}

// decode reads one event of a stream. The events come in this order: message_start; for each block
// content_block_start, any number of content_block_delta, content_block_stop; message_delta with the stop reason;
// message_stop. A ping or an error may come anywhere, and events that are not known are ignored: the vendor adds new
// ones without a new version.
func (s *stream) decode(raw []byte) error {
	var w wireEvent
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Garbled(err)
	}
	err := s.event(&w)
	switch w.Type {
	case "ping", "message_stop", "error": // the door says these itself
	default:
		s.Quote(raw, w.Type == "content_block_start" && !s.known)
	}
	return err
}

// event reads an event that was decoded.
func (s *stream) event(w *wireEvent) error {
	switch w.Type {
	case "message_start":
		if w.Message != nil {
			s.heed(w.Message)
			s.id, s.model = w.Message.ID, w.Message.Model
			_, err := s.usage.add(w.Message.Usage)
			return err
		}
	case "content_block_start":
		if w.Block != nil {
			s.start(w.Index, w.Block)
		}
	case "content_block_delta":
		s.delta(w.Index, &w.Delta)
	case "content_block_stop":
		s.end(w.Index)
	case "message_delta":
		// A second one would end the reply twice; the figures of the first are final.
		if w.Delta.StopReason != "" && !s.Finished() {
			return s.finish(w.Delta.StopReason, w.Usage)
		}
	case "message_stop":
		if !s.Finished() {
			return provider.Cut(errors.New("the upstream's reply ends without a stop reason"))
		}
		s.End()
	case "error":
		return s.failure(w.Error)
	}
	return nil
}

// message reads a reply that comes in one piece. Its blocks are read like those of a stream that start and end
// without deltas.
func (s *stream) message(raw []byte) error {
	var w wireMessage
	if err := json.Unmarshal(raw, &w); err != nil {
		return provider.Garbled(err)
	}
	if w.Type == "error" {
		return s.failure(w.Error)
	}
	if w.StopReason == "" {
		return provider.Cut(errors.New("the upstream's reply has no stop reason"))
	}
	s.heed(&w)
	s.id, s.model = w.ID, w.Model
	for i := range w.Content {
		s.start(i, &w.Content[i])
		s.end(i)
	}
	return s.finish(w.StopReason, w.Usage)
}

// heed notes what the vendor did to a request that was translated. Callers of the dialect read it themselves.
func (s *stream) heed(w *wireMessage) {
	if s.Words == nil && w.parted() {
		s.Parted()
	}
}

// start starts a block with what has come of it. A block of another type, such as one for a tool of the
// vendor's own, is ignored, and its deltas with it.
// A call of a tool that the vendor runs is counted, because the operator pays for it.
func (s *stream) start(at int, w *wireBlock) {
	s.known = true
	switch w.Type {
	case "text":
		s.StartBlock(at)
		s.Text(w.Text)
	case "thinking":
		s.Think(at, claude.Signed{Text: w.Thinking, Signature: w.Signature})
	case "redacted_thinking":
		s.Think(at, claude.Signed{Redacted: w.Data})
	case "tool_use":
		s.StartCall(at, w.ID, w.Name, w.Input)
	case "server_tool_use":
		s.known = false
		s.runs(w.Name)
	case "mcp_tool_use":
		s.known = false
		s.ran++
	default:
		s.known = false
	}
}

// MessageID implements provider.Held.
func (s *stream) MessageID() string { return s.id }

// delta adds a piece to a block.
func (s *stream) delta(at int, w *wireDelta) {
	if !s.HasBlock(at) {
		return
	}
	switch w.Type {
	case "text_delta":
		s.Text(w.Text)
	case "thinking_delta":
		s.Think(at, claude.Signed{Text: w.Thinking})
	case "signature_delta":
		s.Think(at, claude.Signed{Signature: w.Signature})
	case "input_json_delta":
		s.Arguments(at, w.Partial)
	}
}

// end ends a block, and keeps it, in the form of a request, if it is signed thinking.
func (s *stream) end(at int) {
	signed, ok := s.EndBlock(at)
	switch {
	case !ok:
	case signed.Redacted != "":
		s.Keep(block{Type: "redacted_thinking", Data: signed.Redacted})
	default:
		s.Keep(block{Type: "thinking", Thinking: &signed.Text, Signature: signed.Signature})
	}
}

// finish ends the reply. raw are the figures that came with the stop reason; nil if there were none. The
// figures of the start alone are not final, so then no usage is reported.
func (s *stream) finish(reason string, raw json.RawMessage) error {
	final, err := s.usage.add(raw)
	if err != nil {
		return err
	}
	if s.Words == nil { // otherwise the caller gets the vendor's own word for it
		s.PushText(provider.Tier, 0, s.usage.tier())
	}
	if err := s.Finish(claude.FinishOf(reason)); err != nil {
		return err
	}
	if final {
		s.PushUsage(s.usage.figures())
	}
	return nil
}

// Figures implements provider.Metered: those of the prompt come with the first event.
func (s *stream) Figures() (chat.Usage, bool) { return s.usage.figures().Usage() }

// failure returns the fault of an error inside a reply. raw is the error object; it may be nil.
func (s *stream) failure(raw json.RawMessage) error {
	raw = s.Reply.Conceal(raw)
	var w struct {
		Type string `json:"type"`
	}
	// The type decides whose fault it is, as the status does for an error before the reply.
	if json.Unmarshal(raw, &w) == nil && claude.ErrorStatus(w.Type) != 0 {
		return refused(claude.ErrorStatus(w.Type), nil, raw)
	}
	return provider.Failed(raw)
}

// add replaces the figures that raw has, and reports whether there are some. Those that are absent or null stay.
func (u *wireUsage) add(raw json.RawMessage) (bool, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(raw, u); err != nil {
		return false, provider.Garbled(err)
	}
	return true, nil
}

// tier returns OpenAI's name of the tier, or an empty string.
func (u *wireUsage) tier() string {
	switch u.Tier {
	case "standard":
		return "default"
	case "priority":
		return "priority"
	}
	return ""
}

// figures returns the figures; those that were not given are zero.
func (u *wireUsage) figures() claude.Figures {
	f := claude.Figures{Thinking: u.Details.Thinking}
	u.addTo(&f)
	for i := range u.Steps {
		if u.Steps[i].beside() {
			u.Steps[i].addTo(&f)
		}
	}
	return f
}

// addTo adds tokens to figures. Each is clamped first, so that sums do not overflow.
func (t *wireTokens) addTo(f *claude.Figures) {
	f.Input += provider.ClampTokens(t.Input)
	f.CacheRead += provider.ClampTokens(t.CacheRead)
	f.CacheWritten += provider.ClampTokens(t.CacheMade)
	f.CacheHour += provider.ClampTokens(t.CacheKept.Hour)
	f.Output += provider.ClampTokens(t.Output)
}
