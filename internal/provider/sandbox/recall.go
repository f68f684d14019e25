package sandbox

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/internal/chat"
)

var (
	question   = regexp.MustCompile(`(?i)\?\s*$|^(?:who|what|when|where|which|why|how|is|are|was|were|do|does|did|can|tell me|recall)\b`)
	label      = regexp.MustCompile(`(?i)^(?:question|q|context|answer|a|note)\s*:\s*`)
	myName     = regexp.MustCompile(`(?i)\b(?:my name|who am i)\b`)
	introduced = regexp.MustCompile(`\b(?i:my name is|my name's|i am|i'm|call me)\s+(\p{Lu}[\p{L}'’-]*(?: \p{Lu}[\p{L}'’-]*)*)`)
	whoAreYou  = regexp.MustCompile(`(?i)\b(?:who are you|what are you|your name)\b`)
	mine       = regexp.MustCompile(`(?i)\b(?:i am|i'm|i’m|i|my|me|mine|you are|you're|your|you)\b`)
)

// theirs is how the other side says it.
var theirs = map[string]string{
	"i am": "you are", "i'm": "you are", "i’m": "you are", "i": "you", "my": "your", "me": "you",
	"mine": "yours", "you are": "I am", "you're": "I am", "your": "my", "you": "I",
}

// recalling answers a question with the sentence that shares most of its words, of the system prompt,
// the earlier turns and the message itself; the latest of equals.
func recalling(p *prompt) (answer, bool) {
	all := sentences(p.text)
	asked := slices.IndexFunc(all, func(s string) bool { return strings.HasSuffix(s, "?") })
	if asked < 0 {
		asked = len(all) - 1
	}
	if asked < 0 || !question.MatchString(label.ReplaceAllString(all[asked], "")) {
		return answer{}, false
	}
	ask := label.ReplaceAllString(all[asked], "")
	said := append(slices.Clone(p.said), utterance{chat.RoleUser, strings.Join(slices.Delete(all, asked, asked+1), "\n")})
	if myName.MatchString(ask) {
		for _, u := range slices.Backward(said) {
			if m := introduced.FindStringSubmatch(u.text); m != nil && u.role == chat.RoleUser {
				return answer{value: "Your name is " + m[1] + ".", trace: "An earlier message gives the name."}, true
			}
		}
	}
	wanted, must := stems(ask), make(map[string]bool)
	for i, word := range words(ask) {
		if c, _ := utf8.DecodeRuneInString(word); i > 0 && wanted[stem(word)] && (unicode.IsUpper(c) || unicode.IsDigit(c)) {
			must[stem(word)] = true // a name or a number makes it another question
		}
	}
	best, from, most := "", chat.Role(0), 0
	for _, u := range said {
		for _, s := range sentences(u.text) {
			if strings.HasSuffix(s, "?") || strings.Contains(s, "sandbox model") {
				continue
			}
			shared := overlap(wanted, must, s)
			if whoAreYou.MatchString(ask) && u.role == chat.RoleSystem && strings.HasPrefix(s, "You are ") {
				shared = len(wanted) + 1
			}
			if shared >= max(most, 1) {
				best, from, most = s, u.role, shared
			}
		}
	}
	if 2*most < len(wanted) || most == 0 {
		return answer{}, false
	}
	best = label.ReplaceAllString(best, "")
	if from == chat.RoleUser || strings.HasPrefix(best, "You") {
		best = turned(best)
	}
	return answer{
		value: best, trace: fmt.Sprintf("The words asked for are %s; one sentence shares most of them.", strings.Join(slices.Sorted(maps.Keys(wanted)), ", ")),
		full: []string{best, "From what I was told: " + best, "As it was said: " + best},
	}, true
}

// overlap counts the wanted words in a sentence; none where one that it must have is missing.
func overlap(wanted, must map[string]bool, sentence string) int {
	have := make(map[string]bool)
	for _, word := range words(sentence) {
		if s := stem(word); wanted[s] {
			have[s] = true
		}
	}
	for s := range must {
		if !have[s] {
			return 0
		}
	}
	return len(have)
}

// turned speaks a sentence from the other side: my becomes your.
func turned(s string) string {
	s = mine.ReplaceAllStringFunc(s, func(m string) string { return theirs[strings.ToLower(m)] })
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
