package video

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/admission"
	"sluice/internal/auth"
	"sluice/internal/blob"
	"sluice/internal/fault"
	"sluice/internal/idempotency"
	"sluice/internal/usage"
)

// Files is where finished videos lie.
type Files interface {
	Put(ctx context.Context, name string, fill func(io.Writer) error) (blob.Info, error)
	Open(ctx context.Context, name string) (io.ReadSeekCloser, error)
	Delete(ctx context.Context, name string) error
	Sweep(before time.Time) error
}

// ErrGone is what a Store says of a job that it does not have.
var ErrGone = errors.New("there is no such job")

// Settings is what a reload may change.
type Settings struct {
	Model   string       // its id
	Tier    account.Plan // the least plan that may create videos
	Plans   account.Plans
	Origin  string // that links begin with
	Workers int
	Lease   time.Duration // how long a claim lasts without a sign of life
	Keep    time.Duration // how long a job has to finish, and how long it is kept then

	FileBytes    int64 // of one file at most
	AccountBytes int64 // of an account's files, from which on it may create no more

	// Engine makes new videos; Engines are all that may have begun some.
	Engine  Engine
	Engines []Engine
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	Log *slog.Logger // default slog.Default()
	// Settled is told of every settlement that was stored.
	Settled func(*usage.Settlement)
}

// Line is the way of every video job.
type Line struct {
	gate    *admission.Gate
	store   Store
	files   Files
	node    string
	secret  []byte // that links are signed with
	log     *slog.Logger
	settled func(*usage.Settlement)

	settings atomic.Pointer[Settings]
	wake     chan struct{} // told that there may be work

	mu      sync.Mutex
	running map[string]context.CancelCauseFunc // the jobs at work here
}

// New returns a line. Node names this process among those that share the store, and stays the same when
// it starts again: what it was at when it died is then its own to take up.
func New(ctx context.Context, gate *admission.Gate, store Store, files Files, node string, s Settings, opts *Options) (*Line, error) {
	if opts == nil {
		opts = &Options{}
	}
	l := &Line{gate: gate, store: store, files: files, node: node, log: opts.Log, settled: opts.Settled, wake: make(chan struct{}, 1), running: map[string]context.CancelCauseFunc{}}
	if l.log == nil {
		l.log = slog.Default()
	}
	if l.settled == nil {
		l.settled = func(*usage.Settlement) {}
	}
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails: crypto/rand
	var err error
	if l.secret, err = store.Secret(ctx, "video links", fresh); err != nil {
		return nil, err
	}
	l.Apply(s)
	return l, nil
}

// Apply makes the settings those of every job that is created or claimed from now on.
func (l *Line) Apply(s Settings) {
	l.settings.Store(&s)
	l.rouse()
}

// Model is the id of the video model.
func (l *Line) Model() string { return l.settings.Load().Model }

// Order is a request for a job, and who makes it.
type Order struct {
	Caller  auth.Caller
	Limits  account.Limits // those in force for the caller's account
	Request Request
	// Repeat is a hash of the caller's Idempotency-Key, Body one of the request's body; nil: there is none.
	Repeat, Body []byte
}

// Create admits and keeps a job. Repeated reports that it is an earlier one, created with the same
// Idempotency-Key. The standing is that after the job was counted; where an error comes before the
// allowance is looked at, it says nothing.
func (l *Line) Create(ctx context.Context, o Order) (j *Job, standing admission.Standing, repeated bool, err error) {
	s := l.settings.Load()
	demand := &admission.Demand{Caller: o.Caller, Limits: o.Limits, Model: admission.Model{ID: s.Model, Tier: s.Tier, RequestMilli: o.Request.costMilli()}}
	if o.Repeat != nil {
		first, err := l.store.FindRepeat(ctx, o.Caller.Account.ID, o.Repeat)
		if err != nil {
			return nil, l.gate.Standing(demand), false, err
		}
		if first != nil {
			return l.repeat(first, o, demand)
		}
	}
	if standing, err := l.gate.Access(demand); err != nil {
		return nil, standing, false, err
	}
	now := time.Now().Truncate(time.Millisecond).UTC() // as the store keeps it
	admitted, standing, err := l.gate.AdmitJob(demand)
	if f, never := errors.AsType[*fault.Fault](err); never && f.Final {
		f.Message = fmt.Sprintf("A video of this size counts as %g requests and the whole allowance is %d a minute, so it can never pass. Choose a smaller size, or a higher plan.",
			float64(demand.Model.RequestMilli)/1000, int64(o.Limits.RequestsPerMinute))
	}
	if err != nil {
		return nil, standing, false, err
	}
	j = &Job{
		ID: newID("job_"), AccountID: o.Caller.Account.ID, KeyID: o.Caller.KeyID, Plan: o.Caller.Account.Plan, Tier: s.Tier, Request: o.Request,
		CostMilli: demand.Model.RequestMilli, Repeat: o.Repeat, Body: o.Body, Status: Queued, CreatedAt: now, ExpiresAt: now.Add(s.Keep),
	}
	first, err := l.store.CreateVideo(ctx, j, func(have Load) error { return s.allow(o.Caller.Account.Plan, have, now) })
	if err != nil {
		admitted.GiveBack() // what is refused costs nothing
		return nil, l.gate.Standing(demand), false, err
	}
	if first != nil { // another request with the key was quicker
		if j, err = first.again(o); err != nil {
			admitted.GiveBack()
			return nil, l.gate.Standing(demand), false, err
		}
		admitted.Repeated()
		return j, l.gate.Standing(demand), true, nil
	}
	l.rouse()
	return j, standing, false, nil
}

