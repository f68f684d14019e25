package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/store/sqlstore/alltest"
)

// prices: an entry is stored once, with the time of its first sight, and is found by its version forever; imports keep their order.
func prices(t *testing.T, open func() *alltest.Store) {
	s := open()
	list, err := price.Read(strings.NewReader(`{"prices":[{"vendor":"v","model":"a","input":1,"source":"https://v.example"},{"model":"b","from":"2026-01-01","input":0.000000001,
		"above":[{"tokens":5,"input":2}],"tiers":{"batch":0.5},"hours":[{"days":"mon-fri","from":"09:00","to":"12:00","zone":"+08:00","times":2}],"calls":{"x":1}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	list[1].Origin = price.FromPrices
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 3 { // of which the first has half of them
		if err := s.RecordPrices(t.Context(), list[:min(i+1, 2)], begin.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range list {
		seen, err := s.PriceVersion(t.Context(), e.Version())
		if err != nil || seen == nil || seen.Entry.Version() != e.Version() || !seen.At.Equal(begin.Add(time.Duration(i)*time.Hour)) || seen.Origin != e.Origin.String() || seen.Entry.Source != e.Source {
			t.Errorf("PriceVersion(%s) = %+v, %v", e.Version(), seen, err)
		}
	}
	if seen, err := s.PriceVersion(t.Context(), "none"); seen != nil || err != nil {
		t.Errorf("PriceVersion of none = %+v, %v", seen, err)
	}
	all, err := s.PriceVersions(t.Context(), 0, 10)
	if err != nil || len(all) != 2 || all[0].Version != list[1].Version() {
		t.Errorf("PriceVersions = %+v, %v", all, err)
	}
	if more, err := s.PriceVersions(t.Context(), all[0].Number, 10); err != nil || len(more) != 1 || more[0].Version != list[0].Version() {
		t.Errorf("PriceVersions before %d = %+v, %v", all[0].Number, more, err)
	}

	testImports(t, s, list, begin)
}

func testImports(t *testing.T, s *alltest.Store, list []*price.Entry, at time.Time) {
	t.Helper()
	for i, part := range [][]*price.Entry{list, list[:1]} {
		if err := s.Import(t.Context(), fmt.Sprint("somebody", i), "litellm", at, part); err != nil {
			t.Fatal(err)
		}
	}
	taken, err := s.Imports(t.Context())
	version, err2 := s.ImportsVersion(t.Context())
	if err != nil || err2 != nil || version != 3 || len(taken) != 3 {
		t.Fatalf("Imports = %+v, %v; ImportsVersion = %d, %v", taken, err, version, err2)
	}
	for i, want := range []string{list[0].Version(), list[1].Version(), list[0].Version()} {
		if got := taken[i]; got.Entry.Version() != want || got.Entry.Origin != price.FromImport || got.Number != int64(i+1) || got.By != fmt.Sprint("somebody", i/2) || got.Format != "litellm" || !got.At.Equal(at) {
			t.Errorf("import %d = %+v, want %s", i, got, want)
		}
	}
	log, err := s.AuditLog(t.Context(), "", 0, 1)
	if err != nil || len(log) != 1 || log[0].Action != "prices.import" || log[0].Actor != "somebody1" || log[0].Detail != "1 prices of a list in the format litellm" {
		t.Errorf("the audit log has %+v, %v", log, err)
	}
	if err := s.Import(t.Context(), "x", "sluice", at, make([]*price.Entry, price.MaxTaken)); !fault.Is(err, fault.Conflict) {
		t.Errorf("Import of too many = %v, want a conflict", err)
	}
}
