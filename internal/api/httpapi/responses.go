package httpapi

import (
	"net/http"
	"strconv"

	"sluice/internal/api/responses"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
)

// createResponse serves POST /v1/responses: a completion in the Responses dialect. It becomes an equal chat completion,
// and everything behind this door is that of chat completions.
func (a *API) createResponse(x *exchange, r *http.Request) error {
	in, err := a.readResponse(x, r)
	if err != nil {
		return err
	}
	defer in.release()
	req, same := in.req, in.same
	writer := responses.NewWriter(req, relay.Head{RequestID: x.event.CallID, Created: x.event.Start.Unix()}, a.shelving(x, r, req))
	return req.Rename(a.complete(x, r, completion{Request: same, model: same.Model, body: in.body, metadata: req.Metadata().Raw(), door: usage.DoorResponses, dialect: writer}))
}

// asked is a request in the Responses dialect, and the chat completion that it stands for.
type asked struct {
	req     *responses.Request
	same    *chat.Request
	body    []byte
	release func() // gives back what the others hold
}

// readResponse reads a request in the Responses dialect. If it returns no error, the caller calls release.
func (a *API) readResponse(x *exchange, r *http.Request) (in asked, err error) {
	body, free, err := a.readBody(x, r, a.bodies.One, 2)
	if err != nil {
		return in, err
	}
	take, giveBack := a.Hold(x.caller.Account.ID)
	release := func() { giveBack(); free() }
	read := false
	defer func() {
		if !read { // refused, or it panicked
			release()
		}
	}()
	var same *chat.Request
	req, err := decoded(a, x, r, body, func(body []byte) (req *responses.Request, err error) {
		req, same, err = a.translated(x, r, body, take)
		return req, err
	})
	read = err == nil
	return asked{req, same, body, release}, err
}

// countInput serves POST /v1/responses/input_tokens. It calls no model, and counts as one request.
func (a *API) countInput(x *exchange, r *http.Request) error {
	in, err := a.readResponse(x, r)
	if err != nil {
		return err
	}
	defer in.release()
	tokens, err := a.countPrompt(x, r, in.same)
	if err != nil {
		return in.req.Rename(err)
	}
	return x.json([]byte(`{"object":"response.input_tokens","input_tokens":` + strconv.Itoa(tokens) + `}`))
}

// translated returns the request in a body, and the chat completion that it stands for, with what it refers to.
func (a *API) translated(x *exchange, r *http.Request, body []byte, take responses.Take) (*responses.Request, *chat.Request, error) {
	req, err := responses.Parse(body)
	if err != nil {
		return nil, nil, err
	}
	past, err := a.past(x, r, req, take)
	if err != nil {
		return nil, nil, err
	}
	if a.opts.Responses != nil {
		req.Opened = func(sealed string) ([]byte, bool) { return a.opts.Responses.Opened(x.caller.Account.ID, sealed) }
	}
	same, err := req.Compose(past)
	// With truncation the oldest turns are left out until the model can read the rest.
	models := x.models()
	for err == nil && req.Truncate && !models.Reads(same, x.aliases()) && req.Shorten() {
		same, err = req.Compose(past)
	}
	if err != nil {
		return nil, nil, err
	}
	same.Original = req.Original(past)
	if len(body) >= largeBody {
		err = take(same.Weight())
	}
	return req, same, err
}

// past returns what a request refers to. It asks the store only if the request refers to something. What is read counts as
// part of the body; see bodies.
func (a *API) past(x *exchange, r *http.Request, req *responses.Request, take responses.Take) (*responses.Past, error) {
	if req.Previous == "" && len(req.References()) == 0 {
		return nil, nil
	}
	if a.opts.Responses == nil {
		return nil, fault.New(fault.Invalid, "Responses are not stored here; send the conversation in input.").At("previous_response_id")
	}
	// A caller at its limit must not make the store read its conversations.
	err := a.current(x, func() error { return a.line.Knock(x.Header(), x.caller, x.limits()) })
	if err != nil {
		return nil, err
	}
	past, err := a.opts.Responses.Past(r.Context(), x.caller.Account.ID, req, take)
	if err != nil && r.Context().Err() != nil {
		return nil, relay.Ended(r.Context())
	}
	return past, err
}

