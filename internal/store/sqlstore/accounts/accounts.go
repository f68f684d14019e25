// Package accounts stores accounts, their keys, the audit log, and the tokens of staff.
//
// Store implements the interfaces of packages account, auth and staff. Packages of other parts that read or change
// accounts in their own transactions use the functions here.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore"
)

// Columns are those of an account, in the order of values and Scan.
const Columns = `id, email, plan, plan_granted, staff, rpm_override, concurrent_override, tpm_override,
	suspended_at, suspend_reason, terminated, deactivated_at, deactivate_reason, created_at, version, aliases, show_cost, receipts, budgets, runaway, auto_cache`

// keyColumns are in the order of insertKey and eachKey.
const keyColumns = `id, account_id, master, name, hash, last_four, created_at, last_used_at, limits, created_by, tags`

// Store is the part of a database with the accounts.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// CreateAccount stores a new account, its keys and the audit entry. It returns a conflict if the
// address is taken.
func (s *Store) CreateAccount(ctx context.Context, a *account.Account, e account.Entry) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		if err := unlessTaken(a, tx.Exec(sqlstore.Insert("accounts", Columns), values(a)...)); err != nil {
			return err
		}
		for i := range a.Keys {
			// A new account has one key, its master key.
			insertKey(tx, a.ID, &a.Keys[i])
		}
		return Audit(tx, e)
	})
}

