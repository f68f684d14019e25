package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// The states of the table transfers.
const (
	stateCopying = "copying" // this database is being filled; it is not complete
	stateCopied  = "copied"  // this database was filled and is complete
	stateMoved   = "moved"   // this database was copied to another one, which took its place
)

// transferLock is the advisory lock that a Transfer holds on its target. The number has no meaning.
const transferLock = 0x736c75696365

// closePatience is how long Close waits for the target. What it cannot release ends with the connection.
const closePatience = 5 * time.Second

// Transfer copies a whole installation from SQLite to PostgreSQL.
//
// It may be interrupted at any time and started again, and the source may have changed meanwhile: Copy
// compares both sides row by row and writes only what differs, so it is exact however often it runs.
// While a copy is incomplete, the target holds no foreign keys, and Open refuses it. Finish puts the
// foreign keys back and marks both sides.
//
// The order of use is Examine, OpenTarget, NewTransfer, Begin, Copy, Compare, Finish, Close.
type Transfer struct {
	from, to *Store
	id       string // of the installation
	lock     *sql.Conn
	tables   []*table
	// Mended counts the texts that had characters which PostgreSQL cannot store.
	Mended int64
}

// TransferState is what a target holds, as far as a Transfer from one installation is concerned.
type TransferState string

const (
	Empty      TransferState = "empty"      // no data of anybody
	Incomplete TransferState = "incomplete" // a copy of the same installation that was interrupted
	Complete   TransferState = "complete"   // a complete copy of the same installation
)

// move is a row of the table transfers.
// restore holds the statements that put the foreign keys back, one per line, while the state is
// copying.
type move struct {
	installation, state string
	at                  time.Time
	restore             string
}

// transfers returns the moves that the database takes part in.
func (s *Store) transfers(ctx context.Context) ([]move, error) {
	return All(s.Read(ctx), func(row Row, m *move) error {
		return row.Scan(&m.installation, &m.state, &m.at, &m.restore)
	}, `SELECT installation, state, at, restore FROM transfers`)
}

// refuseTransfer returns an error if no server may use the database.
func (s *Store) refuseTransfer(ctx context.Context) error {
	moves, err := s.transfers(ctx)
	if err != nil {
		return fmt.Errorf("open the %s database: %w", s.engine, err)
	}
	return unserved(s.engine, moves)
}

// unserved says why a database is not served, or nil.
func unserved(engine Engine, moves []move) error {
	for _, m := range moves {
		switch m.state {
		case stateCopying:
			return fmt.Errorf("this %s database holds an unfinished copy of another one: run the same \"sluice migrate\" again to complete it", engine)
		case stateMoved:
			return fmt.Errorf("this %s database was moved to PostgreSQL on %s: set database to the address of that one; to use this one again and give the other up, run \"sluice migrate --cancel\"", engine, m.at.Format("2006-01-02 15:04 UTC"))
		}
	}
	return nil
}

// OpenSource opens the SQLite database in a folder that the caller has locked, even if it was moved.
// Missing migrations are applied: both sides of a Transfer need the same tables.
func OpenSource(ctx context.Context, dir string) (*Store, error) {
	return openExisting(ctx, dir, (*Store).migrate)
}

// ReadSource opens the SQLite database in a folder that a server holds. It only reads.
func ReadSource(ctx context.Context, dir string) (*Store, error) {
	return openExisting(ctx, dir, (*Store).refuseOther)
}

// PeekSource opens the SQLite database in a folder to look at it, whatever its version.
func PeekSource(ctx context.Context, dir string) (s *Store, in Inspection, err error) {
	s, err = openExisting(ctx, dir, func(s *Store, ctx context.Context) (err error) {
		in, err = s.Inspect(ctx)
		return err
	})
	return s, in, err
}

// openExisting is open for a SQLite database that is there, which open would create.
func openExisting(ctx context.Context, dir string, steps ...func(*Store, context.Context) error) (*Store, error) {
	if _, err := os.Stat(filepath.Join(dir, File)); err != nil {
		return nil, fmt.Errorf("there is no SQLite database in %s: name the data folder of the installation that is to be moved with --from", dir)
	}
	return open(ctx, "sqlite", dir, steps...)
}

// Sizes returns how many rows each table has that a Transfer would copy. Tables that an older version does not have are
// left out.
func (s *Store) Sizes(ctx context.Context) ([]Comparison, error) {
	var out []Comparison
	for _, name := range copied {
		there, err := Value[bool](s.Read(ctx), `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1)`, name)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		n, err := s.Count(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, Comparison{Table: name, Rows: n})
	}
	return out, nil
}

