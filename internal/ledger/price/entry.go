package price

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Rate is a price per million tokens in nano-dollars, or Unknown.
type Rate int64

// Unknown is the rate of a bucket that has no price. A call that consumed such tokens has no cost.
const Unknown Rate = -1

// Rates are the prices of all buckets.
type Rates [Buckets]Rate

// Of returns the prices of a model that has none but these two. Prompts that are read from a cache cost as much as others.
func Of(input, output Rate) Rates {
	r := Rates{}
	for b := range r {
		r[b] = Unknown
	}
	for _, b := range [...]Bucket{Input, CacheRead, CacheWrite5m, CacheWrite1h, CacheWrite} {
		r[b] = input
	}
	r[Output] = output
	r.follow()
	return r
}

// Factor multiplies the prices of tokens, in millionths: 500_000 is half.
type Factor int64

// one is the factor that changes nothing.
const one Factor = 1_000_000

// Band has the prices of calls whose prompt is longer than Above. They apply to the whole call.
type Band struct {
	Above int64
	Rates Rates
}

// Hours is a time of the day at which the prices of tokens are multiplied.
type Hours struct {
	Days     [7]bool       // by time.Weekday
	From, To time.Duration // since midnight
	Zone     time.Duration // east of UTC
	Factor   Factor
}

// Entry is the price of one model for a time. It is immutable once it is in a book or has a version.
type Entry struct {
	Vendor  string    // the kind of provider, such as anthropic; empty: Model is an id of the catalog
	Model   string    // the vendor's name of the model, or an id of the catalog
	From    time.Time // the first moment at which it is valid; zero: always
	Until   time.Time // the first moment at which it is not; zero: never
	Rates   Rates
	Bands   []Band            // by Above, rising
	Tiers   map[string]Factor // by service tier
	Regions map[string]Factor
	Hours   []Hours
	Fees    map[string]Nano // for one call of a tool or one second of video, by the name of a Use
	Source  string          // where the prices were read; no part of the version
	Read    string          // on which day; no part of the version
	Origin  Origin          // who gave it to us; not written, and no part of the version

	version string
}

// Cached says whether the vendor has a price of its own for tokens that are read from a cache, so that the model has one.
func (e *Entry) Cached() bool {
	return e != nil && e.Rates[CacheRead] != Unknown && e.Rates[CacheRead] != e.Rates[Input]
}

// Origin says where a book has an entry from.
type Origin uint8

// The origins, those with precedence last.
const (
	FromList   Origin = iota // the list of the program
	FromImport               // a file that an operator has imported
	FromModel                // models[].pricing of the configuration
	FromPrices               // prices of the configuration
)

// String returns the origin as people read it.
func (o Origin) String() string {
	return [...]string{"list", "imported", "models[].pricing", "prices"}[o]
}

// Limits of an entry. Operators write entries, and import them from other people's files.
const (
	maxBands  = 8
	maxFees   = 64
	maxTiers  = 32
	maxHours  = 16
	maxName   = 128
	maxRate   = Rate(1_000_000) * nanos
	maxFactor = 100 * one
)

// Version identifies the prices of the entry by what they are: two entries with the same prices have the same version,
// wherever they come from.
func (e *Entry) Version() string { return e.version }

// seal checks the entry and computes its version.
func (e *Entry) seal() error {
	e.Rates.follow()
	for i := range e.Bands {
		e.Bands[i].Rates.follow()
	}
	if err := e.check(); err != nil {
		return err
	}
	bare := *e
	bare.Source, bare.Read = "", ""
	raw, err := json.Marshal(&bare)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	e.version = hex.EncodeToString(sum[:6])
	return nil
}

// follow fills in what all vendors price like something else: thoughts as the rest of the reply, pictures and sound as text,
// unless they have a price of their own. Nothing follows for caches.
func (r *Rates) follow() {
	for b, like := range followed {
		if r[b] == Unknown {
			r[b] = r[like]
		}
	}
}

// Follows says whether the bucket costs what another one costs, so that it need not be written.
func (r *Rates) Follows(b Bucket) bool {
	like, ok := followed[b]
	return ok && r[b] == r[like]
}

var followed = map[Bucket]Bucket{Reasoning: Output, AudioIn: Input, ImageIn: Input, AudioOut: Output, ImageOut: Output}

