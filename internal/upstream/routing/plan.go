package routing

import (
	"cmp"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"sluice/internal/upstream/catalog"
)

const (
	// tries is the number of times that one request calls the same target at most.
	tries = 3
	// The pause between two rounds starts at firstPause and doubles up to longestPause. A caller is
	// waiting, so the pauses are short.
	firstPause   = 200 * time.Millisecond
	longestPause = time.Second
)

// Plan is the order in which one request tries its targets. A round tries the healthy targets of the
// model, drawn by weight, then those of its fallbacks, then targets whose breaker has just opened, each at
// most once. A target whose breaker is open gets one call at a time, a probe. A Plan belongs to one request and is not safe for concurrent use.
//
// The usual request needs one attempt, so the slices stay nil until a first attempt has failed.
//
// A request uses a plan like this:
//
//	attempt, ok := plan.Next(now, fits)   // begins an attempt; not ok: the round is over
//	plan.GiveUp()                         // if its failure was of a kind that lasts
//	wait, ok := plan.Again(now)           // begins the next round; not ok: give up
type Plan struct {
	route     *route        // of the model; nil: it has no target
	others    []*route      // stand in after the model's own fallbacks
	fallbacks []*route      // those of both that fit the request; filled by the first Next that needs one
	looked    bool          // fallbacks is filled
	last      *Target       // the target of the last attempt; nil: none in this round
	tried     []*Target     // the targets of earlier attempts, one entry for each attempt
	from      int           // index in tried at which this round begins
	out       []*Target     // not to be tried again
	pause     time.Duration // before the last round; 0: there was none
	// stay is what is known of the request's conversation; see Router.Stay.
	stay staying
	// tokens is how large the request is, as the servers of replicas are concerned. See Weigh.
	tokens int64
}

// Plan returns the plan of a request for the model. Others stand in for it after its own fallbacks.
func (r *Routes) Plan(m *catalog.Model, others ...*catalog.Model) Plan {
	p := Plan{route: r.byModel[m]}
	if len(others) > 0 {
		p.others = make([]*route, 0, len(others))
	}
	for _, o := range others {
		if rt := r.byModel[o]; rt != nil {
			p.others = append(p.others, rt)
		}
	}
	return p
}

// First returns the target of a model that gets most of its calls, or nil.
func (r *Routes) First(m *catalog.Model) *Target {
	rt := r.byModel[m]
	if rt == nil || len(rt.targets) == 0 {
		return nil
	}
	return slices.MaxFunc(rt.targets, func(a, b *Target) int { return cmp.Compare(a.weight, b.weight) })
}

// Alone reports whether there is no second target to try.
func (p *Plan) Alone() bool {
	return p.route == nil || len(p.route.targets) < 2 && len(p.route.fallbacks) == 0 && len(p.others) == 0
}

// Pin leaves the plan one target, which holds something that the request needs, and reports whether the model has it.
func (p *Plan) Pin(provider, upstream, key, replica string) bool {
	if p.route == nil {
		return false
	}
	at := slices.IndexFunc(p.route.targets, func(t *Target) bool {
		return t.Provider == provider && t.Upstream == upstream && t.LastFour == key && t.Replica == replica
	})
	if at < 0 {
		return false
	}
	only := *p.route
	only.targets, only.fallbacks = only.targets[at:at+1:at+1], nil
	p.route, p.others, p.stay.away = &only, nil, inThread
	return true
}

// Next starts the next attempt of the round. It reports false if no target is left that can be called now;
// Again then tells how long to wait. Fits reports whether a fallback may answer the request. The caller
// must end the attempt with Attempt.Ended.
func (p *Plan) Next(now time.Time, fits func(*catalog.Model) bool) (Attempt, bool) {
	if p.route == nil {
		return Attempt{}, false
	}
	if p.last != nil {
		p.tried = append(p.tried, p.last)
		p.last = nil
	}
	// First the model's own healthy targets: the usual request ends here.
	if a, ok := p.draw(p.route, now, wanted); ok {
		return a, true
	}
	// Fits is expensive for a long prompt, so it is asked once for each fallback, and only now.
	if !p.looked {
		p.looked = true
		for _, rt := range slices.Concat(p.route.fallbacks, p.others) {
			if fits(rt.model) && !slices.Contains(p.fallbacks, rt) {
				p.fallbacks = append(p.fallbacks, rt)
			}
		}
	}
	for _, rt := range p.fallbacks {
		if a, ok := p.draw(rt, now, wanted); ok {
			return a, true
		}
	}
	// No healthy target is left: now those that are open and answered a moment ago.
	for rt := range p.routes {
		if a, ok := p.draw(rt, now, sought); ok {
			return a, true
		}
	}
	return Attempt{}, false
}

// routes yields the route of the model, and those of its fallbacks.
func (p *Plan) routes(yield func(*route) bool) {
	if yield(p.route) {
		slices.Values(p.fallbacks)(yield)
	}
}

// GiveUp excludes the target of the last attempt: another attempt there would fail in the same way.
func (p *Plan) GiveUp() { p.out = append(p.out, p.last) }

