package httpapi

import (
	"errors"
	"net/http"

	"sluice/internal/line/idempotency"
	"sluice/internal/line/inference"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/embeddings"
)

// createChatCompletion serves POST /v1/chat/completions.
func (a *API) createChatCompletion(x *exchange, r *http.Request) error {
	req, body, release, err := a.readChat(x, r)
	if err != nil {
		return err
	}
	defer release()
	return a.complete(x, r, completion{Request: req, model: req.Model, body: body, metadata: req.Member("metadata")})
}

// completion is a request that a model answers, read and checked by its door.
type completion struct {
	*chat.Request                     // nil: it asks for embeddings
	inputs        *embeddings.Request // of a request for embeddings
	model         string              // as the caller names it
	body          []byte              // as the caller sent it
	door          string              // "": chat completions
	dialect       relay.Dialect       // nil: that of chat completions
	metadata      []byte              // the JSON that the caller has marked it with; nil: there is none
	userID        string              // metadata.user_id of a request in Anthropic's dialect
}

// tellCost reports whether the caller asks for the cost in the reply.
func (c *completion) tellCost() bool {
	return c.Request != nil && c.TellCost || c.inputs != nil && c.inputs.TellCost
}

// complete answers a request for a completion or for embeddings.
func (a *API) complete(x *exchange, r *http.Request, c completion) error {
	defer func() {
		if x.begun() {
			a.opts.Metrics.Overhead(x.overhead)
		}
	}()
	// Only the ids of known models are logged: anything else is arbitrary text of the
	// caller.
	if m, known := x.settings.Catalog.Resolve(c.model, x.aliases()); known {
		x.event.Model = m.ID
	}
	maxCost, err := c.maxCost(r.Header)
	if err != nil {
		return err
	}
	// What is wrong with tags is told before a reply is kept or a stream can be resumed.
	own, err := headerTags(r.Header)
	if err != nil {
		return err
	}
	ctx := r.Context()
	var w http.ResponseWriter = x
	var k *recorder
	if key := r.Header[idempotency.Header]; key != nil && a.opts.Replies != nil {
		if k, err = a.keep(x, r, key, c.body, c.model, c.Request != nil && c.UsesTools()); k == nil {
			return err
		}
		defer k.end()
		w = k
	}
	var s *resumable
	if c.resumable(r) && a.opts.Streams != nil {
		s, ctx = a.makeResumable(x, r, k)
		defer s.end()
		if w = s; k != nil {
			k.next, k.ctx, w = s, ctx, k
		}
	}
	wanted := a.receiptOf(x, r, c.body)
	session := c.session(r.Header)
	err = a.current(x, func() error {
		call := x.call(c.door)
		call.Request, call.Inputs, call.Dialect = c.Request, c.inputs, c.dialect
		call.Session, call.Tags, call.TellCost = session, tagsOf(x.caller.Tags, own, c.metadata), c.tellCost() || x.caller.Account.ShowCost
		call.Receipt, call.MaxCost, call.Clamp = wanted, maxCost, c.Request != nil && c.Clamp
		if c.inputs != nil {
			return a.line.Embed(ctx, w, x.models(), call)
		}
		return a.line.Complete(ctx, w, x.models(), call)
	})
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

// readChat reads and checks a chat request; see readRequest.
func (a *API) readChat(x *exchange, r *http.Request) (*chat.Request, []byte, func(), error) {
	return readRequest(a, x, r, 1, chat.Parse, func(req *chat.Request) *chat.Request { return req })
}

// readRequest reads and checks a request, each byte of which is held copies times. If it returns no error, the caller calls
// release when neither req nor body, which req refers to, is used any more: their bytes, and what the chat request weighs
// that the body was decoded to, count against the memory for bodies until then.
func readRequest[T any](a *API, x *exchange, r *http.Request, copies int64, parse func([]byte) (*T, error), same func(*T) *chat.Request) (req *T, body []byte, release func(), err error) {
	body, release, err = a.readBody(x, r, a.bodies.One, copies)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if req == nil || err != nil { // refused, or parse panicked
			release()
		}
	}()
	if req, err = decoded(a, x, r, body, parse); err == nil && len(body) >= largeBody {
		take, giveBack := a.Hold(x.caller.Account.ID)
		free := release
		release = func() { giveBack(); free() }
		err = take(same(req).Weight())
	}
	return req, body, release, err
}
