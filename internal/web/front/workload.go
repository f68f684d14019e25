package front

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/web/webui"
)

// Workload is what somebody wants to know the price of: calls of a month that are all alike.
type Workload struct {
	Calls  int64 // a month
	Input  int64 // tokens of a prompt
	Cached int64 // those of them that are read from a cache
	Output int64 // tokens of a reply
	Tier   string
}

const (
	// mostCalls and mostTokens are the largest numbers of a workload.
	mostCalls  = 100_000_000
	mostTokens = 10_000_000
)

// usual is the workload of a page that was asked for none.
var usual = Workload{Calls: 10_000, Input: 2_000, Output: 500}

// workloads are examples to choose from.
var workloads = []struct {
	Name string
	Workload
}{
	{"Chat", Workload{Calls: 50_000, Input: 1_500, Cached: 1_000, Output: 300}},
	{"Coding agent", Workload{Calls: 20_000, Input: 40_000, Cached: 36_000, Output: 800}},
	{"Summaries", Workload{Calls: 5_000, Input: 12_000, Output: 600}},
}

// workloadOf returns the workload of a form. A number that is missing or is none is zero, and one that is too large is
// the largest. given reports whether there is anything to count.
func workloadOf(form url.Values) (w Workload, given bool) {
	number := func(name string, most int64) int64 {
		n, err := strconv.ParseFloat(strings.NewReplacer(",", "", " ", "", "_", "").Replace(form.Get(name)), 64)
		if err != nil || !(n > 0) {
			return 0
		}
		return int64(math.Min(n, float64(most)))
	}
	w = Workload{Calls: number("calls", mostCalls), Input: number("in", mostTokens), Cached: number("cached", mostTokens), Output: number("out", mostTokens), Tier: form.Get("tier")}
	w.Cached = min(w.Cached, w.Input)
	return w, w.Calls > 0 && w.Input+w.Output > 0
}

// set puts the workload into the query of an address.
func (w *Workload) set(q url.Values) {
	for name, n := range map[string]int64{"calls": w.Calls, "in": w.Input, "cached": w.Cached, "out": w.Output} {
		if n > 0 {
			q.Set(name, strconv.FormatInt(n, 10))
		}
	}
	if w.Tier != "" {
		q.Set("tier", w.Tier)
	}
}

// Estimate is what a workload costs at a model.
type Estimate struct {
	Call  price.Nano
	Month price.Nano
	Lines []price.Line // the formula of a call
	Known bool
	// Fresh means that the model has no price of its own for tokens from a cache, so that they count as others do.
	Fresh bool
}

// Estimate returns what the reader is charged for a workload, by the arithmetic of package price: one call is rounded once, and
// a month is that times the number of calls.
func (m *Model) Estimate(w Workload, at time.Time) Estimate {
	counts := price.Counts{}
	counts.Tokens[price.Input], counts.Tokens[price.CacheRead], counts.Tokens[price.Output] = w.Input-w.Cached, w.Cached, w.Output
	if m.Kind == Embedding { // it has no reply, and no cache
		counts.Tokens = [price.Buckets]int64{price.Input: w.Input}
	}
	terms := price.Terms{At: at.Unix(), Tier: w.Tier}
	_, charge, ok := m.list.Charge(&counts, terms, m.markup)
	fresh := false
	if !ok && counts.Tokens[price.CacheRead] > 0 {
		counts, fresh = counts.Uncached()
		_, charge, ok = m.list.Charge(&counts, terms, m.markup)
	}
	if !ok || charge > 0 && w.Calls > math.MaxInt64/int64(charge) {
		return Estimate{}
	}
	return Estimate{Call: charge, Month: charge * price.Nano(w.Calls), Lines: m.told.Lines(&counts, terms), Known: true, Fresh: fresh}
}

// monthOf returns what the workload of a list costs at a model in a month, or a dash.
func (m *Model) monthOf(v *List) string {
	e := m.Estimate(v.Load, v.now)
	return orDash(e.Known, webui.Total(e.Month))
}

// someNumber writes a number into a field, which is empty for none.
func someNumber(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// lineText writes a product of the formula of a call.
func lineText(l price.Line) string {
	name := l.Name
	for _, b := range bucketTitles {
		if b.bucket.String() == l.Name {
			name = b.title
		}
	}
	text := name + ": " + webui.Number(l.Count) + " × " + webui.Dollars(l.Rate)
	if l.Factor != 1_000_000 {
		text += " × " + l.Factor.String()
	}
	return text
}
