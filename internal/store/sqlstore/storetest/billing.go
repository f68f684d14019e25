package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore/alltest"
)

// sameBooks compares books without the entries and the audit entry, which are written but never
// read back.
var sameBooks = cmp.Options{cmpopts.IgnoreUnexported(billing.Record{}), cmpopts.IgnoreFields(billing.Record{}, "Entries", "Audit")}

// newPayment returns a pending payment with every field set that a pending payment can have.
func newPayment(id, accountID string) *billing.Payment {
	return &billing.Payment{
		ID: id, AccountID: accountID, Kind: billing.ForStart, Status: billing.Pending, Processor: "testpay", Present: true,
		Plan: account.Basic, PriceCents: 1000, AmountCents: 900, CreditCents: 100, PeriodStart: base, PeriodEnd: base.AddDate(0, 1, 0),
		Ref: "ref", URL: "url", Reason: "why", Confirm: true, CreatedAt: base,
		Issued: &billing.Issued{
			Seller: billing.Seller{Name: "S"}, Customer: billing.Details{Name: "N"}, Account: "a@example.com", Tax: &billing.TaxShare{Name: "VAT", Rate: 19_000, Cents: 144},
			Lines: []billing.Line{{Text: "l", Start: base, End: base.AddDate(0, 1, 0), Cents: 900}},
		},
	}
}

// changeBilling applies a change that must succeed and returns the account.
func changeBilling(t testing.TB, s *alltest.Store, accountID, paymentID string, apply func(*billing.Record)) *account.Account {
	t.Helper()
	a, err := s.ChangeBilling(t.Context(), accountID, paymentID, func(b *billing.Record) error {
		apply(b)
		return nil
	})
	if err != nil {
		t.Fatalf("ChangeBilling(%s, %s) = %v", accountID, paymentID, err)
	}
	return a
}