// ChangeAccount locks the account, applies change to it, and stores the result with its audit
// entry. An entry without an action means that nothing changed: then nothing is stored, and the
// account is returned as it was. An error of change rolls everything back and is returned.
func (s *Store) ChangeAccount(ctx context.Context, id string, change func(*account.Account) (account.Entry, error)) (*account.Account, error) {
	var a *account.Account
	err := s.db.Tx(ctx, func(tx *sqlstore.Conn) (err error) {
		// The update takes the row's lock on PostgreSQL, so that changes of one account run one
		// after the other. On SQLite this transaction is the only writer anyway.
		if a, err = find(tx, id, `UPDATE accounts SET version = version + 1 WHERE id = $1 RETURNING `+Columns); err != nil {
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
		if err := Update(tx, a); err != nil {
			return err
		}
		saveKeys(tx, a.ID, before, a.Keys, e.At)
		return Audit(tx, e)
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
	return find(s.db.Read(ctx), ref, `SELECT `+Columns+` FROM accounts
		WHERE id = $1 OR email = $1 OR id = (SELECT account_id FROM api_keys WHERE id = $1 AND revoked_at IS NULL)`)
}

// Find returns an account by its id.
func Find(c *sqlstore.Conn, id string) (*account.Account, error) {
	return find(c, id, `SELECT `+Columns+` FROM accounts WHERE id = $1`)
}

// Locked is Find that locks the account's row on PostgreSQL, so that changes of one account run one after the other. On
// SQLite the transaction is the only writer anyway.
func Locked(tx *sqlstore.Conn, id string) (*account.Account, error) {
	return find(tx, id, `UPDATE accounts SET version = version WHERE id = $1 RETURNING `+Columns)
}

// Lock locks the row of an account, if there is one, as Locked does.
func Lock(tx *sqlstore.Conn, id string) (found bool, err error) {
	n, err := tx.Changed(`UPDATE accounts SET version = version WHERE id = $1`, id)
	return n > 0, err
}

// find returns the account that a statement returns, with its keys.
func find(c *sqlstore.Conn, ref, query string) (*account.Account, error) {
	a, err := sqlstore.Need(c, Unknown(ref), Scan, query, ref)
	if err != nil {
		return nil, err
	}
	err = eachKey(c, func(_ string, k account.Key) { a.Keys = append(a.Keys, k) },
		`WHERE account_id = $1 AND revoked_at IS NULL ORDER BY master DESC, created_at, id`, a.ID)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Unknown returns the fault for something that is neither an account nor a key.
func Unknown(ref string) error {
	return fault.New(fault.NotFound, "there is no account or key %q", ref)
}

// Accounts returns up to limit accounts with an id greater than after, ordered by id, with their
// keys. To read all accounts, pass the id of the last one until fewer than limit are returned.
func (s *Store) Accounts(ctx context.Context, after string, limit int) ([]*account.Account, error) {
	var list []*account.Account
	byID := map[string]*account.Account{}
	err := s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		a := &account.Account{}
		err := Scan(row, a)
		// byID finds the owner of each key that the second query returns.
		list, byID[a.ID] = append(list, a), a
		return err
	}, `SELECT `+Columns+` FROM accounts WHERE id > $1 ORDER BY id LIMIT $2`, after, limit)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	// One query for the keys of all these accounts, instead of one for each account.
	err = eachKey(s.db.Read(ctx), func(owner string, k account.Key) {
		if a := byID[owner]; a != nil { // nil if the account was created after the first query
			a.Keys = append(a.Keys, k)
		}
	}, `WHERE account_id > $1 AND account_id <= $2 AND revoked_at IS NULL ORDER BY account_id, master DESC, created_at, id`,
		after, list[len(list)-1].ID)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// auditColumns are in the order of Audit and AuditLog.
const auditColumns = `seq, at, actor, action, account_id, detail, reason`

// AuditLog returns an account's latest audit entries before a number, newest first. 0 stands for no number.
func (s *Store) AuditLog(ctx context.Context, accountID string, before int64, limit int) ([]account.Entry, error) {
	return s.AuditLogOf(ctx, accountID, account.Actions{}, before, limit)
}

// AuditLogOf does the same for entries with some actions. It reads the entries of the account from the newest on, and ends
// when it has enough.
func (s *Store) AuditLogOf(ctx context.Context, accountID string, which account.Actions, before int64, limit int) ([]account.Entry, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	args := []any{accountID, limit, before}
	// like returns a condition that is true of the actions in a list.
	like := func(list []string) string {
		var b strings.Builder
		for i, pattern := range list {
			if i > 0 {
				b.WriteString(" OR ")
			}
			args = append(args, pattern)
			fmt.Fprintf(&b, "action LIKE $%d", len(args))
		}
		return b.String()
	}
	where := ""
	if len(which.Of) > 0 {
		where += " AND (" + like(which.Of) + ")"
	}
	if len(which.Not) > 0 {
		where += " AND NOT (" + like(which.Not) + ")"
	}
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, e *account.Entry) error {
		return row.Scan(&e.Seq, &e.At, &e.Actor, &e.Action, &e.AccountID, &e.Detail, &e.Reason)
	}, `SELECT `+auditColumns+` FROM audit_log WHERE account_id = $1 AND seq < $3`+where+` ORDER BY seq DESC LIMIT $2`, args...)
}

// ChangedSince returns the accounts that have an audit entry after seq, and the number of the
// newest entry. This is how one node learns what another has changed.
func (s *Store) ChangedSince(ctx context.Context, seq int64) (ids []string, newest int64, err error) {
	// If nothing has changed, the caller continues from the same number.
	newest = seq
	err = s.db.Read(ctx).Each(func(row sqlstore.Row) error {
		var id string
		var last int64
		err := row.Scan(&id, &last)
		newest = max(newest, last)
		if id != "" { // an entry about the service itself; see package steering
			ids = append(ids, id)
		}
		return err
	}, `SELECT account_id, MAX(seq) FROM audit_log WHERE seq > $1 GROUP BY account_id`, seq)
	if err != nil {
		return nil, seq, err // rows may be missing, so the caller must start at seq again
	}
	return ids, newest, nil
}

// LastChange returns the number of the newest audit entry.
func (s *Store) LastChange(ctx context.Context) (int64, error) {
	return s.db.Read(ctx).Counter("audit_log")
}

// RecordKeyUse stores when keys were last used. It never replaces a time by an older one.
func (s *Store) RecordKeyUse(ctx context.Context, used map[string]time.Time) error {
	ids := slices.Sorted(maps.Keys(used)) // all nodes lock the rows in this order, so they cannot deadlock
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// A key that was revoked or does not exist matches no row and is ignored.
		return tx.ExecEach(len(ids), func(i int) []any { return []any{used[ids[i]], ids[i]} },
			`UPDATE api_keys SET last_used_at = $1 WHERE id = $2 AND last_used_at < $1`)
	})
}