// repeat answers a request that has the Idempotency-Key of an earlier one with that one's job. It costs
// one request.
func (l *Line) repeat(first *Job, o Order, demand *admission.Demand) (*Job, admission.Standing, bool, error) {
	j, err := first.again(o)
	if err != nil {
		return nil, l.gate.Standing(demand), false, err
	}
	_, standing, err := l.gate.AdmitRequest(demand)
	if err != nil {
		return nil, standing, false, err
	}
	return j, standing, true, nil
}

// again is the job as its creation was answered, for a repeat of that request.
func (j *Job) again(o Order) (*Job, error) {
	if !bytes.Equal(j.Body, o.Body) {
		return nil, idempotency.OtherBody()
	}
	since := j.CreatedAt
	if j.Status.Final() {
		since = j.FinishedAt
	}
	return &Job{
		ID: j.ID, AccountID: j.AccountID, Request: j.Request, Status: Queued, CreatedAt: j.CreatedAt,
		ExpiresAt: j.CreatedAt.Add(j.ExpiresAt.Sub(since)),
	}, nil
}

// allow is whether an account may have one job more.
func (s *Settings) allow(p account.Plan, have Load, now time.Time) error {
	if most := s.Plans[p].UnfinishedVideos; most != account.Unlimited && int64(have.Unfinished) >= int64(most) {
		f := fault.New(fault.RateLimited, "%d video jobs of this account are unfinished, and %d is the most its plan allows. One of them must end first.", have.Unfinished, int64(most)).After(5 * time.Second)
		f.Final = most == 0
		return f
	}
	if have.Bytes >= s.AccountBytes {
		return fault.New(fault.RateLimited, "The videos of this account take %d MiB, and %d MiB is the most. The next of them expires in %s.",
			have.Bytes>>20, s.AccountBytes>>20, max(0, have.NextExpiry.Sub(now)).Round(time.Second)).After(max(time.Second, have.NextExpiry.Sub(now)))
	}
	return nil
}

// Find returns a job of the account.
func (l *Line) Find(ctx context.Context, accountID, id string) (*Job, error) {
	j, err := l.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if j == nil || j.ID != id || !l.visible(j, accountID) {
		return nil, noJob(id)
	}
	return j, nil
}

func noJob(id string) error {
	return fault.New(fault.NotFound, "There is no video job %q. It may have expired.", clip([]byte(id)))
}

// find looks for what an id may name. No store is asked for what cannot be one.
func (l *Line) find(ctx context.Context, id string) (*Job, error) {
	if strings.ContainsFunc(id, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		return nil, nil
	}
	return l.store.FindVideo(ctx, id)
}

// visible reports whether the job is one of the account's that has not expired.
func (l *Line) visible(j *Job, accountID string) bool {
	return j.AccountID == accountID && !(j.Status.Final() && !time.Now().Before(j.ExpiresAt))
}

// List returns jobs of the account, newest first, from behind one of them on, and whether there are more.
func (l *Line) List(ctx context.Context, accountID, after string, limit int) (jobs []Job, more bool, err error) {
	var behind *Job
	if after != "" {
		if behind, err = l.Find(ctx, accountID, after); fault.Is(err, fault.NotFound) {
			return nil, false, fault.New(fault.Invalid, "after must be the id of one of your video jobs; there is no %q.", clip([]byte(after))).At("after")
		}
		if err != nil {
			return nil, false, err
		}
	}
	jobs, err = l.store.Videos(ctx, accountID, behind, limit+1)
	if err != nil {
		return nil, false, err
	}
	if more = len(jobs) > limit; more {
		jobs = jobs[:limit]
	}
	return jobs, more, nil
}

// Cancel ends a job of the account that is not finished. One that never ran costs no units.
func (l *Line) Cancel(ctx context.Context, accountID, id string) (*Job, error) {
	if j, err := l.Find(ctx, accountID, id); err != nil || j.Status.Final() {
		return j, err
	}
	var now Job
	j, err := l.change(ctx, id, func(j *Job, s *Settings) error {
		if now = *j; j.Status.Final() {
			return errFinal
		}
		j.finish(Cancelled, time.Now(), s.Keep)
		return nil
	})
	if errors.Is(err, errFinal) {
		return &now, nil // it ended in this moment
	}
	if errors.Is(err, ErrGone) {
		return nil, noJob(id)
	}
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	stop := l.running[id]
	l.mu.Unlock()
	if stop != nil {
		stop(ErrCancelled)
	}
	return j, nil
}

var errFinal = errors.New("the job is finished")

// change applies a rule to a job. Where that finishes it, it is settled in the same transaction, and
// whoever counts is told.
func (l *Line) change(ctx context.Context, id string, rule func(*Job, *Settings) error) (*Job, error) {
	s := l.settings.Load()
	var settled *usage.Settlement
	j, err := l.store.ChangeVideo(ctx, id, func(j *Job) (*usage.Settlement, error) {
		was := j.Status
		if err := rule(j, s); err != nil {
			return nil, err
		}
		if settled = nil; !was.Final() && j.Status.Final() {
			settled = j.settlement()
		}
		return settled, nil
	})
	if err != nil {
		return nil, err
	}
	if settled != nil {
		l.settled(settled)
	}
	return j, nil
}

// rouse tells Run that there may be work.
func (l *Line) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// newID is 130 random bits behind a prefix.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
