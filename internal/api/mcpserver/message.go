package mcpserver

import (
	"bytes"
	"encoding/json"

	"sluice/internal/kit/fault"
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
// because members relies on that.
func readMessage(body []byte) (message, error) {
	var m message
	switch {
	case !json.Valid(body):
		return m, fault.New(fault.Invalid, "This is not an MCP request that can be answered: it is malformed JSON.")
	case bytes.TrimLeft(body, space)[0] == '[':
		return m, fault.New(fault.Invalid, "Several messages in one request are not accepted. Send them one by one.")
	}
	var params []byte
	members(body, func(key, value []byte) {
		switch string(key) {
		case `"method"`:
			_ = json.Unmarshal(value, &m.method) // a method that is not a string matches none that we know
		case `"id"`:
			m.id = value
		case `"params"`:
			params = value
		}
	})
	// params is nil for a message without parameters, and then has no members.
	members(params, func(key, value []byte) {
		switch string(key) {
		case `"requestId"`:
			m.requestID = value
		case `"arguments"`:
			m.arguments = value
		case `"_meta"`:
			members(value, func(key, value []byte) {
				m.progress = m.progress || string(key) == `"progressToken"` && string(value) != "null"
			})
		}
	})
	// Only tool calls may have large arguments. For other methods they count as part of the
	// envelope.
	m.envelope = body
	if m.method != "tools/call" {
		m.arguments = nil
	}
	if len(body)-len(m.arguments) > maxEnvelope {
		return m, fault.New(fault.TooLarge, "A message may have at most %d KiB in addition to the arguments of a tool.", maxEnvelope>>10)
	}
	if m.arguments != nil {
		// The arguments are a slice of the body, so the difference of the capacities is their
		// offset.
		from := cap(body) - cap(m.arguments)
		m.envelope = append(append(append(make([]byte, 0, len(body)-len(m.arguments)+2), body[:from]...), "{}"...), body[from+len(m.arguments):]...)
	}
	return m, nil
}

// space is the white space of JSON.
const space = " \t\r\n"

// members calls with for each member of an object, with the quoted key and the value. The JSON must
// be valid. A value that is not an object has no members.
func members(raw []byte, with func(key, value []byte)) {
	// Bounds need no checks below, because the JSON is valid.
	rest := bytes.TrimLeft(raw, space)
	if len(rest) == 0 || rest[0] != '{' {
		return
	}
	for {
		rest = bytes.TrimLeft(rest[1:], space) // skip the brace or the comma
		if rest[0] == '}' {
			return
		}
		key := rest[:textEnd(rest)]
		rest = bytes.TrimLeft(rest[len(key):], space)
		rest = bytes.TrimLeft(rest[1:], space) // skip the colon
		value := rest[:valueEnd(rest)]
		with(key, value)
		if rest = bytes.TrimLeft(rest[len(value):], space); rest[0] == '}' {
			return
		}
	}
}

// textEnd returns the length of the string that raw begins with, including its quotes.
func textEnd(raw []byte) int {
	for i := 1; ; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// valueEnd returns the length of the value that raw begins with.
func valueEnd(raw []byte) int {
	// depth counts the braces and brackets that are open inside the value.
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i += textEnd(raw[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the end of the enclosing object or array
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(raw)
}
