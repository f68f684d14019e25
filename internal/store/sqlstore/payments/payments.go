// Package payments stores subscriptions, payments and the ledger.
//
// Store implements the interfaces of package billing, and keeps the objects of the test processor.
package payments

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/overview"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
	"sluice/internal/store/sqlstore/alerts"
)

// Store is the part of a database that package billing uses.
type Store struct{ db *sqlstore.Store }

// New returns the part of a database.
func New(db *sqlstore.Store) *Store { return &Store{db} }

// bookColumns are in the order of saveBooks and scanBooks, without the account_id before them.
const bookColumns = `plan, price_cents, next_plan, began, period_start, period_end, cancel_at_end, failed,
	failing_since, due, processor, customer, method_brand, method_last_four, method_expires, ahead_ms, visit_at,
	undelivered, stopped_at, stopped_why, credit_cents`

// paymentColumns are in the order of savePayment and scanPayment.
const paymentColumns = `id, account_id, kind, status, processor, present, plan, price_cents, amount_cents, period_start, period_end,
	ref, url, reason, confirm, created_at, paid_at, invoice, refunded_cents, refund_to_cents, disputed_cents, dispute_steps, visit_at, credit_cents, issued`

// unfinished selects the payment of an account that is pending, or else one that has to be
// refunded. A disputed payment is not refunded: the bank has already taken the money back.
const unfinished = `SELECT ` + paymentColumns + ` FROM billing_payments
	WHERE account_id = $1 AND (status = 'pending' OR (refund_to_cents > refunded_cents AND disputed_cents = 0)) ORDER BY status = 'pending' DESC, id LIMIT 1`

// ChangeBilling locks the account, applies change to its books and stores the result. The books
// contain the payment with the given id or, if paymentID is empty, the unfinished one, if any. It
// returns the account as it is afterwards, so that the caller can publish it.
func (s *Store) ChangeBilling(ctx context.Context, accountID, paymentID string, change func(*billing.Record) error) (*account.Account, error) {
	return sqlstore.InTx(ctx, s.db, func(tx *sqlstore.Conn) (*account.Account, error) {
		a, err := accounts.Locked(tx, accountID)
		if err != nil {
			return nil, err
		}
		b, err := recordOf(tx, a, paymentID)
		if err != nil {
			return nil, err
		}
		if err := change(b); err != nil {
			return nil, err
		}
		return b.Account, saveBooks(tx, b)
	})
}

// Record returns the record of an account, with its unfinished payment, if any.
func (s *Store) Record(ctx context.Context, accountID string) (*billing.Record, error) {
	a, err := accounts.Find(s.db.Read(ctx), accountID)
	if err != nil {
		return nil, err
	}
	return recordOf(s.db.Read(ctx), a, "")
}

// FindAccount finds the account that something is about.
func (s *Store) FindAccount(ctx context.Context, ref string) (*account.Account, error) {
	return accounts.New(s.db).FindAccount(ctx, ref)
}

