package video

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/idempotency"
	"sluice/internal/video/blob"
)

// Files stores finished videos. See package blob.
type Files interface {
	Put(ctx context.Context, name string, fill func(io.Writer) error) (blob.Info, error)
	Open(ctx context.Context, name string) (io.ReadSeekCloser, error)
	Delete(ctx context.Context, name string) error
	Sweep(before time.Time) error
}

// JobStore keeps jobs for those who create them and ask for them. Each method is one transaction.
type JobStore interface {
	// CreateVideo adds a job if allow returns nil, given what the account has. No other job of the account is
	// added meanwhile. If the account has a job with the same Repeat, that job is returned instead.
	CreateVideo(ctx context.Context, j *Job, allow func(Load) error) (*Job, error)
	// FindVideo returns a job by its id or by the id of its generation, or nil.
	FindVideo(ctx context.Context, id string) (*Job, error)
	// FindRepeat returns the account's job with that Repeat, or nil.
	FindRepeat(ctx context.Context, accountID string, repeat []byte) (*Job, error)
	// Videos returns at most most jobs of an account, newest first, starting after behind. If behind is nil, they
	// start with the newest.
	Videos(ctx context.Context, accountID string, behind *Job, most int) ([]Job, error)
}

// ErrGone is returned by a Store for a job that does not exist.
var ErrGone = errors.New("there is no such job")

// Settings are the settings that a reload may change.
type Settings struct {
	Model   string       // id of the video model
	Tier    account.Plan // the lowest plan that may create videos
	Plans   account.Plans
	Origin  string        // scheme and host that links begin with
	Workers int           // jobs that this process renders at the same time
	Lease   time.Duration // how long a claim lasts without being renewed
	Keep    time.Duration // how long a job may take, and how long it is kept afterwards

	FileBytes    int64 // maximum size of one file
	AccountBytes int64 // an account whose files reach this size may not create more

	// Engine renders new videos. Engines are all configured engines: a job continues with the one
	// that it was started with.
	Engine  Engine
	Engines []Engine
	Markup  *price.Markup // what customers are told in place of costs; nil: costs
}

// Options are the optional settings of New. The zero value is the default.
type Options struct {
	Log *slog.Logger // default slog.Default()
	// Closed returns the fault that new jobs of the model get because of maintenance, or nil; nil: there is none.
	Closed func(model string, now time.Time) error
	// Attest makes the receipt of a settlement that has one, before it is stored. If nil, jobs have no receipts.
	Attest func(ctx context.Context, s *usage.Settlement) error
	// Settled is called for every settlement after it is stored. It may be nil.
	Settled func(*usage.Settlement)
	// Budgets keeps jobs within the budgets of their accounts. If nil, there are none.
	Budgets *budget.Ledger
}

// Line runs all video jobs of a process: it creates, renders, lists, cancels and removes them. It
// is safe for concurrent use.
//
// A job is created by Create, claimed and rendered by Run on any node, and finished by one
// transaction that also settles it. Every change is a rule that is applied under the lock of the
// job's row, and refused if the job is no longer in the state that the rule expects.
type Line struct {
	gate    *admission.Gate
	jobs    JobStore
	queue   QueueStore
	expired ExpiryStore
	files   Files
	node    string
	secret  []byte // signs links; the same on all nodes
	log     *slog.Logger
	closed  func(model string, now time.Time) error
	settled func(*usage.Settlement)
	attest  func(context.Context, *usage.Settlement) error // nil: jobs have no receipts
	budgets *budget.Ledger                                 // nil: there are none

	settings atomic.Pointer[Settings]
	wake     chan struct{} // signals that there may be work; holds at most one token

	// mu guards running, which holds how to stop each job that this process is rendering, and broken.
	mu      sync.Mutex
	running map[string]context.CancelCauseFunc
	broken  map[string]bool // the generations whose files were found to be damaged

	state queueState // what the metrics know
}

