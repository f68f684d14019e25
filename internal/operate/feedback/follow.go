package feedback

import (
	"cmp"
	"context"
	"slices"

	"sluice/internal/kit/pace"
	"sluice/internal/upstream/routing"
)

// Run writes what was counted here, and follows what all nodes have learned, until ctx ends. While the database is away,
// the strengths that are known stay.
func (f *Feedback) Run(ctx context.Context) {
	f.round(ctx)
	for range pace.Woken(ctx, lookEvery, f.wake) {
		f.round(ctx)
	}
	f.write(context.WithoutCancel(ctx))
}

// round writes and reads once if feedback is on, and logs when that begins or ceases to fail.
func (f *Feedback) round(ctx context.Context) {
	if !f.on() {
		return
	}
	err := f.write(ctx)
	if err == nil {
		err = f.read(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		f.trouble.Failed(f.log, "the router's feedback cannot be written or read; what is known stays", err)
	} else {
		f.trouble.Works(f.log, "the router's feedback is written and read again")
	}
}

// write stores the counts. Those of a round that fails are kept for the next one.
func (f *Feedback) write(ctx context.Context) error {
	f.mu.Lock()
	taken := f.unwritten
	f.unwritten = map[place]*tally{}
	f.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	counts := make([]Count, 0, len(taken))
	for p, t := range taken {
		counts = append(counts, Count{p.account, p.model, p.task, t.calls, t.troubled})
	}
	// In order, so that two nodes that write the same rows cannot deadlock.
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Task, b.Task))
	})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f.store.AddCounts(ctx, counts, WeekOf(f.now()))
	if err == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, t := range taken {
		if have := f.unwritten[p]; have != nil {
			have.calls, have.troubled = have.calls+t.calls, have.troubled+t.troubled
		} else if len(f.unwritten) < mostUnwritten {
			f.unwritten[p] = t
		}
	}
	return err
}

// read makes the strengths if something has changed, or a week has ended.
func (f *Feedback) read(ctx context.Context) error {
	began := f.now()
	if began.Before(f.rest) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// The version is read before the sums: a change in between is then read twice and not missed.
	version, err := f.store.FeedbackVersion(ctx)
	week := WeekOf(began)
	if err != nil || version == f.version && week == f.week {
		return err
	}
	sums, err := f.store.FeedbackSums(ctx, week)
	if err != nil {
		return err
	}
	points := routing.Strengths{}
	for i := range sums {
		of := points[sums[i].Model]
		of[sums[i].Task] = float32(Points(&sums[i]))
		points[sums[i].Model] = of
	}
	f.strengths.Store(&points)
	f.version, f.week = version, week
	ended := f.now()
	f.rest = ended.Add(min(restFactor*ended.Sub(began), mostRest))
	return nil
}
