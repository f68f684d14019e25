package routing

import (
	"bytes"

	"sluice/internal/catalog"
	"sluice/internal/chat"
)

// Features is what a scorer may know of a request.
type Features struct {
	Task         catalog.Task
	PromptTokens int  // about
	OutputTokens int  // about
	Thinks       bool // reasoning was asked for
}

const (
	bytesPerToken = 4
	usualOutput   = 500      // tokens, where nothing is said
	looksAt       = 2 << 10  // bytes of a message
	longText      = 12 << 10 // bytes of a prompt that is mostly a text to be worked on
)

// FeaturesOf finds out about a request what cheap looks can tell: some flags, and the words of its last
// user message. While tools are being called that message stays the same, and so does what it says.
func FeaturesOf(req *chat.Request) Features {
	f := Features{Task: taskOf(req), PromptTokens: req.PromptBytes() / bytesPerToken, OutputTokens: usualOutput}
	if req.MaxTokens > 0 {
		f.OutputTokens = min(req.MaxTokens, 4*usualOutput)
	}
	switch req.ReasoningEffort {
	case "", chat.EffortNone, chat.EffortMinimal:
	default:
		f.Thinks = true
	}
	return f
}

func taskOf(req *chat.Request) catalog.Task {
	if len(req.Tools) > 0 {
		return catalog.Agent
	}
	signs := signsIn(lastUser(req))
	if req.Format.Kind != chat.FormatText {
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

func lastUser(req *chat.Request) []byte {
	for i := len(req.Messages) - 1; i >= 0; i-- {
		if m := &req.Messages[i]; m.Role == chat.RoleUser {
			return m.Content.Sample(looksAt)
		}
	}
	return nil
}

// vocabulary is what gives a kind of task away, and how much.
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

// byFirst are the places in vocabulary of the words that begin with a byte: one look at each place of
// a text finds all words, where looking for each of them made a choice several times as slow (-bench Choose).
var byFirst = func() (places [256][]uint8) {
	for i, v := range vocabulary {
		places[v.word[0]] = append(places[v.word[0]], uint8(i))
	}
	return places
}()

// signsIn adds up the words in a text, each once.
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
