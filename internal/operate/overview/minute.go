// Package overview keeps what the service did in the last three hours, minute by minute, for the people who watch it.
//
// Each node counts its own calls, from settlements that have reached the database, and samples its gauges; nothing here
// runs while a call is served. The minutes are kept in memory and, where several nodes share a database, stored there,
// so that every node can show all of them. What customers consumed is in package usage, and what machines watch is in
// the metrics; this is for people.
package overview

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/routing"
)

const (
	// Kept is how many minutes are kept.
	Kept = 180
	// mostAccounts is how many accounts are told apart while a minute lasts, and keptAccounts how many of them are
	// kept when it is over: those that did most.
	mostAccounts = 10_000
	keptAccounts = 50
	// mostTargets is how many targets have figures of their own.
	mostTargets = 500
)

// Minute is what one node saw in one minute.
type Minute struct {
	At time.Time `json:"at"` // its beginning
	// Calls that ended, those of them that failed or were cut off, and requests that a limit refused.
	Calls   int64 `json:"calls,omitempty"`
	Failed  int64 `json:"failed,omitempty"`
	Refused int64 `json:"refused,omitempty"`
	// Tokens of the calls.
	Prompt     int64 `json:"prompt,omitempty"`
	Completion int64 `json:"completion,omitempty"`
	// How long calls took to their end, and to their first token.
	Took  Times `json:"took,omitempty"`
	First Times `json:"first,omitempty"`
	// The most that were seen in the minute: calls under way, open streams, and settlements waiting in the journal.
	Running int64 `json:"running,omitempty"`
	Streams int64 `json:"streams,omitempty"`
	Journal int64 `json:"journal,omitempty"`
	// Accounts are what accounts did, by their ids.
	Accounts map[string]Load `json:"accounts,omitempty"`
	// Targets are what targets did, by their names.
	Targets map[string]Target `json:"targets,omitempty"`
	// Models are what models did, by their ids, and Upstreams how often providers could be called.
	Models    map[string]Span `json:"models,omitempty"`
	Upstreams map[string]Span `json:"upstreams,omitempty"`
}

// Load is what an account did in a minute.
type Load struct {
	Calls  int64 `json:"calls,omitempty"`
	Failed int64 `json:"failed,omitempty"`
	Tokens int64 `json:"tokens,omitempty"`
}

// Target is what a target did in a minute. WaitedMS is the sum of the times to the first content.
type Target struct {
	Answered int64 `json:"answered,omitempty"`
	Failed   int64 `json:"failed,omitempty"`
	WaitedMS int64 `json:"waited_ms,omitempty"`
}

// targetName names a target in Minute.Targets.
func targetName(s *routing.TargetHealth) string {
	name := s.Provider + "/" + s.Upstream + " " + s.Key
	if s.Replica != "" {
		name += " " + s.Replica
	}
	return name
}

// settled counts a call that ended in the minute.
func (m *Minute) settled(s *usage.Settlement) {
	failed, tokens := int64(0), int64(s.Tokens.Total())
	if s.End == usage.EndFailed || s.End == usage.EndCut {
		failed = 1
	}
	m.Calls++
	m.Failed += failed
	m.Prompt += int64(s.Tokens.Prompt + s.Tokens.Cached)
	m.Completion += int64(s.Tokens.CompletionTotal())
	m.Took.add(s.Latency)
	if s.FirstToken > 0 {
		m.First.add(s.FirstToken)
	}
	// Maps are bounded, because other nodes read the whole minute. What is beyond a bound still counts in the sums.
	if span, known := m.Models[s.ModelUsed]; known || len(m.Models) < mostModels {
		span.Settled(s)
		put(&m.Models, s.ModelUsed, span)
	}
	if l, known := m.Accounts[s.AccountID]; known || len(m.Accounts) < mostAccounts {
		l.add(&Load{1, failed, tokens})
		put(&m.Accounts, s.AccountID, l)
	}
}

