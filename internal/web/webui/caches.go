package webui

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// CacheRow is what caches gave some calls.
type CacheRow struct {
	Name string // of what they have in common
	Link string // to their page; may be empty
	usage.Hits
	Written int64
	// Saved is what the customer is told, and Own what the operator has not paid.
	Saved, Own price.Nano
}

// CacheRowOf returns the row of some sums.
func CacheRowOf(name string, s *usage.Sums) CacheRow {
	return CacheRow{Name: name, Hits: s.Hits(), Written: s.Written, Saved: s.SavedCharge(), Own: s.Saved}
}

// CacheTable is what caches gave, by one thing that calls have in common.
type CacheTable struct {
	Title, What string
	Rows        []CacheRow
	Staff       bool // shows what the operator has saved as well
}

// cacheRows is how many rows a table has; the API has all of them.
const cacheRows = 20

// Grouped adds up sums by name, those with the most tokens for a cache first. What no cache could have held is left out.
func Grouped[R any](rows []R, name func(*R) string, sums func(*R) *usage.Sums) (out []CacheRow) {
	all := map[string]*usage.Sums{}
	for i := range rows {
		n := name(&rows[i])
		if all[n] == nil {
			all[n] = &usage.Sums{}
		}
		all[n].Merge(*sums(&rows[i]))
	}
	for n, s := range all {
		if s.Cacheable > 0 {
			out = append(out, CacheRowOf(n, s))
		}
	}
	slices.SortFunc(out, func(a, b CacheRow) int {
		return cmp.Or(cmp.Compare(b.Cacheable, a.Cacheable), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// ByMonth adds up sums by month, the newest first.
func ByMonth[R any](rows []R, start func(*R) time.Time, sums func(*R) *usage.Sums) []CacheRow {
	const month = "2006-01"
	out := Grouped(rows, func(r *R) string { return start(r).Format(month) }, sums)
	slices.SortFunc(out, func(a, b CacheRow) int { return cmp.Compare(b.Name, a.Name) })
	for i := range out {
		if at, err := time.Parse(month, out[i].Name); err == nil {
			out[i].Name = Month(at)
		}
	}
	return out
}

// HitRate writes a hit rate; a dash stands for none.
func HitRate(h usage.Hits) string {
	share, known := h.Rate()
	if !known {
		return "–"
	}
	if share > 0 && share < 0.01 || share > 0.99 && share < 1 {
		return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + "%"
}

// Saved writes what was saved, or lost. Nobody pays it, so a hundredth of a cent is exact enough.
func Saved(n price.Nano) string {
	const part = 100_000
	return Total(n / part * part)
}

// savedNote says what a figure of savings is.
func savedNote(n price.Nano) string {
	if n < 0 {
		return "lost: writing to caches cost more than reading has saved"
	}
	return "compared with the same requests without a cache"
}

// HitNote says what a hit rate follows from.
func HitNote(h usage.Hits) string {
	if h.Cacheable == 0 {
		return "no model with a cache was called"
	}
	return Short(h.Read) + " of " + Short(h.Cacheable) + " input tokens"
}
