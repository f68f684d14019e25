package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/jackc/pgx/v5"
)

const (
	// A batch is one transaction on the target. It ends at this many rows or bytes, whichever comes first:
	// rows are small in most tables and up to a megabyte in some.
	batchRows  = 5000
	batchBytes = 4 << 20
	// reportEvery is how many rows pass between two calls of report.
	reportEvery = 1000
)

// Progress is how far a Transfer has come.
type Progress struct {
	Table           string
	Number, Tables  int   // which of the tables it is, from 1; 0: not known
	Rows, Of        int64 // of this table; Of 0: not known, or none
	AllRows, AllOf  int64 // of all tables; AllOf 0: not known, or none
	Written, Erased int64 // in this table, so far
}

// Changes is what Copy did to one table.
type Changes struct {
	Table           string
	Written, Erased int64
}

// Comparison is one table on both sides.
type Comparison struct {
	Table          string `json:"table"`
	Rows           int64  `json:"rows"` // in the source
	Checksum       string `json:"checksum,omitempty"`
	TargetRows     int64  `json:"target_rows"`
	TargetChecksum string `json:"target_checksum,omitempty"`
	Equal          bool   `json:"equal"`
}

// counter tells report how far one table is.
type counter struct {
	Progress
	report func(Progress)
	before int64 // rows of the tables before this one
}

// step counts a row of the source.
func (c *counter) step() {
	if c.Rows++; c.Rows%reportEvery == 0 {
		c.tell()
	}
}

// tell reports how far it is.
func (c *counter) tell() {
	c.AllRows = c.before + c.Rows
	c.report(c.Progress)
}

// walk calls work with a counter for each of some tables. The figures are those of the beginning; a table
// of a running server may grow beyond its own.
func walk(sizes []Comparison, report func(Progress), work func(i int, c *counter) error) error {
	before, all := int64(0), int64(0)
	for _, s := range sizes {
		all += s.Rows
	}
	for i, s := range sizes {
		c := &counter{Progress{Table: s.Table, Of: s.Rows, AllOf: all}, report, before}
		if err := work(i, c); err != nil {
			return fmt.Errorf("table %s: %w", s.Table, err)
		}
		c.tell()
		before += s.Rows
	}
	return nil
}

// eachTable calls work for each table, with a context that ends when the target does not answer any more.
func (t *Transfer) eachTable(ctx context.Context, report func(Progress), work func(context.Context, *table, *counter) error) error {
	return t.to.Long(ctx, func(ctx context.Context) error {
		sizes, err := t.from.Sizes(ctx) // of all tables: the source has been migrated
		if err != nil {
			return err
		}
		return walk(sizes, report, func(i int, c *counter) error { return work(ctx, t.tables[i], c) })
	})
}

// Copy makes the target equal to the source, and returns what it changed. Begin must have been called.
//
// The first copy finds the tables empty and only inserts. Later ones compare, and cost little more
// than reading both sides.
func (t *Transfer) Copy(ctx context.Context, report func(Progress)) (all []Changes, err error) {
	t.Mended = 0
	err = t.eachTable(ctx, report, func(ctx context.Context, tb *table, c *counter) error {
		err := t.copyTable(ctx, tb, c)
		all = append(all, Changes{tb.name, c.Written, c.Erased})
		return err
	})
	return all, err
}

// copyTable makes one table equal. Where another unique index could refuse a new row because of an old one that
// goes later, all deletions come first, in a pass of their own.
func (t *Transfer) copyTable(ctx context.Context, tb *table, c *counter) error {
	var filled bool
	if err := t.to.read.scan(ctx, `SELECT EXISTS (SELECT 1 FROM `+tb.name+`)`, &filled); err != nil {
		return unavailable(err)
	}
	if filled && tb.unique {
		if err := t.pass(ctx, tb, &writer{table: tb, erases: true, counter: c}, true); err != nil {
			return err
		}
		c.Rows = 0
		return t.pass(ctx, tb, &writer{table: tb, inserts: true, counter: c}, true)
	}
	return t.pass(ctx, tb, &writer{table: tb, erases: true, inserts: true, counter: c}, filled)
}

// pass goes through both sides once, on two connections: the rows that are being read do not change with
// what is written meanwhile.
func (t *Transfer) pass(ctx context.Context, tb *table, w *writer, filled bool) error {
	return t.to.native(ctx, func(reading *pgx.Conn) error {
		return t.to.native(ctx, func(writing *pgx.Conn) error {
			w.conn = writing
			source, target := readAhead(t.from.sqliteRows(ctx, tb, filled, &t.Mended)), rows(func(func(row, error) bool) {})
			if filled {
				source, target = tb.inOrder(source), tb.inOrder(readAhead(postgresRows(ctx, reading, tb, true)))
			}
			if err := merge(ctx, tb, source, target, w); err != nil {
				return err
			}
			return w.flush(ctx)
		})
	})
}

// merge compares two tables that are ordered by their key, and gives w what must be deleted from the
// second and inserted there. If the second is empty, the first need not be ordered.
//
// It is the merge step of a merge sort: the smaller key moves on, equal keys move on together. A
// changed row is deleted and inserted again.
func merge(ctx context.Context, tb *table, source, target rows, w *writer) error {
	nextSource, stopSource := iter.Pull2(source)
	defer stopSource()
	nextTarget, stopTarget := iter.Pull2(target)
	defer stopTarget()
	s, err, _ := nextSource()
	if err != nil {
		return err
	}
	d, err, _ := nextTarget()
	if err != nil {
		return err
	}
	for s != nil || d != nil {
		order := 0
		switch {
		case d == nil:
			order = -1
		case s == nil:
			order = 1
		default:
			order = tb.compareKeys(s, d)
		}
		if order > 0 || order == 0 && !s.equal(d) {
			if err := w.erase(ctx, d); err != nil {
				return err
			}
		}
		if order < 0 || order == 0 && !s.equal(d) {
			if err := w.insert(ctx, s); err != nil {
				return err
			}
		}
		if order <= 0 {
			w.counter.step()
			if s, err, _ = nextSource(); err != nil {
				return err
			}
		}
		if order >= 0 {
			if d, err, _ = nextTarget(); err != nil {
				return err
			}
		}
	}
	return nil
}

