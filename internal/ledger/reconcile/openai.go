package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/ledger/price"
)

// openaiPages is a page of the usage API, /v1/organization/usage/completions and embeddings, or of /v1/organization/costs.
type openaiPages struct {
	Data []struct {
		Start   int64             `json:"start_time"`
		Results []json.RawMessage `json:"results"`
	} `json:"data"`
}

// openaiUsage is one result of the usage API. Input includes what is read from a cache and written to one.
type openaiUsage struct {
	Object     string       `json:"object"`
	Input      int64        `json:"input_tokens"`
	Cached     int64        `json:"input_cached_tokens"`
	Written    int64        `json:"input_cache_write_tokens"`
	Output     int64        `json:"output_tokens"`
	AudioIn    int64        `json:"input_audio_tokens"`
	ImageIn    int64        `json:"input_image_tokens"`
	AudioOut   int64        `json:"output_audio_tokens"`
	ImageOut   int64        `json:"output_image_tokens"`
	Key        *string      `json:"api_key_id"`
	Model      *string      `json:"model"`
	Batch      *bool        `json:"batch"`
	Tier       *string      `json:"service_tier"`
	Amount     *openaiMoney `json:"amount"`
	LineItem   *string      `json:"line_item"`
	Quantity   *json.Number `json:"quantity"`
	Quantified string       `json:"quantity_unit"`
}

type openaiMoney struct {
	Value    json.Number `json:"value"`
	Currency string      `json:"currency"`
}

// The kinds of results that are compared.
const (
	openaiCompletions = "organization.usage.completions.result"
	openaiEmbeddings  = "organization.usage.embeddings.result"
	openaiCosts       = "organization.costs.result"
)

func (r *Reader) openaiPage(name string, raw []byte) error {
	var page openaiPages
	if err := json.Unmarshal(raw, &page); err != nil {
		return err
	}
	n := 0
	for _, bucket := range page.Data {
		day, err := dayOf(fmt.Sprint(bucket.Start))
		if err != nil {
			return fmt.Errorf("start_time: %w", err)
		}
		for _, raw := range bucket.Results {
			n++
			if err := r.openaiResult(name, day, n, raw); err != nil {
				return fmt.Errorf("result %d: %w", n, err)
			}
		}
	}
	return nil
}

func (r *Reader) openaiResult(name, day string, n int, raw []byte) error {
	var u openaiUsage
	if err := json.Unmarshal(raw, &u); err != nil {
		return err
	}
	if u.Amount != nil || u.Object == openaiCosts {
		return r.openaiCost(r.part(name, false, false), day, n, &u, string(raw))
	}
	if !slices.Contains([]string{openaiCompletions, openaiEmbeddings}, u.Object) {
		r.part(name, true, false).leave(u.Object, 0)
		return nil
	}
	if u.Model == nil && u.Input+u.Output > 0 {
		return fmt.Errorf("no model; ask the API with group_by=model, service_tier, batch and api_key_id")
	}
	p := r.part(name, u.Tier != nil || u.Batch != nil, false)
	again, err := r.repeated("openai", day, string(raw))
	if err != nil || !r.wants(p, text(u.Key)) {
		return err
	}
	return p.openaiCounts(&u, Line{Day: day, Model: text(u.Model), Tier: openaiTier(text(u.Tier), u.Batch != nil && *u.Batch), Counted: 1, Row: n}, again)
}

// openaiTier returns the tier of a row. Batches are told apart from the tiers.
func openaiTier(tier string, batch bool) string {
	if batch {
		return "batch"
	}
	return tierOf(tier)
}

// openaiCounts adds the tokens of a result, as disjoint counts.
func (p *part) openaiCounts(u *openaiUsage, l Line, again bool) error {
	p.knows("input", "cache_read", "cache_write", "output", "audio_input", "audio_output", "image_input", "image_output")
	// The counts of sound and pictures leave out what is read from a cache.
	for bucket, count := range map[price.Bucket]int64{
		price.Input: u.Input - u.Cached - u.Written - u.AudioIn - u.ImageIn, price.CacheRead: u.Cached, price.CacheWrite: u.Written, price.AudioIn: u.AudioIn, price.ImageIn: u.ImageIn,
		price.Output: u.Output - u.AudioOut - u.ImageOut, price.AudioOut: u.AudioOut, price.ImageOut: u.ImageOut,
	} {
		if count < 0 || count > maxCount {
			return fmt.Errorf("the parts of the tokens are more than the whole")
		}
		l.Bucket, l.Count = bucket.String(), count
		if err := p.add(item{Line: l, again: again}); err != nil {
			return err
		}
	}
	return nil
}

