package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sluice/internal/fault"
)

// What callers are told of an upstream that failed. The cause goes to the log; hosts, keys and raw
// bodies never reach a caller.

// Unreachable is an upstream that could not be asked.
func Unreachable(err error) *fault.Fault {
	return fault.New(fault.Unavailable, "The model's provider cannot be reached at the moment. Try again shortly.").After(time.Second).Because(scrub(err))
}

// Cut is a reply that broke off.
func Cut(err error) *fault.Fault {
	return fault.New(fault.Unavailable, "The model's provider broke off before the reply was complete. Try again.").After(time.Second).Because(scrub(err))
}

// Garbled is a reply that cannot be read.
func Garbled(err error) *fault.Fault {
	return fault.New(fault.Unavailable, "The model's provider sent a reply that cannot be read. Try again.").After(time.Second).Because(err)
}

// Stalled is a reply that stopped coming.
func Stalled(silence time.Duration) *fault.Fault {
	return fault.New(fault.Unavailable, "The model's provider stopped answering in the middle of the reply. Try again.").After(time.Second).
		Because(fmt.Errorf("nothing came for %s", silence))
}

// Failed is a reply that says itself that it failed.
func Failed(raw []byte) *fault.Fault {
	return fault.New(fault.Unavailable, "The model's provider failed while it answered. Try again.").After(time.Second).
		Because(fmt.Errorf("the upstream says: %s", errorMessage(raw)))
}

// Refused is an upstream that answered with an error status. What the caller caused is told to the
// caller, in the upstream's words, cleaned; everything else is ours to mend.
func Refused(status int, header http.Header, body []byte) *fault.Fault {
	message := errorMessage(body)
	cause := fmt.Errorf("the upstream answered %d: %s", status, message)
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if message == "" {
			message = "no reason was given"
		}
		return fault.New(fault.Invalid, "The model's provider refused the request: %s", message).Because(cause)
	case http.StatusTooManyRequests:
		return fault.New(fault.Unavailable, "The model's provider has no capacity at the moment. Try again shortly.").After(retryAfter(header)).Because(cause)
	}
	return fault.New(fault.Unavailable, "The model is not available at the moment. Try again shortly.").After(retryAfter(header)).Because(cause)
}

// retryAfter is how long the upstream asks to wait; a second where it does not say.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.Atoi(h.Get("Retry-After-Ms")); err == nil && ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	if s, err := strconv.Atoi(h.Get("Retry-After")); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	return time.Second
}

// errorMessage finds the sentence in an upstream's error body and cleans it.
func errorMessage(body []byte) string {
	var w struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &w) != nil {
		return ""
	}
	for _, raw := range []json.RawMessage{w.Error, w.Detail} {
		var s string
		if json.Unmarshal(raw, &s) == nil && s != "" {
			return cleaned(s)
		}
		var o struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(raw, &o) == nil && o.Message != "" {
			return cleaned(o.Message)
		}
	}
	return cleaned(w.Message)
}

// secrets are what an upstream's sentence may hold that is none of the caller's business: addresses,
// keys, and long runs without a space, which may be either.
var secrets = regexp.MustCompile(`(?i)\b(?:https?://|wss?://)\S+|\b(?:sk|pk|rk|key|org|proj|gsk|xai)[-_][\w*-]{6,}|\bbearer\s+\S+|\S{48,}`)

// cleaned is a sentence fit for a caller: short, printable, without secrets.
func cleaned(s string) string {
	s = secrets.ReplaceAllString(strings.ToValidUTF8(s, ""), "…")
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "") + "…"
	}
	return s
}

// scrub keeps the kind of a network error and drops the address that net/http writes into it.
func scrub(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.New(secrets.ReplaceAllString(err.Error(), "…"))
}
