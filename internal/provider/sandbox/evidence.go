package sandbox

import (
	"slices"
	"strconv"
	"strings"

	"sluice/internal/lazyregexp"
)

// evidence is what a text offers for the values of a schema: the one source of tool arguments and of all
// JSON. What was handed out is not offered again: the numbers of "add 2 and 3" go to two parameters.
type evidence struct {
	text    string
	from    int // where the prompt begins; what tools said stands before it, and counts only where it names a property
	things  []thing
	phrases []thing         // every one of up to four words, folded
	used    []bool          // by offset
	topic   map[string]bool // stems that name the tool, not what it is to treat
	answer  string          // what a skill made of the prompt
	sure    bool            // offer only what the text ties to the property
	left    bool            // offer things, but never the prompt as a whole
	like    kind            // offer only this, the kind of the other elements of a list
	last    kind            // of what was handed out; 0 where that was no part of the text
}

const mostText = 8 << 10 // as much of a text is looked at

func newEvidence(said, text string) *evidence {
	said = excerpt(said, mostText)
	text = said + excerpt(text, mostText)
	return &evidence{text: text, from: len(said), things: things(text), phrases: phrases(text), used: make([]bool, len(text))}
}

// The names are what the last word of a property's name asks for.
var (
	proseNames  = wordSet("query q search text message content prompt question input body code command expression topic description subject title string sentence phrase keyword note task")
	answerNames = wordSet("answer result response output reply explanation reason reasoning summary conclusion message text content value")
	countNames  = wordSet("age amount count limit max min number price qty quantity rating score size temperature total weight year")
	kindNames   = map[string][]kind{"email": {email}, "url": {link}, "uri": {link}, "link": {link}, "date": {date}, "date-time": {date}, "day": {date}, "id": {code, numeral, quotation}}

	keyPart  = lazyregexp.New(`\p{Lu}?\p{Ll}+|\p{Lu}+|\p{Lo}+|\p{N}+`)
	lastPart = lazyregexp.New(`(?:` + keyPart.String() + `)$`)
	joint    = lazyregexp.New(`^["']?(?:\s*([=:])\s*|\s+(?:(?:is|are|was|named|called|of)\s+)?)[$€£]?`)
	valueEnd = lazyregexp.New(`[,;\n]|\.\s|\sand\s|$`)
	leadIn   = lazyregexp.New(`(?i)^[ ,:]*(?:tool|function)?\s*(?:(?:for|about|on|of|to|with|that|in)\s+)?(?:say(?:ing)?\s+)?`)
	denied   = lazyregexp.New(`(?i)^\W+(?:is\s+)?(?:false|no|off|not)\b`)
	placing  = lazyregexp.New(`(?i)\b(?:in|at|near) $`)
	denying  = lazyregexp.New(`(?i)\b(?:no|not|non|never|without|don't|isn't|disable)[ -](?:\w+ )?$`)
)

// lastWord is the last word of a name: startDate and start_date end with date.
func lastWord(name string) string { return strings.ToLower(lastPart.FindString(name)) }

// fold makes names equal that differ only in case and in how their words are joined.
func fold(name string) string { return strings.ToLower(strings.Join(words(name), "")) }

// phrases are all runs of up to four words, written as fold does.
func phrases(text string) (all []thing) {
	at := wordPattern.FindAllStringIndex(text, -1)
	for i := range at {
		key := ""
		for _, next := range at[i:min(i+4, len(at))] {
			key += strings.ToLower(text[next[0]:next[1]])
			all = append(all, thing{plainWord, key, at[i][0], next[1]})
		}
	}
	return all
}

// first hands out the first of some things that is left and that is accepted.
func (e *evidence) first(offers []thing, accept func(thing) (json string, ok bool)) (json string, ok bool) {
	for _, t := range offers {
		used := e.used[t.at:t.end]
		if t.value == "" || slices.Contains(used, true) || e.like != 0 && t.kind != e.like {
			continue
		}
		if json, ok = accept(t); ok {
			e.last = t.kind
			e.use(t)
			return json, true
		}
	}
	return "", false
}

// use keeps a thing from being handed out again.
func (e *evidence) use(t thing) {
	for i := t.at; i < t.end; i++ {
		e.used[i] = true
	}
}

// of are the things of some kinds in the prompt.
func (e *evidence) of(kinds ...kind) (all []thing) {
	for _, kind := range kinds {
		for _, t := range e.things {
			if t.kind == kind && t.at >= e.from && !(e.left && kind == spot && !placing.MatchString(e.text[:t.at])) {
				all = append(all, t)
			}
		}
	}
	return all
}

// after is what follows the name of a property: subject "Lunch", from Rome. Plain words count where a
// sign says so, city: porto, or where the property takes any text.
func (e *evidence) after(property string) (all []thing) {
	key := fold(property)
	for _, phrase := range e.phrases {
		if phrase.value != key || len(all) > 9 || !joint.MatchString(e.text[phrase.end:]) {
			continue
		}
		m := joint.FindStringSubmatchIndex(e.text[phrase.end:])
		at, signed := phrase.end+m[1], m[2] >= 0
		for _, t := range e.things {
			loose := proseNames[property] && !idle(t.value)
			switch {
			case t.end <= at || t.at > at || !signed && (len(property) == 1 || t.kind == plainWord && !loose):
				continue
			case t.kind == plainWord || t.kind == properName && (signed || loose):
				t.value = bare(e.text[at : at+valueEnd.FindStringIndex(e.text[at:])[0]])
				t.end = at + len(t.value)
			}
			all = append(all, t)
		}
	}
	return all
}

// matter is the prompt behind the words that only ask for the tool; empty where those are all of it.
func (e *evidence) matter() string {
	prompt, rest := e.text[e.from:], e.text[e.from:]
	for _, at := range wordPattern.FindAllStringIndex(prompt, -1) {
		if word := prompt[at[0]:at[1]]; e.topic[stem(word)] {
			rest = prompt[at[1]:]
		} else if !idle(word) && !imperatives[strings.ToLower(word)] {
			break
		}
	}
	if rest = bare(leadIn.ReplaceAllString(rest, "")); e.topic == nil || len(stems(rest)) == 0 {
		return ""
	}
	return rest
}

// offers are what may be meant, what the text ties to the property first, then the rest of some kinds.
func (e *evidence) offers(property string, kinds ...kind) []thing {
	last, all := lastWord(property), e.after(property)
	for i, t := range e.things {
		if i > 0 && e.things[i-1].kind == numeral && e.things[i-1].end+1 == t.at && len(last) > 1 && stem(t.value) == stem(last) {
			all = append(all, e.things[i-1]) // in units of the property: 3 seats
		}
	}
	if answerNames[last] {
		all = append(all, thing{value: e.answer})
	}
	if e.sure {
		return all
	}
	matter := ""
	if !e.left {
		matter = e.matter()
	}
	switch asked := kindNames[last]; {
	case asked != nil:
		kinds, matter = asked, ""
	case proseNames[last]:
		_, marked := marked(e.text[e.from:])
		kinds, all = nil, append(append(all, e.of(quotation)...), thing{value: marked})
	}
	return append(append(all, e.of(kinds...)...), thing{value: matter})
}

// truth is whether the text names a property without denying it.
func (e *evidence) truth(property string) (json string, found bool) {
	last := lastWord(property)
	for _, t := range e.phrases {
		if t.value == last {
			return strconv.FormatBool(!denying.MatchString(e.text[:t.at]) && !denied.MatchString(e.text[t.end:])), true
		}
	}
	return "false", false
}
