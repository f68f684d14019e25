// Package provider asks upstreams for completions.
//
// Each wire format implements Adapter in a folder of its own. What is the same for all of them is here:
// the HTTP client with its deadlines and bounds, the events of a reply, what callers are told when an upstream
// fails, and which fields of a request were dropped. A Stream is pulled by one goroutine, event by event; a
// reply that is not streamed is the same stream, collected.
//
// To add a wire format:
//
//   - Make a package below this one. Its Adapter embeds a Client and implements Open; if the upstream lists its
//     models, a method Models returns them.
//   - Translate the request into wire types. Call Drop for each field that the upstream does not take and that does
//     not change the answer, and return a fault of the kind Invalid for each that does.
//   - Read the reply into events. Embed a Pending in the stream, and use Reply for bounds, silence and faults.
//   - Pass the suite of providertest, and write transcripts of the wire.
//   - Let package app make the adapter from the configuration.
//
// Which upstream is asked, and in what order, is decided by package routing. How events become the caller's
// reply is up to package relay.
package provider

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/caching"
	"sluice/internal/upstream/continuation"
)

// Call is one turn of a model: a request and the upstream's side of it.
type Call struct {
	// Request is the caller's. Adapters read it and do not change it: the next attempt uses it again.
	Request *chat.Request
	// Upstream is the upstream's name of the model.
	Upstream string
	// MaxOutput is the most tokens that the model writes; 0 if it is not known. It bounds every completion;
	// see Limit.
	MaxOutput int
	// Bounded says that the upstream must be told MaxOutput even if the caller sets no bound: no more than that is paid for.
	Bounded bool
	// Thinks is whether the model can reason. If it cannot, reasoning_effort is dropped.
	Thinks bool
	// Efforts are the efforts that the model takes, in rising order; nil if that is not known. See Effort.
	Efforts []chat.Effort
	// Inside is whether the upstream is in the operator's network, so that it must not be given addresses to fetch
	// (docs/security.md#what-is-guaranteed).
	Inside bool
	// Allow is what the operator allows callers to choose here; nil: nothing.
	Allow *allowance.Set
	// ID is unique to this turn. The ids of tool calls are made of it where the upstream gives none.
	ID string
	// Memory keeps what later turns need of this one, such as signatures, under the ids of the tool calls or a digest of
	// the conversation. It may be nil: then nothing is kept or recalled.
	Memory *continuation.Memory
	// Conversation stands for the conversation that the request belongs to: a keyed hash, the same for all of its calls, which
	// tells nobody who the caller is. Empty: there is none, the model's calls need not stay together, or the adapter is no Hinter.
	Conversation string
	// TraceParent and TraceState are passed on to the upstream, in the headers of the W3C; empty: the call is
	// not traced.
	TraceParent, TraceState string
	// Marks are where the vendor is to keep the prompt, for a request without marks of its own. Adapters that implement
	// Marker follow them.
	Marks caching.Marks
	// Dropped is set by Open: the fields of the request that this upstream does not take and that do not
	// change the answer. Each attempt sets it again.
	Dropped []string
	// Quoted is set by Open: the upstream got the request in the words of its caller; see chat.Original.
	Quoted bool
	// Continues says that the message which the request continues is of the same account, and was answered with the key
	// of this upstream. Only then may the request name it.
	Continues bool
	// Threaded is set by Open: the upstream holds the conversation of this request from now on. Its stream is a Held.
	Threaded bool
	// Chat is set by Open: the upstream is asked in the dialect of chat completions.
	Chat bool
}

// Header returns the headers of a call: those that all calls of an adapter share, and for a call that is
// traced a copy with its trace.
func (c *Call) Header(shared http.Header) http.Header {
	if c.TraceParent == "" {
		return shared
	}
	h := shared.Clone()
	h["Traceparent"] = []string{c.TraceParent}
	if c.TraceState != "" {
		h["Tracestate"] = []string{c.TraceState}
	}
	return h
}

// Adapter speaks one wire format. It may be used by several goroutines at once.
type Adapter interface {
	// Open sends the call and returns its stream, which the caller must close. An error is a fault: the
	// upstream could not be reached, it refused the call, or the call asks for something it cannot do.
	// Canceling ctx ends the call and the upstream's work at once, also after Open has returned.
	Open(ctx context.Context, call *Call) (Stream, error)
}

// KeyBound is implemented by adapters for which it matters that a conversation stays with the same key.
type KeyBound interface {
	// BindsToKey reports whether what a model, given by the upstream's name, needs of earlier turns is of use under the
	// key only under which it was made.
	BindsToKey(upstream string) bool
}

// Hinter is implemented by adapters of vendors that can be told which calls belong together; see Call.Conversation.
type Hinter interface {
	// Hints reports whether this vendor wants to know.
	Hints() bool
}

// Marker is implemented by adapters of vendors that keep only the prompts that a request marks; see Call.Marks.
type Marker interface {
	// Keeps returns how many tokens a model, given by the upstream's name, keeps at least, and whether it can keep them for
	// an hour. It returns 0 for a model that wants no marks.
	Keeps(upstream string) (least int, hour bool)
}

