// Package known is a list of well-known models: their capabilities, their prices, and an estimate
// of how well they do each kind of task.
//
// Discovery and the configuration fall back to it where the operator says nothing. Prices and
// context windows come from the vendors, and each entry names its source. Tiers and qualities are
// our own estimates.
package known

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"

	"sluice/internal/account"
	"sluice/internal/upstream/catalog"
)

// The list is embedded, so that the program needs no network to know it. models is only read.
//
//go:embed models.json
var models []byte

// Model is an entry of the list. Its embedded Model has no ID and no Provider yet; the caller sets
// them.
type Model struct {
	catalog.Model
	Kind   string // kind of the provider that serves it, as in the configuration
	Source string // where the figures come from
}

// entry is the form of an element of models.json.
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
	Embeds   bool   `json:"embeds"` // it makes embeddings; it has no output and no quality
	Price    *struct {
		Input  float64 `json:"input"` // dollars per million tokens
		Output float64 `json:"output"`
		Cached float64 `json:"cached"`
	} `json:"price"`
	Quality map[string]uint8 `json:"quality"`
	Source  string           `json:"source"`
}

// Models returns the list. It decodes the file on each call, so the caller owns the result.
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

// model checks an entry and converts it. A call of any known model counts as one request and one
// unit.
func (e *entry) model() (Model, error) {
	plan, err := account.ParsePlan(e.Plan)
	if err != nil {
		return Model{}, err
	}
	m := Model{Kind: e.Kind, Source: e.Source, Model: catalog.Model{
		Description: e.Name, OwnedBy: e.Kind, Plan: plan, RequestMilli: 1000, UnitMilli: 1000,
		ContextLength: e.Context, MaxOutput: e.Output, ToolCalling: e.Tools, Thinks: e.Thinks, Images: e.Images, Embeds: e.Embeds, Upstream: e.Upstream,
	}}
	for name, q := range e.Quality {
		t, ok := catalog.ParseTask(name)
		if !ok {
			return Model{}, fmt.Errorf("%q is not a task", name)
		}
		m.Quality[t] = q
	}
	if p := e.Price; p != nil {
		m.Pricing = &catalog.Pricing{Input: micro(p.Input), Output: micro(p.Output)}
		// A price of 0 means that the vendor names none; cached tokens then cost as much as others.
		if p.Cached > 0 {
			m.Pricing.Cached = micro(p.Cached)
		}
	}
	return m, nil
}

// micro converts dollars to micro-dollars. It rounds, because most prices have no exact binary
// form.
func micro(dollars float64) *int64 {
	v := int64(math.Round(dollars * 1e6))
	return &v
}
