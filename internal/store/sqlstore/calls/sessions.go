package calls

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/ledger/session"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
)

// sessionColumns are in the order of addSessions and scanSession.
const sessionColumns = `session, key_id, first_at, last_at, models, calls, failed, prompt, cached, completion, cost_nano, margin_nano, unpriced, written, cacheable, saved_nano, saved_margin_nano`

// intoSessions adds to the sums of sessions. Batches may come in another order than their calls: the key is that of the call that
// ended last, whichever is stored last. Each row brings one model, which is added unless it is there, or there is no room.
var intoSessions = sqlstore.Insertion{
	Into: `session_sums (account_id, ` + sessionColumns + `)`, Columns: 18,
	Conflict: `ON CONFLICT (account_id, session) DO UPDATE SET
		key_id = CASE WHEN excluded.last_at >= session_sums.last_at THEN excluded.key_id ELSE session_sums.key_id END,
		first_at = CASE WHEN excluded.first_at < session_sums.first_at THEN excluded.first_at ELSE session_sums.first_at END,
		last_at = CASE WHEN excluded.last_at > session_sums.last_at THEN excluded.last_at ELSE session_sums.last_at END,
		models = CASE WHEN REPLACE(',' || session_sums.models || ',', ',' || excluded.models || ',', '') <> ',' || session_sums.models || ','
			OR LENGTH(session_sums.models) + LENGTH(excluded.models) >= ` + strconv.Itoa(session.MaxModels) + ` THEN session_sums.models ELSE session_sums.models || ',' || excluded.models END,
		calls = session_sums.calls + excluded.calls, failed = session_sums.failed + excluded.failed, prompt = session_sums.prompt + excluded.prompt,
		cached = session_sums.cached + excluded.cached, completion = session_sums.completion + excluded.completion, cost_nano = session_sums.cost_nano + excluded.cost_nano,
		margin_nano = session_sums.margin_nano + excluded.margin_nano, unpriced = session_sums.unpriced + excluded.unpriced,
		written = session_sums.written + excluded.written, cacheable = session_sums.cacheable + excluded.cacheable,
		saved_nano = session_sums.saved_nano + excluded.saved_nano, saved_margin_nano = session_sums.saved_margin_nano + excluded.saved_margin_nano`,
}

// mostModels is how many models of a session one batch brings. Few have more than two.
const mostModels = 10

// sessionKey names a session.
type sessionKey struct{ account, session string }

func (k sessionKey) compare(o sessionKey) int {
	return cmp.Or(strings.Compare(k.account, o.account), strings.Compare(k.session, o.session))
}

// addSessions adds settlements to the sums of their sessions. All nodes lock the rows in the same order.
func addSessions(ctx context.Context, to sqlstore.Bulk, batch []usage.Settlement) error {
	var all map[sessionKey]*session.Session
	for i := range batch {
		r := &batch[i]
		id := session.Of(r)
		if id == "" {
			continue
		}
		if all == nil {
			all = map[sessionKey]*session.Session{}
		}
		s := entry(all, sessionKey{r.AccountID, id})
		if s.Calls == 0 || r.At.Before(s.First) {
			s.First = r.At
		}
		if end := r.At.Add(r.Latency); s.Calls == 0 || !end.Before(s.Last) {
			s.Last, s.KeyID = end, r.KeyID
		}
		if len(s.Models) < mostModels && !slices.Contains(s.Models, r.ModelUsed) {
			s.Models = append(s.Models, r.ModelUsed)
		}
		s.Add(r)
	}
	list := slices.SortedFunc(maps.Keys(all), sessionKey.compare)
	// A row has one model, and a statement one row of a session. So those with several models are told again, with sums of zero.
	for n := 0; len(list) > 0; n++ {
		_, err := to.Insert(ctx, &intoSessions, len(list), func(values []any, i int) []any {
			k, s := list[i], all[list[i]]
			sums := session.Sums{}
			if n == 0 {
				sums = s.Sums
			}
			b := boxes(values).texts(k.account, k.session, s.KeyID).numbers(sqlstore.Millis(s.First), sqlstore.Millis(s.Last)).texts(s.Models[n])
			return b.numbers(sums.Calls, sums.Failed, sums.Prompt, sums.Cached, sums.Completion, int64(sums.Cost), int64(sums.Margin), sums.Unpriced,
				sums.Written, sums.Cacheable, int64(sums.Saved), int64(sums.SavedMargin))
		})
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(k sessionKey) bool { return len(all[k].Models) <= n+1 })
	}
	return nil
}

