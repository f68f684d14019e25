package front

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/upstream/catalog"
)

func TestPriceTable(t *testing.T) {
	t.Parallel()
	list, err := price.Read(strings.NewReader(`{"prices":[{"model":"m","input":3,"cache_read":0.3,"output":15,"above":[{"tokens":200000,"input":6,"output":22.5}],
		"tiers":{"batch":0.5,"priority":1},"hours":[{"days":"mon-fri","from":"09:00","to":"12:00","zone":"+08:00","times":2}],"calls":{"web_search":0.01},"seconds":{"720p":0.4}},
		{"model":"later","from":"2100-01-01","input":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	markup, err := price.NewMarkup(2_000_000, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	book := price.NewBook(list)
	now := time.Now()
	m := newModel(&catalog.Model{ID: "m", Price: book.Find("m", "", ""), Markup: markup}, Chat, nil, now)
	const want = "[Prompts up to 200,000 Prompts above 200,000] [{Input [$6.00 $12.00]} {Input read from a cache [$0.60 –]} {Output [$30.00 $45.00]}] " +
		"[{Batch tier × 0.5 $3.00 $15.00}] [[Hours mon-fri 09:00-12:00 +08:00 ×2] [web_search, per call $0.02] [One second of video, 720p $0.80]]"
	if table := m.PriceTable(); table == nil || fmt.Sprint(table.Columns, table.Rows, table.Tiers, table.More) != want {
		t.Errorf("PriceTable = %v, want %s", table, want)
	}
	if got, want := m.longText(), "above 200K: $12.00 in, $45.00 out"; got != want {
		t.Errorf("longText = %q, want %q", got, want)
	}
	if m.PriceUnknown() {
		t.Error("the price of a model with prices is not known")
	}
	// One whose price begins later has none yet, which is not the same as free.
	m = newModel(&catalog.Model{ID: "later", Price: book.Find("later", "", "")}, Chat, nil, now)
	if m.PriceTable() != nil || !m.PriceUnknown() || m.Told(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)) == nil {
		t.Error("a model whose price begins later has one now, or never")
	}
	m = newModel(&catalog.Model{ID: "sandbox/x", Sandbox: true}, Chat, nil, now)
	if m.PriceUnknown() {
		t.Error("the price of a sandbox model is not known")
	}
}
