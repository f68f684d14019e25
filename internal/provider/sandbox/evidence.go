package sandbox

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// evidence is what a text offers for the values of a schema. A value that was handed out is not
// offered again, so that the two numbers of "add 2 and 3" go to two parameters.
type evidence struct {
	text   string
	topic  map[string]bool            // stems that name the tool, not what it is to treat
	facts  map[string]json.RawMessage // by the name of a property
	answer string                     // what a skill made of the prompt
	sure   bool                       // offer only what the text ties to the property
	inList bool                       // what the text ties to the property is not offered twice
	within string                     // the property whose object is being filled

	title                         string   // what is "called" something
	names, quotes, figures, dates []string // not yet handed out
	used                          map[string]bool
	spent                         int
}

func newEvidence(text string) *evidence {
	text = excerpt(text, 16<<10)
	e := &evidence{text: text, used: make(map[string]bool), quotes: quoted(text), dates: datePattern.FindAllString(text, -1)}
	text = mask(text, quotedPattern)
	e.names, e.figures = names(text), numbers(text, true)
	if e.title = e.placed(called); e.title != "" {
		e.names = slices.DeleteFunc(e.names, func(name string) bool { return name == e.title })
	}
	return e
}

// What the name of a property asks for.
var (
	placeNames  = wordSet("city cities location locations place places town country countries destination origin address region airport station from to")
	personNames = wordSet("name names person people customer author authors recipient buyer participant participants attendee attendees assignee owner contact member members guest guests sender")
	linkNames   = wordSet("url uri link website")
	dateNames   = wordSet("date day when deadline birthday due")
	proseNames  = wordSet("query q search text message content prompt question input body code command topic description subject title string sentence phrase keyword term note task")
	answerNames = wordSet("answer result response output reply explanation reason reasoning summary conclusion message text content value")
	sumNames    = wordSet("expression formula equation calculation")
	idNames     = wordSet("id code ref reference sku ticket")
	countNames  = wordSet("age amount count limit max min number price qty quantity rating score size temperature total weight year")
	fromNames   = wordSet("from origin departure source start")
	toNames     = wordSet("to destination arrival target end recipient")

	keyPart  = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+|\d+`)
	prepFrom = regexp.MustCompile(`(?i)\bfrom\s+`)
	prepTo   = regexp.MustCompile(`(?i)\bto\s+`)
	prepAny  = regexp.MustCompile(`(?i)\b(?:in|at|for|of|near|around)\s+`)
	called   = regexp.MustCompile(`(?i)\b(?:called|named|titled)\s+`)
	codeLike = regexp.MustCompile(`^[\p{L}\p{N}#]*[\d/_#-][\p{L}\p{N}/_.-]*[\p{L}\p{N}]`)
	leadIn   = regexp.MustCompile(`(?i)^[ ,:]*(?:tool|function)?\s*(?:(?:for|about|on|of|to|with|that|in)\s+)?(?:say(?:ing)?\s+)?`)
	valueEnd = regexp.MustCompile(`[,;\n]|\.\s|\sand\s`)
	saying   = regexp.MustCompile(`(?i)\bsaying\s+(.+)$`)
	negation = regexp.MustCompile(`(?i)\b(?:no|not|non|never|without|don't|isn't|disable)\W+(?:\w+\W+)?$`)
)

// samples are legal values of the formats, for where the text gives none.
var samples = map[string]string{
	"date": "2026-01-01", "date-time": "2026-01-01T00:00:00Z", "time": "00:00:00Z", "email": "unknown@example.com",
	"uri": "https://example.com/", "uuid": "00000000-0000-4000-8000-000000000000", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "duration": "P1D",
}

// keyWords parts a name into words: startDate and start_date are start, date.
func keyWords(name string) []string {
	parts := keyPart.FindAllString(name, -1)
	for i := range parts {
		parts[i] = strings.ToLower(parts[i])
	}
	return parts
}

func anyIn(list []string, set map[string]bool) bool {
	return slices.ContainsFunc(list, func(s string) bool { return set[s] })
}

func isName(name string) bool {
	return anyIn(keyWords(name), personNames) || anyIn(keyWords(name), placeNames)
}

// guessType is the type of a property that states none.
func guessType(name string) string {
	parts := keyWords(name)
	switch {
	case anyIn(parts, countNames):
		return "number"
	case len(parts) > 1 && (parts[0] == "is" || parts[0] == "has"):
		return "boolean"
	}
	return "string"
}

// spend notes that a value is handed out.
func (e *evidence) spend(value string) {
	e.used[value] = true
	e.spent++
	for _, queue := range []*[]string{&e.names, &e.quotes, &e.figures} {
		if i := slices.Index(*queue, value); i >= 0 {
			*queue = slices.Delete(*queue, i, i+1)
		}
	}
}

// mention is what follows the name of a property in the text, and whether a sign between them says
// that the value does.
func (e *evidence) mention(name string) (rest string, signed, ok bool) {
	keys := keyWords(name)
	if len(keys) == 0 {
		return "", false, false
	}
	pattern := regexp.MustCompile(`(?i)(?:^|[^\p{L}\p{N}_])` + strings.Join(keys, `[ _-]?`) + `["']?(?:\s*([=:])\s*|\s+(?:(?:is|are|was|named|called|saying|of)\s+)?)`)
	at := pattern.FindStringSubmatchIndex(e.text)
	if at == nil || len(name) == 1 && at[2] < 0 {
		return "", false, false
	}
	return e.text[at[1]:], at[2] >= 0, true
}

// stated is the text that goes with the name of a property: subject "Lunch", city: Porto.
func (e *evidence) stated(name string) string {
	rest, signed, ok := e.mention(name)
	if at := quotedPattern.FindStringIndex(rest); ok && at != nil && at[0] == 0 {
		return quoted(rest)[0]
	}
	prose := anyIn(keyWords(name), proseNames)
	if first, _, _ := strings.Cut(rest, " "); signed || prose && !stopWords[first] {
		return bare(valueEnd.Split(rest, 2)[0])
	}
	if at := namePattern.FindStringIndex(rest); at != nil && at[0] == 0 && !prose {
		return rest[:at[1]]
	}
	return codeLike.FindString(rest)
}

// placed is what follows a preposition: a name if there is one, else the words up to the next stop.
func (e *evidence) placed(prep *regexp.Regexp) (plain string) {
	for _, at := range prep.FindAllStringIndex(e.text, -1) {
		rest := e.text[at[1]:]
		if name := namePattern.FindStringIndex(rest); name != nil && name[0] == 0 && !e.used[rest[:name[1]]] && !dayPattern.MatchString(rest[:name[1]]) {
			return rest[:name[1]]
		}
		var run []string
		for word := range strings.FieldsSeq(head(rest)) {
			core := strings.TrimRight(word, ".,;:?!")
			if core == "" || stopWords[strings.ToLower(core)] || strings.ContainsAny(core, `"0123456789@_`) {
				break
			}
			if run = append(run, core); core != word {
				break
			}
		}
		if found := strings.Join(run, " "); plain == "" && !e.used[found] {
			plain = found
		}
	}
	return plain
}

// matter is the text behind the words that only ask for the tool; empty where those are all of it.
func (e *evidence) matter() string {
	if e.topic == nil {
		return ""
	}
	start := 0
	for _, at := range wordPattern.FindAllStringIndex(e.text, -1) {
		word := e.text[at[0]:at[1]]
		if e.topic[stem(word)] {
			start = at[1]
		} else if lower := strings.ToLower(word); !stopWords[lower] && !stopWords[stem(word)] && !imperatives[lower] {
			break
		}
	}
	if rest := bare(leadIn.ReplaceAllString(e.text[start:], "")); len(stems(rest)) > 0 {
		return rest
	}
	return ""
}

// prose is the text for a property; a sample of its format, or "unknown", where there is none.
func (e *evidence) prose(name string, s *schema) (any, bool) {
	fits := func(v string) bool {
		n := utf8.RuneCountInString(v)
		return v != "" && n >= s.MinLength && (s.MaxLength == nil || n <= *s.MaxLength)
	}
	var fact string
	if raw, ok := e.facts[name]; ok && json.Unmarshal(raw, &fact) == nil && fits(fact) {
		return fact, true
	}
	for _, offer := range e.offers(name, s) {
		if fits(offer) && (!e.used[offer] || offer == e.answer) {
			if offer != e.answer {
				e.spend(offer)
			}
			return offer, true
		}
	}
	if sample := samples[s.Format]; sample != "" {
		return sample, false
	}
	value := "unknown" + strings.Repeat("-", max(0, s.MinLength-len("unknown")))
	if s.MaxLength != nil && len(value) > *s.MaxLength {
		value = value[:max(0, *s.MaxLength)]
	}
	return value, false
}

// offers are the texts that may be meant, the likeliest first.
func (e *evidence) offers(name string, s *schema) (all []string) {
	keys := keyWords(name)
	has := func(set map[string]bool) bool { return anyIn(keys, set) }
	switch {
	case s.Format == "email" || s.Format == "" && strings.Contains(strings.ToLower(name+s.Description), "email") && emailPattern.MatchString(e.text):
		return emailPattern.FindAllString(e.text, -1)
	case s.Format == "uri" || s.Format == "url" || s.Format == "" && has(linkNames):
		return urlPattern.FindAllString(e.text, -1)
	case s.Format == "date" || s.Format == "date-time":
		for _, date := range e.dates {
			if day, ok := isoDate(date); ok {
				all = append(all, day+strings.TrimPrefix(samples[s.Format], samples["date"]))
			}
		}
		return all
	case samples[s.Format] != "":
		return nil
	case has(dateNames):
		return append(e.dates, dayPattern.FindAllString(e.text, -1)...)
	}
	all = append(all, e.stated(name))
	if has(proseNames) || has(personNames) {
		all = append(all, e.title)
	}
	if has(idNames) {
		all = append(all, codePattern.FindAllString(e.text, -1)...)
	}
	if has(sumNames) {
		all = append(all, expression(e.text))
	}
	if has(answerNames) {
		all = append(all, e.answer)
	}
	around := append(keyWords(e.within), keys...)
	switch {
	case anyIn(around, fromNames):
		all = append(all, e.placed(prepFrom))
	case anyIn(around, toNames):
		all = append(all, e.placed(prepTo))
	case has(placeNames):
		all = append(all, e.placed(prepAny))
	}
	if isName(name) {
		all = append(all, e.names...)
	}
	if e.sure {
		return all
	}
	all = append(all, e.quotes...)
	if has(proseNames) {
		_, matter := task(e.text)
		all = append(all, matter, saying.ReplaceAllString(saying.FindString(e.text), "$1"))
	} else {
		all = append(all, e.names...)
	}
	switch {
	case e.inList:
		return all
	case has(proseNames):
		return append(all, e.matter())
	}
	return append(all, e.placed(prepAny), e.matter())
}

// number is the figure for a property, or the legal one nearest to zero.
func (e *evidence) number(name string, s *schema, whole bool) (any, bool) {
	keys := keyWords(name)
	var offers []string
	if raw, ok := e.facts[name]; ok {
		offers = append(offers, string(raw))
	}
	if rest, _, ok := e.mention(name); ok {
		if at := numberPattern.FindStringIndex(rest); at != nil && strings.Trim(rest[:at[0]], "-$€£ ") == "" {
			offers = append(offers, strings.TrimLeft(rest[:at[1]], "$€£ "))
		}
	}
	if len(keys) > 0 && len(name) > 1 {
		unit := regexp.MustCompile(`(?i)(-?[\d.,]*\d)\s+` + strings.TrimSuffix(keys[len(keys)-1], "s"))
		if m := unit.FindStringSubmatch(e.text); m != nil {
			offers = append(offers, m[1])
		}
	}
	if anyIn(keys, answerNames) {
		offers = append(offers, e.answer)
	}
	tied := len(offers)
	if !e.sure {
		offers = append(offers, e.figures...)
	}
	for i, offer := range offers {
		exact, ok := rational(offer)
		if !ok || i < tied && e.inList && e.used[offer] {
			continue
		}
		if n, _ := exact.Float64(); s.legal(n, whole) == n {
			e.spend(offer)
			return json.Number(decimal(exact)), true
		}
	}
	return json.Number(strconv.FormatFloat(s.legal(0, whole), 'f', -1, 64)), false
}

// truth is whether the text names a property without denying it.
func (e *evidence) truth(name string) (any, bool) {
	if raw := string(e.facts[name]); raw == "true" || raw == "false" {
		return raw == "true", true
	}
	rest, _, _ := e.mention(name)
	switch word, _, _ := strings.Cut(strings.ToLower(rest), " "); bare(word) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off", "not":
		return false, true
	}
	keys := keyWords(name)
	for _, at := range wordPattern.FindAllStringIndex(e.text, -1) {
		if len(keys) > 0 && stem(e.text[at[0]:at[1]]) == stem(keys[len(keys)-1]) {
			return !negation.MatchString(e.text[:at[0]]), true
		}
	}
	return false, false
}

// oneOf is the value of an enum that the text names, else the first.
func (e *evidence) oneOf(name string, s *schema) (any, bool) {
	i, shown := e.option(name, s)
	if i < 0 {
		return s.Enum[0], false
	}
	e.spend(shown)
	return s.Enum[i], true
}

// option finds the value of an enum behind the property's own name, or else the first in the text that
// no other property has taken; -1 where the text has none.
func (e *evidence) option(name string, s *schema) (found int, taken string) {
	found = -1
	first := len(e.text) + 1
	for i, raw := range s.Enum {
		shown := string(raw)
		_ = json.Unmarshal(raw, &shown)
		for _, at := range positions(e.text, shown) {
			before := words(e.text[max(0, at-40):at])
			if behind := len(before) > 0 && strings.EqualFold(before[len(before)-1], name); behind && !e.inList {
				at = -1
			} else if e.used[shown] {
				continue
			}
			if at < first {
				found, first, taken = i, at, shown
			}
		}
	}
	return found, taken
}
