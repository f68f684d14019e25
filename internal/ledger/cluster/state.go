package cluster

import (
	"slices"
	"time"

	"sluice/internal/ledger/admission"
)

const (
	// span is how long what was admitted counts (docs/api.md#windows). Parts of limits change at most once in
	// that time.
	span = time.Minute
	// gather is how long the first nodes on a database wait for others that start at the same time: otherwise
	// the first one would have all, and the others nothing for a minute.
	gather = 3 * time.Second
	// absent is how long a node keeps its part of the limits after it has stopped or was last seen. A restart
	// takes less, so it changes nothing for anybody.
	absent = 20 * time.Second
	// keepRows is how long the row of a dead node is kept for operators to see.
	keepRows = time.Hour
)

// Node is one server on the database.
type Node struct {
	ID        string    `json:"id"`             // of its data folder
	Life      string    `json:"-"`              // of this process; each has another
	Host      string    `json:"host,omitempty"` // the name of its machine, for people; empty: not known
	Address   string    `json:"-"`              // where other nodes reach it, as a URL without a path; empty: not known
	Version   string    `json:"version"`        // of the program
	Mode      Mode      `json:"mode"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	List      int64     `json:"-"` // the number of the list that it goes by; see State

	Alive bool `json:"alive"`        // set by Nodes only
	Me    bool `json:"me,omitempty"` // set by Nodes only
}

// NodeName returns what people know a node by: its id, and its machine if that is known.
func NodeName(id, host string) string {
	if host == "" {
		return id
	}
	return id + " on " + host
}

// State is what the database knows about the nodes.
//
// Lists of node ids say how limits are divided. Base is in force. Next, if there is one, comes into force when
// every living node goes by it. Former was in force before Base.
type State struct {
	Now    time.Time // the database's
	List   int64     // a number that grows whenever Base or Next changes
	Base   []string  // sorted
	Next   []string  // sorted; nil: there is none
	Former []string  // sorted; nil: there was none
	Since  time.Time // when Base came into force

	Nodes []Node // in the order of their ids
}

func (s *State) alive(n *Node) bool { return s.Now.Sub(n.SeenAt) < forget }

// each calls do with every id of a sorted list, and its row or nil. It walks along both, because every node looks at
// every row with every beat.
func (s *State) each(list []string, do func(id string, n *Node)) {
	rows := s.Nodes
	for _, id := range list {
		for len(rows) > 0 && rows[0].ID < id {
			rows = rows[1:]
		}
		if len(rows) > 0 && rows[0].ID == id {
			do(id, &rows[0])
		} else {
			do(id, nil)
		}
	}
}

// admit gives a node its row, or returns the node in the way. A node that counts limits by itself shares the
// database with nobody.
//
// A row of the same id belongs to a process that has ended, because the data folder is locked by one at a
// time. But if the node had a row before, in this life, the other is a living process with a copy of its data
// folder. Watched says that the caller has been in touch for long enough to judge who is dead.
func (s *State) admit(me *Node, again, watched bool) (blocker *Node) {
	conflict := func(n *Node) bool {
		if n.ID == me.ID {
			return again && n.Life != me.Life
		}
		return me.Mode == Alone || n.Mode == Alone
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; conflict(n) && (s.alive(n) || !watched) {
			return n
		}
	}
	// A node that was only frozen finds its row gone, and knows that it has lost its place.
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n Node) bool { return n.ID == me.ID || conflict(&n) })
	row := *me
	row.StartedAt, row.SeenAt = s.Now, s.Now
	s.Nodes = append(s.Nodes, row)
	return nil
}

// remove takes the row of a node away that stops.
func (s *State) remove(me *Node) {
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n Node) bool { return n.ID == me.ID && n.Life == me.Life })
}

// advance brings the lists forward and reports whether anything has changed. Any node may call it at any time. It
// changes no list and no row in its place, so it can be tried on a copy.
// Missing says how long the caller has seen that a node of Base has no row.
//
// The parts by which nodes divide a limit must not add up to more than the limit, although nodes learn of a
// list one after the other. So a new list is proposed first, as Next. From the moment that a node sees it, it
// takes the smaller of its parts in Base and Next. When every living node has seen it, all of them are within
// Next, and it becomes Base. Until then all are within Base.
//
// What a node has admitted counts for a minute. So for a minute after a change, what was admitted by the old
// list and by the new one may add up to twice the limit, and not to more, because the next change waits until
// that minute is over. All nodes that have come and gone by then are in the next list together. Nodes that count
// in Redis have admitted a limit there already when they begin to divide, so they also keep within Former for that
// minute. Every node is then within the list that was in force at the beginning of any minute, until its end, and
// what all admit by their parts in a minute is one limit.
func (s *State) advance(watched bool, missing func(id string) time.Duration) (changed bool) {
	old := func(n Node) bool { return watched && s.Now.Sub(n.SeenAt) >= keepRows }
	if changed = slices.ContainsFunc(s.Nodes, old); changed {
		s.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), old)
	}
	if s.Next != nil && s.settled(watched) {
		s.Former, s.Base, s.Next, s.Since = s.Base, s.Next, nil, s.Now
		s.List++
		changed = true
	}
	if s.Next == nil && s.mayPropose() && s.gathered() {
		if want := s.want(watched, missing); !slices.Equal(want, s.Base) {
			s.Next = want
			s.List++
			changed = true
		}
	}
	return changed
}

// mayPropose reports whether the last change is long enough ago for another.
func (s *State) mayPropose() bool { return s.Now.Sub(s.Since) >= span }

// gathered reports whether the nodes that start together have had the time to join.
func (s *State) gathered() bool {
	return len(s.Base) > 0 || slices.ContainsFunc(s.Nodes, func(n Node) bool { return s.alive(&n) && s.Now.Sub(n.StartedAt) >= gather })
}

// settled reports whether every living node of both lists goes by these lists. After an outage of the database
// all seem dead, and are not: so it takes one who has watched to say so.
func (s *State) settled(watched bool) bool {
	return !slices.ContainsFunc(s.Nodes, func(n Node) bool {
		return (s.alive(&n) || !watched) && n.List != s.List && (slices.Contains(s.Base, n.ID) || slices.Contains(s.Next, n.ID))
	})
}

// want returns the list that should be in force: the living, and those that may be back in a moment.
func (s *State) want(watched bool, missing func(id string) time.Duration) []string {
	ids := []string{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; s.alive(n) {
			ids = append(ids, n.ID)
		}
	}
	// If none of Base lives, nobody waits for the others: this is not a restart of one of several.
	running := false
	s.each(s.Base, func(_ string, n *Node) { running = running || n != nil && s.alive(n) })
	s.each(s.Base, func(id string, n *Node) {
		switch {
		case n != nil && s.alive(n): // is among them
		case n != nil && (!watched || s.Now.Sub(n.SeenAt) < absent), n == nil && running && missing(id) < absent:
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	return ids
}

// views returns the lists that a node must go by. Before the first list nobody had a part that counts.
func (s *State) views(me *Node) []admission.View {
	views := []admission.View{viewOf(s.Base, me.ID)}
	if s.Next != nil {
		views = append(views, viewOf(s.Next, me.ID))
	}
	if me.Mode == Exact && len(s.Former) > 0 && !s.mayPropose() {
		views = append(views, viewOf(s.Former, me.ID))
	}
	return views
}

// viewOf returns the place of a node in a list; the zero View, which has no part of anything, if it is not in
// it.
func viewOf(list []string, id string) admission.View {
	if rank := slices.Index(list, id); rank >= 0 {
		return admission.View{Rank: rank, Nodes: len(list)}
	}
	return admission.View{}
}
