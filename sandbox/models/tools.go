package models

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sluice/internal/prompt/chat"
)

const (
	// enough is the weight that a text and a tool must share for a call that is not forced. A word of the
	// description weighs 1, the whole name 3.
	enough  = 2
	oneItem = `(?:"[^"]*"|` + oneName + `|[\w.-]*(?:/[\w.-]+)+)`
)

var (
	// clauseEnd matches what ends a clause.
	clauseEnd = regexp.MustCompile(`(?i)\s+(?:and|also|plus|then)\s+|[;.?!]\s+|,\s+`)
	// several matches a list of two items or more. Its first group is a list of names, quotations and paths, its second
	// one of plain words after a preposition at the end of the text.
	several = regexp.MustCompile(`((?:` + oneItem + `, )*` + oneItem + `,? (?:and|&) ` + oneItem + `)|\b(?:in|for|of|at) (\p{Ll}+(?:, \p{Ll}+)*,? and \p{Ll}+)(?: please)?[?.!]*$`)
)

// callWords are stems of words that tell somebody to call a tool.
var callWords = map[string]bool{stem("use"): true, stem("using"): true, stem("call"): true, stem("run"): true, stem("tool"): true, stem("function"): true, stem("invoke"): true}

// tool is a function and the words by which a text may ask for it.
type tool struct {
	*chat.Function
	key    string             // its name without the label of its MCP server, written as fold does
	topic  map[string]bool    // the stems of that name
	weight map[string]float64 // how much each stem in a text speaks for the tool
}

// newTool returns the tool of a function. Its description, its first 100 parameters and their allowed values speak
// for it, and more than those its name.
func newTool(f *chat.Function) tool {
	// The tools of MCP servers are named label__tool. Names in camel case and with underscores are cut into words.
	_, name, _ := strings.Cut(f.Name, "__")
	name = strings.Join(keyPart.FindAllString(cmp.Or(name, f.Name), -1), " ")
	about := f.Description
	params := members(parseSchema(f.Parameters).Properties)
	for _, m := range params[:min(len(params), 100)] {
		about += fmt.Sprintf(" %s %s", m.name, parseSchema(m.value).Enum)
	}
	t := tool{f, fold(name), stems(name), make(map[string]float64)}
	for s := range stems(about) {
		t.weight[s] = 1
	}
	// All words of a name together weigh 3 more, however many there are: more than enough by themselves.
	for s := range t.topic {
		t.weight[s] += 3 / float64(len(t.topic))
	}
	return t
}

// calls returns the calls that the turn makes; none if it is answered in words. After tools have answered, only a
// forced choice leads to more calls, and never to one that was made before, so that an exchange ends. A given length
// asks for words.
func (p *prompt) calls() (calls []chat.ToolCall) {
	choice := p.request.ToolChoice
	forced := choice.Mode == chat.ChoiceRequired || choice.Mode == chat.ChoiceNamed
	if choice.Mode == chat.ChoiceNone || !forced && (len(p.made) > 0 || p.orders.tokens > 0 && len(p.orders.calls) == 0) {
		return nil
	}
	// A directive's calls are made once. A choice that is still forced after them is filled from the text.
	if calls = p.orders.calls; len(calls) == 0 || len(p.made) > 0 {
		var all []tool
		for _, f := range p.tools {
			if choice.Mode != chat.ChoiceNamed || f.Name == choice.Name {
				all = append(all, newTool(f))
			}
		}
		// If a call is forced and no tool is asked for, the best one is called, however little it fits.
		if calls = choose(excerpt(p.text, 4096), all, enough); len(calls) == 0 && forced {
			calls = choose(excerpt(p.text, 4096), all, 0)
		}
	}
	calls = p.fresh(calls)
	if parallel := p.request.ParallelToolCalls; parallel != nil && !*parallel && len(calls) > 1 {
		calls = calls[:1]
	}
	return calls
}

// fresh returns the calls that were not made before, each once.
func (p *prompt) fresh(calls []chat.ToolCall) (left []chat.ToolCall) {
	for _, c := range calls {
		same := func(d chat.ToolCall) bool { return d.Name == c.Name && d.Arguments == c.Arguments }
		if !slices.ContainsFunc(p.made, same) && !slices.ContainsFunc(left, same) {
			left = append(left, c)
		}
	}
	return left
}

