// Package feedback moves what the router expects of models by what callers say about answers, and by how calls end.
//
// Each account has one row for each model and kind of task that it used through the router: how many answers it called
// good and bad, how many calls there were, and in how many of them something went wrong. Points makes one number of the
// rows of all accounts, which the router adds to the model's quality. No account weighs more than a few votes in it, and
// what was said counts half as much a week later. The rows are in the database, so all nodes see the same; the router reads the
// result from memory. Nothing of a prompt or an answer is kept. See docs/providers/auto.md#feedback.
package feedback

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/finder"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

const (
	// maxAge is how long a call can be rated.
	maxAge = 7 * 24 * time.Hour
	// KeepVotes is how long a vote is kept, so that it can be changed and not be cast twice.
	KeepVotes = maxAge + 24*time.Hour

	// lookEvery is how often a node asks whether there is something new, and writes what it has counted.
	lookEvery = 2 * time.Second
	patience  = 5 * time.Second
	// restFactor and mostRest bound the cost of reading: a node waits that many times as long as its last reading took,
	// but not longer than that.
	restFactor = 20
	mostRest   = 10 * time.Second
	// mostUnwritten bounds the counts that wait for a database that does not answer. Further calls are not counted.
	mostUnwritten = 10_000
)

// Vote is what a caller says about one answer.
type Vote struct {
	AccountID string
	RequestID string // of the settlement
	At        time.Time
	Model     string
	Task      catalog.Task
	Good      bool
}

// Count is how calls of one account at a model ended.
type Count struct {
	AccountID string
	Model     string
	Task      catalog.Task
	Calls     int64
	Troubled  int64 // those of them that were cut, tried elsewhere, or whose tools failed
}

// Sum is what is known of a model at a kind of task, over all accounts. Amounts are in thousandths, and those of one
// account are bounded by MostVotes and MostCalls.
type Sum struct {
	Model    string
	Task     catalog.Task
	Accounts int64
	// Good and Bad are votes.
	Good, Bad       int64
	Calls, Troubled int64
}

// Store keeps votes and counts. Weeks are numbered as by WeekOf; a row of an earlier week counts half for each week
// since.
type Store interface {
	// CastVote adds a vote, or replaces the one that the account has cast on the call.
	CastVote(ctx context.Context, v Vote, week int64) error
	// AddCounts adds counts. They are in order and differ in account, model or task.
	AddCounts(ctx context.Context, counts []Count, week int64) error
	// FeedbackSums returns the sums in the order of model and task.
	FeedbackSums(ctx context.Context, week int64) ([]Sum, error)
	// FeedbackVersion returns a number that rises with each change.
	FeedbackVersion(ctx context.Context) (int64, error)
	// ForgetFeedback deletes what is known of a model, or of all if it is empty, and appends the audit entry.
	ForgetFeedback(ctx context.Context, model string, e account.Entry) error
}

// Finder finds the settlement of a call.
type Finder interface {
	Request(ctx context.Context, id string) (finder.Found, error)
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// On reports whether feedback is turned on. While it is not, Run does nothing. Nil: it is.
	On  func() bool
	Log *slog.Logger // default slog.Default()
}

// Feedback collects votes and counts, and holds the strengths that follow from them. It is safe for concurrent use.
type Feedback struct {
	store Store
	find  Finder
	on    func() bool
	log   *slog.Logger
	now   func() time.Time // replaced in tests

	strengths atomic.Pointer[routing.Strengths] // never nil
	wake      chan struct{}                     // makes Run look at once; holds at most one token

	mu        sync.Mutex // guards unwritten
	unwritten map[place]*tally

	// Only Run's goroutine uses these.
	version, week int64 // of the strengths; -1 before the first reading
	rest          time.Time
	trouble       health.Trouble
}

// place is what counts are kept by.
type place struct {
	account, model string
	task           catalog.Task
}

type tally struct{ calls, troubled int64 }

// New returns feedback that knows nothing until Run has read the store. Opts may be nil.
func New(store Store, find Finder, opts *Options) *Feedback {
	if opts == nil {
		opts = &Options{}
	}
	f := &Feedback{store: store, find: find, on: opts.On, log: cmp.Or(opts.Log, slog.Default()), now: time.Now, wake: make(chan struct{}, 1), unwritten: map[place]*tally{}, version: -1}
	if f.on == nil {
		f.on = func() bool { return true }
	}
	f.strengths.Store(&routing.Strengths{})
	return f
}

// Strengths returns what is known now. It costs an atomic load.
func (f *Feedback) Strengths() *routing.Strengths { return f.strengths.Load() }

