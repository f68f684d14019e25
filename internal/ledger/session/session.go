// Package session tells the owner of an account what its calls add up to by session and by tag.
//
// A session is the caller's own name of a run, such as one task of a coding agent; a tag is what the owner has marked calls with.
// The store adds up both in the transaction that stores a settlement, so that they agree with it. Which session and which tags a call
// has is decided at the door; see docs/api.md#sessions.
package session

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

const (
	// Keep is how long a session is kept after its last call.
	Keep = 90 * 24 * time.Hour
	// MaxModels is how many bytes the names of a session's models have at most, with commas between them. Further ones are left out.
	MaxModels = 500
	// MaxTags is how many different tags of an account are counted in a day. Calls with further ones count for OtherTag.
	MaxTags = 1000
	// OtherTag stands for the tags beyond a bound.
	OtherTag = "other=other"
	// MaxListed is how many sessions a page of a list has at most.
	MaxListed = 100
	// maxSeries is how many tags a report names.
	maxSeries = 50
)

// Sums is what calls add up to.
type Sums struct {
	Calls      int64
	Failed     int64 // calls whose reply was not complete, for any reason
	Prompt     int64
	Cached     int64 // part of Prompt
	Completion int64
	Cost       price.Nano
	Margin     price.Nano
	Unpriced   int64 // calls of models without a price that used something
	Written    int64 // part of Prompt: to a cache
	usage.Caching
}

// Add adds one settlement.
func (s *Sums) Add(r *usage.Settlement) {
	s.Calls++
	if r.End != usage.EndComplete {
		s.Failed++
	}
	s.Prompt += int64(r.Tokens.PromptTotal())
	s.Cached += int64(r.Tokens.Cached)
	s.Completion += int64(r.Tokens.CompletionTotal())
	s.Written += int64(r.Tokens.CacheWritten())
	s.Caching.Merge(r.Caching)
	if r.Cost != nil {
		s.Cost += *r.Cost
		s.Margin += r.Margin
	} else if r.Unpriced() {
		s.Unpriced++
	}
}

// Merge adds other sums.
func (s *Sums) Merge(o *Sums) {
	s.Calls += o.Calls
	s.Failed += o.Failed
	s.Prompt += o.Prompt
	s.Cached += o.Cached
	s.Completion += o.Completion
	s.Cost += o.Cost
	s.Margin += o.Margin
	s.Unpriced += o.Unpriced
	s.Written += o.Written
	s.Caching.Merge(o.Caching)
}

// Hits returns what the hit rate follows from.
func (s *Sums) Hits() usage.Hits { return usage.Hits{Read: s.Cached, Cacheable: s.Cacheable} }

// Correct adds the correction of a call's cost.
func (s *Sums) Correct(f *usage.Fix) {
	s.Cost += f.Cost
	s.Margin += f.Margin
	s.Saved += f.Saved
	s.SavedMargin += f.SavedMargin
	if f.Priced && f.Call.Unpriced() {
		s.Unpriced--
	}
}

// Charge returns what the customer is told that the calls cost; nil if no price is known.
func (s *Sums) Charge() *price.Nano {
	charge := s.Cost + s.Margin
	if charge == 0 && s.Unpriced > 0 {
		return nil
	}
	return &charge
}

// Session is what the calls of one session add up to.
type Session struct {
	ID     string
	KeyID  string // of the call that ended last
	First  time.Time
	Last   time.Time // when the last call ended
	Models []string
	Sums
	// Budget is the budget of each session with the least left, of all keys or of this one; nil: there is none.
	Budget *budget.Status
}

// Of returns the session of a call; empty if it has none.
func Of(r *usage.Settlement) string {
	if r.AccountID == "" {
		return ""
	}
	return r.Session()
}

// Query asks for a page of an account's sessions, newest first.
type Query struct {
	AccountID string
	KeyID     string // only sessions whose last call had the key; empty: all
	// Before and BeforeID are where the page before ended; zero: there is none.
	Before   time.Time
	BeforeID string
	Limit    int
}

// TagDay is what the calls with a tag add up to on a day.
type TagDay struct {
	Day time.Time
	Tag string
	Sums
}

// Store has the sums.
type Store interface {
	SessionSums(ctx context.Context, q Query) ([]Session, error)
	// SessionSum returns a session; nil if there is none.
	SessionSum(ctx context.Context, accountID, id string) (*Session, error)
	// TagDays returns an account's sums by day and tag since a day, in this order.
	TagDays(ctx context.Context, accountID string, from time.Time) ([]TagDay, error)
}

// Budgets says how budgets stand.
type Budgets interface {
	Statuses(ctx context.Context, a *account.Account, dues []budget.Due) ([]budget.Status, error)
}

// Log is what the owner of an account reads of its sessions and tags. It is safe for concurrent use.
type Log struct {
	store   Store
	flush   func(context.Context)
	budgets Budgets
}

// New returns a log. flush moves calls that have just ended to the store, if that can be done quickly. Flush and budgets may be nil.
func New(store Store, flush func(context.Context), budgets Budgets) *Log {
	if flush == nil {
		flush = func(context.Context) {}
	}
	return &Log{store, flush, budgets}
}

// visible returns the key whose sessions alone a caller sees; empty: it sees all. A sub-key sees those whose last call was its own.
func visible(a *account.Account, keyID string) string {
	if k := a.Key(keyID); k != nil && !k.Master {
		return keyID
	}
	return ""
}

