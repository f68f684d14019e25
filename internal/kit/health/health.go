// Package health answers whether a server should be sent new work, and what an operator should know.
//
// A server is ready exactly if calls are answered there (docs/care/readiness.md). A problem that keeps no
// call from being answered is reported, and the server stays ready: otherwise a load balancer would take out servers
// that work, often all of them at the same time.
//
// A Checks has checks, each of which looks at one thing that the server depends on. Looking never blocks whoever
// asks: a look runs beside the question, once at a time, and if it does not end the answer says for how long.
// What is good or bad is decided by the package that owns the thing, in the Finding that it returns.
package health

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/kit/pace"
)

const (
	// fresh is for how long a finding is used again: whoever may ask must not be able to keep a database busy.
	fresh = time.Second
	// wait is how long a question waits for looks that are under way. Load balancers often give up after 3 seconds.
	wait = 2 * time.Second
	// patience is how long one look may take.
	patience = 3 * time.Second
	// overdue is after how long a look that has not ended, despite its patience, counts as failed: a disk that
	// hangs ends no system call.
	overdue = 10 * time.Second
	// every is how often Run looks.
	every = 5 * time.Second
)

// Finding is what a look has found. The zero value says that all is well now.
type Finding struct {
	// Failed says that something does not work. No new work should be sent here then, unless the check is Aside.
	Failed bool
	// Message is for everybody who can reach the server, so it has no details. It may be a remark on something
	// that has not failed.
	Message string
	// Err is the reason, for the log.
	Err error
	// Age is how old the facts are that the server goes by; 0 if they are from now.
	Age time.Duration
}

// Failure returns the finding of something that does not work, whose reason only the log gets.
func Failure(err error) Finding {
	return Finding{Failed: true, Message: "not available; the log says more", Err: err}
}

// Check is one thing to look at.
type Check struct {
	Name string
	// Look must not be nil. It should end with its context.
	Look func(ctx context.Context) Finding
	// Cheap says that a look costs nothing and waits for nothing. Its finding is never used again.
	Cheap bool
	// Aside says that calls are answered although what is looked at does not work: the server stays ready, and the
	// message says what is wrong. Holds is the exception: a look that does not end holds up calls as well.
	Aside, Holds bool
}

// Remark returns a check that never fails and may have something to say.
func Remark(name string, note func() string) Check {
	return Check{Name: name, Cheap: true, Look: func(context.Context) Finding { return Finding{Message: note()} }}
}

// Result is the outcome of a check, as JSON for whoever asks.
type Result struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"` // it does not keep the server from being ready
	Message string `json:"message,omitempty"`
	// Age is how old the facts are that the server goes by, in seconds.
	Age float64 `json:"age_seconds"`
}

// Checks is a list of checks. It is safe for concurrent use.
type Checks struct {
	checks  []*entry
	log     *slog.Logger
	looking sync.WaitGroup
}

// entry is a check and what is known of it.
type entry struct {
	Check

	mu      sync.Mutex
	looking bool
	began   time.Time     // when the look under way began, or the last one
	done    chan struct{} // closed when it ends; nil before the first
	ended   time.Time     // when the last look ended; zero before that
	last    Finding       // of it
}

// New returns a board. Log gets a line when a check fails and when it passes again.
func New(log *slog.Logger, checks ...Check) *Checks {
	b := &Checks{log: log}
	for _, c := range checks {
		b.checks = append(b.checks, &entry{Check: c})
	}
	return b
}

// Run looks at everything from time to time until ctx ends, so that the log and the metrics have what nobody asks
// for. Then it waits for looks that are under way, but not for those that hang.
func (b *Checks) Run(ctx context.Context) {
	for range pace.AtOnce(ctx, every) {
		b.Report(ctx)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.looking.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
	}
}

// Report returns the results of all checks, in their order, and whether the server should be sent new work. It
// looks again at what it has not looked at for a moment, and returns within about two seconds in any case.
func (b *Checks) Report(ctx context.Context) (results []Result, ready bool) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, e := range b.checks {
		e.mu.Lock()
		if !e.looking && (e.Cheap || e.ended.IsZero() || time.Since(e.ended) >= fresh) {
			e.looking, e.began, e.done = true, time.Now(), make(chan struct{})
			b.looking.Go(func() { b.look(e) })
		}
		e.mu.Unlock()
	}
	results, ready = make([]Result, 0, len(b.checks)), true
	for _, e := range b.checks {
		e.mu.Lock()
		done := e.done
		e.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		r := e.result(time.Now())
		results, ready = append(results, r), ready && r.OK
	}
	return results, ready
}

// look looks once.
func (b *Checks) look(e *entry) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found := e.Look(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.last
	e.looking, e.last, e.ended = false, found, time.Now()
	close(e.done)
	begins, ends := "not ready", "ready again"
	if e.Aside {
		begins, ends = "something is wrong, and calls are answered", "well again"
	}
	switch {
	case found.Failed && !was.Failed:
		b.log.Warn(begins, "check", e.Name, "error", reason(found))
	case !found.Failed && was.Failed:
		b.log.Info(ends, "check", e.Name)
	}
}

// reason returns what the log gets.
func reason(f Finding) string {
	if f.Err != nil {
		return f.Err.Error()
	}
	return f.Message
}

// result returns what is known now.
func (e *entry) result(now time.Time) Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := Result{Name: e.Name, OK: !e.last.Failed || e.Aside, Message: e.last.Message, Age: e.last.Age.Seconds()}
	if !e.looking {
		return r
	}
	// The look takes long. What was found before is still the best answer, for a while.
	taking := now.Sub(e.began)
	if since := now.Sub(e.ended); !e.ended.IsZero() {
		r.Age += since.Seconds()
	} else {
		r.Age = taking.Seconds()
	}
	if taking > overdue || e.ended.IsZero() {
		r.OK, r.Message = e.Aside && !e.Holds, fmt.Sprintf("no answer for %s", taking.Round(time.Second))
	}
	return r
}

// Results returns what the last report found, without looking.
func (b *Checks) Results() (results []Result, ready bool) {
	ready = true
	for _, e := range b.checks {
		r := e.result(time.Now())
		results, ready = append(results, r), ready && r.OK
	}
	return results, ready
}

// Age returns how old the facts of a check are, as the last report found it; 0 if there is no such check.
func (b *Checks) Age(name string) time.Duration {
	for _, e := range b.checks {
		if e.Name == name {
			return time.Duration(e.result(time.Now()).Age * float64(time.Second))
		}
	}
	return 0
}

// Unable returns the first check that keeps calls from being answered now, and false if there is none. It looks at what
// is cheap, takes what is known of the rest, and never waits.
func (b *Checks) Unable() (Result, bool) {
	for _, e := range b.checks {
		if !e.Cheap {
			// Before the first look nothing is known.
			if r := e.result(time.Now()); !r.OK && !e.never() {
				return r, true
			}
			continue
		}
		if f := e.Look(context.Background()); f.Failed && !e.Aside {
			return Result{Name: e.Name, Message: f.Message, Age: f.Age.Seconds()}, true
		}
	}
	return Result{}, false
}

// never reports whether no look has ended yet.
func (e *entry) never() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended.IsZero()
}
