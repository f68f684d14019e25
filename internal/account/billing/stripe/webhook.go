package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	stripe "github.com/stripe/stripe-go/v86"

	"sluice/internal/account/billing"
	"sluice/internal/kit/fault"
)

// WebhookPath is where Stripe sends its events. Operators enter it in Stripe's dashboard, so it must
// not change.
const WebhookPath = "/webhooks/stripe"

const maxEvent = 1 << 20 // bytes; Stripe's events are far smaller

// Webhook returns the handler of Stripe's events. It passes each to receive. If that fails, it
// answers with an error, and Stripe sends the event again, for days. Events come in any order, more
// than once, and sometimes never; receive must cope with that.
func (p *Processor) Webhook(receive func(context.Context, billing.Event) error, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		err := p.answer(w, r, receive)
		if err == nil {
			_, _ = io.WriteString(w, "{}")
			return
		}
		f := fault.From(err)
		log.Warn("an event of the payment processor was rejected", "error", f.Error())
		f.Reply(w, r, f.Object().Body())
	})
}

// answer reads an event, checks its signature and passes it to receive.
func (p *Processor) answer(w http.ResponseWriter, r *http.Request, receive func(context.Context, billing.Event) error) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return fault.New(fault.MethodNotAllowed, "Events are sent with POST.")
	}
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fault.New(fault.TooLarge, "The event is larger than %d MiB.", maxEvent>>20)
	}
	if _, ok := errors.AsType[*fault.Fault](err); ok {
		return err // the body came too slowly, or too many bodies came at once
	}
	if err != nil {
		return fault.New(fault.Invalid, "The event ended before it was complete.").Because(err)
	}
	e, err := p.event(r.Context(), payload, r.Header.Get("Stripe-Signature"))
	if err != nil {
		return err
	}
	return receive(r.Context(), e)
}

// event checks that Stripe signed a webhook, and recently, and returns what the event is about.
// Anything else that the event says is not used; the current state is asked of Stripe. An old event
// that is sent again can therefore do no harm.
func (p *Processor) event(ctx context.Context, payload []byte, signature string) (billing.Event, error) {
	// Only ids and metadata of the object are read. They are the same in every version of Stripe's API.
	e, err := stripe.ConstructEvent(payload, signature, p.secret, stripe.WithIgnoreAPIVersionMismatch())
	if err != nil || e.ID == "" || e.Data == nil {
		return billing.Event{}, fault.New(fault.Invalid, "The event's signature is not Stripe's, or too old.").Because(err)
	}
	return p.read(ctx, &e)
}

// reported are the types of events that tell what happens to a payment after it has ended. Nothing
// else would reveal it: until then package billing polls the payment.
var reported = []string{
	"checkout.session.completed", // on a page whose payment billing has given up
	"charge.refunded", "charge.dispute.created", "charge.dispute.closed", "charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated",
}

// Reports implements billing.Reporter. It makes up for webhooks that never arrived, for example because
// the server was down for longer than Stripe retries. One event that fails does not keep the others
// from being received.
func (p *Processor) Reports(ctx context.Context, since time.Time, receive func(context.Context, billing.Event) error) error {
	list := &stripe.EventListParams{
		Types: stripe.StringSlice(reported), CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: since.Unix()},
	}
	list.Limit = stripe.Int64(100) // a page
	var refused error
	for e, err := range p.api.V1Events.List(ctx, list).All(ctx) {
		if err != nil {
			return errors.Join(refused, reduced(err))
		}
		if e.Data == nil {
			continue
		}
		event, err := p.read(ctx, e)
		if err == nil {
			err = receive(ctx, event)
		}
		if refused == nil { // the first error is enough for the log
			refused = err
		}
	}
	return refused
}

// read returns what a signed event is about. An event that is not about one of our payments or accounts
// has empty ids; it is no error, because the Stripe account may serve other products too.
func (p *Processor) read(ctx context.Context, e *stripe.Event) (out billing.Event, err error) {
	out = billing.Event{ID: e.ID, Kind: string(e.Type)}
	var object struct {
		Object   string            `json:"object"`
		ID       string            `json:"id"`
		Intent   string            `json:"payment_intent"`
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(e.Data.Raw, &object) != nil {
		return out, nil // an object with other fields is not about payments
	}
	switch object.Object {
	case "checkout.session", "payment_intent":
		out.PaymentID, out.Ref = object.Metadata[paymentKey], object.ID
	case "charge":
		out.PaymentID, out.Ref = object.Metadata[paymentKey], object.Intent
	case "refund", "dispute": // their metadata are their own
		out.Ref = object.Intent
		if out.PaymentID, err = p.paymentOf(ctx, object.Intent); err != nil {
			return billing.Event{}, unanswered(err)
		}
	case "customer":
		out.AccountID = object.Metadata[accountKey]
	}
	return out, nil
}

// paymentOf returns the id of our payment that a PaymentIntent was made for, or an empty string if
// it is not ours.
func (p *Processor) paymentOf(ctx context.Context, intent string) (string, error) {
	if intent == "" {
		return "", nil
	}
	pi, err := p.api.V1PaymentIntents.Retrieve(ctx, intent, nil)
	if isMissing(err) {
		return "", nil
	}
	if err != nil {
		return "", reduced(err)
	}
	return pi.Metadata[paymentKey], nil
}

// unanswered returns the fault for an event about which Stripe could not be asked. Stripe sends the
// event again.
func unanswered(err error) error {
	return fault.New(fault.Unavailable, "Stripe is not responding. Send the event again.").Because(err)
}
