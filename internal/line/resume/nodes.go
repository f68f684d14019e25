package resume

import (
	"time"

	"sluice/internal/ledger/cluster"
)

// Nodes are the servers on one database.
type Nodes interface {
	// Tag names this node: 1 to 16 letters or digits.
	Tag() string
	// Others returns the other nodes that live.
	Others() []Node
	// Now returns the time of a clock that all of them share.
	Now() time.Time
}

// Node is another server.
type Node struct {
	Tag     string
	Address string // as a URL without a path; empty: not known
}

// Of returns the nodes of a cluster.
func Of(c *cluster.Cluster) Nodes { return nodesOf{c} }

// nodesOf implements Nodes.
type nodesOf struct{ *cluster.Cluster }

func (n nodesOf) Tag() string { return tagOf(n.Life()) }

func (n nodesOf) Others() (others []Node) {
	for _, o := range n.Nodes() {
		if o.Alive && !o.Me {
			others = append(others, Node{tagOf(o.Life), o.Address})
		}
	}
	return others
}

// tagOf returns the name of a node in the ids of events: the beginning of its life, which is random.
func tagOf(life string) string { return life[:8] }
