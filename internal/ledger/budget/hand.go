package budget

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
)

// JobPrefix is how the names of jobs begin among holders. The id of the job follows.
const JobPrefix = "job/"

// errEnded means that a hold was handed over after its end.
var errEnded = errors.New("the hold has ended")

// Hand hands what a call has reserved to a job, which may outlive this process and be settled by another one. From then on the job
// holds it in the database, and the hold has ended. Hand returns what the settlement of the job says of its budgets; start is the
// time of that settlement. After an error the hold has ended, too, and the job has nothing: whatever the database made of it, Drop
// and the clean-up of jobs that do not exist take it back.
func (l *Ledger) Hand(ctx context.Context, h *Hold, jobID string, start time.Time) ([]usage.Charge, error) {
	charges := h.Charges(start)
	for i := range charges {
		if charges[i].Holder != "" {
			charges[i].Holder = JobPrefix + jobID
		}
	}
	if h.need == 0 { // nothing is reserved, or all budgets only warn
		h.Cancel()
		return charges, nil
	}
	from, to, err := h.offer(ctx, JobPrefix+jobID)
	if err != nil {
		h.Cancel()
		return nil, err
	}
	if len(from) == 0 {
		h.Cancel()
		return charges, nil
	}
	// Calls wait for the answer, so it does not end with its caller.
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	err = l.store.Hand(patient, from, to)
	cancel()
	h.handed(l.opts.Now(), err)
	if err != nil {
		_ = l.Drop(ctx, jobID) // else the clean-up does it
		return nil, fault.New(fault.Unavailable, "What this call may cost cannot be reserved at the moment. Try again shortly.").After(5 * time.Second).Because(err)
	}
	return charges, nil
}

// Drop takes back what a job holds that has no settlement.
func (l *Ledger) Drop(ctx context.Context, jobID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return l.store.Drop(ctx, JobPrefix+jobID)
}

// offer returns what this server keeps of the counts of the hold, and what the holder gets. Until handed is called, nobody asks the
// database for more of these counts or tells it what this server has of them.
func (h *Hold) offer(ctx context.Context, holder string) (from, to []Grant, err error) {
	p := h.purse
	// All counts are taken at once: who has one and waits for another could wait for ever.
	if err := p.quiet(ctx, h.reserves); err != nil {
		return nil, nil, err
	}
	defer p.mu.Unlock()
	if h.ended {
		return nil, nil, errEnded
	}
	for _, at := range h.places {
		if c := at.count; c != nil {
			c.asking = make(chan struct{})
			from = append(from, Grant{c.key, c.holder, c.granted - h.need, c.open - h.need})
			to = append(to, Grant{c.key, holder, h.need, h.need})
		}
	}
	return from, to, nil
}

// reserves reports whether the hold has reserved from a count.
func (h *Hold) reserves(c *count) bool {
	return slices.ContainsFunc(h.places, func(at place) bool { return at.count == c })
}

// handed ends a hold that was offered. After an error, the database may have done it all the same, so this server has what it
// offered no longer in either case: what nobody has is only refused to calls for a while, but what two have is spent twice.
func (h *Hold) handed(now time.Time, err error) {
	p := h.purse
	p.mu.Lock()
	defer p.mu.Unlock()
	h.ended = true
	for _, at := range h.places {
		c := at.count
		if c == nil {
			continue
		}
		c.granted -= h.need
		c.open -= h.need
		close(c.asking)
		if c.asking = nil; err != nil {
			c.changed, c.unsure = true, true
			continue
		}
		// Others hold it now.
		c.known.Reserved += h.need
		c.known.Others += h.need
		c.confirmed = now
	}
}
