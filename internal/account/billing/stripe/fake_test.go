package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The cards of the fake: what Stripe calls payment methods.
const (
	goodCard    = "pm_good"
	brokeCard   = "pm_broke"   // declines
	carefulCard = "pm_careful" // asks for confirmation when the customer is away
)

// fake is a Stripe server in memory: the few objects that we use, their states, idempotency keys, and the
// events that it would send.
type fake struct {
	mu        sync.Mutex
	now       func() time.Time
	seq       int
	customers map[string]*fakeCustomer
	sessions  map[string]*fakeSession
	pages     []string // the ids of all sessions
	intents   map[string]*fakeIntent
	replies   map[string]fakeReply // by idempotency key
	events    []fakeEvent
	close     func()
	down      bool // does not respond
	lost      bool // executes requests, but the responses are lost
}

type fakeCustomer struct {
	metadata map[string]string
	method   string
}

type fakeSession struct {
	id, customer, status string
	amount               int64
	metadata             map[string]string
	intentMetadata       map[string]string
	attempt              *fakeIntent // to pay it
	intent               string      // that has paid it
}

type fakeIntent struct {
	id, customer, method, status string
	amount, refunded, created    int64
	metadata                     map[string]string
	lastError                    string
	disputes                     []*fakeDispute
}

type fakeDispute struct {
	id, status string
	amount     int64
}

// disputed returns the amount that the customer's bank holds or has kept.
func (pi *fakeIntent) disputed() (cents int64) {
	for _, d := range pi.disputes {
		if d.status == "needs_response" || d.status == "lost" {
			cents += d.amount
		}
	}
	return cents
}

// kept returns what was charged and neither refunded nor disputed.
func (pi *fakeIntent) kept() int64 {
	if pi.status != "succeeded" {
		return 0
	}
	return pi.amount - pi.refunded - pi.disputed()
}

type fakeReply struct {
	form   string
	status int
	body   any
}

type fakeEvent struct {
	id, kind string
	created  int64
	payload  []byte
}

func newFake(t testing.TB, now func() time.Time) (*fake, string) {
	t.Helper()
	f := &fake{
		now: now, customers: map[string]*fakeCustomer{}, sessions: map[string]*fakeSession{},
		intents: map[string]*fakeIntent{}, replies: map[string]fakeReply{},
	}
	srv := httptest.NewServer(http.HandlerFunc(f.serve))
	f.close = srv.Close
	t.Cleanup(srv.Close)
	return f, srv.URL
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		panic(http.ErrAbortHandler)
	}
	_ = r.ParseForm()
	key := r.Header.Get("Idempotency-Key")
	status, body := 0, any(nil)
	if kept, ok := f.replies[key]; ok && r.Method == http.MethodPost {
		status, body = kept.status, kept.body
		if kept.form != r.PostForm.Encode() {
			status, body = 400, refused("idempotency_error", "", "the key was used with other parameters")
		}
	} else {
		status, body = f.route(r)
		if r.Method == http.MethodPost && key != "" {
			f.replies[key] = fakeReply{r.PostForm.Encode(), status, body}
		}
	}
	if f.lost && r.Method == http.MethodPost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (f *fake) route(r *http.Request) (int, any) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	form := r.Form
	what := r.Method + " " + parts[0]
	if parts[0] == "checkout" || parts[0] == "billing_portal" {
		what, parts = what+"/"+parts[1], parts[1:]
	}
	id, verb := "", ""
	if len(parts) > 1 {
		id = parts[1]
	}
	if len(parts) > 2 {
		verb = parts[2]
	}
	switch {
	case what == "POST customers" && id == "":
		c := &fakeCustomer{metadata: metadata(form, "metadata")}
		id = f.id("cus")
		f.customers[id] = c
		return 200, f.customer(id)
	case strings.HasSuffix(what, " customers") && f.customers[id] != nil:
		if m := form.Get("invoice_settings[default_payment_method]"); m != "" {
			f.customers[id].method = m
		}
		return 200, f.customer(id)
	case what == "POST checkout/sessions" && id == "":
		return f.openSession(form)
	case strings.HasSuffix(what, " checkout/sessions") && f.sessions[id] != nil:
		s := f.sessions[id]
		if verb == "expire" {
			if s.status != "open" {
				return 400, refused("invalid_request_error", "", "the session is "+s.status)
			}
			s.status = "expired"
			if s.attempt != nil {
				s.attempt.status = "canceled"
			}
			f.emit("checkout.session.expired", s.json())
		}
		return 200, s.json()
	case what == "GET checkout/sessions" && id == "":
		return f.sessionOf(form.Get("payment_intent"))
	case what == "POST payment_intents" && id == "":
		return f.charge(form)
	case what == "GET payment_intents" && id == "":
		return f.list(form)
	case what == "GET payment_intents" && f.intents[id] != nil:
		return 200, f.intent(f.intents[id])
	case what == "POST payment_intents" && f.intents[id] != nil && verb == "cancel":
		return f.cancel(f.intents[id])
	case what == "GET events":
		return f.listEvents(form)
	case what == "GET disputes":
		return f.listDisputes(form.Get("payment_intent"))
	case what == "POST refunds":
		return f.refund(form.Get("payment_intent"), amount(form, "amount"))
	case what == "POST billing_portal/sessions":
		return 200, map[string]any{"id": f.id("bps"), "object": "billing_portal.session", "url": "https://portal.test/" + form.Get("customer")}
	}
	return 404, refused("invalid_request_error", "resource_missing", "nothing at "+r.Method+" "+r.URL.Path)
}

