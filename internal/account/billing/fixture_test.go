package billing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/billing/testpay"
	"sluice/internal/store/sqlstore/alltest"
)

const (
	good            = "4242 4242 4242 4242"
	declines        = "4000000000000002"
	declinesRenewal = "4000000000000341"
	confirms        = "4000002500003155"
)

// fixture is an account, its billing, and a processor that can fail in the middle of things.
type fixture struct {
	*billing.Billing
	t        testing.TB
	store    *alltest.Store
	accounts *account.Accounts
	pay      *testpay.Processor
	flaky    *flaky
	till     *till
	id       string
	now      time.Time
	seller   billing.Seller
	entries  []billing.Entry
	index    *account.Account // as the last publication left it
}

func openStore(t testing.TB) *alltest.Store {
	t.Helper()
	s, err := alltest.Open(t.Context(), "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var fixtures struct {
	sync.Mutex
	n int
}

// newFixture opens an account on a clock that only the test moves.
func newFixture(t testing.TB, s *alltest.Store, start string) *fixture {
	t.Helper()
	now, err := time.Parse(time.RFC3339, start)
	if err != nil {
		t.Fatal(err)
	}
	d := &fixture{t: t, store: s, now: now, till: &till{Store: s, objects: map[string]object{}, disputes: map[string]dispute{}}}
	clock := func() time.Time { return d.now }
	publish := func(a *account.Account) {
		if a.ID == d.id {
			d.index = a
		}
	}
	d.accounts = account.New(s, &account.Options{OnChange: publish, Now: clock})
	d.pay = testpay.New(d.till, "/pay", "/card")
	d.flaky = &flaky{Processor: d.pay, till: d.till}
	d.Billing = billing.New(s, &billing.Options{
		Processor: d.flaky, Seller: func() billing.Seller { return d.seller }, OnChange: publish, Now: clock, Log: slog.New(slog.DiscardHandler),
		OnEntry: func(_ context.Context, _ *account.Account, e billing.Entry) { d.entries = append(d.entries, e) },
	})
	fixtures.Lock()
	fixtures.n++
	email := fmt.Sprintf("a%d@example.com", fixtures.n)
	fixtures.Unlock()
	a, _, err := d.accounts.Create(context.Background(), "test", email, account.None, false)
	if err != nil {
		t.Fatal(err)
	}
	d.id, d.index = a.ID, a
	return d
}

// object is what the test processor keeps of a payment.
type object struct {
	Status        string `json:"status"`
	AmountCents   int64  `json:"amount_cents"`
	RefundedCents int64  `json:"refunded_cents"`
}

// kept is what the processor has taken and not given back.
func (o object) kept() int64 {
	if o.Status != "paid" {
		return 0
	}
	return o.AmountCents - o.RefundedCents
}

// till watches what the test processor stores: its books, apart from ours.
type till struct {
	testpay.Store
	objects  map[string]object
	disputes map[string]dispute // by payment
}

// dispute is how the disputes of a payment stand at the processor.
type dispute struct {
	cents int64
	steps int
}

// kept is what the processor has of a payment.
func (t *till) kept(id string) int64 { return t.objects[id].kept() - t.disputes[id].cents }

func (t *till) ChangeTestObject(ctx context.Context, id string, change func([]byte) ([]byte, error)) error {
	var body []byte
	err := t.Store.ChangeTestObject(ctx, id, func(old []byte) (_ []byte, err error) {
		body, err = change(old)
		return body, err
	})
	var o object
	if err == nil && json.Unmarshal(body, &o) == nil && o.AmountCents > 0 {
		t.objects[strings.TrimPrefix(id, "testch_")] = o
	}
	return err
}

// flaky is a processor whose line drops before or after it has done something, or one thing only.
type flaky struct {
	*testpay.Processor
	before, after bool
	only          string
	till          *till
}

var errDropped = errors.New("the line dropped")

func (f *flaky) call(name string, do func() (billing.Outcome, error)) (billing.Outcome, error) {
	if f.only != "" && f.only != name {
		return do()
	}
	if f.before {
		return billing.Outcome{}, errDropped
	}
	o, err := do()
	if d := f.till.disputes[strings.TrimPrefix(o.Ref, "testch_")]; o.Status == billing.Paid {
		o.DisputedCents, o.DisputeSteps = d.cents, d.steps
	}
	if f.after {
		return billing.Outcome{}, errDropped
	}
	return o, err
}

func (f *flaky) Begin(ctx context.Context, c billing.Customer, p billing.Payment) (billing.Outcome, error) {
	return f.call("Begin", func() (billing.Outcome, error) { return f.Processor.Begin(ctx, c, p) })
}

func (f *flaky) Outcome(ctx context.Context, p billing.Payment) (billing.Outcome, error) {
	return f.call("Outcome", func() (billing.Outcome, error) { return f.Processor.Outcome(ctx, p) })
}

func (f *flaky) Cancel(ctx context.Context, p billing.Payment) (billing.Outcome, error) {
	return f.call("Cancel", func() (billing.Outcome, error) { return f.Processor.Cancel(ctx, p) })
}

func (f *flaky) Refund(ctx context.Context, p billing.Payment) (billing.Outcome, error) {
	return f.call("Refund", func() (billing.Outcome, error) {
		if f.till.disputes[p.ID].cents > 0 { // the money is with the customer's bank
			return f.Processor.Outcome(ctx, p)
		}
		return f.Processor.Refund(ctx, p)
	})
}

func (d *fixture) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *fixture) view() billing.View {
	d.t.Helper()
	v, err := d.Show(context.Background(), d.id)
	d.must(err)
	return v
}

