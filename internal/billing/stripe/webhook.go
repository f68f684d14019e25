package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	stripe "github.com/stripe/stripe-go/v86"

	"sluice/internal/billing"
	"sluice/internal/fault"
)

// WebhookPath is where Stripe sends its events to.
const WebhookPath = "/webhooks/stripe"

const maxEvent = 1 << 20 // bytes; Stripe's are far smaller

// Webhook answers Stripe's events. What cannot be taken in is refused, and Stripe sends it again, for
// days.
func (p *Processor) Webhook(receive func(context.Context, billing.Event) error, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		err := p.answer(w, r, receive)
		if err == nil {
			_, _ = io.WriteString(w, "{}")
			return
		}
		f := fault.From(err)
		log.Warn("an event of the payment processor was not taken in", "error", f.Error())
		w.WriteHeader(f.Kind.Status())
		_ = json.NewEncoder(w).Encode(map[string]any{
			"error": map[string]any{"message": f.Message, "type": f.Kind.String(), "code": f.Kind.Status()},
		})
	})
}

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
		return err // too slow, or too many at once
	}
	if err != nil {
		return fault.New(fault.Invalid, "The event ended before it was complete.").Because(err)
	}
	e, err := p.event(payload, r.Header.Get("Stripe-Signature"))
	if err != nil {
		return err
	}
	return receive(r.Context(), e)
}

// event reads a webhook: whether Stripe has signed it, lately, and whom it is about. What it says
// beyond that is not believed but asked for.
func (p *Processor) event(payload []byte, signature string) (billing.Event, error) {
	// Of the object only ids and metadata are read, which are the same in every version of the API.
	e, err := stripe.ConstructEvent(payload, signature, p.secret, stripe.WithIgnoreAPIVersionMismatch())
	if err != nil || e.ID == "" || e.Data == nil {
		return billing.Event{}, fault.New(fault.Invalid, "The event's signature is not Stripe's, or too old.").Because(err)
	}
	out := billing.Event{ID: e.ID, Kind: string(e.Type)}
	var object struct {
		Object   string            `json:"object"`
		ID       string            `json:"id"`
		Intent   string            `json:"payment_intent"`
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(e.Data.Raw, &object) != nil {
		return out, nil // of a kind that has other fields: not about payments
	}
	switch object.Object {
	case "checkout.session", "payment_intent":
		out.PaymentID, out.Ref = object.Metadata[paymentKey], object.ID
	case "charge", "refund":
		out.PaymentID, out.Ref = object.Metadata[paymentKey], object.Intent
	case "customer":
		out.AccountID = object.Metadata[accountKey]
	}
	return out, nil
}
