package tokens

// Floor is a number of tokens that a text has at least, found without the tokenizer: 2 to 6
// nanoseconds a byte, where counting takes some 300.
//
// The tokenizer first splits a text into words, numbers, punctuation and white space, and no token
// crosses such a split. Floor counts the splits it is sure of, which makes it nearly exact for English
// and for tables of numbers, and low for scripts without spaces. Long runs add what the longest token
// of their kind leaves no choice about. The zero value is ready; texts are fed in pieces.
type Floor struct {
	n     int
	kind  runeKind // of the last byte
	run   int      // bytes of this kind in a row
	prior runeKind // what came before the run
	first byte     // of the run
	upper bool     // the last byte is a capital
	lines bool     // the run of white space has a line break
	quote bool     // an apostrophe stands before the run
	last  byte

	// Whether a new letter, or a new character beyond ASCII, cannot belong to the word counted last.
	newLetter, newOther bool
}

// runeKind is what a byte is to the split.
type runeKind uint8

const (
	edge     runeKind = iota // the beginning of a text
	letter                   // ASCII
	digit                    // ASCII
	space                    // ASCII white space
	mark                     // ASCII punctuation
	foreign                  // beyond ASCII, and no white space
	doubtful                 // may be anything
)

// The most bytes of a kind that one token of the vocabulary holds; TestLongestTokens keeps them true.
const (
	mostLetters = 26
	mostDigits  = 3
	mostSpaces  = 128
	mostMarks   = 112
	mostForeign = 60
)

var kinds = func() (k [256]runeKind) {
	for c := range k {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			k[c] = letter
		case c >= '0' && c <= '9':
			k[c] = digit
		case c == ' ', c == '\t', c == '\n', c == '\v', c == '\f', c == '\r':
			k[c] = space
		case c > ' ' && c < 0x7f:
			k[c] = mark
		case c >= 0x80:
			k[c] = foreign
		default:
			k[c] = doubtful
		}
	}
	// White space beyond ASCII begins with these bytes.
	for _, c := range []byte{0xc2, 0xe1, 0xe2, 0xe3} {
		k[c] = doubtful
	}
	return k
}()

// Add feeds the next piece of the text. A piece may end inside a character.
func (f *Floor) Add(piece []byte) {
	for _, c := range piece {
		k := kinds[c]
		if k >= foreign && c&0xc0 == 0x80 {
			k = f.kind // a character's later bytes are like its first
			if k < foreign {
				k = doubtful
			}
		}
		switch {
		case k != f.kind:
			f.close(k)
			f.kind, f.prior, f.run, f.first, f.lines, f.quote = k, f.kind, 0, c, false, f.last == '\''
			f.open(k, c)
		case k == letter && c < 'a' && !f.upper && (f.run > 1 || !f.quote):
			// fooBar is two words; only the letters of we'rE are one.
			f.n += 1 + (f.run-1)/mostLetters
			f.run = 0
		}
		f.upper = c < 'a'
		f.lines = f.lines || c == '\n' || c == '\r'
		f.last = c
		f.run++
	}
}

// open begins a run of kind k.
func (f *Floor) open(k runeKind, c byte) {
	switch k {
	case letter:
		if f.newLetter {
			f.n++
			f.newLetter, f.newOther = false, false
		}
	case foreign:
		if f.newOther {
			f.n++
			f.newLetter, f.newOther = false, false
		}
	case digit, space:
		f.newLetter, f.newOther = true, true
	case mark:
		f.newLetter = f.newLetter || c != '\''
	}
}

// close ends the run before one of kind next.
func (f *Floor) close(next runeKind) {
	more := 0
	switch f.kind {
	case letter:
		more = (f.run - 1) / mostLetters
	case digit:
		if f.prior >= foreign || next >= foreign { // there are digits beyond ASCII
			more = (f.run - 4) / mostDigits
			break
		}
		more = (f.run + mostDigits - 1) / mostDigits
	case space:
		more = (f.run+mostSpaces-1)/mostSpaces - 3
		if (f.lines || f.run > 1) && (f.prior == letter || f.prior == digit) {
			more = max(more, 0) + 1
		}
	case mark:
		more = (f.run+mostMarks-1)/mostMarks - 3
		if f.isOwn(next) {
			more = max(more, 0) + 1
		}
		if f.run > 1 {
			f.newLetter = true
		}
	case foreign:
		more = (f.run+mostForeign-1)/mostForeign - 3
	case doubtful:
		more = (f.run+mostMarks-1)/mostMarks - 3
	case edge:
	}
	f.n += max(more, 0)
}

// isOwn reports whether the run of punctuation has a token of its own. One character in front of a
// letter belongs to the word; a slash behind a line break may belong to what stands before that.
func (f *Floor) isOwn(next runeKind) bool {
	if f.prior >= foreign {
		return false
	}
	switch next {
	case digit, space:
		return f.last != '/'
	case letter:
		return f.run > 1 && f.first != '/'
	default:
		return false
	}
}

// End ends a text: what is fed from here on is another one.
func (f *Floor) End() {
	f.close(edge)
	*f = Floor{n: f.n, newLetter: true, newOther: true}
}

// Tokens is the number so far.
func (f *Floor) Tokens() int { return f.n }
