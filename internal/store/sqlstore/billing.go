package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/alert"
)

// booksColumns are in the order of saveBooks and scanBooks.
const booksColumns = `account_id, plan, price_cents, next_plan, began, period_start, period_end, cancel_at_end, failed,
	failing_since, due, processor, customer, method_brand, method_last_four, method_expires, ahead_ms, visit_at,
	undelivered, stopped_at, stopped_why, credit_cents`

// paymentColumns are in the order of savePayment and scanPayment.
const paymentColumns = `id, account_id, kind, status, processor, present, plan, price_cents, amount_cents, period_start, period_end,
	ref, url, reason, confirm, created_at, paid_at, invoice, refunded_cents, refund_to_cents, disputed_cents, dispute_steps, visit_at, credit_cents`

// unfinished selects the payment of an account that is pending, or else one that has to be
// refunded. A disputed payment is not refunded: the bank has already taken the money back.
const unfinished = `SELECT ` + paymentColumns + ` FROM billing_payments
	WHERE account_id = $1 AND (status = 'pending' OR (refund_to_cents > refunded_cents AND disputed_cents = 0)) ORDER BY status = 'pending' DESC, id LIMIT 1`

// ChangeBilling locks the account, applies change to its books and stores the result. The books
// contain the payment with the given id or, if paymentID is empty, the unfinished one, if any. It
// returns the account as it is afterwards, so that the caller can publish it.
func (s *Store) ChangeBilling(ctx context.Context, accountID, paymentID string, change func(*billing.Books) error) (*account.Account, error) {
	var b *billing.Books
	err := s.tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		// The update takes the row's lock on PostgreSQL, so that changes of one account run one
		// after the other. On SQLite this transaction is the only writer anyway.
		row := tx.QueryRowContext(ctx, `UPDATE accounts SET version = version WHERE id = $1 RETURNING `+accountColumns, accountID)
		a, err := scanAccount(row)
		if err != nil {
			return notFound(err, accountID)
		}
		if b, err = booksOf(ctx, inTx{tx}, a, paymentID); err != nil {
			return err
		}
		if err := change(b); err != nil {
			return err
		}
		return saveBooks(ctx, tx, b)
	})
	if err != nil {
		return nil, err
	}
	return b.Account, nil
}

// Books returns the books of an account, with its unfinished payment, if any.
func (s *Store) Books(ctx context.Context, accountID string) (*billing.Books, error) {
	row := s.read.QueryRowContext(ctx, `SELECT `+accountColumns+` FROM accounts WHERE id = $1`, accountID)
	a, err := scanAccount(row)
	if err != nil {
		return nil, notFound(err, accountID)
	}
	b, err := booksOf(ctx, s.read, a, "")
	return b, unavailable(err)
}

// booksOf reads the books of an account, its keys, and the payment. An account without a row in
// billing_accounts has never paid anything; its books are the zero value.
func booksOf(ctx context.Context, q asker, a *account.Account, paymentID string) (*billing.Books, error) {
	// The keys are read, too, because the account is published to the key index after the change.
	b := &billing.Books{Account: a}
	var err error
	if a.Keys, err = keysOf(ctx, q, a.ID); err != nil {
		return nil, err
	}
	if err := scanBooks(q.QueryRowContext(ctx, `SELECT `+booksColumns+` FROM billing_accounts WHERE account_id = $1`, a.ID), b); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	// A payment of another account is not found, either.
	if paymentID != "" {
		b.Payment, err = scanPayment(q.QueryRowContext(ctx, `SELECT `+paymentColumns+` FROM billing_payments WHERE id = $1 AND account_id = $2`, paymentID, a.ID))
		if err != nil {
			return nil, noPayment(err, paymentID)
		}
		return b, nil
	}
	b.Payment, err = scanPayment(q.QueryRowContext(ctx, unfinished, a.ID))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	return b, nil
}

