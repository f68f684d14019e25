package front

import (
	"context"
	"math"
	"net/url"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/overview"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
	"sluice/internal/web/webui"
)

// Kind is what a model makes.
type Kind string

const (
	Chat      Kind = "chat"
	Embedding Kind = "embedding"
	Video     Kind = "video"
)

// Reader is a customer who reads a page. A nil Reader is a stranger, who does not see what is for staff only.
type Reader struct {
	Plan account.Plan
	ID   string // of the account; prices may depend on it
	// May reports whether the reader may call a model.
	May func(*catalog.Model) bool
}

// Model is a model as pages show it.
type Model struct {
	*catalog.Model
	Kind Kind
	// Health is in a word, or "" if it is not known.
	Health string
	// Included reports whether the reader may call the model; false for strangers.
	Included bool
	// Days are the last 90 days, today last; nil if nothing is known. Total is their sum.
	Days  []overview.Span
	Total overview.Span

	// list has the prices of now, markup is what they are multiplied with for the reader, and told has the products. list and
	// told are nil if the prices are not known.
	list, told *price.Entry
	markup     price.Factor
}

// newModel returns a model with the prices that a reader is told.
func newModel(m *catalog.Model, kind Kind, reader *Reader, now time.Time) Model {
	v := Model{Model: m, Kind: kind, list: m.Priced(now), markup: m.Markup.All()}
	if reader != nil {
		v.markup = m.Markup.Of(reader.Plan.String(), reader.ID)
	}
	v.told = v.list.Times(v.markup)
	return v
}

// InputPrice, CachedPrice and OutputPrice return the price of a million tokens, or "" if it is not known.
func (m *Model) InputPrice() string  { return perMillion(m.told, price.Input) }
func (m *Model) CachedPrice() string { return perMillion(m.told, price.CacheRead) }
func (m *Model) OutputPrice() string {
	if m.Kind != Chat { // there is no text in the reply
		return ""
	}
	return perMillion(m.told, price.Output)
}

// perMillion returns the price of a million tokens as a page shows it. A price of zero is known, and differs from none.
func perMillion(e *price.Entry, b price.Bucket) string {
	if e == nil || e.Rates[b] == price.Unknown {
		return ""
	}
	return webui.Dollars(e.Rates[b])
}

// ModelInfo knows what pages show of models.
type ModelInfo struct {
	Catalog func() *catalog.Catalog
	// Health describes a model's health in a word.
	Health func(m *catalog.Model) string
	// Targets returns the health of each target of a model.
	Targets func(m *catalog.Model) []routing.TargetHealth
	Record  Record
	// Video returns the model that makes videos.
	Video func() catalog.Model
}

// Place is one of the places that serve a model. It has no address: only what callers may know.
type Place struct {
	Provider string
	Health   string
	// Share of the calls in percent.
	Share int
}

// placesOf returns the places that serve a model, by the names that callers know from x-sluice-provider. Several keys
// at one provider are one place.
func placesOf(m *catalog.Model, targets []routing.TargetHealth) (places []Place) {
	weights := 0
	for _, t := range m.Places() {
		weights += t.Weight
	}
	for _, t := range m.Places() {
		p := Place{Provider: t.Provider, Health: "down"}
		if weights > 0 {
			p.Share = int(math.Round(100 * float64(t.Weight) / float64(weights)))
		}
		healthy, all := 0, 0
		for i := range targets {
			if s := &targets[i]; s.Provider == t.Provider && s.Upstream == t.Upstream {
				all++
				if s.Healthy() {
					healthy++
				}
			}
		}
		switch {
		case healthy > 0 && healthy == all:
			p.Health = "healthy"
		case healthy > 0:
			p.Health = "degraded"
		}
		places = append(places, p)
	}
	return places
}

// All returns all models that a reader may know of, in the order of the catalog.
func (s *ModelInfo) All(ctx context.Context, reader *Reader) []Model {
	history, now := s.Record.History(ctx), time.Now()
	list := s.Catalog().Models()
	out := make([]Model, 0, len(list)+1)
	add := func(m *catalog.Model, kind Kind) {
		if reader == nil && !allowed(m) {
			return
		}
		one := newModel(m, kind, reader, now)
		one.Days = history[overview.Subject{Kind: overview.ModelKind, Name: m.ID}]
		if kind != Video {
			one.Health = s.Health(m)
		}
		for i := range one.Days {
			one.Total.Merge(&one.Days[i])
		}
		one.Included = reader != nil && reader.May(m)
		out = append(out, one)
	}
	for _, m := range list {
		kind := Chat
		if m.Embeds {
			kind = Embedding
		}
		add(m, kind)
	}
	v := s.Video()
	add(&v, Video)
	return out
}

// find returns the model with an id, or nil.
func find(all []Model, id string) *Model {
	if i := slices.IndexFunc(all, func(m Model) bool { return m.ID == id }); i >= 0 {
		return &all[i]
	}
	return nil
}

// At returns the path of the page of a model below a list.
func At(base, id string) string { return base + "/" + (&url.URL{Path: id}).EscapedPath() }

// withQuery returns a path with a query, if there is one.
func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