// Stream yields the events of one reply, in order. It is used by one goroutine.
type Stream interface {
	// Next returns the next event. The event is valid until the next call; the Raw of a Whole event is valid
	// until Close. The error is io.EOF after the last event. It is a fault if the reply was cut, stalled,
	// could not be read, or failed. A Stream of Chunk events may also return io.EOF for a reply that broke
	// off: only the reader of the chunks knows whether they have a finish reason.
	Next() (*Event, error)
	// Ready reports whether Next would return without waiting for the upstream. The relay writes out what it
	// has whenever Ready is false.
	Ready() bool
	// Close frees the upstream. It must be called exactly once, at any time, also after an error.
	Close() error
}

// Metered is implemented by streams that know what their reply has cost before it ends.
type Metered interface {
	// Figures returns the upstream's latest figures. It reports false if there are none yet.
	Figures() (chat.Usage, bool)
}

// Held is implemented by streams of upstreams that hold conversations; see chat.Thread.
type Held interface {
	// MessageID returns the upstream's id of the reply, by which a later request continues it; empty: it is not known.
	MessageID() string
}

// LostThread returns the fault of a request that continues a conversation which nobody holds. Clients that read its code
// send the whole conversation again.
func LostThread() *fault.Fault {
	f := fault.New(fault.NotFound, "thread.previous_message_id: the conversation of this message is not held any more. Send all of it again, with thread {\"type\": \"create\"}.").At("thread.previous_message_id")
	f.Details = json.RawMessage(`{"error_code":"thread_not_found"}`)
	return f
}

// Partial returns the usage of a reply that broke off. The prompt is counted by the figures that the upstream
// gave early. The completion is counted by them or by our own count, whichever is more: early figures may
// stop at the first token.
func Partial(figures, counted chat.Usage) chat.Usage {
	if counted.CompletionTotal() > figures.CompletionTotal() {
		figures.Completion, figures.Reasoning = counted.Completion, counted.Reasoning
	}
	return figures
}

// Kind says what an Event is, and so which of its fields are set.
type Kind uint8

const (
	Text      Kind = iota + 1 // Event.Text is a piece of the reply
	Reasoning                 // Event.Text is a piece of the model's thinking
	ToolCall                  // Event.Tool is a piece of one call
	Finish                    // Event.Finish is set; at most one for each choice, after all its content
	Usage                     // Event.Usage has the final figures; may follow Finish
	Chunk                     // Event.Raw is the JSON of one chat.completion.chunk of OpenAI's dialect
	Whole                     // Event.Raw is the JSON of one chat.completion of OpenAI's dialect; the only event of its stream
	Declined                  // Event.Text is a piece of the model's refusal to answer
	Tier                      // Event.Text is the service tier of the reply, a result of TierOf; may follow Finish
	Other                     // Event.Native or Event.Step is set and nothing else: only some dialects of callers have it
)

// Event is one step of a reply. Events of OpenAI's dialect come as Chunk or Whole, undecoded: the relay passes
// most of their bytes on as they are.
type Event struct {
	Kind   Kind
	Choice int // which of the n replies it belongs to; 0 if there is one
	Text   string
	Tool   ToolPiece
	Finish chat.Finish
	Usage  chat.Usage
	Raw    []byte // with Chunk and Whole; what a relay.Dialect gets has texts in it
	Rest   *Rest  // with Finish; nil if there is none
	// Native is the upstream's own event, if the caller speaks the upstream's dialect and it is not OpenAI's. In the
	// dialect of Messages it may be several, one on each line: those that came before have no event of their own.
	Native []byte
	// Step is what the service itself did with an MCP server, with Other; or which tool a call is of that the caller
	// must approve, with the first ToolCall of it. Otherwise it is nil.
	Step *Step
}

// Step is a step of a conversation with MCP servers.
type Step struct {
	Server string // its label
	// Tools is the JSON array of the tools that the server listed; nil: the step is a call.
	Tools []byte
	// Of a call: the server's name of the tool, its arguments, and the result or why there is none.
	Tool, Arguments, Output string
	Failed                  bool
	Approval                string // the id of the call that the caller has approved; empty: it needed none
}

// Rest holds the parts of a whole choice that are passed on unread: JSON values, empty if absent. Stop is the stop
// sequence that ended the reply, if the upstream tells; only some dialects can say it.
type Rest struct {
	Logprobs, Annotations, Audio json.RawMessage
	Stop                         string
}

// ToolPiece is a piece of a tool call. ID and Name come with the first piece of an Index only.
type ToolPiece struct {
	Index     int // of the call within its choice, from 0 without gaps
	ID        string
	Name      string
	Arguments string // a piece of the arguments' text, to be appended to those before
	Custom    bool   // the call is of a custom tool, whose Arguments are any text instead of JSON
}

// Listed is a model as its upstream lists it. Fields that the upstream does not give are zero.
type Listed struct {
	ID            string    // the name to call it by
	Name          string    // the name to show to people
	ContextLength int       // tokens
	MaxOutput     int       // tokens
	Embeds        bool      // it makes embeddings and takes no part in chat completions
	Shutdown      time.Time // the day on which the vendor ends it
}
