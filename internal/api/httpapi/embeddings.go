package httpapi

import (
	"net/http"

	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/embeddings"
)

// createEmbeddings serves POST /v1/embeddings.
func (a *API) createEmbeddings(x *exchange, r *http.Request) error {
	body, release, err := a.readBody(x, r, a.bodies.One, 1)
	if err != nil {
		return err
	}
	defer release()
	req, err := decoded(a, x, r, body, embeddings.Parse)
	if err != nil {
		return err
	}
	return a.complete(x, r, completion{inputs: req, model: req.Model, body: body, door: usage.DoorEmbeddings})
}
