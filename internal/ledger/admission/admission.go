// Package admission decides whether a request may start, and holds its place until it ends.
//
// A Gate checks a Demand in two steps: Access compares the plan with the model, Admit takes the cost of
// the call out of the account's limits and returns a Lease. Whoever holds a Lease ends it with Settle or
// Release; only the first of these calls counts. The arithmetic of a limit is in window.go, and a Ledger
// stores what each account is using. This package does not record what was consumed; see package usage.
package admission

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/usage"
)

const (
	// LongPrompt is the number of prompt tokens above which a request counts twice.
	LongPrompt = 200_000
	// defaultOutput is the number of tokens reserved for a reply if the caller sets no max_tokens. It is
	// a guess; Settle corrects it when the call ends.
	defaultOutput = 1024
	// maxOutput is more than any model writes. It keeps the sum of a reservation from overflowing.
	maxOutput = 1 << 40
	// oneRequest is the cost of a request that calls no model, in thousandths of a request.
	oneRequest = 1000
)

// Accounts records what calls consumed.
type Accounts interface {
	// Ready returns an error if a call that starts now could not be recorded when it ends. The gate then
	// refuses the call: work that nobody can bill must not start.
	Ready() error
	// Record stores a settlement. When it returns, the settlement survives a crash of the process.
	Record(usage.Settlement)
}

// Facts knows whether what this node knows about an account still holds; *auth.Follower is one.
type Facts interface {
	// Confirm returns an error if not. Epoch and deactivated are those of a Headroom. auth.ErrChanged means
	// that there is something newer to decide on.
	Confirm(c auth.Caller, epoch int64, deactivated bool) error
}

// Gate admits calls. It is safe for concurrent use.
type Gate struct {
	ledger   Ledger
	accounts Accounts
	facts    Facts  // nil: nobody else changes accounts
	quota    *Quota // nil: monthly limits of keys are not counted
	unable   func() // nil: nobody is told

	refused [Units + 1]atomic.Int64 // calls that a limit refused, by its resource
}

// Refused returns how many requests a limit on the resource has refused since the start.
func (g *Gate) Refused(r Resource) int64 { return g.refused[r].Load() }

// AllRefused returns the number of calls that any limit has refused since the start.
func (g *Gate) AllRefused() int64 {
	return g.Refused(Requests) + g.Refused(Tokens) + g.Refused(Slots) + g.Refused(Units)
}

// AddMetrics adds the metrics of refused calls.
func (g *Gate) AddMetrics(m *telemetry.Metrics) {
	m.Counters("sluice_rate_limited_total", "Requests that a limit of their account or key refused with 429, by the limit.", "limit", map[string]func() int64{
		"requests":   func() int64 { return g.Refused(Requests) },
		"tokens":     func() int64 { return g.Refused(Tokens) },
		"concurrent": func() int64 { return g.Refused(Slots) },
		"units":      func() int64 { return g.Refused(Units) },
	})
}

// New returns a gate that counts calls in the ledger and records their settlements in accounts. Every
// decision is confirmed by facts; nil: nobody else changes accounts.
func New(ledger Ledger, accounts Accounts, facts Facts) *Gate {
	return &Gate{ledger: ledger, accounts: accounts, facts: facts}
}

// CountUnits makes the gate hold keys to their monthly limits. Call it before the first request.
func (g *Gate) CountUnits(q *Quota) { g.quota = q }

// OnUnable makes the gate call f whenever it refuses a call with 503, because of the state of this node. F must not
// block. Call it before the first request.
func (g *Gate) OnUnable(f func()) { g.unable = f }

// confirm returns an error if the decision on a demand was made by what no longer holds. The ledger that
// nodes share says so in the headroom that comes with the decision, so this costs no round trip of its own.
func (g *Gate) confirm(d *Demand, s Headroom) error {
	if g.facts == nil {
		return nil
	}
	return g.facts.Confirm(d.Caller, s.Epoch, s.Deactivated)
}

// tell says that a call was refused because of the state of this node.
func (g *Gate) tell() {
	if g.unable != nil {
		g.unable()
	}
}

