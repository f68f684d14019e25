// Package claude holds what is known of Anthropic's Claude models and of their dialect, whichever API they
// are called through.
//
// The Messages API and Bedrock's Converse name their fields differently but follow the same rules: whose
// turn it is, where system messages go, which thinking must come back, what a stop reason means. The rules
// are here, once, and are written in terms of package chat and of events. An adapter brings its own wire
// types: it implements Wire to write a conversation, and feeds a Builder with what it reads from a reply.
//
// Where to look: model.go has what each generation accepts, conversation.go the messages of a request, tools.go the
// functions and the choice among them, history.go which thinking of earlier turns goes back, reply.go the events, stop reasons, errors and figures of a reply, turn.go the
// thinking that is kept between two requests, jsontext.go the emulation of response_format.
//
// HTTP, credentials, framing and the wire types of one API belong to the adapters.
package claude

import (
	"sluice/internal/kit/fault"
	"sluice/internal/upstream/provider"
)

// DefaultMaxTokens bounds a reply for which neither the caller nor the model's configuration gives a bound.
// The Messages API requires max_tokens. 8192 is a bound that every model since Claude 3.5 accepts.
const DefaultMaxTokens = 8192

// Check refuses what no Claude can do, and drops the fields that none of them takes. More are fields that
// this API does not take either. It clears the list of dropped fields: another upstream may have been
// tried before.
func Check(call *provider.Call, more ...string) error {
	call.Dropped = nil
	if n := call.Request.N; n > 1 {
		return fault.New(fault.Invalid, "This model gives one reply at a time: n must be 1, got %d", n).At("n")
	}
	if err := call.PlainBesideFiles(); err != nil {
		return err
	}
	call.Drop("frequency_penalty", "presence_penalty", "seed")
	call.Drop(more...)
	call.DropUnread()
	return nil
}
