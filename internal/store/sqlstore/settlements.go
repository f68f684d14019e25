package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"

	"sluice/internal/ledger/usage"
)

// RecordSettlements stores the settlements that are not stored yet and adds them to the sums.
// Recording the same settlement again is safe, so the journal can be replayed after a crash.
//
// Usually all of them are new, and the number of stored rows says so. If some are not, nothing is
// stored, and the others are tried alone. They are looked up outside of the transaction, so somebody
// else may store one of them meanwhile; then they are looked up again.
func (s *Store) RecordSettlements(ctx context.Context, batch []usage.Settlement) error {
	for range 10 {
		err := s.storeNew(ctx, batch)
		if !errors.Is(err, errNotNew) {
			return unavailable(err)
		}
		if batch, err = s.withoutStored(ctx, batch); err != nil {
			return err
		}
	}
	return unavailable(errNotNew)
}

// errNotNew says that a settlement was stored before.
var errNotNew = errors.New("a settlement is stored already")

// mostLate is how often the patience with a batch is doubled.
const mostLate = 2

// storeNew stores settlements of which all are new, or none of them. A batch that came too late gets more time when it is
// tried again: the connection was lost with it, and to connect to a slow database takes time that the next one would miss.
func (s *Store) storeNew(ctx context.Context, batch []usage.Settlement) error {
	if len(batch) == 0 {
		return nil
	}
	late := s.late.Load()
	err := s.write.driverTx(ctx, s.patience.settle<<late, func(ctx context.Context, conn driver.Conn) error {
		return addSettlements(ctx, bulkOf(conn), batch)
	})
	switch {
	case err == nil:
		s.late.Store(0)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		s.late.Store(min(late+1, mostLate))
	}
	return err
}

// withoutStored returns the settlements of a batch that are not stored, each once.
func (s *Store) withoutStored(ctx context.Context, batch []usage.Settlement) ([]usage.Settlement, error) {
	have, err := s.HasSettlements(ctx, batch)
	if err != nil {
		return nil, err
	}
	fresh := make([]usage.Settlement, 0, len(batch))
	for i := range batch {
		if !have[batch[i].ID] {
			have[batch[i].ID] = true
			fresh = append(fresh, batch[i])
		}
	}
	return fresh, nil
}

// addSettlement stores one settlement in a transaction that does more. If it is stored already, nothing happens.
func addSettlement(ctx context.Context, tx *sql.Tx, r *usage.Settlement) error {
	err := addSettlements(ctx, oneByOne{tx}, []usage.Settlement{*r})
	if errors.Is(err, errNotNew) {
		return nil
	}
	return err
}

// intoSettlements inserts settlements. Conflicts are ignored: an existing row means that the settlement was
// recorded before.
var intoSettlements = insertion{into: `settlements (` + settlementColumns + wayColumns + `)`, columns: settlementFields, conflict: `ON CONFLICT (at, id) DO NOTHING`}

// addSettlements stores settlements and adds them to the sums by hour and by day, to the activity, and to the abuse counts. It
// returns errNotNew if one of them is stored already; then the caller must roll back, unless there was no
// other. Rows and sums change in one transaction, so they can never disagree.
func addSettlements(ctx context.Context, to bulk, batch []usage.Settlement) error {
	stored, err := to.insert(ctx, &intoSettlements, len(batch), func(values []any, i int) []any { return appendValues(values, &batch[i]) })
	switch {
	case err != nil:
		return err
	case stored != int64(len(batch)):
		return errNotNew
	}
	// Add up in memory first, so that each slot is written once.
	hours, days := map[usage.Slot]*usage.Sums{}, map[usage.Slot]*usage.Sums{}
	units := map[monthly]int64{}
	for i := range batch {
		r := &batch[i]
		slotOf(hours, usage.Slot{AccountID: r.AccountID, KeyID: r.KeyID, Model: r.ModelUsed, Start: usage.HourOf(r.At)}).Add(r)
		if r.UnitMilli > 0 {
			units[monthOf(r)] += r.UnitMilli
		}
	}
	for slot, sums := range hours {
		slot.Start = usage.DayOf(slot.Start)
		slotOf(days, slot).Merge(*sums)
	}
	if err := addSums(ctx, to, "usage_hours", hours); err != nil {
		return err
	}
	if err := addSums(ctx, to, "usage_days", days); err != nil {
		return err
	}
	if err := addActivity(ctx, to, batch); err != nil {
		return err
	}
	return addUnits(ctx, to, units)
}

// slotOf returns the sums of a slot, which it adds if there are none.
func slotOf(sums map[usage.Slot]*usage.Sums, slot usage.Slot) *usage.Sums {
	s := sums[slot]
	if s == nil {
		s = &usage.Sums{}
		sums[slot] = s
	}
	return s
}

// sumFields is the number of columns of a table of sums: the slot and sumColumns.
const sumFields = 17

// addSums adds to the sums of each slot. All nodes lock the slots in the same order, so that they
// cannot deadlock.
func addSums(ctx context.Context, to bulk, table string, sums map[usage.Slot]*usage.Sums) error {
	slots := make([]usage.Slot, 0, len(sums))
	for slot := range sums {
		slots = append(slots, slot)
	}
	slices.SortFunc(slots, compareSlots)
	names := strings.Split(sumColumns, ", ")
	// Each column becomes "c = table.c + excluded.c": the upsert adds instead of replacing.
	for i, n := range names {
		names[i] = n + " = " + table + "." + n + " + excluded." + n
	}
	upsert := &insertion{
		into: table + ` (account_id, start, key_id, model, ` + sumColumns + `)`, columns: sumFields,
		conflict: `ON CONFLICT (account_id, start, key_id, model) DO UPDATE SET ` + strings.Join(names, ", "),
	}
	_, err := to.insert(ctx, upsert, len(slots), func(values []any, i int) []any {
		slot, v := &slots[i], sums[slots[i]]
		return append(values, slot.AccountID, millis(slot.Start), slot.KeyID, slot.Model,
			v.Requests, v.Failed, v.Prompt, v.Cached, v.Completion, v.Reasoning, v.RequestMilli, v.UnitMilli, v.CostMicro, v.Unpriced, v.LatencyMS, v.FirstMS, v.First)
	})
	return err
}

// compareSlots orders slots as their primary key does.
func compareSlots(a, b usage.Slot) int {
	for _, c := range [...]int{strings.Compare(a.AccountID, b.AccountID), a.Start.Compare(b.Start), strings.Compare(a.KeyID, b.KeyID)} {
		if c != 0 {
			return c
		}
	}
	return strings.Compare(a.Model, b.Model)
}
