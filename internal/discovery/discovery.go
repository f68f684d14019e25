// Package discovery finds models that nobody configured: of vendors whose keys stand in the
// environment, of model servers on this machine, and of what a provider lists.
//
// It finds and describes models, and logs what came and went. App makes them part of the catalog; who may call them
// is decided by their plan, in admission.
package discovery

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/catalog"
	"sluice/internal/catalog/known"
	"sluice/internal/provider"
)

// Lister is an adapter that can tell which models its upstream has.
type Lister interface {
	Models(ctx context.Context) ([]provider.Listed, error)
}

// Server is a kind of model server that people run on their own machine, and where it listens unless
// it is told otherwise.
type Server struct {
	Kind    string
	BaseURL string
}

// Servers are those that are looked for.
func Servers() []Server {
	return []Server{
		{"ollama", "http://127.0.0.1:11434/v1"},
		{"llamacpp", "http://127.0.0.1:8080/v1"},
		{"lmstudio", "http://127.0.0.1:1234/v1"},
	}
}

// askPatience is how long one upstream may take to list its models.
const askPatience = 5 * time.Second

// maxListed bounds what one upstream can put into the catalog.
const maxListed = 2000

// Ask asks all at once. Those that do not answer are in failed.
func Ask(ctx context.Context, listers map[string]Lister) (listed map[string][]provider.Listed, failed map[string]error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	listed, failed = map[string][]provider.Listed{}, map[string]error{}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for name, l := range listers {
		asking.Go(func() {
			models, err := l.Models(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[name] = err
				return
			}
			slices.SortFunc(models, func(a, b provider.Listed) int { return strings.Compare(a.ID, b.ID) })
			listed[name] = models[:min(len(models), maxListed)]
		})
	}
	asking.Wait()
	return listed, failed
}

// What is assumed of a model about which nothing is known.
const (
	unknownContext = 32_768
	unknownOutput  = 8_192
)

// Describer says what is known of models.
type Describer struct {
	byKind map[string][]known.Model
}

// NewDescriber reads the list of known models.
func NewDescriber() (*Describer, error) {
	models, err := known.Models()
	if err != nil {
		return nil, err
	}
	d := &Describer{byKind: map[string][]known.Model{}}
	for _, m := range models {
		d.byKind[m.Kind] = append(d.byKind[m.Kind], m)
	}
	return d, nil
}

// Known are the well-known models of a kind of provider, as models of the provider with that name.
func (d *Describer) Known(kind, name string) []catalog.Model {
	var out []catalog.Model
	for _, m := range d.byKind[kind] {
		out = append(out, at(m.Model, name))
	}
	return out
}

// Listed is a model that an upstream lists, with what is known of it.
func (d *Describer) Listed(kind, name string, l provider.Listed) catalog.Model {
	for _, m := range d.byKind[kind] {
		if m.Upstream == l.ID {
			return at(m.Model, name)
		}
	}
	m := catalog.Model{
		Upstream: l.ID, Description: l.Name, OwnedBy: kind, RequestMilli: 1000, UnitMilli: 1000,
		ContextLength: l.ContextLength, MaxOutput: l.MaxOutput, ToolCalling: true, Images: true,
	}
	if m.ContextLength == 0 {
		m.ContextLength = unknownContext
	}
	if m.MaxOutput == 0 {
		m.MaxOutput = unknownOutput
	}
	m.MaxOutput = min(m.MaxOutput, m.ContextLength)
	return at(m, name)
}

func at(m catalog.Model, name string) catalog.Model {
	m.Provider, m.ID = name, ID(name, m.Upstream)
	return m
}

// ID is the id of a found model: its provider's name and its own, without what ids cannot hold.
func ID(name, upstream string) string {
	return name + "/" + strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return '-'
		}
		return r
	}, upstream)
}

// Same reports whether two answers list the same models.
func Same(a, b map[string][]provider.Listed) bool {
	return maps.EqualFunc(a, b, func(x, y []provider.Listed) bool { return slices.Equal(x, y) })
}
