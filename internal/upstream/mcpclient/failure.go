package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/netguard"
)

// Failure is the reason why a server or a tool could not be used. Reason continues a sentence that
// begins with the server's name. It contains only what the caller or the server itself said, so
// both the caller and the model may read it.
type Failure struct {
	Reason string
	// Status is the HTTP status of the server's refusal, or 0 if something else happened.
	Status int
	// Busy means that this service is at fault, and that the failure is temporary.
	Busy bool

	// cause is for the log only. It may be nil.
	cause error
}

// fail returns a Failure. A nil cause is allowed.
func fail(reason string, cause error) *Failure {
	if u, ok := errors.AsType[*url.Error](cause); ok {
		cause = u.Err // drop the URL, which may contain a secret
	}
	return &Failure{Reason: reason, cause: cause}
}

// Error returns the text for the log, including the cause.
func (f *Failure) Error() string {
	if f.cause == nil {
		return f.Reason
	}
	return f.Reason + ": " + f.cause.Error()
}

// Unwrap returns the cause, which may be nil.
func (f *Failure) Unwrap() error { return f.cause }

// explain finds out why an exchange failed. What the wire observed takes precedence over the error
// that the library returned, because the library only describes its errors in words. A context that
// has ended comes first: then whatever else went wrong is a consequence of that.
func (w *wire) explain(ctx context.Context, err error) *Failure {
	status, seen := w.trouble()
	answer := spoken(err)
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case w.tell(seen) != "":
		f := fail(w.tell(seen), err)
		f.Busy = errors.Is(seen, errBusy)
		return f
	case errors.Is(seen, netguard.ErrRefused):
		return fail("its address is not a public one", err)
	case answer != nil:
		return fail("it answered with an error: "+clean(answer.Message), err)
	case seen != nil:
		return fail("it cannot be reached", seen)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return refused(status, "; check the headers that are sent to it", err)
	case status != 0:
		return refused(status, "", err)
	}
	return fail("it does not answer like an MCP server", err)
}

// refused returns a Failure for a reply with an error status.
func refused(status int, advice string, cause error) *Failure {
	f := fail(fmt.Sprintf("it answered with status %d%s", status, advice), cause)
	f.Status = status
	return f
}

// spoken returns the error that the server sent in the protocol, or nil if there is none. The
// library uses the same type for a request that it could not send, and that one is not the
// server's.
func spoken(err error) *jsonrpc.Error {
	var answer *jsonrpc.Error
	if !errors.As(err, &answer) || answer.Code == notSent && answer.Message == "rejected by transport" {
		return nil
	}
	return answer
}

// notSent is the code with which the library reports a request that its transport rejected.
const notSent = -32005

// within returns a context with a time limit. If the limit is what ends it, ended explains that.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fail(fmt.Sprintf("it took longer than %g s", limit.Seconds()), nil))
}

// ended returns why ctx has ended: the Failure of within, or the caller's own cancellation.
func ended(ctx context.Context) *Failure {
	if f, ok := errors.AsType[*Failure](context.Cause(ctx)); ok {
		return f
	}
	return fail("the call was canceled", context.Cause(ctx))
}

// maxSentence is how many bytes of a server's error message are passed on.
const maxSentence = 500

// clean makes a server's text printable and short, so that it cannot forge log lines or terminal output.
func clean(s string) string { return excerpt.Of(excerpt.Line(s), maxSentence) }
