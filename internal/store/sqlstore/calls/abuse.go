package calls

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
	"sluice/internal/store/sqlstore/alerts"
)

// monthly is the key under which units are added up for the abuse score.
type monthly struct {
	account, plan, tier string
	start               int64 // of the month, in Unix milliseconds
}

// monthOf returns the key of a settlement. Months are those of UTC.
func monthOf(r *usage.Settlement) monthly {
	return monthly{r.AccountID, r.Plan, r.Tier, sqlstore.Millis(usage.MonthOf(r.At))}
}

// compareMonths orders keys as the table's primary key does.
func compareMonths(a, b monthly) int {
	return cmp.Or(strings.Compare(a.account, b.account), cmp.Compare(a.start, b.start), strings.Compare(a.plan, b.plan), strings.Compare(a.tier, b.tier))
}

// intoCounts adds to a count, or starts it. What was forgiven stays.
var intoCounts = sqlstore.Insertion{
	Into: `abuse_counts (account_id, month, plan, tier, unit_milli, forgiven_milli)`, Columns: 6,
	Conflict: `ON CONFLICT (account_id, month, plan, tier) DO UPDATE SET unit_milli = abuse_counts.unit_milli + excluded.unit_milli`,
}

// addUnits adds units, in thousandths, to the counts of the abuse score.
func addUnits(ctx context.Context, to sqlstore.Bulk, units map[monthly]int64) error {
	// The same order on all nodes, so they cannot deadlock.
	keys := slices.SortedFunc(maps.Keys(units), compareMonths)
	_, err := to.Insert(ctx, &intoCounts, len(keys), func(values []any, i int) []any {
		k := &keys[i]
		return append(values, k.account, k.start, k.plan, k.tier, units[*k], int64(0))
	})
	return err
}

// AbuseCounts returns the counts of the month that starts at the given time, of all accounts or of those that are named.
func (s *Store) AbuseCounts(ctx context.Context, month time.Time, ids ...string) ([]abuse.Count, error) {
	where, args := ofAccounts(ids, month)
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, c *abuse.Count) error {
		return row.Scan(&c.AccountID, accounts.Plan(&c.Plan), accounts.Plan(&c.Tier), &c.Units, &c.Forgiven)
	}, `SELECT account_id, plan, tier, unit_milli, forgiven_milli FROM abuse_counts WHERE month = $1`+where, args...)
}

// ofAccounts returns the end of a condition that is true of some accounts, or of all if none is named, and its arguments.
func ofAccounts(ids []string, first ...any) (string, []any) {
	if len(ids) == 0 {
		return ``, first
	}
	in, args := sqlstore.Among(ids, first...)
	return ` AND account_id IN ` + in, args
}

// UnitsSince calls yield with the units settled since a time, added up by account, plan, tier and
// hour, of all accounts or of those that are named.
func (s *Store) UnitsSince(ctx context.Context, since time.Time, yield func(c abuse.Count, hour time.Time), ids ...string) error {
	where, args := ofAccounts(ids, since)
	// The query divides integers, so at / 3600000 is the number of the hour.
	const hourMillis = 60 * 60 * 1000
	return s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		var c abuse.Count
		var hour int64
		if err := row.Scan(&c.AccountID, accounts.Plan(&c.Plan), accounts.Plan(&c.Tier), &hour, &c.Units); err != nil {
			return err
		}
		yield(c, sqlstore.Time(hour*hourMillis))
		return nil
	}, `SELECT account_id, plan, tier, at / 3600000, SUM(unit_milli) FROM settlements
		WHERE at >= $1 AND unit_milli > 0`+where+` GROUP BY account_id, plan, tier, at / 3600000`, args...)
}

// RecordAbuseEvents appends events to the log.
func (s *Store) RecordAbuseEvents(ctx context.Context, events []abuse.Event) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error { return insertEvents(tx, events) })
}

// RecordAbuseEventsOnce appends the events that repeat no other, and returns them.
func (s *Store) RecordAbuseEventsOnce(ctx context.Context, events []abuse.Event) (added []abuse.Event, err error) {
	err = s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// Whoever has the counter's row is alone: another node's events are all there or come later.
		if _, err := tx.Hold("abuse_events"); err != nil {
			return err
		}
		for _, e := range events {
			repeated, err := isRepeated(tx, &e)
			if err != nil {
				return err
			}
			if repeated {
				continue
			}
			if err := insertEvents(tx, []abuse.Event{e}); err != nil {
				return err
			}
			added = append(added, e)
		}
		return nil
	})
	return added, err
}

// isRepeated reports whether an event was recorded since its count has last started from zero.
func isRepeated(tx *sqlstore.Conn, e *abuse.Event) (bool, error) {
	since, lowest, highest := e.Repeats()
	n, err := sqlstore.Value[int](tx, `SELECT COUNT(*) FROM abuse_events
		WHERE account_id = $1 AND plan = $2 AND tier = $3 AND kind = $4 AND at >= $5 AND score BETWEEN $6 AND $7
		AND seq > (SELECT COALESCE(MAX(seq), 0) FROM abuse_events WHERE account_id = $1 AND plan = $2 AND tier = $3 AND kind = $8)`,
		e.AccountID, e.Plan.String(), e.Tier.String(), string(e.Kind), since, lowest, highest, string(abuse.Restored))
	return n > 0, err
}

// ForgiveUnits restarts counts from zero and records that in the events. It does not delete the
// counts but adds to what is forgiven. Not all units counted so far may be in the database yet, so
// the caller passes the number that it acted on.
func (s *Store) ForgiveUnits(ctx context.Context, month time.Time, counts []abuse.Count, events []abuse.Event) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// The row may be missing if all of the count's units are still in the journal.
		for _, c := range counts {
			tx.Do(`INSERT INTO abuse_counts (account_id, month, plan, tier, unit_milli, forgiven_milli) VALUES ($1, $2, $3, $4, 0, $5)
				ON CONFLICT (account_id, month, plan, tier) DO UPDATE SET forgiven_milli = abuse_counts.forgiven_milli + excluded.forgiven_milli`,
				c.AccountID, month, c.Plan.String(), c.Tier.String(), c.Forgiven)
		}
		return insertEvents(tx, events)
	})
}

// abuseColumns are in the order of insertEvents and AbuseEvents.
const abuseColumns = `seq, at, account_id, kind, plan, tier, score, why, actor`

// insertEvents appends events with consecutive numbers.
func insertEvents(tx *sqlstore.Conn, events []abuse.Event) error {
	for _, e := range events {
		tx.Do(sqlstore.Insert("abuse_events", abuseColumns),
			tx.Next("abuse_events"), e.At, e.AccountID, string(e.Kind), e.Plan.String(), e.Tier.String(), e.Score, e.Why, e.Actor)
		alerts.Add(tx, alert.OfAbuse(&e))
	}
	return nil
}

// AbuseEvents returns an account's latest events, newest first.
func (s *Store) AbuseEvents(ctx context.Context, accountID string, limit int) ([]abuse.Event, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, e *abuse.Event) error {
		return row.Scan(&e.Seq, &e.At, &e.AccountID, &e.Kind, accounts.Plan(&e.Plan), accounts.Plan(&e.Tier), &e.Score, &e.Why, &e.Actor)
	}, `SELECT `+abuseColumns+` FROM abuse_events WHERE account_id = $1 ORDER BY seq DESC LIMIT $2`, accountID, limit)
}
