package chat

import (
	"bytes"

	"sluice/internal/prompt/allowance"
)

// The names of dialects; see Original.
const (
	DialectMessages  = "messages"  // Anthropic's Messages API
	DialectResponses = "responses" // OpenAI's Responses API
)

// Original is a request as its caller sent it, in the dialect of a door other than chat completions. An upstream of the
// same dialect gets it, so that what a chat completion cannot say is not lost.
type Original struct {
	Dialect string // such as messages
	Body    []byte // JSON that Check has accepted; must not be changed
	// Compose, in the dialect of Responses, takes the place of Body: it returns the request for a model, with at most so
	// many tokens of output if the caller asks for more, and without what is not allowed; see Withhold. If the model thinks,
	// it is asked for what later turns need of that.
	Compose func(model string, most int, thinks bool, allow *allowance.Set) (body []byte, dropped []string, err error)
	// Tools says that it offers tools beside those of the chat completion, which plans and models may not have.
	Tools bool
	// Needs is the first thing in it that no chat completion can say and the answer depends on. Only an upstream of the
	// same dialect can take such a request. Its path is in the words of the dialect.
	Needs Foreign
	// Remote is the path of the first document that the upstream would have to fetch from an address; empty if there
	// is none. Images with an address are in the Request.
	Remote string
	// Loose says that its content has members that nobody has looked at, from which an upstream might take an address. An
	// upstream in the operator's network gets the request translated, without them.
	Loose bool
	// Altered says that an upstream of the dialect would refuse the body as it is: parts of it come from an upstream of
	// another dialect. Then the request is translated there, too.
	Altered bool
	// Header has the headers of the dialect that the caller has sent, such as the version of the API and the features that
	// it switches on.
	Header map[string][]string
	// Thread is what the caller wants of a conversation that the vendor holds.
	Thread Thread
}

// Thread is a conversation that the vendor holds between calls, so that each brings only what is new. Only the vendor
// itself has them.
type Thread struct {
	Wanted   bool   // the call begins a thread, or continues one
	Previous string // the id of the message that the call continues; empty: it begins a thread
}

// IsAttribution reports whether a text is the line in which Claude Code tells Anthropic, in the first block of system,
// which version it is. It changes with each request, so that no other upstream would find such a prompt in its cache.
func IsAttribution(text Value) bool {
	line := text.Inside()
	return bytes.HasPrefix(line, []byte("x-anthropic-billing-header:")) && !bytes.Contains(line, []byte(`\n`))
}

// Edited returns a body in which the value of each member is what edit returns for it; nil leaves the member out.
func Edited(body []byte, edit func(key string, v Value) []byte) []byte {
	out := append(make([]byte, 0, len(body)), '{')
	for m := ValueOf(body).Walk(); m.Next(); {
		if value := edit(string(m.Key), m.Value); value != nil {
			out = append(AppendName(out, string(m.Key)), value...)
		}
	}
	return append(out, '}')
}
