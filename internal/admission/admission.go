// Package admission decides whether a request may start, and holds its place until it ends.
//
// Admit returns a Lease. Whoever holds a Lease calls Settle; the first call counts. The arithmetic of
// the limits stands in window.go, what accounts are using in a Ledger. Recording what was consumed is
// not done here; see package usage.
package admission

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/internal/account"
	"sluice/internal/auth"
	"sluice/internal/catalog"
	"sluice/internal/fault"
	"sluice/internal/usage"
)

const (
	// LongPrompt is the number of prompt tokens above which a request counts twice.
	LongPrompt = 200_000
	// defaultOutput is reserved for a reply whose length the caller does not bound.
	defaultOutput = 1024
	// maxOutput is more than any model writes. It keeps the sum of a reservation from overflowing.
	maxOutput = 1 << 40
	// oneRequest is what a request costs that asks no model.
	oneRequest = 1000
)

// Accounts is where leases are settled.
type Accounts interface {
	// Ready reports whether a call that starts now can be settled.
	Ready() error
	// Record keeps a settlement. When it returns, the settlement survives the process.
	Record(usage.Settlement)
}

// Gate admits calls.
type Gate struct {
	ledger   Ledger
	accounts Accounts
}

// New returns a gate over the ledger, whose leases are settled with accounts.
func New(ledger Ledger, accounts Accounts) *Gate {
	return &Gate{ledger: ledger, accounts: accounts}
}

// Ask is what a call wants, as far as admission is concerned.
type Ask struct {
	Caller auth.Caller
	Limits account.Limits // those in force for the account
	Model  *catalog.Model // the one asked for
	Tools  bool

	PromptTokens int  // about
	MaxTokens    int  // 0: the caller set no bound
	Choices      int  // how many replies are wanted (n); 0 and 1: one
	Long         bool // the prompt exceeds LongPrompt
}

// Multiplier is what a long prompt multiplies requests and units by.
func (a *Ask) Multiplier() int64 {
	if a.Long {
		return 2
	}
	return 1
}

// cost is what the call takes: its requests once, its tokens for each of its choices. Tokens never exceed
// the whole cap, so that every legal call passes on an empty window.
func (a *Ask) cost() Cost {
	output := min(a.MaxTokens, maxOutput)
	if output == 0 {
		output = defaultOutput
	}
	c := Cost{RequestMilli: a.Model.RequestMilli * a.Multiplier(), Tokens: int64(max(1, a.Choices)) * int64(a.PromptTokens+output)}
	if l := a.Limits.TokensPerMinute; l != account.Unlimited {
		c.Tokens = min(c.Tokens, int64(l))
	}
	return c
}

// Lease is an admitted call's place.
type Lease struct {
	gate      *Gate
	accountID string
	place     Place
	settled   atomic.Bool
}

// Access checks the plan against the model and against tools: 402 without an active plan, 403 where it
// is too low (docs/api.md#plan-and-model-access).
func (g *Gate) Access(a *Ask) (Standing, error) {
	err := access(a.Caller.Account.Plan, a.Model, a.Tools)
	if a.Model.StaffOnly && !a.Caller.Account.Staff {
		err = fault.New(fault.Forbidden, "The model %q has no tier yet, so only staff may call it. Ask the operator to give it one.", a.Model.ID).At("model")
	}
	if err != nil {
		return g.ledger.Peek(a.Caller.Account.ID, a.Limits), err
	}
	return Standing{}, nil
}

// Admit lets the call start, or names the limit in its way: 429. The standing is that after the call
// was counted.
func (g *Gate) Admit(a *Ask) (*Lease, Standing, error) {
	id := a.Caller.Account.ID
	if err := g.accounts.Ready(); err != nil {
		return nil, g.ledger.Peek(id, a.Limits), fault.New(fault.Unavailable, "Calls cannot be accounted for at the moment, so none is let in. Try again shortly.").After(5 * time.Second).Because(err)
	}
	cost := a.cost()
	place, standing, obstacle := g.ledger.Take(id, a.Limits, cost)
	if obstacle != nil {
		return nil, standing, obstacle.fault(cost)
	}
	return &Lease{gate: g, accountID: id, place: place}, standing, nil
}

// AdmitJob lets work be taken on that runs behind the reply, or names the limit in its way: 429. It takes
// requests of the minute, and neither tokens nor a slot.
func (g *Gate) AdmitJob(a *Ask) (*Job, Standing, error) {
	j := &Job{gate: g, accountID: a.Caller.Account.ID, requestMilli: a.Model.RequestMilli}
	limits := a.Limits
	limits.TokensPerMinute, limits.Concurrent = account.Unlimited, account.Unlimited
	cost := Cost{RequestMilli: j.requestMilli}
	place, _, obstacle := g.ledger.Take(j.accountID, limits, cost)
	if obstacle != nil {
		return nil, g.Standing(a), obstacle.fault(cost)
	}
	j.place = place
	g.ledger.Free(j.accountID, place, cost)
	return j, g.Standing(a), nil
}

