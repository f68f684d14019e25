// Package discovery finds models that nobody configured: those of vendors whose keys are in the
// environment, those of model servers on this machine, and those that a configured provider lists.
//
// Run decides when to look, Found holds what is known, and a Describer adds what the list of
// well-known models says. Package app makes the models part of the catalog. Who may call them
// follows from their plan; see admission.
package discovery

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/catalog/known"
	"sluice/internal/upstream/provider"
)

// Lister is an adapter whose upstream can list its models. Not every adapter is one.
type Lister interface {
	Models(ctx context.Context) ([]provider.Listed, error)
}

// Server is a kind of model server that people run on their own machine, and the address that it
// listens on by default. The kind is one of a provider and also becomes the provider's name.
type Server struct {
	Kind    string
	BaseURL string
}

// Servers returns the model servers to look for.
func Servers() []Server {
	return []Server{
		{"ollama", "http://127.0.0.1:11434/v1"},
		{"llamacpp", "http://127.0.0.1:8080/v1"},
		{"lmstudio", "http://127.0.0.1:1234/v1"},
	}
}

// askPatience is how long Ask waits for all upstreams together.
const askPatience = 5 * time.Second

// maxListed bounds how many models one upstream can put into the catalog, so that a broken or
// hostile one cannot fill the memory, or the list that callers get.
const maxListed = 2000

// Ask asks all listers at the same time. Both results are by the names of listers. Lists are sorted
// by id, so that Same can compare them and the bound always keeps the same models.
func Ask(ctx context.Context, listers map[string]Lister) (listed map[string][]provider.Listed, failed map[string]error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	// A lister that fails is in failed and nothing else: the others are not held up by it.
	listed, failed = map[string][]provider.Listed{}, map[string]error{}
	var mu sync.Mutex // guards listed and failed
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

// The limits that are assumed of a model if neither its upstream nor the list of well-known models
// has them. They are low: too low a limit refuses some requests, too high a one makes calls fail.
const (
	unknownContext = 32_768
	unknownOutput  = 8_192
)

// Describer describes models by the list of well-known models. It does not change once it is made.
type Describer struct {
	byKind map[string][]known.Model // by the kind of provider
}

// NewDescriber reads the list of well-known models.
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

// Known returns the well-known models of a kind of provider, as models of the provider with that
// name.
func (d *Describer) Known(kind, name string) []catalog.Model {
	var out []catalog.Model
	for _, m := range d.byKind[kind] {
		out = append(out, at(m.Model, name))
	}
	return out
}

// Listed returns a model that an upstream lists. If it is not well known, it counts as one request,
// and tools and images are assumed to work: if they do not, the upstream refuses them.
func (d *Describer) Listed(kind, name string, l provider.Listed) catalog.Model {
	if m, ok := d.find(kind, l.ID); ok {
		if !l.Shutdown.IsZero() {
			m.Shutdown = l.Shutdown
		}
		return at(m, name)
	}
	m := catalog.Model{
		Shutdown: l.Shutdown,
		Upstream: l.ID, Description: l.Name, OwnedBy: kind, RequestMilli: 1000, UnitMilli: 1000,
		ContextLength: l.ContextLength, MaxOutput: l.MaxOutput, ToolCalling: true, Images: true,
	}
	if m.ContextLength == 0 {
		m.ContextLength = unknownContext
	}
	if l.Embeds {
		m.Embeds, m.MaxOutput, m.ToolCalling, m.Images = true, 0, false, false
		if l.ContextLength == 0 {
			m.ContextLength = embeddings.MaxInput
		}
		return at(m, name)
	}
	if m.MaxOutput == 0 {
		m.MaxOutput = unknownOutput
	}
	m.MaxOutput = min(m.MaxOutput, m.ContextLength) // the reply is part of the context
	return at(m, name)
}

// find returns the well-known model of a kind of provider with the upstream's name.
func (d *Describer) find(kind, upstream string) (catalog.Model, bool) {
	for _, m := range d.byKind[kind] {
		if m.Upstream == upstream {
			return m.Model, true
		}
	}
	return catalog.Model{}, false
}

// Complete fills in what a configured model does not say and its vendor does: the efforts that it takes, and when it ends.
// kinds are the kinds of the providers by their names. What it says of several targets is true of all of them.
func (d *Describer) Complete(m *catalog.Model, kinds map[string]string, f *Found) {
	efforts, shutdown, successor := []chat.Effort(nil), time.Time{}, ""
	for i, t := range m.Places() {
		one := d.Listed(kinds[t.Provider], t.Provider, f.listed(t))
		if i == 0 {
			efforts, shutdown, successor = one.Efforts, one.Shutdown, one.Successor
			continue
		}
		efforts = slices.DeleteFunc(slices.Clone(efforts), func(e chat.Effort) bool { return !slices.Contains(one.Efforts, e) })
		if one.Shutdown.IsZero() || one.Shutdown.After(shutdown) && !shutdown.IsZero() {
			shutdown, successor = one.Shutdown, one.Successor
		}
	}
	if m.Efforts == nil {
		m.Efforts = efforts
	}
	if m.Shutdown.IsZero() {
		m.Shutdown, m.Successor = shutdown, successor
	}
}

// at returns m as a model of the provider with that name.
func at(m catalog.Model, name string) catalog.Model {
	m.Provider, m.ID = name, ID(name, m.Upstream)
	return m
}

// ID returns the id of a found model: the name of its provider, a slash, and the upstream's id, in
// which white space and control characters become dashes.
func ID(name, upstream string) string {
	return name + "/" + strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return '-'
		}
		return r
	}, upstream)
}

// Same reports whether two results of Ask list the same models. If so, there is nothing to apply.
func Same(a, b map[string][]provider.Listed) bool {
	return maps.EqualFunc(a, b, func(x, y []provider.Listed) bool { return slices.Equal(x, y) })
}
