// Package fault names the ways a request can be refused, and what the caller reads when it is.
//
// A Fault has two sides: Kind, Message and Param are written for the caller and hold nothing of
// our insides; the cause, given with Because, is for the log alone. Any other error that reaches a
// door is our own bug and is answered as Internal. Turning a fault into bytes is the door's work.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind is a reason to refuse. The zero Kind is our own bug.
type Kind uint8

const (
	Internal         Kind = iota
	Invalid               // the request itself is wrong
	Unauthenticated       // no key, or none that we know
	KeyDeactivated        // the abuse system switched the account's keys off
	PaymentRequired       // a paid model or feature without an active plan
	PlanTooLow            // an active plan that does not include it
	NotFound              // no such path, model, job or generation
	MethodNotAllowed      // the path exists, the method does not
	Conflict              // the same thing is under way already
	TooLarge              // a body beyond its bound
	Suspended             // the account is suspended
	RateLimited           // an allowance of the plan is used up for now
	Unavailable           // we, or the upstream, cannot serve now
	Timeout               // the request itself arrived too slowly
)

// kinds is the one table of statuses and type names (docs/api.md#status-codes).
var kinds = [...]struct {
	status int
	name   string
	final  bool // a retry of the same request cannot mend it
}{
	Internal:         {500, "server_error", false},
	Invalid:          {400, "invalid_request_error", true},
	Unauthenticated:  {401, "authentication_error", true},
	KeyDeactivated:   {401, "key_deactivated", true},
	PaymentRequired:  {402, "payment_required", true},
	PlanTooLow:       {403, "permission_error", true},
	NotFound:         {404, "not_found_error", true},
	MethodNotAllowed: {405, "method_not_allowed", true},
	Conflict:         {409, "conflict", false},
	TooLarge:         {413, "request_too_large", true},
	Suspended:        {423, "account_suspended", true},
	RateLimited:      {429, "rate_limit_error", false},
	Unavailable:      {503, "service_unavailable", false},
	Timeout:          {408, "request_timeout", false},
}

// Status is the HTTP status of the kind.
func (k Kind) Status() int { return kinds[k].status }

// String is the kind's type name on the wire.
func (k Kind) String() string { return kinds[k].name }

// Named is the kind with a type name, for a fault that came over a wire. The numbers of kinds differ
// between versions; names do not. A name that this version does not know is taken by its status.
func Named(name string, status int) Kind {
	for k := range kinds {
		if kinds[k].name == name {
			return Kind(k)
		}
	}
	for k := range kinds {
		if kinds[k].status == status {
			return Kind(k)
		}
	}
	if status >= 400 && status < 500 {
		return Invalid
	}
	return Internal
}

// Fault is an error that a caller may read.
type Fault struct {
	Kind    Kind
	Message string
	Param   string // path of the offending field, such as messages[2].content

	// RetryAfter is how long the caller should wait; zero where waiting says nothing.
	RetryAfter time.Duration
	// Final marks a fault that a retry cannot mend though its kind usually can be.
	Final bool

	cause error
}

// New makes a fault whose message the caller reads.
func New(kind Kind, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// At names the field the fault is about.
func (f *Fault) At(param string) *Fault {
	f.Param = param
	return f
}

// After says how long to wait before the same call may pass.
func (f *Fault) After(d time.Duration) *Fault {
	f.RetryAfter = d
	return f
}

// Because keeps the cause for the log.
func (f *Fault) Because(err error) *Fault {
	f.cause = err
	return f
}

// Retryable reports whether the same request may pass later.
func (f *Fault) Retryable() bool { return !f.Final && !kinds[f.Kind].final }

// Error is what the log reads: the caller's message and the cause.
func (f *Fault) Error() string {
	if f.cause == nil {
		return f.Message
	}
	return f.Message + ": " + f.cause.Error()
}

func (f *Fault) Unwrap() error { return f.cause }

// From returns the fault inside err, or an Internal one that tells the caller nothing of err.
func From(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return New(Internal, "Something went wrong on our side. Try again; if it persists, report the request id.").Because(err)
}

// Is reports whether err holds a fault of the kind.
func Is(err error, kind Kind) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Kind == kind
}
