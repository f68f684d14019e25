// Package known is a list of well-known models: what they can do, what they cost, and an estimate of
// how well they do it.
//
// It is what discovery and the configuration fall back to where the operator says nothing. Prices and
// windows are the vendors', each with its source; tiers and qualities are our own estimates.
package known

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"

	"sluice/internal/account"
	"sluice/internal/catalog"
)

//go:embed models.json
var models []byte

// Model is an entry of the list. Its Model has no id and no provider yet.
type Model struct {
	catalog.Model
	Kind   string // of the provider that serves it
	Source string // where its figures are from
}

type entry struct {
	Kind     string `json:"kind"`
	Upstream string `json:"upstream"`
	Name     string `json:"name"`
	Plan     string `json:"plan"`
	Context  int    `json:"context"`
	Output   int    `json:"output"`
	Tools    bool   `json:"tools"`
	Thinks   bool   `json:"thinks"`
	Images   bool   `json:"images"`
	Price    *struct {
		Input  float64 `json:"input"` // dollars per million tokens
		Output float64 `json:"output"`
		Cached float64 `json:"cached"`
	} `json:"price"`
	Quality map[string]uint8 `json:"quality"`
	Source  string           `json:"source"`
}

// Models is the list.
func Models() ([]Model, error) {
	var entries []entry
	if err := json.Unmarshal(models, &entries); err != nil {
		return nil, fmt.Errorf("the list of known models: %w", err)
	}
	out := make([]Model, len(entries))
	for i := range entries {
		m, err := entries[i].model()
		if err != nil {
			return nil, fmt.Errorf("the list of known models: %s: %w", entries[i].Upstream, err)
		}
		out[i] = m
	}
	return out, nil
}

func (e *entry) model() (Model, error) {
	plan, err := account.ParsePlan(e.Plan)
	if err != nil {
		return Model{}, err
	}
	m := Model{Kind: e.Kind, Source: e.Source, Model: catalog.Model{
		Description: e.Name, OwnedBy: e.Kind, Plan: plan, RequestMilli: 1000, UnitMilli: 1000,
		ContextLength: e.Context, MaxOutput: e.Output, ToolCalling: e.Tools, Thinks: e.Thinks, Images: e.Images, Upstream: e.Upstream,
	}}
	for name, q := range e.Quality {
		t, ok := catalog.ParseTask(name)
		if !ok {
			return Model{}, fmt.Errorf("%q is no task", name)
		}
		m.Quality[t] = q
	}
	if p := e.Price; p != nil {
		m.Pricing = &catalog.Pricing{Input: micro(p.Input), Output: micro(p.Output)}
		if p.Cached > 0 {
			m.Pricing.Cached = micro(p.Cached)
		}
	}
	return m, nil
}

// micro makes dollars micro-dollars.
func micro(dollars float64) *int64 {
	v := int64(math.Round(dollars * 1e6))
	return &v
}
