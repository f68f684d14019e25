package routing

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
)

// A vendor's prompt cache helps only if the next call of a conversation reaches the same target. Which one that is
// follows from the conversation and from the names of the targets, so all nodes agree without a word, and a target that
// goes or comes moves only the conversations that it had or gets. What has to be remembered is only where that was not
// followed; see homes.

// settle decides which conversations of the model stay with one of its targets. What some models think is of use under one
// key only: their conversations always stay. Otherwise it pays where reading from a cache costs less than reading again,
// which is certain of a server of one's own.
func (rt *route) settle(now time.Time) {
	rt.bound = len(rt.targets) > 1 && !rt.model.Embeds && slices.ContainsFunc(rt.targets, func(t *Target) bool {
		b, ok := t.Adapter.(provider.KeyBound)
		return ok && b.BindsToKey(t.Upstream)
	})
	if rt.affinity = affinityOf(rt.model, rt.targets, now); rt.bound {
		rt.affinity = catalog.AffinityPrefix
	}
}

// affinityOf returns what is configured, or else what pays. With one target there is nothing to choose, but callers of a model
// with affinity are told that their conversation stays.
func affinityOf(m *catalog.Model, targets []*Target, now time.Time) catalog.Affinity {
	if m.Embeds {
		return catalog.AffinityOff
	}
	pays := false
	for _, t := range targets {
		pays = pays || len(targets) > 1 && (t.selfHosted || cheapReads(m.Prices(t.Provider, t.Upstream).At(now.Unix())))
	}
	switch {
	case m.Affinity != catalog.AffinityDefault:
		return m.Affinity
	case pays:
		return catalog.AffinityPrefix
	}
	return catalog.AffinityOff
}

// cheapReads reports whether tokens that are read from a cache are known to cost less than others. e may be nil.
func cheapReads(e *price.Entry) bool {
	return e != nil && e.Rates[price.CacheRead] != price.Unknown && e.Rates[price.CacheRead] < e.Rates[price.Input]
}

// staying is what a plan knows of its request's conversation; the zero value: it stays nowhere.
type staying struct {
	homes        *homes
	conversation uint64 // the same for every model; see route.name
	session      bool   // it is named by a session id
	follows      bool   // the request contains an earlier answer

	// Of the conversation with the model that was chosen, once a target has been tried:
	asked bool
	last  uint32 // the id of the target of its last call; 0: there was none
	away  absence
}

// absence is why a call did not go to the target of its conversation's last call.
type absence uint8

const (
	present absence = iota
	unhealthy
	outOfQuota
	noPlace
	isBusy
	drainedNow
	hasFailed
	isGone
	wasIdle
	isSpare
	inThread
)

// The values of x-sluice-affinity, made once (docs/providers/affinity.md#the-header).
var (
	keptHeader   = []string{"kept"}
	newHeader    = []string{"new"}
	movedHeaders = [...][]string{
		present: {"moved"}, unhealthy: {"moved (unhealthy)"}, outOfQuota: {"moved (quota)"}, noPlace: {"moved (full)"}, isBusy: {"moved (busy)"},
		drainedNow: {"moved (drained)"}, hasFailed: {"moved (failed)"}, isGone: {"moved (gone)"}, wasIdle: {"moved (idle)"}, isSpare: {"moved (spare)"}, inThread: {"moved (thread)"},
	}
)

// Stay lets the plan call the target at which the request's conversation is warm, as far as the models of the plan want
// that. Session is the caller's name of the conversation; empty: its account and its first messages name it.
func (r *Router) Stay(p *Plan, accountID, session string, req *chat.Request) {
	if !p.mayStay(session != "") {
		return
	}
	h := r.homes.hash()
	h.text(accountID)
	h.text(session)
	if session == "" {
		h.opening(req.Opening())
	}
	p.stay.homes, p.stay.conversation = r.homes, h.sum()
	p.stay.session, p.stay.follows = session != "", follows(req)
}

