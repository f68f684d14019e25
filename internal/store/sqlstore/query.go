package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Conn is where the statements of one call run: on a pool of connections, or in a transaction. It has the context of
// the call, and that of a transaction has the transaction's deadline, so no statement can outlive it.
//
// Arguments and what is scanned are a time.Time, a time.Duration or a bool where the program has one; Conn converts
// them to and from the integers that are stored. On a pool, errors of the database become faults; see unavailable. In a
// transaction Tx does that.
//
// Methods of a transaction that return no error keep it: what comes after them does nothing, and Tx rolls back and returns
// the first one. So statements that need nothing of each other can follow without a check in between.
//
// A Conn is made for one call and not kept.
type Conn struct {
	store *Store
	ctx   context.Context //nolint:containedctx // of the one call that a Conn is for
	pool  *pool           // nil in a transaction
	tx    *sql.Tx
	// failed is the error of the first statement of a transaction whose caller does not check it.
	failed error
}

// Read returns a Conn for queries.
func (s *Store) Read(ctx context.Context) *Conn { return &Conn{store: s, ctx: ctx, pool: s.read} }

// Write returns a Conn for statements that need no transaction around them.
func (s *Store) Write(ctx context.Context) *Conn { return &Conn{store: s, ctx: ctx, pool: s.write} }

// Vital returns a Conn for the signs of life that nodes leave in the database. It has connections
// of its own; see Store.
func (s *Store) Vital(ctx context.Context) *Conn { return &Conn{store: s, ctx: ctx, pool: s.vital} }

// Tx runs work in one writing transaction. It commits if work returns nil and rolls back otherwise. Errors of the
// database become faults; see unavailable.
//
// work must use only the Conn it gets. On SQLite there is one connection that writes, and another write on the Store would wait for this transaction until its patience ends.
func (s *Store) Tx(ctx context.Context, work func(tx *Conn) error) error {
	return unavailable(s.write.tx(ctx, s.patience.call, nil, s.inTx(work)))
}

