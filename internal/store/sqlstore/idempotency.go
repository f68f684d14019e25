package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/internal/line/idempotency"
)

// FindReply returns the sealed reply with the given id, or nil if there is none or it has expired.
func (s *Store) FindReply(ctx context.Context, id []byte, now time.Time) ([]byte, error) {
	return s.findSealed(ctx, `SELECT sealed FROM idempotent_replies WHERE id = $1 AND expires_at > $2`, id, now)
}

// replyShelf is the table of replies. The one with the id $3 stays.
var replyShelf = shelf{
	rows: "idempotent_replies", sums: "idempotent_sizes", others: "id <> $3",
	over: "bytes > $2", doomed: "s.bytes - o.older > $2",
}

// KeepReply stores a record unless there is one with the same id that has not expired. If all
// records of the account would then exceed most bytes, its oldest ones are deleted. The record's claim
// ends in the same transaction, so whoever finds the key free also finds the reply.
func (s *Store) KeepReply(ctx context.Context, r *idempotency.Record, now time.Time, most int64) error {
	size := int64(len(r.Sealed))
	// What follows reads the sizes under the lock, so no other transaction can change them.
	steps := []step{lockedReplies(r.AccountID)}
	if r.Claim != nil {
		steps = append(steps, dropClaim(r.Claim))
	}
	// A record with this id that has expired makes way; another one is that of a node that was faster, and stays.
	steps = append(steps, step{
		query: `UPDATE idempotent_sizes SET bytes = bytes + $2 - COALESCE((SELECT size FROM idempotent_replies WHERE id = $3), 0)
			WHERE account_id = $1 AND NOT EXISTS (SELECT 1 FROM idempotent_replies WHERE id = $3 AND expires_at > $4)`,
		args: []any{r.AccountID, size, r.ID, millis(now)},
	})
	var deleted int64
	steps = append(steps, replyShelf.trim(&deleted, r.AccountID, most, r.ID)...)
	steps = append(steps, step{
		query: `INSERT INTO idempotent_replies (id, account_id, size, expires_at, sealed) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE SET size = excluded.size, expires_at = excluded.expires_at, sealed = excluded.sealed WHERE idempotent_replies.expires_at <= $6`,
		args: []any{r.ID, r.AccountID, size, millis(r.ExpiresAt), r.Sealed, millis(now)},
	})
	err := s.together(ctx, steps)
	for err == nil && deleted >= trimAtOnce {
		err = s.together(ctx, append([]step{lockedReplies(r.AccountID)}, replyShelf.trim(&deleted, r.AccountID, most, r.ID)...))
	}
	return err
}

// DropReplies deletes up to most expired records and returns how many it deleted.
func (s *Store) DropReplies(ctx context.Context, now time.Time, most int) (int, error) {
	dropped := 0
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// Read all ids before deleting: on PostgreSQL a connection cannot run statements while rows
		// are open.
		old, err := expiredReplies(ctx, tx, now, most)
		if err != nil {
			return err
		}
		// Lock the accounts in the same order on all nodes, so that they cannot deadlock.
		slices.SortFunc(old, func(a, b expiredReply) int { return strings.Compare(a.accountID, b.accountID) })
		for len(old) > 0 {
			account := old[0].accountID
			total, err := lockReplies(ctx, tx, account)
			if err != nil {
				return err
			}
			// All records of one account, under one lock.
			for ; len(old) > 0 && old[0].accountID == account; old = old[1:] {
				size, err := deleteReply(ctx, tx, old[0].id, now)
				if err != nil {
					return err
				}
				if size > 0 { // else it was replaced in the meantime
					total -= size
					dropped++
				}
			}
			if err := setRepliesSize(ctx, tx, account, total); err != nil {
				return err
			}
		}
		return nil
	})
	return dropped, err
}

// expiredReply identifies a record and its account.
type expiredReply struct {
	accountID string
	id        []byte
}

// expiredReplies returns up to most expired records, oldest first.
func expiredReplies(ctx context.Context, tx *sql.Tx, now time.Time, most int) ([]expiredReply, error) {
	var out []expiredReply
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var r expiredReply
		if err := rows.Scan(&r.accountID, &r.id); err != nil {
			return err
		}
		out = append(out, r)
		return nil
	}, `SELECT account_id, id FROM idempotent_replies WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`, millis(now), most)
	return out, err
}

// lockReplies makes this transaction the only one that can change the account's records, and
// returns their total size in bytes.
func lockReplies(ctx context.Context, tx *sql.Tx, accountID string) (total int64, err error) {
	lock := lockedReplies(accountID)
	err = tx.QueryRowContext(ctx, lock.query+` RETURNING bytes`, lock.args...).Scan(&total)
	return total, err
}

// lockedReplies returns the statement of lockReplies. The upsert takes the lock and creates the row if it is missing.
func lockedReplies(accountID string) step {
	return step{query: `INSERT INTO idempotent_sizes (account_id, bytes) VALUES ($1, 0)
		ON CONFLICT (account_id) DO UPDATE SET bytes = idempotent_sizes.bytes`, args: []any{accountID}}
}

// setRepliesSize stores the total size of an account's records.
func setRepliesSize(ctx context.Context, tx *sql.Tx, accountID string, total int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE idempotent_sizes SET bytes = $2 WHERE account_id = $1`, accountID, total)
	return err
}

// deleteReply deletes a record if it has expired and returns its size, or 0 if nothing was deleted.
func deleteReply(ctx context.Context, tx *sql.Tx, id []byte, now time.Time) (size int64, err error) {
	err = tx.QueryRowContext(ctx, `DELETE FROM idempotent_replies WHERE id = $1 AND expires_at <= $2 RETURNING size`, id, millis(now)).Scan(&size)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return size, err
}
