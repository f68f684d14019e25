package front

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/web/webui"
)

// PriceTable is what a model costs, as a page shows it.
type PriceTable struct {
	Columns []string // of Rows: the usual prices, and those of long prompts
	Rows    []PriceRow
	More    [][2]string // conditions and fees
}

// PriceRow is the price of a million tokens of a kind, for each length of the prompt.
type PriceRow struct {
	Title  string
	Prices []string
}

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
	return m.Kind != Video && !m.Router && !m.Sandbox && m.Told(time.Now()) == nil
}

// PriceTable returns the prices of now, or nil if they are not known.
func (m *Model) PriceTable() *PriceTable {
	e := m.Told(time.Now())
	if e == nil {
		return nil
	}
	t := &PriceTable{Columns: []string{"Per million tokens"}}
	for i := range e.Bands {
		t.Columns = append(t.Columns, "Prompts above "+webui.Number(e.Bands[i].Above)+" tokens")
	}
	for _, b := range bucketTitles {
		if e.Rates[b.bucket] == price.Unknown || e.Rates.Follows(b.bucket) {
			continue
		}
		row := PriceRow{b.title, []string{webui.Dollars(e.Rates[b.bucket])}}
		for i := range e.Bands {
			rate := e.Bands[i].Rates[b.bucket]
			text := "–"
			if rate != price.Unknown {
				text = webui.Dollars(rate)
			}
			row.Prices = append(row.Prices, text)
		}
		t.Rows = append(t.Rows, row)
	}
	t.conditions(e)
	return t
}

// conditions adds what else the prices depend on, and the fees.
func (t *PriceTable) conditions(e *price.Entry) {
	for _, table := range []struct {
		what string
		of   map[string]price.Factor
	}{{"Service tier ", e.Tiers}, {"Region ", e.Regions}} {
		for _, name := range slices.Sorted(maps.Keys(table.of)) {
			t.More = append(t.More, [2]string{table.what + name, "× " + table.of[name].String()})
		}
	}
	for i := range e.Hours {
		t.More = append(t.More, [2]string{"Hours", e.Hours[i].String()})
	}
	calls, seconds := e.Written()
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		t.More = append(t.More, [2]string{"One call of " + name, "$" + calls[name].String()})
	}
	for _, size := range slices.Sorted(maps.Keys(seconds)) {
		t.More = append(t.More, [2]string{"One second of video, " + size, fmt.Sprintf("$%s", seconds[size])})
	}
	if !e.Until.IsZero() {
		t.More = append(t.More, [2]string{"Until", webui.Date(e.Until)})
	}
}