// GiveUpModel excludes every target of the last attempt's model.
func (p *Plan) GiveUpModel() {
	for rt := range p.routes {
		if slices.Contains(rt.targets, p.last) {
			p.out = append(p.out, rt.targets...)
		}
	}
}

// isOut reports whether the target must not be tried again by this request.
func (p *Plan) isOut(t *Target) bool {
	n := 0
	for _, other := range p.tried {
		if other == t {
			n++
		}
	}
	return n >= tries || slices.Contains(p.out, t)
}

// draw starts an attempt at one of the route's targets that this round has not tried, or reports that none
// lets the call in. It tries heavier targets first, at random by their weight.
func (p *Plan) draw(rt *route, now time.Time, n need) (Attempt, bool) {
	out := make([]bool, len(rt.targets)) // tried in this round, given up, or full
	for i, t := range rt.targets {
		out[i] = slices.Contains(p.tried[p.from:], t) || p.isOut(t)
	}
	seat := p.seat(rt, out, now)
	for {
		i := rt.pick(out, &seat, now)
		if i < 0 {
			return Attempt{}, false
		}
		t := rt.targets[i]
		repeat := slices.Contains(p.tried, t)
		if permit, ok := t.begin(now, n); ok {
			p.last = t
			a := Attempt{Target: t, Model: rt.model, header: rt.header, ends: rt.ends, start: now, permit: permit, repeat: repeat}
			a.tokens = t.server.begin(t.load, p.tokens)
			if seat.conversation != 0 {
				p.sit(rt, &seat, i, &a)
			}
			return a, true
		}
		out[i] = true
		if seat.conversation != 0 {
			p.refused(rt, &seat, i)
		}
	}
}

// pick returns the index of the next target that is not out; a negative one if all are.
func (rt *route) pick(out []bool, s *seat, now time.Time) int {
	switch {
	case s.conversation == 0:
		return rt.lighter(rt.lot(out), out)
	case s.home >= 0:
		return s.home
	}
	return rt.favourite(out, s, now)
}

// lot returns the index of a target that is not out, drawn at random by weight. Targets without weight come
// last, in their order: they are spares. It returns a negative index if all are out.
func (rt *route) lot(out []bool) int {
	var sum float64
	first := -1
	for i, t := range rt.targets {
		if !out[i] {
			sum += t.weight
			if first < 0 {
				first = i
			}
		}
	}
	if sum == 0 || len(out) == 1 {
		return first
	}
	at := rand.Float64() * sum
	chosen := first // rounding may leave at at 0 or above: then the last one with weight is drawn
	for i, t := range rt.targets {
		if out[i] || t.weight == 0 {
			continue
		}
		chosen = i
		if at -= t.weight; at < 0 {
			break
		}
	}
	return chosen
}

// Again ends the round and returns how long to wait before the next one: until a target may be called
// again, and a pause with jitter, so that requests that failed together do not return together. A request
// waits for a free place, to repeat what has failed, and for a time that the upstream has told it. It does
// not wait for a breaker: the next caller may do that. Again then reports false, and returns when that is.
func (p *Plan) Again(now time.Time) (time.Duration, bool) {
	if p.route == nil {
		return 0, false
	}
	if p.last != nil {
		p.tried = append(p.tried, p.last)
		p.last = nil
	}
	p.from = len(p.tried)
	soonest, worth := time.Duration(math.MaxInt64), false
	later := soonest // until a breaker lets somebody through
	for rt := range p.routes {
		for _, t := range rt.targets {
			if t.isDrained() {
				continue // nobody knows until when
			}
			d, open, asked := t.health.wait(now)
			if open {
				later = min(later, d)
			}
			if (!open || asked && slices.Contains(p.tried, t)) && !p.isOut(t) {
				soonest, worth = min(soonest, d), true
			}
		}
	}
	if !worth && later == math.MaxInt64 {
		return 0, false
	}
	if !worth {
		return later, false
	}
	p.pause = min(max(2*p.pause, firstPause), longestPause)
	return soonest + p.pause/2 + rand.N(p.pause/2), true
}

// SetHeader sets the headers that name the model and the provider of the attempt. The values are shared by
// all requests and must not be changed.
func (a *Attempt) SetHeader(h http.Header) {
	h["X-Sluice-Model"], h["X-Sluice-Provider"] = a.header, a.Target.header
	if a.ends != nil {
		h["Sunset"], h["Deprecation"] = a.ends.sunset, a.ends.deprecation
	}
}

// ending holds the values of the headers that tell callers that a model ends: Sunset (RFC 8594) has the day of its end,
// Deprecation (RFC 9745) a day on which that was known.
type ending struct{ sunset, deprecation []string }

// endingOf returns the headers of a model that ends; nil if it does not. now is when the service learned of it.
func endingOf(m *catalog.Model, now time.Time) *ending {
	if m.Shutdown.IsZero() {
		return nil
	}
	known := now.UTC().Truncate(24 * time.Hour)
	return &ending{sunset: []string{m.Shutdown.UTC().Format(http.TimeFormat)}, deprecation: []string{"@" + strconv.FormatInt(known.Unix(), 10)}}
}
