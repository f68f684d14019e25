package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// The functions of this file make the faults that callers see when an upstream fails. The message is for the
// caller and the cause for the log. Hosts, keys and raw bodies reach neither a caller nor, where they may hold a
// secret, the log.

// ErrWanted is the cause of a failure that the caller asked for with a directive of the sandbox. It says nothing
// about the health of an upstream, and no other upstream is tried.
var ErrWanted = errors.New("the caller asked for this failure")

// Unreachable returns the fault of an upstream that could not be called: no connection, or no headers.
func Unreachable(err error) *fault.Fault {
	return unavailable("unreachable", scrub(err), "The model's provider cannot be reached at the moment. Try again shortly.")
}

// unavailable returns the fault of a failure, which a retry may get over.
func unavailable(word string, cause error, message string) *fault.Fault {
	return fault.New(fault.Unavailable, "%s", message).After(time.Second).Because(&failure{marked{word, cause}})
}

// marked is a cause about which something more is known. It says what the cause says, so that logs read the same.
type marked struct {
	word  string // said if there is no cause
	cause error  // may be nil
}

// Error implements error.
func (m *marked) Error() string {
	if m.cause == nil {
		return m.word
	}
	return m.cause.Error()
}

// Unwrap makes the cause visible to errors.Is and errors.As.
func (m *marked) Unwrap() error { return m.cause }

// failure is the cause of a fault of an upstream. Operators find its word with the request.
type failure struct{ marked }

// WasUnreachable reports whether an error is that of Unreachable.
func WasUnreachable(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.word == "unreachable"
}

// Word returns how an attempt failed in a word, and the upstream's status if it answered with an error. Nothing of a
// request, a reply or an address is in it. err must not be nil.
func Word(err error) (word string, status int) {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return "refused", r.Status
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.word, 0
	}
	switch fault.From(err).Kind {
	case fault.Invalid:
		return "not possible", 0
	case fault.Unavailable:
		return "not available", 0
	}
	return "failed", 0
}

// sentError marks the cause of a fault that came after the whole request had been sent.
type sentError struct{ marked }

// Sent marks a fault that came after the whole request had been sent, and returns it.
func Sent(f *fault.Fault) *fault.Fault {
	return f.Because(&sentError{marked{"the request had been sent", errors.Unwrap(f)}})
}

// WasSent reports whether an error of Adapter.Open came after the whole request had been sent to the upstream.
// From then on the caller pays for the prompt (docs/accounting.md). An upstream that refused a request has read
// it.
func WasSent(err error) bool {
	if _, ok := errors.AsType[*sentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*Refusal](err)
	return ok
}

// Cut returns the fault of a reply that broke off. err is the cause; it is scrubbed for the log.
func Cut(err error) *fault.Fault {
	return unavailable("cut off", scrub(err), "The model's provider broke off before the reply was complete. Try again.")
}

// Garbled returns the fault of a reply that is not in the upstream's dialect. err goes to the log as it is.
func Garbled(err error) *fault.Fault {
	return unavailable("unreadable", err, "The model's provider sent a reply that cannot be read. Try again.")
}

// ErrTooLong is the cause of TooLong. The same request would most likely be answered in the same way, so it is not
// sent to the same target again.
var ErrTooLong = errors.New("the reply is too long")

// TooLong returns the fault of a reply that exceeds a bound.
func TooLong() *fault.Fault {
	return unavailable("too long", ErrTooLong, "The model's provider sent a reply that is too long. Try again.")
}

// Stalled returns the fault of a reply that paused for longer than silence.
func Stalled(silence time.Duration) *fault.Fault {
	return unavailable("stalled", fmt.Errorf("nothing came for %s", silence), "The model's provider stopped answering in the middle of the reply. Try again.")
}

// Late returns the fault of a reply without any content within patience.
func Late(patience time.Duration) *fault.Fault {
	return unavailable("late", fmt.Errorf("no content came within %s", patience), "The model's provider did not begin to answer in time. Try again.")
}

// Failed returns the fault of a reply with status 200 that has an error in it; raw is the error object. Some
// upstreams refuse requests that way, with the status as its code, or with a code that says that the request is wrong.
func Failed(raw []byte) *fault.Fault {
	s := read(raw)
	status := s.status
	if status == 0 && (s.flagged || s.kind == "invalid_request_error" || wrongRequest.MatchString(s.code)) {
		status = http.StatusBadRequest
	}
	if s.callers(status, nil) {
		return refusal(status, nil, &s, true)
	}
	return unavailable("failed", fmt.Errorf("the upstream says: %s", s.message), "The model's provider failed while it answered. Try again.")
}

// Refused returns the fault of a reply with an error status. If the caller caused it, the caller gets the
// upstream's message, cleaned. Everything else is for the operator to fix: the caller learns only that the model
// is not available. header may be nil.
func Refused(status int, header http.Header, body []byte) *fault.Fault {
	s := read(body)
	return refusal(status, header, &s, s.callers(status, nil))
}

