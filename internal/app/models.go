package app

import (
	"context"
	"encoding/json"
	"time"

	"sluice/internal/admin"
	"sluice/internal/catalog"
	"sluice/internal/config"
	"sluice/internal/routing"
)

// Listing is the catalog as an operator sees it.
type Listing struct {
	JSON     json.RawMessage // as GET /v1/models gives it
	Standing []admin.ModelStanding
}

// Models is the catalog: of the server that runs on the data folder, or where none does, as the
// configuration has it. It needs no data folder and makes none. Refresh has the server look for models
// first.
func Models(ctx context.Context, cfg *config.Config, verbose, refresh bool) (*Listing, error) {
	client, err := admin.Dial(ctx, cfg.Data)
	if err != nil {
		s, err := newSettings(cfg, nil)
		if err != nil {
			return nil, err
		}
		client = admin.InProcess(&admin.Backend{
			Catalog:  func() *catalog.Catalog { return s.catalog },
			Standing: func() []admin.ModelStanding { return standing(s) },
		})
	}
	l := &Listing{}
	operation := "models.standing"
	if refresh {
		operation = "models.refresh"
	}
	if err := client.Call(ctx, operation, admin.Empty{}, &l.Standing); err != nil {
		return nil, err
	}
	return l, client.Call(ctx, "models", admin.ModelQuery{Verbose: verbose}, &l.JSON)
}

// standing is where the models come from and how well they are.
func standing(s *settings) []admin.ModelStanding {
	var all []admin.ModelStanding
	for _, m := range s.catalog.Models() {
		access := m.Plan.String()
		if m.StaffOnly {
			access = "staff"
		}
		all = append(all, admin.ModelStanding{ID: m.ID, From: string(m.Origin), Access: access, Health: s.health(m)})
	}
	return all
}

// health says in a few words how well a model is; empty where nobody knows.
func (s *settings) health(m *catalog.Model) string {
	switch {
	case s.routes == nil || m.Router:
		return ""
	case m.Vanished:
		return "vanished"
	}
	targets := s.routes.Of(m, time.Now())
	open := 0
	for _, t := range targets {
		if t.State == routing.Open {
			open++
		}
	}
	switch open {
	case len(targets): // none at all is as bad
		return "out of order"
	case 0:
		return "well"
	}
	return "partly out of order"
}
