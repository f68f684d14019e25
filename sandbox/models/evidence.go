package models

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// evidence is what a text offers for the values of a schema. Tool arguments and all JSON come from it. What was
// taken is not offered again: the numbers of "add 2 and 3" go to two parameters.
type evidence struct {
	text string // what tools said, then the prompt
	// from is where the prompt begins in text. What tools said counts only where it names a property.
	from    int
	things  []thing         // of the text, in order
	phrases []thing         // all runs of up to four words, written as fold does
	used    []bool          // whether the byte at an offset has been taken
	topic   map[string]bool // the stems of the tool's name, which are no values; nil if there is no tool
	answer  string          // what a skill made of the prompt; empty for tool arguments

	// The rest is set and reset by form while it fills a schema.

	sure bool // offer only what the text ties to the property by name
	left bool // offer things, but never the prompt as a whole
	like kind // offer only things of this kind, that of the other elements of a list; 0 offers all
	last kind // of the thing that was taken last; 0 if it was no part of the text
}

// mostText bounds how much of a text is looked at, in bytes. Filling a schema takes time in proportion to it.
const mostText = 8 << 10

// newEvidence returns the evidence of a prompt and of what tools said before it, which may be empty.
func newEvidence(said, text string) *evidence {
	said = excerpt(said, mostText)
	text = said + excerpt(text, mostText)
	return &evidence{text: text, from: len(said), things: things(text), phrases: phrases(text), used: make([]bool, len(text))}
}

// The sets say what the last word of a property's name asks for: free text, the answer itself, a number, or a
// thing of certain kinds.
var (
	proseNames  = wordSet("query q search text message content prompt question input body code command expression topic description subject title string sentence phrase keyword note task")
	answerNames = wordSet("answer result response output reply explanation reason reasoning summary conclusion message text content value")
	countNames  = wordSet("age amount count limit max min number price qty quantity rating score size temperature total weight year")
	kindNames   = map[string][]kind{"email": {email}, "url": {link}, "uri": {link}, "link": {link}, "date": {date}, "date-time": {date}, "day": {date}, "id": {code, numeral, quotation}}

	// keyPart matches a word of a name in camel case, or joined with underscores.
	keyPart = regexp.MustCompile(`\p{Lu}?\p{Ll}+|\p{Lu}+|\p{Lo}+|\p{N}+`)
	// lastPart matches the last such word.
	lastPart = regexp.MustCompile(`(?:` + keyPart.String() + `)$`)
	// joint matches what may stand between a property and its value. Its group is a colon or an equals sign.
	joint = regexp.MustCompile(`^["']?(?:\s*([=:])\s*|\s+(?:(?:is|are|was|named|called|of)\s+)?)[$€£]?`)
	// valueEnd matches the end of a value that is written without quotation marks.
	valueEnd = regexp.MustCompile(`[,;\n]|\.\s|\sand\s|$`)
	// leadIn matches the words between a tool and what it is to work on: "tool for", "saying".
	leadIn = regexp.MustCompile(`(?i)^[ ,:]*(?:tool|function)?\s*(?:(?:for|about|on|of|to|with|that|in)\s+)?(?:say(?:ing)?\s+)?`)
	// denied matches a denial after a property: "vegan: no", "alarm is off".
	denied = regexp.MustCompile(`(?i)^\W+(?:is\s+)?(?:false|no|off|not)\b`)
	// placing matches a preposition of place at the end of a text.
	placing = regexp.MustCompile(`(?i)\b(?:in|at|near) $`)
	// denying matches a denial before a property: "without sugar", "not very spicy".
	denying = regexp.MustCompile(`(?i)\b(?:no|not|non|never|without|don't|isn't|disable)[ -](?:\w+ )?$`)
)

// lastWord returns the last word of a name, in lower case: date for startDate and start_date.
func lastWord(name string) string { return strings.ToLower(lastPart.FindString(name)) }

// fold returns the same text for names that differ only in case and in how their words are joined.
func fold(name string) string { return strings.ToLower(strings.Join(words(name), "")) }

// phrases returns all runs of up to four words of a text, written as fold does.
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

// first takes the first of some things that is not used yet and that accept accepts, and returns accept's JSON.
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

// use marks a thing as taken.
func (e *evidence) use(t thing) {
	for i := t.at; i < t.end; i++ {
		e.used[i] = true
	}
}

// of returns the things of some kinds in the prompt, those of the first kind first.
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

// after returns the things that follow the name of a property, as in: subject "Lunch", from Rome. A plain word
// counts only after a colon or an equals sign, as in city: porto, or if the property takes any text.
func (e *evidence) after(property string) (all []thing) {
	key := fold(property)
	for _, phrase := range e.phrases {
		if phrase.value != key || len(all) > 9 || !joint.MatchString(e.text[phrase.end:]) {
			continue
		}
		// at is where the value begins; signed says that a colon or an equals sign comes before it.
		m := joint.FindStringSubmatchIndex(e.text[phrase.end:])
		at, signed := phrase.end+m[1], m[2] >= 0
		// Only the thing at the value's offset counts. An unsigned value must not be a plain word, unless the
		// property takes any text, and a property of one letter needs a sign: "a" is also an article.
		for _, t := range e.things {
			loose := proseNames[property] && !idle(t.value)
			switch {
			case t.end <= at || t.at > at || !signed && (len(property) == 1 || t.kind == plainWord && !loose):
				continue
			case t.kind == plainWord || t.kind == properName && (signed || loose): // the value continues to its end
				t.value = bare(e.text[at : at+valueEnd.FindStringIndex(e.text[at:])[0]])
				t.end = at + len(t.value)
			}
			all = append(all, t)
		}
	}
	return all
}

// matter returns the prompt after the words that only ask for the tool: "Lisbon" of "search for Lisbon" where the
// tool is search. It returns the empty string if nothing else is left, or if there is no tool.
func (e *evidence) matter() string {
	prompt, rest := e.text[e.from:], e.text[e.from:]
	// Words of the tool's name are skipped, and before them stop words and imperatives, up to the first other word.
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

// offers returns what may be the value of a property, the best first: what the text ties to the property by name,
// by unit or as the answer, then, unless sure is set, all things of some kinds, and last the prompt's matter.
func (e *evidence) offers(property string, kinds ...kind) []thing {
	last, all := lastWord(property), e.after(property)
	for i, t := range e.things {
		if i > 0 && e.things[i-1].kind == numeral && e.things[i-1].end+1 == t.at && len(last) > 1 && stem(t.value) == stem(last) {
			all = append(all, e.things[i-1]) // the property is the unit of a number: 3 seats
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
	// A name such as email asks for certain kinds and nothing else. A name such as query takes any text: quotations
	// and what is marked come before the whole prompt.
	switch asked := kindNames[last]; {
	case asked != nil:
		kinds, matter = asked, ""
	case proseNames[last]:
		_, marked := marked(e.text[e.from:])
		kinds, all = nil, append(append(all, e.of(quotation)...), thing{value: marked})
	}
	return append(append(all, e.of(kinds...)...), thing{value: matter})
}

// truth returns the JSON of a boolean property: whether the text names it without a denial such as "no" or "is
// off". found reports whether the text names it at all.
func (e *evidence) truth(property string) (json string, found bool) {
	last := lastWord(property)
	for _, t := range e.phrases {
		if t.value == last {
			return strconv.FormatBool(!denying.MatchString(e.text[:t.at]) && !denied.MatchString(e.text[t.end:])), true
		}
	}
	return "false", false
}