// refusal returns the fault of a refusal that the caller caused, or did not.
func refusal(status int, header http.Header, s *said, callers bool) *fault.Fault {
	cause := &Refusal{Status: status, After: retryAfter(header), said: *s, requestID: requestID(header)}
	if callers {
		return cause.callers()
	}
	switch {
	case status == http.StatusTooManyRequests && tooLarge.MatchString(s.message):
		return Own(fault.New(fault.Unavailable, "The request is too large for the model's provider at the moment. Send a shorter one, or try again shortly.").After(cmp.Or(cause.After, time.Second)).Because(cause))
	case status == http.StatusTooManyRequests:
		return fault.New(fault.Unavailable, "The model's provider has no capacity at the moment. Try again shortly.").After(cmp.Or(cause.After, time.Second)).Because(cause)
	}
	return fault.New(fault.Unavailable, "The model is not available at the moment. Try again shortly.").After(cmp.Or(cause.After, time.Second)).Because(cause)
}

// Refusal is the cause of the faults that Refused returns.
type Refusal struct {
	Status int
	After  time.Duration // how long the upstream asks us to wait; zero if it does not say
	said   said
	// requestID is the upstream's id of the request, from a header; empty if it sent none.
	requestID string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the upstream answered %d: %s", r.Status, r.said.message)
}

// Message returns what the upstream said, cleaned; empty if it gave no reason.
func (r *Refusal) Message() string { return r.said.message }

// callers returns the fault of a refusal that the caller caused, as a caller of another dialect reads it; see Tell.
func (r *Refusal) callers() *fault.Fault {
	kind := fault.Invalid
	switch r.Status {
	case http.StatusNotFound, http.StatusGone:
		kind = fault.NotFound
	case http.StatusConflict:
		kind = fault.Conflict
	}
	message := cmp.Or(r.said.message, "no reason was given")
	if usageRules.MatchString(message) { // xAI's sentence continues with the operator's team and key
		message = "its rules do not allow the content."
	}
	f := fault.New(kind, "The model's provider refused the request: %s", message).Because(r)
	f.Details = r.said.details
	return f
}

// blamed returns the fault of a refusal in the light of the request that was refused: a 404 is the caller's if the
// request names something that the upstream does not have, and the operator's if the upstream does not have the model.
func blamed(f *fault.Fault, request [3][]byte) *fault.Fault {
	r, ok := errors.AsType[*Refusal](f)
	if !ok || f.Kind != fault.Unavailable || r.Status < 400 || r.Status > 499 || slices.Contains(operators, r.Status) || !r.said.callers(r.Status, plainly(request)) {
		return f
	}
	return r.callers()
}

// Lasting reports whether a retry would fail the same way, because the upstream does not accept our key, our
// account or its name of the model.
func (r *Refusal) Lasting() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return false
}

// callersFault reports whether a status says that the request itself is wrong.
func callersFault(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

// longestRetry bounds how long an upstream may ask us to wait. A larger value is most likely a mistake, and it
// would also reach the caller.
const longestRetry = time.Hour

// retryAfter returns how long the upstream asks us to wait, or zero. It reads Retry-After in seconds and as a date,
// and the header in milliseconds that OpenAI and Azure send. h may be nil.
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

// sentence finds the message where upstreams put it: {"error":{"message":…}} and variants of that.
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

// secrets matches what callers must not see of an upstream's message: addresses, keys, and runs of 48 characters
// and more without a space, which may be either.
var secrets = regexp.MustCompile(`(?i)\b[a-z]+://\S+` +
	`|\b(?:[\w-]+\.)+[\w-]+:\d+|\[[0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*\](?::\d+)?|\b\d{1,3}(?:\.\d{1,3}){3}\b` +
	`|\b(?:sk|pk|rk|key|org|proj|gsk|xai)[-_][\w*-]{6,}|\bAIza[\w-]{8,}|\bbearer\s+\S+|\S{48,}`)

// The bounds of what callers see of an upstream's error, in bytes.
const (
	maxMessage = 400 // quoted in a sentence of ours
	maxWhole   = 2 << 10
	maxParam   = 200
)

// cleaned returns a text that is fit for a caller: printable, on one line, at most so many bytes, without secrets.
func cleaned(s string, most int) string {
	return excerpt.Of(secrets.ReplaceAllString(excerpt.Line(s), "…"), most)
}

// quoted matches what net/http quotes of a reply that is not HTTP. It may be anything.
var quoted = regexp.MustCompile(`"[^"]*"?`)

// scrub returns a network error without the addresses and the bytes of the wire that net/http writes into it.
// Errors of a context are returned as they are, so that errors.Is still finds them. err may be nil.
func scrub(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return errors.New(secrets.ReplaceAllString(quoted.ReplaceAllString(err.Error(), "…"), "…"))
}
