package gemini

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/provider"
)

// failure is the body of an error of Google's (google.rpc.Status). If a stream was asked for, it may come as an
// array of one.
type failure struct {
	Error struct {
		Code    int    `json:"code"`
		Status  string `json:"status"`
		Message string `json:"message"`
		Details []struct {
			Reason     string `json:"reason"`     // of google.rpc.ErrorInfo
			RetryDelay string `json:"retryDelay"` // of google.rpc.RetryInfo, such as 34s
		} `json:"details"`
	} `json:"error"`
}

// refused returns the fault of a reply with an error status. Google says in the body how long to wait, rather than
// in a header. header may be nil.
func refused(status int, header http.Header, body []byte) *fault.Fault {
	w, ok := readFailure(body)
	if !ok {
		return provider.Refused(status, header, body)
	}
	if status == http.StatusBadRequest && w.isOurs() {
		status = http.StatusUnauthorized // which provider.Refused hides from the caller
	}
	// A Retry-After header, if there is one, comes first: Refused has read it.
	f := provider.Refused(status, header, body)
	if after := w.retryDelay(); after > 0 && f.Kind == fault.Unavailable && header.Get("Retry-After") == "" {
		f = f.After(after)
	}
	return f
}

// failed returns the fault of a reply with an error in it: the status was 200, and the error came later, in the
// body. An error without a code is not the caller's.
func failed(raw []byte) *fault.Fault {
	if w, ok := readFailure(raw); ok && w.Error.Code != 0 {
		return refused(w.Error.Code, nil, raw)
	}
	return provider.Failed(raw)
}

// readFailure reads the body of an error, and reports whether it is one of Google's.
func readFailure(body []byte) (failure, bool) {
	var one failure
	if json.Unmarshal(body, &one) == nil {
		return one, true
	}
	// The array of a stream that was refused.
	var several []failure
	if json.Unmarshal(body, &several) == nil && len(several) > 0 {
		return several[0], true
	}
	return failure{}, false
}

// isOurs reports whether a 400 is about our key, our account or the region that we call from. Google answers 400
// for those as well, but the caller cannot do anything about them.
func (w *failure) isOurs() bool {
	if w.Error.Status == "FAILED_PRECONDITION" {
		return true // the free tier is not offered here, or billing is not set up
	}
	for _, d := range w.Error.Details {
		if strings.HasPrefix(d.Reason, "API_KEY_") || d.Reason == "ACCESS_TOKEN_EXPIRED" {
			return true
		}
	}
	return strings.HasPrefix(w.Error.Message, "API key ") // not valid, expired, not found
}

// longestRetry bounds how long the upstream may ask us to wait, as package provider does for its header.
const longestRetry = time.Hour

// retryDelay returns how long the upstream asks us to wait, or zero. It is the first detail that has a delay.
func (w *failure) retryDelay() time.Duration {
	for _, d := range w.Error.Details {
		if after, err := time.ParseDuration(d.RetryDelay); err == nil && after > 0 {
			return min(after, longestRetry)
		}
	}
	return 0
}

// brokeOff returns the fault of a finish reason that says that the reply is not complete. Callers and the router
// may try again.
func brokeOff(reason string) *fault.Fault {
	// A call that cannot be read is a mistake of the model; the same request often works the next time.
	cause := errors.New("the upstream's finish reason is " + reason)
	if reason == "MALFORMED_FUNCTION_CALL" || reason == "UNEXPECTED_TOOL_CALL" || reason == "TOO_MANY_TOOL_CALLS" {
		return provider.Own(fault.New(fault.Unavailable, "The model made a tool call that cannot be read. Try again.").After(time.Second).Because(cause))
	}
	return provider.Cut(cause)
}
