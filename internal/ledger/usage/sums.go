package usage

import (
	"time"

	"sluice/internal/ledger/price"
)

// Sums is the total of a number of settlements. The store adds up settlements with Add when it
// stores them, and the audit recounts them from the rows, so a change here must be made in the SQL of
// the audit as well. JSON names are part of the output of commands.
type Sums struct {
	Requests     int64      `json:"requests"` // settlements
	Failed       int64      `json:"failed"`   // settlements whose reply was not complete, for any reason
	Prompt       int64      `json:"prompt_tokens"`
	Cached       int64      `json:"cached_tokens"` // part of prompt_tokens
	Completion   int64      `json:"completion_tokens"`
	Reasoning    int64      `json:"reasoning_tokens"` // part of completion_tokens
	RequestMilli int64      `json:"request_milli"`
	UnitMilli    int64      `json:"unit_milli"`
	Written      int64      `json:"cache_write_tokens"` // part of prompt_tokens
	Cost         price.Nano `json:"cost_nano"`
	Margin       price.Nano `json:"margin_nano"`
	Unpriced     int64      `json:"unpriced"`   // settlements without a cost, not in cost_nano; a Tally leaves out those that used nothing
	LatencyMS    int64      `json:"latency_ms"` // of the calls in first_tokens only, so that both means are of the same calls
	FirstMS      int64      `json:"first_token_ms"`
	First        int64      `json:"first_tokens"` // settlements with a first token
	Caching
}

// Add adds one settlement.
func (s *Sums) Add(r *Settlement) {
	s.Requests++
	if r.End != EndComplete {
		s.Failed++
	}
	s.Prompt += int64(r.Tokens.PromptTotal())
	s.Cached += int64(r.Tokens.Cached)
	s.Completion += int64(r.Tokens.CompletionTotal())
	s.Reasoning += int64(r.Tokens.Reasoning)
	s.RequestMilli += r.RequestMilli
	s.UnitMilli += r.UnitMilli
	s.Written += int64(r.Tokens.CacheWritten())
	s.Caching.Merge(r.Caching)
	if r.Cost != nil {
		s.Cost += *r.Cost
		s.Margin += r.Margin
	} else {
		s.Unpriced++
	}
	if first := r.FirstToken.Milliseconds(); first > 0 { // in whole milliseconds, as it is stored: the audit sees no other
		s.LatencyMS += r.Latency.Milliseconds()
		s.FirstMS += first
		s.First++
	}
}

// Merge adds other sums.
func (s *Sums) Merge(o Sums) {
	s.Requests += o.Requests
	s.Failed += o.Failed
	s.Prompt += o.Prompt
	s.Cached += o.Cached
	s.Completion += o.Completion
	s.Reasoning += o.Reasoning
	s.RequestMilli += o.RequestMilli
	s.UnitMilli += o.UnitMilli
	s.Written += o.Written
	s.Cost += o.Cost
	s.Margin += o.Margin
	s.Unpriced += o.Unpriced
	s.LatencyMS += o.LatencyMS
	s.FirstMS += o.FirstMS
	s.First += o.First
	s.Caching.Merge(o.Caching)
}

// Slot is the key that settlements are added up by.
type Slot struct {
	AccountID string
	KeyID     string
	Model     string    // the model that answered
	Start     time.Time // of an hour or a day, UTC; see HourOf and DayOf
}

// Row holds the sums of one slot. Fields that a query does not group by are empty.
type Row struct {
	Slot
	Sums
}

// ServedSlot is the key that the settlements of all accounts are added up by for the operator.
type ServedSlot struct {
	Start    time.Time // of a day, UTC
	Provider string
	Model    string // the model that answered
}

// ServedRow holds the sums of one such slot.
type ServedRow struct {
	ServedSlot
	Sums
}

// HourOf returns the start of the hour that t belongs to, in UTC.
func HourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// DayOf returns the start of the day that t belongs to, in UTC. Truncate counts from a midnight in
// UTC, and Go's days have no leap seconds, so multiples of 24 hours are days.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// Difference is one day of an account on which the settlements and a stored sum disagree.
type Difference struct {
	AccountID string    `json:"account"`
	Day       time.Time `json:"day"`
	What      string    `json:"what"` // which stored sum, or which settlement of the journal is missing
	Rows      Sums      `json:"rows"` // recounted from the settlements
	Sums      Sums      `json:"sums"` // as stored
}
