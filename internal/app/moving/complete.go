package moving

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/alias"
	"sluice/internal/upstream/catalog/known"
)

// What is written for models that nobody knows. It is large, because the other gateways pass every prompt on and let the
// upstream decide.
const (
	guessedContext = 131_072
	guessedOutput  = 16_384
	guessedInput   = 8_192 // of an embedding model
)

// complete settles weights and fallbacks, and looks up what the source does not say about models.
func (d *draft) complete() {
	list, err := known.Models()
	if err != nil {
		list = nil // a test of that package reads the list; without it everything is missing here
	}
	d.models = slices.DeleteFunc(d.models, func(m *model) bool { return len(m.targets) == 0 })
	for _, m := range d.models {
		m.settleWeights()
		d.lookUp(m, list)
	}
	d.settleAliases()
	for _, m := range d.models {
		d.settleFallbacks(m)
	}
	used := map[*provider]bool{}
	for _, m := range d.models {
		for _, t := range m.targets {
			used[t.to] = true
		}
	}
	d.providers = slices.DeleteFunc(d.providers, func(p *provider) bool { return !used[p] && p.discover == "" })
}

// maxWeight is the largest weight of a target.
const maxWeight = 1000

// settleWeights makes the weights small whole numbers. Spare targets get 0.
func (m *model) settleWeights() {
	divisor, most := 0, 0
	for i := range m.targets {
		t := &m.targets[i]
		if t.spare {
			t.weight = 0
			continue
		}
		t.weight = max(t.weight, 1)
		divisor, most = gcd(t.weight, divisor), max(most, t.weight)
	}
	for i := range m.targets {
		t := &m.targets[i]
		switch {
		case t.spare:
		case most/max(divisor, 1) <= maxWeight:
			t.weight /= divisor
		default:
			t.weight = max(1, int(math.Round(float64(t.weight)/float64(most)*maxWeight)))
		}
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// lookUp fills in what the list of known models says about a model and the source does not.
func (d *draft) lookUp(m *model, list []known.Model) {
	k := find(m, list)
	at := "models." + m.id
	if k != nil {
		m.embedding = m.embedding || k.Embeds
		fill(&m.context, k.ContextLength)
		fill(&m.maxOutput, min(k.MaxOutput, m.context))
		fillFlag(&m.tools, k.ToolCalling)
		fillFlag(&m.reasons, k.Thinks)
		if e := k.Priced(time.Now()); e != nil && !m.listed() {
			fillPrice(&m.input, e.Rates[price.Input])
			fillPrice(&m.output, e.Rates[price.Output])
			fillPrice(&m.cached, e.Rates[price.CacheRead])
		}
	}
	d.guess(m, at)
	m.maxOutput = min(m.maxOutput, m.context)
	if m.input == nil && !m.local() && !m.listed() {
		d.need(at+".pricing", "the price is not known; add pricing if usage should be shown in money")
	}
	// The other gateways pass tools on to every model.
	fillFlag(&m.tools, true)
}

// guess fills in sizes that nobody knows, and says so.
func (d *draft) guess(m *model, at string) {
	var guesses []string
	if m.context == 0 {
		m.context = guessedContext
		if m.embedding {
			m.context = guessedInput
		}
		guesses = append(guesses, "context_length")
	}
	if m.maxOutput == 0 && !m.embedding {
		m.maxOutput = min(guessedOutput, m.context)
		guesses = append(guesses, "max_output")
	}
	for _, g := range guesses {
		d.need(at+"."+g, "the model is not in the list of known models, so the value is a guess")
	}
	if guesses != nil {
		m.comments = append(m.comments, "a guess, please check: "+strings.Join(guesses, ", "))
	}
}

// local reports whether all targets of the model are servers of one's own.
func (m *model) local() bool {
	return !slices.ContainsFunc(m.targets, func(t target) bool {
		return !slices.Contains([]string{"vllm", "ollama", "llamacpp", "lmstudio"}, t.to.kind)
	})
}

// listed reports whether the vendor's list has the price of the model wherever it is served. It applies by itself, and says more than
// pricing can: what is written to caches, long prompts, service tiers.
func (m *model) listed() bool {
	entries, _ := price.Listed()
	book := price.NewBook(entries)
	return !slices.ContainsFunc(m.targets, func(t target) bool {
		p := config.Provider{Kind: t.to.kind, BaseURL: t.to.baseURL}
		return !p.AtVendor() || book.Find("", t.to.kind, t.upstream).At(time.Now().Unix()) == nil
	})
}

// find returns what is known of a model: by the names of its targets at their vendors, then by what the source calls it.
func find(m *model, list []known.Model) *known.Model {
	var names []string
	for _, t := range m.targets {
		names = append(names, t.to.kind+"\n"+t.upstream)
	}
	for _, t := range m.targets {
		names = append(names, t.upstream, m.hint)
		if _, after, ok := strings.Cut(t.upstream, "/"); ok { // openai/gpt-…, as OpenRouter writes it
			names = append(names, after)
		}
	}
	for _, name := range names {
		for i := range list {
			if k := &list[i]; name != "" && (name == k.Kind+"\n"+k.Upstream || name == k.Upstream) {
				return k
			}
		}
	}
	return nil
}

func fill(to *int, n int) {
	if *to == 0 {
		*to = n
	}
}

func fillFlag(to **bool, b bool) {
	if *to == nil {
		*to = &b
	}
}

func fillPrice(to **int64, from price.Rate) {
	if *to == nil && from != price.Unknown {
		n := int64(from) / 1000
		*to = &n
	}
}

// settleAliases removes aliases that lead nowhere or hide a model.
func (d *draft) settleAliases() {
	for _, name := range slices.Sorted(maps.Keys(d.aliases)) {
		id, v := d.aliases[name], d.aliased[name]
		isModel := func(id string) bool {
			return slices.ContainsFunc(d.models, func(m *model) bool { return m.id == id })
		}
		switch {
		case isModel(name):
			v.dropped("a model has this name, and no alias can replace it")
			delete(d.aliases, name)
		case alias.Check(name) != nil || len(d.aliases) > alias.Most:
			v.dropped("an alias has visible ASCII characters, an asterisk at its end only, and there are at most 1,000")
			delete(d.aliases, name)
		case !isModel(id):
			v.dropped("it names a model that was not converted")
			delete(d.aliases, name)
		default:
			v.taken("aliases." + name)
		}
	}
}

// settleFallbacks removes fallbacks that do not exist, lead to the model itself, or are for embeddings.
func (d *draft) settleFallbacks(m *model) {
	var kept []string
	for i, id := range m.fallbacks {
		id, v := d.resolve(id), m.fallbackOf[i]
		j := slices.IndexFunc(d.models, func(o *model) bool { return o.id == id })
		switch {
		case m.embedding || j >= 0 && d.models[j].embedding:
			v.dropped("embedding models have no fallbacks: vectors of different models cannot be compared")
		case j < 0:
			v.dropped("it names a model that was not converted")
		case id == m.id || slices.Contains(kept, id):
			v.dropped("it names the model itself, or the same fallback twice")
		default:
			kept = append(kept, id)
			v.taken(fmt.Sprintf("fallbacks of %s", m.id))
		}
	}
	m.fallbacks = kept
}

// firstContent returns seconds as a timeout for the first content, within what we allow.
func firstContent(seconds float64) time.Duration {
	return min(max(time.Duration(math.Ceil(seconds))*time.Second, time.Second), 5*time.Minute)
}