// saveBooks stores the books: the subscription, the payment, the new ledger entries and, if there
// is an audit entry, the account itself, whose plan may have changed.
func saveBooks(ctx context.Context, tx *sql.Tx, b *billing.Books) error {
	var stop billing.Stop
	if b.Stop != nil {
		stop = *b.Stop
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO billing_accounts (`+booksColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
		ON CONFLICT (account_id) DO UPDATE SET plan = excluded.plan, price_cents = excluded.price_cents, next_plan = excluded.next_plan,
		began = excluded.began, period_start = excluded.period_start, period_end = excluded.period_end, cancel_at_end = excluded.cancel_at_end,
		failed = excluded.failed, failing_since = excluded.failing_since, due = excluded.due, processor = excluded.processor,
		customer = excluded.customer, method_brand = excluded.method_brand, method_last_four = excluded.method_last_four,
		method_expires = excluded.method_expires, ahead_ms = excluded.ahead_ms, visit_at = excluded.visit_at,
		undelivered = excluded.undelivered, stopped_at = excluded.stopped_at, stopped_why = excluded.stopped_why,
		credit_cents = excluded.credit_cents`,
		b.Account.ID, b.Plan.String(), b.PriceCents, b.NextPlan.String(), millis(b.Began), millis(b.PeriodStart), millis(b.PeriodEnd),
		yesNo(b.CancelAtEnd), b.Failed, millis(b.FailingSince), millis(b.Due), b.Processor, b.Customer,
		// visit_at is when the billing loop has to look at the account again; BillingDue reads it.
		b.Method.Brand, b.Method.LastFour, b.Method.Expires, b.Ahead.Milliseconds(), millis(b.VisitAt()),
		b.Undelivered, millis(stop.At), stop.Why, b.CreditCents)
	if err != nil {
		return err
	}
	if b.Payment != nil {
		if err := savePayment(ctx, tx, b.Payment, b.Ahead); err != nil {
			return err
		}
	}
	// Only the new entries; those of earlier changes are not in the books.
	for i := range b.Entries {
		if err := appendLedger(ctx, tx, &b.Entries[i]); err != nil {
			return err
		}
	}
	if b.Audit.Action == "" {
		return nil
	}
	// The plan may have changed. The higher version makes this state replace older ones in the key
	// index.
	b.Account.Version++
	if err := updateAccount(ctx, tx, b.Account); err != nil {
		return err
	}
	return appendAudit(ctx, tx, b.Audit)
}

// savePayment inserts or updates a payment. A payment gets its invoice number when it is paid, in
// the same transaction, so the numbers have no gaps.
func savePayment(ctx context.Context, tx *sql.Tx, p *billing.Payment, ahead time.Duration) error {
	// The counter's row stays locked until the transaction ends, so payments are numbered one after
	// the other.
	if p.Status == billing.Paid && p.Invoice == 0 {
		err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'billing_invoices' RETURNING value`).Scan(&p.Invoice)
		if err != nil {
			return err
		}
	}
	// Account, kind, processor, plan, price, amount and creation time of a payment never change, so
	// an update leaves them out.
	_, err := tx.ExecContext(ctx, `INSERT INTO billing_payments (`+paymentColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status, period_start = excluded.period_start, period_end = excluded.period_end,
		ref = excluded.ref, url = excluded.url, reason = excluded.reason, confirm = excluded.confirm, paid_at = excluded.paid_at,
		invoice = excluded.invoice, refunded_cents = excluded.refunded_cents, refund_to_cents = excluded.refund_to_cents,
		disputed_cents = excluded.disputed_cents, dispute_steps = excluded.dispute_steps, visit_at = excluded.visit_at, credit_cents = excluded.credit_cents`,
		p.ID, p.AccountID, string(p.Kind), string(p.Status), p.Processor, yesNo(p.Present), p.Plan.String(), p.PriceCents, p.AmountCents,
		millis(p.PeriodStart), millis(p.PeriodEnd), p.Ref, p.URL, p.Reason, yesNo(p.Confirm), millis(p.CreatedAt), millis(p.PaidAt),
		p.Invoice, p.RefundedCents, p.RefundToCents, p.DisputedCents, p.DisputeSteps, millis(p.VisitAt(ahead)), p.CreditCents)
	return err
}

// appendLedger appends an entry to the ledger and sets its number; see appendAudit. Entries are
// never changed.
func appendLedger(ctx context.Context, tx *sql.Tx, e *billing.Entry) error {
	err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'billing_ledger' RETURNING value`).Scan(&e.Seq)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO billing_ledger (seq, at, account_id, actor, what, plan, amount_cents, payment_id, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		e.Seq, millis(e.At), e.AccountID, e.Actor, string(e.What), e.Plan.String(), e.AmountCents, e.PaymentID, e.Detail)
	if err != nil {
		return err
	}
	return addAlerts(ctx, tx, alert.OfLedger(e))
}

// Payment returns the payment with the given id.
func (s *Store) Payment(ctx context.Context, id string) (*billing.Payment, error) {
	p, err := scanPayment(s.read.QueryRowContext(ctx, `SELECT `+paymentColumns+` FROM billing_payments WHERE id = $1`, id))
	if err != nil {
		return nil, noPayment(err, id)
	}
	return p, nil
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
func (s *Store) invoices(ctx context.Context, where, accountID string, limit int) (list []billing.Payment, err error) {
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		p, err := scanPayment(rows)
		if err != nil {
			return err
		}
		list = append(list, *p)
		return nil
	}, `SELECT `+paymentColumns+` FROM billing_payments
		WHERE account_id = $1 AND `+where+` ORDER BY invoice DESC LIMIT $2`, accountID, limit)
	return list, unavailable(err)
}

// Charged returns the sum of an account's ledger, in cents. Refunds are negative.
func (s *Store) Charged(ctx context.Context, accountID string) (cents int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT CAST(COALESCE(SUM(amount_cents), 0) AS BIGINT) FROM billing_ledger WHERE account_id = $1`, accountID).Scan(&cents)
	return cents, unavailable(err)
}

// Ledger returns an account's ledger entries, newest first.
func (s *Store) Ledger(ctx context.Context, accountID string, limit int) ([]billing.Entry, error) {
	var list []billing.Entry
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var err error
		var e billing.Entry
		var at int64
		var what, plan string
		if err := rows.Scan(&e.Seq, &at, &e.AccountID, &e.Actor, &what, &plan, &e.AmountCents, &e.PaymentID, &e.Detail); err != nil {
			return err
		}
		e.At, e.What = fromMillis(at), billing.What(what)
		if e.Plan, err = account.ParsePlan(plan); err != nil {
			return err
		}
		list = append(list, e)
		return nil
	}, `SELECT seq, at, account_id, actor, what, plan, amount_cents, payment_id, detail FROM billing_ledger
		WHERE account_id = $1 ORDER BY seq DESC LIMIT $2`, accountID, limit)
	return list, unavailable(err)
}

