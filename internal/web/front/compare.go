package front

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/overview"
	"sluice/internal/web/webui"
)

// Comparison is the page of models beside each other.
type Comparison struct {
	// Path is the path of the list of models.
	Path   string
	Models []Model
	// Unknown are ids of the address that no model has, shortened, and Over whether it names more models than fit.
	Unknown []string
	Over    bool
	// Others are the ids of the other models.
	Others []string
	Load   Workload
	Loaded bool
	Member bool
	Groups []compareGroup
}

// compareGroup is a part of the table with a heading.
type compareGroup struct {
	Title string
	Rows  []compareRow
}

// compareRow is a fact, for each of the models.
type compareRow struct {
	Title string
	Cells []compareCell
}

// compareCell is what is known of one model. Best marks the best of a row whose models differ.
type compareCell struct {
	Text  string
	Best  bool
	Spark string
}

// Compare returns the page of the models that a request names: each m is an id. Those that do not exist, and those beyond
// MostCompared, are left out, and the page says so.
func (s *ModelInfo) Compare(r *http.Request, path string, reader *Reader) Comparison {
	v := Comparison{Path: path, Member: reader != nil}
	if r.Form == nil { // FormValue parses it
		r.FormValue("m")
	}
	v.Load, v.Loaded = workloadOf(r.Form)
	all := s.All(r.Context(), reader)
	for _, id := range r.Form["m"] {
		m := find(all, id)
		switch {
		case id == "" || find(v.Models, id) != nil:
		case m == nil:
			if id = excerpt.Of(id, 60); len(v.Unknown) < MostCompared && !slices.Contains(v.Unknown, id) {
				v.Unknown = append(v.Unknown, id)
			}
		case len(v.Models) == MostCompared:
			v.Over = true
		default:
			v.Models = append(v.Models, *m)
		}
	}
	for i := range all {
		if find(v.Models, all[i].ID) == nil {
			v.Others = append(v.Others, all[i].ID)
		}
	}
	v.fill(time.Now())
	return v
}

// Title names the models.
func (v *Comparison) Title() string {
	if len(v.Models) == 0 {
		return "Compare models"
	}
	return strings.Join(v.ids(), " and ")
}

func (v *Comparison) ids() (ids []string) {
	for i := range v.Models {
		ids = append(ids, v.Models[i].ID)
	}
	return ids
}

// Address returns the address of the page, without a workload.
func (v *Comparison) Address() string { return v.address(v.ids(), false) }

// without returns the address of the page without a model.
func (v *Comparison) without(id string) string {
	return v.address(slices.DeleteFunc(v.ids(), func(other string) bool { return other == id }), true)
}

func (v *Comparison) address(ids []string, loaded bool) string {
	q := url.Values{}
	if len(ids) > 0 {
		q["m"] = ids
	}
	if loaded && v.Loaded {
		v.Load.set(q)
	}
	return withQuery(v.Path+"/compare", q)
}

// Which value of a row is the best.
const (
	neither = 0
	lowest  = -1
	highest = 1
)

