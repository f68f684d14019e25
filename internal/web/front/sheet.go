package front

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/operate/overview"
	"sluice/internal/web/webui"
)

// Sheet is the page of one model.
type Sheet struct {
	Model
	// Base is the path of the list of models.
	Base     string
	Member   bool
	Places   []Place
	Snippets []Snippet
	// Span is what the charts show: spanDays or spanHours.
	Span  string
	Spans []overview.Span
	Load  Workload
	// Tiers are the service tiers that have a price.
	Tiers   []string
	Similar []Model
	// Successor is the id of the model that its vendor advises instead, if it is one of ours.
	Successor string
	Now       time.Time
}

// What the charts of a model show.
const (
	spanDays  = "90d"
	spanHours = "3h"
)

const (
	// parts is into how many parts the last three hours are divided: five minutes each.
	parts = 36
	// mostSimilar is how many similar models a page names.
	mostSimilar = 4
)

// Sheet returns the page of a model below a list, as a request asks for it.
func (s *ModelInfo) Sheet(r *http.Request, id, origin, base string, reader *Reader) (Sheet, bool) {
	all := s.All(r.Context(), reader)
	m := find(all, id)
	if m == nil {
		return Sheet{}, false
	}
	v := Sheet{Model: *m, Base: base, Member: reader != nil, Span: r.FormValue("span"), Now: time.Now(), Similar: similar(all, m)}
	var given bool
	if v.Load, given = workloadOf(r.Form); !given {
		v.Load = usual
		if m.Kind == Embedding {
			v.Load.Output = 0
		}
	}
	if v.told != nil {
		v.Tiers = sortedKeys(v.told.Tiers)
	}
	if !slices.Contains(v.Tiers, v.Load.Tier) {
		v.Load.Tier = ""
	}
	if v.Span != spanHours && v.Span != spanDays {
		v.Span = spanHours
		if known(m.Days) > 1 {
			v.Span = spanDays
		}
	}
	v.Spans = m.Days
	if v.Span == spanHours {
		v.Spans = s.Record.Lately(r.Context(), id, parts)
	} else if v.Spans == nil {
		v.Spans = make([]overview.Span, overview.KeptDays)
	}
	if m.Successor != "" {
		if next := find(all, m.Successor); next != nil {
			v.Successor = next.ID
		}
	}
	switch m.Kind {
	case Chat:
		v.Snippets = Snippets(origin, id)
	case Embedding:
		v.Snippets = embeddingSnippets(origin, id)
	case Video:
		v.Snippets = videoSnippets(origin, id)
	}
	if m.Kind != Video {
		v.Places = placesOf(m.Model, s.Targets(m.Model))
	}
	return v, true
}

// known returns on how many days something is known of a model's speed.
func known(days []overview.Span) (n int) {
	for i := range days {
		if days[i].Calls > 0 {
			n++
		}
	}
	return n
}

// similar returns the models that come nearest to one in price, context and features, the nearest first.
func similar(all []Model, m *Model) (near []Model) {
	for i := range all {
		o := &all[i]
		if o.ID != m.ID && o.Kind == m.Kind && !o.Router && !m.Router && o.Sandbox == m.Sandbox && !o.Vanished {
			near = append(near, *o)
		}
	}
	slices.SortStableFunc(near, func(a, b Model) int { return cmp.Compare(distance(m, &a), distance(m, &b)) })
	return near[:min(len(near), mostSimilar)]
}

// distance says how unlike two models are: a price or a context that is twice that of the other counts as much as a feature that
// only one of them has.
func distance(a, b *Model) float64 {
	const unlike = 1.0
	d := 0.0
	if pa, pb := a.Estimate(usual, time.Time{}), b.Estimate(usual, time.Time{}); pa.Known && pb.Known {
		d += unlike * math.Abs(math.Log2(float64(pa.Call+1)/float64(pb.Call+1)))
	} else if pa.Known != pb.Known {
		d += 2 * unlike
	}
	d += unlike * math.Abs(math.Log2(float64(a.ContextLength+1)/float64(b.ContextLength+1)))
	for _, differ := range []bool{a.ToolCalling != b.ToolCalling, a.Images != b.Images, a.Thinks != b.Thinks} {
		if differ {
			d += unlike
		}
	}
	return d
}

// Title is the name of the model, and its id if that is another.
func (s *Sheet) Title() string {
	if name := s.name(); name != s.ID {
		return name + " (" + s.ID + ")"
	}
	return s.ID
}

// name returns what people call the model: its description, if that is a name, and else its id.
func (m *Model) name() string {
	if d := m.Description; d == "" || len(d) > 40 || strings.ContainsAny(d, ":;,") || strings.Contains(d+" ", ". ") {
		return m.ID
	}
	return m.Description
}

