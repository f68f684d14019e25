package claude

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"net/http"
	"regexp"
	"slices"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// FinishOf translates a stop reason. Reasons that are not listed are a normal end: end_turn, stop_sequence,
// and pause_turn, which only tools of the vendor's own cause.
func FinishOf(stopReason string) chat.Finish {
	switch stopReason {
	case "max_tokens", "model_context_window_exceeded":
		return chat.FinishLength
	case "tool_use":
		return chat.FinishToolCalls
	case "refusal":
		return chat.FinishContentFilter
	default:
		return chat.FinishStop
	}
}

// errorStatus maps the types of errors to their HTTP status.
var errorStatus = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"timeout_error":         http.StatusGatewayTimeout,
	"overloaded_error":      529, // the vendor's own, without a name in net/http
}

// ErrorStatus returns the HTTP status that goes with a type of error, such as rate_limit_error. An error that
// comes in the middle of a stream has no status of its own. It returns 0 for a type that is not known.
func ErrorStatus(kind string) int { return errorStatus[kind] }

// Figures are the token counts of a reply. Input has neither the tokens read from a cache nor those written
// to it; CacheWritten includes those that are kept for an hour, CacheHour, and for an unknown time, CacheOther; Output includes
// Thinking.
// This is how both APIs count; chat.Usage has disjoint parts instead.
type Figures struct {
	Input, CacheRead, CacheWritten, CacheHour, CacheOther int
	Output, Thinking                                      int
}

// Usage translates the figures and reports whether there are any. Tokens that were written to a cache were
// read as part of the prompt, and count as such. Figures out of range are clamped, so that an upstream's
// error does not become a caller's bill.
func (f Figures) Usage() (chat.Usage, bool) {
	out, written := provider.ClampTokens(f.Output), provider.ClampTokens(f.CacheWritten)
	u := chat.Usage{
		Prompt:       provider.ClampTokens(f.Input) + written,
		Cached:       provider.ClampTokens(f.CacheRead),
		Reasoning:    min(provider.ClampTokens(f.Thinking), out),
		CacheWrite1h: min(provider.ClampTokens(f.CacheHour), written),
	}
	u.CacheWrite = min(provider.ClampTokens(f.CacheOther), written-u.CacheWrite1h)
	u.Completion, u.CacheWrite5m = out-u.Reasoning, written-u.CacheWrite1h-u.CacheWrite
	return u, u.Total() > 0
}

// Builder turns the blocks of one reply into events, and keeps the reply's signed thinking for the next turn.
// An adapter embeds it in its stream and calls its methods in the order in which things arrive. It is used
// by one goroutine.
//
// Blocks are named by the upstream's index. An adapter calls StartBlock, StartCall or Think, then
// the pieces, then EndBlock, and in the end Finish and PushUsage. Pull hands the events out.
type Builder struct {
	provider.Decoded

	ctx   context.Context //nolint:containedctx // one call's, to keep the turn when the reply ends
	call  *provider.Call
	names ToolNames
	json  *JSONText // nil unless JSON is emulated
	turn  Turn
	place Place
	text  hash.Hash // of the reply's text; nil unless every later turn needs the thinking

	blocks   []block // those that have started and not ended; seldom more than one
	calls    int     // how many calls have started
	finished bool    // the stop reason has come
}

// block is a part of a reply that has started and not ended.
type block struct {
	at     int             // the upstream's index of it
	call   int             // our index of a tool call; -1 for text and thinking
	input  json.RawMessage // arguments that came with the start of a call; used if no pieces follow
	pieces bool            // pieces of the arguments have come
	text   []byte          // of the thinking, so far
	signed Signed          // without Text, which is set when the block ends
}

// Signed is a block of thinking as the vendor signed it. It must go back without a change.
type Signed struct {
	Text      string
	Signature string
	Redacted  string // thinking that only the vendor can read; it has no text and no signature
}

// Start prepares the builder for the reply to a call. The dialect is the API's name; see Turn. If emulated
// is set, the reply's text must be one JSON object.
func (b *Builder) Start(ctx context.Context, call *provider.Call, dialect string, names ToolNames, emulated bool) {
	b.ctx, b.call, b.names = ctx, call, names
	b.turn = Turn{Dialect: dialect, Model: call.Upstream}
	if emulated {
		b.json = &JSONText{}
	}
}

// Follow says where the reply stands in its conversation; see Conversation.Place. It is called after Start.
func (b *Builder) Follow(p Place) {
	if b.place = p; p.all {
		b.text = sha256.New()
	}
}

// Parted notes that the vendor has dropped thinking of earlier turns. That of this reply was made without it, and goes back
// without it, too. It must be called before the reply ends.
func (b *Builder) Parted() {
	b.place.from = b.place.rank
	b.call.Omit("thinking")
}

// Pull returns the next event, as Pending.Pull does. The turn is kept before the finish reason is handed out:
// a caller who has seen it may send the results of the calls at once.
func (b *Builder) Pull(read func() error) (*provider.Event, error) {
	ev, err := b.Pending.Pull(read)
	if err == nil && ev.Kind == provider.Finish {
		var text [sha256.Size]byte
		if b.text != nil {
			b.text.Sum(text[:0])
		}
		b.turn.Keep(b.ctx, b.call, b.place, text)
	}
	return ev, err
}

// Text adds a piece of the reply's text.
// Only what the caller gets is counted in the turn, because the caller's text must be split by
// these sizes later.
func (b *Builder) Text(s string) {
	if b.json != nil {
		s = b.json.Pass(s)
	}
	if s != "" {
		b.turn.Add(TurnBlock{Size: len(s)})
		if b.text != nil {
			_, _ = io.WriteString(b.text, s)
		}
		b.Push(provider.Event{Kind: provider.Text, Text: s})
	}
}

