// Package tokens counts and cuts text in the tokens of the o200k_base vocabulary, offline.
//
// The vocabulary is built on first use: about 25 ms and 6 MB that stay. After that a megabyte of
// text costs about 350 ms, so count where the figure is needed, and let bytes, a Floor or a sample
// decide the rest. Long texts are counted a block at a time, and few blocks at once, whoever asks.
// Counts are exact for models of that vocabulary and a fair estimate for others.
package tokens

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// vocabulary is safe for concurrent use; nothing changes in it once it is built.
var vocabulary = sync.OnceValue(codec.NewO200kBase)

// Piece is a stretch of text and the number of tokens it is made of.
type Piece struct {
	Text   string
	Tokens int
}

// Count is the number of tokens in the text.
func Count(text string) int {
	if len(text) <= Block {
		return count(text)
	}
	c := Counter{}
	_ = c.Add([]byte(text)) // it has neither a limit nor a context
	_ = c.End()
	return c.Tokens()
}

// About is the number of tokens in a text of any length: exact for texts of up to 256 KiB, and beyond
// that as if the rest were like the beginning.
func About(text string) int {
	const exact = 256 << 10
	if len(text) <= exact {
		return Count(text)
	}
	return int(int64(Count(strings.ToValidUTF8(text[:exact], ""))) * int64(len(text)) / exact)
}

// count is Count without a bound on the work.
func count(text string) int {
	total := 0
	for text != "" {
		var head string
		head, text = cut(text)
		n, err := vocabulary().Count(head)
		if err != nil {
			n = len(head) / 4 // the matcher gave up; about four bytes make a token
		}
		total += max(n, 1)
	}
	return total
}

// Split cuts the text into tokens. Joined, the pieces are the text, byte for byte, and no piece
// ends inside a character: tokens that share one stay together, which is why a piece has a count.
func Split(text string) []Piece {
	pieces := make([]Piece, 0, len(text)/4+1)
	for text != "" {
		var head string
		head, text = cut(text)
		_, parts, err := vocabulary().Encode(head)
		if err != nil || strings.Join(parts, "") != head {
			// Bytes that are no UTF-8 come back as replacement characters, and DEL not at all.
			pieces = append(pieces, Piece{head, Count(head)})
			continue
		}
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

// window bounds what the matcher sees at once. Its time is quadratic in some white space: 400 KB of
// space-newline pairs took three minutes in one go and take half a second in windows.
const window = 1024

// cut takes the next window off the text. It ends where a token ends in any case, between a letter or
// digit and white space, so that counts stay exact; where a text has no such place, at the bound.
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
