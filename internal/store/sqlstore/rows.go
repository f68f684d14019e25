package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// row is a row of a table on its way from one database to another: each value is nil, an int64, a string
// or a []byte that is not nil.
type row []any

// cursor reads the rows of a table one after the other, so that memory does not grow with the table.
type cursor interface {
	// next returns the next row, or nil at the end.
	next() (row, error)
	close()
}

// ahead is a cursor that reads rows before they are asked for, in a goroutine of its own: the two databases and whoever
// compares them work at the same time.
//
// One part is waiting in the channel while another is being read and a third is being used, so at
// most three parts are in memory.
type ahead struct {
	from    cursor
	parts   chan []row
	quit    chan struct{}
	reading sync.WaitGroup
	err     error // why it ended; written before parts is closed
	part    []row
}

const (
	// A part is handed over when it has this many rows or bytes, so memory stays bounded for large rows, too.
	aheadRows  = 256
	aheadBytes = 1 << 20
)

// readAhead returns a cursor over the rows of from, which it closes with itself.
func readAhead(from cursor) *ahead {
	a := &ahead{from: from, parts: make(chan []row, 1), quit: make(chan struct{})}
	a.reading.Go(func() {
		defer close(a.parts)
		for more := true; more; {
			var part []row
			part, more = a.read()
			select {
			case a.parts <- part:
			case <-a.quit:
				return
			}
		}
	})
	return a
}

// read reads one part, and reports whether there may be another one.
func (a *ahead) read() (part []row, more bool) {
	for bytes := 0; len(part) < aheadRows && bytes < aheadBytes; {
		r, err := a.from.next()
		if err != nil || r == nil {
			a.err = err
			return part, false
		}
		part = append(part, r)
		bytes += r.size()
	}
	return part, true
}

// next implements cursor. The error, if there is one, comes after all rows that were read before
// it.
func (a *ahead) next() (row, error) {
	for len(a.part) == 0 {
		part, ok := <-a.parts
		if !ok {
			return nil, a.err
		}
		a.part = part
	}
	r := a.part[0]
	a.part = a.part[1:]
	return r, nil
}

// close implements cursor. It ends the goroutine even if nobody has read all rows.
func (a *ahead) close() {
	close(a.quit)
	a.reading.Wait() // before the rows are closed, which are read there
	a.from.close()
}

// sqliteCursor reads from the source of a Transfer.
type sqliteCursor struct {
	rows   *sql.Rows
	table  *table
	mended *int64 // counts the values that PostgreSQL would refuse
}

// sqliteCursor reads a table, in the order of its key if ordered.
func (s *Store) sqliteCursor(ctx context.Context, t *table, ordered bool, mended *int64) (*sqliteCursor, error) {
	rows, err := s.read.QueryContext(ctx, t.selectAll(SQLite, ordered))
	if err != nil {
		return nil, unavailable(err)
	}
	return &sqliteCursor{rows, t, mended}, nil
}

// close implements cursor.
func (c *sqliteCursor) close() { c.rows.Close() }

// next implements cursor. Each row is new memory, since it may wait in a batch.
func (c *sqliteCursor) next() (row, error) {
	if !c.rows.Next() {
		return nil, unavailable(c.rows.Err())
	}
	r, to := make(row, len(c.table.columns)), make([]any, len(c.table.columns))
	for i := range r {
		to[i] = &r[i]
	}
	if err := c.rows.Scan(to...); err != nil {
		return nil, unavailable(err)
	}
	for i, v := range r {
		var err error
		if r[i], err = c.convert(i, v); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// convert turns a value of SQLite into one of its column's kind in PostgreSQL. SQLite keeps whatever it
// was given, so a text may be stored as bytes and the other way round.
func (c *sqliteCursor) convert(column int, v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int64:
		if c.table.kinds[column] == numberKind {
			return v, nil
		}
	case string:
		switch c.table.kinds[column] {
		case textKind:
			return c.mend(column, v)
		case bytesKind:
			return []byte(v), nil
		}
	case []byte:
		switch c.table.kinds[column] {
		case textKind:
			return c.mend(column, string(v))
		case bytesKind:
			if v == nil { // empty; nil would become NULL
				v = []byte{}
			}
			return v, nil
		}
	}
	return nil, fmt.Errorf("table %s: column %s holds a %T, which does not fit its type in PostgreSQL", c.table.name, c.table.columns[column], v)
}

// mend replaces what a text in PostgreSQL cannot hold: NUL, and bytes that are not UTF-8. A key is never
// changed.
func (c *sqliteCursor) mend(column int, text string) (any, error) {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text, nil
	}
	for _, k := range c.table.key {
		if k == column {
			return nil, fmt.Errorf("table %s: the %s %q has characters that PostgreSQL cannot store; change or delete that row in SQLite", c.table.name, c.table.columns[column], text)
		}
	}
	*c.mended++
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD"), nil
}

