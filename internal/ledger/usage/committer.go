package usage

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
)

const (
	// batchSize is how many settlements one transaction stores. They share the cost of its commit.
	batchSize = 2000
	// leastBatch is how far a batch is halved after errors. A database that takes two seconds for each reply stores that
	// many within the time that a transaction has, and 2,000 never: more rows take more statements.
	leastBatch = 250
	// quickBatch is how long a batch may take for the next one to be larger again.
	quickBatch = 3 * time.Second
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
// wait in the journal, and calls are still served.
type Committer struct {
	journal *Journal
	store   Store
	log     *slog.Logger

	// turn holds a token while a batch is moved, by Run or by Flush: Batch returns the same one until Commit. It
	// is not a mutex because those who wait for it have deadlines, and the database may not answer.
	turn    chan struct{}
	room    []Settlement // memory of the last batch, reused for the next
	most    int          // how many settlements the next batch has at most; guarded by turn
	emptied atomic.Int64 // when the last Flush began that moved everything, in Unix nanoseconds
	marking health.Trouble
}

// NewCommitter returns a committer that moves settlements from j to s when Run or Flush is called.
func NewCommitter(j *Journal, s Store, log *slog.Logger) *Committer {
	c := &Committer{journal: j, store: s, log: log, turn: make(chan struct{}, 1), most: batchSize}
	c.emptied.Store(time.Now().UnixNano())
	return c
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
		if pace.Sleep(ctx, wait) != nil {
			break
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxPatience)
	defer cancel()
	if err := c.Flush(last); err != nil {
		c.log.Warn("settlements wait in the journal for the next start", "records", c.journal.Backlog().Records, "error", err.Error())
	}
}

// Flush moves everything that is in the journal now. Settlements that arrive meanwhile may be moved
// or not.
func (c *Committer) Flush(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	for {
		most := c.most
		batch, mark, err := c.journal.Batch(c.room, most)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			c.emptied.Store(began.UnixNano())
			return nil
		}
		c.room = batch
		asked := time.Now()
		if err := c.store.RecordSettlements(ctx, batch); err != nil {
			c.most = max(leastBatch, most/2)
			return err
		}
		if time.Since(asked) < quickBatch {
			c.most = min(batchSize, 2*most)
		}
		// The database has the batch, so an error here is not an error of Flush: at worst a restart
		// offers the batch again.
		if err := c.journal.Commit(mark); err != nil {
			c.marking.Failed(c.log, "the mark of the journal could not be stored", err)
		} else {
			c.marking.Works(c.log, "the mark of the journal is stored again")
		}
		if len(batch) < most {
			c.emptied.Store(began.UnixNano())
			return nil
		}
	}
}

// Lag returns how long settlements have been waiting for the database at most; 0 if none waits.
func (c *Committer) Lag(now time.Time) time.Duration {
	if c.journal.Backlog().Records == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, c.emptied.Load())))
}