// shelving returns how a reply is stored.
func (a *API) shelving(x *exchange, r *http.Request, req *responses.Request) *responses.Options {
	if a.opts.Responses == nil {
		return nil
	}
	accountID := x.caller.Account.ID
	return &responses.Options{
		Seal: func(text []byte) string { return a.opts.Responses.Seal(accountID, text) },
		Keep: func(response []byte) bool {
			err := a.opts.Responses.Keep(r.Context(), accountID, req, responses.ResponseID(x.event.CallID), response)
			if err != nil {
				a.opts.Log.WarnContext(r.Context(), "a response could not be stored; its caller is told", "request_id", x.event.CallID, "error", err)
			}
			return err == nil
		},
	}
}

// stored wraps the handlers of stored responses: there is nothing at their paths if none are stored.
func (a *API) stored(next handler) handler {
	return func(x *exchange, r *http.Request) error {
		if a.opts.Responses == nil {
			return nothingAt(r)
		}
		return next(x, r)
	}
}

// showResponse serves GET /v1/responses/{id}.
func (a *API) showResponse(x *exchange, r *http.Request) error {
	if r.URL.Query().Get("stream") == "true" {
		if err := a.opts.Responses.Has(r.Context(), x.caller.Account.ID, r.PathValue("id")); err != nil {
			return err
		}
		return fault.New(fault.Invalid, "stream is not possible: only responses that were made in the background can be streamed later.").At("stream")
	}
	take, release := a.Hold(x.caller.Account.ID)
	defer release()
	response, err := a.opts.Responses.Find(r.Context(), x.caller.Account.ID, r.PathValue("id"), take)
	if err != nil {
		return err
	}
	return x.json(response)
}

// deleteResponse serves DELETE /v1/responses/{id}.
func (a *API) deleteResponse(x *exchange, r *http.Request) error {
	id := r.PathValue("id")
	if err := a.opts.Responses.Delete(r.Context(), x.caller.Account.ID, id); err != nil {
		return err
	}
	return x.json(append(jsonscan.AppendQuoted([]byte(`{"id":`), id), `,"object":"response","deleted":true}`...))
}

// cancelResponse serves POST /v1/responses/{id}/cancel. There is nothing to cancel: a response is made while its
// caller waits, who cancels it by hanging up.
func (a *API) cancelResponse(x *exchange, r *http.Request) error {
	if err := a.opts.Responses.Has(r.Context(), x.caller.Account.ID, r.PathValue("id")); err != nil {
		return err
	}
	return fault.New(fault.Invalid, "Only responses that were made in the background can be canceled, and there are none here. To cancel a call, close its connection.")
}

// listInputItems serves GET /v1/responses/{id}/input_items.
func (a *API) listInputItems(x *exchange, r *http.Request) error {
	query := r.URL.Query()
	page := responses.Page{Limit: defaultPage, After: query.Get("after")}
	if given := query.Get("limit"); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > maxPage {
			return fault.New(fault.Invalid, "limit must be an integer from 1 to %d; got %q.", maxPage, excerpt.Of(given, maxEcho)).At("limit")
		}
		page.Limit = n
	}
	switch order := query.Get("order"); order {
	case "", "desc":
	case "asc":
		page.Ascending = true
	default:
		return fault.New(fault.Invalid, `order must be "asc" or "desc"; got %q.`, excerpt.Of(order, maxEcho)).At("order")
	}
	take, release := a.Hold(x.caller.Account.ID)
	defer release()
	list, err := a.opts.Responses.Input(r.Context(), x.caller.Account.ID, r.PathValue("id"), page, take)
	if err != nil {
		return err
	}
	return x.json(list...)
}
