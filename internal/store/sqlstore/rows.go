package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// row is a row of a table on its way from one database to another: each value is nil, an int64, a string
// or a []byte that is not nil.
type row []any

// rows are the rows of a table, read one after the other, so that memory does not grow with the table. An error is the
// last that comes.
type rows = iter.Seq2[row, error]

const (
	// A part is handed over when it has this many rows or bytes, so memory stays bounded for large rows, too.
	aheadRows  = 256
	aheadBytes = 1 << 20
)

// readAhead returns rows that are read before they are asked for, in a goroutine of its own: the two databases and whoever
// compares them work at the same time. An error comes after all rows that were read before it.
//
// One part is waiting in the channel while another is being read and a third is being used, so at
// most three parts are in memory.
func readAhead(from rows) rows {
	return func(yield func(row, error) bool) {
		parts, quit := make(chan []row, 1), make(chan struct{})
		var failed error // written before parts is closed
		var reading sync.WaitGroup
		reading.Go(func() {
			defer close(parts)
			failed = inParts(from, func(part []row) bool {
				select {
				case parts <- part:
					return true
				case <-quit:
					return false
				}
			})
		})
		defer reading.Wait() // whoever ends early must be able to use the connection
		defer close(quit)
		for part := range parts {
			for _, r := range part {
				if !yield(r, nil) {
					return
				}
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// inParts hands rows over in parts, until hand returns false. It returns the error that they ended with.
func inParts(from rows, hand func(part []row) bool) error {
	var part []row
	bytes := 0
	for r, err := range from {
		if err != nil {
			hand(part)
			return err
		}
		part = append(part, r)
		if bytes += r.size(); len(part) < aheadRows && bytes < aheadBytes {
			continue
		}
		if !hand(part) {
			return nil
		}
		part, bytes = nil, 0
	}
	hand(part)
	return nil
}

// sqliteRows reads a table, in the order of its key if ordered. mended counts the values that PostgreSQL would refuse.
func (s *Store) sqliteRows(ctx context.Context, t *table, ordered bool, mended *int64) rows {
	return func(yield func(row, error) bool) {
		found, err := s.read.QueryContext(ctx, t.selectAll(SQLite, ordered))
		if err != nil {
			yield(nil, unavailable(err))
			return
		}
		defer found.Close()
		for found.Next() {
			// Each row is new memory, since it may wait in a batch.
			r, to := make(row, len(t.columns)), make([]any, len(t.columns))
			for i := range r {
				to[i] = &r[i]
			}
			err := found.Scan(to...)
			for i := 0; i < len(r) && err == nil; i++ {
				r[i], err = t.convert(i, r[i], mended)
			}
			if !yield(r, unavailable(err)) {
				return
			}
		}
		if err := found.Err(); err != nil {
			yield(nil, unavailable(err))
		}
	}
}

// convert turns a value of SQLite into one of its column's kind in PostgreSQL. SQLite keeps whatever it
// was given, so a text may be stored as bytes and the other way round.
func (t *table) convert(column int, v any, mended *int64) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int64:
		if t.kinds[column] == numberKind {
			return v, nil
		}
	case string:
		switch t.kinds[column] {
		case textKind:
			return t.mend(column, v, mended)
		case bytesKind:
			return []byte(v), nil
		}
	case []byte:
		switch t.kinds[column] {
		case textKind:
			return t.mend(column, string(v), mended)
		case bytesKind:
			if v == nil { // empty; nil would become NULL
				v = []byte{}
			}
			return v, nil
		}
	}
	return nil, fmt.Errorf("table %s: column %s holds a %T, which does not fit its type in PostgreSQL", t.name, t.columns[column], v)
}

// mend replaces what a text in PostgreSQL cannot hold: NUL, and bytes that are not UTF-8. A key is never
// changed.
func (t *table) mend(column int, text string, mended *int64) (any, error) {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text, nil
	}
	for _, k := range t.key {
		if k == column {
			return nil, fmt.Errorf("table %s: the %s %q has characters that PostgreSQL cannot store; change or delete that row in SQLite", t.name, t.columns[column], text)
		}
	}
	*mended++
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD"), nil
}

// postgresRows reads a table on a connection, which can do nothing else until the last row was read. The driver returns
// integer columns as int32 and BIGINT as int64; rows have only the latter.
func postgresRows(ctx context.Context, conn *pgx.Conn, t *table, ordered bool) rows {
	return func(yield func(row, error) bool) {
		found, err := conn.Query(ctx, t.selectAll(Postgres, ordered))
		if err != nil {
			yield(nil, unavailable(err))
			return
		}
		defer found.Close()
		for found.Next() {
			r, err := found.Values()
			for i, v := range r {
				switch v := v.(type) {
				case int32:
					r[i] = int64(v)
				case nil, int64, string, []byte:
				default:
					err = fmt.Errorf("table %s: column %s is a %T in PostgreSQL", t.name, t.columns[i], v)
				}
			}
			if !yield(r, unavailable(err)) {
				return
			}
		}
		if err := found.Err(); err != nil {
			yield(nil, unavailable(err))
		}
	}
}

// inOrder refuses rows which are out of order: merge would take them for missing.
func (t *table) inOrder(from rows) rows {
	return func(yield func(row, error) bool) {
		var last row
		for r, err := range from {
			if err == nil && last != nil && t.compareKeys(last, r) >= 0 {
				err = errors.New("the rows are not in the order of their key; this is a bug")
			}
			if !yield(r, err) {
				return
			}
			last = r
		}
	}
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
