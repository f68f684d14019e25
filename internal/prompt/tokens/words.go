package tokens

import (
	"unicode"
	"unicode/utf8"
)

// class says to which of the vocabulary's classes a character belongs. A character may belong to both of
// capital and small: letters without case, modifiers and marks do.
type class uint8

const (
	capital class = 1 << iota // Lu, Lt, Lm, Lo, M
	small                     // Ll, Lm, Lo, M
	letterLike
	number
	blank // white space
	line  // \r and \n
)

// classOf returns the classes of a character.
func classOf(r rune) class {
	if r < utf8.RuneSelf {
		return classes[r]
	}
	return lookUp(r)
}

// classes are the classes of ASCII, which is most of what is counted.
var classes = func() (c [utf8.RuneSelf]class) {
	for r := range c {
		c[r] = lookUp(rune(r))
	}
	return c
}()

// lookUp finds the classes of any character in Unicode's tables.
// The order of the cases matters: a line break is white space, too, and small letters are letters.
func lookUp(r rune) class {
	switch {
	case r == '\r' || r == '\n':
		return blank | line
	case unicode.IsSpace(r):
		return blank
	case unicode.IsLower(r) && unicode.Is(unicode.Ll, r):
		return small | letterLike
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return capital | letterLike
	case unicode.IsLetter(r):
		return capital | small | letterLike
	case unicode.Is(unicode.M, r):
		return capital | small // a mark is no letter, so it may also come before a word
	case unicode.Is(unicode.N, r):
		return number
	}
	return 0
}

// word returns the length of the first word of a text that is not empty: what the pattern of o200k_base
// matches at its beginning. No token is larger than a word. The alternatives of the pattern are tried in
// its order:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n/]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
//
// It is written by hand because package regexp has no lookahead, and a word must be found in time
// proportional to its length.
func word(s string) int {
	first, size := utf8.DecodeRuneInString(s)
	c := classOf(first)
	// Something that is neither letter, number nor line break may come before the letters.
	lead := 0
	if c&(letterLike|number|line) == 0 {
		lead = size
	}
	if end := lowered(s, lead); end > 0 {
		return end
	}
	// A mark that cannot lead is the word's first letter.
	if lead > 0 && c&small != 0 {
		if end := lowered(s, 0); end > 0 {
			return end
		}
	}
	if end := run(s, lead, capital); end > lead {
		return end + contraction(s[end:])
	}
	if c&number != 0 {
		return digits(s, size)
	}
	if end := marks(s, first); end > 0 {
		return end
	}
	return blanks(s)
}

// run returns the end of the characters from i on that belong to the class.
func run(s string, i int, c class) int {
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if classOf(r)&c == 0 {
			break
		}
		i += size
	}
	return i
}

// lowered matches capital letters and at least one small one, from i on, with the contraction after them.
// It returns 0 if there is no match.
//
// A regular expression would take as many capitals as it can and then step back until a small
// letter remains; both is where it would stop.
func lowered(s string, i int) int {
	// both is the end of the last character that may be a capital or a small letter.
	both := 0
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		c := classOf(r)
		if c&capital == 0 {
			break
		}
		i += size
		if c&small != 0 {
			both = i
		}
	}
	// The small letters begin here, or, if there are none, with the last character that can be one.
	end := run(s, i, small)
	if end == i {
		end = both
	}
	if end == 0 {
		return 0
	}
	return end + contraction(s[end:])
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of s.
// Setting bit 0x20 makes an ASCII letter small, and turns nothing else into one of the letters
// compared here.
func contraction(s string) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	second := byte(0)
	if len(s) > 2 {
		second = s[2] | 0x20
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if second == 'e' {
			return 3
		}
	case 'l':
		if second == 'l' {
			return 3
		}
	}
	// The long s is an s for those who ignore case.
	if len(s) > 2 && s[1:3] == "ſ" {
		return 3
	}
	return 0
}

// digits returns the end of a number of at most three digits, whose first one ends at i.
func digits(s string, i int) int {
	for range 2 {
		r, size := utf8.DecodeRuneInString(s[i:])
		if size == 0 || classOf(r)&number == 0 {
			break
		}
		i += size
	}
	return i
}

// marks matches punctuation with a space before it and line breaks or slashes after it.
func marks(s string, first rune) int {
	start := 0
	if first == ' ' {
		start = 1
	}
	end := start
	for end < len(s) {
		r, size := utf8.DecodeRuneInString(s[end:])
		if classOf(r)&(letterLike|number|blank) != 0 {
			break
		}
		end += size
	}
	if end == start {
		return 0
	}
	for end < len(s) && (s[end] == '\r' || s[end] == '\n' || s[end] == '/') {
		end++
	}
	return end
}

// blanks matches white space: up to its last line break, or all of it at the end of the text, or else all
// but the last character, which belongs to the next word.
func blanks(s string) int {
	end, last, breaks := 0, 0, 0
	for end < len(s) {
		r, size := utf8.DecodeRuneInString(s[end:])
		c := classOf(r)
		if c&blank == 0 {
			break
		}
		last = end
		end += size
		if c&line != 0 {
			breaks = end
		}
	}
	switch {
	case breaks > 0:
		return breaks
	case end == len(s) || last == 0:
		return end
	}
	return last
}
