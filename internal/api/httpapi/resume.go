package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"sluice/internal/api/httpserver"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
	"sluice/internal/line/relay"
	"sluice/internal/line/resume"
)

// resumeHeader is the request header that asks for a stream that can be resumed, if its value is 1.
const resumeHeader = "X-Sluice-Resume"

// silence is how long a resumed stream may be silent before its caller gets a comment.
const silence = 15 * time.Second

// resumable reports whether the caller wants to be able to resume the reply (docs/api.md#resumable-streams). The
// header works for chat completions only.
func (c *completion) resumable(r *http.Request) bool {
	if c.door != "" || !c.Stream {
		return false
	}
	h := r.Header[resumeHeader]
	return c.Resumable || len(h) == 1 && h[0] == "1"
}

// resumable is the ResponseWriter of a stream that can be resumed.
type resumable struct {
	*resume.Stream
	x     *exchange
	whole bool // the reply has its last event
	hooks [2]func() bool
}

// makeResumable returns the ResponseWriter of a call that continues when its caller hangs up, and the context of the
// call. With a recorder, it does so even if nothing was sent: a repeat with the same key gets the reply.
func (a *API) makeResumable(x *exchange, r *http.Request, k *recorder) (*resumable, context.Context) {
	id := "chatcmpl-" + x.event.CallID
	s := &resumable{x: x}
	caller := r.Context() // the hooks may run when r is another request already
	var ctx context.Context
	s.Stream, ctx = a.opts.Streams.Open(caller, x, resume.Call{ID: id, Account: x.caller.Account.ID, Location: chatPath + "/" + id + "/events", Keep: k != nil})
	stopping := func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), relay.ErrStopping) }
	s.hooks[0] = context.AfterFunc(caller, func() {
		if stopping(caller) {
			s.Stop(relay.ErrStopping)
		} else {
			s.HungUp()
		}
	})
	if base, ok := httpserver.Base(caller); ok {
		s.hooks[1] = context.AfterFunc(base, func() {
			if stopping(base) {
				s.Stop(relay.ErrStopping)
			}
		})
	}
	return s, ctx
}

// end closes the stream. If the connection has not got all of it, it is closed without an end, so that nobody takes
// what it got for the whole.
func (s *resumable) end() {
	for _, stop := range s.hooks {
		if stop != nil {
			stop()
		}
	}
	if sent := s.Close(s.whole); s.x.begun() && (s.whole && !sent || s.Ended()) {
		s.x.event.Err, s.x.event.Final = errGone, statusNone
		panic(http.ErrAbortHandler)
	}
}

// resumeStream serves GET /v1/chat/completions/{id}/events.
func (a *API) resumeStream(x *exchange, r *http.Request) error {
	id, account := r.PathValue("id"), x.caller.Account.ID
	if a.opts.Streams == nil {
		return resume.Unknown(id)
	}
	if r.Method == http.MethodHead { // which must not take the stream over
		if !a.opts.Streams.Has(id, account) {
			return resume.Unknown(id)
		}
		x.streamHeader()
		return nil
	}
	s, err := a.opts.Streams.Attach(r.Context(), id, account, r.Header[resume.Header])
	if r.Context().Err() != nil {
		err = relay.Ended(r.Context())
	}
	if err != nil {
		return err
	}
	defer s.Close()
	x.streamHeader()
	x.WriteHeader(http.StatusOK)
	x.Flush()
	control := http.NewResponseController(x)
	for {
		events, err := s.Next(r.Context(), silence)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case r.Context().Err() != nil:
			return relay.Ended(r.Context())
		case err != nil: // the connection is closed, because the reply has begun
			return fault.New(fault.Unavailable, "The stream has ended for this connection.").Because(err)
		case len(events) == 0:
			events = []byte(": keep-alive\n")
		}
		_ = control.SetWriteDeadline(time.Now().Add(httpserver.WritePatience))
		if _, err := x.Write(events); err != nil {
			return clientGone(err)
		}
		x.Flush()
	}
}

// endStream serves DELETE /v1/chat/completions/{id}/events: a call that continues without its connection needs another
// way to end.
func (a *API) endStream(x *exchange, r *http.Request) error {
	id := r.PathValue("id")
	if a.opts.Streams == nil {
		return resume.Unknown(id)
	}
	if err := a.opts.Streams.End(r.Context(), id, x.caller.Account.ID, r.Header[resume.Header]); err != nil {
		if r.Context().Err() != nil {
			err = relay.Ended(r.Context())
		}
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// serveNode answers another node that resumes or ends a stream of this one. It reports false, and has sent nothing, if the
// request is not one of a node.
func (a *API) serveNode(x *exchange, r *http.Request) bool {
	if a.opts.Streams == nil {
		return false
	}
	ctx, cancel := outliving(r.Context())
	defer cancel()
	served := a.opts.Streams.Serve(ctx, x, r)
	if served {
		x.event.Route = r.Pattern
	}
	return served
}

// outliving returns a context that ends with that of a request; but if the server stops, after its last words. A stream
// ends then with an event that says why.
func outliving(request context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(request))
	stop := context.AfterFunc(request, func() {
		if errors.Is(context.Cause(request), relay.ErrStopping) {
			_ = pace.Sleep(ctx, httpserver.LastWords)
		}
		cancel()
	})
	return ctx, func() { stop(); cancel() }
}

// streamHeader sets the headers of a stream.
func (x *exchange) streamHeader() {
	h := x.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = eventStream, []string{"no-cache"}, []string{"no"}
}