// New returns a line. The node is the name of this process among those that share the store. It
// must stay the same across restarts, so that the process can take back the jobs that it was
// rendering when it died.
func New(ctx context.Context, gate *admission.Gate, store Store, files Files, node string, s Settings, opts *Options) (*Line, error) {
	if opts == nil {
		opts = &Options{}
	}
	l := &Line{gate: gate, jobs: store, queue: store, expired: store, files: files, node: node, log: opts.Log, closed: opts.Closed, settled: opts.Settled, attest: opts.Attest, budgets: opts.Budgets, wake: make(chan struct{}, 1), running: map[string]context.CancelCauseFunc{}, broken: map[string]bool{}}
	if l.log == nil {
		l.log = slog.Default()
	}
	if l.closed == nil {
		l.closed = func(string, time.Time) error { return nil }
	}
	if l.settled == nil {
		l.settled = func(*usage.Settlement) {}
	}
	// The first node stores its secret, and all others get that one.
	fresh := make([]byte, 32)
	rand.Read(fresh) // crypto/rand never fails
	var err error
	if l.secret, err = store.Secret(ctx, "video links", fresh); err != nil {
		return nil, err
	}
	l.Apply(s)
	return l, nil
}

// Apply replaces the settings. They apply to every job that is created or claimed from now on.
func (l *Line) Apply(s Settings) {
	l.settings.Store(&s)
	l.rouse()
}

// Model returns the id of the video model.
func (l *Line) Model() string { return l.settings.Load().Model }

// Order is a request for a job and its caller.
type Order struct {
	Caller  auth.Caller
	Limits  account.Limits // limits that apply to the caller's account
	Request Request
	// Repeat is a hash of the caller's Idempotency-Key, and Body is a hash of the request's body.
	// Both are nil if there is no key.
	Repeat, Body []byte
	// RequestSHA256 is the hash of the body in hexadecimal digits, if the job gets a receipt; else empty.
	RequestSHA256 string
	// Session and Tags are those of the settlement; empty: there are none.
	Session string
	Tags    []string
}

// Create admits a job and stores it. Repeated reports that the returned job is an earlier one that
// was created with the same Idempotency-Key. The headroom is that after the job was counted. If an
// error occurs before the allowance is checked, the headroom is not meaningful.
//
// The order of the checks is the order of their cost: access and a known Idempotency-Key first,
// then the allowance, then the store. Whatever is refused after the allowance was charged gives
// the charge back.
func (l *Line) Create(ctx context.Context, o Order) (j *Job, headroom admission.Headroom, repeated bool, err error) {
	s := l.settings.Load()
	demand := &admission.Demand{Caller: o.Caller, Limits: o.Limits, Model: admission.Model{ID: s.Model, Tier: s.Tier, RequestMilli: o.Request.costMilli(), UnitMilli: o.Request.costMilli()}}
	if headroom, err := l.gate.Access(demand); err != nil {
		return nil, headroom, false, err
	}
	if o.Repeat != nil {
		first, err := l.jobs.FindRepeat(ctx, o.Caller.Account.ID, o.Repeat)
		if err != nil {
			return nil, l.gate.Headroom(demand), false, err
		}
		if first != nil {
			return l.repeat(first, o, demand)
		}
	}
	if paused := o.Caller.Account.Runaway.Pause(o.Caller.KeyID); paused != nil {
		headroom, err := l.gate.Refuse(demand, budget.Paused(paused))
		return nil, headroom, false, err
	}
	now := time.Now().Truncate(time.Millisecond).UTC() // as the store keeps it
	admitted, headroom, err := l.gate.AdmitJob(demand)
	if f, never := errors.AsType[*fault.Fault](err); never && f.Final && !o.Caller.Limits.Counted() {
		advice := "Choose a smaller size."
		if o.Caller.Account.UpgradeHelps() {
			advice = "Choose a smaller size, or a higher plan."
		}
		f.Message = fmt.Sprintf("A video of this size counts as %g requests and the whole allowance is %d a minute, so it can never pass. %s",
			float64(demand.Model.RequestMilli)/1000, int64(o.Limits.RequestsPerMinute), advice)
	}
	if err != nil {
		return nil, headroom, false, err
	}
	if err := l.closed(s.Model, now); err != nil {
		admitted.GiveBack()
		return nil, l.gate.Headroom(demand), false, err
	}
	j = &Job{
		ID: newID("job_"), AccountID: o.Caller.Account.ID, KeyID: o.Caller.KeyID, Plan: o.Caller.Account.Plan, Tier: s.Tier, Request: o.Request,
		CostMilli: demand.Model.RequestMilli, Repeat: o.Repeat, Body: o.Body, RequestSHA256: o.RequestSHA256, Session: o.Session, Tags: o.Tags, Status: Queued, CreatedAt: now, ExpiresAt: now.Add(s.Keep),
	}
	if err := l.afford(ctx, s, j, &o); err != nil {
		admitted.GiveBack()
		return nil, l.gate.Headroom(demand), false, err
	}
	var refused error
	first, err := l.jobs.CreateVideo(ctx, j, func(have Load) error {
		refused = s.allow(o.Caller.Account.Plan, have, now)
		return refused
	})
	// After an error of the store the job may exist all the same, so it keeps what is reserved for it. If it does not exist,
	// the clean-up of the store takes that back.
	if refused != nil || first != nil {
		l.drop(ctx, j)
	}
	if err != nil {
		admitted.GiveBack() // what is refused costs nothing
		return nil, l.gate.Headroom(demand), false, err
	}
	if first != nil { // another request with the key was quicker
		if j, err = first.again(o); err != nil {
			admitted.GiveBack()
			return nil, l.gate.Headroom(demand), false, err
		}
		admitted.Repeated()
		return j, l.gate.Headroom(demand), true, nil
	}
	l.rouse()
	return j, headroom, false, nil
}