// mayStay reports whether one of the plan's routes wants the conversation to stay.
func (p *Plan) mayStay(session bool) bool {
	if p.route == nil {
		return false
	}
	if p.route.stays(session) {
		return true
	}
	for _, list := range [2][]*route{p.route.fallbacks, p.others} {
		for _, rt := range list {
			if rt.stays(session) {
				return true
			}
		}
	}
	return false
}

// stays reports whether conversations stay with one of the targets; session says whether they have a session id.
func (rt *route) stays(session bool) bool {
	return rt.affinity == catalog.AffinityPrefix || session && rt.affinity == catalog.AffinitySession
}

// seat is where a conversation is among the targets of a route; the zero value: nowhere.
type seat struct {
	conversation uint64  // with the model of the route; 0: it does not stay
	home         int     // the index of the target that is to be called; negative: the favourite is
	last         uint32  // the id of the target of its last call; 0: there was none
	running      float64 // the load of all targets
	away         absence
}

// seat looks up where the request's conversation is. Out are the targets that must not be called.
func (p *Plan) seat(rt *route, out []bool, now time.Time) seat {
	if p.stay.homes == nil || !rt.stays(p.stay.session) {
		return seat{}
	}
	s := seat{conversation: max(1, mix(p.stay.conversation^rt.name)), home: -1}
	last, warm := p.stay.homes.find(s.conversation, now)
	switch {
	case warm:
		s.last = last
	case p.stay.follows && last != 0: // long ago, so that nothing is warm
		s.last, s.away = last, wasIdle
	case p.stay.follows: // on another node, or before this one began: at its favourite
		s.last = rt.targets[rt.favourite(nil, &seat{conversation: s.conversation}, now)].id
	}
	s.running = rt.running()
	if s.last != 0 && s.away == present {
		s.goHome(rt, out, now)
	}
	if rt == p.route && !p.stay.asked {
		p.stay.asked, p.stay.last = true, s.last
	}
	p.miss(rt, s.away)
	return s
}

// goHome sets the target of the conversation's last call as the one to call, or says why it is not.
func (s *seat) goHome(rt *route, out []bool, now time.Time) {
	s.away = isGone
	for i, t := range rt.targets {
		if t.id != s.last {
			continue
		}
		switch {
		case out[i]:
			if s.away = t.hindrance(); s.away == present {
				s.away = hasFailed
			}
		case t.weight == 0 && rt.weight > 0: // it stood in, and is not to be called while another can be
			s.away = isSpare
		case !rt.bound && t.busy(s.running, t.weight/rt.weightOf(out)):
			s.away = isBusy
		default:
			s.home, s.away = i, present
		}
		return
	}
}

// refused notes that a target did not let the call in.
func (p *Plan) refused(rt *route, s *seat, i int) {
	if t := rt.targets[i]; t.id == s.last {
		if s.away = t.hindrance(); s.away == present {
			s.away = noPlace // it was, a moment ago
		}
		p.miss(rt, s.away)
	}
	s.home = -1
}

// miss keeps the first reason why a call does not go to the target of its conversation's last call.
func (p *Plan) miss(rt *route, why absence) {
	if rt == p.route && p.stay.away == present {
		p.stay.away = why
	}
}

// sit notes that an attempt of the conversation begins.
func (p *Plan) sit(rt *route, s *seat, i int, a *Attempt) {
	a.conversation, a.follows = s.conversation, p.stay.follows
	a.strays = rt.favourite(nil, s, a.start) != i
	if a.Target.id != s.last { // it begins there, or moves there
		a.Target.placed.add(a.start)
	}
}

// Stayed remembers which target has answered, and returns the value of the header x-sluice-affinity, which must not be
// changed; nil: the model has no affinity.
func (p *Plan) Stayed(a *Attempt, now time.Time) []string {
	s := &p.stay
	if a.conversation != 0 {
		s.homes.stayed(a, now)
	}
	switch {
	case !s.asked:
		return nil
	case s.last == 0:
		return newHeader
	case s.last == a.Target.id:
		return keptHeader
	}
	return movedHeaders[s.away]
}

