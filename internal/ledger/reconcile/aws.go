package reconcile

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"sluice/internal/ledger/price"
)

// usageType is how Bedrock names what it charges for: the region, the model, the bucket, and then the tier and how the call was
// routed, such as USE1-Claude4.6Sonnet-cache-read-input-token-count-cross-region-global.
var usageType = regexp.MustCompile(`(?i)^(?:([A-Z]{2,4}[0-9]*)-)?(.*?)-?(cache-read-input|cache-write-1h-input|cache-write-input|input|output)-token(?:s|-count)(-.*)?$`)

// marketplace is the same for models that are sold through the marketplace, whose names are in another column.
var marketplace = regexp.MustCompile(`(?i)(CacheReadInput|CacheWriteInput|Input|Output)TokenCount(?:-|$)`)

// awsBuckets are the buckets of both spellings.
var awsBuckets = map[string]price.Bucket{
	"input": price.Input, "output": price.Output, "cache-read-input": price.CacheRead, "cache-write-input": price.CacheWrite, "cache-write-1h-input": price.CacheWrite1h,
	"cachereadinput": price.CacheRead, "cachewriteinput": price.CacheWrite,
}

// bedrockItem returns what a usage type is about.
func bedrockItem(usage, product string) (l Line, ok bool) {
	if m := usageType.FindStringSubmatch(usage); m != nil && m[2] != "" {
		l.Model, l.Bucket = strings.TrimSuffix(m[2], "-mantle"), awsBuckets[strings.ToLower(m[3])].String()
		for _, word := range strings.Split(strings.ToLower(m[4]), "-") {
			switch word {
			case "batch", "flex", "priority", "reserved":
				l.Tier = word
			}
		}
		return l, true
	}
	m := marketplace.FindStringSubmatch(usage)
	name, _, sold := strings.Cut(product, "(Amazon Bedrock Edition)")
	if m == nil || !sold {
		return l, false
	}
	l.Model, l.Bucket = strings.TrimSpace(name), awsBuckets[strings.ToLower(m[1])].String()
	if strings.Contains(strings.ToLower(usage), "batch") {
		l.Tier = "batch"
	}
	return l, true
}

// tokensOf returns the tokens of a quantity in the unit that the report names. It returns false for a unit that is not known.
func tokensOf(quantity, unit string) (int64, bool, error) {
	per := int64(1)
	switch u := strings.ToLower(strings.ReplaceAll(unit, " ", "")); {
	case strings.Contains(u, "1ktoken"), strings.Contains(u, "1000token"), strings.Contains(u, "1,000token"):
		per = 1000
	case strings.Contains(u, "1mtoken"), strings.Contains(u, "million"), u == "units":
		per = 1_000_000
	case u == "token", u == "tokens":
	default:
		return 0, false, nil
	}
	if len(quantity) > 60 || !number.MatchString(quantity) || strings.Trim(quantity, "-.eE+") == "" {
		return 0, false, fmt.Errorf("%q is no quantity", quantity[:min(len(quantity), 40)])
	}
	value, ok := new(big.Rat).SetString(quantity)
	if !ok {
		return 0, false, fmt.Errorf("%q is no quantity", quantity)
	}
	n := nearest(value.Mul(value, big.NewRat(per, 1)))
	if !n.IsInt64() || n.Int64() < 0 || n.Int64() > maxCount {
		return 0, false, fmt.Errorf("a quantity of %s %s", quantity, unit)
	}
	return n.Int64(), true, nil
}

// curSheet is a Cost and Usage Report, of either version.
var curSheet = sheet{
	what: "Cost and Usage Report", need: []string{"line_item_usage_start_date", "line_item_usage_type", "line_item_usage_amount", "line_item_unblended_cost", "pricing_unit"},
	open: func(r *Reader, name string, _ map[string]int) *part { return bedrockPart(r, name) },
	row:  (*Reader).curRow,
}