// subscribe takes a plan and pays for it with a card.
func (d *fixture) subscribe(plan account.Plan, card string) *billing.Payment {
	d.t.Helper()
	ctx := context.Background()
	p, err := d.Subscribe(ctx, "customer", d.id, plan)
	d.must(err)
	return d.payWith(p, card)
}

// payWith fills in the form of the checkout page, and comes back.
func (d *fixture) payWith(p *billing.Payment, card string) *billing.Payment {
	d.t.Helper()
	ctx := context.Background()
	p, _, err := d.PayTest(ctx, d.id, p.ID, card)
	d.must(err)
	return p
}

// pass lets time pass, with a server that looks in every so often.
func (d *fixture) pass(by, every time.Duration) {
	d.t.Helper()
	for end := d.now.Add(by); d.now.Before(end); {
		d.now = d.now.Add(min(every, end.Sub(d.now)))
		d.must(d.VisitDue(context.Background()))
	}
}

// balance is the sum of the ledger, and that of the processor.
func (d *fixture) balance() (ledger, processor int64) {
	d.t.Helper()
	for _, e := range d.ledger() {
		ledger += e.AmountCents
	}
	for id := range d.till.objects {
		processor += d.till.kept(id)
	}
	return ledger, processor
}

func (d *fixture) ledger() []billing.Entry {
	d.t.Helper()
	all, err := d.Ledger(context.Background(), d.id, 1<<30)
	d.must(err)
	return all
}

// stands holds the account's plan, the subscription's status and what has been charged against wants.
func (d *fixture) stands(when string, plan account.Plan, status billing.Status, cents int64) {
	d.t.Helper()
	v := d.view()
	ledger, processor := d.balance()
	if v.Account.Plan != plan || v.Status() != status || ledger != cents || processor != cents {
		d.t.Errorf("%s: plan %s, %s, charged %d by the ledger and %d by the processor, want %s, %s, %d",
			when, v.Account.Plan, v.Status(), ledger, processor, plan, status, cents)
	}
	if d.index.Plan != plan {
		d.t.Errorf("%s: requests are judged by the plan %s, want %s", when, d.index.Plan, plan)
	}
}
