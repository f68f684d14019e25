package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/internal/kit/pace"
	"sluice/internal/ledger/admission"
)

// beatsAtOnce bounds the beats of one round: one that sees a new list, one that says so, and the same for the
// change that follows from it.
const beatsAtOnce = 4

// keepBeating beats until ctx ends.
func (c *Cluster) keepBeating(ctx context.Context) {
	healthy := true
	for range pace.Woken(ctx, beatEvery, c.wake) {
		err := c.beat(ctx)
		if ctx.Err() == nil && healthy != (err == nil) { // log only when it changes
			if healthy = err == nil; healthy {
				c.log.Info("this server is on the list of servers again")
			} else {
				c.log.Warn("this server could not report that it is alive; others will consider it dead after a while", "after", forget.String(), "error", err.Error())
			}
		}
	}
}

// watched reports whether this node has been in touch for long enough to say who is dead.
func (c *Cluster) watched() bool { return !c.contact.IsZero() && time.Since(c.contact) >= watchFor }

// beat shows that this node lives, learns who else does, and brings the lists forward if it is time.
func (c *Cluster) beat(ctx context.Context) error {
	for range beatsAtOnce {
		again, err := c.beatOnce(ctx)
		if err != nil {
			// How long others have been silent cannot be told from here.
			c.contact = time.Time{}
			clear(c.missing)
			return err
		}
		now := time.Now()
		c.heard.Store(&now)
		if c.contact.IsZero() {
			c.contact = now
		}
		if !again {
			break
		}
	}
	return nil
}

// beatOnce is one beat. Again means that there is something new, and the next beat should say so at once.
func (c *Cluster) beatOnce(ctx context.Context) (again bool, err error) {
	asking, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	address := ""
	if a := c.address.Load(); a != nil {
		address = *a
	}
	s, ok, err := c.store.Beat(asking, c.me.ID, c.me.Life, address, c.seen)
	if err != nil {
		return false, err
	}
	if !ok {
		return c.comeBack(ctx)
	}
	c.found()
	again = c.note(&s)
	// The transaction, which locks, only if it would change something.
	if try := s; !try.advance(c.watched(), c.missingFor) {
		return again, nil
	}
	changing, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return true, c.store.ChangeCluster(changing, func(s *State) error {
		s.advance(c.watched(), c.missingFor)
		return nil
	})
}

// note makes a state the one that this node goes by. It reports whether its lists are new.
func (c *Cluster) note(s *State) (news bool) {
	s.each(s.Base, func(id string, n *Node) {
		if _, known := c.missing[id]; n != nil {
			delete(c.missing, id)
		} else if !known {
			c.missing[id] = time.Now()
		}
	})
	views := s.views(&c.me)
	c.state.Store(s)
	if news = c.seen != s.List; news || !slices.Equal(c.Views(), views) {
		c.views.Store(&views) // before seen: the next beat says that this node goes by it
	}
	if c.seen = s.List; news {
		c.log.Info("the list of servers on this database", "in_force", s.Base, "next", s.Next)
	}
	return news
}

// missingFor returns how long this node has seen that another has no row.
func (c *Cluster) missingFor(id string) time.Duration {
	if since, ok := c.missing[id]; ok {
		return time.Since(since)
	}
	return 0
}

// comeBack is called when this node has no row: it was frozen or cut off for so long that another took its
// place. It takes a place again if it may.
func (c *Cluster) comeBack(ctx context.Context) (again bool, err error) {
	c.seen = 0
	blocker, err := c.tryEnter(ctx, true)
	if err != nil {
		return false, err
	}
	if blocker == nil {
		c.log.Warn("this server had lost its place among the servers on this database, and has one again")
		c.found()
		return true, nil
	}
	c.views.Store(&[]admission.View{{}})
	why := fmt.Errorf("another server, node %s, has taken the place of this one, which refuses calls", blocker.ID)
	hint := "stop one of the two, or give both redis: redis://host:6379 or cluster: approximate"
	if blocker.ID == c.me.ID {
		hint = "two servers have a copy of the same data folder; stop one of them, and delete the file node in its folder"
	}
	c.lost.Store(&loss{why})
	if time.Since(c.warned) >= remindEvery {
		c.warned = time.Now()
		c.log.Error("this server has lost its place and is not ready", "error", why.Error(), "hint", hint)
	}
	return false, nil
}

// found notes that the node has its place.
func (c *Cluster) found() {
	c.lost.Store(nil)
	c.warned = time.Time{}
}
