package caching

import (
	"fmt"
	"strconv"
	"time"
)

// Sizes are those of a prompt, in tokens, by our own estimate.
type Sizes struct {
	Head  int // the tools and the system messages at the front
	Whole int // up to the end of the last turn of the user
	Least int // what the vendor keeps must have so many
}

// Choice says what to mark, and why.
type Choice struct {
	Marks  Marks
	Reason string // such as "cached for 5m: 14 turns, gaps of 40s"

	prices Prices
	sizes  Sizes
	place  uint64
	stake  float64 // taken from the banks
	read   int     // tokens that should be read
	own    bool    // which the conversation itself has written
}

// The reasons for no mark that come from outside.
const (
	Unpriced = "not cached: no lower price for reads is known"
	Marked   = "not cached: the request has marks of its own"
	Threaded = "not cached: the vendor holds the conversation"
)

// Weigh decides what to mark at a place, which stands for the target: what one has kept is of no use at another. A call that
// is tried at several places weighs at each of them, and settles before the next.
func (t *Turn) Weigh(place uint64, p Prices, s Sizes) Choice {
	t.choice = Choice{place: place, prices: p, sizes: s, Reason: Unpriced}
	if !p.Known() {
		return t.choice
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	c, h, a := t.entries()
	whole, head := t.scaled(s.Whole), t.scaled(s.Head)
	t.recall(place, whole, c, h)
	if b := Weigh(&p, &t.talk, max(whole, t.talk.Cached), both(&c.bank, &a.bank)); b.TTL != Not && whole >= s.Least {
		t.markLast(b, head)
		c.bank.place(b)
		a.bank.place(b)
		return t.choice
	}
	if h != nil && head >= s.Least {
		if b := Weigh(&p, &t.shared, max(head, t.shared.Cached), both(&h.bank, &a.bank)); b.TTL != Not {
			t.choice.Marks, t.choice.stake, t.choice.read = Marks{Head: b.TTL}, b.Stake, t.shared.Cached
			t.choice.Reason = fmt.Sprintf("tools and system cached for %s: %s share them", t.choice.Marks.Head, count(t.shared.Turns+1, "call"))
			h.bank.place(b)
			a.bank.place(b)
		}
	}
	t.forgo(c, h, a)
	if t.choice.Marks.None() {
		t.choice.Reason = t.whyNot(&p, whole, s.Least)
	}
	return t.choice
}

// both returns what lets a bet through that both banks allow.
func both(a, b *Bank) func(Bet) bool {
	return func(bet Bet) bool { return a.Allows(bet) && b.Allows(bet) }
}

// scaled returns an estimate in the vendor's tokens.
func (t *Turn) scaled(tokens int) int { return int(float32(tokens) * t.scale) }

// recall completes the evidence with what is in the cache of a place.
func (t *Turn) recall(place uint64, whole int, c, h *entry) {
	t.talk.Growth = 0.1 // about what agents add
	if t.last > 0 && whole >= int(t.last) {
		t.talk.Growth = float64(whole-int(t.last)) / float64(whole)
	}
	t.talk.Cached, t.talk.TTL = c.there(place, t.name.Head, t.now)
	t.talk.Own = t.talk.Cached > 0
	if h == nil {
		return
	}
	t.shared.Cached, t.shared.TTL = h.there(place, t.name.Head, t.now)
	t.shared.Own = true
	if !t.talk.Own { // its beginning may be there
		t.talk.Cached, t.talk.TTL = t.shared.Cached, t.shared.TTL
	}
}

// markLast marks the end of the conversation, and what is in front of it.
func (t *Turn) markLast(b Bet, head int) {
	ch := &t.choice
	ch.Marks, ch.stake, ch.read, ch.own = Marks{Last: b.TTL}, b.Stake, t.talk.Cached, t.talk.Own
	if head >= ch.sizes.Least { // conversations that begin alike find it
		ch.Marks.Head = max(b.TTL, t.shared.TTL)
	}
	if t.turns > 0 { // the vendor looks 20 blocks back from a mark, and a turn may have more
		ch.Marks.Before = b.TTL
	}
	ch.Reason = "cached for " + b.TTL.String() + ": " + t.history()
}

// forgo notes what a mark would have won now.
func (t *Turn) forgo(c, h *entry, a *account) {
	won := 0.0
	if t.since > 0 && Short.lasts(t.since) {
		won = t.choice.prices.saves() * float64(t.last)
		c.bank.Forgone += won
	}
	if h != nil && t.choice.Marks.None() && t.sinceShared > 0 && Short.lasts(t.sinceShared) {
		shared := t.choice.prices.saves() * float64(t.lastShared)
		h.bank.Forgone += shared
		won = max(won, shared)
	}
	a.bank.Forgone += won
}

// history says in words what is known of the conversation.
func (t *Turn) history() string {
	switch {
	case t.turns == 0 && t.pause == 0:
		return "first call, and others of the account go on"
	case t.pause == 0 && t.talk.Kind == Loop:
		return count(t.turns, "turn") + ", answers tools"
	case t.pause == 0:
		return count(t.turns, "turn")
	}
	return count(t.turns, "turn") + ", gaps of " + span(time.Duration(float64(t.pause)*float64(time.Second)))
}

// whyNot says in words why nothing is marked.
func (t *Turn) whyNot(p *Prices, whole, least int) string {
	switch {
	case whole < least:
		return fmt.Sprintf("not cached: about %d tokens, and the model keeps %d or more", whole, least)
	case Weigh(p, &t.talk, whole, func(Bet) bool { return true }).TTL != Not:
		return "not cached: earlier marks have not paid yet"
	case t.turns == 0 && t.pause == 0:
		return "not cached: first call"
	}
	return "not cached: " + t.history()
}

// count returns a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

// span returns a time in the unit that fits it.
func span(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return strconv.Itoa(int(d.Seconds()+0.5)) + "s"
	case d < 90*time.Minute:
		return strconv.Itoa(int(d.Minutes()+0.5)) + "m"
	}
	return strconv.Itoa(int(d.Hours()+0.5)) + "h"
}

