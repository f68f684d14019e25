package models

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/provider"
)

// prompt is a request as the sandbox reads it.
type prompt struct {
	request *chat.Request
	tools   []*chat.Function  // the functions of the request; they belong to it
	full    bool              // the model answers in sentences; the others give the bare result
	text    string            // what the person said last, without directives
	asks    string            // text without polite words at its beginning
	orders  directives        // those in it
	said    []string          // the texts of all other messages but tool results, in order
	made    []chat.ToolCall   // the calls since then
	results map[string]string // the results of calls, by the ids of the calls
	tokens  int               // how many the prompt has
	digest  [sha256.Size]byte // of everything that the reply may depend on
}

// read takes a call apart: who said what, what the directives ask for, what the tools answered. It also counts the
// prompt's tokens. It returns a fault if a directive is wrong.
func read(call *provider.Call) (p *prompt, err error) {
	r, sum := call.Request, sha256.New()
	p = &prompt{request: r, full: call.Upstream == "large" || call.Upstream == "reasoner", orders: directives{cut: -1}, results: make(map[string]string), tokens: 3}
	// note counts the texts, and enters them into the digest with their lengths, so that no two lists of texts
	// look the same.
	note := func(texts ...string) {
		for _, text := range texts {
			fmt.Fprint(sum, len(text), " ", text)
			p.tokens += tokens.Count(text)
		}
	}
	last, words := lastWords(r.Messages)
	for i, m := range r.Messages {
		text := m.Content.Text()
		note(text)
		p.tokens += 4 // for the role, and for what separates messages
		for _, part := range m.Content.Parts() {
			if part.IsImage() {
				p.tokens += 85 // as OpenAI counts an image of low detail
			}
		}
		for _, c := range m.ToolCalls {
			note(c.Name, c.Arguments())
			if i > last {
				p.made = append(p.made, chat.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments(), Custom: c.Custom})
			}
		}
		switch {
		case i == last:
			if p.text, p.orders, err = parseDirectives(words); err != nil {
				return nil, err
			}
			p.asks = p.text[len(courtesy.FindString(head(p.text))):]
		case m.Role == chat.RoleTool:
			p.results[m.ToolCallID] = text
		default:
			p.said = append(p.said, text)
		}
	}
	for _, t := range r.Tools {
		if f := t.Function; f != nil { // the tools of MCP servers have become functions before
			p.tools = append(p.tools, f)
			p.tokens += 8
			note(f.Name, f.Description, string(f.Parameters))
		}
	}
	if r.Seed != nil {
		fmt.Fprint(sum, "seed ", *r.Seed)
	}
	sum.Sum(p.digest[:0])
	p.orders.calls = slices.DeleteFunc(p.orders.calls, func(c chat.ToolCall) bool { return p.named(c.Name) == nil })
	for i, c := range p.orders.calls {
		p.orders.calls[i].Name = p.named(c.Name).Name
	}
	return p, nil
}

// lastWords returns what the person said last, and the index of that message, or -1. What follows it is the exchange
// with tools. Agents also send messages in which no person speaks; if there are only such, the last one counts.
func lastWords(messages []chat.Message) (last int, words string) {
	last = -1
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != chat.RoleUser {
			continue
		}
		text := messages[i].Content.Text()
		if words := personsWords(text); words != "" {
			return i, words
		}
		if last < 0 {
			last, words = i, text
		}
	}
	return last, words
}

// named returns the tool of a name. The label of its MCP server may be left out. It returns nil if there is none: an
// agent asks for titles and summaries of a conversation without the tools of its other requests.
func (p *prompt) named(name string) *chat.Function {
	for _, known := range []func(string) bool{
		func(n string) bool { return n == name },
		func(n string) bool { return strings.HasSuffix(n, "__"+name) },
	} {
		if at := slices.IndexFunc(p.tools, func(f *chat.Function) bool { return known(f.Name) }); at >= 0 {
			return p.tools[at]
		}
	}
	return nil
}

// reply is the result of a turn: calls, or a text and what it was made from.
type reply struct {
	calls []chat.ToolCall // if there are any, the rest is empty
	text  string          // what the model says
	skill skill           // that made it
	value string          // the bare result
	about string          // what value is the result of; empty if no sentence can be made of it
}

// reply returns the calls that the prompt asks for. If it asks for none, reply applies the first skill that fits.
func (p *prompt) reply() (r reply) {
	if r.calls = p.calls(); len(r.calls) > 0 {
		return r
	}
	if n := p.orders.tokens; n > 0 {
		return reply{text: filler(n), skill: skill{name: "a given length", trace: "A directive says how long the reply is."}}
	}
	// The last skill always fits, so r.skill is the one that made the value.
	for _, r.skill = range skills {
		if m := r.skill.order.FindStringSubmatch(head(p.asks)); m != nil {
			rest := p.asks[len(m[0]):]
			way, matter := marked(rest)
			t := task{p, m, way, cmp.Or(matter, bare(rest[len(leading.FindString(head(rest))):]))}
			if r.value, r.about = r.skill.apply(t); r.value != "" {
				break
			}
		}
	}
	if r.text = r.value; p.request.Format.Kind != chat.FormatText {
		r.text = p.shaped(r.value)
	} else if p.full && r.about != "" {
		r.text = p.phrasing() + r.say(r.skill.sentence)
	}
	return r
}

// say fills the value and what it is about into a sentence of a skill.
func (r *reply) say(sentence string) string {
	return strings.NewReplacer("{value}", r.value, "{about}", r.about).Replace(sentence)
}

// phrasing returns the beginning of a reply in sentences. Temperature 0 gives none; otherwise the request and its
// seed decide, so that a seed makes a visible difference.
func (p *prompt) phrasing() string {
	if t := p.request.Temperature; t != nil && *t == 0 {
		return ""
	}
	return []string{"", "Here you are. ", "This is what I have. "}[binary.BigEndian.Uint64(p.digest[:8])%3]
}

// depth is how many parts of its reasoning a model shows, by reasoning_effort. An effort that is not given shows
// none.
var depth = map[chat.Effort]int{chat.EffortMinimal: 1, chat.EffortLow: 2, chat.EffortMedium: 3, chat.EffortHigh: 5, chat.EffortXHigh: 5, chat.EffortMax: 5}

// reasoning returns the model's account of how it came to a reply. A higher effort makes it longer.
func (p *prompt) reasoning(r reply) string {
	// doing says what is done, how says in which way; for calls both come from their names and arguments.
	doing, how := "This is a request for "+r.skill.name+".", r.say(r.skill.trace)
	for _, c := range r.calls {
		doing = "The request asks for the tool " + c.Name + "."
		how += "The arguments of " + c.Name + " come out as " + c.Arguments + ". "
	}
	parts := []string{
		doing,
		fmt.Sprintf("The message has %d words, after %d others, with %d tools at hand.", len(strings.Fields(p.text)), len(p.request.Messages)-1, len(p.tools)),
		strings.TrimSpace(how),
		"Before that came the question whether a tool is asked for, whether a directive is given, and which of the skills fits first.",
		"The same request would lead here again, since nothing but the request is looked at. That settles it.",
	}
	return strings.Join(parts[:depth[p.request.ReasoningEffort]], " ")
}

// fillerWords are one token each, together with the space before them.
const fillerWords = "The water rises and the gate holds it back until the morning comes . Then the gate opens and the river takes the rest of the way to the sea ."

// filler returns a text of exactly n tokens.
func filler(n int) string {
	words := strings.Fields(strings.Repeat(fillerWords+" ", n/20+1))
	return strings.Join(words[:n], " ")
}
