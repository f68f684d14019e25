package activity

import (
	"fmt"
	"net/http"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
)

// Failure returns the type of the error that the caller of a call got, and what it means. Both are empty if there was
// none. The message itself is kept of refused calls only, and only if it says nothing about the request.
func (e *Entry) Failure() (kind, text string) {
	if e.Refused != nil {
		if e.Refused.Message != "" {
			return e.Refused.Kind, e.Refused.Message
		}
		if e.Refused.Param != "" {
			return e.Refused.Kind, fmt.Sprintf("The field %s is invalid. The reply had the details; they are not kept, because they may quote the request.", e.Refused.Param)
		}
		return e.Refused.Kind, refusedText(e.Refused)
	}
	s := e.Call
	switch s.End {
	case usage.EndHangUp:
		return "", "The client disconnected before the reply was complete."
	case usage.EndCut:
		if s.Trace == nil {
			return fault.Unavailable.String(), "The reply had begun and broke off."
		}
		return fault.Unavailable.String(), "The reply had begun and broke off. " + attemptText(s)
	case usage.EndFailed:
		status := s.Status
		if status == 0 {
			status = http.StatusServiceUnavailable
		}
		return fault.Named("", status).String(), attemptText(s)
	}
	return "", ""
}

// refusedText says why a call was refused of which no message is kept.
func refusedText(c *refusal.Call) string {
	switch c.Status {
	case http.StatusPaymentRequired:
		if c.Kind == fault.BudgetExceeded.String() {
			return "A budget had not enough left for the call, or max_cost was below what it may cost."
		}
		return "The model or feature needs a paid plan."
	case http.StatusForbidden:
		return "The model or feature is not part of the plan, or not allowed for the key."
	case http.StatusTooManyRequests:
		return "A limit of the plan was reached."
	}
	return "The request was invalid. The reply had the details; they are not kept, because they may quote the request."
}

// attemptText says how the last attempt of a call failed.
func attemptText(s *usage.Settlement) string {
	if s.Trace == nil || len(s.Trace.Attempts) == 0 {
		return "The model failed, or could not be reached."
	}
	a := &s.Trace.Attempts[len(s.Trace.Attempts)-1]
	switch a.Outcome {
	case usage.Answered, "cut off":
		return "The model's provider broke off before the reply was complete."
	case "unreachable":
		return "The model's provider could not be reached."
	case "late":
		return "The model's provider did not begin to answer in time."
	case "stalled":
		return "The model's provider stopped answering in the middle of the reply."
	case "unreadable":
		return "The model's provider sent a reply that could not be read."
	case "too long":
		return "The model's provider sent a reply that was too long."
	case "refused":
		return fmt.Sprintf("The model's provider refused the request with status %d.", a.Status)
	case "not possible":
		return "The model cannot do what the request asked for."
	case "not available":
		return "The model was not available."
	}
	return "The model's provider failed."
}
