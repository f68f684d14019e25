package fault

import (
	"net/http"
	"strconv"
	"time"
)

// longestRetry is the longest wait that SetRetry names: a minute, and what an entry of the window of a rate limit counts
// beyond it, since it ends with its millisecond.
const longestRetry = time.Minute + 10*time.Millisecond

// SetRetry sets the headers that tell whether and when the same request may pass (docs/api.md#errors).
func (f *Fault) SetRetry(h http.Header) {
	if !f.Retryable() {
		h["X-Should-Retry"] = []string{"false"}
		if f.Kind == BudgetExceeded { // not worth a retry by itself, but a program that knows the header may come back then
			SetRetryAfter(h, f.RetryAfter)
		}
		return
	}
	wait := min(f.RetryAfter, longestRetry)
	if wait == 0 && f.Kind == Unavailable {
		wait = time.Second
	}
	if wait > 0 {
		SetRetryAfter(h, min(wait, time.Minute))
		h["Retry-After-Ms"] = []string{strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10)}
	}
}

// SetRetryAfter sets Retry-After, in seconds and rounded up, so that a retry is not too early. Without a wait it sets
// nothing.
func SetRetryAfter(h http.Header, wait time.Duration) {
	if wait > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)}
	}
}

// Reply answers a request that has failed with f. The body is that of f.Object, unless a dialect has its own. Other
// headers must have been set.
func (f *Fault) Reply(w http.ResponseWriter, r *http.Request, body []byte) {
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = []string{"application/json"}, []string{strconv.Itoa(len(body))}
	w.WriteHeader(f.Status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the caller disconnected
	}
}
