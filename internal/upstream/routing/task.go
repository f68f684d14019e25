package routing

import (
	"bytes"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing/learned"
)

// Features is what a scorer may know about a request.
type Features struct {
	Task         catalog.Task
	PromptTokens int  // an estimate
	OutputTokens int  // an estimate
	Thinks       bool // the request wants reasoning
	// Difficulty says how far weak models fall behind. If it is not known, the estimates stand.
	Difficulty learned.Difficulty

	warm   string // the id of the model that has a part of the prompt in its cache; empty: none
	cached int    // tokens of that part

	curve     learned.Curve // of the difficulty
	strengths *Strengths    // nil: nothing is known by feedback
}

const (
	bytesPerToken = 4
	usualOutput   = 500      // tokens of a reply if the request sets no max_tokens
	looksAt       = 2 << 10  // bytes of the last user message that are searched for words
	longText      = 12 << 10 // bytes: a longer prompt is mostly a text to be worked on
)

// FeaturesOf returns what is cheap to find out about a request: some flags, and the kind of task by the
// words of its last user message. That message stays the same while tools are being called, so the kind of
// task does not change between the turns of an agent.
func FeaturesOf(req *chat.Request) Features { return featuresOf(req, &bench{}) }

func featuresOf(req *chat.Request, on *bench) Features {
	f := Features{Task: taskOf(req, on), PromptTokens: req.PromptBytes() / bytesPerToken, OutputTokens: usualOutput}
	if req.MaxTokens > 0 {
		f.OutputTokens = min(req.MaxTokens, 4*usualOutput)
	}
	// The lowest efforts mean that the caller wants an answer without thinking.
	switch req.ReasoningEffort {
	case "", chat.EffortNone, chat.EffortMinimal:
	default:
		f.Thinks = true
	}
	return f
}

// taskOf returns the kind of task. Tools decide alone; else the kind with the most signs wins, and Chat if
// there are none.
func taskOf(req *chat.Request, on *bench) catalog.Task {
	if len(req.Tools) > 0 {
		return catalog.Agent
	}
	content, _ := lastUserContent(req)
	on.text = content.AppendSample(on.text[:0], looksAt)
	signs := signsIn(on.text)
	if req.Format.Kind != chat.FormatText { // JSON output points to data
		signs[catalog.Data] += 2
	}
	best := catalog.Chat
	for _, t := range []catalog.Task{catalog.Code, catalog.Math, catalog.Data, catalog.Writing} {
		if signs[t] > signs[best] {
			best = t
		}
	}
	if best == catalog.Chat && req.PromptBytes() > longText {
		return catalog.Writing
	}
	return best
}

// lastUserContent returns the content of the last user message, and reports whether there is one.
func lastUserContent(req *chat.Request) (chat.Content, bool) {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if m := &req.Messages[i]; m.Role == chat.RoleUser {
			return m.Content, true
		}
	}
	return chat.Content{}, false
}

// vocabulary lists the words that point to a kind of task, and how strongly. Each word has at least two
// bytes, and there are at most 64 of them: signsIn relies on both.
var vocabulary = []struct {
	word   string
	task   catalog.Task
	weight int
}{
	{"```", catalog.Code, 2},
	{"func ", catalog.Code, 1},
	{"def ", catalog.Code, 1},
	{"function", catalog.Code, 1},
	{"stack trace", catalog.Code, 2},
	{"traceback", catalog.Code, 2},
	{"compil", catalog.Code, 1},
	{"python", catalog.Code, 2},
	{"javascript", catalog.Code, 2},
	{"typescript", catalog.Code, 2},
	{"golang", catalog.Code, 2},
	{" sql", catalog.Code, 2},
	{"regex", catalog.Code, 2},
	{"refactor", catalog.Code, 2},
	{"unit test", catalog.Code, 2},
	{" bug", catalog.Code, 1},
	{"code", catalog.Code, 1},
	{"();", catalog.Code, 2},

	{"prove", catalog.Math, 2},
	{"theorem", catalog.Math, 2},
	{"equation", catalog.Math, 2},
	{"integral", catalog.Math, 2},
	{"derivative", catalog.Math, 2},
	{"probability", catalog.Math, 2},
	{"calculate", catalog.Math, 1},
	{"solve", catalog.Math, 1},
	{"how many", catalog.Math, 1},
	{"frac{", catalog.Math, 2},
	{"sqrt", catalog.Math, 2},

	{"extract", catalog.Data, 2},
	{"json", catalog.Data, 1},
	{"csv", catalog.Data, 1},
	{"table", catalog.Data, 1},
	{"classify", catalog.Data, 2},
	{"list all", catalog.Data, 1},

	{"translat", catalog.Writing, 2},
	{"summar", catalog.Writing, 2},
	{"rewrite", catalog.Writing, 2},
	{"essay", catalog.Writing, 2},
	{"story", catalog.Writing, 1},
	{"poem", catalog.Writing, 1},
	{"article", catalog.Writing, 1},
	{"draft", catalog.Writing, 1},
}

// byFirst holds, for each byte, the indexes in vocabulary of the words that begin with it. So one pass over
// the text finds all words. A search for each word made a choice several times as slow (-bench Choose).
var byFirst = func() (places [256][]uint8) {
	for i, v := range vocabulary {
		places[v.word[0]] = append(places[v.word[0]], uint8(i))
	}
	return places
}()

// signsIn adds up the weights of the words in a text, by kind of task. A word counts once, however often it
// occurs; seen has a bit for each.
func signsIn(text []byte) (signs [catalog.Tasks]int) {
	var seen uint64
	for at := 0; at+1 < len(text); at++ {
		for _, i := range byFirst[text[at]] {
			v := &vocabulary[i]
			if text[at+1] == v.word[1] && seen&(1<<i) == 0 && bytes.HasPrefix(text[at:], []byte(v.word)) {
				seen |= 1 << i
				signs[v.task] += v.weight
			}
		}
	}
	return signs
}
