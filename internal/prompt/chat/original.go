package chat

import "sluice/internal/prompt/allowance"

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
	// many tokens of output if the caller asks for more, and without what is not allowed; see Withhold.
	Compose func(model string, most int, allow *allowance.Set) (body []byte, dropped []string, err error)
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
	// Features are names of the dialect's features that the caller has switched on in a header.
	Features []string
}
