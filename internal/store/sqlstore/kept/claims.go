package kept

import (
	"context"
	"time"

	"sluice/internal/line/idempotency"
	"sluice/internal/store/sqlstore"
)

// renewAtOnce is how many claims one statement renews. A last part that is smaller names one id several
// times, so that there is one statement to prepare and not a thousand.
const renewAtOnce = 64

// ClaimReply takes the claim on an id for the time life, unless it has a reply that has not expired at now,
// or another holder's claim that is still in force. An earlier claim of the same holder is replaced: a
// holder has one turn for each id at a time. It also returns what SeekReply does, with the claim taken.
//
// The claim looks for the reply only to save the write: a reply that is kept at this moment may be missed. SeekReply, which
// looks behind it, finds it.
func (s *Store) ClaimReply(ctx context.Context, c *idempotency.Claim, now time.Time, life time.Duration) (held bool, sealed, body []byte, err error) {
	var claimed int64
	seek := s.seekReply(c.ID, now)
	seek.Row = []any{&sealed, &body}
	err = s.db.Together(ctx, []sqlstore.Step{{
		Query: `INSERT INTO idempotent_claims (id, body, holder, serial, until_at)
			SELECT $1, $2, $3, $4, ` + s.db.Clock() + ` + $5 WHERE NOT EXISTS (SELECT 1 FROM idempotent_replies WHERE id = $1 AND expires_at > $6)
			ON CONFLICT (id) DO UPDATE SET body = excluded.body, holder = excluded.holder, serial = excluded.serial, until_at = excluded.until_at
			WHERE idempotent_claims.until_at <= ` + s.db.Clock() + ` OR idempotent_claims.holder = excluded.holder`,
		Args: []any{c.ID, c.Body, c.Holder, c.Serial, life, now}, Changed: &claimed,
	}, seek})
	return err == nil && claimed == 1, sealed, body, err
}

// SeekReply returns the sealed reply with the id, if it has not expired, and the body of the claim on it, if
// one is in force. Either is nil if there is none. One statement reads both, so a reply that is kept
// meanwhile cannot be missed between the two.
func (s *Store) SeekReply(ctx context.Context, id []byte, now time.Time) (sealed, body []byte, err error) {
	seek := s.seekReply(id, now)
	_, err = sqlstore.One(s.db.Read(ctx), func(row sqlstore.Row, _ *struct{}) error { return row.Scan(&sealed, &body) }, seek.Query, seek.Args...)
	return sealed, body, err
}

// seekReply returns the statement of SeekReply.
func (s *Store) seekReply(id []byte, now time.Time) sqlstore.Step {
	return sqlstore.Step{Query: `SELECT (SELECT sealed FROM idempotent_replies WHERE id = $1 AND expires_at > $2),
		(SELECT body FROM idempotent_claims WHERE id = $1 AND until_at > ` + s.db.Clock() + `)`, Args: []any{id, now}}
}

// RenewClaims extends the holder's claims on the ids. A claim that has lapsed is extended, too, if nobody
// has taken it meanwhile.
func (s *Store) RenewClaims(ctx context.Context, holder string, ids [][]byte, life time.Duration) error {
	for len(ids) > 0 {
		part := ids[:min(len(ids), renewAtOnce)]
		ids = ids[len(part):]
		args := []any{holder, life}
		for i := range renewAtOnce {
			args = append(args, part[min(i, len(part)-1)])
		}
		err := s.db.Write(ctx).Exec(`UPDATE idempotent_claims SET until_at = `+s.db.Clock()+` + $2 WHERE holder = $1 AND id IN (`+sqlstore.Numbered(3, renewAtOnce)+`)`, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// DropClaim ends a claim. A claim of another holder, or a later one of the same, stays.
func (s *Store) DropClaim(ctx context.Context, c *idempotency.Claim) error {
	drop := dropClaim(c)
	return s.db.Write(ctx).Exec(drop.Query, drop.Args...)
}

// dropClaim returns the statement of DropClaim.
func dropClaim(c *idempotency.Claim) sqlstore.Step {
	return sqlstore.Step{Query: `DELETE FROM idempotent_claims WHERE id = $1 AND holder = $2 AND serial = $3`, Args: []any{c.ID, c.Holder, c.Serial}}
}

// dropClaims deletes up to most claims that have lapsed: those of nodes that died while nobody waited. The
// table has a row for each running call that has a key, so it needs no index on the time, which every
// renewal would have to change.
func (s *Store) dropClaims(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.db.DeleteSome(ctx, "idempotent_claims", `until_at <= `+s.db.Clock(), most)
}
