// Package calls stores what calls leave behind: settlements and the sums over them, activity, refused calls, and
// what abuse control counts and decides; and finds them for support.
//
// Store implements the interfaces of packages usage, activity, refusal, session, abuse, finder and signal.
package calls

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// Store is the part of a database with the calls.
type Store struct {
	db   *sqlstore.Store
	ring *receipt.Ring // signs receipts before they are stored
}

// New returns the part of a database.
func New(db *sqlstore.Store) *Store {
	s := &Store{db: db}
	s.ring = receipt.NewRing(s)
	return s
}

// Ring returns the keys that receipts are signed with.
func (s *Store) Ring() *receipt.Ring { return s.ring }

// Expiring returns what expires.
func (s *Store) Expiring() []sqlstore.Expiring {
	return []sqlstore.Expiring{
		{What: "refused calls", Drop: s.dropRefusals, AtOnce: sqlstore.DropSmall},
		{What: "counts of refused calls", Drop: s.dropRefusedMinutes, AtOnce: sqlstore.DropSmall},
		{What: "activity by hour", Drop: s.dropHours, AtOnce: sqlstore.DropSmall},
		{What: "activity by day", Drop: s.dropDays, AtOnce: sqlstore.DropSmall},
		{What: "sessions of callers", Drop: s.dropSessions, AtOnce: sqlstore.DropSmall},
	}
}

// RecordSettlements stores the settlements that are not stored yet and adds them to the sums.
// Recording the same settlement again is safe, so the journal can be replayed after a crash.
//
// Usually all of them are new, and the number of stored rows says so. If some are not, nothing is
// stored, and the others are tried alone. They are looked up outside of the transaction, so somebody
// else may store one of them meanwhile; then they are looked up again.
func (s *Store) RecordSettlements(ctx context.Context, batch []usage.Settlement) error {
	if len(batch) == 0 {
		return nil
	}
	if err := s.ring.SignAll(ctx, batch); err != nil {
		return err
	}
	for range 10 {
		// All of them are new and stored, or none is.
		names, err := tagNamesOf(s.db.Read(ctx), settled(batch))
		if err != nil {
			return err
		}
		err = s.db.InsertMany(ctx, func(ctx context.Context, to sqlstore.Bulk) error {
			if err := addSettlements(ctx, to, batch); err != nil {
				return err
			}
			return addTags(ctx, to, batch, names)
		})
		if !errors.Is(err, errNotNew) {
			return err
		}
		if batch, err = s.withoutStored(ctx, batch); err != nil || len(batch) == 0 {
			return err
		}
	}
	return errNotNew
}

// errNotNew says that a settlement was stored before.
var errNotNew = errors.New("a settlement is stored already")

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

// MissingAccounts returns those of the ids that are not the id of an account.
func (s *Store) MissingAccounts(ctx context.Context, ids []string) (missing []string, err error) {
	for part := range slices.Chunk(ids, 100) { // the number of parameters of a statement is limited
		in, args := sqlstore.Among(part)
		there, err := sqlstore.All(s.db.Read(ctx), sqlstore.Column[string], `SELECT id FROM accounts WHERE id IN `+in, args...)
		if err != nil {
			return nil, err
		}
		for _, id := range part {
			if !slices.Contains(there, id) {
				missing = append(missing, id)
			}
		}
	}
	return missing, nil
}

// Add stores one settlement in a transaction that does more. If it is stored already, nothing happens. A receipt of it must be
// signed.
func Add(tx *sqlstore.Conn, r *usage.Settlement) error {
	ctx, to := tx.Bulk()
	one := []usage.Settlement{*r}
	err := addSettlements(ctx, to, one)
	if errors.Is(err, errNotNew) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := tagNamesOf(tx, settled(one))
	if err != nil {
		return err
	}
	return addTags(ctx, to, one, names)
}

// intoSettlements inserts settlements. Conflicts are ignored: an existing row means that the settlement was
// recorded before.
var intoSettlements = sqlstore.Insertion{Into: `settlements (` + settlementColumns + wayColumns + `)`, Columns: settlementFields, Conflict: `ON CONFLICT (at, id) DO NOTHING`}