// favourite returns the index of the target, of those that are not out, that comes first for a conversation. Targets
// that have more than their share are passed over if there is another. Targets without weight come last, in their order.
// It returns a negative index if all are out.
//
// Each target draws a number by the conversation and its own name. The larger its weight is, the more often its number
// is the smallest (weighted rendezvous hashing). A nil out means that the bounds do not count. Nor do they for a model whose
// thinking belongs to a key: another node that has not heard of a move within the second would ask the wrong one.
func (rt *route) favourite(out []bool, s *seat, now time.Time) int {
	chosen, least := -1, math.Inf(1)
	roomy, leastRoomy := -1, math.Inf(1) // of those that have no more than their share
	calm, leastCalm := -1, math.Inf(1)   // of those that are not busy: where the others are, a share means little
	var b burden
	if out != nil {
		b = rt.burden(out, s, now)
	}
	for i, t := range rt.targets {
		if out != nil && out[i] {
			continue
		}
		drawn := math.Inf(1)
		if t.weight > 0 {
			u := (float64(mix(t.name^s.conversation)>>11) + 0.5) / (1 << 53) // between 0 and 1, and neither
			drawn = -math.Log(u) / t.weight
		}
		if chosen < 0 || drawn < least {
			chosen, least = i, drawn
		}
		if out == nil || rt.bound || drawn >= leastRoomy && drawn >= leastCalm || b.busy(t) {
			continue
		}
		if drawn < leastCalm {
			calm, leastCalm = i, drawn
		}
		if drawn < leastRoomy && !b.over(t, now) {
			roomy, leastRoomy = i, drawn
		}
	}
	switch {
	case roomy >= 0:
		return roomy
	case calm >= 0:
		return calm
	}
	return chosen
}

// hasher hashes texts. Unlike hash/maphash it gives the same on all nodes. It is no cryptographic hash, which would take
// several times as long: the seed is secret, and two conversations of an account that are taken for one only share a target.
type hasher struct{ h, seed uint64 }

// opening hashes the first messages of a conversation: of each its role, and of its contents what tells them apart.
func (h *hasher) opening(messages []chat.Message) {
	for i := range messages {
		m := &messages[i]
		h.word(uint64(m.Role) + 1)
		seen := 0
		for number := 0; seen < seenOf; number++ {
			head, tail, ok := m.Content.Ends(number, seenOf)
			if !ok {
				break
			}
			h.add(head)
			h.add(tail)
			seen += len(head) + len(tail)
		}
	}
}

// text hashes a short text.
func (h *hasher) text(s string) {
	var room [64]byte
	h.add(append(room[:0], s...))
}

// add hashes a text and its length.
func (h *hasher) add(text []byte) {
	h.word(uint64(len(text)))
	// Two sums side by side in registers, since each step waits for the multiplication before it: a third of the time.
	a, b, seed := h.h, ^h.h, h.seed
	for ; len(text) >= 16; text = text[16:] {
		a = fold(a^binary.LittleEndian.Uint64(text), seed)
		b = fold(b^binary.LittleEndian.Uint64(text[8:]), seed)
	}
	var rest [16]byte
	copy(rest[:], text)
	a = fold(a^binary.LittleEndian.Uint64(rest[:]), seed)
	b = fold(b^binary.LittleEndian.Uint64(rest[8:]), seed)
	h.h = a
	h.word(b)
}

func (h *hasher) word(w uint64) { h.h = fold(h.h^w, h.seed) }

// fold multiplies, and returns both halves of the product in one.
func fold(x, y uint64) uint64 {
	high, low := bits.Mul64(x, y)
	return high ^ low
}

// sum returns the hash, which is not 0.
func (h *hasher) sum() uint64 { return max(1, mix(h.h)) }

// nameOf hashes a name, for the order of targets.
func nameOf(name string) uint64 {
	h := hasher{seed: 0x9e3779b97f4a7c15}
	h.text(name)
	return h.sum()
}

// mix spreads the bits of a number, as SplitMix64 does.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
