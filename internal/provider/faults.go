package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sluice/internal/excerpt"
	"sluice/internal/fault"
)

// What callers are told of an upstream that failed. The cause goes to the log; hosts, keys and raw
// bodies never reach a caller.

// ErrWanted is the cause of a failure that the caller asked for, as the sandbox lets them: it says
// nothing about the upstream, and nobody else is asked in its place.
var ErrWanted = errors.New("the caller asked for this failure")

// Unreachable is an upstream that could not be asked.
func Unreachable(err error) *fault.Fault {
	return fault.New(fault.Unavailable, "The model's provider cannot be reached at the moment. Try again shortly.").After(time.Second).Because(scrub(err))
}

// sentError marks the cause of a fault that came after the upstream had been sent the whole request.
type sentError struct{ cause error }

func (e *sentError) Error() string {
	if e.cause == nil {
		return "the request had been sent"
	}
	return e.cause.Error()
}

func (e *sentError) Unwrap() error { return e.cause }

// Sent marks a fault that came after the upstream had been sent the whole request.
func Sent(f *fault.Fault) *fault.Fault { return f.Because(&sentError{errors.Unwrap(f)}) }

// WasSent reports whether an error of Adapter.Open came after the upstream had been sent the whole
// request: the caller pays for a prompt from then on (docs/accounting.md). An upstream that refused a
// request has read it.
func WasSent(err error) bool {
	if _, ok := errors.AsType[*sentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*Refusal](err)
	return ok
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

// Late is a reply that did not begin in time.
func Late(patience time.Duration) *fault.Fault {
	return fault.New(fault.Unavailable, "The model's provider did not begin to answer in time. Try again.").After(time.Second).
		Because(fmt.Errorf("no content came within %s", patience))
}

// Failed is a reply that says itself that it failed. Some upstreams refuse a request so.
func Failed(raw []byte) *fault.Fault {
	var w struct {
		Code int `json:"code"`
	}
	if json.Unmarshal(raw, &w) == nil && callersFault(w.Code) {
		return Refused(w.Code, nil, raw)
	}
	return fault.New(fault.Unavailable, "The model's provider failed while it answered. Try again.").After(time.Second).
		Because(fmt.Errorf("the upstream says: %s", errorMessage(raw)))
}

// Refused is an upstream that answered with an error status. What the caller caused is told to the
// caller, in the upstream's words, cleaned; everything else is ours to mend.
func Refused(status int, header http.Header, body []byte) *fault.Fault {
	message := errorMessage(body)
	cause := &Refusal{Status: status, After: retryAfter(header), message: message}
	switch {
	case callersFault(status):
		if message == "" {
			message = "no reason was given"
		}
		return fault.New(fault.Invalid, "The model's provider refused the request: %s", message).Because(cause)
	case status == http.StatusTooManyRequests:
		return fault.New(fault.Unavailable, "The model's provider has no capacity at the moment. Try again shortly.").After(cmp.Or(cause.After, time.Second)).Because(cause)
	}
	return fault.New(fault.Unavailable, "The model is not available at the moment. Try again shortly.").After(cmp.Or(cause.After, time.Second)).Because(cause)
}

// Refusal is the cause of what Refused returns.
type Refusal struct {
	Status  int
	After   time.Duration // what the upstream asked us to wait; zero where it did not
	message string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the upstream answered %d: %s", r.Status, r.message)
}

// Lasting reports whether another try would come to the same: the key, or the model's name over there,
// is not good.
func (r *Refusal) Lasting() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return false
}

// callersFault reports whether a status means that the request itself is wrong.
func callersFault(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

// longestRetry bounds what an upstream may ask us to wait.
const longestRetry = time.Hour

// retryAfter is how long the upstream asks to wait; zero where it does not say.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, float64(longestRetry/time.Millisecond)) * float64(time.Millisecond))
	}
	if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil && s > 0 {
		return time.Duration(min(s, longestRetry.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return min(max(0, time.Until(at)), longestRetry)
	}
	return 0
}

// errorMessage finds the sentence in an upstream's error body and cleans it.
func errorMessage(body []byte) string {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return ""
	}
	return cleaned(sentence(v))
}

// sentence looks for a text where upstreams put it: {"error":{"message":…}} and its many relatives.
func sentence(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		if len(v) > 0 {
			return sentence(v[0])
		}
	case map[string]any:
		for _, key := range []string{"error", "message", "detail", "msg"} {
			if s := sentence(v[key]); s != "" {
				return s
			}
		}
	}
	return ""
}

// secrets are what an upstream's sentence may hold that is none of the caller's business: addresses,
// keys, and long runs without a space, which may be either.
var secrets = regexp.MustCompile(`(?i)\b[a-z]+://\S+` +
	`|\b(?:[\w-]+\.)+[\w-]+:\d+|\[[0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*\](?::\d+)?|\b\d{1,3}(?:\.\d{1,3}){3}\b` +
	`|\b(?:sk|pk|rk|key|org|proj|gsk|xai)[-_][\w*-]{6,}|\bAIza[\w-]{8,}|\bbearer\s+\S+|\S{48,}`)

// cleaned is a sentence fit for a caller: short, printable, without secrets.
func cleaned(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = secrets.ReplaceAllString(s, "…")
	s = strings.Join(strings.Fields(s), " ")
	return excerpt.Of(s, 400)
}

// quoted is what net/http repeats of a reply that is no HTTP: it may be anything.
var quoted = regexp.MustCompile(`"[^"]*"?`)

// scrub keeps the kind of a network error and drops what net/http writes into it of the address and of
// the wire.
func scrub(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.New(secrets.ReplaceAllString(quoted.ReplaceAllString(err.Error(), "…"), "…"))
}
