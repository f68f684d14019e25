package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// listModels serves GET /v1/models.
func (a *API) listModels(x *exchange, r *http.Request) error {
	if forMessages(r) {
		return x.pageOfModels(r)
	}
	query := r.URL.Query()
	format := query.Get("format")
	if query.Has("format") && format != "verbose" {
		return fault.New(fault.Invalid, "format must be \"verbose\" or absent; got %q.", excerpt.Of(format, maxEcho)).At("format")
	}
	return x.json(x.settings.Catalog.JSON(format == "verbose"))
}

// listModelsVerbose serves GET /v1/models/verbose.
func (a *API) listModelsVerbose(x *exchange, _ *http.Request) error {
	return x.json(x.settings.Catalog.JSON(true))
}

// showModel serves GET /v1/models/{id}. The slash in an id may be escaped or not. The id may be an alias; the reply is the
// model that it stands for.
func (a *API) showModel(x *exchange, r *http.Request) error {
	id := r.PathValue("id")
	m, ok := x.settings.Catalog.Resolve(id, x.aliases())
	if !ok {
		return fault.New(fault.NotFound, "There is no model %q. GET /v1/models lists those there are.", excerpt.Of(id, maxEcho))
	}
	if forMessages(r) {
		return x.encode(modelDataOf(m, x.event.Start))
	}
	return x.json(m.JSON())
}

const (
	// Number of changes in a list if the caller does not say, and at most.
	defaultChanges = 100
	mostChanges    = 1000
	cursorPrefix   = "chg_"
)

// changeList is the reply to GET /v1/catalog/changes. Next is the value of since for the next
// request, so that a caller can poll; it is null if nothing has changed yet.
type changeList struct {
	Object string       `json:"object"`
	Data   []changeData `json:"data"`
	Next   *string      `json:"next"`
}

// changeData is one change. At is in Unix seconds. Before and After are model objects, or null
// for a model that was added or removed.
type changeData struct {
	ID     string          `json:"id"`
	At     int64           `json:"at"`
	Type   string          `json:"type"`
	Model  string          `json:"model"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// listCatalogChanges serves GET /v1/catalog/changes.
func (a *API) listCatalogChanges(x *exchange, r *http.Request) error {
	query := r.URL.Query()
	since := query.Get("since")
	limit, err := limitOf(query, defaultChanges, mostChanges)
	if err != nil {
		return err
	}
	var after int64
	if since != "" {
		digits, ok := strings.CutPrefix(since, cursorPrefix)
		n, err := strconv.ParseUint(digits, 10, 63)
		if !ok || err != nil || n == 0 || digits[0] == '0' {
			return fault.New(fault.Invalid, "since must be the id of a change, such as %s42; got %q.", cursorPrefix, excerpt.Of(since, maxEcho)).At("since")
		}
		after = int64(n)
	}
	changes, known, err := a.opts.Changes(r.Context(), after, limit)
	if err != nil {
		return err
	}
	if !known {
		return fault.New(fault.Invalid, "There is no change %q. It may be more than a year old; leave since out to begin with the oldest change there is.", excerpt.Of(since, maxEcho)).At("since")
	}
	out := changeList{Object: "list", Data: make([]changeData, 0, len(changes))}
	if since != "" {
		out.Next = &since
	}
	for i := range changes {
		c := &changes[i]
		d := changeData{ID: cursorPrefix + strconv.FormatInt(c.Number, 10), At: c.At.Unix(), Type: string(c.Type), Model: c.Model, Before: c.Before, After: c.After}
		out.Data = append(out.Data, d)
		out.Next = &d.ID
	}
	return x.encode(out)
}