// values returns the columns of an account in the order of Columns.
func values(a *account.Account) []any {
	// A mark is two columns, and whether a suspension is final is a third one.
	suspendedAt, suspendReason := markValues(a.Suspended)
	deactivatedAt, deactivateReason := markValues(a.Deactivated)
	o := a.Overrides
	return []any{
		a.ID, a.Email, a.Plan.String(), a.Granted, a.Staff,
		limitValue(o.RequestsPerMinute), limitValue(o.Concurrent), limitValue(o.TokensPerMinute),
		suspendedAt, suspendReason, a.Suspended != nil && a.Suspended.Final, deactivatedAt, deactivateReason, a.CreatedAt, a.Version, a.Aliases.Text(), a.ShowCost, a.Receipts, account.BudgetsText(a.Budgets), a.Runaway.Text(), int64(a.AutoCache),
	}
}

// Update writes all columns of an account. The caller has locked the row.
func Update(tx *sqlstore.Conn, a *account.Account) error {
	return unlessTaken(a, tx.Exec(sqlstore.Update("accounts", Columns), values(a)...))
}

// unlessTaken turns the error of a second account with an address into a fault.
func unlessTaken(a *account.Account, err error) error {
	if sqlstore.IsUnique(err) {
		return fault.New(fault.Conflict, "there is already an account with the address %s", a.Email).At("email")
	}
	return err
}

// saveKeys stores how a change modified the account's keys: it revokes those that are gone, inserts
// new ones and updates those whose name, limits or tags changed. Nothing else about a key ever changes here.
func saveKeys(tx *sqlstore.Conn, accountID string, before, after []account.Key, now time.Time) {
	// has returns the index of the key with the id, or -1.
	has := func(keys []account.Key, id string) int {
		return slices.IndexFunc(keys, func(k account.Key) bool { return k.ID == id })
	}
	for _, k := range before { // revoke first: a unique index allows only one live master key
		if has(after, k.ID) < 0 {
			tx.Do(`UPDATE api_keys SET revoked_at = $1 WHERE id = $2`, now, k.ID)
		}
	}
	for i := range after {
		k := &after[i]
		was := has(before, k.ID)
		if was < 0 {
			insertKey(tx, accountID, k)
		} else if before[was].Name != k.Name || before[was].Limits.Text() != k.Limits.Text() || !slices.Equal(before[was].Tags, k.Tags) {
			tx.Do(`UPDATE api_keys SET name = $1, limits = $3, tags = $4 WHERE id = $2`, k.Name, k.ID, k.Limits.Text(), account.TagsText(k.Tags))
		}
	}
}

// insertKey stores a new key. Only the hash of its secret is stored.
func insertKey(tx *sqlstore.Conn, accountID string, k *account.Key) {
	tx.Do(sqlstore.Insert("api_keys", keyColumns),
		k.ID, accountID, k.Master, k.Name, k.Hash[:], k.LastFour, k.CreatedAt, k.LastUsedAt, k.Limits.Text(), k.CreatedBy, account.TagsText(k.Tags))
}

// AuditIfAny appends an entry that says something.
func AuditIfAny(tx *sqlstore.Conn, e account.Entry) error {
	if e.Action == "" {
		return nil
	}
	return Audit(tx, e)
}

// Audit appends an audit entry. A node that has seen its number has seen all entries up to it; see Next.
func Audit(tx *sqlstore.Conn, e account.Entry) error {
	return tx.Exec(sqlstore.Insert("audit_log", auditColumns), tx.Next("audit_log"), e.At, e.Actor, e.Action, e.AccountID, e.Detail, e.Reason)
}

