// Package caching decides where the vendor of a model is asked to keep a prompt, and for how long. It is arithmetic on
// prices, times and sizes: it knows no text, no wire format and no clock.
//
// Some vendors keep only what a request marks. Writing costs more than plain input, w times as much (1.25 for five minutes,
// 2 for an hour), and reading costs less, r times as much (0.1). A read begins the life of what it reads anew. So a mark is
// a bet: its stake is (w-1) times the tokens that are written, and each later call that comes in time wins (1-r) times the
// tokens that it reads. What is known of the next call:
//
//   - the gaps between the calls of this conversation, against the two lives;
//   - how often calls of this kind were followed by another one lately, in all conversations of the account with the model;
//   - how many replies the request has in it: a conversation of n turns has about n to come.
//
// From that follow q, the chance that the next call finds the prompt, and t, the number of calls to come. For a prompt of m
// tokens of which r0 are read now, and a growth of g of the prompt for each turn, a mark is worth, in tokens of plain input:
//
//	(1-r) r0 - (w-1) (m-r0)                       this call
//	+ q (1-r) m                                   the next one
//	+ (t-1) m (q (1-r) - (1-q) (w-1) - q g (w-1)) those after it, if that is more than nothing
//
// Weigh takes the life that is worth most, if it is worth enough beside its stake. What is in the cache already is continued
// with the same life: a prompt whose front has the shorter one would be gone with it.
//
// A bet can be lost: the conversation ends. A Bank bounds that. It holds what marks have won and lost, by the vendor's own
// figures, and a bet needs one of three things: winnings that pay for it; a balance that is not negative, for five minutes
// alone; or calls without marks that would have won twice the debt and the stake. So the first lost bet stops further ones
// until there is evidence worth twice the loss, and the evidence must grow with each loss: after n lost bets of a stake x, the
// calls without marks have cost at least n(n-1)x, and the loss is at most in the order of the root of what the calls
// cost. Two banks must agree: that of the conversation, and that of the account with the model.
//
// What is known is in a Memory of constant size, in this process. Nodes of one service do not share it: a node that has not
// seen a conversation knows its turns from the request, and each node has a bank of its own. So n nodes lose at most n times
// what one does, and what one node has written is a gain for another that does not expect it.
package caching

import "time"

// TTL is how long a vendor keeps a prompt from its last use on.
type TTL uint8

// The lives that vendors sell.
const (
	Not   TTL = iota // it is not marked
	Short            // five minutes
	Long             // an hour
)

// String returns the life as vendors write it.
func (t TTL) String() string { return [...]string{"", "5m", "1h"}[t] }

// The lives in full.
const (
	shortLife = 5 * time.Minute
	longLife  = time.Hour
)

// lasts reports whether a prompt with this life is still there after a pause. A little before its end it counts as gone:
// requests take their time to arrive.
func (t TTL) lasts(pause time.Duration) bool {
	const margin = 5 * time.Second
	switch t {
	case Short:
		return pause < shortLife-margin
	case Long:
		return pause < longLife-margin
	}
	return false
}

// Marks are the places of a request where a prompt is to be kept. There are three at most: vendors take four, and three
// beside a thread. A place behind another never has a longer life than it.
type Marks struct {
	Head   TTL // behind the tools and the system messages at the front
	Before TTL // behind the turn of the user before the last reply, where the call before this one has marked its end
	Last   TTL // behind the last turn of the user
}

// None reports whether nothing is marked.
func (m Marks) None() bool { return m == Marks{} }

// Longest returns the longest life of the marks.
func (m Marks) Longest() TTL { return max(m.Head, m.Before, m.Last) }

// Prices are what a token costs as plain input, read from the cache and written to it, in any unit. A Long of zero is not
// for sale.
type Prices struct{ Input, Read, Short, Long float64 }

// Known reports whether a decision can be made with the prices: a read is cheaper than plain input, and a write has a
// price.
func (p *Prices) Known() bool { return p.Input > 0 && p.Read >= 0 && p.Read < p.Input && p.Short > 0 }

// saves is what a token that is read saves.
func (p *Prices) saves() float64 { return p.Input - p.Read }

// extra is what a token that is written costs more than plain input.
func (p *Prices) extra(t TTL) float64 {
	if t == Long {
		return max(0, p.Long-p.Input)
	}
	return max(0, p.Short-p.Input)
}

// Kind says what a call is in its conversation.
type Kind uint8

// The kinds. They differ in what follows.
const (
	Opening Kind = iota // there is no reply yet
	Talk                // somebody answers a reply
	Loop                // a program answers with the results of tools
	Shared              // no call of a conversation: any call with the same tools and system messages
	kinds   int  = iota
)

// Gaps counts the pauses after calls: within five minutes, within an hour, and longer ones.
type Gaps struct{ Short, Middle, Later float32 }