// end drops the accounts that did little, once the minute is over.
func (m *Minute) end() {
	if len(m.Accounts) <= keptAccounts {
		return
	}
	ids := slices.SortedFunc(maps.Keys(m.Accounts), func(a, b string) int {
		x, y := m.Accounts[a], m.Accounts[b]
		return -x.compare(y)
	})
	for _, id := range ids[keptAccounts:] {
		delete(m.Accounts, id)
	}
}

// compare orders loads by their calls, then by their tokens.
func (l Load) compare(other Load) int {
	return cmp.Or(cmp.Compare(l.Calls, other.Calls), cmp.Compare(l.Tokens, other.Tokens))
}

// add adds another load to l.
func (l *Load) add(o *Load) {
	*l = Load{l.Calls + o.Calls, l.Failed + o.Failed, l.Tokens + o.Tokens}
}

// add adds what a target did in another time to t.
func (t *Target) add(o *Target) {
	*t = Target{t.Answered + o.Answered, t.Failed + o.Failed, t.WaitedMS + o.WaitedMS}
}

// clone returns a copy that shares nothing with m.
func (m *Minute) clone() Minute {
	c := *m
	c.Took, c.First = slices.Clone(m.Took), slices.Clone(m.First)
	c.Accounts, c.Targets = maps.Clone(m.Accounts), maps.Clone(m.Targets)
	c.Models, c.Upstreams = cloneSpans(m.Models), cloneSpans(m.Upstreams)
	return c
}

// merge adds what another node saw in the same minute.
func (m *Minute) merge(o *Minute) {
	m.Calls += o.Calls
	m.Failed += o.Failed
	m.Refused += o.Refused
	m.Prompt += o.Prompt
	m.Completion += o.Completion
	m.Took.merge(o.Took)
	m.First.merge(o.First)
	m.Running += o.Running
	m.Streams += o.Streams
	m.Journal += o.Journal
	mergeMaps(&m.Accounts, o.Accounts, (*Load).add)
	mergeMaps(&m.Targets, o.Targets, (*Target).add)
	mergeMaps(&m.Models, o.Models, (*Span).Merge)
	mergeMaps(&m.Upstreams, o.Upstreams, (*Span).Merge)
}

// mergeMaps adds figures to those of the same name.
func mergeMaps[T any](to *map[string]T, from map[string]T, add func(sum, x *T)) {
	for name, x := range from {
		sum := (*to)[name]
		add(&sum, &x)
		put(to, name, sum)
	}
}

// put sets an entry of a map that may not exist yet.
func put[T any](m *map[string]T, name string, x T) {
	if *m == nil {
		*m = map[string]T{}
	}
	(*m)[name] = x
}

// Times counts durations in classes: the first up to a millisecond, and each further one up to √2 of the one before.
// The last ends at about three hours.
type Times []int64

const mostClasses = 48

// add counts a duration. The slice grows only as far as the longest one, since most are short.
func (t *Times) add(d time.Duration) {
	class := 0
	if ms := float64(d) / float64(time.Millisecond); ms > 1 {
		class = min(int(math.Ceil(2*math.Log2(ms))), mostClasses-1)
	}
	for len(*t) <= class {
		*t = append(*t, 0)
	}
	(*t)[class]++
}

// merge adds the counts of another slice, which may be longer.
func (t *Times) merge(o Times) {
	for i, n := range o {
		if i == len(*t) {
			*t = append(*t, 0)
		}
		(*t)[i] += n
	}
}

// Quantile returns the time that a share of the durations did not exceed, to about a fifth; 0 if there are none. Within a
// class they are taken to be spread evenly on a logarithmic scale.
func (t Times) Quantile(share float64) time.Duration {
	sum := int64(0)
	for _, n := range t {
		sum += n
	}
	left := int64(math.Ceil(share * float64(sum)))
	if sum == 0 {
		return 0
	}
	for class, n := range t {
		if left -= n; left <= 0 {
			within := (float64(left+n) - 0.5) / float64(n)
			return time.Duration(math.Exp2((float64(class)-1+within)/2) * float64(time.Millisecond)).Round(time.Millisecond / 10)
		}
	}
	return 0
}
