package sqlstore

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"sluice/internal/kit/fault"
)

// unavailable turns the error of a database that cannot serve at the moment into a fault that says
// so. All other errors pass: faults, and errors that no retry can fix, such as bad SQL, a violated
// constraint, or a value that cannot be scanned. The latter are bugs and are reported as such.
// Errors of statements and transactions pass through here before they leave the kernel.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err
	}
	// SQLSTATE character_not_in_repertoire: NUL, or bytes that are not UTF-8. Doors refuse most of them; this is for text
	// inside JSON.
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "22021" {
		return fault.New(fault.Invalid, "The request holds a NUL character, or bytes that are not UTF-8. Send text only.").Because(Clean(err))
	}
	if !isTransient(err) {
		return Clean(err)
	}
	return unanswered(Clean(err))
}

// unanswered is the fault of a database that cannot serve at the moment.
func unanswered(err error) error {
	return fault.New(fault.Unavailable, "The database does not answer at the moment. Try again shortly.").After(5 * time.Second).Because(err)
}

// checkPatience is how long the start of a server looks for damage in a SQLite database. A few hundred megabytes can be
// read in that time. Of a larger database only a part is checked.
const checkPatience = 10 * time.Second

// ErrDamaged means that pages of the SQLite database are damaged.
var ErrDamaged = errors.New("the database is damaged")

// refuseDamaged returns an error if the pages of a SQLite database do not fit together. A server on it would
// serve for a while and then lose data.
func (s *Store) refuseDamaged(ctx context.Context) error {
	if s.engine != SQLite {
		return nil
	}
	_, err := s.lookForDamage(ctx, "quick_check", checkPatience)
	return err
}

// CheckPages reads every page of the SQLite database in a folder and compares indexes with their tables, for as long as
// patience lasts. It returns an error that wraps ErrDamaged if something does not fit, and reports whether everything was
// read. Servers may be using the database.
func CheckPages(ctx context.Context, dir string, patience time.Duration) (all bool, err error) {
	s := &Store{}
	if err := s.connect("sqlite", dir); err != nil {
		return false, err
	}
	defer s.Close()
	return s.lookForDamage(ctx, "integrity_check", patience)
}

// lookForDamage runs one of the two checks of SQLite: quick_check, which reads 70 MB a second, or integrity_check, which
// also compares indexes with their tables and reads 18.
func (s *Store) lookForDamage(ctx context.Context, check string, patience time.Duration) (all bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var verdict string
	err = s.Long(ctx, func(ctx context.Context) error {
		return s.read.scan(ctx, `PRAGMA `+check+`(1)`, &verdict)
	})
	switch {
	case isDamage(err):
		verdict = err.Error()
	case err != nil || verdict == "ok": // other troubles are reported by the next step, which meets them, too
		return err == nil, nil
	}
	return true, fmt.Errorf("%w: %s: %s; %s", ErrDamaged, s.path, strings.Join(strings.Fields(verdict), " "), restoreAdvice(s.path))
}

// isDamage reports whether SQLite has met a page that makes no sense.
func isDamage(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_CORRUPT || e.Code()&0xff == sqlite3.SQLITE_NOTADB)
}

// isTransient reports whether the same statement may succeed later: there is no connection, a
// timeout expired, a row is locked, the disk is full or read-only, or the transaction lost a
// conflict with another one.
func isTransient(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return slices.Contains(transientSQLite[:], e.Code()&0xff) // the upper bits only refine the primary code
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return len(e.Code) == 5 && (slices.Contains(transientClasses[:], e.Code[:2]) || slices.Contains(transientStates[:], e.Code))
	}
	// The server could not be reached, or refused the connection.
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	for _, target := range []error{
		context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF,
		driver.ErrBadConn, sql.ErrConnDone, sql.ErrTxDone, // database/sql rolls a transaction back when its context ends
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return pgconn.SafeToRetry(err) || err.Error() == errDatabaseClosed
}

// errDatabaseClosed is the text of an error that database/sql does not export. It means that the
// process is stopping.
const errDatabaseClosed = "sql: database is closed"

// transientSQLite are primary result codes. PERM, READONLY, IOERR and CANTOPEN are among them
// because an operator can fix the file's permissions or the disk while the process runs.
var transientSQLite = [...]int{
	sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
	sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
	sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_SCHEMA,
}

// transientClasses and transientStates are SQLSTATE codes of PostgreSQL: connection exception (08),
// transaction rollback (40), insufficient resources (53), operator intervention (57), system error
// (58); and read-only transaction (25006), object in use (55006), lock not available (55P03).
var (
	transientClasses = [...]string{"08", "40", "53", "57", "58"}
	transientStates  = [...]string{"25006", "55006", "55P03"}
)

// Clean removes the connection string (user, host, password) that a driver's error may contain.
func Clean(err error) error {
	if pg, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("connect to PostgreSQL: %w", pg.Unwrap())
	}
	return err
}

// IsUnique reports whether err is the violation of a unique index or a primary key.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		// SQLSTATE unique_violation.
		return e.Code == "23505"
	}
	return false
}

// isUnanswered reports whether err says that the database gave no answer. An error that the database has sent
// is one, unless it is just starting or stopping.
// A busy SQLite counts as one that has not answered: its writer was taken for the whole patience.
func isUnanswered(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return len(e.Code) == 5 && e.Code[:3] == "57P" // shutting down, crashed, not ready yet
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code := e.Code() & 0xff
		return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_INTERRUPT
	}
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return false // a rule has refused what it read
	}
	return isTransient(err)
}

// ErrAway means that PostgreSQL cannot be reached, is starting, or takes no more connections. Whoever opens a Store can
// try again later. Other errors of opening, such as a wrong password or an unknown database, stay.
var ErrAway = errors.New("PostgreSQL is not available")

// isAway reports whether opening a PostgreSQL may succeed later without a change of the configuration.
func isAway(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return isUnanswered(err) || e.Code == "53300" // too many connections
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	// The driver has no type for a server without TLS.
	if strings.Contains(err.Error(), "refused TLS") {
		return false
	}
	return isUnanswered(err)
}

// isRefusal reports whether err says that the database answers but stores nothing.
func isRefusal(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "25006" || e.Code == "53100" // read-only, disk full
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return slices.Contains(refusals[:], e.Code()&0xff)
	}
	return false
}

// refusals are primary result codes of SQLite.
var refusals = [...]int{
	sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN,
	sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
}
