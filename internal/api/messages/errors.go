package messages

import (
	"cmp"
	"encoding/json"
	"fmt"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
)

// ErrorType returns the dialect's name for a kind of fault (docs/api.md#messages-api).
// The clients of the dialect decide by it whether to try again.
func ErrorType(k fault.Kind) string { return cmp.Or(errorTypes[k], "invalid_request_error") }

// errorTypes are the names of kinds. Any other is a request that is not valid.
var errorTypes = map[fault.Kind]string{
	fault.Internal:        "api_error",
	fault.Unauthenticated: "authentication_error",
	fault.KeyDeactivated:  "authentication_error",
	fault.PaymentRequired: "billing_error",
	fault.BudgetExceeded:  "billing_error",
	fault.PlanTooLow:      "permission_error",
	fault.Forbidden:       "permission_error",
	fault.Suspended:       "permission_error",
	fault.NotFound:        "not_found_error",
	fault.TooLarge:        "request_too_large",
	fault.RateLimited:     "rate_limit_error",
	fault.Unavailable:     "overloaded_error",
}

// typeOf returns the dialect's name for a fault: that of a vendor of the dialect, or that of its kind.
func typeOf(f *fault.Fault) string { return cmp.Or(f.Type, ErrorType(f.Kind)) }

// LongMessage returns what the dialect says of a prompt that is too long. Its clients look for these words.
func LongMessage(l *fault.Long) string {
	if l.Reply > 0 {
		return fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again. %s", l.Tokens, l.Reply, l.Most, l.Advice)
	}
	return fmt.Sprintf("prompt is too long: %d tokens > %d maximum. %s", l.Tokens, l.Most, l.Advice)
}

// errorObject is the error object of the dialect.
type errorObject struct {
	Type      string      `json:"type"` // error
	Error     errorDetail `json:"error"`
	RequestID string      `json:"request_id"`
}

type errorDetail struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	// Details is an object that a vendor sent with its error; nil if there is none.
	Details json.RawMessage `json:"details,omitempty"`
}

// ErrorBody returns the body of an error reply. As always with encoding/json, <, > and & are escaped: a browser must not
// take the reply for a page.
func ErrorBody(f *fault.Fault, requestID string) []byte {
	body, err := json.Marshal(errorObject{"error", errorDetail{typeOf(f), f.Message, details(f)}, requestID})
	if err != nil {
		panic(err) // strings and JSON always encode
	}
	return body
}

// details returns what programs read of a fault: an object of a vendor, or the budget in the way.
func details(f *fault.Fault) json.RawMessage {
	if f.Budget == nil {
		return f.Details
	}
	return append(append(json.RawMessage(`{"budget":`), f.Budget...), '}')
}

// appendError appends the error object as the last event of a stream that failed after it began.
func appendError(b []byte, f *fault.Fault, requestID string) []byte {
	b = append(b, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\""...)
	b = append(b, typeOf(f)...)
	b = append(b, `","message":`...)
	b = jsonscan.AppendQuoted(b, f.Message)
	if d := details(f); d != nil {
		b = append(append(b, `,"details":`...), d...)
	}
	b = append(b, `},"request_id":`...)
	b = jsonscan.AppendQuoted(b, requestID)
	return append(b, "}\n\n"...)
}
