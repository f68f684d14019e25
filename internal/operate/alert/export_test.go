package alert

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Visit makes a Watch look once.
func Visit(ctx context.Context, w *Watch) { w.visit(ctx) }

// Sign signs a message as of a time.
func Sign(s Secret, h http.Header, id string, at time.Time, body string) error {
	return s.sign(h, id, at, body)
}

// Verify checks a message as its receiver would.
func Verify(s Secret, h http.Header, body string) error {
	at, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	if err != nil {
		return err
	}
	again := http.Header{}
	if err := s.sign(again, h.Get("Webhook-Id"), time.Unix(at, 0), body); err != nil {
		return err
	}
	if again.Get("Webhook-Signature") != h.Get("Webhook-Signature") {
		return errors.New("the signature is another one")
	}
	return nil
}

// ReasonOf is what a receiver's owner reads about a failed call.
func ReasonOf(err error) string { return reasonOf(err) }
