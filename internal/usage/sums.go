package usage

import "time"

// Sums is what a number of settlements come to. They can be added.
type Sums struct {
	Requests     int64 `json:"requests"` // settlements
	Failed       int64 `json:"failed"`   // those whose reply was not complete
	Prompt       int64 `json:"prompt_tokens"`
	Cached       int64 `json:"cached_tokens"` // part of prompt_tokens
	Completion   int64 `json:"completion_tokens"`
	Reasoning    int64 `json:"reasoning_tokens"` // part of completion_tokens
	RequestMilli int64 `json:"request_milli"`
	UnitMilli    int64 `json:"unit_milli"`
	CostMicro    int64 `json:"cost_micro"`
	Unpriced     int64 `json:"unpriced"`   // settlements of models without a price, not in cost_micro
	LatencyMS    int64 `json:"latency_ms"` // of those that first_tokens counts: the same calls as first_token_ms
	FirstMS      int64 `json:"first_token_ms"`
	First        int64 `json:"first_tokens"` // settlements with a first token
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
	if r.CostMicro != nil {
		s.CostMicro += *r.CostMicro
	} else {
		s.Unpriced++
	}
	if first := r.FirstToken.Milliseconds(); first > 0 { // as it is stored
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
	s.CostMicro += o.CostMicro
	s.Unpriced += o.Unpriced
	s.LatencyMS += o.LatencyMS
	s.FirstMS += o.FirstMS
	s.First += o.First
}

// Slot is what settlements are added up by.
type Slot struct {
	AccountID string
	KeyID     string
	Model     string // the one that answered
	Start     time.Time
}

// Row is the sums of one slot.
type Row struct {
	Slot
	Sums
}

// HourOf and DayOf are the slots' beginnings, in UTC.
func HourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// DayOf is the day a time belongs to.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// Difference is an account's day on which rows and sums disagree.
type Difference struct {
	AccountID string    `json:"account"`
	Day       time.Time `json:"day"`
	What      string    `json:"what"` // which sums
	Rows      Sums      `json:"rows"` // recounted from the settlements
	Sums      Sums      `json:"sums"` // as added up along the way
}
