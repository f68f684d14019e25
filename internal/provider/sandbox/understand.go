package sandbox

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"

	"sluice/internal/chat"
	"sluice/internal/provider"
	"sluice/internal/tokens"
)

// prompt is a request as the sandbox reads it.
type prompt struct {
	request *chat.Request
	tools   []*chat.Function
	full    bool   // the model answers in sentences, the others with the bare result
	text    string // the last user message, without directives
	orders  directives
	said    []utterance // every other text, in order
	results []result    // of the calls made since the last user message
	rounds  int         // turns with calls since then
	images  int
	tokens  int
	digest  [sha256.Size]byte // of all that the reply may depend on
}

type utterance struct {
	role chat.Role
	text string
}

// result is a call and what the tool answered.
type result struct{ name, arguments, content string }

// reply is what a turn comes to: calls, or a text and the answer it was made from.
type reply struct {
	calls  []chat.ToolCall
	text   string
	answer answer
}

// answer is what a skill made of a prompt.
type answer struct {
	skill string
	value string   // the bare result
	full  []string // the result in a sentence, in several phrasings; none: as the value
	trace string   // how it came about
}

// skills are tried in this order; the last one always answers.
var skills = []struct {
	name  string
	apply func(*prompt) (answer, bool)
}{
	{"a standing order", standing},
	{"casing", casing},
	{"reversing", reversing},
	{"quoting", quoting},
	{"counting", counting},
	{"sorting", sorting},
	{"summing up", summary},
	{"arithmetic", arithmetic},
	{"extracting", extracting},
	{"recalling", recalling},
	{"an honest reply", honest},
}

// read takes the call apart: who said what, what the directives ask, what the tools answered.
func read(call *provider.Call) (*prompt, error) {
	r := call.Request
	p := &prompt{request: r, full: call.Upstream == "large" || call.Upstream == "reasoner", tokens: 3, orders: directives{cut: -1}}
	last := -1
	for i := range r.Messages {
		if r.Messages[i].Role == chat.RoleUser {
			last = i
		}
	}
	sum := sha256.New()
	note := func(texts ...string) {
		for _, text := range texts {
			fmt.Fprint(sum, len(text), " ", text)
			p.tokens += tokens.Count(text)
		}
	}
	for i, m := range r.Messages {
		text := strings.ToValidUTF8(m.Content.Text(), "\uFFFD")
		note(text)
		p.tokens += 4 // the role, and what separates messages
		for _, c := range m.ToolCalls {
			note(c.Name, c.Arguments)
		}
		switch {
		case i == last:
			var err error
			if p.text, p.orders, err = parseDirectives(text); err != nil {
				return nil, err
			}
			p.images = len(m.Content.Parts())
			for _, part := range m.Content.Parts() {
				if !part.IsImage() {
					p.images--
				}
			}
			p.tokens += 85 * p.images // what OpenAI counts for an image of low detail
		case i > last && len(m.ToolCalls) > 0:
			p.rounds++
			for _, c := range m.ToolCalls {
				p.results = append(p.results, result{c.Name, c.Arguments, contentOf(r.Messages[i+1:], c.ID)})
			}
		case m.Role != chat.RoleTool && text != "":
			p.said = append(p.said, utterance{m.Role, text})
		}
	}
	for _, t := range r.Tools {
		if f := t.Function; f != nil { // the tools of remote servers have become functions before
			p.tools = append(p.tools, f)
			p.tokens += 8
			note(f.Name, f.Description, string(f.Parameters))
		}
	}
	if r.Seed != nil {
		fmt.Fprint(sum, "seed ", *r.Seed)
	}
	sum.Sum(p.digest[:0])
	return p, p.checkCalls()
}

// contentOf is what the tool message for a call says.
func contentOf(messages []chat.Message, id string) string {
	for i := range messages {
		if m := &messages[i]; m.Role == chat.RoleTool && m.ToolCallID == id {
			return strings.ToValidUTF8(m.Content.Text(), "\uFFFD")
		}
	}
	return ""
}

// reply decides what the turn comes to.
func (p *prompt) reply() (r reply) {
	var missing string
	if r.calls, missing = p.calls(); len(r.calls) > 0 {
		return r
	}
	if p.orders.tokens > 0 {
		return reply{text: filler(p.orders.tokens), answer: answer{skill: "a given length", trace: fmt.Sprintf("A directive asks for %d tokens.", p.orders.tokens)}}
	}
	r.answer = p.answer()
	if missing != "" && len(p.results) == 0 {
		r.answer = answer{skill: "a tool", value: missing, trace: missing}
	}
	if r.text = p.phrase(r.answer); p.request.Format.Kind != chat.FormatText {
		r.text = p.shaped(r.answer)
	}
	return r
}

// answer reports what the tools said, or else applies the first skill that fits.
func (p *prompt) answer() (a answer) {
	if len(p.results) > 0 {
		return p.fold()
	}
	for _, skill := range skills {
		var ok bool
		if a, ok = skill.apply(p); ok {
			a.skill = skill.name
			break
		}
	}
	return a
}

// head is the part of a text that can hold an instruction. Patterns look at no more, so that a long
// prompt costs no more than a short one.
func head(text string) string {
	if len(text) <= 500 {
		return text
	}
	return strings.ToValidUTF8(text[:500], "")
}

var (
	courtesy = regexp.MustCompile(`(?i)^\W*(?:(?:please|kindly|now|just|can you|could you|would you)[\s,]+)*`)
	colon    = regexp.MustCompile(`:(?:\s|$)|\n`)
)

// plain is a text without the courtesies it begins with.
func plain(text string) string { return text[len(courtesy.FindString(head(text))):] }

// task parts a text into the instruction, in lower case, and what is to be treated: what is quoted, or
// else what follows a colon or the first line.
func task(text string) (order, matter string) {
	text = plain(text)
	top := head(text)
	end := colon.FindStringIndex(top)
	if at := quotedPattern.FindStringIndex(top); at != nil && (end == nil || at[0] < end[0]) {
		return strings.ToLower(top[:at[0]] + " … " + top[at[1]:]), quoted(top)[0]
	}
	if end == nil || strings.TrimSpace(text[end[1]:]) == "" {
		return strings.ToLower(top), ""
	}
	matter = strings.TrimSpace(text[end[1]:])
	if quotedPattern.FindString(matter) == matter {
		matter = quoted(matter)[0]
	}
	return strings.ToLower(top[:end[0]]), matter
}

// bare strips the marks around a word or phrase that was named without quotes.
func bare(s string) string { return strings.Trim(s, " \n.?!,;:\"'“”«»`") }
