package front

import (
	"slices"
	"strings"

	"sluice/internal/ledger/price"
	"sluice/internal/web/webui"
)

// PriceTable is what a model costs, as a page shows it.
type PriceTable struct {
	Columns []string // of Rows: the prices of prompts of each length
	Rows    []PriceRow
	// Tiers are the prices of service tiers and regions.
	Tiers []TierRow
	More  [][2]string // hours, and fees
}

// PriceRow is the price of a million tokens of a kind, for each length of the prompt.
type PriceRow struct {
	Title  string
	Prices []string
}

// TierRow is what a service tier or a region multiplies prices with, and what that makes of those of input and output.
type TierRow struct{ Title, Factor, Input, Output string }

// bucketTitles are the kinds of tokens as pages call them, in the order in which they are shown.
var bucketTitles = []struct {
	bucket price.Bucket
	title  string
}{
	{price.Input, "Input"},
	{price.CacheRead, "Input read from a cache"},
	{price.CacheWrite5m, "Input written to a cache, for 5 minutes"},
	{price.CacheWrite1h, "Input written to a cache, for an hour"},
	{price.CacheWrite, "Input written to a cache"},
	{price.Output, "Output"},
	{price.Reasoning, "Reasoning"},
	{price.AudioIn, "Audio input"},
	{price.AudioOut, "Audio output"},
	{price.ImageIn, "Image input"},
	{price.ImageOut, "Image output"},
}

// PriceUnknown reports whether a model should have a price and has none.
func (m *Model) PriceUnknown() bool {
	return m.Kind != Video && !m.Router && !m.Sandbox && m.told == nil
}

// unpriced says why a model has no price.
func (m *Model) unpriced() string {
	switch {
	case m.Router:
		return "varies by model"
	case m.PriceUnknown():
		return "price not known"
	}
	return "no price"
}

// longText says from what length of the prompt on prices are others.
func (m *Model) longText() string {
	if m.told == nil {
		return ""
	}
	var list []string
	for i := range m.told.Bands {
		b := &m.told.Bands[i]
		list = append(list, "above "+webui.Short(b.Above)+": "+ratePair(&b.Rates))
	}
	return strings.Join(list, "; ")
}

// ratePair writes the prices of input and output.
func ratePair(r *price.Rates) string {
	return rateText(r[price.Input]) + " in, " + rateText(r[price.Output]) + " out"
}

// rateText writes a price of tokens, or a dash if it is not known.
func rateText(r price.Rate) string {
	if r == price.Unknown {
		return "–"
	}
	return webui.Dollars(r)
}

// PriceTable returns the prices of now, or nil if they are not known.
func (m *Model) PriceTable() *PriceTable {
	e := m.told
	if e == nil {
		return nil
	}
	t := &PriceTable{Columns: []string{"Per million tokens"}}
	for i := range e.Bands {
		above := "Prompts above " + webui.Number(e.Bands[i].Above)
		if i == 0 {
			t.Columns[0] = "Prompts up to " + webui.Number(e.Bands[i].Above)
		}
		if i+1 < len(e.Bands) {
			above += " up to " + webui.Number(e.Bands[i+1].Above)
		}
		t.Columns = append(t.Columns, above)
	}
	for _, b := range bucketTitles {
		if e.Rates[b.bucket] == price.Unknown || e.Rates.Follows(b.bucket) || b.bucket == price.CacheWrite && writesAlike(e) || m.Kind == Embedding && b.bucket != price.Input {
			continue
		}
		row := PriceRow{b.title, []string{webui.Dollars(e.Rates[b.bucket])}}
		for i := range e.Bands {
			row.Prices = append(row.Prices, rateText(e.Bands[i].Rates[b.bucket]))
		}
		t.Rows = append(t.Rows, row)
	}
	t.conditions(e)
	return t
}

// writesAlike reports whether writing to a cache costs what it costs for five minutes, so that one of the rows is enough.
func writesAlike(e *price.Entry) bool {
	return e.Rates[price.CacheWrite] == e.Rates[price.CacheWrite5m] &&
		!slices.ContainsFunc(e.Bands, func(b price.Band) bool { return b.Rates[price.CacheWrite] != b.Rates[price.CacheWrite5m] })
}

// named returns the name of a service tier or a region as pages show it, such as "Batch tier" and "US region".
func named(name, what string) string {
	if len(name) == 2 { // a country, or the EU
		return strings.ToUpper(name) + " " + what
	}
	return title(name) + " " + what
}

// conditions adds what else the prices depend on, and the fees.
func (t *PriceTable) conditions(e *price.Entry) {
	for _, table := range []struct {
		what string
		of   map[string]price.Factor
	}{{"tier", e.Tiers}, {"region", e.Regions}} {
		for _, name := range sortedKeys(table.of) {
			if table.of[name].String() == "1" { // the price above
				continue
			}
			times := e.Times(table.of[name]).Rates
			t.Tiers = append(t.Tiers, TierRow{named(name, table.what), "× " + table.of[name].String(), rateText(times[price.Input]), rateText(times[price.Output])})
		}
	}
	for i := range e.Hours {
		t.More = append(t.More, [2]string{"Hours", e.Hours[i].String()})
	}
	var seconds [][2]string
	for _, name := range sortedKeys(e.Fees) {
		if size, ok := strings.CutPrefix(name, "video_"); ok { // the name of price.Video
			seconds = append(seconds, [2]string{"One second of video, " + size, webui.Dollars(e.Fees[name])})
		} else {
			t.More = append(t.More, [2]string{name + ", per call", webui.Dollars(e.Fees[name])})
		}
	}
	t.More = append(t.More, seconds...)
	if !e.Until.IsZero() {
		t.More = append(t.More, [2]string{"Until", webui.Date(e.Until)})
	}
}
