package routing

import (
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"sluice/internal/catalog"
)

const (
	// tries is how often a request asks each of its targets at most.
	tries = 3
	// What it pauses between two rounds: the first time, and once that has doubled often enough.
	firstPause   = 200 * time.Millisecond
	longestPause = time.Second
)

// Plan is the order in which one request asks: the targets of its model that are well, drawn by
// weight, then those of its fallbacks, then whoever only seems to be ill; each once in a round.
type Plan struct {
	route     *route
	others    []*route  // that stand in behind the model's own fallbacks
	fallbacks []*route  // those that fit, once the model's own targets are used up
	looked    bool      // for fallbacks
	last      *Target   // the one asked last
	tried     []*Target // those before that
	from      int       // of tried: where this round begins
	out       []*Target // not to be asked again
	pause     time.Duration
}

// Plan makes the plan of a request for the model. Others stand in for it behind its own fallbacks.
func (r *Routes) Plan(m *catalog.Model, others ...*catalog.Model) Plan {
	p := Plan{route: r.byModel[m]}
	for _, o := range others {
		if rt := r.byModel[o]; rt != nil {
			p.others = append(p.others, rt)
		}
	}
	return p
}

// Alone reports whether there is but one target to ask.
func (p *Plan) Alone() bool {
	return p.route == nil || len(p.route.targets) < 2 && len(p.route.fallbacks) == 0 && len(p.others) == 0
}

// Next begins the next attempt of the round, or reports that there is nobody left who can be asked now.
// Fits is asked of fallbacks.
func (p *Plan) Next(now time.Time, fits func(*catalog.Model) bool) (Attempt, bool) {
	if p.route == nil {
		return Attempt{}, false
	}
	if p.last != nil {
		p.tried = append(p.tried, p.last)
		p.last = nil
	}
	if a, ok := p.draw(p.route, now, wanted); ok {
		return a, true
	}
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
	if a, ok := p.draw(p.route, now, sought); ok {
		return a, true
	}
	for _, rt := range p.fallbacks {
		if a, ok := p.draw(rt, now, sought); ok {
			return a, true
		}
	}
	return Attempt{}, false
}

// GiveUp makes the target asked last one that is not asked again: another try would come to the same.
func (p *Plan) GiveUp() { p.out = append(p.out, p.last) }

// GiveUpModel does the same for every target of the model asked last.
func (p *Plan) GiveUpModel() {
	for _, rt := range append([]*route{p.route}, p.fallbacks...) {
		if slices.Contains(rt.targets, p.last) {
			p.out = append(p.out, rt.targets...)
		}
	}
}

// isOut reports whether the target is not to be asked again.
func (p *Plan) isOut(t *Target) bool {
	n := 0
	for _, other := range p.tried {
		if other == t {
			n++
		}
	}
	return n >= tries || slices.Contains(p.out, t)
}

// draw begins an attempt at one of the route's targets.
func (p *Plan) draw(rt *route, now time.Time, n need) (Attempt, bool) {
	out := make([]bool, len(rt.targets))
	for i, t := range rt.targets {
		out[i] = slices.Contains(p.tried[p.from:], t) || p.isOut(t)
	}
	for {
		i := rt.lot(out)
		if i < 0 {
			return Attempt{}, false
		}
		t := rt.targets[i]
		repeat := slices.Contains(p.tried, t)
		if n >= sought && !repeat && p.Alone() {
			n = dire
		}
		if permit, ok := t.begin(now, n); ok {
			p.last = t
			return Attempt{Target: t, Model: rt.model, header: rt.header, start: now, permit: permit, repeat: repeat}, true
		}
		out[i] = true
	}
}

// lot draws by weight among the targets that are not out; those without weight come last, in their
// order. It is negative where all are out.
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
	chosen := first
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

// Again ends the round and says how long to wait before the next one: with jitter, and not before
// somebody may be asked. It reports false where nobody is worth waiting for.
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
	look := func(rt *route) {
		for _, t := range rt.targets {
			if d, ok := t.health.wait(now); ok && !p.isOut(t) {
				soonest, worth = min(soonest, d), true
			}
		}
	}
	look(p.route)
	for _, rt := range p.fallbacks {
		look(rt)
	}
	if !worth {
		return 0, false
	}
	p.pause = min(max(2*p.pause, firstPause), longestPause)
	return soonest + p.pause/2 + rand.N(p.pause/2), true
}

// SetHeader tells which model answers, and who serves it.
func (a *Attempt) SetHeader(h http.Header) {
	h["X-Sluice-Model"], h["X-Sluice-Provider"] = a.header, a.Target.header
}
