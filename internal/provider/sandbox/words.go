package sandbox

import (
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// stopWords carry no subject: they neither choose a tool nor recall a sentence.
var stopWords = wordSet(`a about above again all also am an and any are as at be been but by can could current did do does
	down for from function get give given had has have he her him his how i if in info into is it its just
	kindly let like may me might mine must my need next no not now of off on one or our out over please return same set
	shall she should so some such tell than thank thanks that the their them then there these they thing this those to
	today tomorrow tonight too tool under until up use user using value very want was we were what when where which
	while who whom whose why will with would you your yours`)

// imperatives begin a sentence with a capital letter without being a name.
var imperatives = wordSet(`add answer arrange ask book buy calculate call check compare compute convert count create
	delete describe contact draft email evaluate explain extract fetch find invoke list look lookup make multiply open order
	play print provide rate read remember remind repeat reply reverse run save say schedule search send show sort
	start stop subtract summarise summarize take train translate try turn update visit weather write yes`)

func wordSet(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

var (
	wordPattern   = regexp.MustCompile(`[\p{L}\p{N}]+(?:['’][\p{L}]+)?`)
	quotedPattern = regexp.MustCompile("\"((?:[^\"\\\\]|\\\\.)*)\"|“([^”]*)”|«([^»]*)»|`([^`]+)`|(?:^|[\\s(:=])'([^'\\n]+)'(?:$|[\\s.,;:!?)])")
	emailPattern  = regexp.MustCompile(`[\p{L}\p{N}._%+-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+`)
	urlPattern    = regexp.MustCompile(`https?://[^\s<>"'()\]]*[^\s<>"'()\].,;:!?]`)
	datePattern   = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2})?)?\b|\b\d{1,2}/\d{1,2}/\d{4}\b|` +
		`\b\d{1,2}(?:st|nd|rd|th)? (?:of )?` + monthNames + `(?: \d{4})?\b|\b` + monthNames + ` \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?\b`)
	dayPattern    = regexp.MustCompile(`(?i)\b(?:(?:next |this )?(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|tonight)\b`)
	numberPattern = regexp.MustCompile(`\d+(?:,\d{3})+(?:\.\d+)?|\d*\.?\d+`)
	namePattern   = regexp.MustCompile(`\p{Lu}[\p{L}\p{N}'’&/-]*(?: (?:(?:de|da|del|la|von|van|of) )?\p{Lu}[\p{L}\p{N}'’&/-]*)*`)
	codePattern   = regexp.MustCompile(`#?[\p{L}\p{N}]*[_#/-]?[\p{L}_-]*\d[\p{L}\p{N}_/-]*`)
	ordinal       = regexp.MustCompile(`(\d)(?:st|nd|rd|th)`)
)

const monthNames = `(?:January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`

// words are the words of a text as they are written.
func words(text string) []string { return wordPattern.FindAllString(text, -1) }

// stem folds the forms of a word into one: opened, opens and open are alike.
func stem(word string) string {
	word = strings.ToLower(word)
	if i := strings.IndexAny(word, "'’"); i > 0 {
		word = word[:i]
	}
	for _, suffix := range []string{"ies", "ing", "ed", "es", "s", "y", "e"} {
		cut, ok := strings.CutSuffix(word, suffix)
		if ok && len(cut) >= 3 && !strings.HasSuffix(word, "ss") {
			return cut
		}
	}
	return word
}

// stems is the set of the subjects of a text.
func stems(text string) map[string]bool {
	set := make(map[string]bool)
	for _, word := range words(text) {
		if lower := strings.ToLower(word); !stopWords[lower] && !stopWords[stem(word)] {
			set[stem(word)] = true
		}
	}
	return set
}

// sentences cuts a text after full stops, question and exclamation marks, and at line ends.
func sentences(text string) []string {
	var out []string
	start := 0
	for i := 0; i < len(text); i++ {
		end := text[i] == '\n'
		if c := text[i]; c == '.' || c == '!' || c == '?' {
			end = i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\n' || text[i+1] == '"'
		}
		if end || i+1 == len(text) {
			if s := strings.TrimSpace(text[start : i+1]); s != "" {
				out = append(out, s)
			}
			start = i + 1
		}
	}
	return out
}

