package price

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Imported is what a list of prices says, in whichever format it is.
type Imported struct {
	Format  string         // sluice, litellm or models.dev
	Entries []*Entry       // by vendor and model
	Ignored map[string]int // fields without a counterpart here, and how many models have them
	Refused []string       // models whose prices cannot be kept, with the reason
}

// Import reads a list in our own format, in that of LiteLLM's model_prices_and_context_window, or in that of models.dev.
func Import(r io.Reader) (*Imported, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("a list of prices has at most %d MiB", maxFile>>20)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, fmt.Errorf("a list of prices is a JSON object: %w", err)
	}
	in := &Imported{Ignored: map[string]int{}}
	switch {
	case top["prices"] != nil:
		in.Format = "sluice"
		in.Entries, err = Read(bytes.NewReader(raw))
	case has(top, "litellm_provider"):
		in.Format = "litellm"
		in.litellm(top)
	case has(top, "models"):
		in.Format = "models.dev"
		in.modelsDev(top)
	default:
		return nil, errors.New("this is neither a list of sluice prices, nor LiteLLM's model_prices_and_context_window, nor models.dev's api.json")
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(in.Entries, func(a, b *Entry) int {
		return strings.Compare(a.Vendor+"\x00"+a.Model, b.Vendor+"\x00"+b.Model)
	})
	return in, nil
}

// has says whether one of the values is an object with the field.
func has(top map[string]json.RawMessage, field string) bool {
	for _, raw := range top {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) == nil && fields[field] != nil {
			return true
		}
	}
	return false
}

// take adds an entry. One without any price is left out: it says nothing.
func (in *Imported) take(w *written) {
	e := &Entry{}
	if err := e.fill(w); err != nil {
		in.Refused = append(in.Refused, w.Vendor+" "+w.Model+": "+err.Error())
		return
	}
	if !e.Rates.Empty() || len(e.Fees) > 0 {
		in.Entries = append(in.Entries, e)
	}
}

// Empty says whether no price is known.
func (r *Rates) Empty() bool {
	return !slices.ContainsFunc(r[:], func(rate Rate) bool { return rate != Unknown })
}

// litellmVendors are the kinds of providers by LiteLLM's names, where they differ.
var litellmVendors = map[string]string{
	"bedrock_converse": "bedrock", "together_ai": "together", "fireworks_ai": "fireworks", "fireworks_ai-embedding-models": "fireworks",
	"nvidia_nim": "nvidia", "azure_ai": "azure", "text-completion-openai": "openai", "openai_like": "openai",
}

// litellmRates are LiteLLM's names of the buckets' prices, for one token.
var litellmRates = [Buckets]string{
	"input_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost", "cache_creation_input_token_cost_above_1hr", "",
	"output_cost_per_token", "output_cost_per_reasoning_token", "input_cost_per_audio_token", "output_cost_per_audio_token",
	"input_cost_per_image_token", "output_cost_per_image_token",
}

// litellmBands are the suffixes of prices of long prompts.
var litellmBands = map[string]int64{"_above_128k_tokens": 128_000, "_above_200k_tokens": 200_000, "_above_256k_tokens": 256_000, "_above_272k_tokens": 272_000, "_above_512k_tokens": 512_000}

// litellmTiers are the suffixes of prices of service tiers.
var litellmTiers = map[string]string{"_batches": "batch", "_flex": "flex", "_priority": "priority"}

// litellm reads LiteLLM's list: an object a model, prices for one token.
func (in *Imported) litellm(top map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(top)) {
		var fields map[string]any
		dec := json.NewDecoder(bytes.NewReader(top[name]))
		dec.UseNumber()
		if dec.Decode(&fields) != nil || name == "sample_spec" {
			continue
		}
		vendor, _ := fields["litellm_provider"].(string)
		w := &written{Vendor: vendor, Model: strings.TrimPrefix(name, vendor+"/")}
		if ours := litellmVendors[vendor]; ours != "" {
			w.Vendor = ours
		}
		w.Source, _ = fields["source"].(string)
		l := litellmModel{in: in, fields: fields, left: maps.Clone(fields)}
		w.writtenRates = l.rates("")
		for _, suffix := range slices.SortedFunc(maps.Keys(litellmBands), func(a, b string) int { return int(litellmBands[a] - litellmBands[b]) }) {
			if rates := l.rates(suffix); rates != (writtenRates{}) {
				w.Above = append(w.Above, writtenBand{litellmBands[suffix], rates})
			}
		}
		w.Tiers = l.tiers(w)
		l.searches(w)
		l.ignored()
		in.take(w)
	}
}

// litellmModel is one model of LiteLLM's list.
type litellmModel struct {
	in           *Imported
	fields, left map[string]any
}

// price returns a price for one token as one for a million, and notes that it was read.
func (l *litellmModel) price(name string) json.Number {
	n, ok := l.fields[name].(json.Number)
	if !ok {
		return ""
	}
	delete(l.left, name)
	return million(n)
}

// million multiplies a decimal number with a million, exactly.
func million(n json.Number) json.Number {
	mantissa, exponent, found := strings.Cut(strings.ToLower(string(n)), "e")
	e := 0
	if found {
		if _, err := fmt.Sscan(exponent, &e); err != nil {
			return n
		}
	}
	return json.Number(fmt.Sprintf("%se%d", mantissa, e+6))
}

