package mcpserver

import (
	"encoding/json"
	"slices"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// maxEnvelope bounds a message without the arguments of a tool, in bytes. The SDK decodes the
// message several times into values that may take a hundred times its size. The arguments are
// withheld from the SDK and never decoded as a whole, so they may be much larger.
const maxEnvelope = 64 << 10

// message holds the parts of a JSON-RPC message that matter here. The slices point into the body,
// except for an envelope whose arguments were replaced.
type message struct {
	method    string
	id        []byte
	requestID []byte // id of the call that a notification cancels
	progress  bool   // the client asks for progress
	arguments []byte // arguments of a tool; nil if there are none
	envelope  []byte // the message with its arguments replaced by {}
}

// readMessage finds the parts of a message without decoding it. It validates the JSON first,
// because a chat.Value relies on that.
func readMessage(body []byte) (message, error) {
	var m message
	switch {
	case !json.Valid(body):
		return m, fault.New(fault.Invalid, "This is not an MCP request that can be answered: it is malformed JSON.")
	case chat.ValueOf(body).Kind() == '[':
		return m, fault.New(fault.Invalid, "Several messages in one request are not accepted. Send them one by one.")
	}
	root := chat.ValueOf(body)
	m.method = root.Member("method").Text() // a method that is not a string matches none that we know
	m.id = root.Member("id").Raw()
	params := root.Member("params")
	m.requestID = params.Member("requestId").Raw()
	m.progress = params.Member("_meta").Given("progressToken").Exists()
	arguments := params.Member("arguments")
	// Only tool calls may have large arguments. For other methods they count as part of the
	// envelope.
	m.envelope = body
	if m.method == "tools/call" {
		m.arguments = arguments.Raw()
	}
	if len(body)-len(m.arguments) > maxEnvelope {
		return m, fault.New(fault.TooLarge, "A message may have at most %d KiB in addition to the arguments of a tool.", maxEnvelope>>10)
	}
	if m.arguments != nil {
		text, from := root.Raw(), arguments.Offset()
		m.envelope = slices.Concat(text[:from], []byte("{}"), text[from+len(m.arguments):])
	}
	return m, nil
}
