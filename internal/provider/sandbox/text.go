package sandbox

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/internal/chat"
)

const (
	quoteVerb  = `(?is)^(repeat|say|echo|print|output|reply|respond|answer)\b`
	quoteFluff = `back|exactly|only|just|with|after me|to me|nothing but|verbatim|the following|the (?:exact )?(?:words?|text|phrase|sentence|string|message|line)`
	ofATextRaw = `(?:the\s+|this\s+)?(?:following\s+)?(?:word|text|sentence|string|phrase|name|list)?\s*:?\s*`
)

var (
	quoteColon = regexp.MustCompile(quoteVerb + `(?:\s+(?:` + quoteFluff + `|this|it))*\s*:\s*(.+)$`)
	quotePlain = regexp.MustCompile(quoteVerb + `((?:\s+(?:` + quoteFluff + `))*)\s+(.+)$`)
	quoteTimes = regexp.MustCompile(`(?i)\s+(\d{1,3}) times\W*$`)
	quoteTail  = regexp.MustCompile(`(?i)(?:,? and (?:nothing else|only that))?[.!]?$`)
	standingTo = regexp.MustCompile(`(?i)^(?:(?:you (?:must|should|will)|always|only|please)\s+)+((?:reply|respond|answer)\b.*)`)

	countTimes  = regexp.MustCompile(`(?i)how (?:many times|often) (?:does|do|is|are)\s+(?:the\s+)?(?:letter|character|word)?\s*(\S+)\s+(?:appear|occur|used|show up|found)\w*\s+in\s*` + ofATextRaw)
	countLetter = regexp.MustCompile(`(?i)(?:how many|count the(?: number of)?)\s+(?:letters?\s+)?["'“]?(\p{L})["'”’]?s?\s+(?:are\s+)?(?:there\s+)?in\s+` + ofATextRaw)
	countUnits  = regexp.MustCompile(`^(?:how many|count (?:all )?(?:the )?(?:number of )?)\s*((word|character|letter|line|sentence|vowel|digit|item|number)s?)\b`)
	countRange  = regexp.MustCompile(`(?i)^count\s+(?:up\s+)?(?:from\s+(\d{1,3})\s+)?(?:up\s+)?to\s+(\d{1,4})\b`)
	inAText     = regexp.MustCompile(`(?i)\b(?:in|of|does|do)\s+` + ofATextRaw)
	reverseFrom = regexp.MustCompile(`(?i)^(?:reverse|spell|say|write)\s+` + ofATextRaw + `(.+?)(?:\s+(?:backwards?|in reverse))?$`)
	reverseList = regexp.MustCompile(`\b(?:list|items|array|numbers|lines)\b`)
	caseOrder   = regexp.MustCompile(`\b(upper|lower)[ -]?case\b|\b(capital) letters\b`)
	caseOf      = regexp.MustCompile(`(?i)^(?:convert|make|turn|put|write|change|uppercase|lowercase)\s+` + ofATextRaw + `(.+?)(?:\s+(?:to|into|in|all)?\s*(?:upper|lower)[ -]?case)?[.!?]?$`)
	extractOf   = regexp.MustCompile(`^(?:extract|find|list|get|identify|pull out|show|give me|return)\s+(?:me\s+)?(?:all\s+|every\s+|any\s+)?(?:of\s+)?(?:the\s+)?(e-?mail|url|link|number|date|quot)\w*`)
	extractFrom = regexp.MustCompile(`(?i)\s(?:from|in|out of)\s+`)
)

// quoting gives back what the prompt asks to be said.
func quoting(p *prompt) (answer, bool) {
	said, ok := echo(p.text)
	return answer{value: said, trace: "The request gives the words of the reply itself."}, ok
}

func echo(text string) (said string, ok bool) {
	text = plain(text)
	if m := quoteColon.FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[2]), true
	}
	m := quotePlain.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	fluff, rest, times := strings.ToLower(m[2]), m[3], 1
	at := quotedPattern.FindStringIndex(rest)
	isQuote := at != nil && at[0] == 0
	switch strings.ToLower(m[1]) {
	case "reply", "respond", "answer":
		// "Reply with great care" gives no word to say; "reply with the word care" does.
		if !strings.Contains(fluff, "with") || strings.TrimSpace(fluff) == "with" && !isQuote && len(strings.Fields(rest)) > 1 {
			return "", false
		}
	}
	if t := quoteTimes.FindStringSubmatch(rest); t != nil {
		times, _ = strconv.Atoi(t[1])
		rest = quoteTimes.ReplaceAllString(rest, "")
	}
	if isQuote {
		rest = quoted(rest)[0]
	} else {
		rest = quoteTail.ReplaceAllString(strings.TrimSpace(rest), "")
	}
	return strings.TrimSuffix(strings.Repeat(rest+" ", times), " "), rest != ""
}

// standing obeys a system prompt that gives the words of every reply.
func standing(p *prompt) (answer, bool) {
	for _, u := range p.said {
		for _, s := range sentences(head(u.text)) {
			if m := standingTo.FindStringSubmatch(s); m != nil && u.role == chat.RoleSystem {
				if said, ok := echo(m[1]); ok {
					return answer{value: said, trace: "The system prompt gives the words of every reply."}, true
				}
			}
		}
	}
	return answer{}, false
}

