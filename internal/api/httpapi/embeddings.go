package httpapi

import (
	"net/http"

	"sluice/internal/ledger/usage"
	"sluice/internal/line/idempotency"
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
	defer func() {
		if x.begun() {
			a.metrics.Overhead(x.overhead)
		}
	}()
	if m, known := x.settings.Catalog.Resolve(req.Model, x.aliases()); known {
		x.event.Model = m.ID
	}
	var w http.ResponseWriter = x
	if key := r.Header[idempotency.Header]; key != nil && a.replies != nil {
		k, err := a.keep(x, r, key, body, req.Model, false)
		if k == nil {
			return err
		}
		defer k.end()
		w = k
	}
	return goneOr(a.current(x, func() error {
		call := x.call(usage.DoorEmbeddings)
		call.Inputs = req
		return a.line.Embed(r.Context(), w, x.models(), call)
	}))
}
