package settings

import (
	"fmt"
	"slices"

	"sluice/internal/app/config"
	"sluice/internal/ledger/price"
	"sluice/internal/upstream/catalog"
)

// newBook returns the prices, those with precedence last: of the list that comes with the program, imported ones, those of models
// and those of the section prices.
func (s *Settings) newBook(models []catalog.Model) (*price.Book, error) {
	listed, _ := price.Listed()
	lists := append([][]*price.Entry{listed}, price.Lists(s.Imported)...)
	var ofModels, own []*price.Entry
	for i := range s.Config.Models {
		m := &s.Config.Models[i]
		if m.Pricing == nil {
			continue
		}
		e, err := pricing(m.ID, m.Pricing)
		if err != nil {
			return nil, fmt.Errorf("models[%d].pricing: %w", i, err)
		}
		ofModels = append(ofModels, e)
	}
	for i := range s.Config.Prices {
		e, err := s.ownPrice(&s.Config.Prices[i], models)
		if err != nil {
			return nil, fmt.Errorf("prices[%d]: %w", i, err)
		}
		own = append(own, e)
	}
	return price.NewBook(append(lists, ofModels, own)...), nil
}

// pricing returns the prices that a model has in its own section. Cached tokens cost as much as others unless they have a
// price, and so do those that are written to a cache.
func pricing(id string, p *config.Pricing) (*price.Entry, error) {
	rate := func(m *config.Money) price.Rate {
		if m == nil {
			return price.Unknown
		}
		return price.Rate(*m) * 1000
	}
	e := price.Entry{Model: id, Rates: price.Of(rate(p.Input), rate(p.Output)), Origin: price.FromModel}
	if p.Cached != nil {
		e.Rates[price.CacheRead] = rate(p.Cached)
	}
	if p.Reasoning != nil {
		e.Rates[price.Reasoning] = rate(p.Reasoning)
	}
	return price.Sealed(e)
}

// ownPrice returns an entry of the section prices. The prices of caches follow from that of input only if that is the rule at every
// place that serves the model.
func (s *Settings) ownPrice(p *config.Price, models []catalog.Model) (*price.Entry, error) {
	e, wrong := p.Entry()
	for key, err := range wrong {
		return nil, fmt.Errorf("%s: %w", key, err) // config.Load has refused it
	}
	if i := slices.IndexFunc(models, func(m catalog.Model) bool { return m.ID == p.Model }); i >= 0 {
		places := models[i].Places()
		if !slices.ContainsFunc(places, func(t catalog.Target) bool { return !price.FollowsCaches(s.kinds[t.Provider], t.Upstream) }) && len(places) > 0 {
			e.Caches(s.kinds[places[0].Provider], places[0].Upstream)
		}
	}
	return price.Sealed(e)
}

// price gives a model the prices of its places. Those of the sandbox have the prices that an operator gives them, to try out what
// callers are told.
func (s *Settings) price(m *catalog.Model) {
	m.Markup = s.markup
	if m.Router {
		return
	}
	m.Targets = slices.Clone(m.Targets)
	for i := range m.Targets {
		t := &m.Targets[i]
		t.Price = s.Book.Find(m.ID, s.kinds[t.Provider], t.Upstream)
	}
	m.Price = s.Book.Find(m.ID, s.kinds[m.Provider], m.Upstream)
}

// Kinds returns the kinds of the providers by their names.
func (s *Settings) Kinds() map[string]string {
	kinds := map[string]string{}
	for i := range s.Config.Providers {
		kinds[s.Config.Providers[i].Name] = s.Config.Providers[i].Kind
	}
	return kinds
}

// Import adds the prices that operators have imported. Tier, Join and Route must follow.
func (s *Settings) Import(taken []price.Taken) error {
	if len(taken) == len(s.Imported) { // they are never deleted or changed
		return nil
	}
	s.Imported = taken
	models := make([]catalog.Model, 0, len(s.configured.Models()))
	for _, m := range s.configured.Models() {
		models = append(models, *m)
	}
	book, err := s.newBook(models)
	if err != nil {
		return err
	}
	s.Book = book
	s.configured = s.configured.Repriced(s.price)
	s.Catalog = s.configured
	return nil
}

// InForce returns the entries that calls can be priced with: those of the models of the catalog, of videos, and of the
// configuration.
func (s *Settings) InForce() []*price.Entry {
	var all []*price.Entry
	for _, m := range s.Catalog.Models() {
		for _, t := range m.Places() {
			all = append(all, t.Price.Entries()...)
		}
	}
	for i := range s.Config.Video.Providers {
		all = append(all, s.videoPrices(&s.Config.Video.Providers[i]).Entries()...)
	}
	for _, e := range s.Book.Entries() {
		if e.Origin == price.FromModel || e.Origin == price.FromPrices {
			all = append(all, e)
		}
	}
	return all
}

// Vendor returns the kind of a provider that is the vendor itself, so that the vendor's list prices apply, or "".
func (s *Settings) Vendor(provider string) string { return s.kinds[provider] }