func (f *fake) id(kind string) string {
	f.seq++
	return kind + "_" + strconv.Itoa(f.seq)
}

func (f *fake) openSession(form url.Values) (int, any) {
	s := &fakeSession{
		id: f.id("cs"), customer: form.Get("customer"), status: "open", amount: amount(form, "line_items[0][price_data][unit_amount]"),
		metadata: metadata(form, "metadata"), intentMetadata: metadata(form, "payment_intent_data[metadata]"),
	}
	f.sessions[s.id] = s
	f.pages = append(f.pages, s.id)
	return 200, s.json()
}

// charge charges a customer who is not present.
func (f *fake) charge(form url.Values) (int, any) {
	if f.customers[form.Get("customer")] == nil || form.Get("off_session") != "true" || form.Get("confirm") != "true" {
		return 400, refused("invalid_request_error", "", "not a charge of a saved method")
	}
	pi := f.newIntent(form.Get("customer"), form.Get("payment_method"), amount(form, "amount"), metadata(form, "metadata"))
	switch pi.method {
	case goodCard:
		f.succeed(pi)
		return 200, f.intent(pi)
	case carefulCard:
		pi.lastError = "authentication_required"
	default:
		pi.lastError = "card_declined"
	}
	pi.status = "requires_payment_method"
	f.emit("payment_intent.payment_failed", f.intent(pi))
	e := refused("card_error", pi.lastError, "Your card said no.")
	e["error"].(map[string]any)["payment_intent"] = f.intent(pi)
	return 402, e
}

func (f *fake) newIntent(customer, method string, cents int64, meta map[string]string) *fakeIntent {
	pi := &fakeIntent{id: f.id("pi"), customer: customer, method: method, amount: cents, metadata: meta, created: f.now().Unix()}
	f.intents[pi.id] = pi
	return pi
}

func (f *fake) succeed(pi *fakeIntent) {
	pi.status, pi.lastError = "succeeded", ""
	f.emit("payment_intent.succeeded", f.intent(pi))
}

func (f *fake) list(form url.Values) (int, any) {
	since := amount(form, "created[gte]")
	data := []any{}
	for _, pi := range f.intents {
		if pi.customer == form.Get("customer") && pi.created >= since {
			data = append(data, f.intent(pi))
		}
	}
	return 200, map[string]any{"object": "list", "data": data, "has_more": false, "url": "/v1/payment_intents"}
}

// sessionOf lists the session whose page an intent belongs to.
func (f *fake) sessionOf(intent string) (int, any) {
	data := []any{}
	for _, s := range f.sessions {
		if s.attempt != nil && s.attempt.id == intent {
			data = append(data, s.json())
		}
	}
	return 200, map[string]any{"object": "list", "data": data, "has_more": false, "url": "/v1/checkout/sessions"}
}