// add counts a pause.
func (g *Gaps) add(pause time.Duration) {
	switch {
	case Short.lasts(pause):
		g.Short++
	case Long.lasts(pause):
		g.Middle++
	default:
		g.Later++
	}
}

// total returns how many there are.
func (g *Gaps) total() float64 { return float64(g.Short) + float64(g.Middle) + float64(g.Later) }

// fade halves the counts once there are more than most, so that those of late count most.
func (g *Gaps) fade(most float64) {
	if g.total() > most {
		g.Short, g.Middle, g.Later = g.Short/2, g.Middle/2, g.Later/2
	}
}

// Evidence is what is known about the calls to come.
type Evidence struct {
	Kind  Kind
	Turns int  // replies so far; of Shared, calls
	Gaps  Gaps // of this conversation
	// Lately has the pauses after calls of this kind in the account's conversations with the model. Later counts those that
	// nothing has followed yet, too.
	Lately Gaps
	// Cached is how many tokens are in the cache, and TTL their life; zero: nothing is known to be there. Own says that they
	// are of this conversation, and not only what it begins with.
	Cached int
	TTL    TTL
	Own    bool
	Growth float64 // the share of the prompt that is new with each turn
}

// What is expected of a kind before anything is known, and how many calls that weighs.
var expected = [kinds]struct{ short, long float64 }{
	Opening: {0, 0}, Talk: {0.15, 0.3}, Loop: {0.9, 0.95}, Shared: {0, 0},
}

const (
	weight   = 2.0
	mostTurn = 20.0 // turns to come are not expected to be more
)

// blend returns the share of hits in n, where weight more are expected to have a share of expected.
func blend(hits, n, expected float64) float64 { return (hits + weight*expected) / (n + weight) }

// chances returns the chances that the next call comes within either life, and how many calls are to come.
func (e *Evidence) chances() (short, long, turns float64) {
	l, n := &e.Lately, e.Lately.total()
	short = blend(float64(l.Short), n, expected[e.Kind].short)
	long = blend(float64(l.Short)+float64(l.Middle), n, expected[e.Kind].long)
	own := e.Gaps.total()
	short, long = blend(float64(e.Gaps.Short), own, short), blend(float64(e.Gaps.Short)+float64(e.Gaps.Middle), own, long)
	turns = min(mostTurn, max(float64(e.Turns), long/max(0.01, 1-long)))
	return short, long, turns
}

// Bet is a mark at one place.
type Bet struct {
	TTL   TTL     // Not: it is not worth it
	Stake float64 // what is lost if nothing follows; never negative
	Worth float64 // what it is expected to win
}

// prudence is how much of its stake a bet must be expected to win, at least.
const prudence = 0.5

// Weigh returns the bet on a prompt of so many tokens that is worth most and that allows lets through.
func Weigh(p *Prices, e *Evidence, tokens int, allows func(Bet) bool) (best Bet) {
	short, long, turns := e.chances()
	for t := Short; t <= Long; t++ {
		q := short
		if t == Long {
			q = long
		}
		if t == Long && p.Long <= 0 || e.Cached > 0 && (t > e.TTL || t < e.TTL && e.Own) {
			continue
		}
		b := p.bet(e, float64(tokens), t, q, turns)
		if b.Worth > 0 && b.Worth >= prudence*b.Stake && (best.TTL == Not || b.Worth > best.Worth) && allows(b) {
			best = b
		}
	}
	return best
}

// bet returns what a mark with a life is worth; see the documentation of the package.
func (p *Prices) bet(e *Evidence, tokens float64, t TTL, q, turns float64) Bet {
	saves, extra := p.saves(), p.extra(t)
	cached := min(float64(e.Cached), tokens)
	now := saves*cached - extra*(tokens-cached)
	later := q*saves - (1-q)*extra - q*e.Growth*extra
	worth := now + q*saves*tokens + max(0, turns-1)*max(0, later)*tokens
	return Bet{TTL: t, Stake: max(0, -now), Worth: worth}
}

// Bank holds what marks have won, less what they have cost.
type Bank struct {
	Net     float64 // since the beginning, with the stakes of calls under way as lost
	Forgone float64 // what calls without marks would have won since the last bet
}

// Allows reports whether there is enough for a bet; see the documentation of the package.
func (k *Bank) Allows(b Bet) bool {
	return b.Stake <= max(0, k.Net) || k.Net >= 0 && b.TTL == Short || k.Forgone >= 2*(b.Stake-k.Net)
}

// place takes the stake of a bet.
func (k *Bank) place(b Bet) {
	if b.Stake > max(0, k.Net) { // nothing pays for it
		k.Forgone = 0
	}
	k.Net -= b.Stake
}
