package abuse

import (
	"context"

	"sluice/internal/account"
)

// recentEvents is how many events of an account Score returns at most.
const recentEvents = 1000

// Score returns an account's score in every tier, its score, and its newest events. It loads the
// counts if that has not been done, so a command without a server needs no other call.
func (c *Control) Score(ctx context.Context, a *account.Account) ([]TierScore, int, []Event, error) {
	if err := c.ready(ctx); err != nil {
		return nil, 0, nil, err
	}
	tiers, score := c.Scores(a.ID, a.Plan)
	events, err := c.Events(ctx, a.ID, recentEvents)
	return tiers, score, events, err
}

// Restore switches an account's keys on again and starts the tiers that have reached 100 again from
// zero. It forgives first: a call that is settled before the keys are on then counts from zero and
// cannot switch them off again. Like Score, it loads the counts if need be.
func (c *Control) Restore(ctx context.Context, actor, ref string) (*account.Account, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	found, err := c.opts.Accounts.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	c.switching.Lock()
	defer c.switching.Unlock()
	if err := c.Forgive(ctx, found.ID, actor); err != nil {
		return nil, err
	}
	// The lock is only in memory and ends here even if Accounts never stored the deactivation.
	if c.opts.Unlock != nil {
		c.opts.Unlock(found.ID)
	}
	return c.opts.Accounts.Restore(ctx, actor, ref)
}

// ready loads the counts unless they are loaded.
func (c *Control) ready(ctx context.Context) error {
	c.mu.Lock()
	loaded := c.loaded
	c.mu.Unlock()
	if loaded {
		return nil
	}
	_, err := c.Load(ctx)
	return err
}
