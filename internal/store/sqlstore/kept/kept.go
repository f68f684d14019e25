// Package kept stores what later requests need of earlier ones: replies by Idempotency-Key and the claims on them, stored
// responses, states of tool calls, and the models of conversations; and the conversations that their owners share.
//
// Store implements the interfaces of packages idempotency, responses, continuation, routing and sharing.
package kept

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/store/sqlstore"
)

// Store is the part of a database that keeps what later requests need.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db: db} }

// Expiring returns what expires.
func (s *Store) Expiring() []sqlstore.Expiring {
	return []sqlstore.Expiring{
		{What: "replies", Drop: s.DropReplies, AtOnce: sqlstore.DropLarge},
		{What: "states of tool calls", Drop: s.DropStates, AtOnce: sqlstore.DropLarge},
		{What: "responses", Drop: s.DropResponses, AtOnce: sqlstore.DropLarge},
		{What: "shared conversations", Drop: s.DropShares, AtOnce: sqlstore.DropLarge},
		{What: "claims of dead nodes", Drop: s.dropClaims, AtOnce: sqlstore.DropSmall},
		{What: "models of conversations", Drop: s.dropConversations, AtOnce: sqlstore.DropSmall},
	}
}

// trimAtOnce is how many rows one trim looks at, and deletes at most. Only a row that is as large as hundreds of others needs
// another.
const trimAtOnce = 256

// table names a table of rows that have an id, an account_id, a size and an expires_at, and the table of their sums, which
// has a row for each account.
type table struct {
	rows, sums string
	entries    bool // the sums have the number of rows, too; then an account without rows has no sums

	// For trim alone.
	over   string // of the sums: they exceed the bound, which is $2 and on
	doomed string // of row number o.n, the oldest being 1, before which those have o.older bytes: the sums s exceed the bound without those
	others string // which rows may go; its argument is $4
}

// uses is the number and size of an account's rows.
type uses struct {
	accountID      string
	entries, bytes int64
}

// add returns the statement that adds to the sums of an account. The upsert makes its transaction the only one that can
// change the account's rows, and creates the row of the sums if it is missing.
func (t *table) add(u uses) sqlstore.Step {
	query := `INSERT INTO ` + t.sums + ` (account_id, bytes) VALUES ($1, $2)
		ON CONFLICT (account_id) DO UPDATE SET bytes = ` + t.sums + `.bytes + excluded.bytes`
	if !t.entries {
		return sqlstore.Step{Query: query, Args: []any{u.accountID, u.bytes}}
	}
	return sqlstore.Step{
		Query: `INSERT INTO ` + t.sums + ` (account_id, entries, bytes) VALUES ($1, $2, $3) ON CONFLICT (account_id) DO UPDATE
			SET entries = ` + t.sums + `.entries + excluded.entries, bytes = ` + t.sums + `.bytes + excluded.bytes`,
		Args: []any{u.accountID, u.entries, u.bytes},
	}
}

// lock makes this transaction the only one that can change the account's rows, and returns how much they take.
func (t *table) lock(tx *sqlstore.Conn, accountID string) (*uses, error) {
	step, number := t.add(uses{accountID: accountID}), `0`
	if t.entries {
		number = `entries`
	}
	return sqlstore.One(tx, func(row sqlstore.Row, u *uses) error {
		u.accountID = accountID
		return row.Scan(&u.entries, &u.bytes)
	}, step.Query+` RETURNING `+number+`, bytes`, step.Args...)
}

// remove deletes one row and subtracts it from the sums that u has. It reports whether there was one. Rows of others, and
// those that were stored before the sums existed, which have no account, are not in the sums.
func (t *table) remove(tx *sqlstore.Conn, u *uses, where string, args ...any) (bool, error) {
	gone, err := sqlstore.One(tx, func(row sqlstore.Row, gone *uses) error {
		return row.Scan(&gone.accountID, &gone.bytes)
	}, `DELETE FROM `+t.rows+` WHERE `+where+` RETURNING account_id, size`, args...)
	if err != nil || gone == nil {
		return false, err
	}
	if gone.accountID == u.accountID && u.accountID != "" {
		u.entries--
		u.bytes -= gone.bytes
	}
	return true, nil
}

// store stores the sums.
func (t *table) store(tx *sqlstore.Conn, u *uses) error {
	switch {
	case !t.entries:
		return tx.Exec(`UPDATE `+t.sums+` SET bytes = $2 WHERE account_id = $1`, u.accountID, u.bytes)
	case u.entries == 0:
		return tx.Exec(`DELETE FROM `+t.sums+` WHERE account_id = $1`, u.accountID)
	}
	return tx.Exec(`UPDATE `+t.sums+` SET entries = $2, bytes = $3 WHERE account_id = $1`, u.accountID, u.entries, u.bytes)
}

