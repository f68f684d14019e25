package routing

import (
	"math"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing/learned"
)

// What is read of a prompt: all of it if it is short, otherwise its beginning, its end, and slices between them.
// Orders are at the beginning or at the end.
const (
	readsAll   = 6 << 10
	readsHead  = 3 << 10
	readsTail  = 2 << 10
	readsSlice = 512
)

// difficultyOf returns how difficult the last user message is. Like the kind of task, it stays the same while
// tools are being called.
func difficultyOf(req *chat.Request, m *learned.Model) learned.Difficulty {
	content, ok := lastUserContent(req)
	if m == nil || !ok {
		return learned.Difficulty{Chance: learned.Typical}
	}
	text := m.Borrow()
	left := readsAll
	for i := 0; left > 0; i++ {
		p, ok := content.Passage(i)
		if !ok {
			break
		}
		left -= readInto(text, p)
		text.Write(newline)
	}
	return m.Judge(text)
}

// taskOfKind is the kind of task for a kind of work.
var taskOfKind = [...]catalog.Task{
	learned.Talk: catalog.Chat, learned.Writing: catalog.Writing, learned.Data: catalog.Data,
	learned.Logic: catalog.Math, learned.Sums: catalog.Math, learned.Program: catalog.Code,
}

var newline = []byte{'\n'}

// readInto reads a passage, or samples of a long one, and returns how many bytes were read.
func readInto(text *learned.Text, p chat.Passage) int {
	n := p.Len()
	if n <= readsAll {
		writePieces(text, p)
		return n
	}
	writePieces(text, p.Sample(0, readsHead))
	for k := 1; k <= 2; k++ {
		text.Write(newline)
		writePieces(text, p.Sample(k*n/3, readsSlice))
	}
	text.Write(newline)
	writePieces(text, p.Sample(n-readsTail, readsTail))
	return readsAll
}

func writePieces(text *learned.Text, p chat.Passage) {
	for piece := range p.Pieces() {
		text.Write(piece)
	}
}

// Requests with tools or with long prompts differ from the questions that the weights were learned from. They are
// judged by figures of our own: the more there is to choose from, to follow or to read, the more a weak model
// loses against a strong one.
const (
	toolsBase     = 0.25 // a request with one tool
	toolsDoubling = 0.04 // for each doubling of the number of tools
	turnsDoubling = 0.03 // for each doubling of the calls that were made before
	longFrom      = 8000 // tokens
	longDoubling  = 0.04 // for each doubling beyond that
	mostAssumed   = 0.6
)

// raised returns the difficulty of a request with its tools and its length taken into account.
func raised(d learned.Difficulty, req *chat.Request, f *Features) learned.Difficulty {
	assumed := 0.0
	if n := len(req.Tools); n > 0 {
		calls := 0
		for i := range req.Messages {
			calls += len(req.Messages[i].ToolCalls)
		}
		assumed = toolsBase + toolsDoubling*math.Log2(float64(n)) + turnsDoubling*math.Log2(float64(1+calls))
	}
	if f.PromptTokens > longFrom {
		assumed = max(assumed, learned.Typical) + longDoubling*math.Log2(float64(f.PromptTokens)/longFrom)
	}
	if assumed = min(assumed, mostAssumed); assumed > 0 {
		if !d.Known || assumed > d.Chance {
			d.Chance = assumed
		}
		d.Known = true
	}
	return d
}