// openaiCost adds an amount. Its line item names the model and the bucket: "gpt-6-sol, cached input".
func (r *Reader) openaiCost(p *part, day string, n int, u *openaiUsage, identity string) error {
	if u.Amount == nil || !strings.EqualFold(u.Amount.Currency, "usd") {
		return fmt.Errorf("no amount in dollars")
	}
	cost, digits, err := amount(string(u.Amount.Value), 0)
	if err != nil {
		return err
	}
	if u.LineItem == nil && cost != 0 {
		return fmt.Errorf("no line_item; ask the API with group_by=line_item")
	}
	again, err := r.repeated("openai", day, identity)
	if err != nil || !r.wants(p, text(u.Key)) {
		return err
	}
	model, bucket, ok := lineItem(text(u.LineItem))
	if !ok {
		p.leave(text(u.LineItem), cost)
		return nil
	}
	l := Line{Day: day, Model: model, Bucket: bucket, Cost: Money(cost), Charged: 1, Row: n}
	if u.Quantity != nil && (u.Quantified == "" || u.Quantified == "tokens") {
		if f, err := u.Quantity.Float64(); err == nil && f >= 0 && f < maxCount && f == float64(int64(f)) {
			l.Count, l.Counted = int64(f), 1
		}
	}
	return p.add(item{Line: l, digits: digits, again: again})
}

// directions are the ends of line items, by the bucket of texts.
var directions = map[string]price.Bucket{
	"input": price.Input, "output": price.Output, "cached input": price.CacheRead, "cache read": price.CacheRead, "cache reads": price.CacheRead,
	"cache writes": price.CacheWrite, "cache write": price.CacheWrite,
}

// lineItem returns what a line item of the costs is about: "gpt-6-sol, output", or "gpt-image-2 image, input".
func lineItem(text string) (model, bucket string, ok bool) {
	model, direction, _ := strings.Cut(text, ",")
	direction, _, _ = strings.Cut(strings.TrimSpace(direction), ",")
	b, ok := directions[strings.ToLower(direction)]
	if !ok {
		return "", "", false
	}
	model = strings.TrimSpace(model)
	if at := strings.LastIndexByte(model, ' '); at > 0 {
		modality := model[at+1:]
		switch {
		case modality == "audio" && b == price.Input:
			b = price.AudioIn
		case modality == "audio" && b == price.Output:
			b = price.AudioOut
		case modality == "image" && b == price.Input:
			b = price.ImageIn
		case modality == "image" && b == price.Output:
			b = price.ImageOut
		}
		if slices.Contains([]string{"audio", "image", "text"}, modality) {
			model = model[:at]
		}
	}
	return model, b.String(), true
}

// openaiUsageSheet is what the usage page of the dashboard exports: the fields of the API as columns.
var openaiUsageSheet = sheet{
	what: "activity", need: []string{"start_time|start_time_iso", "model", "input_tokens"},
	open: func(r *Reader, name string, head map[string]int) *part {
		_, tier := head["service_tier"]
		_, batch := head["batch"]
		return r.part(name, tier || batch, false)
	},
	row: func(r *Reader, p *part, row *record) (err error) {
		u := openaiUsage{}
		for column, to := range map[string]*int64{
			"input_tokens": &u.Input, "input_cached_tokens": &u.Cached, "input_cache_write_tokens": &u.Written, "output_tokens": &u.Output,
			"input_audio_tokens": &u.AudioIn, "input_image_tokens": &u.ImageIn,
			"output_audio_tokens": &u.AudioOut, "output_image_tokens": &u.ImageOut,
		} {
			if *to, err = row.count(column); err != nil {
				return err
			}
		}
		if u.Input+u.Output == 0 { // a minute without calls
			return nil
		}
		day, err := row.day("start_time_iso", "start_time")
		if err != nil {
			return err
		}
		again, err := r.repeated(row.fields...)
		if err != nil || !r.wants(p, row.text("api_key_id", "api_key_name")) {
			return err
		}
		l := Line{Day: day, Model: row.text("model"), Tier: openaiTier(row.text("service_tier"), strings.EqualFold(row.text("batch"), "true")), Counted: 1, Row: row.line}
		return p.openaiCounts(&u, l, again)
	},
}

// openaiCostSheet is what the cost page of the dashboard exports.
var openaiCostSheet = sheet{
	what: "costs", need: []string{"start_time|start_time_iso|date", "line_item", "amount_value|amount|cost_in_major"},
	open: func(r *Reader, name string, _ map[string]int) *part { return r.part(name, false, false) },
	row: func(r *Reader, p *part, row *record) error {
		value := row.text("amount_value", "amount", "cost_in_major")
		if value == "" {
			return nil
		}
		day, err := row.day("start_time_iso", "start_time", "date")
		if err != nil {
			return err
		}
		item, key, currency := row.text("line_item"), row.text("api_key_id"), row.text("amount_currency", "currency")
		if currency == "" {
			currency = "usd"
		}
		u := openaiUsage{Amount: &openaiMoney{json.Number(value), currency}, LineItem: &item, Key: &key, Quantified: row.text("quantity_unit")}
		if q := json.Number(row.text("quantity")); q != "" {
			u.Quantity = &q
		}
		return r.openaiCost(p, day, row.line, &u, strings.Join(row.fields, "\x00"))
	},
}

// text returns a text that may be null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