// positions are where a phrase stands in a text as whole words, in any case, with - and _ for spaces.
func positions(text, phrase string) (all []int) {
	text, phrase = strings.Map(folded, text), strings.Map(folded, phrase)
	for at := 0; phrase != ""; {
		i := strings.Index(text[at:], phrase)
		if i < 0 {
			break
		}
		start := at + i
		at = start + len(phrase)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[at:])
		if !unicode.IsLetter(before) && !unicode.IsDigit(before) && !unicode.IsLetter(after) && !unicode.IsDigit(after) {
			all = append(all, start)
		}
	}
	return all
}

// folded makes letters small where that keeps their length, so that offsets stay.
func folded(r rune) rune {
	if small := unicode.ToLower(r); utf8.RuneLen(small) == utf8.RuneLen(r) {
		r = small
	}
	if r == '_' || r == '-' {
		return ' '
	}
	return r
}

// excerpt is a text in at most n bytes: its beginning and its end.
func excerpt(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n/2], "") + " … " + strings.ToValidUTF8(text[len(text)-n/2:], "")
}

// quoted are the quoted strings of a text, without their marks.
func quoted(text string) []string {
	var out []string
	for _, m := range quotedPattern.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.ReplaceAll(strings.Join(m[1:], ""), `\"`, `"`))
	}
	return out
}

// mask blanks what the patterns match, keeping every offset.
func mask(text string, patterns ...*regexp.Regexp) string {
	for _, pattern := range patterns {
		text = pattern.ReplaceAllStringFunc(text, func(m string) string { return strings.Repeat("_", len(m)) })
	}
	return text
}

// numbers are the numerals of a text, signs included. Strict leaves out those that are part of a
// word, a date or an address.
func numbers(text string, strict bool) []string {
	if strict {
		text = mask(text, datePattern, emailPattern, urlPattern)
	}
	var out []string
	for _, at := range numberPattern.FindAllStringIndex(text, -1) {
		start := at[0]
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		if before == '-' && (start == 1 || strings.ContainsRune(" \t\n([,=:", rune(text[start-2]))) {
			start--
		} else if strict && start > 0 && (unicode.IsLetter(before) || before == '-' || before == '_') {
			continue
		}
		out = append(out, text[start:at[1]])
	}
	return out
}

// names are the capitalised names of a text. A word that only begins a sentence is none, unless what
// follows makes it a subject: "Ana is", "Alice and Bob".
func names(text string) []string {
	text = mask(text, datePattern, dayPattern, emailPattern, urlPattern)
	var out []string
	for _, at := range namePattern.FindAllStringIndex(text, -1) {
		start, end := at[0], at[1]
		if before, _ := utf8.DecodeLastRuneInString(text[:start]); unicode.IsLetter(before) || unicode.IsDigit(before) || before == '_' {
			continue
		}
		name := text[start:end]
		if first, rest, ok := strings.Cut(name, " "); ok && imperatives[strings.ToLower(first)] {
			name = rest
		}
		lead := strings.TrimRight(text[:start], " \"'“«")
		if lead == "" || strings.ContainsAny(lead[len(lead)-1:], ".!?\n") {
			first, rest, several := strings.Cut(name, " ")
			lower := strings.ToLower(first)
			if stopWords[stem(first)] || stopWords[lower] || imperatives[lower] {
				name = rest
			} else if next := strings.TrimLeft(text[end:], " "); !several && !subjectFollows(next) {
				name = ""
			}
		}
		if name != "" && name != "I" && name != "JSON" && !stopWords[strings.ToLower(name)] {
			out = append(out, strings.TrimRight(name, "-'’"))
		}
	}
	return out
}

func subjectFollows(next string) bool {
	word, _, _ := strings.Cut(next, " ")
	return word == "" || word == "and" || word == "are" || word == "will" || next[0] == ',' ||
		strings.HasSuffix(word, "s") && word != "this" || strings.HasSuffix(word, "ed")
}

// isoDate is a written date in the form of RFC 3339.
func isoDate(date string) (day string, ok bool) {
	date = ordinal.ReplaceAllString(strings.ReplaceAll(date, " of ", " "), "$1")
	for _, layout := range []string{
		time.DateOnly, time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", "2 January 2006", "2 Jan 2006",
		"January 2, 2006", "January 2 2006", "Jan 2, 2006", "Jan 2 2006", "1/2/2006",
	} {
		if t, err := time.Parse(layout, date); err == nil {
			return t.Format(time.DateOnly), true
		}
	}
	return "", false
}
