// Package tokens counts and splits text in tokens of the o200k_base vocabulary, offline.
//
// The vocabulary is built on first use, which takes about 40 ms and 4 MB that stay allocated. After
// that, a megabyte of text takes about 40 ms. So count only where the number matters, and let the
// length in bytes, a Floor or a sample decide the rest. Long texts are counted in blocks, and only
// a few blocks at a time are counted in the whole process. Counts are exact for models that use
// this vocabulary and a fair estimate for others.
//
// Start reading with Count and word; merger is the byte-pair encoding itself, and vocab its table.
// Counter and Floor are for texts that arrive in pieces.
package tokens

import (
	"strings"
	"unicode/utf8"
)

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
	m := merger{vocab: vocabulary()}
	for text != "" {
		end := word(text)
		m.tokens(readable(text[:end]), func(int) { total++ })
		text = text[end:]
	}
	return total
}

// readable returns a word with U+FFFD in the place of each byte that is not UTF-8, as tokenizers read it.
func readable(word string) string {
	if utf8.ValidString(word) {
		return word
	}
	return string([]rune(word))
}

// Split splits the text into tokens. The concatenated pieces are the text, byte for byte. No piece
// ends inside a character: tokens that share a character stay together, which is why a Piece has a
// count.
func Split(text string) []Piece {
	pieces := make([]Piece, 0, len(text)/4+1)
	m := merger{vocab: vocabulary()}
	for text != "" {
		end := word(text)
		pieces = m.pieces(pieces, text[:end])
		text = text[end:]
	}
	return pieces
}

// pieces appends the pieces of a word.
func (m *merger) pieces(to []Piece, word string) []Piece {
	start, count := 0, 0
	m.tokens(readable(word), func(end int) {
		count++
		// Join tokens until the end of a piece is also the end of a character. Of a word that is not
		// UTF-8, the tokens are those of another text: it stays one piece.
		if end < len(word) && utf8.RuneStart(word[end]) && utf8.ValidString(word) {
			to = append(to, Piece{word[start:end], count})
			start, count = end, 0
		}
	})
	return append(to, Piece{word[start:], count})
}
