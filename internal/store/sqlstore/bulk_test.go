package sqlstore_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// bulkRow is a row of the table of TestInsertMany. Pointers are nil where the column is NULL.
type bulkRow struct {
	id      int64
	fixed   string  // in all rows
	late    string  // changes once
	part    int64   // changes where a statement of SQLite begins
	unknown *int64  // NULL in all rows
	known   *string // NULL in the first rows
	data    []byte
	n       int64
}

// bulkRowOf returns row i.
func bulkRowOf(i int) bulkRow {
	r := bulkRow{id: int64(i), fixed: "it's", part: int64(i / 50), data: fmt.Append(nil, i/100), n: int64(i % 7)}
	if i > 77 {
		r.late = "later"
	}
	if text := fmt.Sprint(i % 3); i > 130 {
		r.known = &text
	}
	return r
}

// TestInsertMany inserts rows that have much in common, in every number of statements, and adds to them.
func TestInsertMany(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			database := engine
			if engine == "postgres" {
				database = pgtest.URL(t)
			}
			s := alltest.In(t, database, t.TempDir())
			for _, rows := range []int{1, 2, 49, 50, 51, 100, 150, 201, 500, 501, 1203} {
				insertMany(t, s, rows)
			}
			// Rows that are the same in every column.
			execute(t, s, `CREATE TABLE bulk_same (a BIGINT NOT NULL, b TEXT NOT NULL)`)
			err := s.Kernel().InsertMany(t.Context(), func(ctx context.Context, to sqlstore.Bulk) error {
				in := sqlstore.Insertion{Into: `bulk_same (a, b)`, Columns: 2}
				_, err := to.Insert(ctx, &in, 60, func(values []any, _ int) []any { return append(values, int64(1), "x") })
				return err
			})
			n, countErr := sqlstore.Count(t.Context(), s.Kernel(), `bulk_same WHERE a = 1 AND b = 'x'`)
			if err != nil || countErr != nil || n != 60 {
				t.Errorf("rows that are all the same: %d are stored, %v, %v, want 60", n, err, countErr)
			}
		})
	}
}

// insertMany inserts rows twice, the second time beside as many new ones, and checks what is stored.
func insertMany(t *testing.T, s *alltest.Store, rows int) {
	t.Helper()
	table := fmt.Sprintf("bulk_%d", rows)
	execute(t, s, `CREATE TABLE `+table+` (id BIGINT PRIMARY KEY, fixed TEXT NOT NULL, late TEXT NOT NULL, part BIGINT NOT NULL, unknown BIGINT, known TEXT, data BYTEA, n BIGINT NOT NULL)`)
	in := sqlstore.Insertion{Into: table + ` (id, fixed, late, part, unknown, known, data, n)`, Columns: 8, Conflict: `ON CONFLICT (id) DO UPDATE SET n = ` + table + `.n + excluded.n`}
	for _, count := range []int{rows, 2 * rows} {
		err := s.Kernel().InsertMany(t.Context(), func(ctx context.Context, to sqlstore.Bulk) error {
			stored, err := to.Insert(ctx, &in, count, func(values []any, i int) []any {
				r := bulkRowOf(i)
				values = append(values, r.id, r.fixed, r.late, r.part, nil)
				if r.known == nil {
					values = append(values, nil)
				} else {
					values = append(values, *r.known)
				}
				return append(values, r.data, r.n)
			})
			if stored != int64(count) {
				t.Errorf("Insert of %d rows = %d", count, stored)
			}
			return err
		})
		if err != nil {
			t.Fatalf("InsertMany of %d rows: %v", count, err)
		}
	}
	list, err := sqlstore.All(s.Kernel().Read(t.Context()), func(row sqlstore.Row, r *bulkRow) error {
		return row.Scan(&r.id, &r.fixed, &r.late, &r.part, &r.unknown, &r.known, &r.data, &r.n)
	}, `SELECT id, fixed, late, part, unknown, known, data, n FROM `+table+` ORDER BY id`)
	if err != nil || len(list) != 2*rows {
		t.Fatalf("%s has %d rows, %v, want %d", table, len(list), err, 2*rows)
	}
	for i, got := range list {
		want := bulkRowOf(i)
		if i < rows {
			want.n *= 2 // inserted, and added to
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("row %d of %s = %+v, want %+v", i, table, got, want)
		}
	}
}