// eachKey calls yield for each key that the where clause selects.
func eachKey(c *sqlstore.Conn, yield func(owner string, k account.Key), where string, args ...any) error {
	return c.Each(func(row sqlstore.Row) error {
		var k account.Key
		var owner, limits, tags string
		// A LastUsedAt of zero means that the key was never used.
		err := row.Scan(&k.ID, &owner, &k.Master, &k.Name, sqlstore.Into(k.Hash[:]), &k.LastFour, &k.CreatedAt, &k.LastUsedAt, &limits, &k.CreatedBy, &tags)
		if err != nil {
			return err
		}
		if k.Limits, err = account.KeyLimitsOf(limits); err != nil {
			return err
		}
		k.Tags = account.ParseTags(tags)
		yield(owner, k)
		return nil
	}, `SELECT `+keyColumns+` FROM api_keys `+where, args...)
}

// Scan reads a row of Columns. The account has no keys yet.
func Scan(row sqlstore.Row, a *account.Account) error { return ScanMore(row, a) }

// ScanMore is Scan for a row that has more columns.
func ScanMore(row sqlstore.Row, a *account.Account, more ...any) error {
	var suspendReason, deactivateReason, aliases, budgets, runaway string
	var terminated bool
	var rpm, concurrent, tpm, suspendedAt, deactivatedAt *int64
	var autoCache int64
	err := row.Scan(append([]any{
		&a.ID, &a.Email, Plan(&a.Plan), &a.Granted, &a.Staff, &rpm, &concurrent, &tpm,
		&suspendedAt, &suspendReason, &terminated, &deactivatedAt, &deactivateReason, &a.CreatedAt, &a.Version, &aliases, &a.ShowCost, &a.Receipts, &budgets, &runaway, &autoCache,
	}, more...)...)
	if err != nil {
		return err
	}
	a.AutoCache = chat.Switch(autoCache)
	if a.Budgets, err = account.ParseBudgets(budgets); err != nil {
		return err
	}
	if a.Runaway, err = account.ParseRunaway(runaway); err != nil {
		return err
	}
	// Aliases that a later version may allow are left out.
	a.Aliases, _ = alias.Parse(aliases)
	a.Overrides = account.Overrides{RequestsPerMinute: limitOf(rpm), Concurrent: limitOf(concurrent), TokensPerMinute: limitOf(tpm)}
	a.Suspended, a.Deactivated = markOf(suspendedAt, suspendReason), markOf(deactivatedAt, deactivateReason)
	// Terminated is a property of the suspension, so it means nothing without one.
	if a.Suspended != nil {
		a.Suspended.Final = terminated
	}
	return nil
}

// Plan returns what scans a plan, which is stored by name.
func Plan(to *account.Plan) interface{ Scan(any) error } { return planColumn{to} }

type planColumn struct{ to *account.Plan }

func (c planColumn) Scan(v any) (err error) {
	name, ok := v.(string)
	if !ok {
		return errors.New("a plan is not stored by name")
	}
	*c.to, err = account.ParsePlan(name)
	return err
}

// markValues returns the two columns of a mark, which may be nil: a NULL time means that there is
// no mark.
func markValues(m *account.Mark) (at any, reason string) {
	if m == nil {
		return nil, ""
	}
	return m.At, m.Reason
}

// markOf is the inverse of markValues.
func markOf(at *int64, reason string) *account.Mark {
	if at == nil {
		return nil
	}
	return &account.Mark{At: sqlstore.Time(*at), Reason: reason}
}

// limitValue returns the column of an override: NULL means that the plan's limit applies.
func limitValue(l *account.Limit) any {
	if l == nil {
		return nil
	}
	return int64(*l)
}

// limitOf is the inverse of limitValue.
func limitOf(v *int64) *account.Limit {
	if v == nil {
		return nil
	}
	l := min(account.Limit(*v), account.MostLimit) // older versions did not bound it
	return &l
}
