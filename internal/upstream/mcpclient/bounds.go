package mcpclient

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// A few bytes of JSON can decode to a value of hundreds of bytes: "{}," becomes a map. So messages
// from a server are bounded by the number of JSON values as well as by bytes. Both are counted
// while reading, before anything is decoded.
const (
	// envelope is how many bytes a message may have in addition to the result inside it.
	envelope = 64 << 10
	// maxMessages bounds an event stream: it may have as many bytes as this many largest messages.
	maxMessages = 16
	// maxEvents bounds the events in a stream, because each one is decoded, however small it is.
	maxEvents = 10_000
	// maxRefusal bounds the body of a reply with an error status, in bytes.
	maxRefusal = 64 << 10
	// maxValues is the maximum number of JSON values in one message.
	maxValues = 1 << 16

	// The tool lists of all servers of one request share these limits.
	maxListBytes  = 4 << 20
	maxListValues = 1 << 17

	// valueBytes is roughly the most memory that one decoded JSON value takes.
	valueBytes = 256
	// maxHeld bounds, over all requests, the data that is being read and decoded at the same time.
	// It counts bytes, plus valueBytes for each value.
	maxHeld = 256 << 20
)

// The limits that wire reports; tell turns them into words for the caller.
var (
	errTooLarge = errors.New("more bytes than a message may have")
	errTooMany  = errors.New("more JSON values than a message may have")
	errEvents   = errors.New("more events than a stream may have")
	errLists    = errors.New("more than the lists of tools of a request may have together")
	errBusy     = errors.New("too much is being read from MCP servers at once")
)

// Budget limits the size of all tool lists of one request together. It is safe for concurrent use.
type Budget struct{ bytes, values atomic.Int64 }

// NewBudget returns an unused budget.
func NewBudget() *Budget {
	b := &Budget{}
	b.bytes.Store(maxListBytes)
	b.values.Store(maxListValues)
	return b
}

// spend takes bytes and values from the budget and reports whether that much was left. It never
// gives anything back: once a budget is exceeded, it stays so.
func (b *Budget) spend(bytes, values int) bool {
	left, leftValues := b.bytes.Add(-int64(bytes)), b.values.Add(-int64(values))
	return left >= 0 && leftValues >= 0
}

// counter counts the JSON values in data that arrives in pieces, either a plain body or the lines
// of an event stream. Its state is reset at every line break: a JSON string cannot contain one, so
// nothing in front of a line can make the counter miss what is in it.
type counter struct{ text, escaped bool } // inside a string; after a backslash

// count returns how many values begin in p: one after each comma, and one for each brace and
// bracket.
func (c *counter) count(p []byte) (n int) {
	for _, b := range p {
		switch {
		case b == '\n':
			c.text, c.escaped = false, false
		case c.escaped:
			c.escaped = false
		case b == '"':
			c.text = !c.text
		case c.text:
			c.escaped = b == '\\'
		case b == ',', b == '{', b == '[':
			n++
		}
	}
	return n
}

// tell returns what the caller reads about a limit that the server exceeded. It returns an empty
// string for any other error.
func (w *wire) tell(err error) string {
	switch {
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("it sent more than %d bytes at once", w.most)
	case errors.Is(err, errTooMany):
		return fmt.Sprintf("it sent more than %d JSON values at once", maxValues)
	case errors.Is(err, errEvents):
		return fmt.Sprintf("it sent more than %d events", maxEvents)
	case errors.Is(err, errLists):
		return fmt.Sprintf("the lists of tools of the request's servers are larger than %d MiB or %d JSON values together", maxListBytes>>20, maxListValues)
	case errors.Is(err, errBusy):
		return "too much is being read from MCP servers at the moment"
	}
	return ""
}
