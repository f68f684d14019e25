package mcpserver

import (
	"bytes"
	"encoding/json"

	"sluice/internal/fault"
)

// maxEnvelope bounds a message without the arguments of a tool. The SDK decodes it several times over, into
// values that may take a hundred times its size; arguments are kept from it and never decoded as a whole.
const maxEnvelope = 64 << 10

// message is what matters here of a JSON-RPC message. Its parts are pieces of the body.
type message struct {
	method    string
	id        []byte
	requestID []byte // that of a call to be cancelled
	progress  bool   // the client asks for progress
	arguments []byte // of a tool; nil: none
	envelope  []byte // the message with empty arguments in their place
}

// readMessage finds the parts of a message without decoding it.
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
			_ = json.Unmarshal(value, &m.method) // another type is no method that we know
		case `"id"`:
			m.id = value
		case `"params"`:
			params = value
		}
	})
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
	m.envelope = body
	if m.method != "tools/call" {
		m.arguments = nil
	}
	if len(body)-len(m.arguments) > maxEnvelope {
		return m, fault.New(fault.TooLarge, "Beside the arguments of a tool, a message may have %d KiB.", maxEnvelope>>10)
	}
	if m.arguments != nil {
		// The arguments are a piece of the body, so the capacities tell where it begins.
		from := cap(body) - cap(m.arguments)
		m.envelope = append(append(append(make([]byte, 0, len(body)-len(m.arguments)+2), body[:from]...), "{}"...), body[from+len(m.arguments):]...)
	}
	return m, nil
}

const space = " \t\r\n"

// members calls with the keys, quoted, and the values of an object. The JSON must be valid; what is no object
// has no members.
func members(raw []byte, with func(key, value []byte)) {
	rest := bytes.TrimLeft(raw, space)
	if len(rest) == 0 || rest[0] != '{' {
		return
	}
	for {
		rest = bytes.TrimLeft(rest[1:], space) // behind the brace or the comma
		if rest[0] == '}' {
			return
		}
		key := rest[:textEnd(rest)]
		rest = bytes.TrimLeft(rest[len(key):], space)
		rest = bytes.TrimLeft(rest[1:], space) // behind the colon
		value := rest[:valueEnd(rest)]
		with(key, value)
		if rest = bytes.TrimLeft(rest[len(value):], space); rest[0] == '}' {
			return
		}
	}
}

// textEnd is where the string ends that raw begins with.
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

// valueEnd is where the value ends that raw begins with.
func valueEnd(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i += textEnd(raw[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // the object around it
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
