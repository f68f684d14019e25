package learned

import "math"

// Form is how a prompt wants to be answered. The same words make a question harder or easier depending on
// it: a model that must answer with one letter cannot work its answer out.
type Form uint8

const (
	Open    Form = iota // a question or an order in prose
	Formula             // the same, with formulae in it
	Options             // answers to choose from
	Direct              // the last line waits for the answer, such as "Answer:"

	Forms // the number of forms
)

const (
	// Places is the number of places that words and pairs of words are hashed to. Twice as many gain little.
	Places = 1 << placeBits
	// Counts is the number of figures beside the words; see Text.counts.
	Counts = 24

	placeBits   = 15
	mostTerms   = 4096 // distinct places of one text; a sample has fewer
	vocabulary  = 1 << 17
	fewestWords = 3
	shortLine   = 16 // bytes of a last line that waits for an answer
)

// Text reads a text byte by byte and keeps what the model looks at: the words and the pairs of words, each
// once, and some counts. Case and white space make no difference. It is large, so it is used again.
type Text struct {
	seen  [Places / 64]uint64 // has a bit for each of terms
	terms [mostTerms]uint16
	n     int

	known *[vocabulary / 64]uint64 // words of the training set; nil: all are known
	learn func(word uint32)        // called for each word; only in the trainer

	progress
}

// progress is what is known of a text so far, beside its words.
type progress struct {
	// The token that is being read, and the one before it.
	reading  tokenKind
	hash     uint32
	length   int
	previous uint32
	symbol   int // bytes that are left of a symbol of three bytes

	// The line that is being read.
	line      int  // bytes without white space
	lineStart byte // the letter or digit that it starts with; 0 if the line is no option
	colon     bool // its last byte is a colon

	words, letters, long, numbers, digits, marks           int
	options, inOptions, optionNumbers                      int
	questions, operators, dollars, slashes, quotes, parens int
	commas, denials, shares, semicolons, strangers         int
	weak                                                   int
	signs                                                  [kinds]int
	last                                                   struct {
		bytes int
		colon bool
	}
}

type tokenKind uint8

const (
	nothing tokenKind = iota
	word
	number
)

const (
	hashStart = 2166136261
	hashStep  = 16777619
)

// Reset makes the text ready for another one. A short text has left few traces in the 12 KB of places and terms, and they are
// removed one by one: a copy of an empty Text took as long as reading a short prompt.
func (t *Text) Reset() {
	for _, at := range t.terms[:t.n] {
		t.seen[at/64] = 0
	}
	t.n = 0
	t.progress = progress{hash: hashStart}
}

// Write reads more of the text. A word may continue in the next call.
func (t *Text) Write(piece []byte) {
	for i := 0; i < len(piece); {
		c := piece[i]
		if t.reading == word && t.symbol == 0 && lower[c] != 0 {
			// Most bytes are letters inside a word. Reading them in a loop of their own halves the time.
			from, h := i, t.hash
			for i < len(piece) && lower[piece[i]] != 0 {
				h = (h ^ uint32(lower[piece[i]])) * hashStep
				i++
			}
			t.hash = h
			t.length += i - from
			if t.line == 1 || t.line == 0 {
				t.lineStart = 0 // a word, and no option
			}
			t.line += i - from
			t.colon = false
			continue
		}
		t.next(c)
		i++
	}
}

// lower has each letter of ASCII in lower case, and 0 for other bytes.
var lower = func() (table [256]byte) {
	for c := byte('a'); c <= 'z'; c++ {
		table[c], table[c-'a'+'A'] = c, c
	}
	return table
}()

// next reads one byte.
func (t *Text) next(c byte) {
	switch {
	case t.symbol > 0 && c >= 0x80:
		// The rest of a symbol such as a typographic quote, an arrow or a sum.
		t.hash = (t.hash ^ uint32(c)) * hashStep
		if t.symbol--; t.symbol == 0 {
			t.mark(t.hash)
			t.hash = hashStart
		}
		return
	case c >= 'A' && c <= 'Z':
		c += 'a' - 'A'
		t.letter(c)
	case c >= 'a' && c <= 'z':
		t.letter(c)
	case c == 0xe2:
		// Punctuation and mathematical symbols begin with this byte, and no letters of a living language do.
		t.end()
		t.symbol, t.hash = 2, (hashStart^uint32(c))*hashStep
	case c >= 0x80:
		t.letter(c)
	case c >= '0' && c <= '9':
		if t.reading != number {
			t.end()
			t.reading = number
		}
		t.hash = (t.hash ^ uint32(c)) * hashStep
		t.length++
	case c == '\n':
		t.end()
		t.endLine()
		return
	case c <= ' ':
		t.end()
		return
	default:
		t.punctuation(c)
	}
	t.line++
	t.colon = c == ':'
	if t.line == 1 {
		t.lineStart = c
	} else if t.line == 2 {
		// "A." and "3)" begin an option; words and sums do not.
		if (c == '.' || c == ')') && (t.lineStart >= 'a' && t.lineStart <= 'j' || t.lineStart >= '1' && t.lineStart <= '9') {
			t.options++
		}
	}
}

// letter adds a byte to the current word, or begins one. Words are hashed while they are read, so none is copied.
func (t *Text) letter(c byte) {
	if t.reading != word {
		t.end()
		t.reading = word
	}
	t.hash = (t.hash ^ uint32(c)) * hashStep
	t.length++
}