// cancel cancels an intent. Like Stripe it refuses the intent of a page: the page has to be expired.
func (f *fake) cancel(pi *fakeIntent) (int, any) {
	for _, s := range f.sessions {
		if s.attempt == pi {
			return 400, refused("invalid_request_error", "payment_intent_unexpected_state", "expire the Checkout Session instead")
		}
	}
	if pi.status == "succeeded" || pi.status == "canceled" {
		return 400, refused("invalid_request_error", "payment_intent_unexpected_state", "the intent is "+pi.status)
	}
	pi.status = "canceled"
	return 200, f.intent(pi)
}

func (f *fake) refund(intent string, cents int64) (int, any) {
	pi := f.intents[intent]
	if pi != nil && pi.disputed() > 0 {
		return 400, refused("invalid_request_error", "charge_disputed", "the charge is disputed")
	}
	if pi == nil || pi.status != "succeeded" || pi.refunded+cents > pi.amount {
		return 400, refused("invalid_request_error", "", "cannot be refunded")
	}
	pi.refunded += cents
	f.emit("charge.refunded", map[string]any{"id": "ch_" + pi.id, "object": "charge", "payment_intent": pi.id, "amount_refunded": pi.refunded, "metadata": pi.metadata})
	return 200, map[string]any{"id": f.id("re"), "object": "refund", "amount": cents, "status": "succeeded"}
}

// dispute opens a dispute of the rest of a payment, or an inquiry, which moves no money.
func (f *fake) dispute(intent string, inquiry bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pi := f.intents[intent]
	if pi == nil || pi.kept() <= 0 {
		return
	}
	d := &fakeDispute{id: f.id("du"), status: "needs_response", amount: pi.kept()}
	if inquiry {
		d.status = "warning_needs_response"
	}
	pi.disputes = append(pi.disputes, d)
	f.emit("charge.dispute.created", d.json(pi))
	if !inquiry {
		f.emit("charge.dispute.funds_withdrawn", d.json(pi))
	}
}

// decide closes the open disputes of a payment.
func (f *fake) decide(intent string, won bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pi := f.intents[intent]
	if pi == nil {
		return
	}
	for _, d := range pi.disputes {
		switch {
		case d.status == "warning_needs_response":
			d.status = "warning_closed"
		case d.status != "needs_response":
			continue
		case won:
			d.status = "won"
			f.emit("charge.dispute.funds_reinstated", d.json(pi))
		default:
			d.status = "lost"
		}
		f.emit("charge.dispute.closed", d.json(pi))
	}
}

// listEvents returns events, the newest first, two per page.
func (f *fake) listEvents(form url.Values) (int, any) {
	var kinds []string
	for key, values := range form {
		if strings.HasPrefix(key, "types[") {
			kinds = append(kinds, values...)
		}
	}
	data, more := []any{}, false
	after := form.Get("starting_after")
	for _, e := range slices.Backward(f.events) {
		switch {
		case e.id == after:
			after = ""
		case after != "" || e.created < amount(form, "created[gte]") || !slices.Contains(kinds, e.kind):
		case len(data) == 2:
			more = true
		default:
			data = append(data, json.RawMessage(e.payload))
		}
	}
	return 200, map[string]any{"object": "list", "data": data, "has_more": more, "url": "/v1/events"}
}

func (f *fake) listDisputes(intent string) (int, any) {
	data := []any{}
	if pi := f.intents[intent]; pi != nil {
		for _, d := range pi.disputes {
			data = append(data, d.json(pi))
		}
	}
	return 200, map[string]any{"object": "list", "data": data, "has_more": false, "url": "/v1/disputes"}
}

func (d *fakeDispute) json(pi *fakeIntent) map[string]any {
	return map[string]any{
		"id": d.id, "object": "dispute", "status": d.status, "amount": d.amount, "charge": "ch_" + pi.id, "payment_intent": pi.id, "metadata": map[string]string{},
	}
}

// charged returns the ids of all intents so far, in order.
func (f *fake) charged() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.intents))
}

// line sets how the fake fails. If down is set, it does not respond. If lost is set, it executes requests but
// the responses are lost.
func (f *fake) line(down, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down, f.lost = down, lost
}

// forget drops all idempotency keys, as Stripe does after a day.
func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies = map[string]fakeReply{}
}

