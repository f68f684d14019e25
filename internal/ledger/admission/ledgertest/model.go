package ledgertest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/account"
	"sluice/internal/ledger/admission"
)

// span is the length of every window in milliseconds (docs/api.md#windows).
const span = 60_000

// model is the slow, obvious form of a ledger for one account: a list of everything that happened.
type model struct {
	limits   account.Limits
	requests []event
	tokens   []event
	running  int64
}

// event is something taken in one millisecond. Its cost may become less when a call ends.
type event struct {
	at, cost int64
	counted  bool // it cost something when it was taken
}

// sum adds up what counts at a time: from the end of the millisecond it happened in, for a minute.
func sum(events []event, now int64) (total int64) {
	for _, e := range events {
		if e.at+1+span > now {
			total += e.cost
		}
	}
	return total
}

// meter returns what a ledger must say about a window.
func meter(events []event, now int64, limit account.Limit, unit int64) admission.Meter {
	m := admission.Meter{Limit: limit}
	if limit == unlimited {
		return m
	}
	m.Used = sum(events, now)
	m.Remaining = max(0, int64(limit)*unit-m.Used) / unit
	for _, e := range events {
		if m.Used > 0 && e.counted {
			m.Reset = time.Duration(e.at+1+span-now) * time.Millisecond
		}
	}
	return m
}

// obstacle returns what a ledger must say about a cost, or nil if it fits.
func (m *model) obstacle(now int64, c admission.Cost) *admission.Obstacle {
	l := m.limits
	if o := blocked(admission.Requests, m.requests, now, c.RequestMilli, l.RequestsPerMinute, 1000); o != nil {
		return o
	}
	if o := blocked(admission.Tokens, m.tokens, now, c.Tokens, l.TokensPerMinute, 1); o != nil {
		return o
	}
	if l.Concurrent != unlimited && m.running >= int64(l.Concurrent) {
		return &admission.Obstacle{Resource: admission.Slots, Limit: l.Concurrent, Used: m.running, Never: l.Concurrent == 0}
	}
	return nil
}

// blocked tries one millisecond after the other until the cost fits.
func blocked(r admission.Resource, events []event, now, cost int64, limit account.Limit, unit int64) *admission.Obstacle {
	most := int64(limit) * unit
	if limit == unlimited || sum(events, now)+cost <= most {
		return nil
	}
	o := &admission.Obstacle{Resource: r, Limit: limit, Used: sum(events, now)}
	if cost > most {
		o.Never = true
		return o
	}
	// Only the ends of events matter, so it is enough to look at those.
	best := int64(span + 1)
	for _, e := range events {
		if end := e.at + 1 + span; end > now && end-now < best && sum(events, end)+cost <= most {
			best = end - now
		}
	}
	o.Wait = time.Duration(best) * time.Millisecond
	return o
}

// call is a call that runs in the ledger and in the model.
type call struct {
	place   admission.Place
	cost    admission.Cost
	node    Ledger
	request int // its event in the model's lists
	token   int
}

// trial is one run of the property.
type trial struct {
	t        *rapid.T
	b        *bench
	id       string
	model    model
	calls    []call
	ended    []call
	admitted []event // in nanoseconds: what was admitted and not given back
	before   int64   // calls that an interrupted trial has left running
}

// againstModel holds the ledger against the model over random limits, costs, arrivals and ends: never one
// too many in any minute, never one refused that had room, the right obstacle with the right wait, no slot
// lost.
func againstModel(t *testing.T, b *bench) {
	rapid.Check(t, func(t *rapid.T) {
		limit := func(name string, most int64) account.Limit {
			if rapid.Bool().Draw(t, name+" unlimited") {
				return unlimited
			}
			return account.Limit(rapid.Int64Range(0, most).Draw(t, name))
		}
		r := &trial{t: t, b: b, id: b.account(), before: b.running()}
		r.model.limits = limits(limit("rpm", 12), limit("slots", 4), limit("tpm", 1000))
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			b.Advance(time.Duration(rapid.Int64Range(0, int64(15*time.Second)).Draw(t, "pause")))
			switch action := rapid.IntRange(0, 5).Draw(t, "action"); {
			case action <= 1 && len(r.calls) > 0:
				r.end()
			case action == 2 && len(r.ended) > 0:
				r.giveBack()
			default:
				r.start()
			}
			r.compare()
		}
		r.anyMinute()
	})
}

