package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/alias"
)

// accountColumns are in the order of accountValues, scanAccount and updateAccount.
const accountColumns = `id, email, plan, plan_granted, staff, rpm_override, concurrent_override, tpm_override,
	suspended_at, suspend_reason, terminated, deactivated_at, deactivate_reason, created_at, version, aliases`

// keyColumns are in the order of insertKey and eachKey.
const keyColumns = `id, account_id, master, name, hash, last_four, created_at, last_used_at, limits, created_by`

// CreateAccount stores a new account, its keys and the audit entry. It returns a conflict if the
// address is taken.
func (s *Store) CreateAccount(ctx context.Context, a *account.Account, e account.Entry) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO accounts (`+accountColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`, accountValues(a)...)
		if isUnique(err) {
			return emailTaken(a.Email)
		}
		if err != nil {
			return err
		}
		for i := range a.Keys {
			// A new account has one key, its master key.
			if err := insertKey(ctx, tx, a.ID, &a.Keys[i]); err != nil {
				return err
			}
		}
		return appendAudit(ctx, tx, e)
	})
}

// ChangeAccount locks the account, applies change to it, and stores the result with its audit
// entry. An entry without an action means that nothing changed: then nothing is stored, and the
// account is returned as it was. An error of change rolls everything back and is returned.
func (s *Store) ChangeAccount(ctx context.Context, id string, change func(*account.Account) (account.Entry, error)) (*account.Account, error) {
	var a *account.Account
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		// The update takes the row's lock on PostgreSQL, so that changes of one account run one
		// after the other. On SQLite this transaction is the only writer anyway.
		row := tx.QueryRowContext(ctx, `UPDATE accounts SET version = version + 1 WHERE id = $1 RETURNING `+accountColumns, id)
		if a, err = scanAccount(row); err != nil {
			return notFound(err, id)
		}
		if a.Keys, err = keysOf(ctx, tx, id); err != nil {
			return err
		}
		// change may add and remove keys in place, so compare with a copy.
		before := slices.Clone(a.Keys)
		e, err := change(a)
		if err != nil {
			return err
		}
		// Nothing changed. The error also undoes the new version.
		if e.Action == "" {
			return errUnchanged
		}
		if err := updateAccount(ctx, tx, a); err != nil {
			return err
		}
		if err := saveKeys(ctx, tx, a.ID, before, a.Keys, e.At); err != nil {
			return err
		}
		return appendAudit(ctx, tx, e)
	})
	if errors.Is(err, errUnchanged) {
		a.Version-- // the increment was rolled back
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// errUnchanged makes ChangeAccount roll back a change that changed nothing. It never leaves the
// package.
var errUnchanged = errors.New("nothing changed")

// FindAccount finds an account by its id, its address, or the id of a key that is not revoked.
func (s *Store) FindAccount(ctx context.Context, ref string) (*account.Account, error) {
	// A revoked key no longer leads to its account.
	row := s.read.QueryRowContext(ctx, `SELECT `+accountColumns+` FROM accounts
		WHERE id = $1 OR email = $1 OR id = (SELECT account_id FROM api_keys WHERE id = $1 AND revoked_at IS NULL)`, ref)
	a, err := scanAccount(row)
	if err != nil {
		return nil, notFound(err, ref)
	}
	a.Keys, err = keysOf(ctx, s.read, a.ID)
	return a, unavailable(err)
}

// Accounts returns up to limit accounts with an id greater than after, ordered by id, with their
// keys. To read all accounts, pass the id of the last one until fewer than limit are returned.
func (s *Store) Accounts(ctx context.Context, after string, limit int) ([]*account.Account, error) {
	var list []*account.Account
	byID := map[string]*account.Account{}
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		a, err := scanAccount(rows)
		if err != nil {
			return err
		}
		// byID finds the owner of each key that the second query returns.
		list, byID[a.ID] = append(list, a), a
		return nil
	}, `SELECT `+accountColumns+` FROM accounts WHERE id > $1 ORDER BY id LIMIT $2`, after, limit)
	if err != nil || len(list) == 0 {
		return nil, unavailable(err)
	}
	// One query for the keys of all these accounts, instead of one for each account.
	err = eachKey(ctx, s.read, func(owner string, k account.Key) {
		if a := byID[owner]; a != nil { // nil if the account was created after the first query
			a.Keys = append(a.Keys, k)
		}
	}, `WHERE account_id > $1 AND account_id <= $2 AND revoked_at IS NULL ORDER BY account_id, master DESC, created_at, id`,
		after, list[len(list)-1].ID)
	if err != nil {
		return nil, unavailable(err)
	}
	return list, nil
}

