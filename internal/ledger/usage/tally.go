package usage

import (
	"slices"
	"time"

	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/price"
)

// Tally is what a number of calls add up to, for people to look at. Sums is for the accounts; a Tally has percentiles.
type Tally struct {
	Calls      int64
	Prompt     int64
	Cached     int64 // part of Prompt
	Completion int64
	Reasoning  int64 // part of Completion
	UnitMilli  int64
	Written    int64 // part of Prompt: to a cache
	Cost       price.Nano
	Margin     price.Nano
	Unpriced   int64 // calls of models without a price that used something
	Caching
	// Took is how long the calls took that produced something, and First how long their first token took.
	Took, First Spread
}

// Add adds one settlement.
func (t *Tally) Add(r *Settlement) {
	t.Calls++
	t.Prompt += int64(r.Tokens.PromptTotal())
	t.Cached += int64(r.Tokens.Cached)
	t.Completion += int64(r.Tokens.CompletionTotal())
	t.Reasoning += int64(r.Tokens.Reasoning)
	t.UnitMilli += r.UnitMilli
	t.Written += int64(r.Tokens.CacheWritten())
	t.Caching.Merge(r.Caching)
	if r.Cost != nil {
		t.Cost += *r.Cost
		t.Margin += r.Margin
	} else if r.Unpriced() {
		t.Unpriced++
	}
	if r.Produced() {
		t.Took.Add(r.Latency.Milliseconds())
	}
	if r.HasFirst() {
		t.First.Add(r.FirstToken.Milliseconds())
	}
}

// Merge adds another tally.
func (t *Tally) Merge(o *Tally) {
	t.Calls += o.Calls
	t.Prompt += o.Prompt
	t.Cached += o.Cached
	t.Completion += o.Completion
	t.Reasoning += o.Reasoning
	t.UnitMilli += o.UnitMilli
	t.Written += o.Written
	t.Cost += o.Cost
	t.Margin += o.Margin
	t.Unpriced += o.Unpriced
	t.Caching.Merge(o.Caching)
	t.Took.Merge(&o.Took)
	t.First.Merge(&o.First)
}

// Produced reports whether the call produced something until its end, so that its latency says something.
func (s *Settlement) Produced() bool { return s.End == EndComplete || s.End == EndCut }

// HasFirst reports whether the call had a first token. It may have come in less than a millisecond.
func (s *Settlement) HasFirst() bool {
	return s.FirstToken.Milliseconds() > 0 || s.End == EndComplete && s.Tokens.CompletionTotal() > 0
}

// Kind is what calls have in common that are counted together in the activity of an account.
type Kind struct {
	KeyID  string
	Asked  string // the model that was asked for
	Model  string // the model that answered
	Status int
	End    End
}

// KindOf returns the kind of a call.
func KindOf(s *Settlement) Kind { return Kind{s.KeyID, s.ModelAsked, s.ModelUsed, s.Status, s.End} }

// Cell is the calls of one kind in one span of time.
type Cell struct {
	Start time.Time
	Kind
	Tally
}

// Narrow restricts what is read of an account's calls. Empty fields restrict nothing.
type Narrow struct {
	KeyID string
	// Model is one that was asked for or that answered.
	Model string
	// Served is the model that answered.
	Served string
	// Ends are the ways in which the calls ended.
	Ends []End
}

// Empty reports whether nothing is restricted.
func (n *Narrow) Empty() bool {
	return n.KeyID == "" && n.Model == "" && n.Served == "" && len(n.Ends) == 0
}

// Wants reports whether a call of a kind passes.
func (n *Narrow) Wants(k *Kind) bool {
	return (n.KeyID == "" || n.KeyID == k.KeyID) && (n.Model == "" || n.Model == k.Asked || n.Model == k.Model) && (n.Served == "" || n.Served == k.Model) && (len(n.Ends) == 0 || slices.Contains(n.Ends, k.End))
}

// For how long calls are counted by hour and by day: a week and a month, and those before to compare them with.
const (
	KeepHours = 15 * 24 * time.Hour
	KeepDays  = 62 * 24 * time.Hour
)

// CellQuery asks for an account's calls since From and before To, by steps of time. Step is some hours, or some whole days. To may be
// zero, and restricts nothing then.
type CellQuery struct {
	AccountID string
	From, To  time.Time
	Step      time.Duration
	Narrow
}

// Selection is some of an account's calls: those that began from From on and before To.
type Selection struct {
	AccountID string
	From, To  time.Time
	Narrow
}

// CallQuery asks for an account's calls from before a point back to From, newest first.
type CallQuery struct {
	AccountID string
	Before    Point
	From      time.Time
	Narrow
	// Limit is how many calls are returned, and Look how many are looked at to find them.
	Limit, Look int
}

// CallPage is the answer to a CallQuery.
type CallPage struct {
	Calls []Settlement
	// Next is where the calls continue that were not looked at; nil if there are none.
	Next *Point
}

// KeyName is how a key is called. A key that was deleted keeps its name.
type KeyName struct {
	ID      string
	Name    string // empty for a master key
	Master  bool
	Deleted bool
}

// Call returns what the metrics count of the settlement.
func (s *Settlement) Call() telemetry.Call {
	operation := telemetry.OperationChat
	switch s.Door {
	case DoorEmbeddings:
		operation = telemetry.OperationEmbeddings
	case DoorVideos:
		operation = telemetry.OperationVideo
	}
	c := telemetry.Call{
		Model: s.ModelUsed, Provider: s.Provider, Operation: operation, Door: s.Entrance(), Outcome: string(s.End), Took: s.Latency, FirstToken: s.FirstToken,
		Input: s.Tokens.Prompt, Output: s.Tokens.CompletionTotal(), Tags: s.Terms.Tags,
	}
	if s.Cost != nil {
		c.CostNano = int64(*s.Cost)
	}
	c.Unpriced = s.Unpriced()
	c.CacheRead, c.CacheWritten, c.Cacheable, c.SavedNano = int64(s.Tokens.Cached), int64(s.Tokens.CacheWritten()), s.Cacheable, int64(s.Saved)
	return c
}