// sent returns the events so far.
func (f *fake) sent() []fakeEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// opened returns the ids of all pages so far.
func (f *fake) opened() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pages)
}

// payPage pays on a page of Checkout as a customer would, whether the page is still open or not.
func (f *fake) payPage(session, card string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[session]
	if s == nil || s.status != "open" {
		return
	}
	if s.attempt == nil {
		s.attempt = f.newIntent(s.customer, card, s.amount, s.intentMetadata)
	}
	pi := s.attempt
	pi.method = card
	if card == brokeCard {
		pi.status, pi.lastError = "requires_payment_method", "card_declined"
		f.emit("payment_intent.payment_failed", f.intent(pi))
		return
	}
	f.succeed(pi)
	s.status, s.intent = "complete", pi.id
	f.emit("checkout.session.completed", s.json())
}

// changeCard changes the card as a customer would in the portal.
func (f *fake) changeCard(customer, card string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.customers[customer]; c != nil {
		c.method = card
		f.emit("customer.updated", f.customer(customer))
	}
}

// refundByHand refunds a part of every payment, as an operator would in Stripe's dashboard.
func (f *fake) refundByHand(cents int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.intents {
		f.refund(id, cents)
	}
}

// kept returns what the fake has charged and not refunded.
func (f *fake) kept() (sum int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pi := range f.intents {
		sum += pi.kept()
	}
	return sum
}

// send adds an event that belongs to no change of its object.
func (f *fake) send(kind string, object any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.emit(kind, object)
}

func (f *fake) emit(kind string, object any) {
	id := f.id("evt")
	payload, err := json.Marshal(map[string]any{
		"id": id, "object": "event", "type": kind, "api_version": "2020-08-27", "created": f.now().Unix(), "data": map[string]any{"object": object},
	})
	if err != nil {
		panic(err)
	}
	f.events = append(f.events, fakeEvent{id, kind, f.now().Unix(), payload})
}

func (f *fake) customer(id string) map[string]any {
	c := f.customers[id]
	return map[string]any{"id": id, "object": "customer", "metadata": c.metadata, "invoice_settings": map[string]any{"default_payment_method": method(c.method)}}
}

func (s *fakeSession) json() map[string]any {
	out := map[string]any{"id": s.id, "object": "checkout.session", "status": s.status, "payment_status": "unpaid", "url": "https://checkout.test/" + s.id, "metadata": s.metadata}
	if s.intent != "" {
		out["payment_status"], out["payment_intent"] = "paid", s.intent
	}
	return out
}

func (f *fake) intent(pi *fakeIntent) map[string]any {
	out := map[string]any{
		"id": pi.id, "object": "payment_intent", "status": pi.status, "amount": pi.amount, "customer": pi.customer, "metadata": pi.metadata,
		"payment_method": method(pi.method), "latest_charge": map[string]any{"id": "ch_" + pi.id, "object": "charge", "amount_refunded": pi.refunded, "disputed": len(pi.disputes) > 0},
	}
	if pi.lastError != "" {
		out["last_payment_error"] = map[string]any{"type": "card_error", "code": pi.lastError, "message": "Your card said no."}
	}
	return out
}

func method(id string) any {
	if id == "" {
		return nil
	}
	return map[string]any{"id": id, "object": "payment_method", "type": "card", "card": map[string]any{"brand": "visa", "last4": "4242", "exp_month": 7, "exp_year": 2031}}
}

func refused(kind, code, message string) map[string]any {
	return map[string]any{"error": map[string]any{"type": kind, "code": code, "message": message}}
}

func metadata(form url.Values, name string) map[string]string {
	out := map[string]string{}
	for key, values := range form {
		if inner, ok := strings.CutPrefix(key, name+"["); ok {
			out[strings.TrimSuffix(inner, "]")] = values[0]
		}
	}
	return out
}

func amount(form url.Values, name string) int64 {
	n, _ := strconv.ParseInt(form.Get(name), 10, 64)
	return n
}

// sign returns the signature header of a payload.
func sign(payload []byte, secret string, at time.Time) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), payload)
	return fmt.Sprintf("t=%d,v1=%x", at.Unix(), mac.Sum(nil))
}