// MissingAccounts returns those of the ids that are not the id of an account.
func (s *Store) MissingAccounts(ctx context.Context, ids []string) (missing []string, err error) {
	for part := range slices.Chunk(ids, 100) { // the number of parameters of a statement is limited
		args, there := make([]any, len(part)), map[string]bool{}
		for i, id := range part {
			args[i] = id
		}
		err := each(ctx, s.read, func(rows *sql.Rows) error {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			there[id] = true
			return nil
		}, `SELECT id FROM accounts WHERE id IN `+placeholders(1, len(part)), args...)
		if err != nil {
			return nil, unavailable(err)
		}
		for _, id := range part {
			if !there[id] {
				missing = append(missing, id)
			}
		}
	}
	return missing, nil
}

// AuditLog returns an account's latest audit entries before a number, newest first. 0 stands for no number.
func (s *Store) AuditLog(ctx context.Context, accountID string, before int64, limit int) ([]account.Entry, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return s.auditEntries(ctx, `seq < $3`, accountID, limit, before)
}

// PlanChanges returns the latest audit entries about an account's plan, newest first.
func (s *Store) PlanChanges(ctx context.Context, accountID string, limit int) ([]account.Entry, error) {
	return s.auditEntries(ctx, `(action = 'account.set_plan' OR action LIKE 'billing.%' AND detail LIKE '% to %')`, accountID, limit)
}

// auditEntries returns the latest audit entries that a condition is true of. The first two of args are the account and
// the limit.
func (s *Store) auditEntries(ctx context.Context, where string, args ...any) (log []account.Entry, err error) {
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		var e account.Entry
		var at int64
		if err := rows.Scan(&e.Seq, &at, &e.Actor, &e.Action, &e.AccountID, &e.Detail, &e.Reason); err != nil {
			return err
		}
		e.At = fromMillis(at)
		log = append(log, e)
		return nil
	}, `SELECT seq, at, actor, action, account_id, detail, reason
		FROM audit_log WHERE account_id = $1 AND `+where+` ORDER BY seq DESC LIMIT $2`, args...)
	return log, unavailable(err)
}

// ChangedSince returns the accounts that have an audit entry after seq, and the number of the
// newest entry. This is how one node learns what another has changed.
func (s *Store) ChangedSince(ctx context.Context, seq int64) (ids []string, newest int64, err error) {
	// If nothing has changed, the caller continues from the same number.
	newest = seq
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		var id string
		var last int64
		if err := rows.Scan(&id, &last); err != nil {
			return err
		}
		newest = max(newest, last)
		if id != "" { // an entry about the service itself; see package steering
			ids = append(ids, id)
		}
		return nil
	}, `SELECT account_id, MAX(seq) FROM audit_log WHERE seq > $1 GROUP BY account_id`, seq)
	if err != nil {
		return nil, seq, unavailable(err) // rows may be missing, so the caller must start at seq again
	}
	return ids, newest, nil
}

