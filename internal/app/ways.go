package app

import (
	"context"

	"sluice/internal/app/config"
	"sluice/internal/upstream/provider/openai"
)

// topicWays is what nodes tell each other when a provider has said by which API it wants a model to be asked.
const topicWays = "ways"

// openWays reads what providers have said about the APIs of their models.
func (a *App) openWays(ctx context.Context, _ *config.Config) error {
	opts := &openai.WayOptions{Shared: !a.facts.alone(), Tell: a.tellNodes(topicWays), Log: a.log}
	if err := a.ways.Open(ctx, a.facts.stores.service, opts); err != nil {
		return err
	}
	a.cluster.Subscribe(topicWays, a.ways.Heard, a.ways.Nudge)
	return nil
}