// recordOf reads the record of an account, and the payment. An account without a row in
// billing_accounts has never paid anything; its books are the zero value.
func recordOf(c *sqlstore.Conn, a *account.Account, paymentID string) (*billing.Record, error) {
	b, err := sqlstore.One(c, scanBooks, `SELECT `+bookColumns+` FROM billing_accounts WHERE account_id = $1`, a.ID)
	if err != nil {
		return nil, err
	}
	if b == nil {
		b = &billing.Record{}
	}
	b.Account = a
	if b.Details, err = details(c, a.ID); err != nil {
		return nil, err
	}
	if paymentID == "" {
		b.Payment, err = sqlstore.One(c, scanPayment, unfinished, a.ID)
	} else { // a payment of another account is not found, either
		b.Payment, err = payment(c, paymentID, `WHERE id = $1 AND account_id = $2`, a.ID)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// saveBooks stores the books: the subscription, the payment, the new ledger entries and, if there
// is an audit entry, the account itself, whose plan may have changed.
func saveBooks(tx *sqlstore.Conn, b *billing.Record) error {
	var stop billing.Stop
	if b.Stop != nil {
		stop = *b.Stop
	}
	tx.Do(sqlstore.Upsert("billing_accounts", "account_id, "+bookColumns, "account_id", bookColumns),
		b.Account.ID, b.Plan.String(), b.PriceCents, b.NextPlan.String(), b.Began, b.PeriodStart, b.PeriodEnd,
		b.CancelAtEnd, b.Failed, b.FailingSince, b.Due, b.Processor, b.Customer,
		// visit_at is when the billing loop has to look at the account again; BillingDue reads it.
		b.Method.Brand, b.Method.LastFour, b.Method.Expires, b.Ahead, b.VisitAt(),
		b.Undelivered, stop.At, stop.Why, b.CreditCents)
	if b.Payment != nil {
		if err := savePayment(tx, b.Payment, b.Ahead); err != nil {
			return err
		}
	}
	// Only the new entries; those of earlier changes are not in the books.
	for i := range b.Entries {
		appendLedger(tx, &b.Entries[i])
	}
	if b.Audit.Action == "" {
		return nil
	}
	// The plan may have changed. The higher version makes this state replace older ones in the key
	// index.
	b.Account.Version++
	if err := accounts.Update(tx, b.Account); err != nil {
		return err
	}
	return accounts.Audit(tx, b.Audit)
}

// paymentChanges are the columns of a payment that may change: account, kind, processor, plan, price, amount and creation
// time never do.
const paymentChanges = `status, period_start, period_end, ref, url, reason, confirm, paid_at, invoice, refunded_cents, refund_to_cents,
	disputed_cents, dispute_steps, visit_at, credit_cents, issued`

// savePayment inserts or updates a payment. A payment gets its invoice number when it is paid, in
// the same transaction, so the numbers have no gaps.
func savePayment(tx *sqlstore.Conn, p *billing.Payment, ahead time.Duration) error {
	issued := ""
	if p.Issued != nil {
		text, err := json.Marshal(p.Issued)
		if err != nil {
			return fmt.Errorf("write what an invoice says: %w", err)
		}
		issued = string(text)
	}
	if p.Status == billing.Paid && p.Invoice == 0 {
		p.Invoice = tx.Next("billing_invoices")
	}
	tx.Do(sqlstore.Upsert("billing_payments", paymentColumns, "id", paymentChanges),
		p.ID, p.AccountID, string(p.Kind), string(p.Status), p.Processor, p.Present, p.Plan.String(), p.PriceCents, p.AmountCents,
		p.PeriodStart, p.PeriodEnd, p.Ref, p.URL, p.Reason, p.Confirm, p.CreatedAt, p.PaidAt,
		p.Invoice, p.RefundedCents, p.RefundToCents, p.DisputedCents, p.DisputeSteps, p.VisitAt(ahead), p.CreditCents, issued)
	return nil
}

// ledgerColumns are in the order of appendLedger and Ledger.
const ledgerColumns = `seq, at, account_id, actor, what, plan, amount_cents, payment_id, detail`

// appendLedger appends an entry to the ledger and sets its number. Entries are
// never changed.
func appendLedger(tx *sqlstore.Conn, e *billing.Entry) {
	e.Seq = tx.Next("billing_ledger")
	tx.Do(sqlstore.Insert("billing_ledger", ledgerColumns),
		e.Seq, e.At, e.AccountID, e.Actor, string(e.What), e.Plan.String(), e.AmountCents, e.PaymentID, e.Detail)
	alerts.Add(tx, alert.OfLedger(e))
}

// Payment returns the payment with the given id.
func (s *Store) Payment(ctx context.Context, id string) (*billing.Payment, error) {
	return payment(s.db.Read(ctx), id, `WHERE id = $1`)
}

// payment returns the payment with an id that a clause selects.
func payment(c *sqlstore.Conn, id, where string, args ...any) (*billing.Payment, error) {
	return sqlstore.Need(c, fault.New(fault.NotFound, "there is no payment %q", id), scanPayment,
		`SELECT `+paymentColumns+` FROM billing_payments `+where, append([]any{id}, args...)...)
}

// Invoices returns an account's payments that have been paid, newest first.
func (s *Store) Invoices(ctx context.Context, accountID string, limit int) ([]billing.Payment, error) {
	return s.invoices(ctx, `invoice > 0`, accountID, limit)
}

// Refundable returns those invoices of which something can be given back.
func (s *Store) Refundable(ctx context.Context, accountID string, limit int) ([]billing.Payment, error) {
	return s.invoices(ctx, `invoice > 0 AND refunded_cents < amount_cents`, accountID, limit)
}

// invoices returns the latest payments of an account that a condition is true of.
func (s *Store) invoices(ctx context.Context, where, accountID string, limit int) ([]billing.Payment, error) {
	return sqlstore.All(s.db.Read(ctx), scanPayment, `SELECT `+paymentColumns+` FROM billing_payments
		WHERE account_id = $1 AND `+where+` ORDER BY invoice DESC LIMIT $2`, accountID, limit)
}

// Charged returns the sum of an account's ledger, in cents. Refunds are negative.
func (s *Store) Charged(ctx context.Context, accountID string) (int64, error) {
	return sqlstore.Value[int64](s.db.Read(ctx), `SELECT CAST(COALESCE(SUM(amount_cents), 0) AS BIGINT) FROM billing_ledger WHERE account_id = $1`, accountID)
}

// Ledger returns an account's ledger entries, newest first.
func (s *Store) Ledger(ctx context.Context, accountID string, limit int) ([]billing.Entry, error) {
	return s.LedgerBefore(ctx, accountID, 0, limit)
}

// LedgerBefore returns an account's ledger entries before a number, newest first. 0 stands for no number.
func (s *Store) LedgerBefore(ctx context.Context, accountID string, before int64, limit int) ([]billing.Entry, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, e *billing.Entry) error {
		return row.Scan(&e.Seq, &e.At, &e.AccountID, &e.Actor, &e.What, accounts.Plan(&e.Plan), &e.AmountCents, &e.PaymentID, &e.Detail)
	}, `SELECT `+ledgerColumns+` FROM billing_ledger WHERE account_id = $1 AND seq < $3 ORDER BY seq DESC LIMIT $2`, accountID, limit, before)
}

