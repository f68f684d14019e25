package calls

import (
	"context"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/finder"
	"sluice/internal/operate/signal"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
)

// emailQuery returns the query for addresses that begin with a text. The order is that of bytes on both engines, and an
// index has it; see indexEmails.
func (s *Store) emailQuery() string {
	email := `email COLLATE BINARY`
	if s.db.Engine() == sqlstore.Postgres {
		email = `email COLLATE "C"`
	}
	return `SELECT ` + accounts.Columns + ` FROM accounts WHERE ` + email + ` >= $1 AND ` + email + ` < $2 AND ` + email + ` > $3 ORDER BY ` + email + ` LIMIT $4`
}

// The queries below name the columns of their inner table so that none is a column of accounts.
const (
	idQuery = `SELECT ` + accounts.Columns + `, '', '', '', 0, 0 FROM accounts WHERE id = $1`

	keyQuery = `SELECT ` + accounts.Columns + `, key_id, key_name, last_four, key_master, key_revoked FROM accounts JOIN
		(SELECT account_id AS owner, id AS key_id, name AS key_name, last_four, master AS key_master, CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END AS key_revoked
			FROM api_keys WHERE id = $1) AS k ON id = owner`

	lastFourQuery = `SELECT ` + accounts.Columns + `, key_id, key_name, last_four, key_master, key_revoked FROM accounts JOIN
		(SELECT account_id AS owner, id AS key_id, name AS key_name, last_four, master AS key_master, CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END AS key_revoked
			FROM api_keys WHERE last_four = $1 AND id > $2 ORDER BY id LIMIT $3) AS k ON accounts.id = owner ORDER BY key_id`

	requestQuery = `SELECT ` + accounts.Columns + `, request, asked_at, refused FROM accounts JOIN
		(SELECT account_id AS owner, id AS request, at AS asked_at, 0 AS refused FROM settlements WHERE at >= $3 AND at < $4 AND id = $1
		UNION ALL SELECT account_id, id, at, 0 FROM settlements WHERE request_id = $1 AND request_id <> ''
		UNION ALL SELECT account_id, id, at, 1 FROM refused_calls WHERE id = $1
		UNION ALL SELECT account_id, id, at, 1 FROM refused_calls WHERE request_id = $1 AND request_id <> ''
		LIMIT $2) AS r ON accounts.id = owner ORDER BY asked_at DESC, request`

	settledQuery = `SELECT ` + settlementColumns + corrected + wayColumns + ` FROM settlements WHERE at >= $3 AND at < $4 AND id = $1
		UNION ALL SELECT ` + settlementColumns + corrected + wayColumns + ` FROM settlements WHERE request_id = $1 AND request_id <> '' LIMIT $2`

	refusedQuery = `SELECT ` + refusalColumns + ` FROM refused_calls WHERE id = $1
		UNION ALL SELECT ` + refusalColumns + ` FROM refused_calls WHERE request_id = $1 AND request_id <> '' LIMIT $2`
)

// askFor returns the arguments of requestQuery and settledQuery. Settlements are found by the second that their id
// begins with. If it does not begin so, they are found by request_id; see givenID.
func askFor(id string, limit int) []any {
	from, ok := secondOf(id)
	if !ok {
		return []any{id, limit, int64(0), int64(0)}
	}
	return []any{id, limit, from, from.Add(time.Second)}
}

// secondOf returns the second that the id of a request begins with; see newRequestID in httpapi. Ids of other things
// may look as if they did.
func secondOf(id string) (time.Time, bool) {
	if len(id) != 32 {
		return time.Time{}, false
	}
	n, err := strconv.ParseUint(id[:8], 16, 32)
	return time.Unix(int64(n), 0), err == nil
}

// givenID returns what is stored as request_id: the id that a proxy gave, or the settlement's own if it does not tell
// its time.
func givenID(r *usage.Settlement) string {
	if r.Trace != nil && r.Trace.RequestID != "" {
		return r.Trace.RequestID
	}
	if second, ok := secondOf(r.ID); ok && second.Unix() == r.At.Unix() {
		return ""
	}
	return r.ID
}

// AccountsByEmail returns the accounts whose address begins with a text, after an address.
func (s *Store) AccountsByEmail(ctx context.Context, prefix, after string, limit int) ([]finder.Match, error) {
	// No character is greater than the last one of Unicode, so every address with the prefix is below it.
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, m *finder.Match) error {
		m.Kind, m.Account = finder.ByEmail, &account.Account{}
		return accounts.Scan(row, m.Account)
	}, s.emailQuery(), prefix, prefix+"\U0010ffff", after, limit)
}