// rates returns the prices with a suffix.
func (l *litellmModel) rates(suffix string) (w writtenRates) {
	for b, field := range w.fields() {
		if name := litellmRates[b]; name != "" {
			*field = l.price(name + suffix)
		}
	}
	if w.CacheWrite == "" {
		w.CacheWrite = w.CacheWrite5m // an upstream that does not say for how long
	}
	return w
}

// tiers returns the factors of tiers whose prices are one multiple of the list prices.
func (l *litellmModel) tiers(w *written) map[string]json.Number {
	tiers := map[string]json.Number{}
	for _, suffix := range slices.Sorted(maps.Keys(litellmTiers)) {
		in, out := l.rates(suffix).Input, l.rates(suffix).Output
		if in == "" {
			continue
		}
		f, ok := ratio(in, w.Input)
		if g, same := ratio(out, w.Output); !ok || out != "" && (!same || f != g) {
			l.in.Refused = append(l.in.Refused, w.Vendor+" "+w.Model+": the prices of the tier "+litellmTiers[suffix]+" are no multiple of the list prices")
			continue
		}
		tiers[litellmTiers[suffix]] = f.number()
	}
	if len(tiers) == 0 {
		return nil
	}
	return tiers
}

// ratio returns a factor between two prices, if it has at most six decimals.
func ratio(a, b json.Number) (Factor, bool) {
	x, err := decimal(string(a), 9)
	y, err2 := decimal(string(b), 9)
	if err != nil || err2 != nil || y == 0 || x > math.MaxInt64/int64(one) || x*int64(one)%y != 0 {
		return 0, false
	}
	f := Factor(x * int64(one) / y)
	return f, f > 0 && f <= maxFactor
}

// searches reads the fee of a web search. It depends on the size of what is searched; vendors search with the medium one unless asked.
func (l *litellmModel) searches(w *written) {
	sizes, ok := l.fields["search_context_cost_per_query"].(map[string]any)
	if !ok {
		return
	}
	if fee, ok := sizes["search_context_size_medium"].(json.Number); ok {
		delete(l.left, "search_context_cost_per_query")
		w.Calls = map[string]json.Number{"web_search": fee}
	}
}

// ignored counts the prices that were not read.
func (l *litellmModel) ignored() {
	for name := range l.left {
		if strings.Contains(name, "cost") {
			l.in.Ignored[name]++
		}
	}
}

// modelsDev reads the list of models.dev: vendors, their models, prices for a million tokens.
func (in *Imported) modelsDev(top map[string]json.RawMessage) {
	for _, vendor := range slices.Sorted(maps.Keys(top)) {
		var v struct {
			Models map[string]struct {
				Cost map[string]json.RawMessage `json:"cost"`
			} `json:"models"`
		}
		if json.Unmarshal(top[vendor], &v) != nil {
			continue
		}
		kind := vendor
		if ours := modelsDevVendors[vendor]; ours != "" {
			kind = ours
		}
		for _, name := range slices.Sorted(maps.Keys(v.Models)) {
			cost := v.Models[name].Cost
			w := &written{Vendor: kind, Model: name, Source: "https://models.dev"}
			w.writtenRates = modelsDevRates(cost)
			var long map[string]json.RawMessage
			if json.Unmarshal(cost["context_over_200k"], &long) == nil && len(long) > 0 {
				w.Above = []writtenBand{{200_000, modelsDevRates(long)}}
			}
			for field := range cost {
				if !slices.Contains(modelsDevNames[:], field) && field != "context_over_200k" {
					in.Ignored[field]++
				}
			}
			in.take(w)
		}
	}
}

var modelsDevVendors = map[string]string{"google": "gemini", "amazon-bedrock": "bedrock", "togetherai": "together", "fireworks-ai": "fireworks"}

// modelsDevNames are their names of the buckets.
var modelsDevNames = [Buckets]string{"input", "cache_read", "", "", "cache_write", "output", "reasoning", "input_audio", "output_audio", "", ""}

func modelsDevRates(cost map[string]json.RawMessage) (w writtenRates) {
	for b, field := range w.fields() {
		var n json.Number
		if name := modelsDevNames[b]; name != "" && json.Unmarshal(cost[name], &n) == nil {
			*field = n
		}
	}
	if w.CacheWrite5m == "" {
		w.CacheWrite5m = w.CacheWrite // they list the shortest time
	}
	return w
}

// Change is a difference between a book and a list.
type Change struct {
	Vendor, Model string
	Old, New      *Entry // Old is nil for a model that the book does not have
}

// Diff returns what a list would change at a moment in Unix seconds. Models whose prices are the same are not in it.
func (b *Book) Diff(list []*Entry, at int64) []Change {
	var changes []Change
	for _, e := range list {
		if !e.valid(at) {
			continue
		}
		old := b.series[model{e.Vendor, e.Model}].At(at)
		if old == nil || !old.same(e) {
			changes = append(changes, Change{e.Vendor, e.Model, old, e})
		}
	}
	return changes
}

// same says whether two entries have the same prices, whenever they are valid.
func (e *Entry) same(o *Entry) bool {
	return e.Rates == o.Rates && slices.Equal(e.Bands, o.Bands) && maps.Equal(e.Tiers, o.Tiers) && maps.Equal(e.Regions, o.Regions) &&
		slices.Equal(e.Hours, o.Hours) && maps.Equal(e.Fees, o.Fees)
}