// repeat answers a request with the key of an earlier one in the way that one was answered. It
// counts as one request.
func (l *Line) repeat(first *Job, o Order, demand *admission.Demand) (*Job, admission.Headroom, bool, error) {
	j, err := first.again(o)
	if err != nil {
		return nil, l.gate.Headroom(demand), false, err
	}
	_, headroom, err := l.gate.AdmitRequest(demand)
	if err != nil {
		return nil, headroom, false, err
	}
	return j, headroom, true, nil
}

// again returns the job as it was when it was created, to answer a repeat of that request. The body
// must be the same.
func (j *Job) again(o Order) (*Job, error) {
	// The key was used for a different request, which is the client's mistake.
	if !bytes.Equal(j.Body, o.Body) {
		return nil, idempotency.OtherBody()
	}
	// The reply to the creation promised a time to live. Undo what finishing the job changed about
	// it.
	since := j.CreatedAt
	if j.Status.Final() {
		since = j.FinishedAt
	}
	return &Job{
		ID: j.ID, AccountID: j.AccountID, Request: j.Request, Status: Queued, CreatedAt: j.CreatedAt,
		ExpiresAt: j.CreatedAt.Add(j.ExpiresAt.Sub(since)),
	}, nil
}

// allow returns an error if the account may not have another job: it has too many unfinished ones,
// or its files take too much space.
func (s *Settings) allow(p account.Plan, have Load, now time.Time) error {
	if most := s.Plans[p].UnfinishedVideos; most != account.Unlimited && int64(have.Unfinished) >= int64(most) {
		f := fault.New(fault.RateLimited, "%d video jobs of this account are unfinished, and %d is the most its plan allows. One of them must end first.", have.Unfinished, int64(most)).After(5 * time.Second)
		// With a limit of zero, waiting does not help.
		f.Final = most == 0
		return f
	}
	if have.Bytes >= s.AccountBytes {
		return fault.New(fault.RateLimited, "The videos of this account take %d MiB, and %d MiB is the most. The next of them expires in %s.",
			have.Bytes>>20, s.AccountBytes>>20, max(0, have.NextExpiry.Sub(now)).Round(time.Second)).After(max(time.Second, have.NextExpiry.Sub(now)))
	}
	return nil
}

// Find returns a job of the account. It returns a fault if there is none or it has expired.
func (l *Line) Find(ctx context.Context, accountID, id string) (*Job, error) {
	j, err := l.lookUp(ctx, id)
	if err != nil {
		return nil, err
	}
	// find also accepts the id of a generation, which does not name a job here.
	if j == nil || j.ID != id || !l.visible(j, accountID) {
		return nil, noJob(id)
	}
	return j, nil
}

// noJob returns the fault for a job that does not exist or is not the caller's. Both look the same,
// so that nobody can find out which ids exist.
func noJob(id string) error {
	return fault.New(fault.NotFound, "There is no video job %q. It may have expired.", excerpt.Of(id, maxEcho))
}