// curRow reads a line of the report. Those of other services are left out.
func (r *Reader) curRow(p *part, row *record) error {
	product := row.text("product_product_name", "product_product_family", "line_item_line_item_description")
	l, ok := bedrockItem(row.text("line_item_usage_type"), product)
	if !ok && !strings.Contains(row.text("line_item_product_code")+product, "Bedrock") {
		return nil
	}
	cost, digits, err := amount(row.text("line_item_unblended_cost"), 0)
	if err != nil {
		return err
	}
	if kind := row.text("line_item_line_item_type"); !ok || kind != "" && !strings.Contains(kind, "Usage") {
		p.leave(strings.Trim(kind+" "+row.text("line_item_usage_type"), " "), cost)
		return nil
	}
	if l.Day, err = row.day("line_item_usage_start_date"); err != nil {
		return err
	}
	l.Cost, l.Charged, l.Row = Money(cost), 1, row.line
	if err := l.tokens(row.text("line_item_usage_amount"), row.text("pricing_unit")); err != nil {
		return err
	}
	again := false
	// Without an id, two lines of an hour may be equal and both be right.
	if id := row.text("identity_line_item_id"); id != "" {
		if again, err = r.repeated("aws", id, row.text("identity_time_interval", "line_item_usage_start_date"), row.text("line_item_usage_type"), row.text("line_item_usage_amount")); err != nil {
			return err
		}
	}
	if !r.wants(p, row.text("line_item_resource_id", "line_item_usage_account_id")) {
		return nil
	}
	return p.add(item{Line: l, digits: digits, again: again})
}

// tokens sets the count of a line, if its unit is known.
func (l *Line) tokens(quantity, unit string) error {
	n, known, err := tokensOf(quantity, unit)
	if known {
		l.Count, l.Counted = n, 1
	}
	return err
}

func bedrockPart(r *Reader, name string) *part {
	p := r.part(name, true, false)
	p.knows("input", "cache_read", "cache_write", "output")
	return p
}

// costExplorer is a page of the Cost Explorer, GetCostAndUsage by day and usage type.
type costExplorer struct {
	ResultsByTime []struct {
		TimePeriod struct{ Start, End string }
		Groups     []json.RawMessage
	}
}

type costGroup struct {
	Keys    []string
	Metrics map[string]struct{ Amount, Unit string }
}

func (r *Reader) costExplorerPage(name string, raw []byte) error {
	var page costExplorer
	if err := json.Unmarshal(raw, &page); err != nil {
		return err
	}
	p, n := bedrockPart(r, name), 0
	for _, span := range page.ResultsByTime {
		day, err := dayOf(span.TimePeriod.Start)
		if err != nil {
			return err
		}
		for _, raw := range span.Groups {
			n++
			if err := r.costGroup(p, day, n, raw); err != nil {
				return fmt.Errorf("group %d: %w", n, err)
			}
		}
	}
	return nil
}

func (r *Reader) costGroup(p *part, day string, n int, raw []byte) error {
	var g costGroup
	if err := json.Unmarshal(raw, &g); err != nil {
		return err
	}
	if len(g.Keys) == 0 || g.Metrics["UnblendedCost"].Amount == "" {
		return fmt.Errorf("no usage type or no UnblendedCost; group by USAGE_TYPE, with the metrics UnblendedCost and UsageQuantity")
	}
	cost, digits, err := amount(g.Metrics["UnblendedCost"].Amount, 0)
	if err != nil {
		return err
	}
	l, ok := bedrockItem(g.Keys[0], strings.Join(g.Keys[1:], " "))
	if !ok {
		if what := strings.Join(g.Keys, " "); len(g.Keys) == 1 || strings.Contains(what, "Bedrock") {
			p.leave(what, cost)
		}
		return nil
	}
	l.Day, l.Cost, l.Charged, l.Row = day, Money(cost), 1, n
	if q := g.Metrics["UsageQuantity"]; q.Amount != "" {
		if err := l.tokens(q.Amount, q.Unit); err != nil {
			return err
		}
	}
	again, err := r.repeated("aws", day, string(raw))
	if err != nil {
		return err
	}
	return p.add(item{Line: l, digits: digits, again: again})
}