// refuseOther returns an error unless the tables are those of this program.
func (s *Store) refuseOther(ctx context.Context) error {
	in, err := s.Inspect(ctx)
	if err != nil {
		return err
	}
	if in.Version != in.Known {
		return fmt.Errorf("the server that runs there has tables of version %d and this program of version %d: use the same version of sluice for both, or stop the server", in.Version, in.Known)
	}
	return nil
}

// OpenTarget opens a PostgreSQL database as the target of a Transfer and applies missing migrations. Call
// Examine first: it refuses what must not be written to.
func OpenTarget(ctx context.Context, url string) (*Store, error) {
	return open(ctx, url, "", (*Store).migrate)
}

// ReadKey opens the data key with the first of the secrets that fits, without writing anything.
func (s *Store) ReadKey(ctx context.Context, secrets ...string) error {
	sealed, err := s.Sealed(ctx)
	if err != nil {
		return err
	}
	for _, secret := range secrets {
		if raw, err := rootBox(secret).Open(sealed); err == nil {
			return s.setKey(raw)
		}
	}
	return ErrWrongSecret
}

// installation identifies the installation: whoever has the same data key is the same one. The store
// must be unlocked.
func (s *Store) installation() string {
	id := s.key.Box("installation", "", "").ID()
	return hex.EncodeToString(id[:])
}

// Examine looks at a PostgreSQL database without changing it, and returns what it means as the target for
// the installation of from. A database that must not be written to is an error.
func Examine(ctx context.Context, from *Store, url string) (TransferState, error) {
	to, err := open(ctx, url, "")
	if err != nil {
		return "", err
	}
	defer to.Close()
	in, err := to.Inspect(ctx)
	if err != nil {
		return "", fmt.Errorf("%w; check that PostgreSQL runs, and that the address, user and password in --to are right", err)
	}
	if in.Version > in.Known {
		return "", fmt.Errorf("the target is at version %d and this program knows versions up to %d: use a newer sluice", in.Version, in.Known)
	}
	encoding, err := Value[string](to.Read(ctx), `SHOW server_encoding`)
	if err != nil {
		return "", err
	}
	if encoding != "UTF8" {
		return "", fmt.Errorf("the target stores text as %s: create the database with ENCODING 'UTF8'", encoding)
	}
	return to.transferState(ctx, from.installation())
}

// errForeign means that the target holds data that a Transfer would mix with its own.
var errForeign = errors.New("the target holds data of another installation: name an empty database with --to (createdb makes one)")

// transferState returns what the database holds, as a target of the installation.
// A database takes part in one move at a time, so the first row decides.
func (s *Store) transferState(ctx context.Context, installation string) (TransferState, error) {
	// The table may be missing; then the database is only accepted if it has no rows.
	moves, _ := s.transfers(ctx)
	if len(moves) == 0 {
		return Empty, vacant(s.Read(ctx))
	}
	switch m := moves[0]; {
	case m.installation != installation:
		return "", errForeign
	case m.state == stateCopied:
		return Complete, nil
	}
	return Incomplete, nil
}

// vacant returns an error if a PostgreSQL database holds data of anybody.
func vacant(from *Conn) error {
	for _, name := range copied {
		found, err := Value[bool](from, `SELECT to_regclass($1) IS NOT NULL`, name)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		where := ""
		if name == "counters" { // migrations begin them at 0
			where = " WHERE value <> 0"
		}
		if found, err = Value[bool](from, `SELECT EXISTS (SELECT 1 FROM `+name+where+`)`); err != nil {
			return fmt.Errorf("the target has a table %s that is not Sluice's: name an empty database with --to (createdb makes one): %w", name, err)
		}
		if found {
			return errForeign
		}
	}
	return nil
}

// NewTransfer prepares a Transfer between an unlocked SQLite store and PostgreSQL. Both must be at the
// version of this program. The caller closes the Transfer before the stores.
func NewTransfer(ctx context.Context, from, to *Store) (*Transfer, error) {
	t := &Transfer{from: from, to: to, id: from.installation()}
	for _, s := range []*Store{from, to} {
		if strange, err := s.Strangers(ctx); err != nil {
			return nil, err
		} else if len(strange) > 0 {
			return nil, fmt.Errorf("the %s database has tables that are not Sluice's: %s; move them to another database or schema first", s.engine, strings.Join(strange, ", "))
		}
	}
	for _, name := range copied {
		described, err := describe(ctx, from, to, name)
		if err != nil {
			return nil, err
		}
		t.tables = append(t.tables, described)
	}
	return t, t.take(ctx)
}