// BillingDue returns the ids of accounts that need attention at the given time, ordered by id. To
// read all of them, pass the last id as after.
func (s *Store) BillingDue(ctx context.Context, now time.Time, after string, limit int) ([]string, error) {
	var ids []string
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
		return nil
	}, `SELECT account_id FROM billing_accounts WHERE visit_at > 0 AND visit_at <= $1 AND account_id > $2
		UNION SELECT account_id FROM billing_payments WHERE visit_at > 0 AND visit_at <= $1 AND account_id > $2
		ORDER BY account_id LIMIT $3`, millis(now), after, limit)
	return ids, unavailable(err)
}

// BillingStops returns the accounts whose billing is stopped, the longest stopped first.
func (s *Store) BillingStops(ctx context.Context, limit int) ([]billing.Stopped, error) {
	var list []billing.Stopped
	err := each(ctx, s.read, func(rows *sql.Rows) error {
		var at int64
		var x billing.Stopped
		if err := rows.Scan(&x.AccountID, &x.Email, &at, &x.Stop.Why); err != nil {
			return err
		}
		x.Stop.At = fromMillis(at)
		list = append(list, x)
		return nil
	}, `SELECT b.account_id, a.email, b.stopped_at, b.stopped_why FROM billing_accounts b JOIN accounts a ON a.id = b.account_id
		WHERE b.stopped_at <> 0 ORDER BY b.stopped_at, b.account_id LIMIT $1`, limit)
	return list, unavailable(err)
}