// postgresCursor reads from the target of a Transfer.
type postgresCursor struct {
	rows  pgx.Rows
	table *table
}

// newPostgresCursor reads a table on a connection, which can do nothing else until the cursor is
// closed.
func newPostgresCursor(ctx context.Context, conn *pgx.Conn, t *table, ordered bool) (*postgresCursor, error) {
	rows, err := conn.Query(ctx, t.selectAll(Postgres, ordered))
	if err != nil {
		return nil, unavailable(err)
	}
	return &postgresCursor{rows, t}, nil
}

// close implements cursor.
func (c *postgresCursor) close() { c.rows.Close() }

// next implements cursor. The driver returns integer columns as int32 and BIGINT as int64; rows
// have only the latter.
func (c *postgresCursor) next() (row, error) {
	if !c.rows.Next() {
		return nil, unavailable(c.rows.Err())
	}
	r, err := c.rows.Values()
	if err != nil {
		return nil, unavailable(err)
	}
	for i, v := range r {
		switch v := v.(type) {
		case int32:
			r[i] = int64(v)
		case nil, int64, string, []byte:
		default:
			return nil, fmt.Errorf("table %s: column %s is a %T in PostgreSQL", c.table.name, c.table.columns[i], v)
		}
	}
	return r, nil
}

// compareKeys orders two rows by the table's key.
func (t *table) compareKeys(a, b row) int {
	for _, k := range t.key {
		if c := compareValues(a[k], b[k]); c != 0 {
			return c
		}
	}
	return 0
}

// equal reports whether two rows are the same.
func (r row) equal(o row) bool {
	for i := range r {
		if compareValues(r[i], o[i]) != 0 {
			return false
		}
	}
	return true
}

// compareValues orders values of one column. NULL comes first.
// Texts are compared by their bytes, as both engines are told to do.
func compareValues(a, b any) int {
	switch a := a.(type) {
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b)
		}
	case []byte:
		if b, ok := b.([]byte); ok {
			return bytes.Compare(a, b)
		}
	}
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	}
	return 1 // b is NULL: both are of the column's kind otherwise
}

// digest is a checksum of the rows of a table, whatever their order: the hashes of the rows, added up.
//
// Adding is commutative, so the two engines may return the rows in any order and nothing has to be
// sorted. It is no defense against somebody who forges rows; it finds what was lost or changed by
// accident.
type digest struct {
	rows int64
	sum  [4]uint64
	room []byte
}

// String returns the checksum in hex.
func (d *digest) String() string {
	return fmt.Sprintf("%016x%016x%016x%016x", d.sum[0], d.sum[1], d.sum[2], d.sum[3])
}

// equal reports whether both have seen the same rows.
func (d *digest) equal(o *digest) bool { return d.rows == o.rows && d.sum == o.sum }

// add adds a row. Each value is written with its type and length, so that no two rows look alike.
func (d *digest) add(r row) {
	b := d.room[:0]
	for _, v := range r {
		switch v := v.(type) {
		case nil:
			b = append(b, 'n')
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, 'i'), uint64(v))
		case string:
			b = append(binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(v))), v...)
		case []byte:
			b = append(binary.BigEndian.AppendUint32(append(b, 'b'), uint32(len(v))), v...)
		}
	}
	d.room = b
	hash := sha256.Sum256(b)
	for i := range d.sum {
		d.sum[i] += binary.BigEndian.Uint64(hash[8*i:])
	}
	d.rows++
}

// size is about how many bytes a row takes in memory.
func (r row) size() (n int) {
	n = 24 * len(r)
	for _, v := range r {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}
