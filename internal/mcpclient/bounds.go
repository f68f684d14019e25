package mcpclient

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// A few bytes of JSON become a value of hundreds: "{}," is a map. So what comes from a server is bounded by
// its values as well as by its bytes, and both are counted as it is read, before anything is decoded.
const (
	// envelope is what a message may have beside the result in it.
	envelope = 64 << 10
	// maxMessages is how many of the largest messages a stream of them may have in all.
	maxMessages = 16
	// maxEvents is how many events a stream may have: each is decoded, however small it is.
	maxEvents = 10_000
	// maxRefusal bounds the body of a reply with an error status.
	maxRefusal = 64 << 10
	// maxValues is how many JSON values one message may have.
	maxValues = 1 << 16

	// What the lists of tools of all servers of a request may have together.
	maxListBytes  = 4 << 20
	maxListValues = 1 << 17

	// valueBytes is about what a decoded JSON value takes at most.
	valueBytes = 256
	// maxHeld bounds what is being read and decoded at once, over all requests: bytes, and valueBytes for
	// each value.
	maxHeld = 256 << 20
)

var (
	errTooLarge = errors.New("more bytes than a message may have")
	errTooMany  = errors.New("more JSON values than a message may have")
	errEvents   = errors.New("more events than a stream may have")
	errLists    = errors.New("more than the lists of tools of a request may have together")
	errBusy     = errors.New("too much is being read from MCP servers at once")
)

// Budget is what the lists of tools of one request may take together.
type Budget struct{ bytes, values atomic.Int64 }

// NewBudget returns a budget of which nothing is used.
func NewBudget() *Budget {
	b := &Budget{}
	b.bytes.Store(maxListBytes)
	b.values.Store(maxListValues)
	return b
}

// spend takes something out of the budget and reports whether it was there.
func (b *Budget) spend(bytes, values int) bool {
	left, leftValues := b.bytes.Add(-int64(bytes)), b.values.Add(-int64(values))
	return left >= 0 && leftValues >= 0
}

// Held is about how many bytes are being read and decoded now.
func (c *Client) Held() int64 { return c.held.Load() }

// counter counts the values of JSON that comes in pieces, in a body or in the lines of an event stream. The
// state starts anew with every line: a string has no line break in it, so nothing that stands before a line
// can hide what is in it.
type counter struct{ text, escaped bool }

// count returns how many values begin in p: one behind each comma, and one for each brace and bracket.
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

// tell is what a caller is told of a bound that a server went beyond; empty: it did not.
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
