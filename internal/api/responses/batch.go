package responses

import (
	"context"
	"errors"
	"time"
)

const (
	// A batch has at most this many responses and bytes, unless one alone has more.
	maxBatch      = 64
	maxBatchBytes = 8 << 20
	// gather is how long a batch waits for others to join while there are several callers.
	gather = 2 * time.Millisecond
)

// waiter is a caller that waits for its response to be stored.
type waiter struct {
	record *Record
	until  time.Time // when it is too late
	lead   chan bool // true: write the next batch; closed: err tells what became of the response
	err    error
}

var (
	// Why a response was not stored, for the log. The caller reads store: false in the reply.
	errLate      = errors.New("others were stored first, and that took too long")
	errUnwritten = errors.New("the store failed")
)

// keep stores a response in the journal, if there is one that takes it, and else in the database. The context may be
// canceled.
//
// Responses that come while others are being written to the database go into one transaction, since a transaction costs
// much more than a response: the first of those that wait writes for all. A caller who is alone waits for nobody, and no
// goroutine has to be there.
func (s *Archive) keep(ctx context.Context, r *Record) error {
	if s.journal != nil && s.journal.Append(r) {
		return nil
	}
	t := &waiter{record: r, until: s.now().Add(keepPatience), lead: make(chan bool, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, t)
	leads := !s.writing
	s.writing = true
	s.mu.Unlock()
	// The write must not end because the caller who happens to lead hangs up: others wait for it.
	if leads || <-t.lead {
		s.write(context.WithoutCancel(ctx))
		<-t.lead // closed: the one who leads is in the batch
	}
	return t.err
}

// write stores the next batch, tells those whose responses are in it, and lets the next caller write if there is one.
func (s *Archive) write(ctx context.Context) {
	s.mu.Lock()
	if s.busy {
		s.mu.Unlock()
		time.Sleep(gather)
		s.mu.Lock()
	}
	batch := s.next()
	s.busy = len(batch) > 1
	s.mu.Unlock()
	records, patience := make([]*Record, 0, len(batch)), keepPatience
	for _, t := range batch {
		if t.err == nil {
			records = append(records, t.record)
			patience += time.Second * time.Duration(len(t.record.Sealed)) / perSecond
		}
	}
	err := errUnwritten // of a store that panics
	defer func() {
		s.mu.Lock()
		if s.writing = len(s.waiting) > 0; s.writing {
			s.busy = true
			s.waiting[0].lead <- true
		}
		s.mu.Unlock()
		for _, t := range batch {
			if t.err == nil {
				t.err = err
			}
			close(t.lead)
		}
	}()
	if len(records) > 0 {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err = s.store.KeepResponses(ctx, records, MaxAccount())
	}
}

// next takes the next batch from those that wait. Those that have waited too long are in it, with their error.
func (s *Archive) next() []*waiter {
	now, n, bytes := s.now(), 0, 0
	for _, t := range s.waiting {
		if t.until.Before(now) {
			t.err = errLate
		} else if bytes += len(t.record.Sealed); n == maxBatch || n > 0 && bytes > maxBatchBytes {
			break
		}
		n++
	}
	batch := s.waiting[:n:n]
	s.waiting = append([]*waiter(nil), s.waiting[n:]...)
	return batch
}
