package stripe

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
)

const (
	secret = "whsec_test"
	day    = 24 * time.Hour
)

// fixture is one account that pays through the fake.
type fixture struct {
	*billing.Billing
	t     testing.TB
	store *alltest.Store
	dir   string
	fake  *fake
	pay   *Processor
	id    string
	unix  atomic.Int64 // the time, which the fake reads, too
}

// emptyStore is the file of a new database. Copying it is faster than running all migrations, which a
// property test would do thousands of times.
var emptyStore = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "sluice-stripe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s, err := alltest.Open(context.Background(), "sqlite", dir)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, sqlstore.File))
})

func (d *fixture) now() time.Time { return time.Unix(d.unix.Load(), 0).UTC() }

func newFixture(t testing.TB) *fixture {
	t.Helper()
	dir := t.TempDir()
	if body, err := emptyStore(); err != nil || os.WriteFile(filepath.Join(dir, sqlstore.File), body, 0o600) != nil {
		t.Fatal("copy an empty database", err)
	}
	s, err := alltest.Open(t.Context(), "sqlite", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d := &fixture{t: t, store: s, dir: dir}
	d.unix.Store(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).Unix())
	var address string
	d.fake, address = newFake(t, d.now)
	d.pay = New("sk_test_1", secret, func() string { return "https://sluice.test/billing" }, &Options{URL: address})
	d.Billing = billing.New(s, &billing.Options{Processor: d.pay, LeastCents: LeastCents, Now: d.now, Log: slog.New(slog.DiscardHandler)})
	a, _, err := account.New(s, nil).Create(context.Background(), "test", "ana@example.com", account.None, false)
	d.must(err)
	d.id = a.ID
	return d
}

// close releases everything that the fixture holds: a property test has thousands of fixtures.
func (d *fixture) close() {
	d.fake.close()
	d.store.Close()
	os.RemoveAll(d.dir)
}