// InTx is Tx for work that returns something. After an error it returns nothing.
func InTx[T any](ctx context.Context, s *Store, work func(tx *Conn) (T, error)) (v T, err error) {
	err = s.Tx(ctx, func(tx *Conn) (err error) {
		v, err = work(tx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// VitalTx is Tx on the connections of Vital.
func (s *Store) VitalTx(ctx context.Context, work func(tx *Conn) error) error {
	return unavailable(s.vital.tx(ctx, s.patience.call, nil, s.inTx(work)))
}

// SnapshotTx runs work that reads and may take long. All of its queries see the data of one moment.
func (s *Store) SnapshotTx(ctx context.Context, work func(tx *Conn) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if s.engine == Postgres { // on SQLite every transaction that reads is a snapshot
		options.Isolation = sql.LevelRepeatableRead
	}
	return unavailable(s.Long(ctx, func(ctx context.Context) error { return s.read.tx(ctx, s.patience.call, options, s.inTx(work)) }))
}

// inTx gives work a Conn.
func (s *Store) inTx(work func(*Conn) error) func(ctx context.Context, tx *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		c := &Conn{store: s, ctx: ctx, tx: tx}
		err := work(c)
		if c.failed != nil {
			return c.failed
		}
		return err
	}
}

// errFailed is what a statement returns after one whose error was kept. Tx returns the kept one instead.
var errFailed = errors.New("an earlier statement of the transaction has failed")

// Exec runs one statement in a transaction.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	return s.Tx(ctx, func(tx *Conn) error { return tx.Exec(query, args...) })
}

// Changed is Exec that returns how many rows the statement has changed.
func (s *Store) Changed(ctx context.Context, query string, args ...any) (int64, error) {
	return InTx(ctx, s, func(tx *Conn) (int64, error) { return tx.Changed(query, args...) })
}

// Prune runs a statement that deletes rows, and returns how many there were.
func (s *Store) Prune(ctx context.Context, query string, args ...any) (int, error) {
	n, err := s.Changed(ctx, query, args...)
	return int(n), err
}

// DeleteSome deletes up to most rows of a table whose primary key is id, and returns how many it deleted. On
// PostgreSQL it leaves out rows that somebody else has locked: waiting for them could end in a deadlock with a
// statement that locks several rows, too. The table and the condition are constants.
func (s *Store) DeleteSome(ctx context.Context, table, where string, most int) (int, error) {
	n, err := s.Write(ctx).Changed(`DELETE FROM `+table+` WHERE id IN (SELECT id FROM `+table+` WHERE `+where+` LIMIT $1`+s.SkipLocked()+`)`, most)
	return int(n), err
}

// SkipLocked is the end of a query that locks the rows it finds and leaves out those that others have locked. On SQLite
// it is empty: a transaction that writes is the only one.
func (s *Store) SkipLocked() string {
	if s.engine == Postgres {
		return ` FOR UPDATE SKIP LOCKED`
	}
	return ``
}

// Do runs a statement of a transaction and keeps its error.
func (c *Conn) Do(query string, args ...any) { c.keep(c.Exec(query, args...)) }

// keep makes err that of the transaction, unless there is one.
func (c *Conn) keep(err error) {
	if c.failed == nil {
		c.failed = err
	}
}

// Exec runs a statement.
func (c *Conn) Exec(query string, args ...any) error {
	_, err := c.Changed(query, args...)
	return err
}

// Changed runs a statement and returns how many rows it has changed.
func (c *Conn) Changed(query string, args ...any) (n int64, err error) {
	if c.failed != nil {
		return 0, errFailed
	}
	var res sql.Result
	if args = stored(args); c.tx != nil {
		res, err = c.tx.ExecContext(c.ctx, query, args...)
	} else {
		res, err = c.pool.ExecContext(c.ctx, query, args...)
	}
	if err == nil {
		n, err = res.RowsAffected()
	}
	return n, c.fault(err)
}

// ExecEach runs a statement of a transaction n times, with the arguments that args returns.
// The statement is prepared once.
func (c *Conn) ExecEach(n int, args func(i int) []any, query string) error {
	if n == 0 {
		return nil
	}
	if c.failed != nil {
		return errFailed
	}
	stmt, err := c.tx.PrepareContext(c.ctx, query)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for i := range n {
		if _, err := stmt.ExecContext(c.ctx, stored(args(i))...); err != nil {
			return err
		}
	}
	return nil
}

// Each runs a query and calls read for each row.
func (c *Conn) Each(read func(Row) error, query string, args ...any) error {
	if c.failed != nil {
		return errFailed
	}
	var from querier = c.pool
	if c.tx != nil {
		from = c.tx
	}
	return c.fault(each(c.ctx, from, func(rows *sql.Rows) error { return read(Row{rows}) }, query, stored(args)...))
}

// first runs a query and gives scan its first row. Without one, the error is sql.ErrNoRows.
func (c *Conn) first(scan func(Row) error, query string, args []any) error {
	switch args = stored(args); {
	case c.failed != nil:
		return errFailed
	case c.tx != nil:
		return scan(Row{c.tx.QueryRowContext(c.ctx, query, args...)})
	}
	return c.pool.first(c.ctx, scan, query, args...)
}

// fault returns the error of a statement as the caller gets it.
func (c *Conn) fault(err error) error {
	if c.tx != nil {
		return err // the pool has to see it, to know how the database is
	}
	return unavailable(err)
}

// All returns the rows of a query.
func All[T any](c *Conn, scan func(Row, *T) error, query string, args ...any) (list []T, err error) {
	err = c.Each(func(row Row) error {
		var zero T
		list = append(list, zero)
		return scan(row, &list[len(list)-1])
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// One returns the one row of a query, or nil if it has none.
// Further rows are ignored.
func One[T any](c *Conn, scan func(Row, *T) error, query string, args ...any) (*T, error) {
	v := new(T)
	err := c.first(func(row Row) error { return scan(row, v) }, query, args)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, c.fault(err)
	}
	return v, nil
}

// Need is One that returns the error missing if there is no row.
func Need[T any](c *Conn, missing error, scan func(Row, *T) error, query string, args ...any) (*T, error) {
	v, err := One(c, scan, query, args...)
	if err == nil && v == nil {
		err = missing
	}
	return v, err
}

// Map returns the rows of a query by their keys. The last row with a key counts.
func Map[K comparable, V any](c *Conn, scan func(Row, *K, *V) error, query string, args ...any) (map[K]V, error) {
	all := map[K]V{}
	err := c.Each(func(row Row) error {
		var key K
		var v V
		err := scan(row, &key, &v)
		all[key] = v
		return err
	}, query, args...)
	return all, err
}

// Column scans a row of one column.
func Column[T any](row Row, to *T) error { return row.Scan(to) }

// Value returns the one column of the one row of a query. It is an error if there is none.
func Value[T any](c *Conn, query string, args ...any) (v T, err error) {
	err = c.first(func(row Row) error { return row.Scan(&v) }, query, args)
	return v, c.fault(err)
}

// Optional is Value that returns the zero value if there is no row.
func Optional[T any](c *Conn, query string, args ...any) (v T, err error) {
	if v, err = Value[T](c, query, args...); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return v, err
}

// Row is a row of a query.
type Row struct{ from rowScanner }

// Scan reads the columns of the row.
// Times and durations are wrapped, because they are stored as integers; a bool needs nothing,
// since database/sql converts 0 and 1.
func (r Row) Scan(to ...any) error {
	for i, v := range to {
		switch v := v.(type) {
		case *time.Time:
			to[i] = timeColumn{v}
		case *time.Duration:
			to[i] = durationColumn{v}
		}
	}
	return r.from.Scan(to...)
}

// timeColumn scans a time. NULL is the zero time.
type timeColumn struct{ to *time.Time }

// Scan implements sql.Scanner.
func (c timeColumn) Scan(v any) error {
	ms, err := integer(v)
	*c.to = Time(ms)
	return err
}

// durationColumn scans a duration, which is stored in whole milliseconds.
type durationColumn struct{ to *time.Duration }

// Scan implements sql.Scanner.
func (c durationColumn) Scan(v any) error {
	ms, err := integer(v)
	*c.to = time.Duration(ms) * time.Millisecond
	return err
}

// integer returns what a column of numbers holds. NULL is 0.
func integer(v any) (int64, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case int64:
		return v, nil
	}
	return 0, fmt.Errorf("a %T is not a number", v)
}

// Into returns what scans bytes into an array of their length.
func Into(array []byte) sql.Scanner { return bytesColumn(array) }

// bytesColumn scans bytes into memory of the caller.
type bytesColumn []byte

// Scan implements sql.Scanner. Bytes beyond the array are dropped.
func (c bytesColumn) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok {
		return fmt.Errorf("a %T are not bytes", v)
	}
	copy(c, b)
	return nil
}

// stored converts arguments to the form in which they are stored, in place.
func stored(args []any) []any {
	for i, a := range args {
		switch a := a.(type) {
		case time.Time:
			args[i] = Millis(a)
		case time.Duration:
			args[i] = a.Milliseconds()
		case bool:
			args[i] = int64(yesNo(a))
		}
	}
	return args
}

// OrNull returns b as a query parameter, with nil as NULL. A nil slice itself would be an empty
// value to one engine and NULL to the other.
func OrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// Insert returns the statement that inserts a row of the columns, which are separated by commas.
func Insert(table, columns string) string {
	return `INSERT INTO ` + table + ` (` + columns + `) VALUES ` + places(strings.Count(columns, ",")+1)
}

// Upsert returns the statement that inserts a row of the columns or, if there is one with the same key, sets those that
// are in updated.
func Upsert(table, columns, key, updated string) string {
	names := strings.Split(updated, ",")
	for i, n := range names {
		n = strings.TrimSpace(n)
		names[i] = n + ` = excluded.` + n
	}
	return Insert(table, columns) + ` ON CONFLICT (` + key + `) DO UPDATE SET ` + strings.Join(names, ", ")
}

// Update returns the statement that sets all columns but the first of the row that has the first. The arguments are
// those of Insert.
func Update(table, columns string) string {
	names := strings.Split(columns, ",")
	for i, n := range names {
		names[i] = fmt.Sprintf("%s = $%d", strings.TrimSpace(n), i+1)
	}
	return `UPDATE ` + table + ` SET ` + strings.Join(names[1:], ", ") + ` WHERE ` + names[0]
}

// places returns "($1, $2)" for two columns.
func places(columns int) string { return "(" + Numbered(1, columns) + ")" }

// Numbered returns n places from $first on, with commas between them.
func Numbered(first, n int) string {
	places := make([]string, n)
	for i := range places {
		places[i] = fmt.Sprintf("$%d", first+i)
	}
	return strings.Join(places, ", ")
}

// Among returns a list for IN and its parameters. They come after those in first.
func Among[T any](values []T, first ...any) (list string, args []any) {
	list = "(" + Numbered(len(first)+1, len(values)) + ")"
	for _, v := range values {
		first = append(first, v)
	}
	return list, first
}

// Next raises a counter by one in a transaction and returns its value. It keeps an error, as Do does. The counter's row stays locked until the transaction
// ends, so numbers are committed in order and without gaps: a reader that has seen a number has
// seen all numbers below it. A sequence of the database would not guarantee that.
func (c *Conn) Next(counter string) int64 {
	n, err := Value[int64](c, `UPDATE counters SET value = value + 1 WHERE name = $1 RETURNING value`, counter)
	c.keep(err)
	return n
}

// Hold locks the row of a counter until the transaction ends, and returns its value.
func (c *Conn) Hold(counter string) (int64, error) {
	return Value[int64](c, `UPDATE counters SET value = value WHERE name = $1 RETURNING value`, counter)
}

// SetCounter sets the value of a counter.
func (c *Conn) SetCounter(counter string, value int64) error {
	return c.Exec(`UPDATE counters SET value = $2 WHERE name = $1`, counter, value)
}

// Counter returns the value of a counter.
func (c *Conn) Counter(counter string) (int64, error) {
	return Value[int64](c, `SELECT value FROM counters WHERE name = $1`, counter)
}

// The classes of the advisory locks of Alone. Locks of two numbers never meet those of one, such as the one that
// migrations take.
const (
	LinkLocks       = 1
	PasskeyLocks    = 2
	SubscriberLocks = 3
)

// Alone lets transactions that name the same thing run one after the other. SQLite has one writer anyway. Names with the
// same hash only wait for each other. It keeps an error, as Do does.
func (c *Conn) Alone(class int, name string) {
	if c.store.engine == Postgres {
		c.Do(`SELECT pg_advisory_xact_lock($1, hashtext($2))`, class, name)
	}
}