// take locks the target against another Transfer. The lock is that of a connection, so it ends with this
// process at the latest.
func (t *Transfer) take(ctx context.Context) (err error) {
	if t.lock, err = t.to.write.conn(ctx); err != nil {
		return unavailable(err)
	}
	var taken bool
	ctx, cancel := within(ctx, t.to.patience.call)
	defer cancel()
	if err := t.lock.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(transferLock)).Scan(&taken); err != nil {
		return errors.Join(unavailable(err), t.Close())
	}
	if !taken {
		_ = t.lock.Close()
		return errors.New("another \"sluice migrate\" is writing to the target: wait until it has ended")
	}
	return nil
}

// Close releases the target.
func (t *Transfer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_, err := t.lock.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(transferLock))
	return errors.Join(unavailable(err), t.lock.Close())
}

// Begin marks the target as being filled and takes its foreign keys away, in one transaction. A target
// that is being filled already stays as it is. One that is complete is not written to again.
func (t *Transfer) Begin(ctx context.Context) (TransferState, error) {
	held, err := t.to.transferState(ctx, t.id)
	if err != nil || held != Empty {
		return held, err
	}
	// The server that LOCK waits for may take its time.
	err = t.to.longTx(ctx, func(tx *Conn) error {
		// A server may have started since the look above. The lock keeps its first rows out until the mark is there.
		tx.Do(`LOCK TABLE ` + strings.Join(copied[:], ", "))
		if err := vacant(tx); err != nil {
			return err
		}
		var drop, restore []string
		err := tx.Each(func(row Row) error {
			var table, name, definition string
			if err := row.Scan(&table, &name, &definition); err != nil {
				return err
			}
			drop = append(drop, fmt.Sprintf(`ALTER TABLE %s DROP CONSTRAINT %s`, table, name))
			restore = append(restore, fmt.Sprintf(`ALTER TABLE %s ADD CONSTRAINT %s %s`, table, name, definition))
			return nil
		}, `SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint
			WHERE contype = 'f' AND connamespace = current_schema()::regnamespace ORDER BY conname`)
		if err != nil {
			return err
		}
		for _, statement := range drop {
			tx.Do(statement)
		}
		return tx.Exec(Insert("transfers", "installation, state, at, restore"), t.id, stateCopying, time.Now(), strings.Join(restore, ";\n"))
	})
	return held, err
}

// Finish puts the foreign keys back, which checks them, and marks the target as complete and the source
// as moved.
// The target comes first: if the process dies in between, both could be served, but neither is
// lost, and the same command completes it.
func (t *Transfer) Finish(ctx context.Context) error {
	now := time.Now()
	err := t.to.longTx(ctx, func(tx *Conn) error {
		restore, err := One(tx, Column[string], `UPDATE transfers SET state = $2, at = $3 WHERE installation = $1 AND state = $4 RETURNING restore`, t.id, stateCopied, now, stateCopying)
		if err != nil || restore == nil { // complete already
			return err
		}
		for statement := range strings.SplitSeq(*restore, ";\n") {
			if statement == "" {
				continue
			}
			if err := tx.Exec(statement); err != nil {
				return fmt.Errorf("restore a foreign key: %w", err)
			}
		}
		return tx.Exec(`ANALYZE`) // the planner knows nothing of the new rows yet
	})
	if err != nil {
		return err
	}
	return t.from.Exec(ctx, `INSERT INTO transfers (installation, state, at, restore) VALUES ($1, $2, $3, '')
		ON CONFLICT (installation) DO NOTHING`, t.id, stateMoved, now)
}

// CancelTransfer makes a database that was moved usable again. It reports whether it was moved.
func (s *Store) CancelTransfer(ctx context.Context) (bool, error) {
	n, err := s.Changed(ctx, `DELETE FROM transfers WHERE state = $1`, stateMoved)
	return n > 0, err
}

// native runs work with a connection of PostgreSQL's own driver, which database/sql hides.
func (s *Store) native(ctx context.Context, work func(*pgx.Conn) error) error {
	conn, err := s.write.conn(ctx)
	if err != nil {
		return unavailable(err)
	}
	defer conn.Close()
	return conn.Raw(func(c any) error { return work(c.(*stdlib.Conn).Conn()) })
}
