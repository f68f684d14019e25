package stripe

import (
	"bytes"
	"testing"
	"time"

	stripe "github.com/stripe/stripe-go/v86"

	"sluice/internal/kit/fault"
)

// An event that is not signed is refused, and what is in a signed one is read or left alone.
func FuzzEvent(f *testing.F) {
	for _, s := range []string{
		`{"id":"evt_1","object":"event","type":"charge.refunded","data":{"object":{"object":"charge","metadata":{"payment":"p"},"payment_intent":"pi"}}}`,
		`{"id":"evt_1","object":"event","type":"x","data":{"object":[]}}`, `{"id":"evt_1","data":null}`, `{}`, `[]`, ``, `{"id":1}`,
	} {
		f.Add([]byte(s), "t=1,v1=00")
	}
	p := &Processor{secret: "whsec_test"}
	f.Fuzz(func(t *testing.T, payload []byte, signature string) {
		if _, err := p.event(t.Context(), payload, signature); fault.From(err).Kind != fault.Invalid {
			t.Errorf("event(%q, %q) = %v, want it refused", payload, signature, err)
		}
		if bytes.Contains(payload, []byte("u")) && bytes.Contains(payload, []byte("payment_intent")) {
			return // a refund or a dispute of a payment: Stripe is asked about it
		}
		signed := stripe.GenerateTestSignedPayload(&stripe.UnsignedPayload{Payload: payload, Secret: p.secret, Timestamp: time.Now()})
		if _, err := p.event(t.Context(), payload, signed.Header); err != nil && fault.From(err).Kind != fault.Invalid {
			t.Errorf("event(%q), signed = %v", payload, err)
		}
	})
}
