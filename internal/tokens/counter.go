package tokens

import (
	"context"
	"errors"
	"runtime"
	"unicode"
	"unicode/utf8"
)

// Block is how much text is counted in one go: some 20 ms of work.
const Block = 64 << 10

// ErrEnough says that a Counter has seen more tokens than it was to count.
var ErrEnough = errors.New("tokens: more than were to be counted")

// places bounds how many blocks are counted at the same time in this process, so that however many
// long texts arrive, half of the processors are left to everybody else. A place is held for one block.
var places = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Counter counts texts that come in pieces. The zero value counts everything.
type Counter struct {
	// Context ends the counting; nil: nothing does.
	Context context.Context //nolint:containedctx // one count's
	// Most is where counting stops: with ErrEnough, once there are more; 0: nowhere.
	Most int
	// Count replaces the tokenizer, for tests.
	Count func(text string) int

	n     int
	block []byte // what has come and is not counted
}

// Add feeds the next piece of a text.
func (c *Counter) Add(piece []byte) error {
	for len(piece) > 0 {
		room := Block - len(c.block)
		if len(piece) < room {
			c.block = append(c.block, piece...)
			return nil
		}
		c.block = append(c.block, piece[:room]...)
		piece = piece[room:]
		end := lastBreak(c.block)
		if err := c.countBlock(c.block[:end]); err != nil {
			return err
		}
		c.block = append(c.block[:0], c.block[end:]...)
	}
	return nil
}

// End ends a text: what is fed from here on is another one.
func (c *Counter) End() error {
	if len(c.block) == 0 {
		return nil
	}
	err := c.countBlock(c.block)
	c.block = c.block[:0]
	return err
}

// Tokens is the number so far.
func (c *Counter) Tokens() int { return c.n }

// countBlock adds a block. Small ones need no place: they cost less than waiting for one.
func (c *Counter) countBlock(block []byte) error {
	if len(block) >= Block/8 {
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

// lastBreak is where a block is cut: like cut, between a letter or digit and white space behind it, so
// that counts stay exact; where there is no such place near its end, between two characters.
func lastBreak(block []byte) int {
	for i := len(block) - 1; i > len(block)-window && i > 0; i-- {
		if block[i] == ' ' || block[i] == '\n' {
			if r, _ := utf8.DecodeLastRune(block[:i]); unicode.IsLetter(r) || unicode.IsDigit(r) {
				return i
			}
		}
	}
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
