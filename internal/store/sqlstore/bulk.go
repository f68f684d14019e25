package sqlstore

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// Insertion is an INSERT of any number of rows.
// For example, Into is "usage_days (account_id, day)", and Columns is 2.
type Insertion struct {
	Into     string // the table and its columns
	Columns  int
	Conflict string // what happens if a row exists: the clause ON CONFLICT
}

// Bulk inserts many rows in a transaction, as cheaply as its engine can.
//
// There are three, by engine and size: oneByOne for a few rows, manyRows for SQLite, arrays for
// PostgreSQL.
type Bulk interface {
	// Insert inserts rows and returns how many were inserted or updated. values appends those of row i, each
	// an int64, a string, a []byte or nil; the first is not nil. Rows are inserted in their order, which is that of their locks.
	Insert(ctx context.Context, in *Insertion, rows int, values func(to []any, i int) []any) (int64, error)
}

// bulkOf returns the Bulk of a connection.
func bulkOf(conn driver.Conn) Bulk {
	if pg, ok := conn.(*stdlib.Conn); ok {
		return arrays{pg.Conn().PgConn()}
	}
	return manyRows{conn}
}

// mostLate is how often the patience with a batch is doubled.
const mostLate = 2

// InsertMany runs work in one writing transaction that inserts many rows: a batch of settlements, for which nobody waits.
// A batch that came too late gets more time when it is tried again: the connection was lost with it, and to connect to a
// slow database takes time that the next one would miss.
func (s *Store) InsertMany(ctx context.Context, work func(ctx context.Context, to Bulk) error) error {
	late := s.late.Load()
	err := s.write.raw(ctx, s.patience.settle<<late, func(ctx context.Context, c any) error {
		return inDriverTx(ctx, c, func(ctx context.Context, conn driver.Conn) error { return work(ctx, bulkOf(conn)) })
	})
	switch {
	case err == nil:
		s.late.Store(0)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		s.late.Store(min(late+1, mostLate))
	}
	return unavailable(err)
}

// Bulk returns what inserts a few rows in a transaction that does more.
func (c *Conn) Bulk() (context.Context, Bulk) { return c.ctx, oneByOne{c} }

// oneByOne inserts a few rows in a transaction.
type oneByOne struct{ tx *Conn }

// Insert implements Bulk with one statement for each row.
func (o oneByOne) Insert(_ context.Context, in *Insertion, rows int, values func(to []any, i int) []any) (stored int64, err error) {
	for i := range rows {
		n, err := o.tx.Changed(`INSERT INTO `+in.Into+` VALUES `+places(in.Columns)+` `+in.Conflict, values(nil, i)...)
		if err != nil {
			return stored, err
		}
		stored += n
	}
	return stored, nil
}

// same reports whether two values of a column are equal. A []byte is never: its memory may be used again.
func same(a, b any) bool {
	switch a := a.(type) {
	case int64:
		b, ok := b.(int64)
		return ok && a == b
	case string:
		b, ok := b.(string)
		return ok && a == b
	case nil:
		return b == nil
	}
	return false
}

// manyRows inserts into SQLite, many rows with one statement. Below database/sql a settlement costs a
// microsecond less: there is nothing to convert, and no context to watch for each statement.
type manyRows struct{ conn driver.Conn }

// rowsAtOnce is the number of rows that one statement inserts. The rest is inserted row by row.
const rowsAtOnce = 50

// Insert implements Bulk: groups of rowsAtOnce as long as there are enough rows, and then single
// rows.
func (m manyRows) Insert(ctx context.Context, in *Insertion, rows int, values func(to []any, i int) []any) (stored int64, err error) {
	grouped := rows - rows%rowsAtOnce
	if grouped > 0 {
		if stored, err = m.groups(ctx, in, grouped/rowsAtOnce, values); err != nil {
			return stored, err
		}
	}
	if grouped == rows {
		return stored, nil
	}
	n, err := m.singles(ctx, in, rows-grouped, func(to []any, i int) []any { return values(to, grouped+i) })
	return stored + n, err
}

// singles runs the statement that inserts one row, rows times.
func (m manyRows) singles(ctx context.Context, in *Insertion, rows int, values func(to []any, i int) []any) (stored int64, err error) {
	st, err := m.prepare(in, ` VALUES `+marks(in.Columns), in.Columns)
	if err != nil {
		return 0, err
	}
	defer st.close()
	var room []any
	for i := range rows {
		room = values(room[:0], i)
		for c, v := range room {
			st.args[c].Value = v
		}
		n, err := st.run(ctx)
		stored += n
		if err != nil {
			return stored, err
		}
	}
	return stored, nil
}