// writer collects changes of one table and writes them in batches.
// erases and inserts choose what a pass does, because some tables need two passes; see copyTable.
type writer struct {
	table           *table
	erases, inserts bool // what it does; the rest is ignored
	counter         *counter
	conn            *pgx.Conn

	gone  [][]any // keys
	fresh [][]any // rows
	bytes int
}

// erase notes a row of the target that must go.
func (w *writer) erase(ctx context.Context, r row) error {
	if !w.erases {
		return nil
	}
	key := make([]any, len(w.table.key))
	for i, k := range w.table.key {
		key[i] = r[k]
	}
	w.gone = append(w.gone, key)
	return w.full(ctx)
}

// insert notes a row that the target lacks.
func (w *writer) insert(ctx context.Context, r row) error {
	if !w.inserts {
		return nil
	}
	w.fresh = append(w.fresh, r)
	w.bytes += r.size()
	return w.full(ctx)
}

// full writes the batch if it is large enough.
func (w *writer) full(ctx context.Context) error {
	if len(w.gone)+len(w.fresh) < batchRows && w.bytes < batchBytes {
		return nil
	}
	return w.flush(ctx)
}

// flush writes the batch in one transaction, deletions first: a changed row is in both lists.
// Rows are inserted with COPY, the fastest way that PostgreSQL has.
func (w *writer) flush(ctx context.Context) error {
	if len(w.gone)+len(w.fresh) == 0 {
		return nil
	}
	err := pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		if len(w.gone) > 0 {
			batch, statement := &pgx.Batch{}, w.table.deleteOne()
			for _, key := range w.gone {
				batch.Queue(statement, key...)
			}
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
		}
		if len(w.fresh) == 0 {
			return nil
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{w.table.name}, w.table.columns, pgx.CopyFromRows(w.fresh))
		return err
	})
	if err != nil {
		return unavailable(err)
	}
	w.counter.Erased += int64(len(w.gone))
	w.counter.Written += int64(len(w.fresh))
	clear(w.fresh) // the rows go; only the list is used again
	w.gone, w.fresh, w.bytes = w.gone[:0], w.fresh[:0], 0
	return nil
}

// Compare reads every row of both sides and returns a count and a checksum of each table.
func (t *Transfer) Compare(ctx context.Context, report func(Progress)) (all []Comparison, err error) {
	t.Mended = 0
	err = t.eachTable(ctx, report, func(ctx context.Context, tb *table, c *counter) error {
		source, target, err := t.digests(ctx, tb, c)
		if err != nil {
			return err
		}
		all = append(all, Comparison{
			Table: tb.name, Rows: source.rows, Checksum: source.String(),
			TargetRows: target.rows, TargetChecksum: target.String(), Equal: source.equal(target),
		})
		return nil
	})
	return all, err
}

// digests reads one table on both sides at the same time.
func (t *Transfer) digests(ctx context.Context, tb *table, c *counter) (source, target *digest, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // one side has failed: the other need not read on
	source, target = &digest{}, &digest{}
	var reading sync.WaitGroup
	var targetErr error
	reading.Go(func() {
		targetErr = t.to.native(ctx, func(conn *pgx.Conn) error {
			return target.readAll(postgresRows(ctx, conn, tb, false), func() {})
		})
		if targetErr != nil {
			cancel()
		}
	})
	if err = source.readAll(t.from.sqliteRows(ctx, tb, false, &t.Mended), c.step); err != nil {
		cancel()
	}
	reading.Wait()
	return source, target, errors.Join(err, targetErr)
}

// readAll adds all rows.
func (d *digest) readAll(all rows, step func()) error {
	for r, err := range all {
		if err != nil {
			return err
		}
		d.add(r)
		step()
	}
	return nil
}

// Totals are the sums that must be the same on both sides: what was used, and what was paid.
type Totals struct {
	Requests    int64 `json:"requests"` // of the sums by day, and the units and cost of the same
	UnitMilli   int64 `json:"unit_milli"`
	CostNano    int64 `json:"cost_nano"`
	Settlements int64 `json:"settlements"` // whose records are still kept
	LedgerCents int64 `json:"ledger_cents"`
	Invoices    int64 `json:"invoices"`
}

// Totals adds up the books.
func (s *Store) Totals(ctx context.Context) (Totals, error) {
	var t Totals
	// PostgreSQL adds integers up to a type of its own, hence the casts.
	err := s.Long(ctx, func(ctx context.Context) error {
		return s.read.scan(ctx, `SELECT CAST(COALESCE(SUM(requests), 0) AS BIGINT), CAST(COALESCE(SUM(unit_milli), 0) AS BIGINT), CAST(COALESCE(SUM(cost_micro * 1000 + cost_nano), 0) AS BIGINT),
			(SELECT COUNT(*) FROM settlements), (SELECT CAST(COALESCE(SUM(amount_cents), 0) AS BIGINT) FROM billing_ledger),
			(SELECT COUNT(*) FROM billing_payments WHERE invoice > 0) FROM usage_days`,
			&t.Requests, &t.UnitMilli, &t.CostNano, &t.Settlements, &t.LedgerCents, &t.Invoices)
	})
	return t, unavailable(err)
}