// BillingDue returns the ids of accounts that need attention at the given time, ordered by id. To
// read all of them, pass the last id as after.
func (s *Store) BillingDue(ctx context.Context, now time.Time, after string, limit int) ([]string, error) {
	return sqlstore.All(s.db.Read(ctx), sqlstore.Column[string], `SELECT account_id FROM billing_accounts WHERE visit_at > 0 AND visit_at <= $1 AND account_id > $2
		UNION SELECT account_id FROM billing_payments WHERE visit_at > 0 AND visit_at <= $1 AND account_id > $2
		ORDER BY account_id LIMIT $3`, now, after, limit)
}

// BillingStops returns the accounts whose billing is stopped, the longest stopped first.
func (s *Store) BillingStops(ctx context.Context, limit int) ([]billing.Stopped, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, x *billing.Stopped) error {
		return row.Scan(&x.AccountID, &x.Email, &x.Stop.At, &x.Stop.Why)
	}, `SELECT b.account_id, a.email, b.stopped_at, b.stopped_why FROM billing_accounts b JOIN accounts a ON a.id = b.account_id
		WHERE b.stopped_at <> 0 ORDER BY b.stopped_at, b.account_id LIMIT $1`, limit)
}

// HasBillingEvent reports whether an event of the payment processor has been handled already.
func (s *Store) HasBillingEvent(ctx context.Context, id string) (bool, error) {
	// COUNT instead of the row itself: a missing row is not an error here.
	n, err := sqlstore.Value[int](s.db.Read(ctx), `SELECT COUNT(*) FROM billing_events WHERE id = $1`, id)
	return n > 0, err
}

// AddBillingEvent records that an event has been handled. Processors deliver events more than once.
func (s *Store) AddBillingEvent(ctx context.Context, id, kind string, at time.Time) error {
	return s.db.Exec(ctx, `INSERT INTO billing_events (id, kind, at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`, id, kind, at)
}

// Revenue returns what was paid on each day (UTC) from a time on, without what was refunded of it, by the number of the
// day since 1970.
func (s *Store) Revenue(ctx context.Context, from time.Time) (map[int64]overview.Income, error) {
	return sqlstore.Map(s.db.Read(ctx), func(row sqlstore.Row, day *int64, in *overview.Income) error {
		return row.Scan(day, &in.Payments, &in.Cents)
	}, revenueQuery, from)
}

