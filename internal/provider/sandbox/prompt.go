package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
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
	asks    string // the same without the courtesies it begins with
	orders  directives
	said    []string          // every other text, in order
	made    []chat.ToolCall   // since the last user message
	results map[string]string // of calls, by their id
	tokens  int
	digest  [sha256.Size]byte // of all that the reply may depend on
}

// read takes the call apart: who said what, what the directives ask, what the tools answered.
func read(call *provider.Call) (p *prompt, err error) {
	r, sum := call.Request, sha256.New()
	p = &prompt{request: r, full: call.Upstream == "large" || call.Upstream == "reasoner", orders: directives{cut: -1}, results: make(map[string]string), tokens: 3}
	note := func(texts ...string) {
		for _, text := range texts {
			fmt.Fprint(sum, len(text), " ", text)
			p.tokens += tokens.Count(text)
		}
	}
	last := len(r.Messages) - 1
	for last >= 0 && r.Messages[last].Role != chat.RoleUser {
		last--
	}
	for i, m := range r.Messages {
		text := m.Content.Text()
		note(text)
		p.tokens += 4 // the role, and what separates messages
		for _, part := range m.Content.Parts() {
			if part.IsImage() {
				p.tokens += 85 // what OpenAI counts for an image of low detail
			}
		}
		for _, c := range m.ToolCalls {
			note(c.Name, c.Arguments)
			if i > last {
				p.made = append(p.made, c)
			}
		}
		switch {
		case i == last:
			if p.text, p.orders, err = parseDirectives(text); err != nil {
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
	for i, c := range p.orders.calls {
		at := slices.IndexFunc(p.tools, func(f *chat.Function) bool { return f.Name == c.Name })
		if at < 0 { // perhaps without the label of the server it came from
			at = slices.IndexFunc(p.tools, func(f *chat.Function) bool { return strings.HasSuffix(f.Name, "__"+c.Name) })
		}
		if at < 0 {
			return nil, invalid("The sandbox directive call=%s names a tool that the request does not have.", c.Name)
		}
		p.orders.calls[i].Name = p.tools[at].Name
	}
	return p, nil
}

// reply is what a turn comes to: calls, or a text and what it was made from.
type reply struct {
	calls []chat.ToolCall
	text  string
	skill skill
	value string // the bare result
	about string // what it is the result of; empty where no sentence is to be made of it
}

// reply makes the calls that are asked for, or else applies the first skill that fits.
func (p *prompt) reply() (r reply) {
	if r.calls = p.calls(); len(r.calls) > 0 {
		return r
	}
	if n := p.orders.tokens; n > 0 {
		return reply{text: filler(n), skill: skill{name: "a given length", trace: "A directive says how long the reply is."}}
	}
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

func (r *reply) say(sentence string) string {
	return strings.NewReplacer("{value}", r.value, "{about}", r.about).Replace(sentence)
}

// phrasing is a way to begin a sentence: none at temperature 0, else one that the request and its seed decide.
func (p *prompt) phrasing() string {
	if t := p.request.Temperature; t != nil && *t == 0 {
		return ""
	}
	return []string{"", "Here you are. ", "This is what I have. "}[binary.BigEndian.Uint64(p.digest[:8])%3]
}

// depth is how many parts of the trace an effort shows.
var depth = map[chat.Effort]int{chat.EffortMinimal: 1, chat.EffortLow: 2, chat.EffortMedium: 3, chat.EffortHigh: 5}

// reasoning is the model's account of what it does, with more effort in more parts.
func (p *prompt) reasoning(r reply) string {
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

// fillerWords are one token each, with the space before them.
const fillerWords = "The water rises and the gate holds it back until the morning comes . Then the gate opens and the river takes the rest of the way to the sea ."

// filler is a text of exactly n tokens.
func filler(n int) string {
	words := strings.Fields(strings.Repeat(fillerWords+" ", n/20+1))
	return strings.Join(words[:n], " ")
}