// lookUp finds a job by its id or generation, or returns nil. It does not ask the store for a string
// that cannot be an id.
func (l *Line) lookUp(ctx context.Context, id string) (*Job, error) {
	if strings.ContainsFunc(id, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') }) {
		return nil, nil
	}
	return l.jobs.FindVideo(ctx, id)
}

// visible reports whether the job belongs to the account and has not expired.
func (l *Line) visible(j *Job, accountID string) bool {
	return j.AccountID == accountID && !(j.Status.Final() && !time.Now().Before(j.ExpiresAt))
}

// List returns up to limit jobs of the account, newest first, starting after the job with the given
// id, and whether there are more. An empty after starts with the newest.
func (l *Line) List(ctx context.Context, accountID, after string, limit int) (jobs []Job, more bool, err error) {
	var behind *Job
	if after != "" {
		if behind, err = l.Find(ctx, accountID, after); fault.Is(err, fault.NotFound) {
			return nil, false, fault.New(fault.Invalid, "after must be the id of one of your video jobs; there is no %q.", excerpt.Of(after, maxEcho)).At("after")
		}
		if err != nil {
			return nil, false, err
		}
	}
	// Read one more than asked for, to find out whether there are more.
	jobs, err = l.jobs.Videos(ctx, accountID, behind, limit+1)
	if err != nil {
		return nil, false, err
	}
	if more = len(jobs) > limit; more {
		jobs = jobs[:limit]
	}
	// Those that wait to be removed are not found by their id either.
	return slices.DeleteFunc(jobs, func(j Job) bool { return !l.visible(&j, accountID) }), more, nil
}

// Cancel cancels an unfinished job of the account. A job that never ran costs no units. Canceling a
// finished job returns it unchanged.
// The job is final in the store before its rendering is stopped, so that no worker can finish it
// in between.
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
		return &now, nil // it finished in the meantime
	}
	if errors.Is(err, ErrGone) {
		return nil, noJob(id)
	}
	if err != nil {
		return nil, err
	}
	// If the job runs on another node, that node notices when it renews its claim; see beat.
	l.mu.Lock()
	// stop is nil unless this process is rendering the job.
	stop := l.running[id]
	l.mu.Unlock()
	if stop != nil {
		stop(ErrCancelled)
	}
	return j, nil
}

// Delete cancels a job of the account if it is unfinished, and ends the time for which it is kept: from now on nobody
// finds it, and the next sweep removes it and its files. Until then its worker can see that it was cancelled.
func (l *Line) Delete(ctx context.Context, accountID, id string) error {
	if _, err := l.Cancel(ctx, accountID, id); err != nil {
		return err
	}
	_, err := l.change(ctx, id, func(j *Job, _ *Settings) error {
		j.ExpiresAt = time.Now()
		return nil
	})
	if errors.Is(err, ErrGone) {
		return nil // it expired meanwhile
	}
	return err
}

// errFinal means that a job has finished already.
var errFinal = errors.New("the job is finished")

// change applies a rule to a job. If that finishes the job, it is settled in the same transaction,
// and Options.Settled is called afterwards.
// The rule may run more than once, so it must depend on nothing but its arguments and be safe to
// repeat.
func (l *Line) change(ctx context.Context, id string, rule func(*Job, *Settings) error) (*Job, error) {
	s := l.settings.Load()
	var settled *usage.Settlement
	j, err := l.queue.ChangeVideo(ctx, id, func(j *Job) (*usage.Settlement, error) {
		was := j.Status
		if err := rule(j, s); err != nil {
			return nil, err
		}
		// Start from nil, in case the store runs this function more than once.
		if settled = nil; !was.Final() && j.Status.Final() {
			settled = j.settlement(s)
			return settled, l.receipts(ctx, settled)
		}
		return settled, nil
	})
	if err != nil {
		return nil, err
	}
	if settled != nil {
		l.gate.JobSettled(settled, settled.RequestMilli)
		l.settled(settled)
	}
	return j, nil
}

// receipts makes the receipt of a settlement, if it has one.
func (l *Line) receipts(ctx context.Context, s *usage.Settlement) error {
	if l.attest == nil {
		s.Receipt = nil
	}
	if s.Receipt == nil {
		return nil
	}
	return l.attest(ctx, s)
}

// rouse wakes Run without blocking.
func (l *Line) rouse() { pace.Wake(l.wake) }

// newID returns the prefix followed by 130 random bits.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }
