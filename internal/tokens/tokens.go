// Package tokens counts and splits text in tokens of the o200k_base vocabulary, offline.
//
// The vocabulary is built on first use, which takes about 25 ms and 6 MB that stay allocated. After
// that, a megabyte of text takes about 350 ms. So count only where the number matters, and let the
// length in bytes, a Floor or a sample decide the rest. Long texts are counted in blocks, and only
// a few blocks at a time are counted in the whole process. Counts are exact for models that use
// this vocabulary and a fair estimate for others.
package tokens

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// vocabulary returns the tokenizer. It is safe for concurrent use: nothing changes once it is
// built.
var vocabulary = sync.OnceValue(codec.NewO200kBase)

// Piece is a part of a text and the number of tokens in it.
type Piece struct {
	Text   string
	Tokens int
}

// Count returns the number of tokens in the text.
func Count(text string) int {
	if len(text) <= Block {
		return count(text)
	}
	c := Counter{}
	_ = c.Add([]byte(text)) // it cannot fail: there is neither a limit nor a context
	_ = c.End()
	return c.Tokens()
}

// About returns the approximate number of tokens in a text of any length. It is exact up to 256
// KiB. Beyond that it assumes that the rest of the text is like the beginning.
func About(text string) int {
	const exact = 256 << 10
	if len(text) <= exact {
		return Count(text)
	}
	// The cut at exact bytes may split a character; ToValidUTF8 drops the incomplete one.
	return int(int64(Count(strings.ToValidUTF8(text[:exact], ""))) * int64(len(text)) / exact)
}

// count is Count without the limit on concurrent work.
func count(text string) int {
	total := 0
	for text != "" {
		var head string
		head, text = cut(text)
		n, err := vocabulary().Count(head)
		if err != nil {
			n = len(head) / 4 // the matcher gave up; assume four bytes per token
		}
		total += max(n, 1)
	}
	return total
}

// Split splits the text into tokens. The concatenated pieces are the text, byte for byte. No piece
// ends inside a character: tokens that share a character stay together, which is why a Piece has a
// count.
func Split(text string) []Piece {
	pieces := make([]Piece, 0, len(text)/4+1)
	for text != "" {
		var head string
		head, text = cut(text)
		_, parts, err := vocabulary().Encode(head)
		if err != nil || strings.Join(parts, "") != head {
			// Invalid UTF-8 comes back as replacement characters, and DEL does not come back at
			// all. Keep the original bytes as one piece.
			pieces = append(pieces, Piece{head, Count(head)})
			continue
		}
		// Join tokens until the end of a piece is also the end of a character.
		start, end, count := 0, 0, 0
		for _, part := range parts {
			end += len(part)
			count++
			if end == len(head) || utf8.RuneStart(head[end]) {
				pieces = append(pieces, Piece{head[start:end], count})
				start, count = end, 0
			}
		}
	}
	return pieces
}

// window is the number of bytes that the matcher sees at once. Its running time is quadratic for
// some kinds of white space: 400 KB of space-newline pairs took three minutes in one call and take
// half a second in windows.
const window = 1024

// cut splits the next window off the text. The window ends between a letter or digit and white
// space, where every tokenization has a boundary, so counts stay exact. If the second half of the
// window has no such place, it ends at the size limit, between two characters.
func cut(text string) (head, tail string) {
	if len(text) <= window {
		return text, ""
	}
	for i := window; i > window/2; i-- {
		if text[i] == ' ' || text[i] == '\n' {
			if r, _ := utf8.DecodeLastRuneInString(text[:i]); unicode.IsLetter(r) || unicode.IsDigit(r) {
				return text[:i], text[i:]
			}
		}
	}
	end := window
	for end > window/2 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], text[end:]
}
