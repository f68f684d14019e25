package redisledger

import (
	"errors"
	"slices"
	"strconv"
	"sync"

	"sluice/internal/ledger/admission"
)

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
	views   []admission.View // nil before the first contact
	// fresh is set while the table stands for one that was lost and is less than a minute old: Redis has
	// forgotten what it had admitted, and only then nothing of that counts any more.
	fresh bool
}

// sighting is the reply of a beat.
type sighting struct {
	now     int64  // the time of Redis
	born    string // identifies the table
	age     int64  // of the table, in milliseconds
	version string
	settled bool     // every node has seen this version
	lost    bool     // some node knows another table: the data was lost
	members []string // none if the node has seen the list before
}

func readSighting(a answer) (sighting, error) {
	if a.err != nil {
		return sighting{}, a.err
	}
	v := a.list
	if len(v) < 6 {
		return sighting{}, errors.New("the table of nodes has another form: nodes of different versions share this Redis")
	}
	s := sighting{born: v[1], version: v[3], settled: v[4] == "1", lost: v[5] == "1", members: v[6:]}
	slices.Sort(s.members) // on every node the same order
	var errNow, errAge error
	s.now, errNow = strconv.ParseInt(v[0], 10, 64)
	s.age, errAge = strconv.ParseInt(v[2], 10, 64)
	return s, errors.Join(errNow, errAge)
}

// current returns the lists that count. The caller must not change them.
func (n *nodes) current() []admission.View {
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

// known returns the version seen last, the table that it is of, and the members of its list.
func (n *nodes) known() (version, born string, members []string) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.version, n.born, n.members
}

// update notes what a beat has returned. Lost: what Redis had admitted is lost, and this node did not know; a
// node that has just joined learns it from the table. Again: the node has seen a version for the first time
// and should say so at once.
func (n *nodes) update(me string, s sighting) (lost, again bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.fresh && n.born == s.born
	n.fresh = s.lost && s.age < span
	lost = n.fresh && !before
	n.born = s.born
	if again = n.version != s.version; again {
		n.version, n.members = s.version, s.members
	}
	rank, _ := slices.BinarySearch(n.members, me)
	v := admission.View{Rank: rank, Nodes: len(n.members)}
	switch {
	case s.settled:
		n.views = []admission.View{v}
	case n.views == nil:
		n.views = []admission.View{{}, v} // joining
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