// choose returns the calls that a text asks for. Each clause that asks for a tool by itself gets a call; the clauses
// that do not are added to the part before them. least is the weight that a tool must reach.
func choose(text string, all []tool, least float64) (calls []chat.ToolCall) {
	// parts are runs of clauses, each with at most one that asks for a tool; claimed says that the last part has
	// one. Ends of clauses inside quotation marks do not count.
	parts, start, claimed, owner := []string{""}, 0, false, tool{}
	for _, at := range append(clauseEnd.FindAllStringIndex(mask(text, quotedPattern), -1), []int{len(text), len(text)}) {
		t, asks := best(text[start:at[0]], all, enough)
		if asks && claimed && t.Function == owner.Function && t.onlyNamed(text[start:at[0]]) {
			asks = false // "the weather in Rome, use get_weather" asks once
		}
		if asks {
			owner = t
		}
		if asks && claimed {
			parts = append(parts, "")
		}
		parts[len(parts)-1] += text[start:at[1]]
		start, claimed = at[1], claimed || asks
	}
	for _, part := range parts {
		if t, ok := best(part, all, least); ok {
			calls = append(calls, t.fill(strings.TrimSuffix(strings.TrimRight(part, " ,;"), " and"))...)
		}
	}
	return calls
}

// onlyNamed reports whether a clause says which tool to call and nothing that the call is about.
func (t tool) onlyNamed(clause string) bool {
	for s := range stems(clause) {
		if !t.topic[s] && !callWords[s] {
			return false
		}
	}
	return true
}

// best returns the tool that shares most weight with a text, if that is at least least. A tool's name spelled out, as
// in get_weather or "the echo tool", counts more than words.
func best(text string, all []tool, least float64) (found tool, ok bool) {
	// spelled has the phrases that may be a tool's name: all of them if the text speaks of a tool or function, else
	// those with an underscore or hyphen.
	have, spelled := stems(text), make(map[string]bool)
	called := strings.Contains(text, "tool") || strings.Contains(text, "function")
	for _, t := range phrases(text) {
		spelled[t.value] = spelled[t.value] || called || strings.ContainsAny(text[t.at:t.end], "_-")
	}
	for _, t := range all {
		shared := 0.0
		for s := range have {
			shared += t.weight[s]
		}
		if spelled[t.key] {
			shared += 10
		}
		if shared >= least && (!ok || shared > least) { // of equals the first
			found, ok, least = t, true, shared
		}
	}
	return found, ok
}

// fill returns the call of a tool, with arguments from the text. If the tool needs one thing and the text names
// several, there is a call for each: "the weather in Rome and Paris" makes two.
func (t tool) fill(text string) (calls []chat.ToolCall) {
	// one says that the tool needs exactly one thing, and that this is a short text such as a city.
	texts, params, one := []string{text}, parseSchema(t.Parameters), false
	for i, m := range members(params.Properties) {
		needed := slices.Equal(params.Required, []string{m.name}) || len(params.Required) == 0 && i == 0
		one = one || needed && parseSchema(m.value).is("string") && !proseNames[lastWord(m.name)]
	}
	if m := several.FindStringSubmatch(text); m != nil && one {
		texts, _ = parseList(m[1] + m[2])
		for i, item := range texts {
			texts[i] = strings.Replace(text, m[1]+m[2], item, 1)
		}
	}
	for _, text := range texts {
		e := newEvidence("", text)
		e.topic = t.topic
		for _, name := range e.phrases {
			if name.value == t.key && strings.ContainsAny(text[name.at:name.end], "_-") {
				e.use(name) // the tool's own name must not become a value
			}
		}
		calls = append(calls, chat.ToolCall{Name: t.Name, Arguments: fill(t.Parameters, e, false)})
	}
	return calls
}

// reporting returns what the tools answered, a line for each call. It fits only if there are calls.
func reporting(t task) (value, about string) {
	var lines []string
	for _, c := range t.made {
		said := strings.TrimRight(excerpt(plain(t.results[c.ID]), 4096), ".")
		lines = append(lines, c.Name+" ("+plain(c.Arguments)+"): "+said+".")
	}
	return strings.Join(lines, "\n"), "results"
}

// plain returns the members of a JSON object as words. Other text stays as it is.
func plain(text string) string {
	all := members([]byte(text))
	if all == nil {
		return strings.Trim(text, ` "`)
	}
	var parts []string
	for _, m := range all {
		parts = append(parts, m.name+" "+plain(string(m.value)))
	}
	return strings.Join(parts, ", ")
}
