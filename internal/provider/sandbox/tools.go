package sandbox

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sluice/internal/chat"
)

const oneName = `(?:"[^"]*"|\p{Lu}[\p{L}'’/-]*(?: \p{Lu}[\p{L}'’/-]*)*|[\w.-]*(?:/[\w.-]+)+)`

var (
	stepSplit   = regexp.MustCompile(`(?i)[,;.]?\s+(?:and\s+)?then,?\s+|[.;]\s+(?:after that|afterwards|finally|next),?\s+`)
	clauseSplit = regexp.MustCompile(`(?i)\s+(?:and|also|plus)\s+|[;.?!]\s+|,\s+`)
	noTools     = regexp.MustCompile(`(?i)\b(?:without|don't|do not|never|no)\s+(?:(?:use|using|call|calling)\s+)?(?:any\s+|a\s+|the\s+)?(?:tools?|functions?)\b`)
	several     = regexp.MustCompile(`(?:` + oneName + `, )*` + oneName + `,? (?:and|&) ` + oneName + `|\b(?:in|for|of|at) (\p{Ll}+(?:, \p{Ll}+)*,? and \p{Ll}+)(?: please)?[?.!]*$`)
)

const (
	enough = 2 // what a tool must share with a text to be called unasked
	needs  = "To call "
)

// tool is a function and what a request may share with it.
type tool struct {
	*chat.Function
	bare   string          // the name without the label of the server it came from
	name   map[string]bool // stems
	told   map[string]bool // of the description
	takes  []property
	params *schema
}

func toolsOf(functions []*chat.Function) (all []tool) {
	for _, f := range functions {
		t := tool{Function: f, bare: bareName(f.Name), told: stems(f.Description), params: parseSchema(f.Parameters)}
		if t.params.Type == nil {
			t.params.Type = typeNames{"object"}
		}
		t.name = stems(strings.Join(keyWords(t.bare), " "))
		for i := range min(len(t.params.Properties), 100) {
			t.takes = append(t.takes, t.params.property(i))
		}
		all = append(all, t)
	}
	return all
}

func bareName(name string) string {
	if _, after, ok := strings.Cut(name, "__"); ok && after != "" {
		return after
	}
	return name
}

// calls are the calls that the turn makes; none where it is to be answered in words. What is missing
// for a call that would fit is said in a sentence.
func (p *prompt) calls() (calls []chat.ToolCall, missing string) {
	all, choice, text := toolsOf(p.tools), p.request.ToolChoice, excerpt(p.text, 4096)
	forced := choice.Mode == chat.ChoiceRequired || choice.Mode == chat.ChoiceNamed
	switch {
	case choice.Mode == chat.ChoiceNone || len(all) == 0 || !forced && noTools.MatchString(text):
		return nil, ""
	case choice.Mode == chat.ChoiceNamed:
		all = slices.DeleteFunc(all, func(t tool) bool { return t.Name != choice.Name })
	}
	if p.rounds == 0 && len(p.orders.calls) > 0 {
		calls = slices.Clone(p.orders.calls)
	} else {
		if n := len(p.said); n > 1 && strings.HasPrefix(p.said[n-1].text, needs) {
			text = p.said[n-2].text + " " + text // the message gives what was missing
		}
		steps := split(text, stepSplit)
		due := p.rounds // steps that call are taken one a round
		for i := 0; i < len(steps) && due >= 0; i++ {
			if calls, missing = choose(steps[i], all, false); len(calls) > 0 {
				due--
			}
		}
		if due >= 0 {
			calls = nil
		}
		if forced && len(calls) == 0 {
			calls, _ = choose(steps[len(steps)-1], all, true)
		}
	}
	if parallel := p.request.ParallelToolCalls; parallel != nil && !*parallel && len(calls) > 1 {
		calls = calls[:1]
	}
	return calls, missing
}

// checkCalls refuses directives for calls that the request rules out.
func (p *prompt) checkCalls() error {
	choice := p.request.ToolChoice
	for _, call := range p.orders.calls {
		switch {
		case p.rounds > 0: // made already
		case choice.Mode == chat.ChoiceNone, choice.Mode == chat.ChoiceNamed && choice.Name != call.Name:
			return invalid("The sandbox directive call=%s contradicts tool_choice.", call.Name)
		case !slices.ContainsFunc(p.tools, func(f *chat.Function) bool { return f.Name == call.Name }):
			return invalid("The sandbox directive call=%s names a tool that the request does not have.", call.Name)
		}
	}
	return nil
}

// split cuts a text where the pattern matches outside of quotes.
func split(text string, pattern *regexp.Regexp) (parts []string) {
	start := 0
	for _, at := range pattern.FindAllStringIndex(mask(text, quotedPattern), -1) {
		parts = append(parts, text[start:at[0]])
		start = at[1]
	}
	return append(parts, text[start:])
}

