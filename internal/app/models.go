package app

import (
	"context"
	"encoding/json"

	"sluice/internal/admin"
	"sluice/internal/config"
)

// Models is the catalog as GET /v1/models gives it: of the server that runs on the data folder, or
// where none does, as the configuration has it. It needs no data folder and makes none.
func Models(ctx context.Context, cfg *config.Config, verbose bool) (json.RawMessage, error) {
	if client, err := admin.Dial(ctx, cfg.Data); err == nil {
		var list json.RawMessage
		err := client.Call(ctx, "models", admin.ModelQuery{Verbose: verbose}, &list)
		return list, err
	}
	s, err := newSettings(cfg)
	if err != nil {
		return nil, err
	}
	return s.catalog.JSON(verbose), nil
}
