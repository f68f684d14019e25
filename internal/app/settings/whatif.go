package settings

import (
	"cmp"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/whatif"
)

// WhatIf returns the prices that calls are replayed with.
func (s *Settings) WhatIf() whatif.Prices {
	vendor := func(p whatif.Place) (kind, upstream string) {
		kind, upstream = s.kinds[p.Provider], p.Upstream
		if m, ok := s.Catalog.Lookup(p.Model); ok && upstream == "" { // the settlement is of an earlier version
			for _, t := range m.Places() {
				if t.Provider == p.Provider {
					return kind, cmp.Or(t.Upstream, p.Model)
				}
			}
		}
		return kind, cmp.Or(upstream, p.Model)
	}
	return whatif.Prices{
		Book: s.Book, Vendor: vendor,
		Markup: func(accountID, plan string) price.Factor { return s.markup.Of(plan, accountID) },
		Own: func(p whatif.Place) *price.Series {
			kind, upstream := vendor(p)
			return s.Book.Find(p.Model, kind, upstream)
		},
		Model: func(id string) (*price.Series, bool) {
			m, ok := s.Catalog.Lookup(id)
			if !ok {
				return nil, false
			}
			return m.Price, true
		},
	}
}
