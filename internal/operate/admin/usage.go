package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/usage"
)

// UsageRecords reads recorded usage and copies it.
type UsageRecords interface {
	// UsageByDay returns an account's sums from a day on, including calls that were settled
	// but not yet written to the database.
	UsageByDay(ctx context.Context, accountID string, from time.Time) ([]usage.Row, error)
	// Flush moves what is in the journal to the database.
	Flush(ctx context.Context) error
	// Audit recomputes the sums and returns the differences, and how many account days were
	// compared.
	Audit(ctx context.Context) ([]usage.Difference, int, error)
	// Damage returns what is damaged in the journal and not acknowledged.
	Damage() ([]usage.Damage, error)
	// Acknowledge notes that somebody has read the reports of damage, and returns them.
	Acknowledge(by string) ([]usage.Damage, error)
	// JournalParts moves what is in the journal to the database, and returns the files of the journal.
	JournalParts(ctx context.Context) ([]usage.Part, error)
	// ReadJournal reads a file of the journal from an offset. Its error wraps os.ErrNotExist if the file is gone.
	ReadJournal(name string, offset int64, p []byte) (int, error)
}

// UsageQuery is the argument of usage.
type UsageQuery struct {
	Ref  string `json:"ref"`
	Days int    `json:"days"`
	// By is "model", "key", "day", "month", or "" for the first three.
	By string `json:"by"`
}

// Usage is the result of usage.
type Usage struct {
	Totals UsageSums  `json:"totals"`
	Rows   []UsageRow `json:"rows"`
}

// UsageRow is one line of usage. Fields that the rows are not grouped by are empty.
type UsageRow struct {
	Day   string `json:"day,omitempty"` // or a month
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
	ChargeUSD        json.Number `json:"charge_usd,omitempty"` // what the customer is told, if that is not CostUSD
	// Unpriced counts requests without a cost, which CostUSD does not include: what they used has no price, or they failed
	// before anything was used.
	Unpriced     int64 `json:"unpriced_requests"`
	LatencyMS    int64 `json:"average_latency_ms"`
	FirstTokenMS int64 `json:"average_first_token_ms"`
	// CacheHitRate is the share of CacheableTokens, those that a cache could have held, that was read from one; null: there are none.
	CacheHitRate     *float64 `json:"cache_hit_rate"`
	CacheableTokens  int64    `json:"cacheable_tokens"`
	CacheWriteTokens int64    `json:"cache_write_tokens"`
	// SavedUSD is what the same calls would have cost without caches, beyond CostUSD, and SavedChargeUSD what the customer is told of
	// that, if it is not SavedUSD.
	SavedUSD       json.Number `json:"cache_saved_usd"`
	SavedChargeUSD json.Number `json:"cache_saved_charge_usd,omitempty"`
}

// usage returns the sums of the last days, today included. Days are in UTC.
func (b *Backend) usage(ctx context.Context, in UsageQuery) (Usage, error) {
	if in.Days < 1 || in.Days > 3660 {
		return Usage{}, fault.New(fault.Invalid, "days must be between 1 and 3660").At("days")
	}
	if !slices.Contains([]string{"", "model", "key", "day", "month"}, in.By) {
		return Usage{}, fault.New(fault.Invalid, "cannot group by %q; use model, key, day or month", in.By).At("by")
	}
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return Usage{}, err
	}
	rows, err := b.Usage.UsageByDay(ctx, a.ID, usage.DayOf(time.Now()).AddDate(0, 0, 1-in.Days))
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
		case "month":
			slot = UsageRow{Day: r.Start.Format("2006-01")}
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
		Units: decimal(s.UnitMilli, 3), CostUSD: decimal(int64(s.Cost), 9),
		CacheableTokens: s.Cacheable, CacheWriteTokens: s.Written, SavedUSD: json.Number(s.Saved.AppendJSON(nil)),
	}
	if share, known := s.Hits().Rate(); known {
		share = float64(int64(share*1000)) / 1000
		v.CacheHitRate = &share
	}
	if s.SavedMargin != 0 {
		v.SavedChargeUSD = json.Number(s.SavedCharge().AppendJSON(nil))
	}
	if s.Margin != 0 {
		v.ChargeUSD = decimal(int64(s.Charge()), 9)
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
	// Damage is what is damaged in the journal and not acknowledged. What it lost is in neither sum.
	Damage []usage.Damage `json:"journal_damage"`
	// Charges is how often calls counted against a budget, and Overspent where they passed a hard one.
	Charges   int                `json:"budget_charges"`
	Overspent []budget.Overspend `json:"overspent"`
}

// audit returns empty lists, not null, if nothing is wrong.
func (b *Backend) audit(ctx context.Context, _ Empty) (Audit, error) {
	differences, n, err := b.Usage.Audit(ctx)
	if err != nil {
		return Audit{}, err
	}
	damage, err := b.Usage.Damage() // after Audit, which reads the whole journal
	if err != nil {
		return Audit{}, err
	}
	var sweep budget.Sweep
	charges := 0
	// Audit has moved the journal into the database.
	err = b.Calls.EachCharged(ctx, func(s *usage.Settlement) error {
		charges += len(s.Terms.Budgets)
		sweep.Add(s)
		return nil
	})
	if err != nil {
		return Audit{}, err
	}
	return Audit{Compared: n, Differences: some(differences), Damage: some(damage), Charges: charges, Overspent: some(sweep.End())}, nil
}

// journalDamage returns what is damaged in the journal and not acknowledged.
func (b *Backend) journalDamage(context.Context, Empty) ([]usage.Damage, error) {
	list, err := b.Usage.Damage()
	return some(list), err
}

// journalAcknowledge notes that the actor has read the reports of damage.
func (b *Backend) journalAcknowledge(_ context.Context, in Target) ([]usage.Damage, error) {
	list, err := b.Usage.Acknowledge(in.Actor)
	return some(list), err
}

// journalParts returns the files of the journal. With journal.read, whoever makes a backup gets their content over the
// socket: the server may be another user than the one who owns the backup, and may write nowhere but to its data folder.
func (b *Backend) journalParts(ctx context.Context, _ Empty) ([]usage.Part, error) {
	list, err := b.Usage.JournalParts(ctx)
	return some(list), err
}

// JournalPiece is the argument of journal.read.
type JournalPiece struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"` // how many are wanted; the result may have fewer
}

// mostPiece bounds the result of journal.read, which grows by a third as JSON.
const mostPiece = 8 << 20

// journalRead returns a piece of a file of the journal.
func (b *Backend) journalRead(_ context.Context, in JournalPiece) ([]byte, error) {
	if in.Offset < 0 || in.Bytes < 0 {
		return nil, fault.New(fault.Invalid, "offset and bytes must not be negative")
	}
	p := make([]byte, min(in.Bytes, mostPiece))
	n, err := b.Usage.ReadJournal(in.Name, in.Offset, p)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "the journal has no file %q any more", in.Name)
	}
	return p[:n], err
}
