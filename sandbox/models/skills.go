package models

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// skill is something that the sandbox can do. In its sentences, {value} and {about} stand for what apply returned.
type skill struct {
	name  string
	order *regexp.Regexp // matches the beginning of a request for it
	// apply returns the result, and what it is the result of. An empty value means that the skill does not fit
	// after all; then the next one is tried.
	apply    func(task) (value, about string)
	sentence string // the reply of a model that answers in sentences
	trace    string // the part of the reasoning that says how the value came about
}

// task is a prompt as a skill sees it.
type task struct {
	*prompt
	match  []string // of the skill's pattern and its groups
	way    string   // what the prompt says about how to do it, in lower case
	matter string   // the text to work on
}

// skills are tried in this order. The last one always answers.
var skills = []skill{
	{"reporting", anything, reporting, "{value}", "The tools have answered: {about}."},
	{"reversing", reverseOrder, reversing, "Reversed: {value}", "From the end to the start {about} is {value}."},
	{"quoting", quoteOrder, quoting, "{value}", "The request gives the words of the reply itself."},
	{"counting", countOrder, counting, "Counting {about} gives {value}.", "Counting {about} in the text gives {value}."},
	{"sorting", sortOrder, sorting, "In {about} order: {value}", "The order is {about}: numbers by value, words by letters."},
	{"arithmetic", anything, arithmetic, "{about} = {value}.", "The expression is {about}; worked out exactly it is {value}."},
	{"extracting", extractOrder, extracting, "Found in the text: {value}", "What looks like a {about} in the text: {value}."},
	{"recalling", anything, recalling, "{value}", "The words asked for are {about}; one sentence shares most of them."},
	{"an honest reply", anything, honest, "{value} It computes, counts, sorts, quotes, recalls and calls tools; it knows no more.", "No skill fits, so the reply says so."},
}

// fluff matches words between a request to say something and what is to be said.
const fluff = `(?:\s+(?:back|exactly|only|just|with|after me|to me|nothing but|verbatim|the following|the (?:exact |single )?(?:words?|text|phrase|sentence|string|message|line)))`

var (
	// anything is for skills that decide by themselves whether they fit.
	anything = regexp.MustCompile(``)
	// quoteOrder matches "say exactly", "reply with the word". Its first group is a "with" that nothing follows, its
	// second a colon or a space.
	quoteOrder = regexp.MustCompile(`(?i)^(?:(?:repeat|say|echo|print|output)` + fluff + `*|(?:reply|respond|answer)(?:\s+(?:back|only|just))*\s+(?:with` + fluff + `+|(with)))` +
		`((?:\s+(?:this|it))?\s*:\s*|\s+)`)
	// countOrder matches "how many r are in". Its first group is "times", its second what is counted.
	countOrder = regexp.MustCompile(`(?i)^(?:how (?:many|often)|count)\s+(times\s+)?(?:(?:does|do|is|are|all|the|number of|letter|character|word)\s+)*` +
		`["'“]?(\p{L}+?)(?:['’]?s)?\b["'”]?\s*(?:(?:are|is|there|does|do|appears?|occurs?|used|found|in)\b\s*)*`)
	reverseOrder = regexp.MustCompile(`(?i)^reverse\b`)
	sortOrder    = regexp.MustCompile(`(?i)^(?:sort|alphabeti[sz]e|(?:order|arrange)\s+(?:the|these|this|my))\b`)
	// extractOrder matches "list all emails". Its group is the kind of thing, without "e-".
	extractOrder = regexp.MustCompile(`(?i)^(?:extract|find|list|get|identify|show|give me|return)\s+(?:me\s+)?(?:all\s+|every\s+|any\s+)?(?:of\s+)?(?:the\s+)?(?:e-?)?(mail|url|link|number|date|quotation|quote)s?`)

	// courtesy matches polite words at the beginning of a request.
	courtesy = regexp.MustCompile(`(?i)^\W*(?:(?:please|kindly|now|just|can you|could you|would you)[\s,]+)*`)
	// colon matches a colon that ends an instruction, or the end of its line.
	colon = regexp.MustCompile(`:(?:\s|$)|\n`)
	// leading matches words that name what is to be worked on and are not part of it, as in "the word".
	leading = regexp.MustCompile(`(?i)^\s*(?:(?:the|this|these|my|following|in|of|from|order|address(?:es)?|(?:word|letter|text|sentence|string|phrase|name|list|number|item|value|line)s?)\b[\s:]*)*`)
	// quoteTail matches what follows words to say: "and nothing else".
	quoteTail = regexp.MustCompile(`(?i)(?:,? and (?:nothing else|only that))?[.!]?$`)
	// listWords matches words that say that the text is a list.
	listWords = regexp.MustCompile(`\b(?:list|items|array|numbers|lines)\b`)
	// sortDown matches requests for a descending order.
	sortDown = regexp.MustCompile(`descending|decreasing|reverse|(?:largest|biggest|highest) (?:first|to)|z to a`)
	// sortTail matches a request for an order after the list.
	sortTail = regexp.MustCompile(`(?i)\s+(?:in (?:an? )?\w+ order|from \S+ to \S+|alphabetically|numerically|ascending|descending)[.!?]?$`)
	// listSplit matches what separates the items of a list.
	listSplit = regexp.MustCompile(`\s*[,;]\s*(?:and\s+|or\s+)?|\s+(?:and|or|&)\s+`)
	// question matches a question, with or without its mark.
	question = regexp.MustCompile(`(?i)\?\s*$|^(?:who|what|when|where|which|why|how|is|are|was|were|do|does|did|can|tell me|recall)\b`)
)