// One returns a session for a caller with a key.
func (l *Log) One(ctx context.Context, a *account.Account, keyID, id string) (*Session, error) {
	l.flush(ctx)
	s, err := l.find(ctx, a, keyID, id)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, fault.New(fault.NotFound, "There is no session %q, or it is no longer kept. GET /v1/sessions lists those there are.", excerpt.Of(id, 100))
	}
	list := []Session{*s}
	err = l.addBudgets(ctx, a, list)
	return &list[0], err
}

// find returns a session that a caller may see, or nil.
func (l *Log) find(ctx context.Context, a *account.Account, keyID, id string) (*Session, error) {
	if id == "" || len(id) > usage.MaxSession {
		return nil, nil
	}
	s, err := l.store.SessionSum(ctx, a.ID, id)
	if only := visible(a, keyID); s != nil && only != "" && only != s.KeyID {
		return nil, err
	}
	return s, err
}

// List returns the sessions that a caller with a key may see, newest first: at most limit of those after the one with the id, which is
// empty for the first page. More reports whether others follow.
func (l *Log) List(ctx context.Context, a *account.Account, keyID, after string, limit int) (list []Session, more bool, err error) {
	l.flush(ctx)
	q := Query{AccountID: a.ID, KeyID: visible(a, keyID), Limit: limit + 1}
	if after != "" {
		last, err := l.find(ctx, a, keyID, after)
		if err != nil {
			return nil, false, err
		}
		if last == nil {
			return nil, false, fault.New(fault.Invalid, "after must be the id of a session in an earlier reply; got %q.", excerpt.Of(after, 100)).At("after")
		}
		q.Before, q.BeforeID = last.Last, last.ID
	}
	if list, err = l.store.SessionSums(ctx, q); err != nil {
		return nil, false, err
	}
	if more = len(list) > limit; more {
		list = list[:limit]
	}
	return list, more, l.addBudgets(ctx, a, list)
}

// addBudgets sets the budget of each session, with one question for all.
func (l *Log) addBudgets(ctx context.Context, a *account.Account, list []Session) error {
	var dues []budget.Due
	var of []int // the places of their sessions in the list
	for i := range a.Budgets {
		scope := a.Budgets[i].Scope
		if scope.Session == "" {
			continue
		}
		for k := range list {
			// The next call will most likely have the key of the last one.
			if scope.Key == "" || scope.Key == list[k].KeyID {
				dues, of = append(dues, budget.Due{Budget: &a.Budgets[i], Session: list[k].ID}), append(of, k)
			}
		}
	}
	if len(dues) == 0 || l.budgets == nil {
		return nil
	}
	all, err := l.budgets.Statuses(ctx, a, dues)
	if err != nil {
		return err
	}
	for i := range all {
		s := &list[of[i]]
		if s.Budget == nil || all[i].Left < s.Budget.Left {
			s.Budget = &all[i]
		}
	}
	return nil
}

// Tags returns what the calls of an account add up to since a day by day and tag, in this order. The tags with the highest cost are
// named; the others are added up as OtherTag.
func (l *Log) Tags(ctx context.Context, accountID string, from time.Time) ([]TagDay, error) {
	l.flush(ctx)
	days, err := l.store.TagDays(ctx, accountID, from)
	if err != nil {
		return nil, err
	}
	totals := map[string]*Sums{}
	for i := range days {
		if totals[days[i].Tag] == nil {
			totals[days[i].Tag] = &Sums{}
		}
		totals[days[i].Tag].Merge(&days[i].Sums)
	}
	if len(totals) <= maxSeries {
		return days, nil
	}
	names := make([]string, 0, len(totals))
	for name := range totals {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := totals[a], totals[b]
		return cmp.Or(cmp.Compare(y.Cost+y.Margin, x.Cost+x.Margin), cmp.Compare(y.Calls, x.Calls), strings.Compare(a, b))
	})
	named := map[string]bool{}
	for _, name := range names[:maxSeries-1] {
		named[name] = true
	}
	return folded(days, named), nil
}

// ByCost adds up the days of each tag. The tag that costs most comes first, and OtherTag is the last.
func ByCost(days []TagDay) []TagDay {
	var out []TagDay
	at := map[string]int{}
	for i := range days {
		k, ok := at[days[i].Tag]
		if !ok {
			at[days[i].Tag] = len(out)
			out = append(out, days[i])
			continue
		}
		out[k].Merge(&days[i].Sums)
	}
	rest := func(d *TagDay) int {
		if d.Tag == OtherTag {
			return 1
		}
		return 0
	}
	slices.SortFunc(out, func(a, b TagDay) int {
		return cmp.Or(cmp.Compare(rest(&a), rest(&b)), cmp.Compare(b.Cost+b.Margin, a.Cost+a.Margin), cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Tag, b.Tag))
	})
	return out
}

// folded adds up the tags of each day that are not named.
func folded(days []TagDay, named map[string]bool) (out []TagDay) {
	var rest *TagDay
	end := func() {
		if rest != nil {
			out, rest = append(out, *rest), nil
		}
	}
	for i := range days {
		d := &days[i]
		if rest != nil && !rest.Day.Equal(d.Day) {
			end()
		}
		switch {
		case named[d.Tag] && d.Tag != OtherTag:
			out = append(out, *d)
		case rest == nil:
			rest = &TagDay{Day: d.Day, Tag: OtherTag, Sums: d.Sums}
		default:
			rest.Merge(&d.Sums)
		}
	}
	end()
	return out
}