func (r *trial) now() int64 { return int64(r.b.Now() / time.Millisecond) }

// start asks for one more call, on some node.
func (r *trial) start() {
	c := cost(rapid.Int64Range(0, 4000).Draw(r.t, "requests"), rapid.Int64Range(0, 800).Draw(r.t, "tokens"))
	node := r.b.node(rapid.IntRange(0, 2).Draw(r.t, "node"))
	want := r.model.obstacle(r.now(), c)
	place, _, got := node.Take(r.id, r.model.limits, c)
	if (got == nil) != (want == nil) || got != nil && *got != *want {
		r.t.Fatalf("Take(%+v) at %d = %+v, want %+v", c, r.now(), got, want)
	}
	if got != nil {
		return
	}
	m := &r.model
	m.requests = append(m.requests, event{r.now(), c.RequestMilli, c.RequestMilli > 0})
	m.tokens = append(m.tokens, event{r.now(), c.Tokens, c.Tokens > 0})
	m.running++
	r.admitted = append(r.admitted, event{at: int64(r.b.Now()), cost: c.RequestMilli})
	r.calls = append(r.calls, call{place, c, node, len(m.requests) - 1, len(m.tokens) - 1})
}

// end ends one of the running calls. It used fewer or more tokens than it had reserved, or is given back.
func (r *trial) end() {
	i := rapid.IntRange(0, len(r.calls)-1).Draw(r.t, "which")
	c := r.calls[i]
	r.calls = append(r.calls[:i], r.calls[i+1:]...)
	used := cost(c.cost.RequestMilli, rapid.Int64Range(0, 900).Draw(r.t, "used"))
	if rapid.Bool().Draw(r.t, "refund") {
		used = admission.Cost{}
	}
	c.node.Free(r.id, c.place, used)
	r.b.flush()
	m := &r.model
	m.running--
	r.take(c, c.cost.RequestMilli-used.RequestMilli)
	if extra := used.Tokens - c.cost.Tokens; extra <= 0 {
		m.tokens[c.token].cost += extra
	} else {
		m.tokens = append(m.tokens, event{r.now(), extra, true})
	}
	r.ended = append(r.ended, c)
}

// giveBack returns some requests of a call that has ended.
func (r *trial) giveBack() {
	c := r.ended[rapid.IntRange(0, len(r.ended)-1).Draw(r.t, "ended")]
	left := r.model.requests[c.request].cost
	n := rapid.Int64Range(0, left).Draw(r.t, "given back")
	c.node.GiveBack(r.id, c.place, n)
	r.b.flush()
	r.take(c, n)
}

// take takes requests of a call out of the model.
func (r *trial) take(c call, requestMilli int64) {
	r.model.requests[c.request].cost -= requestMilli
	r.admitted[c.request].cost -= requestMilli
}

// compare checks what the ledger says about itself.
func (r *trial) compare() {
	node := r.b.node(rapid.IntRange(0, 2).Draw(r.t, "asked"))
	got, m, now := node.Peek(r.id, r.model.limits), &r.model, r.now()
	if want := meter(m.requests, now, m.limits.RequestsPerMinute, 1000); got.Requests != want {
		r.t.Fatalf("requests at %d: %+v, want %+v", now, got.Requests, want)
	}
	if want := meter(m.tokens, now, m.limits.TokensPerMinute, 1); got.Tokens != want {
		r.t.Fatalf("tokens at %d: %+v, want %+v", now, got.Tokens, want)
	}
	if running := r.b.running() - r.before; running != m.running {
		r.t.Fatalf("running = %d, want %d", running, m.running)
	}
}

// anyMinute checks in nanoseconds, not the ledger's milliseconds: no minute holds more than the allowance.
func (r *trial) anyMinute() {
	l := r.model.limits.RequestsPerMinute
	if l == unlimited {
		return
	}
	for i, first := range r.admitted {
		total := int64(0)
		for _, e := range r.admitted[i:] {
			if e.at-first.at <= int64(time.Minute) {
				total += e.cost
			}
		}
		if total > int64(l)*1000 {
			r.t.Fatalf("a minute admitted %d thousandths on an allowance of %d", total, l)
		}
	}
}