// marked returns the part of a text that is quoted or, failing that, that follows a colon or the first line. rest is
// what else the text says, in lower case. matter is empty if nothing is marked.
func marked(text string) (rest, matter string) {
	top := head(text)
	end := colon.FindStringIndex(top)
	if q := quotations(top); len(q) > 0 && (end == nil || q[0].at < end[0]) {
		return strings.ToLower(top[:q[0].at] + top[q[0].end:]), q[0].value
	}
	if end == nil {
		return strings.ToLower(top), ""
	}
	return strings.ToLower(top[:end[0]]), strings.TrimSpace(text[end[1]:])
}

// bare removes the punctuation around a word or phrase.
func bare(s string) string { return strings.Trim(s, " \n.?!,;:\"'“”«»`") }

// quoting returns what the prompt asks to be said: "Say: hello", "reply with the word yes".
func quoting(t task) (value, about string) {
	rest := strings.TrimSpace(t.asks[len(t.match[0]):])
	if strings.Contains(t.match[2], ":") {
		return rest, ""
	}
	if q := quotations(rest); len(q) > 0 && q[0].at == 0 {
		return q[0].value, ""
	}
	if rest = quoteTail.ReplaceAllString(rest, ""); t.match[1] != "" && strings.Contains(rest, " ") {
		return "", "" // "Reply with great care" names no word to say; "reply with the word care" does
	}
	return rest, ""
}

// countable has the units that can be counted, and a pattern that matches each of them once.
var countable = map[string]*regexp.Regexp{
	"character": regexp.MustCompile(`(?s).`), "letter": regexp.MustCompile(`\p{L}`), "vowel": regexp.MustCompile(`(?i)[aeiou]`),
	"word": regexp.MustCompile(`\S+`), "item": regexp.MustCompile(listSplit.String() + `|$`), "line": regexp.MustCompile(`\n|$`),
}

// counting counts the units of a text, or how often a letter or a word occurs in it.
func counting(t task) (value, about string) {
	// what is a unit ("how many words"), a letter ("how many r are in"), or a word ("how many times does the").
	what, text := strings.ToLower(t.match[2]), cmp.Or(t.matter, t.text)
	if unit := countable[what]; unit != nil {
		return strconv.Itoa(len(unit.FindAllString(text, -1))), "the " + what + "s"
	}
	if utf8.RuneCountInString(what) == 1 {
		return strconv.Itoa(strings.Count(strings.ToLower(text), what)), "the letter " + what
	}
	if t.match[1] == "" { // not "how many times"
		return "", ""
	}
	all := slices.DeleteFunc(words(text), func(word string) bool { return !strings.EqualFold(word, what) })
	return strconv.Itoa(len(all)), "the word " + what
}

