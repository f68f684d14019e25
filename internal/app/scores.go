package app

import (
	"context"

	"sluice/internal/abuse"
	"sluice/internal/account"
)

// abuseActor is who the audit log names when the score switches keys off.
const abuseActor = "abuse control"

// watchScores starts abuse control with what has been counted this month. An account that had reached
// 100 when the process died is dealt with now.
func (a *App) watchScores(ctx context.Context) error {
	if err := a.facts.committer.Flush(ctx); err != nil {
		return err
	}
	a.abuse = abuse.New(telling{a.facts.store, a}, abuse.Options{
		Plans: func() account.Plans { return a.settings.Load().plans },
		Lock:  a.facts.index.Lock,
		Deactivate: func(ctx context.Context, accountID, reason string) error {
			_, err := a.facts.accounts.Deactivate(ctx, abuseActor, accountID, reason)
			return err
		},
		Log: a.log,
	})
	full, err := a.abuse.Load(ctx)
	if err != nil {
		return err
	}
	for _, id := range full {
		if _, err := a.facts.accounts.Deactivate(ctx, abuseActor, id, "the month's units were used up before the last stop"); err != nil {
			return err
		}
	}
	return nil
}

// recentEvents is how many events of an account are shown.
const recentEvents = 1000

// scores implements admin.Scores.
type scores struct {
	facts   *facts
	control *abuse.Control
}

func (s *scores) Score(ctx context.Context, a *account.Account) ([]abuse.Standing, int, []abuse.Event, error) {
	standings, score := s.control.Standings(a.ID, a.Plan)
	events, err := s.control.Events(ctx, a.ID, recentEvents)
	return standings, score, events, err
}

// Restore forgives first: a call that is settled in between then counts from zero.
func (s *scores) Restore(ctx context.Context, actor, ref string) (*account.Account, error) {
	found, err := s.facts.accounts.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := s.control.Forgive(ctx, found.ID, actor); err != nil {
		return nil, err
	}
	s.facts.index.Unlock(found.ID)
	return s.facts.accounts.Restore(ctx, actor, ref)
}

// offlineScores are the scores where no server runs, counted when somebody asks.
type offlineScores struct {
	books *offlineBooks
	plans account.Plans
}

func (o *offlineScores) open(ctx context.Context) (*scores, error) {
	if err := o.books.open(); err != nil {
		return nil, err
	}
	f := o.books.facts
	if err := f.committer.Flush(ctx); err != nil {
		return nil, err
	}
	control := abuse.New(f.store, abuse.Options{Plans: func() account.Plans { return o.plans }})
	_, err := control.Load(ctx)
	return &scores{f, control}, err
}

func (o *offlineScores) Score(ctx context.Context, a *account.Account) ([]abuse.Standing, int, []abuse.Event, error) {
	s, err := o.open(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	return s.Score(ctx, a)
}

func (o *offlineScores) Restore(ctx context.Context, actor, ref string) (*account.Account, error) {
	s, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	return s.Restore(ctx, actor, ref)
}
