package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/jsonscan"
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

// wirePricing holds prices in dollars per million tokens, as exact decimals.
type wirePricing struct {
	Currency  string       `json:"currency"`
	Unit      string       `json:"unit"`
	Input     *json.Number `json:"input,omitempty"`
	Output    *json.Number `json:"output,omitempty"`
	Cached    *json.Number `json:"cached_input,omitempty"`
	Reasoning *json.Number `json:"reasoning,omitempty"`
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
		if p := m.Pricing; p != nil {
			w.Pricing = &wirePricing{
				Currency: "USD", Unit: "per_million_tokens",
				Input: dollars(p.Input), Output: dollars(p.Output), Cached: dollars(p.Cached), Reasoning: dollars(p.Reasoning),
			}
		}
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

// dollars converts micro-dollars to dollars. It returns nil for nil.
func dollars(micro *int64) *json.Number {
	if micro == nil {
		return nil
	}
	n := decimal(*micro, 6)
	return &n
}