// Summary is the model in one line, for those who are sent a link to its page.
func (s *Sheet) Summary() string {
	var list []string
	add := func(yes bool, text string) {
		if yes {
			list = append(list, text)
		}
	}
	add(s.InputPrice() != "", s.InputPrice()+" in")
	add(s.OutputPrice() != "", s.OutputPrice()+" out, per million tokens")
	add(s.InputPrice() != "" && s.OutputPrice() == "", "per million tokens")
	add(s.ContextLength > 0, tokensText(int64(s.ContextLength))+" tokens of context")
	add(len(s.can()) > 0, joined(s.can()))
	text := strings.Join(list, " · ")
	if s.Description != "" && s.name() != s.Description {
		text = strings.TrimSuffix(s.Description, ".") + ". " + text
	}
	return strings.TrimSuffix(text, " ")
}

// Address returns the address of the page, without what may be asked of it.
func (s *Sheet) Address() string { return At(s.Base, s.ID) }

// spanAt returns the address of the page with charts of another time.
func (s *Sheet) spanAt(span string) string {
	q := url.Values{"span": {span}}
	s.Load.set(q)
	return withQuery(s.Address(), q)
}

// charts are the figures of the model over time. A chart in which nothing is known is left out.
func (s *Sheet) charts() (list []*webui.Chart) {
	length, period := 24*time.Hour, "90 days"
	first := s.Now.UTC().Truncate(length).Add(-(overview.KeptDays - 1) * length)
	if s.Span == spanHours {
		length, period = overview.Kept/parts*time.Minute, "last 3 hours"
		first = s.Now.UTC().Truncate(time.Minute).Add(-(overview.Kept - 1) * time.Minute)
	}
	spans := s.Spans
	// A chart of days begins where something is known, but shows two weeks.
	for s.Span == spanDays && len(spans) > 14 && spans[0].Calls == 0 {
		spans, first = spans[1:], first.Add(length)
	}
	if s.Span == spanDays {
		period = webui.Number(int64(len(spans))) + " days"
	}
	steps := make([]webui.ChartStep, len(spans))
	for i := range steps {
		steps[i] = webui.ChartStep{At: first.Add(time.Duration(i) * length), Length: length}
	}
	total := sum(spans)
	add := func(title string, series []webui.ChartSeries, values []func(*overview.Span) int64, format, axis func(int64) string) {
		any := false
		for n, value := range values {
			for i := range spans {
				v := value(&spans[i])
				if v <= 0 {
					v = webui.NoValue
				}
				any = any || v != webui.NoValue
				series[n].Values = append(series[n].Values, v)
			}
			if v := value(total); v > 0 {
				series[n].Total = format(v)
			}
		}
		if any {
			list = append(list, &webui.Chart{Label: title + ", " + period + ": " + series[0].Total, Steps: steps, Series: series, Lines: true, Format: format, Axis: axis, Whole: true})
		}
	}
	times := func(title string, of func(*overview.Span) overview.Times) {
		at := func(share float64) func(*overview.Span) int64 {
			return func(s *overview.Span) int64 { return of(s).Quantile(share).Microseconds() }
		}
		add(title, []webui.ChartSeries{{Name: "Median", Class: "c0"}, {Name: "95th percentile", Class: "c3"}}, []func(*overview.Span) int64{at(0.5), at(0.95)}, micros, micros)
	}
	times("First token", func(s *overview.Span) overview.Times { return s.First })
	if s.Kind == Chat {
		add("Throughput", []webui.ChartSeries{{Name: "Tokens per second", Class: "c0"}}, []func(*overview.Span) int64{func(s *overview.Span) int64 { return int64(math.Round(s.Speed())) }},
			func(n int64) string { return webui.Number(n) + " tokens/s" }, webui.Number)
	}
	times("Response time", func(s *overview.Span) overview.Times { return s.Took })
	return list
}

// micros formats microseconds: the sandbox answers in less than a millisecond.
func micros(n int64) string { return webui.Duration(time.Duration(n) * time.Microsecond) }

// chartTitle returns the name of a chart, without its time and its figure.
func chartTitle(c *webui.Chart) string {
	title, _, _ := strings.Cut(c.Label, ",")
	return title
}

// loadedWith returns the address of the page for another workload.
func (s *Sheet) loadedWith(w Workload) string {
	q := url.Values{}
	w.set(q)
	return withQuery(s.Address(), q) + "#calculator-title"
}

// comparison returns the address at which the model is compared with similar ones.
func (s *Sheet) comparison() string {
	q := url.Values{"m": {s.ID}}
	for i := range s.Similar[:min(len(s.Similar), MostCompared-1)] {
		q.Add("m", s.Similar[i].ID)
	}
	return withQuery(s.Base+"/compare", q)
}
