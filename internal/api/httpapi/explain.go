package httpapi

import (
	"net/http"
	"time"

	"sluice/internal/ledger/costs"
)

// defaultExplained is how many calls GET /v1/usage/explain lists unless told.
const defaultExplained = 50

// explainUsage serves GET /v1/usage/explain.
func (a *API) explainUsage(x *exchange, r *http.Request) error {
	query := r.URL.Query()
	sel, err := costs.Select(x.caller.Account.ID, query, time.Now())
	if err != nil {
		return err
	}
	limit, err := limitOf(query, defaultExplained, costs.MaxCalls)
	if err != nil {
		return err
	}
	e, err := a.opts.Costs.Explain(r.Context(), sel, query.Get("cursor"), limit, false)
	if err != nil {
		return err
	}
	return x.encode(e.Reply(false))
}