// count counts a call that a limit has refused. What a node without a share refuses, no limit has.
func (g *Gate) count(o *Obstacle) {
	if o.NoShare {
		g.tell()
		return
	}
	g.refused[o.Resource].Add(1)
}

// Model is what admission needs to know about the model that a request names. A video model and a chat
// model look the same from here.
type Model struct {
	ID           string       // for error messages
	Tier         account.Plan // the lowest plan that may call it
	StaffOnly    bool         // it has no tier yet: only staff accounts may call it
	RequestMilli int64        // thousandths of a request that one call costs
	UnitMilli    int64        // thousandths of a unit that one call of it costs
}

// Demand is what one call asks of admission: who calls which model, and how much it may consume.
type Demand struct {
	Caller auth.Caller
	Limits account.Limits // the limits in force for the account
	Model  Model          // the model that the request names, not the one that the router chooses
	Tools  bool           // the request has tools, which need a plan of their own

	PromptTokens int  // an estimate
	MaxTokens    int  // 0: the caller set no bound
	Choices      int  // the number of replies wanted (n); 0 counts as 1
	Long         bool // the prompt has more than LongPrompt tokens
}

// Multiplier returns the factor for requests and units: 2 for a long prompt, else 1.
func (d *Demand) Multiplier() int64 {
	if d.Long {
		return 2
	}
	return 1
}

// cost returns what the call reserves: its requests once, its tokens for each choice. The tokens never
// exceed the limit itself, so that every valid call passes while the window is empty.
func (d *Demand) cost() Cost {
	output := min(d.MaxTokens, maxOutput)
	if output == 0 {
		output = defaultOutput
	}
	c := Cost{RequestMilli: d.Model.RequestMilli * d.Multiplier(), Tokens: int64(max(1, d.Choices)) * int64(d.PromptTokens+output)}
	if l := d.Limits.TokensPerMinute; l != account.Unlimited {
		c.Tokens = min(c.Tokens, int64(l))
	}
	return c
}

// Lease is the place of an admitted call. Its slot stays taken until Settle or Release is called, so
// whoever gets a lease must make sure that one of them runs, also after a panic.
type Lease struct {
	gate      *Gate
	accountID string
	place     Place
	key       *keyPlace   // nil: the key has no limits of its own that count
	settled   atomic.Bool // set by the first Settle or Release
}

// Access checks the account's plan against the model and against tools. It returns a 402 fault if the
// account has no active plan, and a 403 fault if the plan is too low (docs/api.md#plan-and-model-access). The
// headroom is set only together with an error.
func (g *Gate) Access(d *Demand) (Headroom, error) {
	err := access(d.Caller.Account.Plan, &d.Model, d.Tools)
	if d.Model.StaffOnly && !d.Caller.Account.Staff {
		err = fault.New(fault.Forbidden, "The model %q has no tier yet, so only staff may call it. Ask the operator to give it one.", d.Model.ID).At("model")
	}
	if err == nil && !d.Caller.Limits.Allows(d.Model.ID) {
		err = d.notAllowed()
	}
	if err == nil {
		return Headroom{}, nil
	}
	return g.Refuse(d, err)
}

// Refuse returns the error of a call that is refused because of what its account says, and the headroom that goes with it. If the
// account no longer says so, the error is that of Admit.
func (g *Gate) Refuse(d *Demand, err error) (Headroom, error) {
	headroom := g.Headroom(d)
	return headroom, cmp.Or(g.confirm(d, headroom), err)
}

// Admit lets the call start and returns its lease, or a 429 fault that names the limit in the way. The
// headroom includes the admitted call. Admit does not check the plan; call Access first. An error that is
// auth.ErrChanged means that the caller's account has changed, and that all is to be decided again.
func (g *Gate) Admit(d *Demand) (*Lease, Headroom, error) {
	id := d.Caller.Account.ID
	if err := g.accounts.Ready(); err != nil {
		g.tell()
		if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Unavailable {
			err = fault.New(fault.Unavailable, "Calls cannot be accounted for at the moment, so none is let in. Try again shortly.").After(5 * time.Second).Because(err)
		}
		return nil, g.Headroom(d), err
	}
	cost := d.cost()
	place, headroom, err := g.take(d, d.Limits, cost)
	if err != nil {
		if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind == fault.Unavailable {
			g.tell()
		}
		return nil, headroom, err
	}
	return &Lease{gate: g, accountID: id, place: place.Place, key: place.key}, headroom, nil
}

