package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
)

// monthly is the key under which units are added up for the abuse score.
type monthly struct {
	account, plan, tier string
	month               int64 // start of the month, in Unix milliseconds
}

// compareMonths orders keys as the table's primary key does.
func compareMonths(a, b monthly) int {
	for _, c := range [...]int{strings.Compare(a.account, b.account), cmp.Compare(a.month, b.month), strings.Compare(a.plan, b.plan)} {
		if c != 0 {
			return c
		}
	}
	return strings.Compare(a.tier, b.tier)
}

// monthOf returns the key of a settlement. Months are those of UTC.
func monthOf(r *usage.Settlement) monthly {
	t := r.At.UTC()
	return monthly{r.AccountID, r.Plan, r.Tier, millis(time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC))}
}

// intoCounts adds to a count, or starts it. What was forgiven stays.
var intoCounts = insertion{
	into: `abuse_counts (account_id, month, plan, tier, unit_milli, forgiven_milli)`, columns: 6,
	conflict: `ON CONFLICT (account_id, month, plan, tier) DO UPDATE SET unit_milli = abuse_counts.unit_milli + excluded.unit_milli`,
}

// addUnits adds units, in thousandths, to the counts of the abuse score.
func addUnits(ctx context.Context, to bulk, units map[monthly]int64) error {
	// Maps have no order, so sort the keys before locking their rows.
	keys := make([]monthly, 0, len(units))
	for k := range units {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareMonths) // the same order on all nodes, so they cannot deadlock
	_, err := to.insert(ctx, &intoCounts, len(keys), func(values []any, i int) []any {
		k := &keys[i]
		return append(values, k.account, k.month, k.plan, k.tier, units[*k], int64(0))
	})
	return err
}

// AbuseCounts returns the counts of the month that starts at the given time.
func (s *Store) AbuseCounts(ctx context.Context, month time.Time) ([]abuse.Count, error) {
	return s.abuseCounts(ctx, ``, millis(month))
}

// AbuseCountsOf returns the counts of some accounts in a month.
func (s *Store) AbuseCountsOf(ctx context.Context, month time.Time, accounts []string) ([]abuse.Count, error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	in, args := among(accounts, millis(month))
	return s.abuseCounts(ctx, ` AND account_id IN `+in, args...)
}

func (s *Store) abuseCounts(ctx context.Context, where string, args ...any) ([]abuse.Count, error) {
	var out []abuse.Count
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var err error
		var c abuse.Count
		var plan, tier string
		if err := rows.Scan(&c.AccountID, &plan, &tier, &c.Units, &c.Forgiven); err != nil {
			return err
		}
		if c.Plan, c.Tier, err = parsePlans(plan, tier); err != nil {
			return err
		}
		out = append(out, c)
		return nil
	}, `SELECT account_id, plan, tier, unit_milli, forgiven_milli FROM abuse_counts WHERE month = $1`+where, args...)
	return out, unavailable(err)
}

// UnitsSince calls yield with the units settled since a time, added up by account, plan, tier and
// hour.
func (s *Store) UnitsSince(ctx context.Context, since time.Time, yield func(c abuse.Count, hour time.Time)) error {
	return s.unitsSince(ctx, yield, ``, millis(since))
}

// UnitsSinceOf is UnitsSince for some accounts.
func (s *Store) UnitsSinceOf(ctx context.Context, accounts []string, since time.Time, yield func(c abuse.Count, hour time.Time)) error {
	if len(accounts) == 0 {
		return nil
	}
	in, args := among(accounts, millis(since))
	return s.unitsSince(ctx, yield, ` AND account_id IN `+in, args...)
}

func (s *Store) unitsSince(ctx context.Context, yield func(c abuse.Count, hour time.Time), where string, args ...any) error {
	// The query divides integers, so at / 3600000 is the number of the hour.
	const hourMillis = 60 * 60 * 1000
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var err error
		var c abuse.Count
		var plan, tier string
		var hour int64
		if err := rows.Scan(&c.AccountID, &plan, &tier, &hour, &c.Units); err != nil {
			return err
		}
		if c.Plan, c.Tier, err = parsePlans(plan, tier); err != nil {
			return err
		}
		yield(c, fromMillis(hour*hourMillis))
		return nil
	}, `SELECT account_id, plan, tier, at / 3600000, SUM(unit_milli) FROM settlements
		WHERE at >= $1 AND unit_milli > 0`+where+` GROUP BY account_id, plan, tier, at / 3600000`, args...)
	return unavailable(err)
}

// among returns a list for IN and its parameters. They come after those in first.
func among(values []string, first ...any) (list string, args []any) {
	args = first
	places := make([]string, len(values))
	for i, v := range values {
		args = append(args, v)
		places[i] = fmt.Sprintf("$%d", len(args))
	}
	return "(" + strings.Join(places, ", ") + ")", args
}