// reversing reverses a word, the words of a text, or a list.
func reversing(t task) (value, about string) {
	// By letters, unless the request speaks of a list or of words.
	items, join := strings.Split(t.matter, ""), ""
	if listWords.MatchString(t.way) {
		items, join = parseList(t.matter)
	} else if strings.Contains(t.way, "words") {
		items, join = strings.Fields(t.matter), " "
	}
	slices.Reverse(items)
	return strings.Join(items, join), t.matter
}

// sorting sorts a list: numbers by value, words by letters.
func sorting(t task) (value, about string) {
	if strings.Contains(t.way, " by ") && !strings.Contains(t.way, "alphabet") {
		return "", "" // by a rule that is not known here, such as "by length"
	}
	items, join := parseList(sortTail.ReplaceAllString(t.matter, ""))
	keys := make(map[string]*big.Rat) // nil for an item that is no number
	for _, item := range items {
		keys[item], _ = rational(item)
	}
	slices.SortStableFunc(items, func(a, b string) int {
		if keys[a] != nil && keys[b] != nil {
			return keys[a].Cmp(keys[b])
		}
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	})
	if about = "ascending"; sortDown.MatchString(t.way) {
		about = "descending"
		slices.Reverse(items)
	}
	return strings.Join(items, join), about
}

// parseList returns the items of a list, which may be lines, "a, b and c", an array, or words, and what to join them
// with again. Empty items are left out.
func parseList(text string) (items []string, join string) {
	join, items = ", ", listSplit.Split(text, -1)
	if strings.Contains(text, "\n") {
		join, items = "\n", strings.Split(text, "\n")
	} else if len(items) == 1 {
		items = strings.Fields(text)
	}
	for i := range items {
		items[i] = strings.Trim(items[i], " []")
	}
	return slices.DeleteFunc(items, func(item string) bool { return item == "" }), join
}

// extractable has the kinds of things that can be extracted, by the word that the request uses, and their patterns.
var extractable = map[string]*regexp.Regexp{
	"mail": regexp.MustCompile(forms[email]), "url": regexp.MustCompile(forms[link]), "link": regexp.MustCompile(forms[link]),
	"number": regexp.MustCompile(forms[numeral]), "date": regexp.MustCompile(forms[date]), "quotation": quotedPattern, "quote": quotedPattern,
}

// extracting lists the email addresses, links, numbers, dates or quotations of a text.
func extracting(t task) (value, about string) {
	kind := strings.ToLower(t.match[1])
	found := extractable[kind].FindAllString(t.matter, -1)
	if len(found) == 0 {
		return "There is no " + kind + " in the text.", ""
	}
	for i := range found {
		found[i] = strings.Trim(found[i], " \t\n([=:,'\"“”«»`")
	}
	return strings.Join(found, ", "), kind
}

// recalling answers a question with a sentence that was said before: the one that shares most words with the
// question, and more than half of them. Of equals it takes the latest. Questions, and replies of the sandbox about
// itself, are no answers.
func recalling(t task) (value, about string) {
	// asked is the index of the question: the first sentence with a question mark, else the first of all. The empty
	// sentence makes sure that there is one.
	all := append(sentences(t.text), "")
	asked := max(slices.IndexFunc(all, func(s string) bool { return strings.HasSuffix(s, "?") }), 0)
	if !question.MatchString(all[asked]) {
		return "", ""
	}
	wanted := stems(all[asked])
	most := len(wanted)/2 + 1 // the number of shared words to reach
	// The rest of the message itself counts as said last.
	for _, text := range append(slices.Clone(t.said), strings.Join(slices.Delete(all, asked, asked+1), "\n")) {
		for _, s := range sentences(text) {
			have := stems(s)
			maps.DeleteFunc(have, func(word string, _ bool) bool { return !wanted[word] })
			if len(have) >= most && !strings.HasSuffix(s, "?") && !strings.Contains(s, "sandbox model") {
				value, most = s, len(have)
			}
		}
	}
	return value, strings.Join(slices.Sorted(maps.Keys(wanted)), ", ")
}

