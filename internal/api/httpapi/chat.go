package httpapi

import (
	"errors"
	"net/http"

	"sluice/internal/line/idempotency"
	"sluice/internal/line/inference"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
)

// createChatCompletion serves POST /v1/chat/completions.
func (a *API) createChatCompletion(x *exchange, r *http.Request) error {
	req, body, release, err := a.readChat(x, r)
	if err != nil {
		return err
	}
	defer release()
	return a.complete(x, r, completion{Request: req, body: body})
}

// completion is a request for a completion, read and checked by its door.
type completion struct {
	*chat.Request
	body    []byte        // as the caller sent it
	door    string        // "": chat completions
	dialect relay.Dialect // nil: that of chat completions
}

// complete answers a request for a completion.
func (a *API) complete(x *exchange, r *http.Request, c completion) error {
	defer func() {
		if x.begun() {
			a.metrics.Overhead(x.overhead)
		}
	}()
	// Only the ids of known models are logged: anything else is arbitrary text of the
	// caller.
	if m, known := x.settings.Catalog.Resolve(c.Model, x.aliases()); known {
		x.event.Model = m.ID
	}
	ctx := r.Context()
	var w http.ResponseWriter = x
	var k *keeper
	if key := r.Header[idempotency.Header]; key != nil && a.replies != nil {
		var err error
		if k, err = a.keep(x, r, key, c.body, c.Model, c.Request.UsesTools()); k == nil {
			return err
		}
		defer k.end()
		w = k
	}
	var s *resumable
	if c.resumable(r) && a.streams != nil {
		s, ctx = a.makeResumable(x, r, k)
		defer s.end()
		if w = s; k != nil {
			k.next, k.ctx, w = s, ctx, k
		}
	}
	err := goneOr(a.current(x, func() error {
		call := x.call(c.door)
		call.Request, call.Dialect = c.Request, c.dialect
		return a.line.Complete(ctx, w, x.models(), call)
	}))
	if s != nil {
		s.whole = err == nil || errors.Is(err, relay.ErrTold)
	}
	return err
}

// call returns the call of this request through a door, without what it asks for.
func (x *exchange) call(door string) *inference.Call {
	return &inference.Call{
		ID: x.event.CallID, Start: x.event.Start, Span: x.event.Span, Wait: &x.wait, Caller: x.caller, Limits: x.limits(), Depth: x.depth,
		Address: x.event.Remote, RequestID: x.event.Given(), Door: door,
	}
}

// goneOr marks an error of a call that was given up by its caller, which is not an error to reply to. It returns
// every other error as it is.
func goneOr(err error) error {
	if errors.Is(err, relay.ErrGone) {
		return clientGone(err)
	}
	return err
}

// readChat reads and checks a chat request. If it returns no error, the caller calls release when neither req
// nor body, which req refers to, is used any more: their bytes count against the memory for bodies until then.
func (a *API) readChat(x *exchange, r *http.Request) (req *chat.Request, body []byte, release func(), err error) {
	body, release, err = a.readBody(x, r, a.bodies.One, 1)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if req == nil || err != nil { // refused, or Parse panicked
			release()
		}
	}()
	if req, err = decoded(a, x, r, body, chat.Parse); err == nil {
		release, err = a.weigh(x, body, req, release)
	}
	return req, body, release, err
}