// RecordAbuseEvents appends events to the log.
func (s *Store) RecordAbuseEvents(ctx context.Context, events []abuse.Event) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error { return insertEvents(ctx, tx, events) })
}

// RecordAbuseEventsOnce appends the events that repeat no other, and returns them.
func (s *Store) RecordAbuseEventsOnce(ctx context.Context, events []abuse.Event) (added []abuse.Event, err error) {
	err = s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// Whoever has the counter's row is alone: another node's events are all there or come later.
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = value WHERE name = 'abuse_events'`); err != nil {
			return err
		}
		for _, e := range events {
			repeated, err := isRepeated(ctx, tx, &e)
			if err != nil {
				return err
			}
			if repeated {
				continue
			}
			if err := insertEvents(ctx, tx, []abuse.Event{e}); err != nil {
				return err
			}
			added = append(added, e)
		}
		return nil
	})
	return added, err
}

// isRepeated reports whether an event was recorded since its count has last started from zero.
func isRepeated(ctx context.Context, tx *sql.Tx, e *abuse.Event) (bool, error) {
	since, lowest, highest := e.Repeats()
	var n int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM abuse_events
		WHERE account_id = $1 AND plan = $2 AND tier = $3 AND kind = $4 AND at >= $5 AND score BETWEEN $6 AND $7
		AND seq > (SELECT COALESCE(MAX(seq), 0) FROM abuse_events WHERE account_id = $1 AND plan = $2 AND tier = $3 AND kind = $8)`,
		e.AccountID, e.Plan.String(), e.Tier.String(), string(e.Kind), millis(since), lowest, highest, string(abuse.Restored)).Scan(&n)
	return n > 0, err
}

// ForgiveUnits restarts counts from zero and records that in the events. It does not delete the
// counts but adds to what is forgiven. Not all units counted so far may be in the database yet, so
// the caller passes the number that it acted on.
func (s *Store) ForgiveUnits(ctx context.Context, month time.Time, counts []abuse.Count, events []abuse.Event) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The row may be missing if all of the count's units are still in the journal.
		for _, c := range counts {
			_, err := tx.ExecContext(ctx, `INSERT INTO abuse_counts (account_id, month, plan, tier, unit_milli, forgiven_milli) VALUES ($1, $2, $3, $4, 0, $5)
				ON CONFLICT (account_id, month, plan, tier) DO UPDATE SET forgiven_milli = abuse_counts.forgiven_milli + excluded.forgiven_milli`,
				c.AccountID, millis(month), c.Plan.String(), c.Tier.String(), c.Forgiven)
			if err != nil {
				return err
			}
		}
		return insertEvents(ctx, tx, events)
	})
}

// insertEvents appends events with consecutive numbers; see appendAudit.
func insertEvents(ctx context.Context, tx *sql.Tx, events []abuse.Event) error {
	for _, e := range events {
		var seq int64
		// The events of one call get consecutive numbers.
		err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'abuse_events' RETURNING value`).Scan(&seq)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO abuse_events (seq, at, account_id, kind, plan, tier, score, why, actor) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			seq, millis(e.At), e.AccountID, string(e.Kind), e.Plan.String(), e.Tier.String(), e.Score, e.Why, e.Actor)
		if err != nil {
			return err
		}
		if err := addAlerts(ctx, tx, alert.OfAbuse(&e)); err != nil {
			return err
		}
	}
	return nil
}

// AbuseEvents returns an account's latest events, newest first.
func (s *Store) AbuseEvents(ctx context.Context, accountID string, limit int) ([]abuse.Event, error) {
	var out []abuse.Event
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var err error
		var e abuse.Event
		var at int64
		var kind, plan, tier string
		if err := rows.Scan(&e.Seq, &at, &e.AccountID, &kind, &plan, &tier, &e.Score, &e.Why, &e.Actor); err != nil {
			return err
		}
		e.At, e.Kind = fromMillis(at), abuse.Kind(kind)
		if e.Plan, e.Tier, err = parsePlans(plan, tier); err != nil {
			return err
		}
		out = append(out, e)
		return nil
	}, `SELECT seq, at, account_id, kind, plan, tier, score, why, actor FROM abuse_events
		WHERE account_id = $1 ORDER BY seq DESC LIMIT $2`, accountID, limit)
	return out, unavailable(err)
}

// parsePlans parses a plan and a tier, which are stored by name.
func parsePlans(plan, tier string) (p, t account.Plan, err error) {
	if p, err = account.ParsePlan(plan); err != nil {
		return p, t, err
	}
	t, err = account.ParsePlan(tier)
	return p, t, err
}
