// Package provider is how Sluice asks an upstream for a completion.
//
// Each wire format implements Adapter in a folder of its own; everything around a call that is the
// same for all of them stands here. A Stream is pulled by one goroutine, event by event; a reply
// that is not streamed is the same stream, collected.
package provider

import (
	"context"

	"sluice/internal/chat"
	"sluice/internal/continuation"
)

// Call is one model turn to be asked of an upstream.
type Call struct {
	Request *chat.Request
	// Upstream is the model's name over there.
	Upstream string
	// MaxOutput bounds the completion where the request does not; 0: the upstream's own bound.
	MaxOutput int
	// Thinks is whether the model can reason; reasoning_effort is dropped where it cannot.
	Thinks bool
	// ID is unique to this turn; the ids of tool calls that the upstream gives none are made of it.
	ID string
	// Memory is where an adapter keeps what the next turn needs of this one, such as signatures, under
	// the ids of the tool calls it yields; nil: nothing is kept.
	Memory *continuation.Memory
	// Dropped is set by Open: the fields of the request that this upstream cannot take and that do not
	// change the answer.
	Dropped []string
}

// Adapter speaks one wire format.
type Adapter interface {
	// Open sends the call and returns its stream, or a fault.
	// Canceling ctx ends the call and the upstream's work at once.
	Open(ctx context.Context, call *Call) (Stream, error)
}

// Stream yields the events of one reply, in order.
type Stream interface {
	// Next returns the next event, valid until the call after it; a Whole event's Raw until Close. The error is io.EOF after a
	// complete reply, and a fault where the reply broke off: cut, stalled, garbled or refused.
	Next() (*Event, error)
	// Ready reports whether Next would return without waiting for the upstream.
	Ready() bool
	// Close frees the upstream. It may be called at any time, once.
	Close() error
}

// Metered is a Stream that knows what its reply has cost so far, before its end.
type Metered interface {
	// Figures are the upstream's, as far as it has given any.
	Figures() (chat.Usage, bool)
}

// Partial is the usage of a reply that broke off: the prompt by the upstream's early figures, and what was
// produced by them or by our own count, whichever is more.
func Partial(figures, counted chat.Usage) chat.Usage {
	if counted.CompletionTotal() > figures.CompletionTotal() {
		figures.Completion, figures.Reasoning = counted.Completion, counted.Reasoning
	}
	return figures
}

// Kind says which fields of an Event count.
type Kind uint8

const (
	Text      Kind = iota + 1 // Event.Text, a piece of the reply
	Reasoning                 // Event.Text, a piece of the model's thinking
	ToolCall                  // Event.Tool, a piece of one call
	Finish                    // Event.Finish; at most one, after all content
	Usage                     // Event.Usage, the final figures; may follow Finish
	Chunk                     // Event.Raw, one chat.completion.chunk of the OpenAI dialect as JSON
	Whole                     // Event.Raw, one chat.completion of the OpenAI dialect as JSON, the only event of a stream
)

// Event is one step of a reply.
type Event struct {
	Kind   Kind
	Choice int // which of n replies; 0 where there is one
	Text   string
	Tool   ToolPiece
	Finish chat.Finish
	Usage  chat.Usage
	Raw    []byte
}

// ToolPiece is a piece of a tool call. ID and Name come with the first piece of an index only.
type ToolPiece struct {
	Index     int
	ID        string
	Name      string
	Arguments string
	Custom    bool // it calls a custom tool: Arguments is any text
}