// books checks that every field of the books is stored, together with the ledger, the plan and the
// audit log. They must change in one transaction: a plan without its payment would be free.
func books(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	got, err := s.Record(t.Context(), a.ID)
	if diff := cmp.Diff(&billing.Record{Account: a}, got, sameBooks); err != nil || diff != "" {
		t.Errorf("Books of a new account: %v, -want +got\n%s", err, diff)
	}
	// Every field differs from its zero value, so that one that is not stored shows up.
	want := billing.Record{
		Account: a, Processor: "testpay", Customer: "cus_1", Method: billing.Method{Brand: "visa", LastFour: "4242", Expires: "12/99"}, Ahead: time.Hour,
		Subscription: billing.Subscription{
			Plan: account.Premium, PriceCents: 2500, NextPlan: account.Basic, Began: base, PeriodStart: base, PeriodEnd: base.AddDate(0, 1, 0),
			CancelAtEnd: true, Failed: 2, FailingSince: base.AddDate(0, 1, 0), Due: base.AddDate(0, 1, 3),
		},
		Payment: newPayment("pay_1", a.ID), Undelivered: 2, Stop: &billing.Stop{At: base, Why: "w"}, CreditCents: 7,
		Details: billing.Details{Name: "N", Address: "A", Country: "DE", TaxID: "T", Email: "b@example.com"},
	}
	must(t, s.SetBillingDetails(t.Context(), a.ID, want.Details))
	set := func(b *billing.Record) {
		b.Subscription, b.Processor, b.Customer, b.Method, b.Ahead = want.Subscription, want.Processor, want.Customer, want.Method, want.Ahead
		b.Payment, b.Undelivered, b.Stop, b.CreditCents = want.Payment, want.Undelivered, want.Stop, want.CreditCents
		b.Account.Plan, b.Account.Granted = account.Premium, false
		b.Audit = entry(a.ID, "billing.started")
		for i := range 2 {
			b.Entries = append(b.Entries, billing.Entry{At: base, AccountID: a.ID, Actor: "x", What: billing.Charged, Plan: account.Basic, AmountCents: int64(i + 1), PaymentID: "pay_1", Detail: "d"})
		}
	}
	changed := changeBilling(t, s, a.ID, "", set)
	a.Plan, a.Granted, a.Version = account.Premium, false, 2
	if diff := cmp.Diff(a, changed); diff != "" {
		t.Errorf("ChangeBilling returned: -want +got\n%s", diff)
	}
	if got, err = s.Record(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got, sameBooks); diff != "" {
		t.Errorf("Books after the change: -want +got\n%s", diff)
	}
	entries, err := s.Ledger(t.Context(), a.ID, 10)
	if err != nil || len(entries) != 2 || entries[0].Seq != 2 || entries[0].AmountCents != 2 || !entries[0].At.Equal(base) {
		t.Errorf("Ledger = %+v, %v, want two entries, the newest first", entries, err)
	}
	if older, err := s.LedgerBefore(t.Context(), a.ID, entries[0].Seq, 10); err != nil || len(older) != 1 || older[0].Seq != entries[1].Seq {
		t.Errorf("LedgerBefore(%d) = %+v, %v, want the older entry", entries[0].Seq, older, err)
	}
	sum := entries[0].AmountCents + entries[1].AmountCents
	if cents, err := s.Charged(t.Context(), a.ID); err != nil || cents != sum {
		t.Errorf("Charged = %d, %v, want the sum of the ledger, %d", cents, err, sum)
	}
	if cents, err := s.Charged(t.Context(), "acct_nobody"); err != nil || cents != 0 {
		t.Errorf("Charged without a ledger = %d, %v, want 0", cents, err)
	}
	if log, err := s.AuditLog(t.Context(), a.ID, 0, 1); err != nil || log[0].Action != "billing.started" {
		t.Errorf("AuditLog = %+v, %v, want the change of plan", log, err)
	}
	// Without an audit entry, the account does not change.
	before := find(t, s, a.ID)
	changeBilling(t, s, a.ID, "", func(b *billing.Record) { b.CancelAtEnd = false })
	if diff := cmp.Diff(before, find(t, s, a.ID)); diff != "" {
		t.Errorf("a change of the books alone changed the account: -want +got\n%s", diff)
	}
	// A change that is refused leaves neither a plan nor an entry of the ledger.
	no := fault.New(fault.Conflict, "no")
	_, err = s.ChangeBilling(t.Context(), a.ID, "", func(b *billing.Record) error {
		b.Plan, b.Entries = account.None, []billing.Entry{{AccountID: a.ID}}
		return no
	})
	if got, _ := s.Record(t.Context(), a.ID); !errors.Is(err, no) || got.Plan != account.Premium {
		t.Errorf("a refused change = %v and left the plan %s, want no trace", err, got.Plan)
	}
	if _, err := s.ChangeBilling(t.Context(), "acct_none", "", nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("ChangeBilling(acct_none) = %v, want not found", err)
	}
	if _, err := s.Record(t.Context(), "acct_none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Books(acct_none) = %v, want not found", err)
	}
}

