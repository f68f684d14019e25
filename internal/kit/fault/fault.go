// Package fault names the ways a request can be refused, and what the caller reads then.
//
// A Fault has two sides. Kind, Message and Param are written for the caller and say nothing about
// our insides; the cause, given with Because, goes to the log only. Any other error that reaches a
// door is a bug of ours and is answered as Internal. Status codes and type names are in one table
// here, and so do the error object and the headers that a reply gets from a fault (reply.go). What is
// particular to a door, such as the envelope of a dialect, is the door's business.
package fault

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kind is a reason to refuse a request. The zero Kind is Internal, so a Fault without a kind is
// answered as our bug, not as the caller's. The numbers are private to this process: only names
// cross a wire.
type Kind uint8

const (
	Internal         Kind = iota
	Invalid               // the request itself is wrong
	Unauthenticated       // no key, or none that we know
	KeyDeactivated        // the abuse system switched the account's keys off
	PaymentRequired       // a paid model or feature without an active plan
	PlanTooLow            // an active plan that does not include the model or feature
	NotFound              // no such path, model, job or generation
	MethodNotAllowed      // the path exists, the method does not
	Conflict              // the same thing is under way already
	TooLarge              // a body beyond its bound
	Suspended             // the account is suspended
	RateLimited           // an allowance of the plan is used up for now
	Unavailable           // we, or the upstream, cannot serve now
	Timeout               // the request itself arrived too slowly
	Forbidden             // not allowed, whatever the plan: same status and type name as PlanTooLow
	BudgetExceeded        // the call could cost more than a budget has left
)

// kinds is the one table of statuses and type names (docs/api.md#status-codes).
var kinds = [...]struct {
	status int
	name   string
	final  bool // a retry of the same request fails again
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
	Forbidden:        {403, "permission_error", true},
	BudgetExceeded:   {402, "budget_exceeded", true},
}

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, len(kinds))
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Status returns the HTTP status of the kind.
func (k Kind) Status() int { return kinds[k].status }

// String returns the type name of the kind, as the error object has it.
func (k Kind) String() string { return kinds[k].name }

// Named returns the kind with a type name, for a fault that came over a wire from a program of
// another version. PlanTooLow and Forbidden share a name; Named returns PlanTooLow. If this version
// does not know the name, Named chooses a kind by the status.
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

// Fault is an error that a caller may read. It belongs to one request: At, After and Because change
// it in place, so a Fault must not be shared, such as in a package variable.
type Fault struct {
	Kind    Kind
	Message string // a whole sentence: what is wrong, and what to do next
	Param   string // path of the offending field, such as messages[2].content

	// Details is a JSON object that programs read: what a vendor says of its own error. It is nil if there is none.
	Details json.RawMessage
	// Budget is a JSON object that says how the budget in the way stands. It is nil for all kinds but BudgetExceeded.
	Budget json.RawMessage
	// Type replaces the name of the kind in replies: a vendor's name for the same thing. Usually it is empty.
	Type string
	// Reason tells programs more than the kind does, in a word of OpenAI's API such as context_length_exceeded. It is made
	// of letters, digits, dots, dashes and underscores. Empty: there is nothing more to tell.
	Reason string
	// Long is set for a prompt that is too long. The message then has the words of chat completions; a dialect may have
	// others.
	Long *Long
	// Quoted says that message and param are in the words of the caller's own dialect, and need no translation.
	Quoted bool

	// RetryAfter is how long the caller should wait before a retry. Zero means that no time is known.
	RetryAfter time.Duration
	// Code is the status, if it is not that of the kind: HTTP has more ways to refuse a request than there are kinds.
	Code int
	// Final says that a retry fails again, although faults of this kind usually pass.
	Final bool

	cause error // for the log; may be nil
}

// New returns a fault. The caller reads its message, so format and args must not contain secrets or
// errors of other packages; those go to Because.
func New(kind Kind, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// At sets the path of the field that the fault is about and returns f.
func (f *Fault) At(param string) *Fault {
	f.Param = param
	return f
}

// After sets how long to wait before the same call may pass and returns f.
func (f *Fault) After(d time.Duration) *Fault {
	f.RetryAfter = d
	return f
}

// Because sets the cause, which only the log shows, and returns f. err may be nil.
func (f *Fault) Because(err error) *Fault {
	f.cause = err
	return f
}

// TypeName returns the type that a reply names.
func (f *Fault) TypeName() string { return cmp.Or(f.Type, f.Kind.String()) }

// Status returns the HTTP status of the reply.
func (f *Fault) Status() int { return cmp.Or(f.Code, f.Kind.Status()) }

// Retryable reports whether the same request may pass later.
func (f *Fault) Retryable() bool { return !f.Final && !kinds[f.Kind].final }

// Error returns the text for the log: the caller's message and the cause.
func (f *Fault) Error() string {
	if f.cause == nil {
		return f.Message
	}
	return f.Message + ": " + f.cause.Error()
}

// Unwrap returns the cause, or nil.
func (f *Fault) Unwrap() error { return f.cause }

// From returns the fault that err is or wraps. For any other error it returns an Internal fault
// whose message says nothing about err, with err as its cause. err must not be nil.
func From(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return New(Internal, "Something went wrong on our side. Try again; if it persists, report the request id.").Because(err)
}

// Is reports whether err is or wraps a fault of the kind. A nil error has no kind, not even Internal.
func Is(err error, kind Kind) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Kind == kind
}
