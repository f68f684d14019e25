package front

import (
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"sluice/internal/account"
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

// TierText returns the tiers of models that a plan includes.
func TierText(p account.Plan) string {
	switch p {
	case account.Free:
		return "free"
	case account.Basic:
		return "free, basic"
	}
	return "all"
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

// chosen reports whether a model is being compared.
func (v *List) chosen(id string) bool { return slices.Contains(v.Chosen, id) }

// without returns the address of the list without the comparison.
func (v *List) without() string {
	q := url.Values{}
	for name, value := range map[string]string{"q": v.Search, "kind": v.Kind, "plan": v.Plan, "feature": v.Feature, "sort": v.Sort} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return v.Path
	}
	return v.Path + "?" + q.Encode()
}

// compared are the rows of a comparison.
var compared = []struct {
	Title string
	Value func(m *Model) string
}{
	{"Kind", func(m *Model) string { return string(m.Kind) }},
	{"Plan", func(m *Model) string { return PlanName(m.Plan) }},
	{"Owner", func(m *Model) string { return orDash(m.OwnedBy != "", m.OwnedBy) }},
	{"Context", func(m *Model) string { return orDash(m.ContextLength > 0, webui.Contexts(int64(m.ContextLength))) }},
	{"Longest reply", func(m *Model) string { return orDash(m.MaxOutput > 0, webui.Contexts(int64(m.MaxOutput))) }},
	{"Input, per million tokens", func(m *Model) string { return orDash(m.InputPrice() != "", m.InputPrice()) }},
	{"Output, per million tokens", func(m *Model) string { return orDash(m.OutputPrice() != "", m.OutputPrice()) }},
	{"Counts as", func(m *Model) string { return counts(m.RequestMilli) }},
	{"Tool calling", func(m *Model) string { return yesNo(m.ToolCalling) }},
	{"Image input", func(m *Model) string { return yesNo(m.Images) }},
	{"Reasoning", func(m *Model) string { return yesNo(m.Thinks) }},
	{"First token, median", func(m *Model) string { return quantile(m.Total.First, 0.5) }},
	{"Throughput", func(m *Model) string { return speed(&m.Total) }},
	{"Uptime, 90 days", func(m *Model) string { return uptime(&m.Total) }},
}

// facts returns what is known of a model: a title, a figure and a note each.
func (s *Sheet) facts() [][3]string {
	var out [][3]string
	add := func(known bool, title, value, note string) {
		if known {
			out = append(out, [3]string{title, value, note})
		}
	}
	if s.Kind == Embedding {
		add(s.ContextLength > 0, "Longest input", webui.Contexts(int64(s.ContextLength)), "tokens")
	} else {
		add(s.ContextLength > 0, "Context", webui.Contexts(int64(s.ContextLength)), "tokens")
		add(s.MaxOutput > 0, "Longest reply", webui.Contexts(int64(s.MaxOutput)), "tokens")
	}
	add(s.InputPrice() != "", "Input", s.InputPrice(), "per million tokens")
	add(s.OutputPrice() != "" && s.Kind == Chat, "Output", s.OutputPrice(), "per million tokens")
	number, unit, _ := strings.Cut(counts(s.RequestMilli), " ")
	add(true, "Counts as", number, unit+" in the limit per minute")
	var can []string
	for _, f := range []struct {
		yes  bool
		text string
	}{{s.ToolCalling, "tools"}, {s.Images, "images"}, {s.Thinks, "reasoning"}, {s.Kind == Chat && !s.NoJSON, "JSON mode"}} {
		if f.yes {
			can = append(can, f.text)
		}
	}
	if len(can) > 0 {
		add(true, "Features", webui.Number(int64(len(can))), joined(can))
	}
	return out
}
