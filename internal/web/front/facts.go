package front

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/a-h/templ"

	"sluice/internal/account"
	"sluice/internal/operate/overview"
	"sluice/internal/web/webui"
)

// tabIndex makes only the first of several tabs reachable with the Tab key. app.js moves between tabs with the arrow
// keys.
func tabIndex(i int) templ.Attributes {
	if i == 0 {
		return nil
	}
	return templ.Attributes{"tabindex": "-1"}
}

// TierText returns the tiers of models that a plan includes, as a word of its own.
func TierText(p account.Plan) string {
	switch p {
	case account.Free:
		return "Free"
	case account.Basic:
		return "Free, basic"
	}
	return "All"
}

// yesNo says whether a model has a feature.
func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// orDash returns a text, or a dash for what is not known: an empty cell looks like a mistake.
func orDash(known bool, text string) string {
	if known {
		return text
	}
	return "–"
}

func joined(list []string) string { return strings.Join(list, ", ") }

func sortedKeys[V any](table map[string]V) []string { return slices.Sorted(maps.Keys(table)) }

// tokensText formats a number of tokens, such as the length of a context.
func tokensText(n int64) string { return webui.Contexts(n) }

// takesImages reports whether a chat model takes images. Models for embeddings take text here, whatever their vendor says.
func (m *Model) takesImages() bool { return m.Kind == Chat && m.Images }

// inputs and output return what goes into a model and what comes out.
func (m *Model) inputs() []string {
	if m.takesImages() {
		return []string{"text", "images"}
	}
	return []string{"text"}
}

func (m *Model) output() string {
	switch m.Kind {
	case Embedding:
		return "embeddings"
	case Video:
		return "video"
	}
	return "text"
}

// can returns what a chat model can do beyond text.
func (m *Model) can() (list []string) {
	for _, f := range []struct {
		yes  bool
		text string
	}{{m.ToolCalling, "tools"}, {m.takesImages(), "images"}, {m.Thinks, "reasoning"}, {m.Kind == Chat && !m.NoJSON, "JSON"}} {
		if f.yes {
			list = append(list, f.text)
		}
	}
	return list
}

// effortsText returns the efforts that a model takes, if they are known.
func (m *Model) effortsText() string {
	var list []string
	for _, e := range m.Efforts {
		list = append(list, string(e))
	}
	return joined(list)
}

// endText returns the day on which the vendor ends a model, if one is announced.
func (m *Model) endText() string {
	if m.Shutdown.IsZero() {
		return ""
	}
	return webui.Date(m.Shutdown)
}

// figure is a fact with a heading and a note.
type figure struct{ Title, Value, Note string }

// figures returns the numbers at the top of a model's page.
func (s *Sheet) figures() (list []figure) {
	add := func(known bool, title, value, note string) {
		if known {
			list = append(list, figure{title, value, note})
		}
	}
	add(s.InputPrice() != "", "Input", s.InputPrice(), "per 1M tokens")
	add(s.OutputPrice() != "", "Output", s.OutputPrice(), "per 1M tokens")
	if s.Kind == Embedding {
		add(s.ContextLength > 0, "Longest input", tokensText(int64(s.ContextLength)), "tokens")
	} else {
		add(s.ContextLength > 0, "Context", tokensText(int64(s.ContextLength)), "tokens")
		add(s.MaxOutput > 0, "Longest reply", tokensText(int64(s.MaxOutput)), "tokens")
	}
	first := quantile(s.Total.First, 0.5)
	add(first != "–", "First token", first, "median, "+daysKnown(s.Days))
	number, unit, _ := strings.Cut(speed(&s.Total), " ")
	add(s.Kind == Chat && s.Total.Speed() > 0, "Throughput", number, unit)
	share, known := overview.Uptime(s.Days)
	add(known, "Uptime", percent(share), daysKnown(s.Days))
	return list
}

// knownFor returns how many days ago the first day was of which something is known, today included.
func knownFor(days []overview.Span) int {
	for i := range days {
		if _, known := days[i].Uptime(); known {
			return len(days) - i
		}
	}
	return 0
}

// daysKnown says of how many days something is known.
func daysKnown(days []overview.Span) string {
	n := knownFor(days)
	if n <= 1 {
		return "today"
	}
	return webui.Number(int64(n)) + " days"
}

// details are the facts of a model's page as a list.
func (s *Sheet) details() (list []figure) {
	add := func(title, value string) {
		if value != "" {
			list = append(list, figure{Title: title, Value: value})
		}
	}
	add("Provider", s.OwnedBy)
	add("Input", joined(s.inputs()))
	add("Output", s.output())
	if s.Kind == Chat {
		add("Features", orDash(len(s.can()) > 0, joined(s.can())))
		add("Reasoning efforts", s.effortsText())
		if s.takesImages() && s.NoImageURLs {
			add("Images", "as data: URLs only")
		}
	}
	add("Plan", PlanName(s.Plan)+orAbove(s.Plan))
	add("Counts as", counts(s.RequestMilli)+" in the limit per minute")
	if s.Kind != Video && s.ContextLength > longPrompt {
		add("Above "+webui.Number(longPrompt)+" tokens", counts(2*s.RequestMilli)+" in the limit per minute")
	}
	add("Falls back to", joined(s.Fallbacks))
	add("Also known as", joined(s.Aliases))
	if s.Created > 0 {
		add("Listed since", webui.Date(time.Unix(s.Created, 0)))
	}
	add("Ends on", s.endText())
	return list
}

// longPrompt is the length in tokens above which a call counts twice (docs/api.md#windows).
const longPrompt = 200_000

func orAbove(p account.Plan) string {
	if p == account.Premium || p == account.Basic {
		return " or above"
	}
	return ""
}

// line is a model in a line below its id: what it is, and what it can do.
func (m *Model) line() string {
	var list []string
	if m.Description != "" && lettersOf(m.Description) != lettersOf(m.ID[strings.LastIndexByte(m.ID, '/')+1:]) {
		list = append(list, strings.TrimSuffix(m.Description, "."))
	}
	if can := slices.DeleteFunc(m.can(), func(f string) bool { return f == "JSON" }); len(can) > 0 { // nearly all have it
		list = append(list, joined(can))
	}
	if m.RequestMilli != 1000 {
		list = append(list, "counts as "+counts(m.RequestMilli))
	}
	return strings.Join(list, " · ")
}

// offer is a model in a line as something to choose: what it costs, and how much it reads.
func (m *Model) offer() string {
	var list []string
	if in := m.InputPrice(); in != "" {
		list = append(list, in+" in")
		if out := m.OutputPrice(); out != "" {
			list = append(list, out+" out")
		}
	} else {
		list = append(list, m.unpriced())
	}
	if m.ContextLength > 0 {
		list = append(list, tokensText(int64(m.ContextLength))+" context")
	}
	return strings.Join(list, " · ")
}

// lettersOf returns the letters and digits of a name, by which "Claude Sonnet 5.5" is the same as claude-sonnet-5-5.
func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// textOf returns the text of a figure.
func textOf(_ int64, text string) string { return text }