// HasBillingEvent reports whether an event of the payment processor has been handled already.
func (s *Store) HasBillingEvent(ctx context.Context, id string) (bool, error) {
	// COUNT instead of the row itself: a missing row is not an error here.
	var n int
	err := s.read.QueryRowContext(ctx, `SELECT COUNT(*) FROM billing_events WHERE id = $1`, id).Scan(&n)
	return n > 0, unavailable(err)
}

// AddBillingEvent records that an event has been handled. Processors deliver events more than once.
func (s *Store) AddBillingEvent(ctx context.Context, id, kind string, at time.Time) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO billing_events (id, kind, at) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`, id, kind, millis(at))
		return err
	})
}

// ChangeTestObject applies change to an object of the test processor. The body is nil if there is
// no such object.
func (s *Store) ChangeTestObject(ctx context.Context, id string, change func(body []byte) ([]byte, error)) error {
	return s.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// An empty row represents a missing object, so that there is always a row to lock.
		_, err := tx.ExecContext(ctx, `INSERT INTO testpay_objects (id, body) VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET id = excluded.id`, id, []byte{})
		if err != nil {
			return err
		}
		var body []byte
		if err := tx.QueryRowContext(ctx, `SELECT body FROM testpay_objects WHERE id = $1`, id).Scan(&body); err != nil {
			return err
		}
		// The row may be the empty one from above.
		if len(body) == 0 {
			body = nil
		}
		if body, err = change(body); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE testpay_objects SET body = $2 WHERE id = $1`, id, body)
		return err
	})
}

// scanBooks reads a row of booksColumns into b.
func scanBooks(row interface{ Scan(...any) error }, b *billing.Books) error {
	var id, plan, nextPlan string
	var cancelAtEnd int
	var began, start, end, failingSince, due, ahead, visitAt, stoppedAt int64
	var stoppedWhy string
	err := row.Scan(&id, &plan, &b.PriceCents, &nextPlan, &began, &start, &end, &cancelAtEnd, &b.Failed,
		&failingSince, &due, &b.Processor, &b.Customer, &b.Method.Brand, &b.Method.LastFour, &b.Method.Expires, &ahead, &visitAt,
		&b.Undelivered, &stoppedAt, &stoppedWhy, &b.CreditCents)
	if err != nil {
		return err
	}
	if b.Plan, b.NextPlan, err = parsePlans(plan, nextPlan); err != nil {
		return err
	}
	b.Began, b.PeriodStart, b.PeriodEnd = fromMillis(began), fromMillis(start), fromMillis(end)
	b.CancelAtEnd, b.FailingSince, b.Due = cancelAtEnd == 1, fromMillis(failingSince), fromMillis(due)
	// The column visit_at is derived from the other fields, so it is not read back.
	b.Ahead = time.Duration(ahead) * time.Millisecond
	if stoppedAt != 0 {
		b.Stop = &billing.Stop{At: fromMillis(stoppedAt), Why: stoppedWhy}
	}
	return nil
}

// scanPayment reads a row of paymentColumns. It returns sql.ErrNoRows if there is none.
func scanPayment(row interface{ Scan(...any) error }) (*billing.Payment, error) {
	var p billing.Payment
	var kind, status, plan string
	var present, confirm int
	var start, end, created, paid, visitAt int64
	err := row.Scan(&p.ID, &p.AccountID, &kind, &status, &p.Processor, &present, &plan, &p.PriceCents, &p.AmountCents, &start, &end,
		&p.Ref, &p.URL, &p.Reason, &confirm, &created, &paid, &p.Invoice, &p.RefundedCents, &p.RefundToCents, &p.DisputedCents, &p.DisputeSteps, &visitAt, &p.CreditCents)
	if err != nil {
		return nil, err
	}
	if p.Plan, err = account.ParsePlan(plan); err != nil {
		return nil, err
	}
	p.Kind, p.Status, p.Present, p.Confirm = billing.Kind(kind), billing.PaymentStatus(status), present == 1, confirm == 1
	p.PeriodStart, p.PeriodEnd, p.CreatedAt, p.PaidAt = fromMillis(start), fromMillis(end), fromMillis(created), fromMillis(paid)
	return &p, nil
}

// noPayment turns sql.ErrNoRows into a fault that names the payment.
func noPayment(err error, id string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(fault.NotFound, "there is no payment %q", id)
	}
	return unavailable(err)
}
