package tokens

import (
	"context"
	"errors"
	"runtime"
	"unicode"
	"unicode/utf8"
)

// Block is the number of bytes that are counted at once. A block takes about 3 ms.
const Block = 64 << 10

// ErrEnough is returned when a Counter has counted more tokens than its limit.
var ErrEnough = errors.New("tokens: more than were to be counted")

// places limits how many blocks this process counts at the same time, so that half of the
// processors stay free for other work, however many long texts arrive. A place is held for one
// block only.
var places = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Counter counts the tokens of texts that arrive in pieces. The zero value counts without a limit.
// A Counter is not safe for concurrent use.
//
// It holds at most one block of the text, however long the text is.
type Counter struct {
	// Context cancels the counting. It may be nil.
	Context context.Context //nolint:containedctx // one count's
	// Most is the limit: counting stops with ErrEnough once there are more tokens. 0 means no
	// limit.
	Most int
	// Count replaces the tokenizer in tests. It may be nil.
	Count func(text string) int

	n     int
	block []byte // bytes that have arrived but are not counted yet
}

// Add adds the next piece of a text. Pieces may be cut anywhere, even inside a character.
func (c *Counter) Add(piece []byte) error {
	for len(piece) > 0 {
		room := Block - len(c.block)
		if len(piece) < room {
			c.block = append(c.block, piece...)
			return nil
		}
		c.block = append(c.block, piece[:room]...)
		piece = piece[room:]
		// Keep what follows the last safe boundary for the next block.
		end := lastBreak(c.block)
		if err := c.countBlock(c.block[:end]); err != nil {
			return err
		}
		c.block = append(c.block[:0], c.block[end:]...)
	}
	return nil
}

// End ends a text. Whatever is added afterwards belongs to another text.
func (c *Counter) End() error {
	if len(c.block) == 0 {
		return nil
	}
	err := c.countBlock(c.block)
	c.block = c.block[:0]
	return err
}

// Tokens returns the number of tokens counted so far.
func (c *Counter) Tokens() int { return c.n }

// countBlock counts a block. Small blocks do not take a place, because they cost less than waiting for
// one.
func (c *Counter) countBlock(block []byte) error {
	if len(block) >= Block/8 {
		// Without a context, done is nil and blocks forever in the select.
		var done <-chan struct{}
		if c.Context != nil {
			if err := c.Context.Err(); err != nil {
				return err
			}
			done = c.Context.Done()
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-done:
			return c.Context.Err()
		}
	}
	f := count
	if c.Count != nil {
		f = c.Count
	}
	c.n += f(string(block))
	if c.Most > 0 && c.n > c.Most {
		return ErrEnough
	}
	return nil
}

// window is how far from its end a block is cut, at most.
const window = 1024

// lastBreak returns where a block is cut. That is between a letter or digit and white space, where every
// tokenization has a boundary, so that counts stay exact. If there is no such place near the end, it is between two
// characters.
func lastBreak(block []byte) int {
	for i := len(block) - 1; i > len(block)-window && i > 0; i-- {
		if block[i] == ' ' || block[i] == '\n' {
			if r, _ := utf8.DecodeLastRune(block[:i]); unicode.IsLetter(r) || unicode.IsDigit(r) {
				return i
			}
		}
	}
	// Do not cut a character whose last bytes have not arrived yet.
	end := len(block)
	for i := 1; i <= utf8.UTFMax && i < end; i++ {
		if utf8.RuneStart(block[end-i]) {
			if !utf8.FullRune(block[end-i:]) {
				end -= i
			}
			break
		}
	}
	return end
}