// Figures are what the vendor says of a prompt: all of its tokens, those read from the cache, and those written for either
// life.
type Figures struct{ Prompt, Read, Short, Long int }

// Settle notes what became of the call at the last place. Without figures the stake is returned, unless the vendor has been
// sent the prompt.
func (t *Turn) Settle(f *Figures, sent bool) {
	ch := &t.choice
	if t.looked != nil || ch.Reason == "" {
		return
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	c, h, a := t.entries()
	defer func() { *ch = Choice{} }() // once
	bank := &c.bank
	if ch.Marks.Last == Not && h != nil {
		bank = &h.bank
	}
	if f == nil {
		if !sent {
			bank.Net += ch.stake
			a.bank.Net += ch.stake
		}
		return
	}
	if !ch.Marks.None() {
		won := ch.stake + ch.prices.saves()*float64(f.Read) - ch.prices.extra(Short)*float64(f.Short) - ch.prices.extra(Long)*float64(f.Long)
		bank.Net += won
		a.bank.Net += won
	}
	t.measure(f, c, h, a)
	if ch.Marks.Last != Not {
		t.kept(c, f, ch.Marks.Last, ch.own)
	}
	if ch.Marks.Head != Not && h != nil {
		t.keptHead(h, f)
	}
}

// measure notes how long the prompt was, and how far our estimate was off.
func (t *Turn) measure(f *Figures, c, h *entry, a *account) {
	if f.Prompt <= 0 || t.choice.sizes.Whole <= 0 {
		return
	}
	c.tokens = int32(min(f.Prompt, 1<<30))
	c.scale = min(4, max(0.25, float32(f.Prompt)/float32(t.choice.sizes.Whole)))
	t.scale, a.scale = c.scale, c.scale
	if h != nil {
		h.tokens = int32(t.scaled(t.choice.sizes.Head))
	}
}

// kept notes that a prompt is in the cache up to its last mark. believed says that the entry had promised what should have
// been read.
func (t *Turn) kept(e *entry, f *Figures, ttl TTL, believed bool) {
	if f.Read > 0 {
		e.doubted = false
	}
	if believed && f.Read < t.choice.read/2 {
		e.doubted = true
	}
	if f.Short > 0 && f.Long == 0 { // the vendor has not followed
		ttl = Short
	}
	e.cached, e.ttl, e.used = int32(min(f.Read+f.Short+f.Long, 1<<30)), ttl, t.now
	e.place, e.head = t.choice.place, t.name.Head
}

// keptHead notes that the beginning of a prompt is in the cache. What was read beyond it has not begun its life anew, as far
// as anybody knows.
func (t *Turn) keptHead(h *entry, f *Figures) {
	ch := &t.choice
	if ch.Marks.Last == Not {
		t.kept(h, f, ch.Marks.Head, true)
		return
	}
	head := t.scaled(ch.sizes.Head)
	if f.Short+f.Long == 0 && f.Read == 0 || f.Read > head/4*5 {
		return
	}
	t.kept(h, f, ch.Marks.Head, !ch.own)
	h.cached = int32(min(int(h.cached), head))
}