// taken is what a call has taken, from its account and from its key.
type taken struct {
	Place
	key *keyPlace
}

// take takes the cost from the ledger, first what the limits of the key count, then what those of the account do. It
// returns a 429 fault if a limit is in the way. If what the demand was made by no longer holds, it takes nothing
// and returns that error, whatever the ledger has decided.
func (g *Gate) take(d *Demand, limits account.Limits, c Cost) (taken, Headroom, error) {
	id := d.Caller.Account.ID
	var key *keyPlace
	if d.Caller.Limits.Counted() {
		var err error
		if key, err = g.takeKey(d, c); err != nil {
			headroom := g.Headroom(d)
			return taken{}, headroom, cmp.Or(g.confirm(d, headroom), err)
		}
	}
	place, headroom, obstacle := g.ledger.Take(id, limits, c)
	err := g.confirm(d, headroom)
	switch {
	case obstacle == nil && err != nil:
		g.ledger.Free(id, place, Cost{})
	case obstacle != nil && err == nil:
		g.count(obstacle)
		err = obstacle.fault(c, d.Caller.Account.UpgradeHelps())
	}
	if key != nil {
		headroom = headroom.tighter(key.headroom)
		if err != nil {
			g.freeKey(key, Cost{}, 0)
		}
	}
	return taken{place, key}, headroom, err
}

// AdmitJob admits work that runs after the reply was sent, or returns a 429 fault. A job takes requests of
// the minute, but no tokens and no slot: it has limits of its own where it runs. Its units count for the key at
// once; JobSettled returns them if the job costs none in the end.
func (g *Gate) AdmitJob(d *Demand) (*Job, Headroom, error) {
	j := &Job{gate: g, accountID: d.Caller.Account.ID, requestMilli: d.Model.RequestMilli}
	limits := d.Limits
	limits.TokensPerMinute, limits.Concurrent = account.Unlimited, account.Unlimited
	cost := Cost{RequestMilli: j.requestMilli}
	place, counted, err := g.take(d, limits, cost)
	if err != nil {
		return nil, g.Headroom(d), err
	}
	j.place, j.key = place.Place, place.key
	g.ledger.Free(j.accountID, j.place, cost) // frees the slot at once and keeps the requests
	if j.key != nil {
		g.ledger.Free(j.key.id, j.key.place, cost)
	}
	headroom := g.Headroom(d)
	headroom.Requests = counted.Requests // as it was with this job, without those admitted since
	return j, headroom, nil
}

// AdmitRequest admits a request that calls no model, such as the repeat of an earlier call. It takes one
// request of the minute and nothing else. It reads only Caller and Limits of the demand.
func (g *Gate) AdmitRequest(d *Demand) (*Job, Headroom, error) {
	return g.AdmitJob(&Demand{Caller: d.Caller, Limits: d.Limits, Model: Model{RequestMilli: oneRequest}})
}

// Job is what AdmitJob took. It needs no end of its own: unless one of its methods is called, the requests
// stay counted until their minute is over.
type Job struct {
	gate         *Gate
	accountID    string
	place        Place
	key          *keyPlace // nil: as in Lease
	requestMilli int64     // what is still taken
}

// GiveBack returns everything that was taken, for a job that was not created after all.
func (j *Job) GiveBack() {
	j.giveBack(j.requestMilli)
	j.requestMilli = 0
}

// Repeated keeps the cost of a repeat, one request, and returns the rest.
func (j *Job) Repeated() {
	j.giveBack(j.requestMilli - oneRequest)
	j.requestMilli = min(j.requestMilli, oneRequest)
}

// giveBack returns some of the requests, and all units.
func (j *Job) giveBack(requestMilli int64) {
	j.gate.ledger.GiveBack(j.accountID, j.place, requestMilli)
	if j.key != nil {
		j.gate.ledger.GiveBack(j.key.id, j.key.place, requestMilli)
		j.gate.quota.settle(j.key.units, 0)
		j.key.units = Reserved{}
	}
}

