package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/fault"
	"sluice/internal/usage"
)

// Books reads recorded usage and copies it.
type Books interface {
	// UsageByDay returns an account's sums from a day on, including calls that were settled
	// but not yet written to the database.
	UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error)
	// Audit recomputes the sums and returns the differences, and how many account days were
	// compared.
	Audit(ctx context.Context) ([]usage.Difference, int, error)
	// Backup writes a consistent copy of the database to a new file.
	Backup(ctx context.Context, path string) error
}

// UsageQuery is the argument of usage.
type UsageQuery struct {
	Ref  string `json:"ref"`
	Days int    `json:"days"`
	// By is "model", "key", "day", or "" for all three.
	By string `json:"by"`
}

// Usage is the result of usage.
type Usage struct {
	Totals UsageSums  `json:"totals"`
	Rows   []UsageRow `json:"rows"`
}

// UsageRow is one line of usage. Fields that the rows are not grouped by are empty.
type UsageRow struct {
	Day   string `json:"day,omitempty"`
	Model string `json:"model,omitempty"`
	Key   string `json:"key,omitempty"`
	UsageSums
}

// UsageSums holds the sums of some calls. Units and CostUSD are exact decimal numbers. The
// averages are over calls that had a first token.
type UsageSums struct {
	Requests         int64       `json:"requests"`
	Failed           int64       `json:"failed"`
	PromptTokens     int64       `json:"prompt_tokens"`
	CachedTokens     int64       `json:"cached_tokens"`
	CompletionTokens int64       `json:"completion_tokens"`
	ReasoningTokens  int64       `json:"reasoning_tokens"`
	Units            json.Number `json:"units"`
	CostUSD          json.Number `json:"cost_usd"`
	// Unpriced counts requests to models without a price. CostUSD does not include them.
	Unpriced     int64 `json:"unpriced_requests"`
	LatencyMS    int64 `json:"average_latency_ms"`
	FirstTokenMS int64 `json:"average_first_token_ms"`
}

// usage returns the sums of the last days, today included. Days are in UTC.
func (b *Backend) usage(ctx context.Context, in UsageQuery) (Usage, error) {
	if in.Days < 1 || in.Days > 3660 {
		return Usage{}, fault.New(fault.Invalid, "days must be between 1 and 3660").At("days")
	}
	if !slices.Contains([]string{"", "model", "key", "day"}, in.By) {
		return Usage{}, fault.New(fault.Invalid, "cannot group by %q; use model, key or day", in.By).At("by")
	}
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return Usage{}, err
	}
	rows, err := b.Books.UsageByDay(ctx, a.ID, usage.DayOf(time.Now()).AddDate(0, 0, 1-in.Days))
	if err != nil {
		return Usage{}, err
	}
	return divide(rows, in.By), nil
}

// divide groups the rows by day, model or key, or by all three if by is empty.
func divide(rows []usage.Row, by string) Usage {
	// Grouping by a struct with empty fields merges the rows that differ only in them.
	var total usage.Sums
	sums := map[UsageRow]usage.Sums{}
	for i := range rows {
		r := &rows[i]
		total.Merge(r.Sums)
		slot := UsageRow{Day: r.Start.Format(time.DateOnly), Model: r.Model, Key: r.KeyID}
		switch by {
		case "model":
			slot = UsageRow{Model: r.Model}
		case "key":
			slot = UsageRow{Key: r.KeyID}
		case "day":
			slot = UsageRow{Day: slot.Day}
		}
		s := sums[slot]
		s.Merge(r.Sums)
		sums[slot] = s
	}
	out := Usage{Totals: viewSums(total), Rows: make([]UsageRow, 0, len(sums))}
	for slot, s := range sums {
		slot.UsageSums = viewSums(s)
		out.Rows = append(out.Rows, slot)
	}
	// Maps have no order; the output must be stable.
	slices.SortFunc(out.Rows, func(x, y UsageRow) int {
		return cmp.Or(strings.Compare(x.Day, y.Day), strings.Compare(x.Model, y.Model), strings.Compare(x.Key, y.Key))
	})
	return out
}

// viewSums converts sums for the reply.
func viewSums(s usage.Sums) UsageSums {
	v := UsageSums{
		Requests: s.Requests, Failed: s.Failed, PromptTokens: s.Prompt, CachedTokens: s.Cached,
		CompletionTokens: s.Completion, ReasoningTokens: s.Reasoning, Unpriced: s.Unpriced,
		Units: decimal(s.UnitMilli, 3), CostUSD: decimal(s.CostMicro, 6),
	}
	if s.First > 0 {
		v.LatencyMS = s.LatencyMS / s.First
		v.FirstTokenMS = s.FirstMS / s.First
	}
	return v
}

// decimal formats v, which is in units of 10^-places, without rounding.
func decimal(v int64, places int) json.Number {
	digits := strconv.FormatInt(v, 10)
	for len(digits) <= places {
		digits = "0" + digits
	}
	whole, rest := digits[:len(digits)-places], strings.TrimRight(digits[len(digits)-places:], "0")
	if rest == "" {
		return json.Number(whole)
	}
	return json.Number(whole + "." + rest)
}

// Audit is the result of audit.
type Audit struct {
	Compared    int                `json:"account_days"`
	Differences []usage.Difference `json:"differences"`
}

// audit returns an empty list, not null, if nothing differs.
func (b *Backend) audit(ctx context.Context, _ Empty) (Audit, error) {
	differences, n, err := b.Books.Audit(ctx)
	if err != nil {
		return Audit{}, err
	}
	return Audit{Compared: n, Differences: append([]usage.Difference{}, differences...)}, nil
}

// File names a file on the machine of the server.
type File struct {
	Path string `json:"path"`
}

// backup writes a file on the server's machine. The client makes the path absolute.
func (b *Backend) backup(ctx context.Context, in File) (File, error) {
	return in, b.Books.Backup(ctx, in.Path)
}
