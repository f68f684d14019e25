package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"sluice/internal/fault"
	"sluice/internal/relay"
)

// answerErrors turns what went wrong behind it into the error object: the one place that does.
func (a *API) answerErrors(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if err := a.catch(next, x, r); err != nil {
			a.showStanding(x, r, err)
			x.answer(err, r)
			a.bodies.finish(x, r)
		}
		return nil
	}
}

// catch makes a panic an error, with its stack in the log.
func (a *API) catch(next handler, x *exchange, r *http.Request) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
			panic(p)
		}
		err = fmt.Errorf("panic: %v", p)
		a.log.Error("panic", "request_id", x.event.RequestID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}()
	return next(x, r)
}

// showStanding sets the rate-limit headers of an error to what holds now. A call that failed was admitted and
// has been settled since, so what admission said is no longer true (docs/api.md#limits).
func (a *API) showStanding(x *exchange, r *http.Request, err error) {
	if a.ledger == nil || x.caller.Account == nil || x.begun() || r.Method != http.MethodPost || !metered[x.event.Route] {
		return
	}
	switch h := x.Header(); fault.From(err).Kind {
	case fault.PaymentRequired, fault.PlanTooLow, fault.Forbidden, fault.RateLimited, fault.Unavailable, fault.Internal:
	default:
		// Of the others only those that came after admission have headers.
		if h["X-Ratelimit-Limit-Requests"] == nil && h["X-Ratelimit-Limit-Tokens"] == nil {
			return
		}
	}
	a.ledger.Peek(x.caller.Account.ID, x.limits()).SetHeader(x.Header())
}

// metered are the routes whose calls count against the minute.
var metered = map[string]bool{chatPath: true, videoJobsPath: true}

// errGone means that the caller went away while we wrote: nobody is left to tell.
var errGone = errors.New("the caller went away")

func clientGone(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// answer sends the error object, or, where a reply has begun, cuts the connection so that it cannot
// be taken for a whole one.
func (x *exchange) answer(err error, r *http.Request) {
	if errors.Is(err, errGone) {
		x.event.Err = err
		return
	}
	f := fault.From(err)
	x.event.Fault, x.event.Err = f.Kind.String(), f.Unwrap()
	if errors.Is(err, relay.ErrTold) {
		return
	}
	if x.begun() {
		panic(http.ErrAbortHandler)
	}
	h := x.Header()
	h.Del("Content-Length")
	h["Content-Type"] = jsonType
	if !f.Retryable() {
		h["X-Should-Retry"] = []string{"false"}
	}
	if f.RetryAfter > 0 && f.Retryable() {
		setRetryAfter(h, f.RetryAfter)
	} else if f.Kind == fault.Unavailable && f.Retryable() {
		setRetryAfter(h, time.Second)
	}
	if hasBody(r) {
		// Answer now: net/http would otherwise wait for the body of a request that is refused anyway.
		_ = http.NewResponseController(x.ResponseWriter).EnableFullDuplex()
	}
	body := f.Object().Body()
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.WriteHeader(f.Kind.Status())
	if r.Method != http.MethodHead {
		_, _ = x.Write(body) // nobody is left to tell if it fails
	}
}

// setRetryAfter writes both forms of the hint: whole seconds, rounded up, 60 at most; and milliseconds,
// which may be a few more, since a window's entry counts from the end of its millisecond.
func setRetryAfter(h http.Header, d time.Duration) {
	d = min(d, time.Minute+10*time.Millisecond)
	h["Retry-After"] = []string{strconv.FormatInt(min(60, int64((d+time.Second-1)/time.Second)), 10)}
	h["Retry-After-Ms"] = []string{strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)}
}
