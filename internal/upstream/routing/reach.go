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

// reach connects once to each address that has a target of which nothing was heard lately, or nothing good. All
// targets at one address share the result: those of a provider, or those of one of its replicas.
func (r *Routes) reach(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	at := map[[2]string][]*Target{}
	due := map[[2]string]bool{}
	now := time.Now()
	for _, t := range r.targets {
		address := [2]string{t.Provider, t.Replica}
		at[address] = append(at[address], t)
		due[address] = due[address] || t.health.due(now)
	}
	var all sync.WaitGroup
	for address, targets := range at {
		a, ok := targets[0].Adapter.(provider.Reacher)
		if !ok || !due[address] {
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