// honest says that this is the sandbox and what it read. It always fits.
func honest(t task) (value, about string) {
	all := strings.Fields(t.text)
	return fmt.Sprintf("This is the sandbox model. It read “%s” (words: %d).", excerpt(strings.Join(all, " "), 80), len(all)), "what it read"
}

// spoken replaces words and signs of arithmetic by the operators of an expression.
var spoken = strings.NewReplacer(" plus ", " + ", " minus ", " - ", "−", "-", " times ", " * ", " x ", " * ", " multiplied by ", " * ", "×", "*",
	" divided by ", " / ", "÷", "/", " to the power of ", " ^ ", "**", "^", "% of ", " / 100 * ", " percent of ", " / 100 * ")

// The patterns of arithmetic. A sum counts if a cue or a verb asks for it, or if it is the whole text.
var (
	// sumPattern matches anything that may be an expression; evaluate decides.
	sumPattern = regexp.MustCompile(`[-( ]*[\d.][\d\s.()+\-*/^]*`)
	// powerPattern matches a power of numbers that are small enough to write out as a product.
	powerPattern = regexp.MustCompile(`\b(\d{1,12})\s*\^\s*(\d{1,2})\b`)
	// noNumbers matches digits that are no numbers: dates, B7, 1e3.
	noNumbers = regexp.MustCompile(forms[date] + `|\p{L}[\p{L}_]*\d[\w.]*|\d+[\p{L}_]\w*`)
	// sumCue matches words that ask for a result anywhere in the text.
	sumCue = regexp.MustCompile(`(?i)what(?:'s|’s| is| are| does)|how much|calculat|comput|evaluat|solv|work out|equal|result|=`)
	// sumVerb matches the end of the text before a sum, if it asks for a result.
	sumVerb = regexp.MustCompile(`(?i)(?:^|\bis|'s|calculate|compute|evaluate)\s*$`)
	// thousands matches a comma between thousands, with the digits after it.
	thousands = regexp.MustCompile(`,(\d{3})\b`)
	// dashes matches numbers joined by dashes, which may be a telephone number.
	dashes = regexp.MustCompile(`^\d+(?:-\d+)+$`)
)

// arithmetic evaluates the longest expression in a text. It leaves out what may be a date or a telephone number,
// such as 555-1234, unless a verb asks for a result.
func arithmetic(t task) (value, about string) {
	text := head(t.text)
	cue := sumCue.MatchString(text)
	text = mask(spoken.Replace(thousands.ReplaceAllString(strings.ToLower(text), "$1")), noNumbers)
	for _, at := range sumPattern.FindAllStringIndex(text, -1) {
		before, after := text[:at[0]], text[at[1]:]
		sum := strings.TrimRight(strings.TrimSpace(text[at[0]:at[1]]), " .(+-*/^")
		// Skipped are sums that are no longer than the best so far, numbers without an operator, sums among other
		// words that nothing asks for, and digits joined by dashes.
		if len(sum) <= len(about) || !strings.ContainsAny(strings.TrimLeft(sum, "-"), "+-*/^") ||
			!cue && len(words(before))+len(words(after)) > 0 || dashes.MatchString(sum) && !sumVerb.MatchString(before) {
			continue
		}
		if result := evaluate(sum); result != "" {
			value, about = result, sum
		}
	}
	return value, about
}

// decimal returns a number with at most ten decimals.
func decimal(value *big.Rat) string {
	if value.IsInt() {
		return value.Num().String()
	}
	return strings.TrimRight(strings.TrimRight(value.FloatString(10), "0"), ".")
}

// rational parses a decimal number, with or without commas between thousands. It reports false for anything else.
// big.Rat would also read exponents, with which a few bytes make a number of any size.
func rational(text string) (*big.Rat, bool) {
	text = strings.ReplaceAll(text, ",", "")
	if digits := strings.TrimPrefix(text, "-"); strings.Trim(digits, "0123456789.") != "" || len(digits) > 1000 {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