// counting counts up, or counts a letter, a word, or the words, letters, lines of a text.
func counting(p *prompt) (answer, bool) {
	if m := countRange.FindStringSubmatch(plain(p.text)); m != nil {
		return countUp(m[1], m[2]), true
	}
	for _, pattern := range []*regexp.Regexp{countTimes, countLetter} {
		if m := pattern.FindStringSubmatchIndex(head(p.text)); m != nil {
			what := bare(p.text[m[2]:m[3]])
			return counted(occurrences(what, strings.Trim(p.text[m[1]:], "\"'“”?")), strconv.Quote(what)), true
		}
	}
	order, matter := task(p.text)
	m := countUnits.FindStringSubmatch(order)
	if m == nil {
		return answer{}, false
	}
	if at := inAText.FindStringIndex(p.text); matter == "" && at != nil {
		matter = bare(p.text[at[1]:])
	}
	if matter == "" {
		matter = p.text
	}
	n := 0
	switch m[2] {
	case "word":
		n = len(strings.Fields(matter))
	case "character":
		n = utf8.RuneCountInString(matter)
	case "line":
		n = strings.Count(matter, "\n") + 1
	case "sentence":
		n = len(sentences(matter))
	case "number":
		n = len(numbers(matter, false))
	case "item":
		n = len(parseList(matter).items)
	default:
		for _, r := range strings.ToLower(matter) {
			if m[2] == "letter" && unicode.IsLetter(r) || m[2] == "digit" && unicode.IsDigit(r) || m[2] == "vowel" && strings.ContainsRune("aeiou", r) {
				n++
			}
		}
	}
	return counted(n, "the "+m[1]), true
}

func counted(n int, what string) answer {
	return answer{
		value: strconv.Itoa(n), trace: fmt.Sprintf("Going through the text and counting %s gives %d.", what, n),
		full: []string{fmt.Sprintf("Counting %s gives %d.", what, n), fmt.Sprintf("The count of %s is %d.", what, n)},
	}
}

func countUp(from, to string) answer {
	first, err := strconv.Atoi(from)
	if err != nil {
		first = 1
	}
	last, _ := strconv.Atoi(to)
	var all []string
	for n := first; n <= last; n++ {
		all = append(all, strconv.Itoa(n))
	}
	return answer{value: strings.Join(all, ", "), trace: "Counting goes from one number to the next."}
}

// occurrences is how often a letter, or else a whole word, stands in a text.
func occurrences(what, text string) (n int) {
	if utf8.RuneCountInString(what) == 1 {
		return strings.Count(strings.ToLower(text), strings.ToLower(what))
	}
	for _, word := range words(text) {
		if strings.EqualFold(word, what) {
			n++
		}
	}
	return n
}

// reversing turns a word, the words of a text, or a list around.
func reversing(p *prompt) (answer, bool) {
	order, matter := task(p.text)
	m := reverseFrom.FindStringSubmatch(plain(head(p.text)))
	if m == nil || !strings.HasPrefix(order, "reverse") && !strings.Contains(order, "backward") && !strings.Contains(order, "in reverse") {
		return answer{}, false
	}
	if matter == "" {
		matter = bare(m[1])
	}
	var value string
	if reverseList.MatchString(order) {
		l := parseList(matter)
		slices.Reverse(l.items)
		value = l.String()
	} else if strings.Contains(order, "words") {
		all := strings.Fields(matter)
		slices.Reverse(all)
		value = strings.Join(all, " ")
	} else {
		letters := []rune(matter)
		slices.Reverse(letters)
		value = string(letters)
	}
	return answer{value: value, trace: "It is taken from the end to the start.", full: []string{"Reversed: " + value, "The other way round: " + value}}, true
}

// casing writes a text in capitals or in small letters.
func casing(p *prompt) (answer, bool) {
	order, matter := task(p.text)
	m := caseOrder.FindStringSubmatch(order)
	if m == nil {
		return answer{}, false
	}
	if matter == "" {
		of := caseOf.FindStringSubmatch(plain(head(p.text)))
		if of == nil {
			return answer{}, false
		}
		matter = of[1]
	}
	value := strings.ToUpper(matter)
	if m[1] == "lower" {
		value = strings.ToLower(matter)
	}
	return answer{value: value, trace: "The letters change, the words stay."}, true
}

// extracting lists the addresses, links, numbers, dates or quotations of a text.
func extracting(p *prompt) (answer, bool) {
	order, matter := task(p.text)
	m := extractOf.FindStringSubmatch(order)
	if m == nil {
		return answer{}, false
	}
	if matter == "" || strings.Contains(order, "…") {
		if at := extractFrom.FindStringIndex(p.text); at != nil {
			matter = p.text[at[1]:]
		}
	}
	var found []string
	kind := m[1]
	switch kind {
	case "email", "e-mail":
		kind, found = "e-mail address", emailPattern.FindAllString(matter, -1)
	case "url", "link":
		kind, found = "link", urlPattern.FindAllString(matter, -1)
	case "number":
		found = numbers(matter, false)
	case "date":
		found = datePattern.FindAllString(matter, -1)
	case "quot":
		kind, found = "quotation", quoted(p.text)
	}
	if len(found) == 0 {
		return answer{value: "There is no " + kind + " in the text.", trace: "Nothing in the text has the form of it."}, true
	}
	value := strings.Join(found, ", ")
	return answer{
		value: value, trace: fmt.Sprintf("The form of it shows %d times in the text.", len(found)),
		full: []string{"Found in the text: " + value, "The text has: " + value},
	}, true
}