// groups runs a statement that inserts rowsAtOnce rows count times.
//
// Rows have much in common: the plan, what failed, what nobody uses. A column that has one value in all rows of a group
// is bound once with it. Of calls of one account to a model without a price that is true of 26 of 36 columns, and they take
// 0.56 of the time; of calls that have little in common it is true of 12, and they take as long as they would without. A
// column that differs once is bound with each row from then on, so that few statements are prepared.
func (m manyRows) groups(ctx context.Context, in *Insertion, count int, values func(to []any, i int) []any) (stored int64, err error) {
	shared := make([]bool, in.Columns)
	for c := 1; c < in.Columns; c++ { // the first is part of the key, and a row has at least one value
		shared[c] = true
	}
	group := make([]any, rowsAtOnce*in.Columns)
	var room []any
	var st *statement
	defer func() { st.close() }()
	for next := range count {
		fits := st != nil
		for i := range rowsAtOnce {
			room = values(room[:0], next*rowsAtOnce+i)
			copy(group[i*in.Columns:], room)
			for c, v := range room {
				if shared[c] && i > 0 && !same(v, group[c]) {
					shared[c], fits = false, false
				}
			}
		}
		if !fits {
			st.close()
			if st, err = m.prepareGroup(in, shared); err != nil {
				return stored, err
			}
		}
		n := 0
		for c := range shared {
			if shared[c] {
				st.args[n].Value = group[c]
				n++
			}
		}
		for i, v := range group {
			if !shared[i%in.Columns] {
				st.args[n].Value = v
				n++
			}
		}
		rows, err := st.run(ctx)
		stored += rows
		if err != nil {
			return stored, err
		}
	}
	return stored, nil
}

// prepareGroup prepares the statement of groups: first the values of shared columns are bound, then those of each row.
func (m manyRows) prepareGroup(in *Insertion, shared []bool) (*statement, error) {
	picked, own := make([]string, len(shared)), 0
	for c := range shared {
		picked[c] = "?"
		if !shared[c] {
			own++
			picked[c] = "column" + strconv.Itoa(own) // what SQLite calls it
		}
	}
	// WHERE TRUE: without it the ON of ON CONFLICT would be that of a join.
	row := marks(own)
	rows := `VALUES ` + row + strings.Repeat(", "+row, rowsAtOnce-1)
	return m.prepare(in, ` SELECT `+strings.Join(picked, ", ")+` FROM (`+rows+`) WHERE TRUE`, len(shared)-own+own*rowsAtOnce)
}

// prepare prepares an INSERT of rows, which has a number of values.
func (m manyRows) prepare(in *Insertion, rows string, count int) (*statement, error) {
	// OR FAIL: a row that is refused does not undo those before it. Whoever inserts rolls back after an error anyway, and
	// SQLite needs no copy of every page that the statement changes, which would be an eighth of its time.
	stmt, err := m.conn.Prepare(`INSERT OR FAIL INTO ` + in.Into + rows + ` ` + in.Conflict)
	if err != nil {
		return nil, err
	}
	st := &statement{stmt: stmt, args: make([]driver.NamedValue, count)}
	for i := range st.args {
		st.args[i].Ordinal = i + 1
	}
	return st, nil
}