// punctuation ends the current word. The sign itself counts as a word: a prompt with much of it is often code or maths.
func (t *Text) punctuation(c byte) {
	t.end()
	t.count(c)
	t.mark((hashStart ^ uint32(c)) * hashStep)
}

func (t *Text) count(c byte) {
	switch c {
	case '?':
		t.questions++
	case '+', '-', '*', '/', '=', '<', '>', '^':
		t.operators++
	case '$':
		t.dollars++
	case '\\', '_':
		t.slashes++
	case '{', '}', ';', '`':
		t.semicolons++
	case '"', '\'':
		t.quotes++
	case '(', ')':
		t.parens++
	case ',':
		t.commas++
	case '%':
		t.shares++
	}
}

// mark adds a punctuation mark.
func (t *Text) mark(h uint32) {
	t.marks++
	t.token(h)
}

// end ends the word or number that is being read.
func (t *Text) end() {
	switch t.reading {
	case nothing:
		return
	case number:
		t.numbers++
		t.digits += t.length
		if t.options > 0 {
			t.optionNumbers++
		}
		h := t.hash
		if t.length > 1 { // long numbers say something by their length alone
			h = 0x85ebca6b + uint32(min(t.length, 6))
		}
		t.token(h)
	case word:
		t.words++
		t.letters += t.length
		if t.length > 8 {
			t.long++
		}
		if t.options > 0 {
			t.inOptions++
		}
		h := spread(t.hash)
		if t.learn != nil {
			t.learn(h % vocabulary)
		}
		if t.known != nil && t.known[h%vocabulary/64]&(1<<(h%64)) == 0 {
			t.strangers++
		}
		t.sign(t.hash)
		t.token(t.hash)
	}
	t.reading, t.hash, t.length = nothing, hashStart, 0
}

// token adds a token and its pair with the one before.
func (t *Text) token(h uint32) {
	t.add(spread(h))
	if t.previous != 0 {
		t.add(spread(t.previous*0x9e3779b1 ^ h))
	}
	t.previous = h
}

// add adds the place of a term once.
func (t *Text) add(h uint32) {
	at := h >> (32 - placeBits)
	if bit := uint64(1) << (at % 64); t.seen[at/64]&bit == 0 && t.n < mostTerms {
		t.seen[at/64] |= bit
		t.terms[t.n] = uint16(at)
		t.n++
	}
}

// spread distributes the bits of a hash.
func spread(h uint32) uint32 {
	h ^= h >> 15
	h *= 0x2c1b3c6d
	h ^= h >> 12
	h *= 0x297a2d39
	return h ^ h>>15
}

// endLine ends the line that is being read.
func (t *Text) endLine() {
	if t.line > 0 {
		t.last.bytes, t.last.colon = t.line, t.colon
	}
	t.line, t.lineStart, t.colon = 0, 0, false
}

// Close ends the text.
func (t *Text) Close() {
	t.end()
	t.endLine()
}

// Form returns the form of the text that was read.
func (t *Text) Form() Form {
	switch {
	case t.last.colon && t.last.bytes < shortLine && t.words > 2*fewestWords:
		return Direct
	case t.options > 1:
		return Options
	case t.slashes > 0:
		return Formula
	}
	return Open
}

// Terms returns the places of the words and pairs of words, each once. The slice is valid until Reset.
func (t *Text) Terms() []uint16 { return t.terms[:t.n] }

// Known reports whether the training set says anything about a text like this one: it has a few words, and
// most of them occur there.
func (t *Text) Known() bool {
	return t.words >= fewestWords && t.n > fewestWords && 2*t.strangers <= t.words
}

// Counts fills in the figures beside the words. All are of about the same size.
func (t *Text) Counts(to *[Counts]float64) {
	words, tokens := float64(t.words)+1, float64(t.words+t.numbers+t.marks)+1
	stem := logOf(t.words - t.inOptions)
	*to = [Counts]float64{
		1,
		logOf(t.words) - 4, logOf(t.numbers) - 1, logOf(t.marks) - 2.5,
		float64(t.long)/words*4 - 0.6, float64(t.letters)/words - 4.5,
		float64(min(t.options, 10))/5 - 0.8,
		logOf(t.questions) - 0.5, logOf(t.operators) - 0.4, logOf(t.dollars) - 0.3, logOf(t.slashes) - 0.2,
		logOf(t.denials) - 0.3, logOf(t.quotes) - 0.5, logOf(t.parens) - 0.4, logOf(t.commas) - 1, logOf(t.shares) - 0.5,
		float64(t.numbers)/tokens*5 - 0.3, float64(t.marks)/tokens*4 - 0.6,
		logOf(t.inOptions) - 2, stem - 3.5, float64(t.optionNumbers) / (float64(t.inOptions+t.optionNumbers) + 1),
		(stem - 3.5) * (stem - 3.5) / 2, (logOf(t.numbers) - 1) * (logOf(t.numbers) - 1) / 2,
		float64(t.digits)/(float64(t.numbers)+1) - 1,
	}
}

// logOf returns the logarithm of 1+n.
func logOf(n int) float64 { return math.Log1p(float64(n)) }