// Headroom returns how the caller stands with its limits now: those of the account, or those of the key where
// they leave less.
func (g *Gate) Headroom(d *Demand) Headroom {
	headroom := g.ledger.Peek(d.Caller.Account.ID, d.Limits)
	if l := d.Caller.Limits; l.Counted() {
		return headroom.tighter(g.ledger.Peek(d.Caller.KeyID, l.PerMinute()))
	}
	return headroom
}

// Settled reports whether Settle or Release was called.
func (l *Lease) Settled() bool { return l.settled.Load() }

// Settle ends the lease with what the call consumed; calls after the first do nothing. The windows then
// count what the settlement says instead of what was reserved: see docs/accounting.md.
func (l *Lease) Settle(s usage.Settlement) {
	if l.settled.Swap(true) {
		return
	}
	// The record comes before the slot is freed: if no call is running, all calls are recorded. Shutdown
	// relies on that. The defer frees the slot even if Record panics.
	used := Cost{RequestMilli: s.RequestMilli, Tokens: int64(s.Tokens.Total())}
	defer l.gate.ledger.Free(l.accountID, l.place, used)
	if l.key != nil {
		defer l.gate.freeKey(l.key, used, s.UnitMilli)
	}
	l.gate.accounts.Record(s)
}

// Release ends the lease without a record and returns everything that was taken. It is for a call that is
// refused after Admit and before any upstream was called. It does nothing if the lease was settled.
func (l *Lease) Release() {
	if !l.settled.Swap(true) {
		l.gate.ledger.Free(l.accountID, l.place, Cost{})
		if l.key != nil {
			l.gate.freeKey(l.key, Cost{}, 0)
		}
	}
}

// access applies the rules of docs/api.md#plan-and-model-access. An account without a plan gets 402, because
// paying solves the problem; an account whose plan is too low gets 403.
func access(plan account.Plan, m *Model, tools bool) error {
	if !plan.Includes(m.Tier) {
		if plan == account.None {
			return fault.New(fault.PaymentRequired, "The model %q needs the %s plan and this account has no active plan. Subscribe to %s or higher, or use a free model.", m.ID, title(m.Tier), title(m.Tier)).At("model")
		}
		return fault.New(fault.PlanTooLow, "The model %q needs the %s plan; this account has %s. Upgrade, or use a model of a lower tier.", m.ID, title(m.Tier), title(plan)).At("model")
	}
	if tools && !plan.IncludesTools() {
		if plan == account.None {
			return fault.New(fault.PaymentRequired, "Tool calling needs the Basic plan or higher and this account has no active plan. Subscribe to Basic or higher, or leave tools out.").At("tools")
		}
		return fault.New(fault.PlanTooLow, "Tool calling needs the Basic plan or higher; this account has %s. Upgrade, or leave tools out.", title(plan)).At("tools")
	}
	return nil
}

// fault returns the 429 for the caller. It names the limit, its size, what is used, and when the call
// would pass. A call that can never pass is final, so that clients do not retry it. If the state of this node
// is in the way and not the limit, it is a 503. Upgrade says that a higher plan would help.
func (o *Obstacle) fault(c Cost, upgrade bool) *fault.Fault {
	limit := int64(o.Limit)
	const lighter = "Use a model with a lower request_multiplier"
	advice := lighter + "."
	if upgrade {
		advice = lighter + ", or a higher plan."
	}
	var f *fault.Fault
	switch {
	case o.NoShare:
		return noShare()
	case o.Divided && !o.Never:
		return o.shareFault(c)
	case o.Resource == Slots && !o.Never:
		return fault.New(fault.RateLimited, "%d calls of this account are running, and %d is the most it may have at once. One of them must end first.", o.Used, limit).After(time.Second)
	case o.Resource == Slots:
		f = fault.New(fault.RateLimited, "This account may not have any call running at the moment: its concurrency limit is 0.")
	case o.Parts > 0:
		f = fault.New(fault.RateLimited, "This call counts as %s requests. The limit of %d a minute is divided among %d servers at the moment, and none of them can admit it. %s", milli(c.RequestMilli), limit, o.Parts, advice)
	case o.Never && o.Resource == Requests:
		f = fault.New(fault.RateLimited, "This call counts as %s requests and the whole allowance is %d a minute, so it can never pass. %s", milli(c.RequestMilli), limit, advice)
	case o.Never:
		f = fault.New(fault.RateLimited, "The allowance of this account is %d tokens a minute, so no call can pass.", limit)
	case o.Resource == Requests:
		return fault.New(fault.RateLimited, "The limit is %d requests a minute; %s are used and this call counts as %s. It would pass in %s.", limit, milli(o.Used), milli(c.RequestMilli), seconds(o.Wait)).After(o.Wait)
	default:
		return fault.New(fault.RateLimited, "The limit is %d tokens a minute; %d are used and this call reserves %d. It would pass in %s.", limit, o.Used, c.Tokens, seconds(o.Wait)).After(o.Wait)
	}
	f.Final = true
	return f
}

