package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/internal/line/idempotency"
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
	seek.row = []any{&sealed, &body}
	err = s.together(ctx, []step{{
		query: `INSERT INTO idempotent_claims (id, body, holder, serial, until_at)
			SELECT $1, $2, $3, $4, ` + s.Clock() + ` + $5 WHERE NOT EXISTS (SELECT 1 FROM idempotent_replies WHERE id = $1 AND expires_at > $6)
			ON CONFLICT (id) DO UPDATE SET body = excluded.body, holder = excluded.holder, serial = excluded.serial, until_at = excluded.until_at
			WHERE idempotent_claims.until_at <= ` + s.Clock() + ` OR idempotent_claims.holder = excluded.holder`,
		args: []any{c.ID, c.Body, c.Holder, c.Serial, life.Milliseconds(), millis(now)}, changed: &claimed,
	}, seek})
	return err == nil && claimed == 1, sealed, body, err
}

// SeekReply returns the sealed reply with the id, if it has not expired, and the body of the claim on it, if
// one is in force. Either is nil if there is none. One statement reads both, so a reply that is kept
// meanwhile cannot be missed between the two.
func (s *Store) SeekReply(ctx context.Context, id []byte, now time.Time) (sealed, body []byte, err error) {
	seek := s.seekReply(id, now)
	err = s.read.QueryRowContext(ctx, seek.query, seek.args...).Scan(&sealed, &body)
	return sealed, body, unavailable(err)
}

// seekReply returns the statement of SeekReply.
func (s *Store) seekReply(id []byte, now time.Time) step {
	return step{query: `SELECT (SELECT sealed FROM idempotent_replies WHERE id = $1 AND expires_at > $2),
		(SELECT body FROM idempotent_claims WHERE id = $1 AND until_at > ` + s.Clock() + `)`, args: []any{id, millis(now)}}
}

// RenewClaims extends the holder's claims on the ids. A claim that has lapsed is extended, too, if nobody
// has taken it meanwhile.
func (s *Store) RenewClaims(ctx context.Context, holder string, ids [][]byte, life time.Duration) error {
	for len(ids) > 0 {
		part := ids[:min(len(ids), renewAtOnce)]
		ids = ids[len(part):]
		args := []any{holder, life.Milliseconds()}
		for i := range renewAtOnce {
			args = append(args, part[min(i, len(part)-1)])
		}
		_, err := s.write.ExecContext(ctx, `UPDATE idempotent_claims SET until_at = `+s.Clock()+` + $2 WHERE holder = $1 AND id IN (`+numbered(3, renewAtOnce)+`)`, args...)
		if err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// DropClaim ends a claim. A claim of another holder, or a later one of the same, stays.
func (s *Store) DropClaim(ctx context.Context, c *idempotency.Claim) error {
	drop := dropClaim(c)
	_, err := s.write.ExecContext(ctx, drop.query, drop.args...)
	return unavailable(err)
}

// dropClaim returns the statement of DropClaim.
func dropClaim(c *idempotency.Claim) step {
	return step{query: `DELETE FROM idempotent_claims WHERE id = $1 AND holder = $2 AND serial = $3`, args: []any{c.ID, c.Holder, c.Serial}}
}

// dropClaims deletes up to most claims that have lapsed: those of nodes that died while nobody waited. The
// table has a row for each running call that has a key, so it needs no index on the time, which every
// renewal would have to change.
func (s *Store) dropClaims(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.deleteSome(ctx, "idempotent_claims", `until_at <= `+s.Clock(), most)
}

// deleteSome deletes up to most rows of a table whose primary key is id, and returns how many it deleted. On
// PostgreSQL it leaves out rows that somebody else has locked: waiting for them could end in a deadlock with a
// statement that locks several rows, too. The table and the condition are constants.
func (s *Store) deleteSome(ctx context.Context, table, where string, most int) (int, error) {
	skip := ""
	if s.engine == Postgres {
		skip = ` FOR UPDATE SKIP LOCKED`
	}
	res, err := s.write.ExecContext(ctx, `DELETE FROM `+table+` WHERE id IN (SELECT id FROM `+table+` WHERE `+where+` LIMIT $1`+skip+`)`, most)
	if err != nil {
		return 0, unavailable(err)
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// numbered returns n placeholders from $first on, for a list in an IN clause.
func numbered(first, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", first+i)
	}
	return b.String()
}
