package usage

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// batchSize is how many settlements one transaction stores. They share the cost of its commit.
	batchSize = 2000
	// idleEvery is how long the committer waits after it has emptied the journal.
	idleEvery = time.Second

	// After an error the committer waits minPatience, and twice as long after each further one, up
	// to maxPatience. That is also how long Run tries to empty the journal at the end.
	minPatience = 100 * time.Millisecond
	maxPatience = 5 * time.Second

	// remindEvery is the least time between log lines about trouble that lasts.
	remindEvery = time.Minute
)

// Store stores settlements.
type Store interface {
	// RecordSettlements stores the settlements whose ids it does not have yet and adds them to the
	// sums, in one transaction. It must ignore the others: after a crash the same settlement comes
	// again.
	RecordSettlements(ctx context.Context, batch []Settlement) error
}

// Committer moves settlements from the journal into the database. While the database is down they
// stay in the journal, and calls go on.
type Committer struct {
	journal *Journal
	store   Store
	log     *slog.Logger

	mu   sync.Mutex   // held while a batch is moved, by Run or by Flush; Batch returns the same one until Commit
	room []Settlement // memory of the last batch, reused for the next
}

// NewCommitter returns a committer that moves settlements from j to s when Run or Flush is called.
func NewCommitter(j *Journal, s Store, log *slog.Logger) *Committer {
	return &Committer{journal: j, store: s, log: log}
}

// Run moves settlements until ctx ends. Then it spends up to maxPatience on those that are left;
// what it cannot move waits in the journal for the next start.
func (c *Committer) Run(ctx context.Context) {
	var warned time.Time // when the last warning was logged; zero while the database works
	patience := minPatience
	for {
		err := c.Flush(ctx)
		wait := idleEvery
		switch {
		case err != nil && ctx.Err() == nil:
			if wait = patience; patience < maxPatience {
				patience *= 2
			}
			if time.Since(warned) >= remindEvery {
				b := c.journal.Backlog()
				c.log.Warn("settlements stay in the journal: the database does not accept them", "records", b.Records, "bytes", b.Bytes, "most_bytes", b.Most, "error", err.Error())
				warned = time.Now()
			}
		case err == nil && !warned.IsZero():
			c.log.Info("the database accepts settlements again")
			warned, patience = time.Time{}, minPatience
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxPatience)
			defer cancel()
			if err := c.Flush(last); err != nil {
				c.log.Warn("settlements wait in the journal for the next start", "records", c.journal.Backlog().Records, "error", err.Error())
			}
			return
		case <-time.After(wait):
		}
	}
}

// Flush moves everything that is in the journal now. Settlements that arrive meanwhile may be moved
// or not.
func (c *Committer) Flush(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		batch, mark, err := c.journal.Batch(c.room, batchSize)
		if err != nil || len(batch) == 0 {
			return err
		}
		c.room = batch
		if err := c.store.RecordSettlements(ctx, batch); err != nil {
			return err
		}
		// The database has the batch, so an error here is not an error of Flush: at worst a restart
		// offers the batch again.
		if err := c.journal.Commit(mark); err != nil {
			c.log.Warn("the mark of the journal could not be stored", "error", err.Error())
		}
		if len(batch) < batchSize {
			return nil
		}
	}
}
