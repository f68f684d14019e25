package routing

import (
	"hash/fnv"
	"math"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// What some models think is of use under one key only. A conversation with such a model stays with one of its targets.
// Which one follows from the conversation and from the names of the targets, so all nodes agree without a word, and a
// target that goes or comes moves only the conversations that it had or gets.

// Stays reports whether the model's conversations stay with one of its targets; see Stay.
func (p *Plan) Stays() bool { return p.route != nil && p.route.bound }

// Stay lets the plan try the targets in an order that is the same for every request of a conversation. Over all
// conversations, the first ones are spread by weight. The request continues the conversation.
func (p *Plan) Stay(accountID string, req *chat.Request) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(accountID))
	var text []byte
	for _, m := range opening(req) {
		text = m.Content.AppendSample(append(text[:0], byte(m.Role)), seenOf)
		_, _ = h.Write(text)
	}
	p.conversation = max(h.Sum64(), 1)
}

// bind notes whether the conversations of a model stay with one of its targets.
func (rt *route) bind() {
	for _, t := range rt.targets {
		b, ok := t.Adapter.(provider.KeyBound)
		rt.bound = rt.bound || ok && len(rt.targets) > 1 && b.BindsToKey(t.Upstream)
	}
}

// favourite returns the index of the target, of those that are not out, that comes first for a conversation. Targets
// without weight come last, in their order. It returns a negative index if all are out.
//
// Each target draws a number by the conversation and its own name. The larger its weight is, the more often its number
// is the smallest (weighted rendezvous hashing).
func (rt *route) favourite(out []bool, conversation uint64) int {
	chosen, least := -1, math.Inf(1)
	for i, t := range rt.targets {
		if out[i] {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(t.Provider + "\x00" + t.Upstream + "\x00" + t.LastFour))
		drawn := math.Inf(1)
		if t.weight > 0 {
			u := (float64(mix(h.Sum64()^conversation)>>11) + 0.5) / (1 << 53) // between 0 and 1, and neither
			drawn = -math.Log(u) / t.weight
		}
		if chosen < 0 || drawn < least {
			chosen, least = i, drawn
		}
	}
	return chosen
}

// mix spreads the bits of a number, as SplitMix64 does.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