// fill makes the table.
func (v *Comparison) fill(now time.Time) {
	if len(v.Models) == 0 {
		return
	}
	var group *compareGroup
	begin := func(title string) {
		v.Groups = append(v.Groups, compareGroup{Title: title})
		group = &v.Groups[len(v.Groups)-1]
	}
	// row adds a fact. of returns its value, from which the best follows if it is above or, where free is good, equal to zero,
	// and its text. A row in which nothing is known is left out.
	row := func(title string, best int, of func(m *Model) (value int64, cell compareCell)) {
		r, values, known := compareRow{Title: title}, []int64{}, false
		for i := range v.Models {
			n, cell := of(&v.Models[i])
			known = known || cell.Text != ""
			if cell.Text == "" {
				n, cell.Text = -1, "–"
			}
			values, r.Cells = append(values, n), append(r.Cells, cell)
		}
		if !known {
			return
		}
		markBest(r.Cells, values, best)
		group.Rows = append(group.Rows, r)
	}
	text := func(title string, of func(m *Model) string) {
		row(title, neither, func(m *Model) (int64, compareCell) { return 0, compareCell{Text: of(m)} })
	}
	rate := func(title string, b price.Bucket) {
		row(title, lowest, func(m *Model) (int64, compareCell) {
			if m.told == nil || m.Kind == Embedding && b != price.Input {
				return 0, compareCell{}
			}
			return int64(m.told.Rates[b]), compareCell{Text: perMillion(m.told, b)}
		})
	}
	tokens := func(title string, of func(m *Model) int) {
		row(title, highest, func(m *Model) (int64, compareCell) {
			n := int64(of(m))
			if n == 0 {
				return 0, compareCell{}
			}
			return n, compareCell{Text: tokensText(n)}
		})
	}
	figure := func(title string, best int, of func(s *overview.Span) (int64, string)) {
		row(title, best, func(m *Model) (int64, compareCell) {
			n, s := of(&m.Total)
			if n <= 0 {
				return 0, compareCell{}
			}
			return n, compareCell{Text: s, Spark: spark(m.Days, of)}
		})
	}

	begin("Prices, per million tokens")
	rate("Input", price.Input)
	rate("Input read from a cache", price.CacheRead)
	rate("Input written to a cache, for 5 minutes", price.CacheWrite5m)
	rate("Input written to a cache, for an hour", price.CacheWrite1h)
	rate("Output", price.Output)
	text("Long prompts", (*Model).longText)
	if v.Loaded {
		row("Your workload, a month", lowest, func(m *Model) (int64, compareCell) {
			e := m.Estimate(v.Load, now)
			if !e.Known {
				return 0, compareCell{}
			}
			return int64(e.Month), compareCell{Text: webui.Total(e.Month)}
		})
	}
	begin("Limits")
	tokens("Context", func(m *Model) int { return m.ContextLength })
	tokens("Longest reply", func(m *Model) int { return m.MaxOutput })
	row("A call counts as", lowest, func(m *Model) (int64, compareCell) { return m.RequestMilli, compareCell{Text: counts(m.RequestMilli)} })
	text("Plan", func(m *Model) string { return PlanName(m.Plan) })
	begin("Speed and uptime, " + daysOfAll(v.Models))
	figure("First token, median", lowest, firstToken)
	figure("Throughput", highest, throughput)
	figure("Response time, median", lowest, wholeTime)
	row("Uptime", highest, func(m *Model) (int64, compareCell) {
		share, known := overview.Uptime(m.Days)
		if !known {
			return 0, compareCell{}
		}
		return int64(share * 1e6), compareCell{Text: percent(share)}
	})
	begin("Features")
	text("Input", func(m *Model) string { return joined(m.inputs()) })
	text("Output", func(m *Model) string { return m.output() })
	text("Tool calling", func(m *Model) string { return yesNo(m.ToolCalling) })
	text("JSON mode", func(m *Model) string { return yesNo(m.Kind == Chat && !m.NoJSON) })
	text("Reasoning", func(m *Model) string { return yesNo(m.Thinks) })
	text("Efforts", (*Model).effortsText)
	text("Provider", func(m *Model) string { return m.OwnedBy })
	text("Ends on", (*Model).endText)
	v.Groups = slices.DeleteFunc(v.Groups, func(g compareGroup) bool { return len(g.Rows) == 0 })
}

// daysOfAll says of how many days something is known of some of the models.
func daysOfAll(models []Model) string {
	longest := models[0].Days
	for i := range models {
		if knownFor(models[i].Days) > knownFor(longest) {
			longest = models[i].Days
		}
	}
	return daysKnown(longest)
}

// markBest marks the best cells of a row: those with the lowest or highest of the values that are known, unless all are equal.
// A value below zero is not known.
func markBest(cells []compareCell, values []int64, best int) {
	known := slices.DeleteFunc(slices.Clone(values), func(n int64) bool { return n < 0 })
	if best == neither || len(known) < 2 {
		return
	}
	low, high := slices.Min(known), slices.Max(known)
	want := low
	if best == highest {
		want = high
	}
	for i := range cells {
		cells[i].Best = low != high && values[i] == want
	}
}
