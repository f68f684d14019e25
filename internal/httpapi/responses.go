package httpapi

import (
	"net/http"

	"sluice/internal/chat"
	"sluice/internal/relay"
	"sluice/internal/responses"
)

// createResponse serves POST /v1/responses: a completion in the Responses dialect.
func (a *API) createResponse(x *exchange, r *http.Request) error {
	body, release, err := a.bodies.read(x, r)
	if err != nil {
		return err
	}
	defer release()
	req, err := responses.Parse(body)
	if err != nil {
		return err
	}
	composed, err := req.Compose(nil)
	if err != nil {
		return err
	}
	same, err := chat.Parse(composed)
	if err != nil {
		return req.Rename(err)
	}
	writer := responses.NewWriter(req, relay.Head{RequestID: x.event.CallID, Created: x.event.Start.Unix()}, nil)
	return req.Rename(a.complete(x, r, completion{Request: same, body: body, door: "responses", dialect: writer}))
}
