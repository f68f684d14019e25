package handbook

import (
	"slices"
	"strings"
	"unicode"
)

// word is a word of a text: its stem, and where it stands.
type word struct {
	stem     string
	from, to int
}

// wordsOf returns the words of a text. A name such as max_tokens is a word, and so are its parts. Two words that people also
// write as one, such as "back up", are that one as well.
func wordsOf(text string) (all []word) {
	last, lastAt := "", 0
	for _, w := range split(text) {
		plain := strings.ToLower(text[w.from:w.to])
		if joined := pairs[last+" "+plain]; joined != "" {
			all = append(all, word{stem(joined), lastAt, w.to})
		}
		last, lastAt = plain, w.from
		w.stem = stem(plain)
		all = append(all, w)
		if parts := strings.Split(plain, "_"); len(parts) > 1 {
			for _, part := range parts {
				if part != "" {
					all = append(all, word{stem(part), w.from, w.to})
				}
			}
		}
	}
	return all
}

// split returns the places of the words of a text: runs of letters, digits and underscores.
func split(text string) (all []word) {
	from := -1
	for i, r := range text {
		inside := r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
		switch {
		case inside && from < 0:
			from = i
		case !inside && from >= 0:
			all = append(all, word{from: from, to: i})
			from = -1
		}
	}
	if from >= 0 {
		all = append(all, word{from: from, to: len(text)})
	}
	return all
}

// endings are what stem removes, and what it puts in their place. The first that fits is taken.
var endings = []struct{ from, to string }{
	{"ations", ""},
	{"ation", ""},
	{"ating", ""},
	{"ated", ""},
	{"ates", ""},
	{"ate", ""},
	{"ments", ""},
	{"ment", ""},
	{"ions", ""},
	{"ion", ""},
	{"ings", ""},
	{"ing", ""},
	{"ies", "y"},
	{"ied", "y"},
	{"ed", ""},
	{"sses", "ss"},
	{"ches", "ch"},
	{"shes", "sh"},
	{"es", ""},
	{"ss", "ss"},
	{"us", "us"},
	{"s", ""},
	{"e", ""},
}

// shortestStem is how much must be left of a word when its ending is removed.
const shortestStem = 3

// stem returns what the forms of a word have in common: "rotate", "rotating" and "rotation" have one stem. It need not be
// a word.
func stem(w string) string {
	for _, e := range endings {
		rest, ok := strings.CutSuffix(w, e.from)
		if !ok || len(rest) < shortestStem || !strings.ContainsAny(rest, "aeiouy") {
			continue
		}
		// "running" and "run"; but "calls" and "call".
		if n := len(rest); strings.HasSuffix(e.from, "ing") || e.from == "ed" {
			if rest[n-1] == rest[n-2] && !strings.ContainsRune("aeiouls", rune(rest[n-1])) && n > shortestStem {
				rest = rest[:n-1]
			}
		}
		return rest + e.to
	}
	return w
}

// pairs are words that people write as one or as two.
var pairs = map[string]string{
	"back up": "backup", "set up": "setup", "sign in": "signin", "log in": "signin", "sign up": "signup", "fail over": "failover",
	"time out": "timeout", "lite llm": "litellm", "open router": "openrouter", "open ai": "openai", "web hook": "webhook", "work load": "workload",
}

// empty are words of a question that say nothing about its subject.
var empty = strings.Fields("a an and are as at be by can come coming do does for from get has have how i if in is it me much my need of on or should that the there they this to use using was we what when where which who why will with you your")

// meaning returns the stems of the words that say what a question or a heading is about, each once.
func meaning(text string) (stems []string) {
	for _, w := range wordsOf(text) {
		if !slices.Contains(empty, strings.ToLower(text[w.from:w.to])) && !slices.Contains(stems, w.stem) {
			stems = append(stems, w.stem)
		}
	}
	return stems
}

// synonyms are words that mean the same to somebody who searches. A word may be in several lines.
var synonyms = parseSynonyms(`
429 limit throttle quota
401 unauthorized authentication
402 payment
403 forbidden permission
503 unavailable
postgres postgresql pg
kubernetes k8s helm
container docker podman image compose
rotate regenerate replace renew
backup restore snapshot
upgrade update
spend spending cost money price
budget cap spend
key token secret
signin login sso oidc
password passphrase
2fa totp passkey factor
delete remove
install package deb rpm brew homebrew
move migrate import switch
proxy nginx haproxy caddy
tls https certificate ssl
cluster node server replica ha
several many multiple
logo colour branding
memory ram cpu sizing
metrics prometheus grafana
trace opentelemetry otel
alert notification webhook
model models llm
provider vendor upstream
bill invoice payment subscription
user member account team
log logs logging
slow latency performance
error failure problem troubleshoot
fallback failover
local ollama vllm llamacpp
sdk client library
agent claude codex opencode
`)

// parseSynonyms returns the stems of the other words of a line for the stem of each.
func parseSynonyms(lines string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(lines) {
		list := strings.Fields(line)
		for i := range list {
			list[i] = stem(list[i])
		}
		for _, w := range list {
			for _, other := range list {
				if other != w && !slices.Contains(all[w], other) {
					all[w] = append(all[w], other)
				}
			}
		}
	}
	return all
}
