package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"sluice/internal/excerpt"
	"sluice/internal/netguard"
)

// Failure is why a server or a tool could not be used. Its reason reads on after the server's name,
// and holds nothing that the caller or the server did not say.
type Failure struct {
	Reason string
	// Status is the HTTP status that the server refused with; 0: something else happened.
	Status int
	// Busy means that the failure is ours, and passes.
	Busy bool

	cause error
}

func fail(reason string, cause error) *Failure {
	if u, ok := errors.AsType[*url.Error](cause); ok {
		cause = u.Err // without the address, which may hold a secret
	}
	return &Failure{Reason: reason, cause: cause}
}

// Error is what the log reads.
func (f *Failure) Error() string {
	if f.cause == nil {
		return f.Reason
	}
	return f.Reason + ": " + f.cause.Error()
}

func (f *Failure) Unwrap() error { return f.cause }

// explain finds out why an exchange failed. What the wire saw goes before what the library made of it.
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
	return fail("it does not answer as an MCP server does", err)
}

func refused(status int, advice string, cause error) *Failure {
	f := fail(fmt.Sprintf("it answered with status %d%s", status, advice), cause)
	f.Status = status
	return f
}

// spoken is the error that the server itself answered with, in its protocol; nil: it did not. The
// library makes one of its own kind where a request could not be sent.
func spoken(err error) *jsonrpc.Error {
	var answer *jsonrpc.Error
	if !errors.As(err, &answer) || answer.Code == notSent.code && answer.Message == notSent.message {
		return nil
	}
	return answer
}

var notSent = struct {
	code    int64
	message string
}{-32005, "rejected by transport"}

// within bounds what is done with ctx, and lets ended say so.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fail(fmt.Sprintf("it took longer than %g s", limit.Seconds()), nil))
}

// ended says why ctx is over.
func ended(ctx context.Context) *Failure {
	if f, ok := errors.AsType[*Failure](context.Cause(ctx)); ok {
		return f
	}
	return fail("the call was ended", context.Cause(ctx))
}

const maxSentence = 500 // bytes of a server's error message that are handed on

// clean makes a server's sentence printable and short.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return excerpt.Of(strings.Join(strings.Fields(s), " "), maxSentence)
}
