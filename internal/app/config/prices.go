package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/internal/ledger/price"
)

// Price has the prices of a model for a time.
type Price struct {
	// The id of the model.
	Model string `yaml:"model" required:"true"`

	// The first day of these prices, in UTC, such as `2026-01-01`, or a moment such as
	// `2026-01-01T09:00:00Z`. The default is always. Where several entries apply, the one that
	// began last counts.
	From string `yaml:"from"`

	// The first day on which these prices no longer apply. The default is never.
	Until string `yaml:"until"`

	Rates

	// Other prices for the whole call if its prompt is longer, cached tokens included.
	Above []PriceBand `yaml:"above"`

	// What the prices of tokens are multiplied with in a service tier of the vendor, such as
	// `{priority: 2, batch: 0.5}`. The tier is the one that the reply names. A call in a tier that
	// is not listed has no cost.
	Tiers Factors `yaml:"tiers"`

	// The same for regions, such as `{us: 1.1}`.
	Regions Factors `yaml:"regions"`

	// Times of the day at which the prices of tokens are multiplied.
	Hours []PriceHours `yaml:"hours"`

	// Dollars for one call of a tool that the vendor runs, such as `{web_search: 0.01}`.
	Calls Amounts `yaml:"calls"`

	// Dollars for one second of video by its size, such as `{1280x720: 0.1}`.
	Seconds Amounts `yaml:"seconds"`
}

// Rates are in dollars per million tokens. A nil rate is not known.
type Rates struct {
	// Dollars per million tokens of the prompt that are neither read from a cache nor written to
	// one.
	Input *Dollars `yaml:"input"`

	// Dollars per million tokens that the vendor read from a cache.
	CacheRead *Dollars `yaml:"cache_read"`

	// Dollars per million tokens that were written to a cache for five minutes.
	CacheWrite5m *Dollars `yaml:"cache_write_5m"`

	// Dollars per million tokens that were written to a cache for an hour.
	CacheWrite1h *Dollars `yaml:"cache_write_1h"`

	// Dollars per million tokens that were written to a cache for a time that the vendor chooses.
	CacheWrite *Dollars `yaml:"cache_write"`

	// Dollars per million tokens of the reply.
	Output *Dollars `yaml:"output"`

	// Dollars per million tokens of reasoning. The default is `output`.
	Reasoning *Dollars `yaml:"reasoning"`

	// Dollars per million tokens of sound in the prompt. The default is `input`.
	AudioInput *Dollars `yaml:"audio_input"`

	// Dollars per million tokens of sound in the reply. The default is `output`.
	AudioOutput *Dollars `yaml:"audio_output"`

	// Dollars per million tokens of images in the prompt. The default is `input`.
	ImageInput *Dollars `yaml:"image_input"`

	// Dollars per million tokens of images in the reply. The default is `output`.
	ImageOutput *Dollars `yaml:"image_output"`
}

// PriceBand has the prices of calls with a long prompt.
type PriceBand struct {
	// The prices apply to calls whose prompt has more tokens than this.
	Tokens int `yaml:"tokens" required:"true"`

	Rates
}

// PriceHours is a time of the day with other prices.
type PriceHours struct {
	// The days of the week, such as `mon-fri` or `sun`.
	Days string `yaml:"days" required:"true"`

	// When it begins, such as `09:00`.
	From string `yaml:"from" required:"true"`

	// When it ends, on the same day, such as `12:00` or `24:00`.
	To string `yaml:"to" required:"true"`

	// The distance of the vendor's clock from UTC, such as `+08:00`.
	Zone string `yaml:"zone" default:"+00:00"`

	// What the prices of tokens are multiplied with.
	Times Factor `yaml:"times" required:"true"`
}

// Markup is what costs are multiplied with before customers see them.
type Markup struct {
	// The factor for everybody. The catalog shows prices with it.
	All Factor `yaml:"all" default:"1"`

	// Factors for the accounts on a plan, such as `{premium: 1.1}`, in place of `all`.
	Plans Factors `yaml:"plans"`

	// Factors for single accounts by their ids, in place of those of their plans.
	Accounts Factors `yaml:"accounts"`
}