// payments checks that an account has one pending payment at a time, and how invoices are numbered. Two
// pending payments could both be paid.
func payments(t *testing.T, open func() *alltest.Store) {
	s := open()
	a, other := create(t, s, 1), create(t, s, 2)
	put := func(p *billing.Payment) {
		changeBilling(t, s, p.AccountID, "", func(b *billing.Record) { b.Payment = p })
	}
	put(newPayment("pay_1", a.ID))
	if _, err := s.ChangeBilling(t.Context(), a.ID, "", func(b *billing.Record) error {
		b.Payment = newPayment("pay_2", a.ID)
		return nil
	}); err == nil {
		t.Error("an account got two pending payments")
	}
	put(newPayment("pay_3", other.ID))
	// A payment of another account is not found, whoever asks for it by its id.
	for _, ref := range []string{"pay_none", "pay_3"} {
		if _, err := s.ChangeBilling(t.Context(), a.ID, ref, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("ChangeBilling with payment %s = %v, want not found", ref, err)
		}
	}
	if _, err := s.Payment(t.Context(), "pay_none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Payment(pay_none) = %v, want not found", err)
	}

	// Payments get invoice numbers in the order in which they are paid, and only once.
	pay := func(id string) {
		changeBilling(t, s, a.ID, id, func(b *billing.Record) {
			b.Payment.Status, b.Payment.PaidAt, b.Payment.URL = billing.Paid, base.Add(time.Hour), ""
		})
	}
	pay("pay_1")
	pay("pay_1")
	put(newPayment("pay_2", a.ID))
	pay("pay_2")
	changeBilling(t, s, a.ID, "pay_1", func(b *billing.Record) {
		b.Payment.RefundedCents, b.Payment.RefundToCents, b.Payment.DisputedCents, b.Payment.DisputeSteps = 10, 20, 30, 2
	})
	got, err := s.Invoices(t.Context(), a.ID, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []billing.Payment{*newPayment("pay_2", a.ID), *newPayment("pay_1", a.ID)}
	for i := range want {
		want[i].Status, want[i].PaidAt, want[i].URL, want[i].Invoice = billing.Paid, base.Add(time.Hour), "", int64(2-i)
	}
	want[1].RefundedCents, want[1].RefundToCents, want[1].DisputedCents, want[1].DisputeSteps = 10, 20, 30, 2
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Invoices: -want +got\n%s", diff)
	}
	if got, err := s.Refundable(t.Context(), a.ID, 1); err != nil || !cmp.Equal(got, want[:1]) {
		t.Errorf("Refundable with limit 1 = %+v, %v, want the newest", got, err)
	}
	changeBilling(t, s, a.ID, "pay_2", func(b *billing.Record) { b.Payment.RefundedCents = b.Payment.AmountCents })
	if got, err := s.Refundable(t.Context(), a.ID, 10); err != nil || !cmp.Equal(got, want[1:]) {
		t.Errorf("Refundable = %+v, %v, want the one of which something is left", got, err)
	}
	if p, err := s.Payment(t.Context(), "pay_1"); err != nil || !cmp.Equal(*p, want[1]) {
		t.Errorf("Payment(pay_1) = %+v, %v", p, err)
	}
	// A payment to be refunded is unfinished, unless it is disputed. A pending payment comes first.
	if b, err := s.Record(t.Context(), a.ID); err != nil || b.Payment != nil {
		t.Errorf("Books.Payment = %+v, %v, want none: it is disputed", b.Payment, err)
	}
	changeBilling(t, s, a.ID, "pay_1", func(b *billing.Record) { b.Payment.DisputedCents = 0 })
	if b, err := s.Record(t.Context(), a.ID); err != nil || b.Payment == nil || b.Payment.ID != "pay_1" {
		t.Errorf("Books.Payment = %+v, %v, want the one to be refunded", b.Payment, err)
	}
	put(newPayment("pay_9", a.ID))
	if b, err := s.Record(t.Context(), a.ID); err != nil || b.Payment == nil || b.Payment.ID != "pay_9" {
		t.Errorf("Books.Payment = %+v, %v, want the one that is pending", b.Payment, err)
	}
}

