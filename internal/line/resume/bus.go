package resume

import (
	"context"
	"slices"

	"sluice/internal/ledger/cluster"
)

// topic is what nodes tell each other about streams.
const topic = "resume"

// Over returns the bus of the nodes of a cluster.
func Over(c *cluster.Cluster) Bus { return nodeBus{c} }

// nodeBus implements Bus.
type nodeBus struct{ *cluster.Cluster }

// Tell, Hear, Tag and Lives implement Bus. A node that has just died may be taken for alive for some seconds; its streams
// are gone in any case.
func (b nodeBus) Tell(ctx context.Context, message string) error {
	return b.Publish(ctx, topic, message)
}

func (b nodeBus) Hear(got func(message string)) { b.Subscribe(topic, got, nil) }

func (b nodeBus) Tag() string { return tagOf(b.Life()) }

func (b nodeBus) Lives(tag string) bool {
	return slices.ContainsFunc(b.Nodes(), func(n cluster.Node) bool { return n.Alive && tagOf(n.Life) == tag })
}

// tagOf returns the name of a node in the ids of events: the beginning of its life, which is random.
func tagOf(life string) string { return life[:8] }
