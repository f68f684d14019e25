package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/ledger/price"
)

// anthropicPages is a page of /v1/organizations/usage_report/messages or of /v1/organizations/cost_report.
type anthropicPages struct {
	Data []struct {
		Start   string            `json:"starting_at"`
		Results []json.RawMessage `json:"results"`
	} `json:"data"`
}

// anthropicResult is one result of either report. The counts do not overlap. Amounts are cents.
type anthropicResult struct {
	Input  int64 `json:"uncached_input_tokens"`
	Read   int64 `json:"cache_read_input_tokens"`
	Output int64 `json:"output_tokens"`
	Writes struct {
		M5 int64 `json:"ephemeral_5m_input_tokens"`
		H1 int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Tools struct {
		Searches int64 `json:"web_search_requests"`
	} `json:"server_tool_use"`
	Key   *string `json:"api_key_id"`
	Model *string `json:"model"`
	Tier  *string `json:"service_tier"`
	Geo   *string `json:"inference_geo"`
	Speed *string `json:"speed"`

	Amount      *string `json:"amount"`
	Currency    string  `json:"currency"`
	CostType    *string `json:"cost_type"`
	TokenType   *string `json:"token_type"`
	Description *string `json:"description"`
}

// claudeBuckets are those of both reports.
var claudeBuckets = []string{"input", "cache_read", "cache_write_5m", "cache_write_1h", "output"}

func (r *Reader) anthropicPage(name string, raw []byte) error {
	var page anthropicPages
	if err := json.Unmarshal(raw, &page); err != nil {
		return err
	}
	p, n := r.part(name, true, true), 0
	p.knows(claudeBuckets...)
	for _, bucket := range page.Data {
		day, err := dayOf(bucket.Start)
		if err != nil {
			return fmt.Errorf("starting_at: %w", err)
		}
		for _, raw := range bucket.Results {
			n++
			if err := r.anthropicOne(p, day, n, raw); err != nil {
				return fmt.Errorf("result %d: %w", n, err)
			}
		}
	}
	return nil
}

func (r *Reader) anthropicOne(p *part, day string, n int, raw []byte) error {
	var u anthropicResult
	if err := json.Unmarshal(raw, &u); err != nil {
		return err
	}
	again, err := r.repeated("anthropic", day, string(raw))
	if err != nil {
		return err
	}
	l := Line{Day: day, Model: text(u.Model), Tier: claudeTier(text(u.Tier), text(u.Speed)), Region: regionOf(text(u.Geo)), Row: n}
	if u.Amount == nil {
		return r.claudeCounts(p, &u, l, again)
	}
	if len(r.keys) > 0 {
		return errNoKeys
	}
	if u.Currency != "" && !strings.EqualFold(u.Currency, "usd") {
		return fmt.Errorf("an amount in %q, not in dollars", u.Currency)
	}
	cost, digits, err := amount(*u.Amount, 2)
	if err != nil {
		return err
	}
	if u.CostType == nil && cost != 0 {
		return fmt.Errorf("no cost_type; ask the API with group_by[]=description")
	}
	return p.claudeCost(&l, text(u.CostType), text(u.TokenType), cost, digits, again)
}

// claudeTier returns the tier of a row: fast mode is one, too.
func claudeTier(tier, speed string) string {
	if strings.EqualFold(speed, "fast") {
		return "fast"
	}
	return tierOf(tier)
}

// claudeCounts adds the tokens and the searches of a result.
func (r *Reader) claudeCounts(p *part, u *anthropicResult, l Line, again bool) error {
	if l.Model == "" && u.Input+u.Output > 0 {
		return fmt.Errorf("no model; ask the API with group_by[]=model, service_tier, inference_geo and api_key_id")
	}
	if !r.wants(p, text(u.Key)) {
		return nil
	}
	l.Counted = 1
	for bucket, count := range map[string]int64{
		"input": u.Input, "cache_read": u.Read, "cache_write_5m": u.Writes.M5, "cache_write_1h": u.Writes.H1, "output": u.Output, "web_search": u.Tools.Searches,
	} {
		if count < 0 || count > maxCount {
			return fmt.Errorf("%s is %d", bucket, count)
		}
		l.Bucket, l.Count = bucket, count
		if err := p.add(item{Line: l, again: again}); err != nil {
			return err
		}
	}
	return nil
}

// tokenTypes are the buckets of amounts, in the words of the API and of the console.
var tokenTypes = map[string]price.Bucket{
	"uncached_input_tokens": price.Input, "input_no_cache": price.Input, "output_tokens": price.Output, "output": price.Output,
	"cache_read_input_tokens": price.CacheRead, "input_cache_read": price.CacheRead,
	"cache_creation.ephemeral_5m_input_tokens": price.CacheWrite5m, "input_cache_write_5m": price.CacheWrite5m,
	"cache_creation.ephemeral_1h_input_tokens": price.CacheWrite1h, "input_cache_write_1h": price.CacheWrite1h, "input_cache_write": price.CacheWrite,
}

// claudeCost adds an amount.
func (p *part) claudeCost(l *Line, costType, tokenType string, cost price.Nano, digits int, again bool) error {
	bucket, ok := tokenTypes[tokenType]
	switch {
	case ok:
		l.Bucket = bucket.String()
	case costType == "web_search" || tokenType == "web_search":
		l.Bucket, l.Model, l.Tier, l.Region = "web_search", "", "", "" // not divided by model
	default:
		p.leave(strings.Trim(costType+" "+tokenType, " "), cost)
		return nil
	}
	l.Cost, l.Charged = Money(cost), 1
	return p.add(item{Line: *l, digits: digits, again: again})
}

// anthropicUsageSheet is what the usage page of the console exports.
var anthropicUsageSheet = sheet{
	what: "usage", need: []string{"usage_date_utc", "model_version", "usage_input_tokens_no_cache", "usage_output_tokens"},
	open: claudePart,
	row: func(r *Reader, p *part, row *record) (err error) {
		u := anthropicResult{}
		for column, to := range map[string]*int64{
			"usage_input_tokens_no_cache": &u.Input, "usage_input_tokens_cache_read": &u.Read, "usage_input_tokens_cache_write_5m": &u.Writes.M5,
			"usage_input_tokens_cache_write_1h": &u.Writes.H1, "usage_output_tokens": &u.Output, "web_search_count": &u.Tools.Searches,
		} {
			if *to, err = row.count(column); err != nil {
				return err
			}
		}
		l, key, err := row.claudeLine("model_version")
		if err != nil {
			return err
		}
		again, err := r.repeated(row.fields...)
		if err != nil {
			return err
		}
		u.Key = &key
		return r.claudeCounts(p, &u, l, again)
	},
}

// anthropicCostSheet is what the cost page of the console exports.
var anthropicCostSheet = sheet{
	what: "costs", need: []string{"usage_date_utc", "model", "token_type", "cost_usd"},
	open: claudePart,
	row: func(r *Reader, p *part, row *record) error {
		cost, digits, err := amount(row.text("cost_usd"), 0)
		if err != nil {
			return err
		}
		l, key, err := row.claudeLine("model")
		if err != nil {
			return err
		}
		again, err := r.repeated(row.fields...)
		if err != nil || !r.wants(p, key) {
			return err
		}
		return p.claudeCost(&l, row.text("cost_type"), row.text("token_type"), cost, digits, again)
	},
}

func claudePart(r *Reader, name string, _ map[string]int) *part {
	p := r.part(name, true, true)
	p.knows(claudeBuckets...)
	return p
}

// claudeLine returns what both exports of the console say about a row, and the name of its key.
func (r *record) claudeLine(model string) (Line, string, error) {
	day, err := r.day("usage_date_utc")
	return Line{
		Day: day, Model: r.text(model), Tier: claudeTier(r.text("usage_type"), r.text("speed")), Region: regionOf(r.text("inference_geo")), Row: r.line,
	}, r.text("api_key"), err
}