// LastChange returns the number of the newest audit entry.
func (s *Store) LastChange(ctx context.Context) (int64, error) {
	var seq int64
	err := s.read.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'audit_log'`).Scan(&seq)
	return seq, unavailable(err)
}

// RecordKeyUse stores when keys were last used. It never replaces a time by an older one.
func (s *Store) RecordKeyUse(ctx context.Context, used map[string]time.Time) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// A key that was revoked or does not exist matches no row and is ignored.
		stmt, err := tx.PrepareContext(ctx, `UPDATE api_keys SET last_used_at = $1 WHERE id = $2 AND last_used_at < $1`)
		if err != nil {
			return err
		}
		defer stmt.Close()
		ids := make([]string, 0, len(used))
		for id := range used {
			ids = append(ids, id)
		}
		slices.Sort(ids) // all nodes lock the rows in this order, so they cannot deadlock
		for _, id := range ids {
			if _, err := stmt.ExecContext(ctx, millis(used[id]), id); err != nil {
				return err
			}
		}
		return nil
	})
}

// accountValues returns the columns of an account in the order of accountColumns.
func accountValues(a *account.Account) []any {
	// A mark is two columns, and whether a suspension is final is a third one.
	suspendedAt, suspendReason := markValues(a.Suspended)
	deactivatedAt, deactivateReason := markValues(a.Deactivated)
	o := a.Overrides
	return []any{
		a.ID, a.Email, a.Plan.String(), yesNo(a.Granted), yesNo(a.Staff),
		limitValue(o.RequestsPerMinute), limitValue(o.Concurrent), limitValue(o.TokensPerMinute),
		suspendedAt, suspendReason, yesNo(a.Suspended != nil && a.Suspended.Final), deactivatedAt, deactivateReason, millis(a.CreatedAt), a.Version, a.Aliases.Text(),
	}
}

// updateAccount writes all columns of an account. The caller has locked the row.
func updateAccount(ctx context.Context, tx *sql.Tx, a *account.Account) error {
	_, err := tx.ExecContext(ctx, `UPDATE accounts SET email = $2, plan = $3, plan_granted = $4, staff = $5,
		rpm_override = $6, concurrent_override = $7, tpm_override = $8, suspended_at = $9, suspend_reason = $10,
		terminated = $11, deactivated_at = $12, deactivate_reason = $13, created_at = $14, version = $15, aliases = $16 WHERE id = $1`, accountValues(a)...)
	if isUnique(err) {
		return emailTaken(a.Email)
	}
	return err
}

// emailTaken returns the fault for an address that another account has.
func emailTaken(email string) error {
	return fault.New(fault.Conflict, "there is already an account with the address %s", email).At("email")
}

// saveKeys stores how a change modified the account's keys: it revokes those that are gone, inserts
// new ones and updates those whose name or limits changed. Nothing else about a key ever changes here.
func saveKeys(ctx context.Context, tx *sql.Tx, accountID string, before, after []account.Key, now time.Time) error {
	// has returns the index of the key with the id, or -1.
	has := func(keys []account.Key, id string) int {
		return slices.IndexFunc(keys, func(k account.Key) bool { return k.ID == id })
	}
	for _, k := range before { // revoke first: a unique index allows only one live master key
		if has(after, k.ID) >= 0 {
			continue
		}
		if _, err := tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = $1 WHERE id = $2`, millis(now), k.ID); err != nil {
			return err
		}
	}
	for i := range after {
		k := &after[i]
		was := has(before, k.ID)
		if was < 0 {
			if err := insertKey(ctx, tx, accountID, k); err != nil {
				return err
			}
		} else if before[was].Name != k.Name || before[was].Limits.Text() != k.Limits.Text() {
			if _, err := tx.ExecContext(ctx, `UPDATE api_keys SET name = $1, limits = $3 WHERE id = $2`, k.Name, k.ID, k.Limits.Text()); err != nil {
				return err
			}
		}
	}
	return nil
}

// insertKey stores a new key. Only the hash of its secret is stored.
func insertKey(ctx context.Context, tx *sql.Tx, accountID string, k *account.Key) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO api_keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		k.ID, accountID, yesNo(k.Master), k.Name, k.Hash[:], k.LastFour, millis(k.CreatedAt), millis(k.LastUsedAt), k.Limits.Text(), k.CreatedBy)
	return err
}

