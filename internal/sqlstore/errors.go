package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"sluice/internal/fault"
)

// unavailable makes the error of a database that cannot serve now into a fault that says so. Everything
// else passes: a fault of ours, and what no retry mends, such as bad SQL, a broken constraint or a value
// that cannot be scanned. That is our own bug, and is answered as such.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	if !isTransient(err) {
		return clean(err)
	}
	return fault.New(fault.Unavailable, "The database does not answer at the moment. Try again shortly.").
		After(5 * time.Second).Because(clean(err))
}

// isTransient reports whether the same statement may succeed later: no connection, a time-out, a lock,
// a disk that is full or cannot be written, a transaction that lost against another.
func isTransient(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return slices.Contains(transientSQLite[:], e.Code()&0xff) // the upper bits tell more about the same
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return len(e.Code) == 5 && (slices.Contains(transientClasses[:], e.Code[:2]) || slices.Contains(transientStates[:], e.Code))
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, target := range []error{
		context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF,
		driver.ErrBadConn, sql.ErrConnDone, sql.ErrTxDone, // a transaction is done when its context ends
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return pgconn.SafeToRetry(err) || err.Error() == errDatabaseClosed
}

// errDatabaseClosed is the text of an error that database/sql does not export: the process is stopping.
const errDatabaseClosed = "sql: database is closed"

var transientSQLite = [...]int{
	sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
	sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
	sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_SCHEMA,
}

// transientClasses and transientStates are PostgreSQL's: connection, rolled back in favour of another,
// out of resources, operator intervention, system error; read-only, in use, locked.
var (
	transientClasses = [...]string{"08", "40", "53", "57", "58"}
	transientStates  = [...]string{"25006", "55006", "55P03"}
)

// clean removes what a driver's error may hold of the connection string: user, host, password.
func clean(err error) error {
	if pg, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("connect to PostgreSQL: %w", pg.Unwrap())
	}
	return err
}

// isUnique reports whether err is a unique index refusing a row.
func isUnique(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "23505"
	}
	return false
}
