// Package whatif says what past calls would have cost under other prices, at other models, or with other habits of caching and
// batching.
//
// A Replay is given settlements one after the other, oldest first, and adds up what each cost and what it would have cost. It
// needs no prompts: a settlement has the counts that a cost follows from. Counts stay as they were, so it cannot know what
// another model would have replied; Report.Notes says so. A call that nothing changes for costs what it cost, to the
// nano-dollar.
package whatif

import (
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// TTL is how long prompts stay in a cache.
type TTL string

const (
	AsIs        TTL = ""     // as they did
	FiveMinutes TTL = "5m"   // for five minutes
	Hour        TTL = "1h"   // for an hour
	NoCache     TTL = "none" // not at all
)

// Scenario is what is different. At least one of the first four fields is set.
type Scenario struct {
	// Prices returns other prices of what a call was answered by, or nil if they say nothing about it. If it is nil itself, prices
	// are as they are.
	Prices func(Place) *price.Series
	// Models are the prices that the calls of a model are replayed with, by the model that answered.
	Models map[string]*price.Series
	TTL    TTL
	// Batched is the share of calls that are sent in batches, in millionths.
	Batched int64
	// Told is set for customers: amounts are what they are told, with the markup that Markup returns.
	Told   bool
	Markup func(accountID, plan string) price.Factor // nil: there is none
	// Own returns the operator's prices of what a call was answered by.
	Own func(Place) *price.Series
	// Past returns the entry of a version that Own does not have any more, or nil if nobody knows it. It may be nil.
	Past func(version string) *price.Entry
}

// Place is what answered a call.
type Place struct {
	Model    string // of the catalog
	Provider string
	Upstream string // what the provider calls the model; empty: not known
}

// placeOf returns what answered a call.
func placeOf(s *usage.Settlement) Place {
	p := Place{Model: s.ModelUsed, Provider: s.Provider}
	if s.Trace != nil {
		for i := range s.Trace.Attempts {
			if a := &s.Trace.Attempts[i]; a.Outcome == usage.Answered && a.Model == p.Model && a.Provider == p.Provider {
				p.Upstream = a.Upstream
			}
		}
	}
	return p
}

// Replay adds up calls. It holds no calls beyond a few thousand, whatever their number.
type Replay struct {
	scenario Scenario
	tables   tables
	sessions sessions
	batch    batch
	counts   Counts
	// series are the prices by place, so that none is looked up twice.
	series map[Place]priced
	// past are the entries that the scenario's Past has returned.
	past map[string]*price.Entry
}

// priced are the prices of a place.
type priced struct {
	other, own *price.Series
	entries    []*price.Entry // of own
}

// mostPlaces bounds the prices that are kept. There are far fewer places in a catalog.
const mostPlaces = 10_000

// Counts is what a replay has met, beside money.
type Counts struct {
	// Moved are the calls that were replayed at another model.
	Moved int64 `json:"moved_calls"`
	// Misses are the calls that would not have found their prompt in the cache, and Hits those that would have.
	Misses int64 `json:"cache_misses"`
	Hits   int64 `json:"cache_hits"`
	// Sessionless calls used a cache, but nobody knows which call was before them.
	Sessionless int64 `json:"sessionless_calls"`
	// Batched are the calls at the price of batches, and Unbatched those whose model has no such price.
	Batched   int64 `json:"batched_calls"`
	Unbatched int64 `json:"unbatchable_calls"`
	// Restated calls were priced by entries that nobody knows any more; those of today have replaced them.
	Restated int64 `json:"restated_calls"`
}

// New returns a replay of a scenario.
func New(s Scenario) *Replay {
	r := &Replay{scenario: s, series: map[Place]priced{}, past: map[string]*price.Entry{}}
	r.batch.share = s.Batched
	return r
}

// Add replays one call. Calls come in the order of their time.
func (r *Replay) Add(s *usage.Settlement) {
	real := amount{}
	if s.Cost != nil {
		real = amount{*s.Cost, true}
		if r.scenario.Told {
			real.nano += s.Margin
		}
	}
	row := r.tables.of(s)
	// What failed cost nothing, whatever the prices are: vendors do not charge for a refusal.
	if s.End == usage.EndFailed {
		row.add(real, real, false)
		return
	}
	c, would := r.call(s), real
	if c.changed {
		would = c.cost(r)
	}
	if r.scenario.Batched > 0 && would.known {
		r.batch.add(r, s, c, row, real, would)
		return
	}
	row.add(real, would, s.Unpriced())
}

// Report ends the replay and returns what it found.
func (r *Replay) Report() *Report {
	r.batch.end(r)
	return r.tables.report(r.counts)
}

// amount is a cost that may not be known.
type amount struct {
	nano  price.Nano
	known bool
}

// call is a call in the scenario.
type call struct {
	s       *usage.Settlement
	parts   []part
	one     [1]part // room for the only part of most calls
	changed bool    // something differs from the real call
	// restated says that an entry replaces the one that the call was priced by, which is not known any more.
	restated bool
}

// part is a part of a call that is priced apart; see usage.Turn.
type part struct {
	entry          *price.Entry
	counts         price.Counts
	terms          price.Terms
	version, model string
}

// call returns a call as it would have been.
func (r *Replay) call(s *usage.Settlement) *call {
	c := &call{s: s}
	c.one[0] = part{counts: s.Counts(), terms: s.Priced(), version: s.Terms.Version, model: s.Terms.Model}
	if c.parts = c.one[:]; len(s.Terms.Turns) > 0 {
		c.parts = nil
		for _, t := range s.Turns() {
			c.parts = append(c.parts, part{counts: t.Counts(), terms: t.Priced(s.At), version: t.Version, model: t.Model})
		}
	}
	if to, ok := r.scenario.Models[s.ModelUsed]; ok {
		r.counts.Moved++
		c.changed = true
		for i := range c.parts {
			c.parts[i].entry = newest(to, s.At.Unix())
			c.parts[i].adapt()
		}
	} else {
		r.stay(c)
	}
	if r.scenario.TTL != AsIs && r.cached(c) {
		c.changed = true
	}
	return c
}

// stay finds the prices of a call that stays at its model: other ones if there are any, or those that it was priced by.
func (r *Replay) stay(c *call) {
	at, found := c.s.At.Unix(), r.prices(c.s)
	for i := range c.parts {
		p := &c.parts[i]
		switch {
		case found.other != nil:
			if p.entry = found.other.Served(p.model).At(at); p.entry == nil {
				p.entry = newest(found.other, at)
			}
			c.changed = c.changed || p.entry.Version() != p.version
		case c.s.Cost != nil:
			if p.entry = found.priced(p.version, p.model); p.entry == nil {
				p.entry = r.known(p.version)
			}
			if p.entry == nil {
				p.entry = found.own.Served(p.model).At(at)
				c.restated = c.restated || p.entry != nil
			}
		}
	}
}

// priced returns the operator's entry of a version, or nil if it is not known any more.
func (f *priced) priced(version, model string) *price.Entry {
	for _, e := range f.entries {
		if e.Version() == version {
			return e
		}
	}
	if model == "" {
		return nil
	}
	if served := f.own.Served(model); served != nil {
		for _, e := range served.Entries() {
			if e.Version() == version {
				return e
			}
		}
	}
	return nil
}

// known returns the entry of a version, or nil if nobody knows it.
func (r *Replay) known(version string) *price.Entry {
	e, ok := r.past[version]
	if ok || version == "" || r.scenario.Past == nil {
		return e
	}
	e = r.scenario.Past(version)
	if len(r.past) < mostPlaces {
		r.past[version] = e
	}
	return e
}

// prices returns those of what answered a call.
func (r *Replay) prices(s *usage.Settlement) priced {
	place := placeOf(s)
	found, ok := r.series[place]
	if ok {
		return found
	}
	if r.scenario.Prices != nil {
		found.other = r.scenario.Prices(place)
	}
	if found.own = r.scenario.Own(place); found.own != nil {
		found.entries = found.own.Entries()
	}
	if len(r.series) < mostPlaces {
		r.series[place] = found
	}
	return found
}

// newest returns the prices of a moment or, if there are none for it, those that are valid since the latest time: whoever asks
// about next month's prices means them.
func newest(s *price.Series, at int64) *price.Entry {
	if e := s.At(at); e != nil {
		return e
	}
	return s.Entries()[0]
}

// adapt adapts a part of a call to a model that it was not made for. Tiers and regions that the model does not have are its list price.
// Tokens of caches that it has no price for are fresh ones.
func (p *part) adapt() {
	if _, ok := p.entry.Tiers[p.terms.Tier]; !ok {
		p.terms.Tier = ""
	}
	if _, ok := p.entry.Regions[p.terms.Region]; !ok {
		p.terms.Region = ""
	}
	t, rates := &p.counts.Tokens, &p.entry.Rates
	for _, b := range [...]price.Bucket{price.CacheRead, price.CacheWrite5m, price.CacheWrite1h, price.CacheWrite} {
		if rates[b] != price.Unknown {
			continue
		}
		to := price.Input
		if b != price.CacheRead && rates[price.CacheWrite] != price.Unknown {
			to = price.CacheWrite
		}
		t[to] += t[b]
		t[b] = 0
	}
}

// cost returns what the call costs by its prices, counts and terms.
func (c *call) cost(r *Replay) amount {
	if c.restated {
		r.counts.Restated++
		c.restated = false
	}
	markup := c.s.Terms.Markup
	if c.s.Cost == nil && r.scenario.Markup != nil {
		markup = r.scenario.Markup(c.s.AccountID, c.s.Plan)
	}
	sum := amount{known: true}
	for i := range c.parts {
		p := &c.parts[i]
		cost, charge, ok := p.entry.Charge(&p.counts, p.terms, markup)
		if r.scenario.Told {
			cost = charge
		}
		if sum.nano += cost; !ok {
			return amount{}
		}
	}
	return sum
}
