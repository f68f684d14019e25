package models

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// stopWords say nothing about a subject. They neither choose a tool nor recall a sentence.
var stopWords = wordSet(`a about above again all also am an and any are as at be been but by can could current did do does down for from function get give given
	had has have he her him his how i if in info into is it its json just kindly let like may me might mine must my need next no not now of off on one or our out
	over please return same set shall she should so some such tell than thank thanks that the their them then there these they thing this those to today tomorrow
	tonight too tool under until up use user using value very want was we were what when where which while who whom whose why will with would you your yours`)

// imperatives are verbs and greetings that begin sentences with a capital letter and are not names.
var imperatives = wordSet(`add answer arrange ask book buy calculate call cancel check compare compute contact convert count create dear delete describe draft echo email
	evaluate explain extract fetch find generate good hello help hey hi invoke list look lookup make multiply open order output play print produce provide rate read remember
	remind repeat reply respond reverse run save say schedule search send show sort start stop subtract summarise summarize take track train translate try turn update visit
	weather write yes`)

// wordSet returns the set of the words in a list that is separated by white space.
func wordSet(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// thing is a part of a text that may be the value of a property.
type thing struct {
	kind    kind
	value   string // the text, without quotation marks
	at, end int    // its offsets in the text, in bytes, with quotation marks
}

// kind says what a thing looks like. The order from email on is that of forms.
type kind int

const (
	quotation kind = iota + 1
	email
	link
	date
	code
	numeral
	properName
	plainWord
	spot // a plain word after a preposition, such as porto in "weather in porto"
)

// Patterns that several others are made of.
const (
	oneName  = `\p{Lu}[\p{L}\p{N}]*(?:['’&-][\p{L}\p{N}]+)*(?: (?:(?:de|da|la|von|van|of) )?\p{Lu}[\p{L}\p{N}]*(?:['’&-][\p{L}\p{N}]+)*)*`
	oneMonth = `(?:January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`
)

// forms are the patterns of the kinds of things. If two fit, the first counts.
var forms = [...]string{
	email: `[\p{L}\p{N}._-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+`,
	link:  `https?://[^\s<>"'()\]]*[^\s<>"'()\].,;:!?]`,
	date: `\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2})?)?\b|\b\d{1,2}/\d{1,2}/\d{4}\b|` +
		`\b\d{1,2}(?:st|nd|rd|th)? ` + oneMonth + `(?: \d{4})?\b|\b` + oneMonth + ` \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?\b|` +
		`(?i:\b(?:(?:next |this )?(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|tonight)\b)`,
	code:       `[\p{L}\p{N}]*[/_#][\p{L}\p{N}/_.#-]*[\p{L}\p{N}]|\p{L}[\p{L}-]*\d[\p{L}\p{N}_-]*`,
	numeral:    `(?:(?:^|[\s(\[,=:])-)?(?:\d+(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+)`, // a minus after a word is a hyphen
	properName: oneName,
	plainWord:  `[\p{L}\p{N}]+(?:['’]\p{L}+)?`,
}

var (
	// quotedPattern matches a part in quotation marks of any kind. An apostrophe inside a word is none.
	quotedPattern = regexp.MustCompile("\"((?:[^\"\\\\]|\\\\.)*)\"|“([^”]*)”|«([^»]*)»|`([^`]+)`|(?:^|[\\s(:=])'([^'\\n]+)'(?:$|[\\s.,;:!?)])")
	// thingPattern has a group for each of forms, in order.
	thingPattern = regexp.MustCompile(`(` + strings.Join(forms[email:], `)|(`) + `)`)
	wordPattern  = regexp.MustCompile(forms[plainWord])
	// sentenceEnd matches the end of a sentence, and keeps its mark in its group.
	sentenceEnd = regexp.MustCompile(`([.!?]["”»]?) +|\n\s*`)
	// subject matches what follows a name at the beginning of a sentence: "Ana is", "Alice and Bob".
	subject = regexp.MustCompile(`^(?:$|,| (?:and|are|will|\p{L}+s|\p{L}+ed)\b)`)
)

// things returns the things that a text is made of, in order.
func things(text string) []thing {
	all := quotations(text)
	text = mask(text, quotedPattern) // what is inside quotation marks is one thing
	for _, m := range thingPattern.FindAllStringSubmatchIndex(text, -1) {
		is, end := kind(group(m)/2-1)+email, m[1]
		found := strings.TrimLeft(text[m[0]:end], " \t\r\n([,=:")
		// "Book Paris" is the word Book and the name Paris: words are taken off until the rest is a name.
		for is == properName && found != "" && !isName(text[:end-len(found)], found, text[end:]) {
			word, rest, _ := strings.Cut(found, " ")
			all = append(all, thing{plainWord, word, end - len(found), end - len(found) + len(word)})
			found = rest
		}
		if found != "" {
			all = append(all, thing{is, found, end - len(found), end})
		}
	}
	slices.SortFunc(all, func(a, b thing) int { return cmp.Compare(a.at, b.at) })
	// A second pass finds spots, since a spot depends on the word before it.
	for i, t := range all {
		if i > 0 && t.kind == plainWord && !idle(t.value) && strings.Contains(" in at for of near ", " "+all[i-1].value+" ") {
			all[i].kind = spot
		}
	}
	return all
}

// isName reports whether words with capital letters are a name, and not only the beginning of a sentence.
func isName(before, words, after string) bool {
	// Inside a sentence any capital makes a name. At its beginning only several words, or a subject, do.
	first, _, several := strings.Cut(strings.ToLower(words), " ")
	before = strings.TrimRight(before, " \x00")
	if before != "" && !strings.ContainsAny(before[len(before)-1:], ".!?\n") {
		return !stopWords[first]
	}
	return !idle(first) && !imperatives[first] && (several || subject.MatchString(after))
}

// quotations returns the quoted parts of a text.
func quotations(text string) (all []thing) {
	for _, m := range quotedPattern.FindAllStringSubmatchIndex(text, -1) {
		g := group(m)
		all = append(all, thing{quotation, strings.ReplaceAll(text[m[g]:m[g+1]], `\"`, `"`), m[0], m[1]})
	}
	return all
}

// group returns the index, in a match, of the first group that took part in it.
func group(match []int) int {
	return 2 + slices.IndexFunc(match[2:], func(at int) bool { return at >= 0 })
}

// mask replaces what a pattern matches with zero bytes, so that all offsets stay the same.
func mask(text string, pattern *regexp.Regexp) string {
	return pattern.ReplaceAllStringFunc(text, func(m string) string { return strings.Repeat("\x00", len(m)) })
}

// words returns the words of a text.
func words(text string) []string { return wordPattern.FindAllString(text, -1) }

// stem returns the same text for the forms of a word: opened, opens and open become open. It is crude, but equal
// requests always get equal stems.
func stem(word string) string {
	word, _, _ = strings.Cut(strings.ToLower(strings.ReplaceAll(word, "’", "'")), "'")
	for _, suffix := range []string{"ies", "ing", "ed", "es", "s", "y", "e"} {
		if cut, ok := strings.CutSuffix(word, suffix); ok && len(cut) >= 3 && !strings.HasSuffix(word, "ss") {
			return cut
		}
	}
	return word
}

// idle reports whether a word says nothing about a subject.
func idle(word string) bool { return stopWords[strings.ToLower(word)] || stopWords[stem(word)] }

// stems returns the set of the stems of a text, without stop words.
func stems(text string) map[string]bool {
	set := make(map[string]bool)
	for _, word := range words(text) {
		if !idle(word) {
			set[stem(word)] = true
		}
	}
	return set
}

// sentences returns the sentences of a text. The end of a line also ends a sentence.
func sentences(text string) []string {
	return strings.FieldsFunc(sentenceEnd.ReplaceAllString(text, "$1\n"), func(r rune) bool { return r == '\n' })
}

// head returns the beginning of a text, which holds the instruction. Patterns look at no more than that, so a long
// prompt costs no more than a short one.
func head(text string) string { return strings.ToValidUTF8(text[:min(len(text), 500)], "") }

// excerpt returns a text in about n bytes: its beginning and its end.
func excerpt(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n/2], "") + " … " + strings.ToValidUTF8(text[len(text)-n/2:], "")
}
