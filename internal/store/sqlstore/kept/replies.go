package kept

import (
	"context"
	"time"

	"sluice/internal/line/idempotency"
	"sluice/internal/store/sqlstore"
)

// replyShelf is the table of replies. The one with the id $3 stays.
var replyTable = table{
	rows: "idempotent_replies", sums: "idempotent_sizes", others: "id <> $3",
	over: "bytes > $2", doomed: "s.bytes - o.older > $2",
}

// FindReply returns the sealed reply with the given id, or nil if there is none or it has expired.
func (s *Store) FindReply(ctx context.Context, id []byte, now time.Time) ([]byte, error) {
	return sqlstore.Optional[[]byte](s.db.Read(ctx), `SELECT sealed FROM idempotent_replies WHERE id = $1 AND expires_at > $2`, id, now)
}

// KeepReply stores a record unless there is one with the same id that has not expired. If all
// records of the account would then exceed most bytes, its oldest ones are deleted. The record's claim
// ends in the same transaction, so whoever finds the key free also finds the reply.
func (s *Store) KeepReply(ctx context.Context, r *idempotency.Record, now time.Time, most int64) error {
	size := int64(len(r.Sealed))
	// What follows reads the sizes under the lock, so no other transaction can change them.
	lock := replyTable.add(uses{accountID: r.AccountID})
	steps := []sqlstore.Step{lock}
	if r.Claim != nil {
		steps = append(steps, dropClaim(r.Claim))
	}
	// A record with this id that has expired makes way; another one is that of a node that was faster, and stays.
	steps = append(steps, sqlstore.Step{
		Query: `UPDATE idempotent_sizes SET bytes = bytes + $2 - COALESCE((SELECT size FROM idempotent_replies WHERE id = $3), 0)
			WHERE account_id = $1 AND NOT EXISTS (SELECT 1 FROM idempotent_replies WHERE id = $3 AND expires_at > $4)`,
		Args: []any{r.AccountID, size, r.ID, now},
	})
	var deleted int64
	steps = append(steps, replyTable.trim(&deleted, r.AccountID, most, r.ID)...)
	steps = append(steps, sqlstore.Step{
		Query: `INSERT INTO idempotent_replies (id, account_id, size, expires_at, sealed) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (id) DO UPDATE SET size = excluded.size, expires_at = excluded.expires_at, sealed = excluded.sealed WHERE idempotent_replies.expires_at <= $6`,
		Args: []any{r.ID, r.AccountID, size, r.ExpiresAt, r.Sealed, now},
	})
	err := s.db.Together(ctx, steps)
	for err == nil && deleted >= trimAtOnce {
		err = s.db.Together(ctx, append([]sqlstore.Step{lock}, replyTable.trim(&deleted, r.AccountID, most, r.ID)...))
	}
	return err
}

// DropReplies deletes up to most expired records and returns how many it deleted.
func (s *Store) DropReplies(ctx context.Context, now time.Time, most int) (int, error) {
	return s.dropExpired(ctx, &replyTable, now, most)
}
