package redisledger

import (
	"errors"
	"slices"
	"strconv"
	"sync"

	"sluice/internal/account"
)

// view is the place of this node in one list of nodes.
type view struct{ rank, nodes int }

// share returns this node's part of a limit. The parts of all nodes of a list add up to the limit exactly.
// Turn decides which nodes get one more where the limit does not divide; it depends on the account, so that
// it is not always the same ones.
func (v view) share(limit account.Limit, turn uint32) account.Limit {
	switch {
	case limit == account.Unlimited:
		return limit
	case v.nodes <= 0:
		return 0
	}
	n := int64(v.nodes)
	part, rest := int64(limit)/n, int64(limit)%n
	if (int64(v.rank)+int64(turn))%n < rest {
		part++
	}
	return account.Limit(part)
}

// spread returns a number for an account that is the same on every node (FNV-1a).
func spread(accountID string) uint32 {
	h := uint32(2166136261)
	for i := range len(accountID) {
		h = (h ^ uint32(accountID[i])) * 16777619
	}
	return h
}

// nodes is what this node knows about the others.
//
// Nodes learn of a changed list one after the other, and shares from different lists may add up to more
// than the limit. So each node goes by the smallest of its shares in all lists since the last one that
// every node had seen. At any time there is one list that all nodes have among theirs, and they take no
// more than their shares of that one. A node that joins has no share until every node has seen it.
type nodes struct {
	mu      sync.RWMutex
	born    string // identifies the table; empty before the first contact
	version string // of the list that this node has seen last
	members []string
	views   []view // nil before the first contact
	// fresh is set when the table was lost and is new: Redis has forgotten what it had admitted, and only a
	// minute later nothing of that counts any more.
	fresh bool
}

// sighting is the reply of a beat.
type sighting struct {
	now     int64  // the time of Redis
	born    string // identifies the table
	age     int64  // of the table, in milliseconds
	version string
	settled bool // every node has seen this version
	members []string
}

func readSighting(v []string, err error) (sighting, error) {
	if err != nil {
		return sighting{}, err
	}
	if len(v) < 6 {
		return sighting{}, errors.New("the table of nodes has another form: nodes of different versions share this Redis")
	}
	s := sighting{born: v[1], version: v[3], settled: v[4] == "1", members: v[5:]}
	var errNow, errAge error
	s.now, errNow = strconv.ParseInt(v[0], 10, 64)
	s.age, errAge = strconv.ParseInt(v[2], 10, 64)
	return s, errors.Join(errNow, errAge)
}

// current returns the lists that count. The caller must not change them.
func (n *nodes) current() []view {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.views
}

// count returns the number of nodes in the list seen last.
func (n *nodes) count() int {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.members)
}

// joining reports whether this node has no share yet.
func (n *nodes) joining() bool {
	return slices.ContainsFunc(n.current(), func(v view) bool { return v.nodes == 0 })
}

// known returns the version seen last and the members of its list.
func (n *nodes) known() (version string, members []string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.version, n.members
}

// update notes what a beat has returned. Lost: the table is not the one that this node knew. Again: the
// node has seen a version for the first time and should say so at once.
func (n *nodes) update(me string, s sighting) (lost, again bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if lost = n.born != "" && n.born != s.born; lost {
		n.fresh = true
	}
	if s.age >= span {
		n.fresh = false
	}
	again = n.version != s.version
	n.born, n.version, n.members = s.born, s.version, s.members
	v := view{slices.Index(s.members, me), len(s.members)}
	switch {
	case s.settled:
		n.views = []view{v}
	case n.views == nil:
		n.views = []view{{0, 0}, v} // joining
	case !slices.Contains(n.views, v):
		n.views = append(slices.Clone(n.views), v) // current has handed out the old slice
	}
	return lost, again
}

// waiting reports whether Redis answers but has forgotten what it admitted in the last minute.
func (n *nodes) waiting() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.fresh
}
