package billing

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
)

// brakeAt is the number of payments in a row that may be charged and then refunded because what they were for could
// not be given. One can happen: an account is suspended while its owner pays. Two mean that the books are in a state
// in which the next payment would end in the same way.
const brakeAt = 2

// stopsAtOnce is the number of stopped accounts that are listed.
const stopsAtOnce = 1000

// lookPatience is how long counting the stopped accounts may take.
const lookPatience = 5 * time.Second

// Stop says that the billing of an account is stopped: nothing is charged until staff has looked at it. The plan stays,
// because the customer has done nothing wrong. Refunds that are due are still made.
type Stop struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

// Stopped is an account whose billing is stopped.
type Stopped struct {
	AccountID string `json:"id"`
	Email     string `json:"email"`
	Stop
}

// StopStore finds the accounts whose billing is stopped.
type StopStore interface {
	// BillingStops returns at most limit of them, the longest stopped first.
	BillingStops(ctx context.Context, limit int) ([]Stopped, error)
}

// undelivered counts a payment that is refunded because what it was for could not be given, and stops the billing of
// the account when it is not the first in a row.
func (b *Record) undelivered() {
	b.Undelivered++
	if b.Undelivered < brakeAt || b.Stop != nil {
		return
	}
	b.Stop = &Stop{At: b.now, Why: fmt.Sprintf("%d payments in a row were charged and had to be refunded; the last one is %s, a %s", b.Undelivered, b.Payment.ID, b.Payment.Kind)}
	b.note(BillingStopped, b.Payment.Plan, "%s", b.Stop.Why)
}

// release lets payments be made again.
func (b *Record) release() error {
	if b.Stop == nil {
		return fault.New(fault.Conflict, "the billing of the account is not stopped")
	}
	b.Stop, b.Undelivered = nil, 0
	b.note(BillingReleased, b.Account.Plan, "")
	return nil
}

// errStopped refuses payments of an account whose billing is stopped.
func errStopped() error {
	return fault.New(fault.Conflict, "payments of this account were refunded twice in a row, so no more are taken until support has looked at it; nothing is lost, and your plan stays")
}

// Release ends the stop of an account's billing. What is due is charged at the next visit. Only staff calls it.
func (m *Billing) Release(ctx context.Context, actor, ref string) (*account.Account, error) {
	return m.change(ctx, actor, ref, "", (*Record).release)
}

// Stops returns the accounts whose billing is stopped.
func (m *Billing) Stops(ctx context.Context) ([]Stopped, error) {
	return m.store.BillingStops(ctx, stopsAtOnce)
}

// StopCount returns how many accounts were stopped when Watch looked last.
func (m *Billing) StopCount() int64 { return m.stopped.Load() }

// Note returns a remark for /readyz about stopped accounts; empty: there are none.
func (m *Billing) Note() string {
	switch n := m.stopped.Load(); n {
	case 0:
		return ""
	case 1:
		return `the billing of an account is stopped; see "sluice billing stops"`
	default:
		return fmt.Sprintf(`the billing of %d accounts is stopped; see "sluice billing stops"`, n)
	}
}

// Watch counts the stopped accounts now and then, until ctx ends: another server may have stopped or released them.
func (m *Billing) Watch(ctx context.Context) {
	for range pace.AtOnce(ctx, VisitEvery) {
		m.look(ctx)
	}
}

// look counts the stopped accounts. If the store does not answer, the last number stays.
func (m *Billing) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	if all, err := m.Stops(ctx); err == nil {
		m.stopped.Store(int64(len(all)))
	}
}

// report logs the entries that staff must hear of, and counts the stopped accounts again.
func (m *Billing) report(ctx context.Context, e *Entry) {
	switch e.What {
	case BillingStopped:
		m.log.Error("the billing of an account is stopped; find out why, then run sluice billing release", "account", e.AccountID, "payment", e.PaymentID, "why", e.Detail)
	case BillingReleased:
		m.log.Info("the billing of an account continues", "account", e.AccountID, "actor", e.Actor)
	default:
		return
	}
	m.look(ctx)
}