// Rate notes what an account says about the answer to a request, whose id may be that of the completion. A second vote
// on the same call replaces the first. It returns a fault for calls that the account cannot rate.
func (f *Feedback) Rate(ctx context.Context, accountID, requestID string, good bool) (Vote, error) {
	found, err := f.find.Request(ctx, requestID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return Vote{}, err
	}
	now := f.now()
	for i := range found.Settled {
		s := &found.Settled[i]
		// A call of another account is unknown: whoever guesses ids must not learn that they exist.
		if s.AccountID != accountID || now.Sub(s.At) > maxAge {
			continue
		}
		task, ok := taskOf(s.Trace)
		if !ok {
			return Vote{}, fault.New(fault.Invalid, "The request %q named its model. Only calls whose model the router chose can be rated.", excerpt.Of(requestID, 100)).At("request_id")
		}
		v := Vote{AccountID: accountID, RequestID: s.ID, At: now.UTC().Truncate(time.Millisecond), Model: s.ModelUsed, Task: task, Good: good}
		if err := f.store.CastVote(ctx, v, WeekOf(now)); err != nil {
			return Vote{}, err
		}
		f.nudge()
		return v, nil
	}
	return Vote{}, fault.New(fault.NotFound, "No call of this account with the id %q ended within the last 7 days. One that has just ended is known after a second or two.", excerpt.Of(requestID, 100)).At("request_id")
}

// taskOf returns the kind of task of a call whose model the router chose, which is the first word of its reason. The
// reason is kept with the settlement, so a call can be rated on every node and after a restart.
func taskOf(w *usage.Trace) (catalog.Task, bool) {
	if w == nil || w.Reason == "" {
		return 0, false
	}
	end := strings.IndexAny(w.Reason, ",;")
	if end < 0 {
		end = len(w.Reason)
	}
	return catalog.ParseTask(w.Reason[:end])
}

// Settled counts how a call ended whose model the router chose. It takes a lock for a moment and waits for nothing.
func (f *Feedback) Settled(s usage.Settlement) {
	task, ok := taskOf(s.Trace)
	// A caller who hangs up says nothing about the model.
	if !ok || s.End == usage.EndHangUp {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	troubled := s.End == usage.EndCut || s.MCPFailed > 0
	answered := false
	for i := range s.Trace.Attempts {
		a := &s.Trace.Attempts[i]
		if a.Model == s.ModelUsed {
			answered = answered || a.Outcome == usage.Answered
			troubled = troubled || a.Outcome != usage.Answered
			continue
		}
		if a.Outcome != usage.Answered && firstOf(s.Trace.Attempts, i) {
			f.count(place{s.AccountID, a.Model, task}, 1)
		}
	}
	// A request that every model refused says nothing about the one that was tried last.
	if answered {
		n := int64(0)
		if troubled {
			n = 1
		}
		f.count(place{s.AccountID, s.ModelUsed, task}, n)
	}
}

// firstOf reports whether the attempt is the first one at its model.
func firstOf(attempts []usage.Attempt, i int) bool {
	return !slices.ContainsFunc(attempts[:i], func(a usage.Attempt) bool { return a.Model == attempts[i].Model })
}

// count adds one call. The caller holds mu.
func (f *Feedback) count(p place, troubled int64) {
	t := f.unwritten[p]
	if t == nil {
		if len(f.unwritten) >= mostUnwritten {
			return
		}
		t = &tally{}
		f.unwritten[p] = t
	}
	t.calls++
	t.troubled += troubled
}

// Rating is what is known of a model at a kind of task, for people.
type Rating struct {
	Model    string  `json:"model"`
	Task     string  `json:"task"`
	Points   float64 `json:"points"`
	Accounts int64   `json:"accounts"`
	// What counts of the votes and calls, after their age and the bounds of single accounts.
	Good     float64 `json:"good"`
	Bad      float64 `json:"bad"`
	Calls    float64 `json:"calls"`
	Troubled float64 `json:"troubled"`
}

// Ratings returns what is known, in the order of model and task.
func (f *Feedback) Ratings(ctx context.Context) ([]Rating, error) {
	sums, err := f.store.FeedbackSums(ctx, WeekOf(f.now()))
	if err != nil {
		return nil, err
	}
	list := make([]Rating, len(sums))
	for i := range sums {
		s := &sums[i]
		list[i] = Rating{s.Model, s.Task.String(), Points(s), s.Accounts, float64(s.Good) / unit, float64(s.Bad) / unit, float64(s.Calls) / unit, float64(s.Troubled) / unit}
	}
	return list, nil
}

// Reset forgets what is known of a model, or of all if it is empty. Other nodes follow within seconds.
func (f *Feedback) Reset(ctx context.Context, model, actor, reason string) error {
	detail := model
	if detail == "" {
		detail = "all models"
	}
	f.mu.Lock()
	for p := range f.unwritten {
		if model == "" || p.model == model {
			delete(f.unwritten, p)
		}
	}
	f.mu.Unlock()
	err := f.store.ForgetFeedback(ctx, model, account.Entry{At: f.now().UTC().Truncate(time.Millisecond), Actor: actor, Action: "router.reset", Detail: detail, Reason: reason})
	f.nudge()
	return err
}

// nudge makes Run look at once.
func (f *Feedback) nudge() { pace.Wake(f.wake) }
