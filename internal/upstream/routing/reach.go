package routing

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/internal/kit/pace"
	"sluice/internal/upstream/provider"
)

const (
	// reachEvery is how often targets are looked at, to connect to those of which nothing was heard.
	reachEvery = 5 * time.Second
	// reachPatience is how long a connection may take.
	reachPatience = 4 * time.Second
)

// Watch tries to connect to targets that nobody calls, until ctx ends, so that their health is known. No request is
// sent, so it costs nothing at the vendor. current returns the routes in force.
func Watch(ctx context.Context, current func() *Routes) {
	for range pace.Every(ctx, reachEvery) {
		current().reach(ctx)
	}
}

// reach connects once to each provider that has a target of which nothing was heard lately, or nothing good. All
// targets of a provider are at one address, so they share the result.
func (r *Routes) reach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	at := map[string][]*Target{}
	due := map[string]bool{}
	now := time.Now()
	for _, t := range r.targets {
		at[t.Provider] = append(at[t.Provider], t)
		due[t.Provider] = due[t.Provider] || t.health.due(now)
	}
	var all sync.WaitGroup
	for name, targets := range at {
		a, ok := targets[0].Adapter.(provider.Reacher)
		if !ok || !due[name] {
			continue
		}
		all.Go(func() {
			err := a.Reach(ctx)
			if errors.Is(err, provider.ErrNotTried) || errors.Is(err, context.Canceled) {
				return
			}
			now := time.Now()
			for _, t := range targets {
				t.health.reached(now, err)
			}
		})
	}
	all.Wait()
}