// correctSessions adds corrections to the sums of sessions that are still kept.
func correctSessions(tx *sqlstore.Conn, fixes []usage.Fix) error {
	all := map[sessionKey]*session.Sums{}
	for i := range fixes {
		if id := session.Of(fixes[i].Call); id != "" {
			entry(all, sessionKey{fixes[i].Call.AccountID, id}).Correct(&fixes[i])
		}
	}
	list := slices.SortedFunc(maps.Keys(all), sessionKey.compare)
	return tx.ExecEach(len(list), func(i int) []any {
		k, s := list[i], all[list[i]]
		return []any{k.account, k.session, int64(s.Cost), int64(s.Margin), s.Unpriced, int64(s.Saved), int64(s.SavedMargin)}
	}, `UPDATE session_sums SET cost_nano = cost_nano + $3, margin_nano = margin_nano + $4, unpriced = unpriced + $5,
		saved_nano = saved_nano + $6, saved_margin_nano = saved_margin_nano + $7 WHERE account_id = $1 AND session = $2`)
}

// scanSession reads a row of sessionColumns.
func scanSession(row sqlstore.Row, s *session.Session) error {
	var models string
	err := row.Scan(&s.ID, &s.KeyID, &s.First, &s.Last, &models, &s.Calls, &s.Failed, &s.Prompt, &s.Cached, &s.Completion, &s.Cost, &s.Margin, &s.Unpriced,
		&s.Written, &s.Cacheable, &s.Saved, &s.SavedMargin)
	s.Models = strings.FieldsFunc(models, func(r rune) bool { return r == ',' })
	return err
}

// SessionSum returns a session of an account; nil if there is none.
func (s *Store) SessionSum(ctx context.Context, accountID, id string) (*session.Session, error) {
	list, err := sqlstore.All(s.db.Read(ctx), scanSession, `SELECT `+sessionColumns+` FROM session_sums WHERE account_id = $1 AND session = $2`, accountID, id)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// SessionSums returns a page of an account's sessions, newest first.
func (s *Store) SessionSums(ctx context.Context, q session.Query) ([]session.Session, error) {
	query, args := sessionsQuery(&q)
	return sqlstore.All(s.db.Read(ctx), scanSession, query, args...)
}

// sessionsQuery returns the query of SessionSums and its arguments. An index has the sessions in this order, of a key, too.
func sessionsQuery(q *session.Query) (string, []any) {
	query, args := `SELECT `+sessionColumns+` FROM session_sums WHERE account_id = $1`, []any{q.AccountID, q.Limit}
	if q.KeyID != "" {
		args = append(args, q.KeyID)
		query += ` AND key_id = $` + strconv.Itoa(len(args))
	}
	if q.BeforeID != "" {
		args = append(args, q.Before, q.BeforeID)
		at, id := `$`+strconv.Itoa(len(args)-1), `$`+strconv.Itoa(len(args))
		query += ` AND last_at <= ` + at + ` AND (last_at < ` + at + ` OR session < ` + id + `)`
	}
	return query + ` ORDER BY last_at DESC, session DESC LIMIT $2`, args
}

// dropSessions deletes up to most sessions whose last call was long ago.
func (s *Store) dropSessions(ctx context.Context, now time.Time, most int) (int, error) {
	return s.db.Prune(ctx, `DELETE FROM session_sums WHERE (account_id, session) IN
		(SELECT account_id, session FROM session_sums WHERE last_at < $1 ORDER BY last_at LIMIT $2)`, now.Add(-session.Keep), most)
}
