// Package known is a list of well-known models: their capabilities, when they end, and
// an estimate of how well they do each kind of task.
//
// Discovery and the configuration fall back to it where the operator says nothing. What it says of a
// model comes from the vendor: each entry names its source and the day on which it was read. Tiers
// and qualities are our own estimates.
package known

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
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
	Kind    string // kind of the provider that serves it, as in the configuration
	Default chat.Effort
	Source  string    // where the figures come from
	Read    time.Time // the day on which the source was read
	Note    string    // what the figures do not say
}

// entry is the form of an element of models.json.
type entry struct {
	Kind        string           `json:"kind"`
	Upstream    string           `json:"upstream"`
	Name        string           `json:"name"`
	Plan        string           `json:"plan"`
	Context     int              `json:"context"`
	Output      int              `json:"output"`
	Tools       bool             `json:"tools"`
	Thinks      bool             `json:"thinks"`
	Images      bool             `json:"images"`
	Embeds      bool             `json:"embeds"`  // it makes embeddings; it has no output and no quality
	Efforts     []chat.Effort    `json:"efforts"` // that it takes, in rising order; empty: it is not told how much to think
	Effort      chat.Effort      `json:"effort"`  // its default
	Quality     map[string]uint8 `json:"quality"`
	Shutdown    string           `json:"shutdown"`    // the day on which the vendor ends it
	Replacement string           `json:"replacement"` // what the vendor advises instead
	Source      string           `json:"source"`
	Read        string           `json:"read"`
	Note        string           `json:"note"`
}

// Models returns the list. It decodes the file on each call, so the caller owns the result.
func Models() ([]Model, error) {
	all, _, err := read()
	return all, err
}

// read returns the list, and the day on which somebody last compared all of it with its sources.
func read() (all []Model, reviewed time.Time, err error) {
	var file struct {
		Reviewed string  `json:"reviewed"`
		Models   []entry `json:"models"`
	}
	if err := json.Unmarshal(models, &file); err != nil {
		return nil, reviewed, fmt.Errorf("the list of known models: %w", err)
	}
	if reviewed, err = time.Parse(time.DateOnly, file.Reviewed); err != nil {
		return nil, reviewed, fmt.Errorf("the list of known models: %w", err)
	}
	all = make([]Model, len(file.Models))
	for i := range file.Models {
		m, err := file.Models[i].model()
		if err != nil {
			return nil, reviewed, fmt.Errorf("the list of known models: %s: %w", file.Models[i].Upstream, err)
		}
		all[i] = m
	}
	return all, reviewed, nil
}

// model checks an entry and converts it. A call of any known model counts as one request and one
// unit.
func (e *entry) model() (Model, error) {
	plan, err := account.ParsePlan(e.Plan)
	if err != nil {
		return Model{}, err
	}
	m := Model{Kind: e.Kind, Default: e.Effort, Source: e.Source, Note: e.Note, Model: catalog.Model{
		Description: e.Name, OwnedBy: e.Kind, Plan: plan, RequestMilli: 1000, UnitMilli: 1000,
		ContextLength: e.Context, MaxOutput: e.Output, ToolCalling: e.Tools, Thinks: e.Thinks, Images: e.Images, Embeds: e.Embeds, Upstream: e.Upstream,
		Efforts: e.Efforts, Successor: e.Replacement,
	}}
	if m.Read, err = time.Parse(time.DateOnly, e.Read); err != nil {
		return Model{}, err
	}
	if e.Shutdown != "" {
		if m.Shutdown, err = time.Parse(time.DateOnly, e.Shutdown); err != nil {
			return Model{}, err
		}
	}
	for name, q := range e.Quality {
		t, ok := catalog.ParseTask(name)
		if !ok {
			return Model{}, fmt.Errorf("%q is not a task", name)
		}
		m.Quality[t] = q
	}
	m.Price = prices().Find("", e.Kind, e.Upstream)
	return m, nil
}

// prices is the list of prices that comes with the program.
var prices = sync.OnceValue(func() *price.Book {
	list, _ := price.Listed()
	return price.NewBook(list)
})