func (e *Entry) check() error {
	switch {
	case e.Model == "" || len(e.Model) > maxName || len(e.Vendor) > maxName:
		return fmt.Errorf("model must have 1 to %d bytes", maxName)
	case !e.Until.IsZero() && !e.Until.After(e.From):
		return errors.New("until must be after from")
	case len(e.Bands) > maxBands, len(e.Fees) > maxFees, len(e.Tiers) > maxTiers, len(e.Regions) > maxTiers, len(e.Hours) > maxHours:
		return fmt.Errorf("an entry has at most %d bands, %d fees, %d tiers or regions and %d hours", maxBands, maxFees, maxTiers, maxHours)
	}
	if err := e.Rates.check(); err != nil {
		return err
	}
	for i, b := range e.Bands {
		if b.Above <= 0 || i > 0 && b.Above <= e.Bands[i-1].Above {
			return errors.New("the bands must rise")
		}
		if err := b.Rates.check(); err != nil {
			return err
		}
	}
	for _, table := range []map[string]Factor{e.Tiers, e.Regions} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if f := table[name]; f <= 0 || f > maxFactor || name == "" || len(name) > maxName {
				return fmt.Errorf("the factor of %q must be above 0 and at most 100", name)
			}
		}
	}
	return e.exact()
}

// exact refuses factors whose product has more than six decimals: costs would not be exact.
func (e *Entry) exact() error {
	tiers, regions, hours := []Factor{one}, []Factor{one}, []Factor{one}
	tiers = slices.AppendSeq(tiers, maps.Values(e.Tiers))
	regions = slices.AppendSeq(regions, maps.Values(e.Regions))
	for _, h := range e.Hours {
		if h.Factor <= 0 || h.Factor > maxFactor || h.From < 0 || h.To <= h.From || h.To > 24*time.Hour {
			return errors.New("hours need a factor above 0 and at most 100, and must end after they begin, on the same day")
		}
		hours = append(hours, h.Factor)
	}
	for _, t := range tiers {
		for _, r := range regions {
			for _, h := range hours {
				if t*r%one != 0 || t*r/one*h%one != 0 {
					return errors.New("the product of the factors of a tier, a region and an hour must have at most six decimals")
				}
			}
		}
	}
	return nil
}

func (r *Rates) check() error {
	for b, rate := range r {
		if rate < Unknown || rate > maxRate {
			return fmt.Errorf("%s must be from 0 to 1000000 dollars per million tokens", Bucket(b))
		}
	}
	return nil
}

// valid says whether the entry has the price of a moment in Unix seconds.
func (e *Entry) valid(at int64) bool {
	return (e.From.IsZero() || at >= e.From.Unix()) && (e.Until.IsZero() || at < e.Until.Unix())
}

// RatesFor returns the prices of a prompt of that many tokens.
func (e *Entry) RatesFor(prompt int64) Rates { return *e.rates(prompt) }

// rates returns the prices of a prompt of that many tokens.
func (e *Entry) rates(prompt int64) *Rates {
	found := &e.Rates
	for i := range e.Bands {
		if prompt > e.Bands[i].Above {
			found = &e.Bands[i].Rates
		}
	}
	return found
}

// factor returns what the circumstances multiply the prices of tokens with. It returns false for a tier or a region whose
// price is unknown.
func (e *Entry) factor(t Terms) (Factor, bool) {
	tier, ok := named(e.Tiers, t.Tier)
	if !ok {
		return 0, false
	}
	region, ok := named(e.Regions, t.Region)
	if !ok {
		return 0, false
	}
	return tier * region / one * e.hour(t.At) / one, true
}

// hour returns the factor of a moment.
func (e *Entry) hour(at int64) Factor {
	for i := range e.Hours {
		if e.Hours[i].holds(at) {
			return e.Hours[i].Factor
		}
	}
	return one
}

// named returns the factor of a tier or a region. Those that vendors call their list price need none.
func named(table map[string]Factor, name string) (Factor, bool) {
	if f, ok := table[name]; ok {
		return f, true
	}
	switch strings.ToLower(name) {
	case "", "default", "standard", "auto", "on_demand", "global", "not_available":
		return one, true
	}
	return 0, false
}

// Special returns the name of a tier or a region, or an empty string for those that vendors call their list price.
func Special(name string) string {
	if _, ok := named(nil, name); ok {
		return ""
	}
	return name
}

// holds says whether a moment is in these hours.
func (h *Hours) holds(at int64) bool {
	local := time.Unix(at, 0).UTC().Add(h.Zone)
	since := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second
	return h.Days[local.Weekday()] && since >= h.From && since < h.To
}