func (d *fixture) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// receive calls the webhook and returns the status of its reply.
func (d *fixture) receive(payload []byte, signature string) int {
	r := httptest.NewRequest(http.MethodPost, WebhookPath, bytes.NewReader(payload))
	r.Header.Set("Stripe-Signature", signature)
	w := httptest.NewRecorder()
	d.pay.Webhook(d.Receive, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
	return w.Code
}

// deliver sends a freshly signed event to the webhook and reports whether it was accepted.
func (d *fixture) deliver(e fakeEvent) bool {
	return d.receive(e.payload, sign(e.payload, secret, time.Now())) == http.StatusOK
}

// deliverAll sends all events in order.
func (d *fixture) deliverAll() {
	d.t.Helper()
	for _, e := range d.fake.sent() {
		if !d.deliver(e) {
			d.t.Errorf("event %s was not taken in", e.id)
		}
	}
}

// openPage subscribes to a plan and returns the id of the payment page.
func (d *fixture) openPage(plan account.Plan) string {
	d.t.Helper()
	p, err := d.Subscribe(context.Background(), "customer", d.id, plan)
	d.must(err)
	return p.Ref
}

func (d *fixture) pass(by time.Duration) {
	d.t.Helper()
	for end := d.now().Add(by); d.now().Before(end); {
		d.unix.Add(int64(min(12*time.Hour, end.Sub(d.now())) / time.Second))
		d.must(d.VisitDue(context.Background()))
	}
}

func (d *fixture) stands(when string, plan account.Plan, status billing.Status, cents int64) {
	d.t.Helper()
	v, err := d.Show(context.Background(), d.id)
	d.must(err)
	entries, err := d.Ledger(context.Background(), d.id, 1<<30)
	d.must(err)
	var ledger int64
	for _, e := range entries {
		ledger += e.AmountCents
	}
	if kept := d.fake.kept(); v.Account.Plan != plan || v.Status() != status || ledger != cents || kept != cents {
		d.t.Errorf("%s: plan %s, %s, charged %d by the ledger and %d by Stripe, want %s, %s, %d", when, v.Account.Plan, v.Status(), ledger, kept, plan, status, cents)
	}
}

func TestLifeCycle(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	p, err := d.Subscribe(t.Context(), "customer", d.id, account.Basic)
	if err != nil || !strings.HasPrefix(p.URL, "https://checkout.test/cs_") {
		t.Fatalf("Subscribe = %+v, %v, want a page of Checkout", p, err)
	}
	d.fake.payPage(p.Ref, brokeCard)
	d.deliverAll()
	d.stands("declined on the page", account.None, billing.NotSubscribed, 0)
	d.fake.payPage(p.Ref, goodCard)
	d.deliverAll()
	d.stands("paid on the page", account.Basic, billing.Active, 1000)
	v, err := d.Show(t.Context(), d.id)
	if err != nil || v.Method.String() != "visa ending in 4242, expires 07/31" {
		t.Errorf("the payment method is %q, %v", v.Method, err)
	}

	d.pass(14 * day)
	o, err := d.Quote(t.Context(), d.id, account.Premium)
	d.must(err)
	if o.AmountCents != 750 {
		t.Errorf("Quote in the middle of February = %d, want 750", o.AmountCents)
	}
	if p, err := d.Upgrade(t.Context(), "customer", d.id, o); err != nil || p.Status != billing.Paid {
		t.Fatalf("Upgrade = %+v, %v, want paid", p, err)
	}
	d.stands("upgraded", account.Premium, billing.Active, 1750)
	d.pass(14 * day)
	d.stands("renewed", account.Premium, billing.Active, 1750+2500)

	page, err := d.Portal(t.Context(), "customer", d.id)
	if err != nil || !strings.HasPrefix(page, "https://portal.test/cus_") {
		t.Errorf("Portal = %q, %v", page, err)
	}
	b, err := d.store.Record(t.Context(), d.id)
	d.must(err)
	d.fake.changeCard(b.Customer, brokeCard)
	d.deliverAll()
	d.pass(31 * day)
	d.stands("the new card declines", account.Premium, billing.PastDue, 4250)
	p, err = d.PayOverdue(t.Context(), "customer", d.id)
	d.must(err)
	d.fake.payPage(p.Ref, goodCard)
	d.must(second(d.Settle(t.Context(), d.id, p.ID)))
	d.stands("paid in person", account.Premium, billing.Active, 6750)
	d.pass(30 * day)
	d.stands("the card of the page is the one for renewals", account.Premium, billing.Active, 9250)
	d.fake.changeCard(b.Customer, brokeCard)
	d.pass(45 * day)
	d.stands("lapsed", account.None, billing.NotSubscribed, 9250)
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fake.payPage(d.openPage(account.Basic), carefulCard)
	d.deliverAll()
	o, err := d.Quote(t.Context(), d.id, account.Scale)
	d.must(err)
	p, err := d.Upgrade(t.Context(), "customer", d.id, o)
	if err != nil || p.Status != billing.Failed || !p.Confirm {
		t.Fatalf("Upgrade = %+v, %v, want a failure that a confirmation mends", p, err)
	}
	p, err = d.UpgradeInPerson(t.Context(), "customer", d.id, o)
	d.must(err)
	d.fake.payPage(p.Ref, carefulCard)
	d.deliverAll()
	d.stands("confirmed on the page", account.Scale, billing.Active, 7500)
}

// Amounts that are too small for Stripe are waived: an upgrade in the last hours of a period is free.
func TestTooLittle(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fake.payPage(d.openPage(account.Basic), goodCard)
	d.deliverAll()
	d.pass(28*day - 6*time.Hour)
	o, err := d.Quote(t.Context(), d.id, account.Premium)
	d.must(err)
	if p, err := d.Upgrade(t.Context(), "customer", d.id, o); err != nil || o.AmountCents != 0 || p.Status != billing.Paid {
		t.Errorf("Upgrade six hours before the end = %+v, %v, want it free", p, err)
	}
	d.stands("upgraded for nothing", account.Premium, billing.Active, 1000)
}

// A charge whose response was lost is found again, even when Stripe has forgotten the idempotency key.
func TestLostCharge(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fake.payPage(d.openPage(account.Basic), goodCard)
	d.deliverAll()
	d.fake.line(false, true)
	d.pass(29 * day)
	if kept := d.fake.kept(); kept != 2000 {
		t.Fatalf("Stripe has %d, want the renewal charged", kept)
	}
	d.fake.line(false, false)
	d.fake.forget()
	d.pass(day)
	d.stands("found again", account.Basic, billing.Active, 2000)
	d.fake.line(true, false)
	d.pass(29 * day)
	d.fake.line(false, false)
	d.pass(day)
	d.stands("after an outage", account.Basic, billing.Active, 3000)
}

func TestWebhookTwice(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fake.payPage(d.openPage(account.Basic), goodCard)
	for range 3 {
		d.deliverAll()
	}
	d.stands("three deliveries", account.Basic, billing.Active, 1000)
	entries, err := d.Ledger(t.Context(), d.id, 100)
	if err != nil || len(entries) != 2 {
		t.Errorf("the ledger has %d entries, %v, want charged and started", len(entries), err)
	}
}

func TestWebhookOutOfOrder(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	page := d.openPage(account.Basic)
	d.fake.payPage(page, brokeCard)
	d.fake.payPage(page, goodCard)
	d.fake.refundByHand(400)
	for _, e := range slices.Backward(d.fake.sent()) { // refunded, completed, succeeded, failed
		if !d.deliver(e) {
			t.Errorf("event %s was not taken in", e.id)
		}
	}
	d.stands("backwards", account.Basic, billing.Active, 600)
}

// An event is harmless if it arrives after the payment was settled another way or was given up. Money that
// arrives too late is refunded.
func TestWebhookLate(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fake.payPage(d.openPage(account.Basic), goodCard)
	d.pass(2 * day) // no event came; the machine asked
	d.stands("asked", account.Basic, billing.Active, 1000)
	d.pass(20 * day)
	d.deliverAll()
	d.stands("events three weeks late", account.Basic, billing.Active, 1000)

	d = newFixture(t)
	left := d.openPage(account.Premium)
	d.fake.payPage(left, goodCard) // in the moment in which the account is suspended
	d.must(second(account.New(d.store, nil).Suspend(t.Context(), "staff", d.id, "terms")))
	d.deliverAll()
	d.stands("money for a suspended account", account.None, billing.NotSubscribed, 0)

	d = newFixture(t)
	left = d.openPage(account.Basic)
	d.pass(2 * day)
	d.fake.payPage(left, goodCard) // the page is closed
	d.deliverAll()
	d.stands("a page that was left", account.None, billing.NotSubscribed, 0)
}

// If the response that opened a page is lost, the page becomes known by the event of a declined attempt. It
// still ends: by itself after a day, or when the customer starts again.
func TestLostPage(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fixture){
		"left": func(d *fixture) { d.pass(2 * day) },
		"begun again": func(d *fixture) {
			page := d.openPage(account.Basic)
			d.fake.payPage(page, goodCard)
			d.deliverAll()
			d.stands("paid on another page", account.Basic, billing.Active, 1000)
		},
	} {
		d := newFixture(t)
		d.must(second(d.Portal(t.Context(), "customer", d.id))) // makes the customer known to Stripe
		d.fake.line(false, true)
		if _, err := d.Subscribe(t.Context(), "customer", d.id, account.Scale); err == nil {
			t.Fatal("Subscribe on a line that loses answers = nil, want an error")
		}
		d.fake.line(false, false)
		lost := d.fake.opened()[0]
		d.fake.payPage(lost, brokeCard)
		d.deliverAll()
		end(d)
		b, err := d.store.Record(t.Context(), d.id)
		d.must(err)
		if b.Payment != nil {
			t.Errorf("%s: the payment %+v is open, want it ended", name, b.Payment)
		}
		d.fake.payPage(lost, goodCard)
		if kept := d.fake.kept(); kept != map[string]int64{"left": 0, "begun again": 1000}[name] {
			t.Errorf("%s: Stripe has %d cents, want the lost page to be closed", name, kept)
		}
	}
}