// noShare returns the 503 of a node that has no part of the limits yet.
func noShare() *fault.Fault {
	return fault.New(fault.Unavailable, "This server has just joined the others and has no share of the limits yet, so it lets no call in. Try again in %s: another server may take the call.", seconds(retryShare)).After(retryShare)
}

// shareFault is fault while nodes divide the limit: it says what is used of this node's share.
func (o *Obstacle) shareFault(c Cost) *fault.Fault {
	limit, share := int64(o.Limit), int64(o.Share)
	const now = "Limits are divided among the servers at the moment: of "
	switch o.Resource {
	case Slots:
		return fault.New(fault.RateLimited, now+"the %d calls that this account may have at once, this server admits %d, and %d are running. One of them must end first, or another server may take the call.", limit, share, o.Used-(limit-share)).After(time.Second)
	case Requests:
		return fault.New(fault.RateLimited, now+"%d requests a minute, this server admits %d; %s are used and this call counts as %s. It would pass in %s.", limit, share, milli(o.Used-(limit-share)*1000), milli(c.RequestMilli), seconds(o.Wait)).After(o.Wait)
	default:
		wait := max(o.Wait, time.Millisecond)
		return fault.New(fault.RateLimited, now+"%d tokens a minute, this server admits %d; %d are used and this call reserves %d. It would pass in %s.", limit, share, o.Used-(limit-share), c.Tokens, seconds(wait)).After(wait)
	}
}

// SetHeader writes the headroom as OpenAI's rate-limit headers. A limit that is unlimited gets none. The
// names are in canonical form, so they go into the map directly: Header.Set would cost a copy for each.
func (s Headroom) SetHeader(h http.Header) {
	if m := s.Requests; m.Limit != account.Unlimited {
		h["X-Ratelimit-Limit-Requests"] = []string{strconv.FormatInt(int64(m.Limit), 10)}
		h["X-Ratelimit-Remaining-Requests"] = []string{strconv.FormatInt(m.Remaining, 10)}
		h["X-Ratelimit-Reset-Requests"] = []string{m.Reset.String()}
	}
	if m := s.Tokens; m.Limit != account.Unlimited {
		h["X-Ratelimit-Limit-Tokens"] = []string{strconv.FormatInt(int64(m.Limit), 10)}
		h["X-Ratelimit-Remaining-Tokens"] = []string{strconv.FormatInt(m.Remaining, 10)}
		h["X-Ratelimit-Reset-Tokens"] = []string{m.Reset.String()}
	}
}

// milli formats thousandths as a plain number: 1500 becomes 1.5.
func milli(v int64) string { return strconv.FormatFloat(float64(v)/1000, 'f', -1, 64) }

// seconds formats a wait for people, rounded up to tenths of a second.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64((d+99*time.Millisecond)/(100*time.Millisecond))/10, 'f', -1, 64) + " seconds"
}

// title returns the name of a plan with a capital letter, as error messages write it.
func title(p account.Plan) string {
	name := p.String()
	return string(name[0]-'a'+'A') + name[1:]
}