// choose finds the tools that a text asks for: one for each clause that names one by itself, with the
// clauses that name none taken along. Forced, the best one is called whatever it shares.
func choose(text string, all []tool, forced bool) (calls []chat.ToolCall, missing string) {
	least := float64(enough)
	if forced {
		least = 0
	}
	masked := mask(text, quotedPattern)
	starts, at, claimed := []int{0}, 0, false
	for _, gap := range append(clauseSplit.FindAllStringIndex(masked, -1), []int{len(text), len(text)}) {
		_, asks := best(masked[at:gap[0]], all, enough)
		if asks && claimed {
			starts = append(starts, at)
		}
		claimed, at = claimed || asks, gap[1]
	}
	for i, start := range starts {
		end := append(starts, len(text))[i+1]
		segment := strings.TrimSuffix(strings.TrimRight(text[start:end], " ,;"), " and")
		t, ok := best(segment, all, least)
		if !ok {
			continue
		}
		made, lacks := t.fill(segment)
		if about := (&evidence{text: segment, topic: t.name}); len(lacks) > 0 && !forced && about.matter() == "" {
			missing = needs + t.Name + " I need: " + strings.Join(lacks, ", ") + "."
			continue
		}
		calls = append(calls, made...)
	}
	return calls, missing
}

// best is the tool that shares most with a text, where that is enough.
func best(text string, all []tool, least float64) (found tool, ok bool) {
	have := stems(text)
	sum := expression(text) != ""
	for _, t := range all {
		if shared := t.shared(text, have, sum); shared >= least && (!ok || shared > least) {
			found, ok, least = t, true, shared
		}
	}
	return found, ok
}

// shared weighs what a text has in common with the tool: the name most, then what describes it.
func (t tool) shared(text string, have map[string]bool, sum bool) (total float64) {
	for s := range t.name {
		if have[s] {
			total += 3 / float64(len(t.name))
		}
	}
	told := 0.0
	for s := range t.told {
		if have[s] {
			told++
		}
	}
	total += min(told, 3)
	if spelled := len(positions(text, t.bare)) > 0; spelled && (strings.ContainsAny(t.bare, "_-") || strings.Contains(text, "tool") || strings.Contains(text, "function")) {
		total += 10
	}
	for _, p := range t.takes {
		if sum && anyIn(keyWords(p.name), sumNames) {
			total += 3
		}
		if have[stem(p.name)] {
			total += 0.5
		}
		if i, _ := (&evidence{text: text}).option(p.name, p.schema); i >= 0 {
			total++
		}
	}
	return total
}

// fill makes the calls of the tool with arguments from a text. Where the text names several things and
// the tool takes one, there is a call for each.
func (t tool) fill(text string) (calls []chat.ToolCall, missing []string) {
	texts := []string{text}
	if m := several.FindStringSubmatch(text); m != nil && t.takesOne() {
		group := m[0]
		if m[1] != "" {
			group = m[1]
		}
		texts = nil
		for _, item := range parseList(group).items {
			texts = append(texts, strings.Replace(text, group, item, 1))
		}
	}
	for _, text := range texts {
		e := newEvidence(text)
		e.topic = t.name
		f := &form{root: t.Parameters, evidence: e, inside: make(map[string]int)}
		value, _ := f.fill("", t.params, 0)
		calls = append(calls, chat.ToolCall{Name: t.Name, Arguments: encode(value)})
		missing = f.missing
	}
	return calls, missing
}

// takesOne reports whether the tool takes one name and nothing else that must be given.
func (t tool) takesOne() bool {
	n := 0
	for _, p := range t.takes {
		if len(t.params.Required) > 0 && !slices.Contains(t.params.Required, p.name) || len(p.Enum) > 0 || slices.Contains(p.Type, "null") {
			continue
		}
		if !slices.Contains(p.Type, "string") || anyIn(keyWords(p.name), proseNames) {
			return false
		}
		n++
	}
	return n == 1
}

// fold makes an answer of what the tools said.
func (p *prompt) fold() answer {
	var short, long []string
	for _, r := range p.results {
		name, about, of := bareName(r.name), "", ""
		if values := flatten(r.arguments, false); values != "" {
			about, of = " ("+values+")", " for "+values
		}
		said := excerpt(flatten(r.content, true), 4096)
		if said == "" {
			said = "nothing"
		}
		if !strings.ContainsAny(said[len(said)-1:], ".!?") {
			said += "."
		}
		short = append(short, name+about+": "+said)
		long = append(long, name+of+" says: "+said)
	}
	return answer{
		skill: "reporting", value: strings.Join(short, "\n"), full: []string{strings.Join(long, "\n"), strings.Join(short, "\n")},
		trace: fmt.Sprintf("%d tool results are there; nothing more has to be called.", len(p.results)),
	}
}

// flatten writes JSON as plain words: members after commas, named by their path or not at all, and
// elements after semicolons. Other text stays as it is.
func flatten(text string, named bool) string {
	if !json.Valid([]byte(text)) {
		return strings.TrimSpace(text)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return flat(d, "", named)
}

func flat(d *json.Decoder, path string, named bool) string {
	token, _ := d.Token()
	var parts []string
	switch token {
	case json.Delim('{'):
		for d.More() {
			key, _ := d.Token()
			at := path
			if named {
				at += fmt.Sprint(key) + " "
			}
			parts = append(parts, flat(d, at, named))
		}
		_, _ = d.Token()
		return strings.Join(parts, ", ")
	case json.Delim('['):
		for d.More() {
			parts = append(parts, flat(d, "", named))
		}
		_, _ = d.Token()
		return path + strings.Join(parts, "; ")
	case nil:
		token = "none"
	}
	return path + fmt.Sprint(token)
}