// marks returns the marks of n values. They are plain question marks: SQLite treats $1 as a name and looks it up in a list
// of all names. 100 rows of 21 columns would cost 335 µs each instead of 16.
func marks(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// statement is a prepared statement of SQLite and the values that it runs with.
type statement struct {
	stmt driver.Stmt
	args []driver.NamedValue
}

// run runs the statement and returns the number of rows that were inserted or updated.
func (st *statement) run(ctx context.Context) (int64, error) {
	// A statement that watched the context would cost a goroutine.
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	res, err := st.stmt.(driver.StmtExecContext).ExecContext(context.WithoutCancel(ctx), st.args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// close frees the statement. It may be nil.
func (st *statement) close() {
	if st != nil {
		st.stmt.Close()
	}
}

// arrays inserts into PostgreSQL: each column is one parameter, an array, or a single value if all rows have the same. A
// statement has one round trip, and the server does not parse a placeholder for each value.
type arrays struct{ conn *pgconn.PgConn }

// arrayRows is the number of rows of one statement, which bounds the memory of its parameters.
const arrayRows = 500

// Insert implements Bulk: a statement for every arrayRows rows, whose columns use the same memory.
func (a arrays) Insert(ctx context.Context, in *Insertion, rows int, values func(to []any, i int) []any) (stored int64, err error) {
	columns := make([]column, in.Columns)
	var room []any
	for next := 0; next < rows; {
		size := min(rows-next, arrayRows)
		for i := range columns {
			columns[i].begin()
		}
		for i := range size {
			room = values(room[:0], next+i)
			for c, v := range room {
				columns[c].add(v)
			}
		}
		n, err := a.exec(ctx, in, columns, size)
		if err != nil {
			return stored, err
		}
		stored += n
		next += size
	}
	return stored, nil
}

// exec inserts the rows that columns hold.
func (a arrays) exec(ctx context.Context, in *Insertion, columns []column, rows int) (int64, error) {
	params, formats, oids := make([][]byte, 0, len(columns)), make([]int16, 0, len(columns)), make([]uint32, 0, len(columns))
	picked, places, names := make([]string, len(columns)), make([]string, 0, len(columns)), make([]string, 0, len(columns))
	columns[0].spread() // unnest says how many rows there are, so it needs an array
	for i := range columns {
		c := &columns[i]
		// Nothing tells the type of a column without values.
		if c.kind.array == 0 {
			picked[i] = "NULL"
			continue
		}
		raw, oid := c.encoded(rows)
		params, formats, oids = append(params, raw), append(formats, pgtype.BinaryFormatCode), append(oids, oid)
		place := "$" + strconv.Itoa(len(params))
		picked[i] = place
		if !c.shared {
			picked[i] = "c" + place[1:]
			places, names = append(places, place), append(names, picked[i])
		}
	}
	// Without a name the statement is parsed each time, which is little for so many rows, and poolers that do not
	// know prepared statements take it.
	query := `INSERT INTO ` + in.Into + ` SELECT ` + strings.Join(picked, ", ") +
		` FROM unnest(` + strings.Join(places, ", ") + `) AS r (` + strings.Join(names, ", ") + `) ` + in.Conflict
	res := a.conn.ExecParams(ctx, query, params, oids, formats, nil).Read()
	return res.CommandTag.RowsAffected(), res.Err
}

// column is what the rows of a statement have in a column: one value that all of them share, or an array of PostgreSQL in
// binary form: a head of arrayHead bytes, and each element after its length.
//
// The head has the number of dimensions, whether there are NULLs, the type of the elements, how
// many there are, and the number of the first; all are big-endian integers of four bytes.
type column struct {
	kind   columnKind
	nulls  bool
	shared bool // all values so far are the same; then raw has only the first
	first  any
	count  int // of the values
	raw    []byte
}

// columnKind has the number of a type, and of arrays of it.
type columnKind struct{ element, array uint32 }

const (
	// arrayHead is the length of the head of an array of one dimension.
	arrayHead = 20
	// lengthSize is the size of the length before each element.
	lengthSize = 4
)

// begin empties the column.
func (c *column) begin() {
	*c = column{shared: true, raw: append(c.raw[:0], make([]byte, arrayHead)...)}
}

// add appends a value.
func (c *column) add(v any) {
	switch {
	case c.count == 0:
		c.first = v
		c.append(v)
	case !c.shared:
		c.append(v)
	case !same(c.first, v):
		c.spread()
		c.append(v)
	}
	c.count++
}

// spread makes an array of a value that all rows share.
func (c *column) spread() {
	if !c.shared {
		return
	}
	c.shared = false
	for range c.count - 1 {
		c.append(c.first)
	}
}

// append appends an element to the array.
// All values of a column have one type. A length of -1 is NULL.
func (c *column) append(v any) {
	switch v := v.(type) {
	case int64:
		c.kind = columnKind{pgtype.Int8OID, pgtype.Int8ArrayOID}
		c.raw = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(c.raw, 8), uint64(v))
	case string:
		c.kind = columnKind{pgtype.TextOID, pgtype.TextArrayOID}
		c.raw = append(binary.BigEndian.AppendUint32(c.raw, uint32(len(v))), v...)
	case []byte:
		c.kind = columnKind{pgtype.ByteaOID, pgtype.ByteaArrayOID}
		c.raw = append(binary.BigEndian.AppendUint32(c.raw, uint32(len(v))), v...)
	case nil:
		c.nulls = true
		c.raw = binary.BigEndian.AppendUint32(c.raw, ^uint32(0))
	default:
		panic(fmt.Sprintf("sqlstore: a %T cannot be stored", v))
	}
}

// encoded returns the value or the array, and its type.
func (c *column) encoded(rows int) ([]byte, uint32) {
	if c.shared {
		return c.raw[arrayHead+lengthSize:], c.kind.element
	}
	head := binary.BigEndian.AppendUint32(c.raw[:0], 1) // dimensions
	head = binary.BigEndian.AppendUint32(head, uint32(yesNo(c.nulls)))
	head = binary.BigEndian.AppendUint32(head, c.kind.element)
	head = binary.BigEndian.AppendUint32(head, uint32(rows))
	binary.BigEndian.AppendUint32(head, 1) // the number of the first element
	return c.raw, c.kind.array
}