// billingDue checks which accounts come up at which time, each once, and in pages. An account that is
// missed is never billed.
func billingDue(t *testing.T, open func() *alltest.Store) {
	s := open()
	due := func(now time.Time, after string, limit int) []string {
		t.Helper()
		ids, err := s.BillingDue(t.Context(), now, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	for n := range 4 {
		a := create(t, s, n)
		changeBilling(t, s, a.ID, "", func(b *billing.Record) {
			switch n {
			case 0, 1: // a subscription; the second one's clock is an hour ahead
				b.Plan, b.Due, b.Ahead = account.Basic, base.Add(2*time.Hour), time.Duration(n)*time.Hour
			case 2: // a payment and a subscription that are both due: listed once
				b.Payment = newPayment("pay_1", a.ID)
				b.Payment.Present = false
				b.Plan, b.Due = account.Basic, base
			}
		})
	}
	if got := due(base.Add(-time.Second), "", 10); len(got) != 0 {
		t.Errorf("BillingDue too early = %v", got)
	}
	// acct_001 has the same date as acct_000, but its own clock is an hour ahead.
	if got, want := due(base.Add(time.Hour), "", 10), []string{"acct_001", "acct_002"}; !cmp.Equal(got, want) {
		t.Errorf("BillingDue after an hour = %v, want %v", got, want)
	}
	if got, want := due(base.Add(3*time.Hour), "", 10), []string{"acct_000", "acct_001", "acct_002"}; !cmp.Equal(got, want) {
		t.Errorf("BillingDue after three hours = %v, want %v", got, want)
	}
	if got, want := due(base.Add(3*time.Hour), "acct_000", 1), []string{"acct_001"}; !cmp.Equal(got, want) {
		t.Errorf("BillingDue, one after acct_000 = %v, want %v", got, want)
	}
}

// billingEvents checks that an event is known once it has been added, and can be added again: Stripe
// sends events more than once.
func billingEvents(t *testing.T, open func() *alltest.Store) {
	s := open()
	for i := range 2 {
		if seen, err := s.HasBillingEvent(t.Context(), "evt_1"); err != nil || seen != (i > 0) {
			t.Errorf("HasBillingEvent = %t, %v, want %t", seen, err, i > 0)
		}
		if err := s.AddBillingEvent(t.Context(), "evt_1", "k", base); err != nil {
			t.Errorf("AddBillingEvent = %v", err)
		}
	}
}

// testObjects checks that changes of a test object are stored, and that failed ones are not. The test
// processor keeps its customers and payments in such objects.
func testObjects(t *testing.T, open func() *alltest.Store) {
	s := open()
	set := func(want, next string) {
		t.Helper()
		err := s.ChangeTestObject(t.Context(), "x", func(body []byte) ([]byte, error) {
			if (body == nil) != (want == "") || string(body) != want {
				t.Errorf("the object is %q, want %q", body, want)
			}
			if next == "" {
				return nil, errors.New("no")
			}
			return []byte(next), nil
		})
		if (err == nil) != (next != "") {
			t.Errorf("ChangeTestObject = %v", err)
		}
	}
	// In turn: refused, created, refused, changed, changed again.
	set("", "")
	set("", "a")
	set("a", "")
	set("a", "b")
	set("b", "c")
}

// booksInParallel checks that concurrent changes of one account run one after the other: 20 try to
// open a payment, and only the first finds none.
func booksInParallel(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	var opened atomic.Int32
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := s.ChangeBilling(t.Context(), a.ID, "", func(b *billing.Record) error {
				b.Entries = append(b.Entries, billing.Entry{At: base, AccountID: a.ID, AmountCents: 1})
				if !b.Payment.Open() {
					b.Payment = newPayment(fmt.Sprint("pay_", i), a.ID)
					opened.Add(1)
				}
				return nil
			})
			if err != nil {
				t.Errorf("ChangeBilling = %v", err)
			}
		})
	}
	wg.Wait()
	// No change may be lost, although all of them started from the same books.
	entries, err := s.Ledger(t.Context(), a.ID, 100)
	if err != nil || len(entries) != 20 || opened.Load() != 1 {
		t.Errorf("20 changes in parallel left %d entries, %v, and opened %d payments, want 20 and 1", len(entries), err, opened.Load())
	}
}

// billingStops checks that stopped accounts are found, and that they are not due while they are stopped.
func billingStops(t *testing.T, open func() *alltest.Store) {
	s := open()
	stopped := func(want ...string) {
		t.Helper()
		list, err := s.BillingStops(t.Context(), 10)
		var got []string
		for _, x := range list {
			got = append(got, x.AccountID+" "+x.Email+" "+x.Stop.Why)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("BillingStops = %v, %v, want %v", got, err, want)
		}
	}
	stopped()
	one, two := create(t, s, 1), create(t, s, 2)
	for i, a := range []*account.Account{one, two} {
		changeBilling(t, s, a.ID, "", func(b *billing.Record) {
			b.Subscription = billing.Subscription{Plan: account.Basic, Due: base}
			b.Stop = &billing.Stop{At: base.Add(-time.Duration(i) * time.Hour), Why: "why"}
		})
	}
	stopped(two.ID+" "+two.Email+" why", one.ID+" "+one.Email+" why")
	if list, err := s.BillingStops(t.Context(), 1); err != nil || len(list) != 1 || !list[0].Stop.At.Equal(base.Add(-time.Hour)) {
		t.Errorf("BillingStops, one = %+v, %v, want the one that was stopped first", list, err)
	}
	if due, err := s.BillingDue(t.Context(), base.Add(time.Hour), "", 10); err != nil || len(due) != 0 {
		t.Errorf("BillingDue while stopped = %v, %v, want none", due, err)
	}
	changeBilling(t, s, two.ID, "", func(b *billing.Record) { b.Stop = nil })
	stopped(one.ID + " " + one.Email + " why")
	if due, err := s.BillingDue(t.Context(), base.Add(time.Hour), "", 10); err != nil || !slices.Equal(due, []string{two.ID}) {
		t.Errorf("BillingDue = %v, %v, want the one that was released", due, err)
	}
}
