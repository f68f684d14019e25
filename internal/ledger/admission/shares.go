package admission

import (
	"slices"
	"time"

	"sluice/internal/account"
)

// retryShare is when a call is told to come back that does not fit into this node's part of a limit but into
// the limit: another node may take it then.
const retryShare = 5 * time.Second

// View is the place of a node in one list of nodes. The zero value is that of a node that is not in the list.
type View struct{ Rank, Nodes int }

// Share returns the node's part of a limit. The parts of all nodes of a list add up to the limit exactly.
// Turn decides which nodes get one more where the limit does not divide; it depends on the account, so that
// it is not always the same ones. It names a place on the circle of nodes, so that almost the same ones get it
// when a node comes or goes.
func (v View) Share(limit account.Limit, turn uint32) account.Limit {
	switch {
	case limit == account.Unlimited:
		return limit
	case v.Nodes <= 0:
		return 0
	}
	n := int64(v.Nodes)
	part, rest := int64(limit)/n, int64(limit)%n
	if (int64(v.Rank)+int64(turn)*n>>32)%n < rest {
		part++
	}
	return account.Limit(part)
}

// Shares returns a node's part of each limit of an account: the smallest one in any of the lists. While the
// list of nodes changes, each of them counts several lists, and the parts in different lists may add up to
// more than the limit. There must be one list that every node has among its own.
func Shares(views []View, accountID string, limits account.Limits) account.Limits {
	turn := spread(accountID)
	share := func(limit account.Limit) account.Limit {
		least := limit
		for _, v := range views {
			least = min(least, v.Share(limit, turn)) // Unlimited is the same in every view
		}
		return least
	}
	return account.Limits{
		RequestsPerMinute: share(limits.RequestsPerMinute), Concurrent: share(limits.Concurrent),
		TokensPerMinute: share(limits.TokensPerMinute),
	}
}

// NoShare reports whether a node that goes by these lists has no part of any limit: it is not in all of them.
func NoShare(views []View) bool {
	return slices.ContainsFunc(views, func(v View) bool { return v.Nodes <= 0 })
}

// spread returns a number for an account that is the same on every node (FNV-1a).
func spread(accountID string) uint32 {
	h := uint32(2166136261)
	for i := range len(accountID) {
		h = (h ^ uint32(accountID[i])) * 16777619
	}
	return h
}

// Widen turns a headroom within shares into one within the limits: what belongs to other nodes counts as
// used, so that what remains is what this node can still admit.
func (s Headroom) Widen(limits, shares account.Limits) Headroom {
	s.Requests = s.Requests.widen(limits.RequestsPerMinute, shares.RequestsPerMinute, 1000)
	s.Tokens = s.Tokens.widen(limits.TokensPerMinute, shares.TokensPerMinute, 1)
	return s
}

func (m Meter) widen(limit, share account.Limit, unit int64) Meter {
	if limit != account.Unlimited {
		m.Limit = limit
		m.Used += int64(limit-share) * unit
	}
	return m
}

// Widen turns an obstacle within the shares that views give into one within the limits. Only what exceeds a whole
// limit can never pass; what exceeds the share may pass elsewhere, or later.
func (o *Obstacle) Widen(limits, shares account.Limits, views []View, c Cost) *Obstacle {
	never := o.Never
	o.NoShare = NoShare(views)
	share := o.Limit
	defer func() {
		if share != o.Limit {
			o.Divided, o.Share = true, share
		}
	}()
	switch o.Resource {
	case Requests:
		o.Limit, o.Used = limits.RequestsPerMinute, o.Used+int64(limits.RequestsPerMinute-shares.RequestsPerMinute)*1000
		o.Never = c.RequestMilli > int64(o.Limit)*1000
	case Tokens:
		o.Limit, o.Used = limits.TokensPerMinute, o.Used+int64(limits.TokensPerMinute-shares.TokensPerMinute)
		o.Never = c.Tokens > int64(o.Limit)
	default:
		o.Limit, o.Used = limits.Concurrent, o.Used+int64(limits.Concurrent-shares.Concurrent)
		o.Never = o.Limit == 0
		return o // a slot has no time
	}
	if never && !o.Never {
		o.Wait = retryShare
	}
	return o
}

// Divided is the ledger of one of several nodes that do not count together: each admits calls on its own
// part of every limit. What is used is in memory, as in the ledger that it is made of.
type Divided struct {
	*Memory
	views func() []View
}

// NewDivided returns a ledger on the parts that views names. It is called for every request, so it must be
// quick; it returns the lists of nodes that count now, and the ledger does not change them. No list at all
// means the whole limit.
func NewDivided(m *Memory, views func() []View) *Divided { return &Divided{m, views} }

// Take implements Ledger. A call whose tokens exceed this node's part reserves the whole part, as a call
// that exceeds the limit reserves the whole limit elsewhere: otherwise it could not pass anywhere, ever. What
// it used beyond that counts when it ends.
func (d *Divided) Take(accountID string, limits account.Limits, c Cost) (Place, Headroom, *Obstacle) {
	views := d.views()
	shares := Shares(views, accountID, limits)
	// A part of 0 stays in the way: another node has what there is.
	if l := limits.TokensPerMinute; l != account.Unlimited && shares.TokensPerMinute > 0 && c.Tokens <= int64(l) {
		c.Tokens = min(c.Tokens, int64(shares.TokensPerMinute))
	}
	p, headroom, o := d.Memory.Take(accountID, shares, c)
	if o == nil {
		return p, headroom.Widen(limits, shares), nil
	}
	o = o.Widen(limits, shares, views, c)
	if o.Resource == Requests && !o.Never && !o.NoShare {
		o.divide(views, c)
	}
	return p, headroom.Widen(limits, shares), o
}

// divide marks the obstacle if no node has a part that the requests of the call fit into. To say that the
// call would pass in a few seconds would make clients repeat it for ever.
func (o *Obstacle) divide(views []View, c Cost) {
	for _, v := range views {
		n := int64(v.Nodes)
		if n > 1 && c.RequestMilli > (int64(o.Limit)+n-1)/n*1000 {
			o.Never, o.Parts = true, max(o.Parts, v.Nodes)
		}
	}
}

// Peek implements Ledger.
func (d *Divided) Peek(accountID string, limits account.Limits) Headroom {
	shares := Shares(d.views(), accountID, limits)
	return d.Memory.Peek(accountID, shares).Widen(limits, shares)
}