// A payment that Stripe does not know does not stay open.
func TestUnknownPayment(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.openPage(account.Basic)
	d.fake.mu.Lock()
	clear(d.fake.sessions)
	d.fake.mu.Unlock()
	d.pass(2 * day)
	b, err := d.store.Record(t.Context(), d.id)
	if err != nil || b.Payment != nil {
		t.Errorf("the payment %+v is open, %v, want it failed", b.Payment, err)
	}
}

func TestWebhookForged(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	page := d.openPage(account.Basic)
	b, err := d.store.Record(t.Context(), d.id)
	d.must(err)
	d.fake.send("checkout.session.completed", map[string]any{
		"id": page, "object": "checkout.session", "status": "complete", "payment_status": "paid", "metadata": map[string]string{paymentKey: b.Payment.ID},
	})
	forged := d.fake.sent()[0].payload
	now := time.Now()
	for name, signature := range map[string]string{
		"no signature":     "",
		"nonsense":         "v1=00,t=zero",
		"another secret":   sign(forged, "whsec_other", now),
		"another payload":  sign([]byte("{}"), secret, now),
		"old":              sign(forged, secret, now.Add(-10*time.Minute)),
		"another scheme":   strings.Replace(sign(forged, secret, now), "v1=", "v0=", 1),
		"another time":     strings.Replace(sign(forged, secret, now.Add(-time.Second)), "t=", "t=1", 1),
		"an empty payload": sign(nil, secret, now) + "x",
	} {
		if status := d.receive(forged, signature); status != http.StatusBadRequest {
			t.Errorf("%s: %d, want it refused with 400", name, status)
		}
	}
	// Even a signed event is not trusted: Stripe is asked for the page, which is unpaid.
	if status := d.receive(forged, sign(forged, secret, now)); status != http.StatusOK {
		t.Errorf("a signed event: %d, want 200", status)
	}
	d.stands("after forgeries", account.None, billing.NotSubscribed, 0)

	// A payment cannot be settled with an object that belongs to another.
	d.fake.payPage(page, goodCard)
	d.fake.mu.Lock()
	intent := d.fake.sessions[page].intent
	d.fake.mu.Unlock()
	for _, ref := range []string{page, intent} {
		if o, err := d.pay.Outcome(t.Context(), billing.Payment{ID: "pay_other", Ref: ref}); err == nil {
			t.Errorf("Outcome with another payment's %s = %+v, want an error", ref, o)
		}
	}
}