// price returns the rates, with price.Unknown for those that are not set.
func (r *Rates) price() (out price.Rates) {
	for b, d := range [price.Buckets]*Dollars{
		r.Input, r.CacheRead, r.CacheWrite5m, r.CacheWrite1h, r.CacheWrite, r.Output, r.Reasoning,
		r.AudioInput, r.AudioOutput, r.ImageInput, r.ImageOutput,
	} {
		out[b] = price.Unknown
		if d != nil {
			out[b] = price.Rate(*d)
		}
	}
	return out
}

// Entry returns the prices as package price knows them, before price.Sealed. It also returns what is wrong with them, by the
// keys inside the entry; Load has found that already.
func (p *Price) Entry() (price.Entry, map[string]error) {
	e := price.Entry{Model: p.Model, Rates: p.Rates.price(), Tiers: p.Tiers.price(), Regions: p.Regions.price(), Origin: price.FromPrices}
	wrong := map[string]error{}
	note := func(key string, err error) {
		if err != nil {
			wrong[key] = err
		}
	}
	var err error
	e.From, err = price.ParseDay(p.From)
	note("from", err)
	e.Until, err = price.ParseDay(p.Until)
	note("until", err)
	for i := range p.Above {
		e.Bands = append(e.Bands, price.Band{Above: int64(p.Above[i].Tokens), Rates: p.Above[i].Rates.price()})
		if p.Above[i].Tokens <= 0 || i > 0 && p.Above[i].Tokens <= p.Above[i-1].Tokens {
			note(index("above", i)+".tokens", fmt.Errorf("must be above 0 and above that of the band before"))
		}
	}
	for i, h := range p.Hours {
		hours, err := price.ParseHours(h.Days, h.From, h.To, h.Zone, price.Factor(h.Times))
		note(index("hours", i), err)
		e.Hours = append(e.Hours, hours)
	}
	for name, d := range p.Calls {
		e.Fees = withFee(e.Fees, name, d)
	}
	for size, d := range p.Seconds {
		e.Fees = withFee(e.Fees, price.VideoSecond(size), d)
	}
	return e, wrong
}

func withFee(fees map[string]price.Nano, name string, d Dollars) map[string]price.Nano {
	if fees == nil {
		fees = map[string]price.Nano{}
	}
	fees[name] = price.Nano(d)
	return fees
}

func (f Factors) price() map[string]price.Factor {
	if len(f) == 0 {
		return nil
	}
	out := make(map[string]price.Factor, len(f))
	for name, factor := range f {
		out[name] = price.Factor(factor)
	}
	return out
}

// Price returns the markup, or nil if it changes nothing.
func (m *Markup) Price() *price.Markup {
	out, err := price.NewMarkup(price.Factor(m.All), m.Plans.price(), m.Accounts.price())
	if err != nil {
		return nil // a Factor is always one that NewMarkup takes
	}
	return out
}

// checkPrices checks the entries of prices, and the names of markup.
func (r *record) checkPrices(c *Config) {
	begun := map[string]string{} // the path of each entry by its model and its beginning
	for i := range c.Prices {
		p, path := &c.Prices[i], index("prices", i)
		e, wrong := p.Entry()
		for _, key := range slices.Sorted(maps.Keys(wrong)) {
			r.fail(path+"."+key, "%s", wrong[key])
		}
		if r.failedIn(path + ".") {
			continue
		}
		key := fmt.Sprint(p.Model, " ", e.From.Unix())
		if first, twice := begun[key]; twice {
			r.fail(path, "%s already has prices of %s that begin at the same time; remove one of them, or give them different days in from", first, r.shown(path+".model", p.Model))
			continue
		}
		begun[key] = path
		if e.Rates.Empty() && len(e.Fees) == 0 {
			r.fail(path, "has no price; write at least one, such as input: 3")
		} else if _, err := price.Sealed(e); err != nil {
			r.fail(path, "%s", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Markup.Plans)) {
		r.failIf(!slices.Contains(planNames, name), "markup.plans."+name, "%s is not a plan; %s", quote(name), oneOf(planNames))
	}
	for _, id := range slices.Sorted(maps.Keys(c.Markup.Accounts)) {
		r.failIf(!strings.HasPrefix(id, "acct_"), "markup.accounts."+id, "%s is not the id of an account; \"sluice account list\" shows them", quote(id))
	}
}
