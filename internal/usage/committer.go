package usage

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	batchSize   = 2000
	idleEvery   = time.Second
	minPatience = 100 * time.Millisecond
	maxPatience = 5 * time.Second
	remindEvery = time.Minute
)

// Store keeps settlements for good.
type Store interface {
	// RecordSettlements stores those it does not have yet, and adds them up, in one transaction.
	RecordSettlements(ctx context.Context, batch []Settlement) error
}

// Committer moves settlements from the journal into the database. While the database is away they
// stay in the journal, and nobody who calls a model notices.
type Committer struct {
	journal *Journal
	store   Store
	log     *slog.Logger

	mu   sync.Mutex   // one batch at a time: Run and Flush
	room []Settlement // for the next one
}

// NewCommitter returns a committer.
func NewCommitter(j *Journal, s Store, log *slog.Logger) *Committer {
	return &Committer{journal: j, store: s, log: log}
}

// Run moves settlements until ctx ends, and then what is left, if that goes quickly.
func (c *Committer) Run(ctx context.Context) {
	var warned time.Time // zero: the database takes them
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
				c.log.Warn("settlements stay in the journal: the database does not take them", "records", b.Records, "bytes", b.Bytes, "most_bytes", b.Most, "error", err.Error())
				warned = time.Now()
			}
		case err == nil && !warned.IsZero():
			c.log.Info("the database takes settlements again")
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

// Flush moves everything that is in the journal now.
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
		if err := c.journal.Commit(mark); err != nil {
			c.log.Warn("the journal could not be shortened", "error", err.Error())
		}
		if len(batch) < batchSize {
			return nil
		}
	}
}