const revenueQuery = `SELECT paid_at / 86400000, COUNT(*), SUM(amount_cents - refunded_cents) FROM billing_payments
	WHERE paid_at > 0 AND paid_at >= $1 GROUP BY paid_at / 86400000`

// detailColumns are in the order of BillingDetails and SetBillingDetails.
const detailColumns = `name, address, country, tax_id, email`

// BillingDetails returns what a customer wants on invoices. Without any it returns the zero value.
func (s *Store) BillingDetails(ctx context.Context, accountID string) (billing.Details, error) {
	return details(s.db.Read(ctx), accountID)
}

// details reads what a customer wants on invoices.
func details(c *sqlstore.Conn, accountID string) (billing.Details, error) {
	d, err := sqlstore.One(c, func(row sqlstore.Row, d *billing.Details) error {
		return row.Scan(&d.Name, &d.Address, &d.Country, &d.TaxID, &d.Email)
	}, `SELECT `+detailColumns+` FROM billing_details WHERE account_id = $1`, accountID)
	if err != nil || d == nil {
		return billing.Details{}, err
	}
	return *d, nil
}

// SetBillingDetails replaces what a customer wants on invoices.
func (s *Store) SetBillingDetails(ctx context.Context, accountID string, d billing.Details) error {
	return s.db.Exec(ctx, sqlstore.Upsert("billing_details", "account_id, "+detailColumns, "account_id", detailColumns), accountID, d.Name, d.Address, d.Country, d.TaxID, d.Email)
}

// ChangeTestObject applies change to an object of the test processor. The body is nil if there is
// no such object.
func (s *Store) ChangeTestObject(ctx context.Context, id string, change func(body []byte) ([]byte, error)) error {
	return s.db.Tx(ctx, func(tx *sqlstore.Conn) error {
		// An empty row represents a missing object, so that there is always a row to lock.
		tx.Do(`INSERT INTO testpay_objects (id, body) VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET id = excluded.id`, id, []byte{})
		body, err := sqlstore.Value[[]byte](tx, `SELECT body FROM testpay_objects WHERE id = $1`, id)
		if err != nil {
			return err
		}
		// The row may be the empty one from above.
		if len(body) == 0 {
			body = nil
		}
		if body, err = change(body); err != nil {
			return err
		}
		return tx.Exec(`UPDATE testpay_objects SET body = $2 WHERE id = $1`, id, body)
	})
}

// scanBooks reads a row of bookColumns.
func scanBooks(row sqlstore.Row, b *billing.Record) error {
	var visitAt time.Time // it is derived from the other columns
	var stop billing.Stop
	err := row.Scan(accounts.Plan(&b.Plan), &b.PriceCents, accounts.Plan(&b.NextPlan), &b.Began, &b.PeriodStart, &b.PeriodEnd, &b.CancelAtEnd, &b.Failed,
		&b.FailingSince, &b.Due, &b.Processor, &b.Customer, &b.Method.Brand, &b.Method.LastFour, &b.Method.Expires, &b.Ahead, &visitAt,
		&b.Undelivered, &stop.At, &stop.Why, &b.CreditCents)
	if !stop.At.IsZero() {
		b.Stop = &stop
	}
	return err
}

// scanPayment reads a row of paymentColumns.
func scanPayment(row sqlstore.Row, p *billing.Payment) error {
	var visitAt time.Time
	var issued string
	err := row.Scan(&p.ID, &p.AccountID, &p.Kind, &p.Status, &p.Processor, &p.Present, accounts.Plan(&p.Plan), &p.PriceCents, &p.AmountCents, &p.PeriodStart, &p.PeriodEnd,
		&p.Ref, &p.URL, &p.Reason, &p.Confirm, &p.CreatedAt, &p.PaidAt, &p.Invoice, &p.RefundedCents, &p.RefundToCents, &p.DisputedCents, &p.DisputeSteps, &visitAt, &p.CreditCents, &issued)
	if err != nil || issued == "" {
		return err
	}
	return json.Unmarshal([]byte(issued), &p.Issued)
}
