package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// SetVersion makes the database claim a version of its tables.
func SetVersion(s *Store, v int64) error {
	_, err := s.write.db.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)`, v, true)
	return err
}

// OpenAt opens a new database whose tables are those of an old version.
func OpenAt(ctx context.Context, database, dir string, version int64) (*Store, error) {
	s := &Store{}
	if err := s.connect(database, dir); err != nil {
		return nil, err
	}
	m, err := s.migrator()
	if err == nil {
		err = s.Long(ctx, func(ctx context.Context) error { return s.apply(ctx, m, version) })
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// IsAway reports whether opening may succeed later.
var IsAway = isAway

// HoldMigrations keeps other nodes from migrating until release is called.
func HoldMigrations(ctx context.Context, database string) (release func(), err error) {
	s := &Store{}
	if err := s.connect(database, ""); err != nil {
		return nil, err
	}
	unlock, err := s.lockMigrations(ctx)
	return func() { unlock(); s.Close() }, err
}

// Execute changes the database without the Store's knowledge.
func Execute(s *Store, statement string) error {
	_, err := s.write.db.Exec(statement)
	return err
}

// Classify returns what the Store's methods make of a driver's error.
func Classify(err error) error { return unavailable(err) }

// Query runs a statement as the Store's methods do.
func Query(ctx context.Context, s *Store, query string, args ...any) error {
	return unavailable(each(ctx, s.write, func(rows *sql.Rows) error {
		var n int64
		return rows.Scan(&n)
	}, query, args...))
}

// Silence makes a Store believe that its database was silent at failing, and that somebody last tried it at tried.
func Silence(s *Store, failing, tried time.Time) {
	s.state.failing.Store(failing.UnixNano())
	s.state.tried.Store(tried.UnixNano())
}

// Count returns how many rows there are in a table, which a condition may follow.
func Count(ctx context.Context, s *Store, table string) (n int, err error) {
	err = s.write.scan(ctx, `SELECT COUNT(*) FROM `+table, &n)
	return n, err
}

// ClearSecrets counts the values that are stored in the clear.
func ClearSecrets(ctx context.Context, s *Store) (n int, err error) {
	err = s.write.scan(ctx, `SELECT COUNT(*) FROM logins WHERE totp_secret <> '' AND totp_secret NOT LIKE 'sealed:%'`, &n)
	if err != nil {
		return 0, err
	}
	values, err := clearValues(s.Read(ctx), `SELECT name, value FROM secrets WHERE name <> $1`, dataKey)
	for _, v := range values {
		if len(v.value) < len(sealedMark) || v.value[:len(sealedMark)] != sealedMark {
			n++
		}
	}
	return n, err
}

// Names returns the tables that a Transfer copies, and those that it does not.
func Names() (in, out []string) { return copied[:], notCopied[:] }

// Fill puts rows into every table that a Transfer copies, with values of every kind in every column. Rows of
// different numbers never share a key. The version changes what is in a row beside its key.
func Fill(s *Store, from, until, version int) error {
	ctx := context.Background()
	return s.longTx(ctx, func(tx *Conn) error {
		for _, name := range copied {
			if err := fill(tx, name, from, until, version); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

func fill(tx *Conn, name string, from, until, version int) error {
	type column struct {
		name, kind string
		required   bool
		key        int
	}
	columns, err := All(tx, func(row Row, c *column) error {
		return row.Scan(&c.name, &c.kind, &c.required, &c.key)
	}, `SELECT name, type, "notnull", pk FROM pragma_table_info($1) ORDER BY cid`, name)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	insert := `INSERT OR REPLACE INTO ` + name + ` (` + strings.Join(names, ", ") + `) VALUES ` + places(len(names))
	for n := from; n < until; n++ {
		var args []any
		for i, c := range columns {
			v := version
			if c.key > 0 {
				v = 0
			}
			var value any = fmt.Sprintf("%s-%06d-%d-\u00e4\u20ac", c.name, n, v)
			switch {
			case c.name == "account_id" || name == "accounts" && c.name == "id":
				value = fmt.Sprintf("acct_%06d", n)
			case c.name == "plan":
				value = [...]string{"free", "basic"}[v%2]
			case name == "api_keys" && c.name == "master":
				value = (n + v) % 2
			case !c.required && (n+i+v)%3 == 0 && c.key == 0:
				value = nil
			case c.kind == "BYTEA":
				value = bytes.Repeat([]byte{0, byte(n), 0xff, byte(v)}, (n+v)%5)
				if c.key > 0 || c.name == "token" || c.name == "hash" || strings.HasSuffix(c.name, "_hash") {
					value = append([]byte{byte(n >> 16), byte(n >> 8), byte(n), 0}, value.([]byte)...)
				}
			case c.kind == "INTEGER" || c.kind == "BIGINT":
				value = int64(n)*7 - 100 + int64(v)
			}
			args = append(args, value)
		}
		if err := tx.Exec(insert, args...); err != nil {
			return err
		}
	}
	return nil
}

// Hasten makes the Store give up earlier than usual, also when it connects. It must not be in use.
func Hasten(s *Store, call, connect time.Duration) {
	s.patience = patience{call: call, settle: call, silence: call, connect: connect}
}

// Versions returns the numbers of all migrations.
func Versions() []int64 { return known() }