// AdmitRequest lets a request be answered that asks no model, such as the repeat of a call: it takes one
// request of the minute and nothing else. The model of the ask does not matter.
func (g *Gate) AdmitRequest(a *Ask) (*Job, Standing, error) {
	return g.AdmitJob(&Ask{Caller: a.Caller, Limits: a.Limits, Model: &catalog.Model{RequestMilli: oneRequest}})
}

// Job is what AdmitJob took.
type Job struct {
	gate         *Gate
	accountID    string
	place        Place
	requestMilli int64
}

// GiveBack returns all that was taken for a job that was not created after all.
func (j *Job) GiveBack() {
	j.gate.ledger.GiveBack(j.accountID, j.place, j.requestMilli)
	j.requestMilli = 0
}

// Repeated leaves what the repeat of an earlier request costs, and returns the rest.
func (j *Job) Repeated() {
	j.gate.ledger.GiveBack(j.accountID, j.place, j.requestMilli-oneRequest)
	j.requestMilli = min(j.requestMilli, oneRequest)
}

// Standing is how the asking account stands now.
func (g *Gate) Standing(a *Ask) Standing { return g.ledger.Peek(a.Caller.Account.ID, a.Limits) }

// Settled reports whether Settle was called.
func (l *Lease) Settled() bool { return l.settled.Load() }

// Settle ends the lease with what the call came to; calls after the first do nothing. The windows keep
// what the settlement says, so that both agree: see docs/accounting.md.
func (l *Lease) Settle(s usage.Settlement) {
	if l.settled.Swap(true) {
		return
	}
	// Recorded first: whoever sees that no call runs knows that all are settled.
	defer l.gate.ledger.Free(l.accountID, l.place, Cost{RequestMilli: s.RequestMilli, Tokens: int64(s.Tokens.Total())})
	l.gate.accounts.Record(s)
}

func access(plan account.Plan, m *catalog.Model, tools bool) error {
	if !plan.Includes(m.Plan) {
		if plan == account.None {
			return fault.New(fault.PaymentRequired, "The model %q needs the %s plan and this account has no active plan. Subscribe to %s or higher, or use a free model.", m.ID, title(m.Plan), title(m.Plan)).At("model")
		}
		return fault.New(fault.PlanTooLow, "The model %q needs the %s plan; this account has %s. Upgrade, or use a model of a lower tier.", m.ID, title(m.Plan), title(plan)).At("model")
	}
	if tools && !plan.IncludesTools() {
		if plan == account.None {
			return fault.New(fault.PaymentRequired, "Tool calling needs the Basic plan or higher and this account has no active plan. Subscribe to Basic or higher, or leave tools out.").At("tools")
		}
		return fault.New(fault.PlanTooLow, "Tool calling needs the Basic plan or higher; this account has %s. Upgrade, or leave tools out.", title(plan)).At("tools")
	}
	return nil
}

// fault says which limit is in the way, its size, what is used, and when the call would pass.
func (o *Obstacle) fault(c Cost) *fault.Fault {
	limit := int64(o.Limit)
	var f *fault.Fault
	switch {
	case o.Resource == Slots && !o.Never:
		return fault.New(fault.RateLimited, "%d calls of this account are running, and %d is the most it may have at once. One of them must end first.", o.Used, limit).After(time.Second)
	case o.Resource == Slots:
		f = fault.New(fault.RateLimited, "This account may not have any call running at the moment: its concurrency limit is 0.")
	case o.Never && o.Resource == Requests:
		f = fault.New(fault.RateLimited, "This call counts as %s requests and the whole allowance is %d a minute, so it can never pass. Use a model with a lower request_multiplier, or a higher plan.", milli(c.RequestMilli), limit)
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

// SetHeader writes the standing as OpenAI's rate-limit headers; what is unlimited has none.
func (s Standing) SetHeader(h http.Header) {
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

// milli writes thousandths as a plain number: 1500 is 1.5.
func milli(v int64) string { return strconv.FormatFloat(float64(v)/1000, 'f', -1, 64) }

// seconds writes a wait for people: tenths are enough.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64((d+99*time.Millisecond)/(100*time.Millisecond))/10, 'f', -1, 64) + " seconds"
}

// title is a plan's name as people write it.
func title(p account.Plan) string {
	name := p.String()
	return string(name[0]-'a'+'A') + name[1:]
}