// StartBlock starts a block of text or thinking. at is the upstream's index of it.
func (b *Builder) StartBlock(at int) { b.blocks = append(b.blocks, block{at: at, call: -1}) }

// HasBlock reports whether a block has started and not ended.
func (b *Builder) HasBlock(at int) bool { return b.find(at) >= 0 }

// find returns the position in blocks of the block with the upstream's index, or -1.
func (b *Builder) find(at int) int {
	return slices.IndexFunc(b.blocks, func(k block) bool { return k.at == at })
}

// StartCall starts a tool call. input is what came of its arguments with the start: all of them in a reply
// that is not streamed, and nothing or an empty object in a stream.
func (b *Builder) StartCall(at int, id, name string, input json.RawMessage) {
	b.turn.Add(TurnBlock{Call: id})
	b.Push(provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: b.calls, ID: id, Name: b.names.Original(name)}})
	b.blocks = append(b.blocks, block{at: at, call: b.calls, input: input})
	b.calls++
}

// Arguments adds a piece of a call's arguments. It ignores a piece for a block that is no call.
func (b *Builder) Arguments(at int, piece string) {
	if i := b.find(at); i >= 0 && b.blocks[i].call >= 0 && piece != "" {
		b.blocks[i].pieces = true
		b.pushArguments(b.blocks[i].call, piece)
	}
}

// pushArguments appends a piece of the arguments of the call with our index.
func (b *Builder) pushArguments(call int, piece string) {
	b.Push(provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: call, Arguments: piece}})
}

// Think adds a piece of thinking to a block, which it starts if need be. Each part of the piece may be empty.
func (b *Builder) Think(at int, piece Signed) {
	i := b.find(at)
	if i < 0 {
		b.StartBlock(at)
		i = len(b.blocks) - 1
	}
	k := &b.blocks[i]
	k.text = append(k.text, piece.Text...)
	k.signed.Signature += piece.Signature
	k.signed.Redacted += piece.Redacted
	b.PushText(provider.Reasoning, 0, piece.Text)
}

// EndBlock ends a block. Only now has thinking its signature, and only now is it known that no pieces of a
// call's arguments follow. If the block is signed thinking, EndBlock returns it: the adapter passes it to Keep
// in its own form.
func (b *Builder) EndBlock(at int) (Signed, bool) {
	i := b.find(at)
	if i < 0 {
		return Signed{}, false
	}
	// The index may be used again, so the block must not be found any more.
	k := b.blocks[i]
	b.blocks = slices.Delete(b.blocks, i, i+1)
	if k.call >= 0 {
		if !k.pieces {
			b.pushArguments(k.call, provider.ArgumentsText(k.input))
		}
		return Signed{}, false
	}
	if k.signed.Signature == "" && k.signed.Redacted == "" {
		return Signed{}, false
	}
	k.signed.Text = string(k.text)
	return k.signed, true
}

// Keep records a block of signed thinking in the turn, as the JSON that goes back in the next request.
func (b *Builder) Keep(state any) {
	if raw, err := json.Marshal(state); err == nil {
		b.turn.Add(TurnBlock{State: raw})
	}
}

// Finish ends the reply. It returns a fault if the text had to be JSON and is not.
func (b *Builder) Finish(f chat.Finish) error {
	if b.json != nil {
		if err := b.json.Check(f); err != nil {
			return err
		}
	}
	b.finished = true
	b.Push(provider.Event{Kind: provider.Finish, Finish: f})
	return nil
}

// Finished reports whether Finish has been called. A reply that ends before broke off.
func (b *Builder) Finished() bool { return b.finished }

// PushUsage adds the final figures, if there are any.
func (b *Builder) PushUsage(f Figures) {
	if usage, ok := f.Usage(); ok {
		b.Push(provider.Event{Kind: provider.Usage, Usage: usage})
	}
}

// thinkingError marks the fault of a call that had thinking of earlier turns in it.
type thinkingError struct{ error }

// Unwrap makes the fault visible to errors.Is and errors.As.
func (e *thinkingError) Unwrap() error { return e.error }

// WithThinking marks an error of a call that had thinking of earlier turns in it.
func WithThinking(err error) error { return &thinkingError{err} }

// RefusesThinking reports whether an error that WithThinking has marked says that the vendor refuses the thinking, or
// knows nothing of Binding, as some resellers of its models. Without the thinking the call may succeed.
func RefusesThinking(err error) bool {
	e, ok := errors.AsType[*thinkingError](err)
	if !ok {
		return false
	}
	r, ok := errors.AsType[*provider.Refusal](err)
	return ok && r.Status == http.StatusBadRequest && aboutThinking.MatchString(e.Error())
}

// aboutThinking matches what the vendor says of thinking that it does not take back.
var aboutThinking = regexp.MustCompile(`(?i)bound to a different (conversation|account|organization)|signature.{0,40}\bthinking\b|thinking.{0,40}\bsignature|block_binding|` + BindingFeature)

// KeyName returns what stands for a key of an upstream in kept turns.
func KeyName(key string) string {
	sum := sha256.Sum256([]byte("thinking " + key))
	return hex.EncodeToString(sum[:6])
}

// BindsToKey reports whether the thinking of a model, given by the upstream's name, is of use under the same key only.
func BindsToKey(upstream string) bool {
	m, _ := ModelOf(upstream)
	return m.Account
}
