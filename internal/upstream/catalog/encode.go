package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/ledger/price"
)

// wireModel is the JSON form of a model. The members are in the order of the table in the API
// contract. Those after Permission belong to the verbose form only.
type wireModel struct {
	ID                string      `json:"id"`
	Object            string      `json:"object"`
	Created           int64       `json:"created"`
	OwnedBy           string      `json:"owned_by"`
	Plan              string      `json:"plan"`
	RequestMultiplier json.Number `json:"request_multiplier"`
	Permission        struct {
		ContextLength int  `json:"context_length"`
		MaxOutput     *int `json:"max_output,omitempty"` // nil: a router without models, which gives no reply
		ToolCalling   bool `json:"tool_calling"`
	} `json:"permission"`
	Description string          `json:"description,omitempty"`
	Pricing     *wirePricing    `json:"pricing,omitempty"`
	Unpriced    bool            `json:"unpriced,omitempty"` // nobody has said what its tokens cost, which does not make them free
	Modalities  *wireModalities `json:"modalities,omitempty"`
	Provider    string          `json:"provider,omitempty"`
	Kind        string          `json:"kind,omitempty"` // "embedding"; chat models have none
	Aliases     []string        `json:"aliases,omitempty"`
	// Shutdown is the day on which the vendor ends the model, as OpenAI's list has it.
	Shutdown string `json:"shutdown_date,omitempty"`
	// Upcoming announces another plan.
	Upcoming *wireTier `json:"upcoming,omitempty"`
}

// wireTier is a plan, and the Unix time from which it is needed.
type wireTier struct {
	Plan string `json:"plan"`
	From int64  `json:"from"`
}

// wirePricing holds prices in dollars per million tokens, as exact decimals; those in Calls and Seconds are for one.
type wirePricing struct {
	Currency string `json:"currency"`
	Unit     string `json:"unit"`
	wireRates
	Above   []wireBand             `json:"above,omitempty"`
	Tiers   map[string]json.Number `json:"tiers,omitempty"`
	Regions map[string]json.Number `json:"regions,omitempty"`
	Calls   map[string]json.Number `json:"calls,omitempty"`
	Seconds map[string]json.Number `json:"seconds,omitempty"`
	Version string                 `json:"version"`
}

// wireRates are the prices of tokens. Tokens of a prompt without a price of their own cost as much as Input, and tokens of a
// reply as much as Output. A price of a cache that is not known is null.
type wireRates struct {
	Input        json.RawMessage `json:"input,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	Cached       json.RawMessage `json:"cached_input,omitempty"`
	CacheWrite5m json.RawMessage `json:"cache_write_5m,omitempty"`
	CacheWrite1h json.RawMessage `json:"cache_write_1h,omitempty"`
	CacheWrite   json.RawMessage `json:"cache_write,omitempty"`
	Reasoning    json.RawMessage `json:"reasoning,omitempty"`
	AudioIn      json.RawMessage `json:"audio_input,omitempty"`
	AudioOut     json.RawMessage `json:"audio_output,omitempty"`
	ImageIn      json.RawMessage `json:"image_input,omitempty"`
	ImageOut     json.RawMessage `json:"image_output,omitempty"`
}

// wireBand has the prices of calls whose prompt is longer than Tokens.
type wireBand struct {
	Tokens int64 `json:"tokens"`
	wireRates
}

// pricingOf returns the prices of an entry, or nil for none.
func pricingOf(e *price.Entry) *wirePricing {
	if e == nil {
		return nil
	}
	w := &wirePricing{Currency: "USD", Unit: "per_million_tokens", wireRates: ratesOf(&e.Rates), Version: e.Version()}
	for i := range e.Bands {
		w.Above = append(w.Above, wireBand{e.Bands[i].Above, ratesOf(&e.Bands[i].Rates)})
	}
	w.Tiers, w.Regions = factorsOf(e.Tiers), factorsOf(e.Regions)
	w.Calls, w.Seconds = e.Written()
	return w
}

func factorsOf(table map[string]price.Factor) map[string]json.Number {
	out := map[string]json.Number{}
	for name, f := range table {
		out[name] = json.Number(f.String())
	}
	return out
}

func ratesOf(r *price.Rates) wireRates {
	n := func(b price.Bucket) json.RawMessage {
		like := price.Output
		if b.Prompted() {
			like = price.Input
		}
		cached := b >= price.CacheRead && b <= price.CacheWrite
		switch {
		case r[b] == price.Unknown && cached && r[like] != price.Unknown:
			return json.RawMessage("null")
		case r[b] == price.Unknown, b != like && r[b] == r[like]:
			return nil
		}
		return price.Nano(r[b]).AppendJSON(nil)
	}
	return wireRates{
		n(price.Input), n(price.Output), n(price.CacheRead), n(price.CacheWrite5m), n(price.CacheWrite1h), n(price.CacheWrite), n(price.Reasoning),
		n(price.AudioIn), n(price.AudioOut), n(price.ImageIn), n(price.ImageOut),
	}
}

type wireModalities struct {
	Input  []string `json:"input"`
	Output []string `json:"output"`
}

// encodeList encodes the reply to GET /v1/models.
func encodeList(models []*Model, verbose bool) []byte {
	var b bytes.Buffer
	b.WriteString(`{"object":"list","data":[`)
	for i, m := range models {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encodeModel(m, verbose))
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// encodeModel encodes one model, without a trailing newline.
func encodeModel(m *Model, verbose bool) []byte {
	w := wireModel{
		ID: m.ID, Object: "model", Created: m.Created, OwnedBy: m.OwnedBy,
		Plan: m.Plan.String(), RequestMultiplier: decimal(m.RequestMilli, 3),
	}
	w.Permission.ContextLength = m.ContextLength
	if !m.Router || m.MaxOutput > 0 {
		w.Permission.MaxOutput = &m.MaxOutput
	}
	w.Permission.ToolCalling = m.ToolCalling
	if verbose {
		w.Description, w.Provider, w.Aliases = m.Description, m.Provider, m.Aliases
		w.Modalities = &wireModalities{Input: []string{"text"}, Output: []string{"text"}}
		if m.Embeds {
			w.Kind, w.Modalities.Output = "embedding", []string{"embedding"}
		} else if m.Images {
			w.Modalities.Input = append(w.Modalities.Input, "image")
		}
		if !m.Shutdown.IsZero() {
			w.Shutdown = m.Shutdown.Format(time.DateOnly)
		}
		if t := m.Upcoming; t != nil {
			w.Upcoming = &wireTier{Plan: t.Plan.String(), From: t.From.Unix()}
		}
		w.Pricing = pricingOf(m.Told(time.Now()))
		w.Unpriced = w.Pricing == nil && !m.Router && !m.Sandbox
	}
	b, err := jsonscan.Marshal(w)
	if err != nil {
		panic("catalog: a model that cannot be encoded: " + err.Error()) // strings, numbers and bools always can
	}
	return b
}

// decimal returns v divided by 10^places as an exact decimal: decimal(1500, 3) is 1.5. The value
// must not be negative.
func decimal(v int64, places int) json.Number {
	unit := int64(1)
	for range places {
		unit *= 10
	}
	whole, rest := v/unit, v%unit
	if rest == 0 {
		return json.Number(strconv.FormatInt(whole, 10))
	}
	return json.Number(strconv.FormatInt(whole, 10) + "." + strings.TrimRight(fmt.Sprintf("%0*d", places, rest), "0"))
}
