package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The wire form of a model. Members are in the order of the contract's table; those below Permission
// belong to the verbose form.
type wireModel struct {
	ID                string      `json:"id"`
	Object            string      `json:"object"`
	Created           int64       `json:"created"`
	OwnedBy           string      `json:"owned_by"`
	Plan              string      `json:"plan"`
	RequestMultiplier json.Number `json:"request_multiplier"`
	Permission        struct {
		ContextLength int  `json:"context_length"`
		MaxOutput     int  `json:"max_output"`
		ToolCalling   bool `json:"tool_calling"`
	} `json:"permission"`
	Description string          `json:"description,omitempty"`
	Pricing     *wirePricing    `json:"pricing,omitempty"`
	Modalities  *wireModalities `json:"modalities,omitempty"`
	Provider    string          `json:"provider,omitempty"`
}

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

func encodeModel(m *Model, verbose bool) []byte {
	w := wireModel{
		ID: m.ID, Object: "model", Created: m.Created, OwnedBy: m.OwnedBy,
		Plan: m.Plan.String(), RequestMultiplier: decimal(m.RequestMilli, 3),
	}
	w.Permission.ContextLength = m.ContextLength
	w.Permission.MaxOutput = m.MaxOutput
	w.Permission.ToolCalling = m.ToolCalling
	if verbose {
		w.Description, w.Provider = m.Description, m.Provider
		w.Modalities = &wireModalities{Input: []string{"text"}, Output: []string{"text"}}
		if m.Images {
			w.Modalities.Input = append(w.Modalities.Input, "image")
		}
		if p := m.Pricing; p != nil {
			w.Pricing = &wirePricing{
				Currency: "USD", Unit: "per_million_tokens",
				Input: dollars(p.Input), Output: dollars(p.Output), Cached: dollars(p.Cached), Reasoning: dollars(p.Reasoning),
			}
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(w); err != nil {
		panic("catalog: a model that cannot be encoded: " + err.Error()) // strings, numbers and bools always can
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decimal writes an integer of 10^-places exactly: decimal(1500, 3) is 1.5.
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

func dollars(micro *int64) *json.Number {
	if micro == nil {
		return nil
	}
	n := decimal(*micro, 6)
	return &n
}