// A dispute ends the plan when it is opened, and the ledger follows the money.
func TestDispute(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		do   func(d *fixture, intent string)
		plan account.Plan
		left int64
		what []billing.What // newest first, after charged and started
	}{
		{"an inquiry", func(d *fixture, pi string) { d.fake.dispute(pi, true) }, account.Basic, 1000, nil},
		{"opened", func(d *fixture, pi string) { d.fake.dispute(pi, false) }, account.None, 0, []billing.What{billing.Revoked, billing.Disputed}},
		{"lost", func(d *fixture, pi string) {
			d.fake.dispute(pi, false)
			d.deliverAll()
			d.fake.decide(pi, false)
		}, account.None, 0, []billing.What{billing.DisputeLost, billing.Revoked, billing.Disputed}},
		{"won", func(d *fixture, pi string) {
			d.fake.dispute(pi, false)
			d.deliverAll()
			d.fake.decide(pi, true)
		}, account.None, 1000, []billing.What{billing.DisputeWon, billing.Revoked, billing.Disputed}},
		{"opened and lost before any event came", func(d *fixture, pi string) {
			d.fake.dispute(pi, false)
			d.fake.decide(pi, false)
		}, account.None, 0, []billing.What{billing.Revoked, billing.Disputed}},
		{"opened and won before any event came", func(d *fixture, pi string) {
			d.fake.dispute(pi, false)
			d.fake.decide(pi, true)
		}, account.Basic, 1000, []billing.What{billing.DisputeWon}},
		{"of what a refund has left", func(d *fixture, pi string) {
			d.fake.refundByHand(400)
			d.fake.dispute(pi, false)
		}, account.None, 0, []billing.What{billing.Revoked, billing.Disputed, billing.Refunded}},
		{"twice", func(d *fixture, pi string) {
			d.fake.dispute(pi, false)
			d.deliverAll()
			d.fake.decide(pi, true)
			d.deliverAll()
			d.fake.dispute(pi, false)
		}, account.None, 0, []billing.What{billing.Disputed, billing.DisputeWon, billing.Revoked, billing.Disputed}},
	} {
		d := newFixture(t)
		d.fake.payPage(d.openPage(account.Basic), goodCard)
		d.deliverAll()
		tt.do(d, d.fake.charged()[0])
		for _, e := range slices.Backward(d.fake.sent()) { // closed, withdrawn, created, and what came before
			if !d.deliver(e) {
				t.Errorf("%s: event %s was not taken in", tt.name, e.id)
			}
		}
		d.deliverAll()
		status := billing.Active
		if tt.plan == account.None {
			status = billing.NotSubscribed
		}
		d.stands(tt.name, tt.plan, status, tt.left)
		entries, err := d.Ledger(t.Context(), d.id, 100)
		d.must(err)
		var what []billing.What
		for _, e := range entries[:len(entries)-2] {
			what = append(what, e.What)
		}
		if !slices.Equal(what, tt.what) {
			t.Errorf("%s: the ledger has %v, want %v", tt.name, what, tt.what)
		}
	}
}

