package sandbox

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
)

var greeting = regexp.MustCompile(`(?i)^\W*(?:hello|hi|hey|good (?:morning|afternoon|evening))\b`)

// pick takes the first phrasing at temperature 0, else one that the request decides: the same for the
// same request and seed.
func (p *prompt) pick(phrasings []string) string {
	if t := p.request.Temperature; t != nil && *t == 0 {
		return phrasings[0]
	}
	return phrasings[binary.BigEndian.Uint64(p.digest[:8])%uint64(len(phrasings))]
}

// phrase is the answer as the model speaks: the bare result, or a sentence.
func (p *prompt) phrase(a answer) string {
	if p.full && len(a.full) > 0 {
		return p.pick(a.full)
	}
	return a.value
}

// honest says that this is the sandbox, and what it read.
func honest(p *prompt) (answer, bool) {
	all := strings.Fields(p.text)
	start := strings.Join(all[:min(len(all), 12)], " ")
	if len(all) > 12 {
		start += " …"
	}
	hello, read := "", fmt.Sprintf("It read %s: “%s”.", plural(len(all), "word"), excerpt(start, 400))
	if greeting.MatchString(p.text) {
		hello = "Hello. "
	}
	if len(all) == 0 {
		read = "It found no text to answer."
	}
	if p.images > 0 {
		read += " It cannot see the " + plural(p.images, "image") + "."
	}
	short := []string{
		hello + "This is the sandbox model. " + read,
		hello + "You are talking to the sandbox model. " + read,
		hello + "The sandbox model has no knowledge of its own. " + read,
	}
	const offer = " It computes, counts, sorts, quotes and recalls what it was told, and calls tools; it does not know more than that."
	a := answer{value: p.pick(short), trace: "No skill fits, so the reply says so."}
	for _, s := range short {
		a.full = append(a.full, s+offer)
	}
	return a, true
}

func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

// fillerWords are one token each, with the space before them.
const fillerWords = "The water rises and the gate holds it back until the morning comes . Then the gate opens and the river takes the rest of the way to the sea ."

// filler is a text of exactly n tokens.
func filler(n int) string {
	words := strings.Fields(fillerWords)
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(words[i%len(words)])
	}
	return b.String()
}
