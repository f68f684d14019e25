package learned

// Kind is a kind of work by which prompts in prose differ most. The training set has questions only: what is
// asked of a model beside them, such as a letter or a program, is known by these signs alone.
type Kind uint8

const (
	Talk    Kind = iota // questions and opinions
	Writing             // letters, stories, roles
	Data                // extracting and sorting
	Logic               // puzzles and arguments
	Sums                // arithmetic and mathematics
	Program             // code

	kinds
)

// signWords lists the words that point to each kind.
var signWords = [kinds][]string{
	Writing: {
		"write", "story", "poem", "essay", "email", "blog", "letter", "draft", "compose", "describe", "imagine", "pretend", "act", "role", "character", "persuasive", "style", "tone", "rewrite",
		"edit", "headline", "haiku", "limerick", "song", "speech", "dialogue", "review", "paragraph", "introduction", "novel", "fictional", "invitation", "creative", "travel",
		"schreibe", "geschichte", "gedicht", "écris", "escribe",
	},
	Data: {
		"extract", "json", "csv", "table", "classify", "categorize", "identify", "entities", "format", "convert", "parse", "categories", "columns", "rows", "sort", "spreadsheet", "yaml", "xml", "fields", "tabelle",
	},
	Logic: {
		"puzzle", "riddle", "logically", "deduce", "true", "false", "premise", "conclusion", "implies", "contradiction", "constraint", "constraints", "clue", "clues", "liar", "knight", "knave",
		"taller", "older", "younger", "faster", "left", "right", "opposite", "overtake", "neighbor", "sibling", "siblings", "brother", "brothers", "sister", "sisters", "race", "facing", "direction", "belong", "premises", "argument", "paradox", "optimal", "strategy",
	},
	Sums: {
		"solve", "equation", "integer", "integers", "probability", "sum", "remainder", "divided", "divisible", "triangle", "radius", "area", "perimeter", "volume", "polynomial", "prove", "theorem", "integral",
		"derivative", "matrix", "vertices", "fraction", "percent", "total", "average", "calculate", "compute", "cost", "costs", "many", "much", "twice", "half", "per", "times", "dice", "roots", "inequality", "modulo", "log", "sqrt", "frac",
		"berechne", "gleichung", "combien", "calcula",
	},
	Program: {
		"code", "function", "python", "javascript", "typescript", "java", "golang", "rust", "sql", "html", "css", "program", "algorithm", "array", "arrays", "strings", "implement", "compile",
		"compiler", "regex", "regexp", "bug", "debug", "refactor", "api", "def", "func", "loop", "recursive", "recursion", "binary", "website", "linked", "stack", "complexity", "bash", "script", "traceback", "exception", "cpp", "kubernetes", "docker", "programm", "fonction", "función",
	},
}

// Words that are counted beside those, as bits of an entry.
const (
	denial = 1 << (kinds + iota)
	share
	weak // a sign of writing that other orders have, too
)

var countedWords = map[uint16][]string{
	denial: {"not", "except", "never", "false", "incorrect", "least", "neither", "nor", "no"},
	weak:   {"write", "describe", "imagine", "act", "edit"},
	share:  {"percent", "half", "twice", "third", "times", "quarter", "fraction", "ratio", "each", "per", "more", "less", "than"},
}

// signTable finds what a word points to by its hash: open addressing, at most half full.
type signTable [1024]struct {
	hash uint32
	bits uint16 // one for each kind, then denial, share and weak
}

// signsOf is made once: the table is small, and the words above stay readable.
var signsOf = func() (table signTable) {
	put := func(bits uint16, words []string) {
		for _, w := range words {
			h := uint32(hashStart)
			for i := range len(w) {
				h = (h ^ uint32(w[i])) * hashStep
			}
			at := spread(h) % uint32(len(table))
			for table[at].hash != 0 && table[at].hash != h {
				at = (at + 1) % uint32(len(table))
			}
			table[at].hash = h
			table[at].bits |= bits
		}
	}
	for k, words := range signWords {
		put(1<<k, words)
	}
	put(denial, countedWords[denial])
	put(share, countedWords[share])
	put(weak, countedWords[weak])
	return table
}()

// sign counts a word if it is one of those above.
func (t *Text) sign(h uint32) {
	at := spread(h) % uint32(len(signsOf))
	for signsOf[at].hash != h {
		if signsOf[at].hash == 0 {
			return
		}
		at = (at + 1) % uint32(len(signsOf))
	}
	found := signsOf[at].bits
	for k := range t.signs {
		t.signs[k] += int(found >> k & 1)
	}
	t.denials += int(found / denial & 1)
	t.shares += int(found / share & 1)
	t.weak += int(found / weak & 1)
}

// work returns the kind of work that a prompt in prose asks for.
func (t *Text) work() Kind {
	n := t.signs
	// Marks say as much as words.
	n[Program] += min(t.semicolons/2, 6)
	n[Sums] += min(t.numbers/2, 3) + min(t.operators/2, 2) + min(t.slashes, 3)
	n[Writing] = 2*n[Writing] - t.weak // there are few of them in a long order
	best := Talk
	for k := Writing; k < kinds; k++ {
		if n[k] > 0 && n[k] >= n[best] {
			best = k
		}
	}
	return best
}