// appendAudit appends an audit entry. Its number comes from a counter whose row stays locked until
// the transaction ends. So numbers are committed in order and without gaps, and a node that has
// seen a number has seen all entries up to it. A sequence of the database would not guarantee that.
func appendAudit(ctx context.Context, tx *sql.Tx, e account.Entry) error {
	var seq int64
	err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'audit_log' RETURNING value`).Scan(&seq)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO audit_log (seq, at, actor, action, account_id, detail, reason) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		seq, millis(e.At), e.Actor, e.Action, e.AccountID, e.Detail, e.Reason)
	return err
}

// keysOf returns the keys of an account that are not revoked, the master key first.
func keysOf(ctx context.Context, q querier, accountID string) ([]account.Key, error) {
	var keys []account.Key
	err := eachKey(ctx, q, func(_ string, k account.Key) { keys = append(keys, k) },
		`WHERE account_id = $1 AND revoked_at IS NULL ORDER BY master DESC, created_at, id`, accountID)
	return keys, err
}

// eachKey calls yield for each key that the where clause selects.
func eachKey(ctx context.Context, q querier, yield func(owner string, k account.Key), where string, args ...any) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var k account.Key
		var owner string
		var hash []byte
		var master int
		var created, used int64
		var limits string
		if err := rows.Scan(&k.ID, &owner, &master, &k.Name, &hash, &k.LastFour, &created, &used, &limits, &k.CreatedBy); err != nil {
			return err
		}
		var err error
		if k.Limits, err = account.KeyLimitsOf(limits); err != nil {
			return err
		}
		copy(k.Hash[:], hash)
		// A LastUsedAt of zero means that the key was never used.
		k.Master, k.CreatedAt, k.LastUsedAt = master == 1, fromMillis(created), fromMillis(used)
		yield(owner, k)
		return nil
	}, `SELECT `+keyColumns+` FROM api_keys `+where, args...)
}

// scanAccount reads a row of accountColumns. The account has no keys yet. It returns sql.ErrNoRows
// if there is none.
func scanAccount(row interface{ Scan(...any) error }) (*account.Account, error) {
	var a account.Account
	var plan, suspendReason, deactivateReason, aliases string
	var granted, staff, terminated int
	var rpm, concurrent, tpm, suspendedAt, deactivatedAt sql.NullInt64
	var created int64
	err := row.Scan(&a.ID, &a.Email, &plan, &granted, &staff, &rpm, &concurrent, &tpm,
		&suspendedAt, &suspendReason, &terminated, &deactivatedAt, &deactivateReason, &created, &a.Version, &aliases)
	if err != nil {
		return nil, err
	}
	if a.Plan, err = account.ParsePlan(plan); err != nil {
		return nil, err
	}
	// Aliases that a later version may allow are left out.
	a.Aliases, _ = alias.Parse(aliases)
	// The rest is stored as 0 and 1, as Unix milliseconds, or as NULL for what is not set.
	a.Granted, a.Staff, a.CreatedAt = granted == 1, staff == 1, fromMillis(created)
	a.Overrides = account.Overrides{RequestsPerMinute: limitOf(rpm), Concurrent: limitOf(concurrent), TokensPerMinute: limitOf(tpm)}
	a.Suspended, a.Deactivated = markOf(suspendedAt, suspendReason), markOf(deactivatedAt, deactivateReason)
	// Terminated is a property of the suspension, so it means nothing without one.
	if a.Suspended != nil {
		a.Suspended.Final = terminated == 1
	}
	return &a, nil
}

// markValues returns the two columns of a mark, which may be nil: a NULL time means that there is
// no mark.
func markValues(m *account.Mark) (sql.NullInt64, string) {
	if m == nil {
		return sql.NullInt64{}, ""
	}
	return sql.NullInt64{Int64: millis(m.At), Valid: true}, m.Reason
}

// markOf is the inverse of markValues.
func markOf(at sql.NullInt64, reason string) *account.Mark {
	if !at.Valid {
		return nil
	}
	return &account.Mark{At: fromMillis(at.Int64), Reason: reason}
}

// limitValue returns the column of an override: NULL means that the plan's limit applies.
func limitValue(l *account.Limit) sql.NullInt64 {
	if l == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: int64(*l), Valid: true}
}

// limitOf is the inverse of limitValue.
func limitOf(v sql.NullInt64) *account.Limit {
	if !v.Valid {
		return nil
	}
	l := min(account.Limit(v.Int64), account.MostLimit) // older versions did not bound it
	return &l
}

// notFound turns sql.ErrNoRows into a fault that names what was looked up.
func notFound(err error, ref string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(fault.NotFound, "there is no account or key %q", ref)
	}
	return unavailable(err)
}
