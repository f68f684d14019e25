package calls

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// compareServed orders slots as the primary key of provider_days does.
func compareServed(a, b usage.ServedSlot) int {
	return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Model, b.Model))
}

// servedSlot returns where a call counts.
func servedSlot(r *usage.Settlement) usage.ServedSlot {
	return usage.ServedSlot{Start: usage.DayOf(r.At), Provider: r.Provider, Model: r.ModelUsed}
}

// addProviders adds settlements to the sums of all accounts by provider and model.
func addProviders(ctx context.Context, to sqlstore.Bulk, batch []usage.Settlement) error {
	sums := map[usage.ServedSlot]*usage.Sums{}
	for i := range batch {
		entry(sums, servedSlot(&batch[i])).Add(&batch[i])
	}
	return insertProviders(ctx, to, sums)
}

// correctProviders adds corrections to them.
func correctProviders(ctx context.Context, to sqlstore.Bulk, fixes []usage.Fix) error {
	sums := map[usage.ServedSlot]*usage.Sums{}
	for i := range fixes {
		entry(sums, servedSlot(fixes[i].Call)).Correct(&fixes[i].Correction)
	}
	return insertProviders(ctx, to, sums)
}

// insertProviders adds to the rows of provider_days. All nodes lock them in the same order.
func insertProviders(ctx context.Context, to sqlstore.Bulk, sums map[usage.ServedSlot]*usage.Sums) error {
	list := slices.SortedFunc(maps.Keys(sums), compareServed)
	_, err := to.Insert(ctx, adding("provider_days", "start, provider, model", sumColumns), len(list), func(values []any, i int) []any {
		return appendSums(append(values, sqlstore.Millis(list[i].Start), list[i].Provider, list[i].Model), sums[list[i]])
	})
	return err
}

// servedDaysQuery adds up the days of a month or less.
const servedDaysQuery = `SELECT start, provider, model, ` + sumsRead + ` FROM provider_days WHERE start >= $1 AND start < $2 ORDER BY start, provider, model`

// ServedDays returns what the calls of all accounts add up to by day, provider and model, in this order.
func (s *Store) ServedDays(ctx context.Context, from, to time.Time) ([]usage.ServedRow, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *usage.ServedRow) error {
		return row.Scan(append([]any{&r.Start, &r.Provider, &r.Model}, sumTargets(&r.Sums)...)...)
	}, servedDaysQuery, from, to)
}

// recountProviders compares provider_days with the settlements that it has, and with their corrections. Those of servers that do not
// know of it are in neither.
func recountProviders(tx *sqlstore.Conn, from int64) ([]usage.Difference, error) {
	rows, err := recount(tx, `SELECT provider, at / `+days+` AS day, SUM(latency_ms), SUM(COALESCE(cacheable, 0)), `+recounts+` FROM settlements
		WHERE at >= $1 AND cacheable IS NOT NULL GROUP BY provider, at / `+days, from)
	if err != nil {
		return nil, err
	}

	err = addFixes(tx, rows, `SELECT s.provider, c.at / `+days+`, SUM(c.cost_nano), SUM(c.margin_nano), SUM(c.priced), COALESCE(SUM(c.saved_nano), 0), SUM(c.saved_margin_nano)
		FROM price_corrections c JOIN settlements s ON s.at = c.at AND s.id = c.id WHERE c.at >= $1 AND c.saved_nano IS NOT NULL GROUP BY s.provider, c.at / `+days, from)
	if err != nil {
		return nil, err
	}
	have, err := recount(tx, `SELECT provider, start / `+days+` AS day, SUM(latency_ms), SUM(cacheable), `+summed(sumsRead, ", ")+` FROM provider_days
		WHERE start >= $1 GROUP BY provider, start / `+days, from)
	if err != nil {
		return nil, err
	}
	differences := compare("provider_days", rows, have)
	for i := range differences { // they are of all accounts
		d := &differences[i]
		d.AccountID, d.What = "", d.What+" "+d.AccountID
	}
	return differences, nil
}
