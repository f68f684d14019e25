package admin

import (
	"context"
	"encoding/json"
)

// Listing is the catalog as an operator sees it.
type Listing struct {
	JSON  json.RawMessage // as GET /v1/models returns it
	State []ModelState
}

// Models returns the catalog of a server, or that of a configuration. With refresh, the server looks for models
// first; without a server that is an error.
func Models(ctx context.Context, client *Client, verbose, refresh bool) (*Listing, error) {
	if refresh {
		if _, err := Ops().ModelsRefresh.Call(ctx, client, Cursor{Limit: 1}); err != nil {
			return nil, err
		}
	}
	state, err := All(Cursor{}, func(at Cursor) (List[ModelState], error) {
		return Ops().ModelsStanding.Call(ctx, client, at)
	})
	if err != nil {
		return nil, err
	}
	list, err := Ops().ModelsJSON.Call(ctx, client, ModelQuery{Verbose: verbose})
	return &Listing{list, state}, err
}