// addSettlements stores settlements and adds them to the sums by hour and by day, to the activity, to the budgets, and to the abuse counts. It
// returns errNotNew if one of them is stored already; then the caller must roll back, unless there was no
// other. Rows and sums change in one transaction, so they can never disagree.
func addSettlements(ctx context.Context, to sqlstore.Bulk, batch []usage.Settlement) error {
	stored, err := to.Insert(ctx, &intoSettlements, len(batch), func(values []any, i int) []any { return appendValues(values, &batch[i]) })
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
		entry(hours, usage.Slot{AccountID: r.AccountID, KeyID: r.KeyID, Model: r.ModelUsed, Start: usage.HourOf(r.At)}).Add(r)
		if r.UnitMilli > 0 {
			units[monthOf(r)] += r.UnitMilli
		}
	}
	for slot, sums := range hours {
		slot.Start = usage.DayOf(slot.Start)
		entry(days, slot).Merge(*sums)
	}
	if err := addSums(ctx, to, "usage_hours", hours); err != nil {
		return err
	}
	if err := addSums(ctx, to, "usage_days", days); err != nil {
		return err
	}
	if err := addProviders(ctx, to, batch); err != nil {
		return err
	}
	if err := addActivity(ctx, to, batch); err != nil {
		return err
	}
	if err := addReceipts(ctx, to, batch); err != nil {
		return err
	}
	if err := addSpent(ctx, to, batch); err != nil {
		return err
	}
	if err := addSessions(ctx, to, batch); err != nil {
		return err
	}
	return addUnits(ctx, to, units)
}

// entry returns what a map has for a key, which it adds if there is nothing.
func entry[K comparable, V any](all map[K]*V, key K) *V {
	v := all[key]
	if v == nil {
		v = new(V)
		all[key] = v
	}
	return v
}

// addSums adds to the sums of each slot. All nodes lock the slots in the same order, so that they
// cannot deadlock.
func addSums(ctx context.Context, to sqlstore.Bulk, table string, sums map[usage.Slot]*usage.Sums) error {
	slots := slices.SortedFunc(maps.Keys(sums), compareSlots)
	upsert := adding(table, "account_id, start, key_id, model", sumColumns)
	_, err := to.Insert(ctx, upsert, len(slots), func(values []any, i int) []any {
		slot := &slots[i]
		return appendSums(append(values, slot.AccountID, sqlstore.Millis(slot.Start), slot.KeyID, slot.Model), sums[slots[i]])
	})
	return err
}

// appendSums appends the columns of sumColumns.
func appendSums(values []any, v *usage.Sums) []any {
	micro, rest := usage.SplitCost(v.Cost)
	return append(values, v.Requests, v.Failed, v.Prompt, v.Cached, v.Completion, v.Reasoning, v.RequestMilli, v.UnitMilli, micro, rest, int64(v.Margin), v.Written, v.Unpriced,
		v.LatencyMS, v.FirstMS, v.First, v.Cacheable, int64(v.Saved), int64(v.SavedMargin))
}

// compareSlots orders slots as their primary key does.
func compareSlots(a, b usage.Slot) int {
	return cmp.Or(strings.Compare(a.AccountID, b.AccountID), a.Start.Compare(b.Start), strings.Compare(a.KeyID, b.KeyID), strings.Compare(a.Model, b.Model))
}

// adding returns the insertion that adds the columns to those of the row with the same key.
func adding(table, key, columns string) *sqlstore.Insertion {
	names := strings.Split(columns, ", ")
	for i, n := range names {
		names[i] = n + " = " + table + "." + n + " + excluded." + n
	}
	return &sqlstore.Insertion{
		Into: table + ` (` + key + `, ` + columns + `)`, Columns: strings.Count(key, ",") + 1 + len(names),
		Conflict: `ON CONFLICT (` + key + `) DO UPDATE SET ` + strings.Join(names, ", "),
	}
}
