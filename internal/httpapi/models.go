package httpapi

import (
	"net/http"

	"sluice/internal/fault"
)

// listModels is GET /v1/models.
func (a *API) listModels(x *exchange, r *http.Request) error {
	query := r.URL.Query()
	format := query.Get("format")
	if query.Has("format") && format != "verbose" {
		return fault.New(fault.Invalid, "format must be \"verbose\" or absent; got %q.", clip(format)).At("format")
	}
	return x.json(x.settings.Catalog.JSON(format == "verbose"))
}

// listModelsVerbose is GET /v1/models/verbose.
func (a *API) listModelsVerbose(x *exchange, _ *http.Request) error {
	return x.json(x.settings.Catalog.JSON(true))
}

// showModel is GET /v1/models/{id}; the slash of an id may be escaped or not.
func (a *API) showModel(x *exchange, r *http.Request) error {
	id := r.PathValue("id")
	m, ok := x.settings.Catalog.Lookup(id)
	if !ok {
		return fault.New(fault.NotFound, "There is no model %q. GET /v1/models lists those there are.", clip(id))
	}
	return x.json(m.JSON())
}
