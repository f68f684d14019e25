package front

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
}

// InputPrice and OutputPrice return the price of a million tokens, or "" if it is not known.
func (m *Model) InputPrice() string  { return perMillion(m.Told(time.Now()), price.Input) }
func (m *Model) OutputPrice() string { return perMillion(m.Told(time.Now()), price.Output) }

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

// All returns all models, in the order of the catalog. may reports whether the reader may call a model, and is nil for
// strangers, who do not see what is for staff only.
func (s *ModelInfo) All(ctx context.Context, may func(*catalog.Model) bool) []Model {
	history := s.Record.History(ctx)
	list := s.Catalog().Models()
	out := make([]Model, 0, len(list)+1)
	add := func(m *catalog.Model, kind Kind) {
		if may == nil && !allowed(m) {
			return
		}
		one := Model{Model: m, Kind: kind, Days: history[overview.Subject{Kind: overview.ModelKind, Name: m.ID}]}
		if kind != Video {
			one.Health = s.Health(m)
		}
		for i := range one.Days {
			one.Total.Merge(&one.Days[i])
		}
		one.Included = may != nil && may(m)
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

// List is the page of models: the filters and the models that pass them.
type List struct {
	// Path is the path of the page.
	Path    string
	Search  string
	Kind    string
	Plan    string
	Feature string
	Context int
	Sort    string
	Models  []Model
	All     int
	// Compared are the models to compare side by side, and Chosen their ids.
	Compared []Model
	Chosen   []string
	// Member reports whether the reader has an account.
	Member bool
}

// MostCompared is how many models can be compared.
const MostCompared = 4

// List returns the models that pass the filters of a request.
func (s *ModelInfo) List(r *http.Request, may func(*catalog.Model) bool) List {
	v := List{
		Search: strings.TrimSpace(r.FormValue("q")), Kind: r.FormValue("kind"), Plan: r.FormValue("plan"), Feature: r.FormValue("feature"),
		Sort: r.FormValue("sort"), Member: may != nil,
	}
	// Anything that is not a number does not filter.
	v.Context, _ = strconv.Atoi(r.FormValue("context"))
	all := s.All(r.Context(), may)
	v.All = len(all)
	for i := range all {
		if v.wants(&all[i]) {
			v.Models = append(v.Models, all[i])
		}
	}
	for _, id := range r.Form["compare"] {
		i := slices.IndexFunc(all, func(m Model) bool { return m.ID == id })
		if i >= 0 && len(v.Chosen) < MostCompared && !slices.Contains(v.Chosen, id) {
			v.Chosen, v.Compared = append(v.Chosen, id), append(v.Compared, all[i])
		}
	}
	v.order()
	return v
}

// wants reports whether a model passes the filters. Every word of the search must occur in its id, description or owner.
func (v *List) wants(m *Model) bool {
	for word := range strings.FieldsSeq(strings.ToLower(v.Search)) {
		if !strings.Contains(strings.ToLower(m.ID+" "+m.Description+" "+m.OwnedBy), word) {
			return false
		}
	}
	has := true
	switch v.Feature {
	case "tools":
		has = m.ToolCalling
	case "images":
		has = m.Images
	case "reasoning":
		has = m.Thinks
	}
	return has && (v.Kind == "" || string(m.Kind) == v.Kind) && (v.Plan == "" || m.Plan.String() == v.Plan) && (v.Context == 0 || m.ContextLength >= v.Context)
}

// order sorts the models. The order of the catalog is the default, and decides where others are equal. What is not
// known comes last.
func (v *List) order() {
	const unknown = 1 << 60
	var key func(m *Model) int64
	switch v.Sort {
	case "price":
		key = func(m *Model) int64 {
			e := m.Told(time.Now())
			if e == nil || e.Rates[price.Input] == price.Unknown || e.Rates[price.Output] == price.Unknown {
				return unknown
			}
			return int64(e.Rates[price.Input] + e.Rates[price.Output])
		}
	case "context":
		key = func(m *Model) int64 { return -int64(m.ContextLength) }
	case "first":
		key = func(m *Model) int64 {
			if d := m.Total.First.Quantile(0.5); d > 0 {
				return int64(d)
			}
			return unknown
		}
	case "speed":
		key = func(m *Model) int64 { return -int64(m.Total.Speed() * 1000) }
	case "name":
		slices.SortStableFunc(v.Models, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
		return
	case "new":
		key = func(m *Model) int64 { return -m.Created }
	default:
		v.Sort = ""
		return
	}
	slices.SortStableFunc(v.Models, func(a, b Model) int { return cmp.Compare(key(&a), key(&b)) })
}

// sorts are the orders to choose from.
var sorts = []struct{ Value, Text string }{
	{"", "Recommended"}, {"price", "Lowest price"}, {"context", "Longest context"}, {"first", "Fastest first token"}, {"speed", "Highest throughput"}, {"new", "Newest"}, {"name", "Name"},
}

// tiers are the plans to filter by. Scale has no models of its own.
var tiers = []account.Plan{account.Free, account.Basic, account.Premium}

// contexts are the context lengths to filter by, in tokens.
var contexts = []int{32_000, 128_000, 200_000, 400_000}

// features are what chat models can do, to filter by.
var features = []struct{ Value, Text string }{{"tools", "Tool calling"}, {"images", "Image input"}, {"reasoning", "Reasoning"}}

// Sheet is the page of one model.
type Sheet struct {
	Model
	// Base is the path of the list of models.
	Base     string
	Member   bool
	Places   []Place
	Snippets []Snippet
	// Lately are the last three hours, in parts.
	Lately []overview.Span
	Now    time.Time
}

// parts is into how many parts the last three hours are divided: five minutes each.
const parts = 36

// Sheet returns the page of a model. may is as in All.
func (s *ModelInfo) Sheet(ctx context.Context, id, origin string, may func(*catalog.Model) bool) (Sheet, bool) {
	for _, m := range s.All(ctx, may) {
		if m.ID != id {
			continue
		}
		v := Sheet{Model: m, Member: may != nil, Lately: s.Record.Lately(ctx, id, parts), Now: time.Now()}
		switch m.Kind {
		case Chat:
			v.Snippets = Snippets(origin, id)
		case Embedding:
			v.Snippets = embeddingSnippets(origin, id)
		case Video:
			v.Snippets = videoSnippets(origin, id)
		}
		if m.Kind != Video {
			v.Places = placesOf(m.Model, s.Targets(m.Model))
		}
		return v, true
	}
	return Sheet{}, false
}

// At returns the path of the page of a model below a list.
func At(base, id string) string { return base + "/" + (&url.URL{Path: id}).EscapedPath() }