// AccountsByID returns the account with an id, or with a key of that id, revoked or not.
func (s *Store) AccountsByID(ctx context.Context, id string) ([]finder.Match, error) {
	out, err := s.matchKeys(ctx, finder.ByID, idQuery, id)
	if err == nil && len(out) == 0 {
		return s.matchKeys(ctx, finder.ByKey, keyQuery, id)
	}
	return out, err
}

// AccountsByLastFour returns the accounts with a key that ends so, after the id of a key.
func (s *Store) AccountsByLastFour(ctx context.Context, four, after string, limit int) ([]finder.Match, error) {
	return s.matchKeys(ctx, finder.ByFour, lastFourQuery, four, after, limit)
}

// matchKeys runs a query for accounts and the key that matched.
func (s *Store) matchKeys(ctx context.Context, kind finder.Kind, query string, args ...any) ([]finder.Match, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, m *finder.Match) error {
		m.Kind, m.Account = kind, &account.Account{}
		return accounts.ScanMore(row, m.Account, &m.Key.ID, &m.Key.Name, &m.Key.LastFour, &m.Key.Master, &m.Key.Revoked)
	}, query, args...)
}

// AccountsByRequest returns the accounts of the calls, settled or refused, that have an id.
func (s *Store) AccountsByRequest(ctx context.Context, id string, limit int) ([]finder.Match, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, m *finder.Match) error {
		m.Kind, m.Account = finder.ByRequest, &account.Account{}
		return accounts.ScanMore(row, m.Account, &m.Request.ID, &m.Request.At, &m.Request.Refused)
	}, requestQuery, askFor(id, limit)...)
}

// Requests returns the settlements with an id, which may be one that a proxy gave, and their ways.
func (s *Store) Requests(ctx context.Context, id string, limit int) ([]usage.Settlement, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *usage.Settlement) error {
		var given string
		var way []byte
		err := scanSettlementMore(row, r, &given, &way)
		r.Trace, _ = usage.ParseTrace(way) // one of a newer version is left out
		return err
	}, settledQuery, askFor(id, limit)...)
}

// callsQuery reads no more of a call than signals need.
const callsQuery = `SELECT at, key_id, way FROM settlements WHERE account_id = $1 AND at >= $2 ORDER BY at DESC LIMIT $3`

// CallsSince returns at most limit of an account's calls since a time, newest first.
func (s *Store) CallsSince(ctx context.Context, accountID string, since time.Time, limit int) ([]signal.Call, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, c *signal.Call) error {
		var raw []byte
		err := row.Scan(&c.At, &c.KeyID, &raw)
		if requestTrace, _ := usage.ParseTrace(raw); requestTrace != nil {
			c.Address = requestTrace.Address
		}
		return err
	}, callsQuery, accountID, since, limit)
}

// beforeQuery reads what comparing a call with those before it needs.
const beforeQuery = `SELECT id, at, account_id, model, provider, prompt, cached, cache_write_5m, cache_write_1h, cache_write, ending, first_token_ms, way FROM settlements
	WHERE account_id = $1 AND at <= $2 AND (at < $2 OR id < $3) AND at >= $4 ORDER BY at DESC, id DESC LIMIT $5`

// CallsBefore returns at most limit of an account's calls before a point back to a time, newest first: their places, times, tokens,
// ends and traces.
func (s *Store) CallsBefore(ctx context.Context, accountID string, before usage.Point, from time.Time, limit int) ([]usage.Settlement, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, r *usage.Settlement) error {
		var way []byte
		err := row.Scan(&r.ID, &r.At, &r.AccountID, &r.ModelUsed, &r.Provider, &r.Tokens.Prompt, &r.Tokens.Cached,
			&r.Tokens.CacheWrite5m, &r.Tokens.CacheWrite1h, &r.Tokens.CacheWrite, &r.End, &r.FirstToken, &way)
		r.Trace, _ = usage.ParseTrace(way) // one of a newer version is left out
		return err
	}, beforeQuery, accountID, before.At, before.ID, from, limit)
}

// RefusalsOf returns the refused calls with an id, which may be one that a proxy gave.
func (s *Store) RefusalsOf(ctx context.Context, id string, limit int) ([]refusal.Call, error) {
	return s.refusals(ctx, refusedQuery, id, limit)
}
