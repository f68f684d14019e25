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
	// an int64, a string, a []byte or nil. Rows are inserted in their order, which is that of their locks.
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

// manyRows inserts into SQLite, many rows with one statement. Below database/sql a settlement costs a
// microsecond less: there is nothing to convert, and no context to watch for each statement.
type manyRows struct{ conn driver.Conn }

// rowsAtOnce is the number of rows that one statement inserts. The rest is inserted row by row, so that
// only two statements have to be prepared.
const rowsAtOnce = 50

// Insert implements Bulk: groups of rowsAtOnce as long as there are enough rows, and then single
// rows.
func (m manyRows) Insert(ctx context.Context, in *Insertion, rows int, values func(to []any, i int) []any) (stored int64, err error) {
	for next := 0; next < rows; {
		size := rowsAtOnce
		if rows-next < size {
			size = 1
		}
		count := (rows - next) / size
		n, err := m.groups(ctx, in, size, count, func(to []any, i int) []any { return values(to, next+i) })
		stored += n
		if err != nil {
			return stored, err
		}
		next += size * count
	}
	return stored, nil
}

// groups runs the statement that inserts size rows count times.
func (m manyRows) groups(ctx context.Context, in *Insertion, size, count int, values func(to []any, i int) []any) (stored int64, err error) {
	// Plain question marks: SQLite treats $1 as a name and looks it up in a list of all names. 100 rows of 21
	// columns would cost 335 µs each instead of 16.
	row := "(?" + strings.Repeat(", ?", in.Columns-1) + ")"
	// OR FAIL: a row that is refused does not undo those before it. Whoever inserts rolls back after an error anyway, and
	// SQLite needs no copy of every page that the statement changes, which would be an eighth of its time.
	stmt, err := m.conn.Prepare(`INSERT OR FAIL INTO ` + in.Into + ` VALUES ` + row + strings.Repeat(", "+row, size-1) + ` ` + in.Conflict)
	if err != nil {
		return 0, err
	}
	defer stmt.Close()
	exec := stmt.(driver.StmtExecContext)
	args := make([]driver.NamedValue, size*in.Columns)
	for i := range args {
		args[i].Ordinal = i + 1
	}
	var room []any
	for group := range count {
		// A statement that watched the context would cost a goroutine.
		if err := ctx.Err(); err != nil {
			return stored, err
		}
		for i := range size {
			room = values(room[:0], group*size+i)
			for c, v := range room {
				args[i*in.Columns+c].Value = v
			}
		}
		res, err := exec.ExecContext(context.WithoutCancel(ctx), args)
		if err != nil {
			return stored, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return stored, err
		}
		stored += n
	}
	return stored, nil
}

// arrays inserts into PostgreSQL: each column is one parameter, an array. A statement has one round trip, and the
// server does not parse a placeholder for each value.
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
	for i := range columns {
		c := &columns[i]
		// Nothing tells the type of a column without values.
		if c.kind.array == 0 {
			picked[i] = "NULL"
			continue
		}
		c.end(rows)
		params, formats, oids = append(params, c.raw), append(formats, pgtype.BinaryFormatCode), append(oids, c.kind.array)
		number := strconv.Itoa(len(params))
		places, names, picked[i] = append(places, "$"+number), append(names, "c"+number), "c"+number
	}
	// Without a name the statement is parsed each time, which is little for so many rows, and poolers that do not
	// know prepared statements take it.
	query := `INSERT INTO ` + in.Into + ` SELECT ` + strings.Join(picked, ", ") +
		` FROM unnest(` + strings.Join(places, ", ") + `) AS r (` + strings.Join(names, ", ") + `) ` + in.Conflict
	res := a.conn.ExecParams(ctx, query, params, oids, formats, nil).Read()
	return res.CommandTag.RowsAffected(), res.Err
}

// column is an array of PostgreSQL in binary form: a head of arrayHead bytes, and each element after its length.
//
// The head has the number of dimensions, whether there are NULLs, the type of the elements, how
// many there are, and the number of the first; all are big-endian integers of four bytes.
type column struct {
	kind  columnKind
	nulls bool
	raw   []byte
}

// columnKind has the number of a type, and of arrays of it.
type columnKind struct{ element, array uint32 }

// arrayHead is the length of the head of an array of one dimension.
const arrayHead = 20

// begin empties the array.
func (c *column) begin() {
	c.kind, c.nulls, c.raw = columnKind{}, false, append(c.raw[:0], make([]byte, arrayHead)...)
}

// add appends an element.
// All values of a column have one type. A length of -1 is NULL.
func (c *column) add(v any) {
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

// end writes the head.
func (c *column) end(rows int) {
	head := binary.BigEndian.AppendUint32(c.raw[:0], 1) // dimensions
	head = binary.BigEndian.AppendUint32(head, uint32(yesNo(c.nulls)))
	head = binary.BigEndian.AppendUint32(head, c.kind.element)
	head = binary.BigEndian.AppendUint32(head, uint32(rows))
	binary.BigEndian.AppendUint32(head, 1) // the number of the first element
}