// rowID identifies a row and its account.
type rowID struct {
	accountID string
	id        []byte
}

// drop deletes the rows that a clause selects and returns how many it deleted. One that meanwhile expires after before
// was replaced, and stays.
func (t *table) drop(tx *sqlstore.Conn, before any, clause string, args ...any) (dropped int, err error) {
	// Read all ids before deleting: on PostgreSQL a connection cannot run statements while rows are
	// open.
	found, err := sqlstore.All(tx, func(row sqlstore.Row, r *rowID) error { return row.Scan(&r.accountID, &r.id) },
		`SELECT account_id, id FROM `+t.rows+` `+clause, args...)
	if err != nil {
		return 0, err
	}
	// Lock the accounts in the same order on all nodes, so that they cannot deadlock.
	slices.SortStableFunc(found, func(a, b rowID) int { return strings.Compare(a.accountID, b.accountID) })
	for len(found) > 0 {
		have, err := t.lock(tx, found[0].accountID)
		if err != nil {
			return 0, err
		}
		// All rows of one account, under one lock. One that another node has deleted is not there any more.
		for ; len(found) > 0 && found[0].accountID == have.accountID; found = found[1:] {
			gone, err := t.remove(tx, have, `id = $1 AND expires_at <= $2`, found[0].id, before)
			if err != nil {
				return 0, err
			}
			if gone {
				dropped++
			}
		}
		if err := t.store(tx, have); err != nil {
			return 0, err
		}
	}
	return dropped, nil
}

// dropOne deletes a row of an account, and reports whether it was there. The table counts rows.
func (t *table) dropOne(ctx context.Context, db *sqlstore.Store, accountID string, id []byte) (bool, error) {
	return sqlstore.InTx(ctx, db, func(tx *sqlstore.Conn) (bool, error) {
		have, err := t.lock(tx, accountID)
		if err != nil {
			return false, err
		}
		dropped, err := t.remove(tx, have, `id = $1 AND account_id = $2`, id, accountID)
		if err != nil {
			return false, err
		}
		return dropped, t.store(tx, have)
	})
}

// forget deletes all rows of an account.
func (t *table) forget(ctx context.Context, db *sqlstore.Store, accountID string) error {
	return db.Tx(ctx, func(tx *sqlstore.Conn) error {
		if _, err := t.lock(tx, accountID); err != nil {
			return err
		}
		tx.Do(`DELETE FROM `+t.rows+` WHERE account_id = $1`, accountID)
		return tx.Exec(`DELETE FROM `+t.sums+` WHERE account_id = $1`, accountID)
	})
}

// dropExpired deletes up to most rows that have expired and returns how many it deleted.
func (s *Store) dropExpired(ctx context.Context, t *table, now time.Time, most int) (int, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (int, error) {
		return t.drop(tx, now, `WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`, now, most)
	})
}

// trim returns the statements that delete the oldest rows of an account until its sums hold the bound, and where they note
// how many they have deleted. The sums may count rows that are about to be inserted. The transaction has locked the
// account's row of the sums by writing to it.
//
// The rows are marked first, with a time that no row has. So the same text serves both engines: SQLite cannot use the rows
// that a DELETE returns in another statement.
func (t *table) trim(deleted *int64, accountID string, args ...any) []sqlstore.Step {
	marked := ` FROM ` + t.rows + ` WHERE account_id = $1 AND expires_at = 0`
	less := `bytes = bytes - (SELECT COALESCE(SUM(size), 0)` + marked + `)`
	if t.entries {
		less += `, entries = entries - (SELECT COUNT(*)` + marked + `)`
	}
	args = append([]any{accountID}, args...)
	return []sqlstore.Step{
		{Query: `UPDATE ` + t.rows + ` SET expires_at = 0 WHERE id IN (SELECT o.id FROM ` + t.sums + ` s, (
			SELECT id, ROW_NUMBER() OVER w AS n, CAST(SUM(size) OVER w AS BIGINT) - size AS older FROM (
				SELECT id, size, expires_at FROM ` + t.rows + ` WHERE account_id = $1 AND ` + t.others + `
				AND EXISTS (SELECT 1 FROM ` + t.sums + ` WHERE account_id = $1 AND (` + t.over + `)) ORDER BY expires_at LIMIT ` + strconv.Itoa(trimAtOnce) + `) AS oldest
			WINDOW w AS (ORDER BY expires_at, id)) AS o WHERE s.account_id = $1 AND (` + t.doomed + `))`, Args: args},
		{Query: `UPDATE ` + t.sums + ` SET ` + less + ` WHERE account_id = $1 AND EXISTS (SELECT 1` + marked + `)`, Args: args[:1]},
		{Query: `DELETE` + marked, Args: args[:1], Changed: deleted},
	}
}