// A dispute of a payment for an earlier subscription does not affect the current one. A disputed payment
// cannot be refunded.
func TestDisputeOfEarlier(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fake.payPage(d.openPage(account.Basic), goodCard)
	d.deliverAll()
	d.must(d.EndNow(t.Context(), "test", d.id, "ended"))
	d.pass(day)
	d.fake.payPage(d.openPage(account.Premium), goodCard)
	d.deliverAll()
	d.fake.dispute(d.fake.charged()[0], false)
	d.deliverAll()
	d.stands("the earlier payment is disputed", account.Premium, billing.Active, 2500)
	invoices, err := d.Invoices(t.Context(), d.id, 10)
	d.must(err)
	if _, err := d.Refund(t.Context(), "support", invoices[1].ID, 100); !fault.Is(err, fault.Conflict) {
		t.Errorf("Refund of a disputed payment = %v, want a conflict", err)
	}
	d.pass(day)
	d.stands("a day later", account.Premium, billing.Active, 2500)
}

// Refunds and disputes whose events never arrived are found by asking for reports.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fake.payPage(d.openPage(account.Basic), goodCard)
	d.deliverAll()
	d.fake.refundByHand(100)
	d.fake.refundByHand(200)
	d.fake.refundByHand(300)
	d.fake.line(true, false)
	if err := d.CatchUp(t.Context(), d.now().Add(-day)); err == nil {
		t.Error("CatchUp while Stripe does not answer = nil, want an error")
	}
	d.fake.line(false, false)
	for range 2 {
		d.must(d.CatchUp(t.Context(), d.now().Add(-day)))
		d.stands("three refunds", account.Basic, billing.Active, 400)
	}
	d.pass(2 * day)
	d.fake.dispute(d.fake.charged()[0], false)
	d.must(d.CatchUp(t.Context(), d.now().Add(-day)))
	d.stands("a dispute", account.None, billing.NotSubscribed, 0)
}

// While Stripe is down, an event about a dispute is refused, so that Stripe sends it again.
func TestDisputeUnanswered(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.fake.payPage(d.openPage(account.Basic), goodCard)
	d.deliverAll()
	d.fake.dispute(d.fake.charged()[0], false)
	d.fake.line(true, false)
	events := d.fake.sent()
	if e := events[len(events)-1]; d.receive(e.payload, sign(e.payload, secret, time.Now())) != http.StatusServiceUnavailable {
		t.Error("a dispute was taken in while nothing could be asked, want 503")
	}
	d.fake.line(false, false)
	d.deliverAll()
	d.stands("come again", account.None, billing.NotSubscribed, 0)
}

// Events of kinds that do not concern us are accepted, so that Stripe does not send them again.
func TestWebhookOfOthers(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	for _, object := range []any{
		map[string]any{"object": "payout", "id": "po_1"},
		map[string]any{"object": "payment_intent", "id": "pi_x", "metadata": map[string]string{paymentKey: "pay_of_somebody_else"}},
		map[string]any{"object": "customer", "id": "cus_x", "metadata": map[string]string{accountKey: "acct_of_somebody_else"}},
		map[string]any{"object": "charge", "id": "ch_x", "payment_intent": map[string]any{"id": "pi_x"}},
	} {
		d.fake.send("some.kind", object)
	}
	d.deliverAll()
	d.stands("others", account.None, billing.NotSubscribed, 0)
}

// The webhook refuses what it cannot process, with the usual error object.
func TestWebhookReplies(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	hook := d.pay.Webhook(d.Receive, slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		method, body string
		status       int
	}{
		{http.MethodGet, "", http.StatusMethodNotAllowed},
		{http.MethodPost, "{}", http.StatusBadRequest},
		{http.MethodPost, strings.Repeat(" ", maxEvent+1), http.StatusRequestEntityTooLarge},
	} {
		w := httptest.NewRecorder()
		hook.ServeHTTP(w, httptest.NewRequest(tt.method, WebhookPath, strings.NewReader(tt.body)))
		var body struct {
			Error struct {
				Message, Type string
				Code          int
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != tt.status || body.Error.Code != tt.status || body.Error.Message == "" {
			t.Errorf("%s of %d bytes = %d %s, %v, want %d as an error object", tt.method, len(tt.body), w.Code, w.Body, err, tt.status)
		}
	}
	// While Stripe is down, its events are refused, so that it sends them again.
	d.fake.payPage(d.openPage(account.Basic), goodCard)
	d.fake.line(true, false)
	if e := d.fake.sent()[0]; d.receive(e.payload, sign(e.payload, secret, time.Now())) != http.StatusServiceUnavailable {
		t.Error("an event was taken in while nothing could be asked, want 503")
	}
	d.fake.line(false, false)
	d.deliverAll()
	d.stands("come again", account.Basic, billing.Active, 1000)
}

func second[T any](_ T, err error) error { return err }
