package app

import (
	"context"
	"slices"

	"sluice/internal/ledger/costs"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// costs returns what explains and corrects costs.
func (a *App) costs() *costs.Costs {
	return costs.New(a.facts.stores.calls, knownPrices{a}, a.todaysPrices, a.books.View().Flush)
}

// todaysPrices returns the prices that today's book has for a turn of a call, at the time and the place of the call; nil if it has
// none, or if the turns were answered at several places, of which nobody has noted which is whose.
func (a *App) todaysPrices(s *usage.Settlement, turn int) *price.Entry {
	if s.Door == usage.DoorVideos {
		return a.settings.Load().VideoPrices(s.Provider).At(s.At.Unix())
	}
	m, ok := a.catalog().Lookup(s.ModelUsed)
	if !ok {
		return nil
	}
	upstream := ""
	for _, place := range m.Places() {
		if upstream == "" && place.Provider == s.Provider {
			upstream = place.Upstream
		}
	}
	answered := map[[3]string]bool{}
	if s.Trace != nil {
		for i := range s.Trace.Attempts {
			if t := &s.Trace.Attempts[i]; t.Outcome == usage.Answered {
				answered[[3]string{t.Model, t.Provider, t.Upstream}] = true
				upstream = t.Upstream
			}
		}
	}
	if len(answered) > 1 {
		return nil
	}
	return m.Prices(s.Provider, upstream).Served(s.Turns()[turn].Model).At(s.At.Unix())
}

// knownPrices finds prices by their version: all that were ever in force here, those that are in force and could not be stored yet,
// and those of the list that comes with the program, which a moved or restored installation may have had before.
type knownPrices struct{ app *App }

// Entry returns the prices of a version, or nil.
func (k knownPrices) Entry(ctx context.Context, version string) (*price.Entry, error) {
	seen, err := k.app.facts.stores.service.PriceVersion(ctx, version)
	if err != nil {
		return nil, err
	}
	if seen != nil {
		return seen.Entry, nil
	}
	listed, _ := price.Listed()
	all := append(k.app.settings.Load().InForce(), listed...)
	if at := slices.IndexFunc(all, func(e *price.Entry) bool { return e.Version() == version }); at >= 0 {
		return all[at], nil
	}
	return nil, nil
}
