package video

import (
	"context"
	"errors"

	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
)

// cheaper says how a video can cost less, as a part of a sentence.
const cheaper = "ask for a shorter or smaller video"

// errDearer means that prices have changed since a job was created.
var errDearer = errors.New("the video may cost more than was reserved for it, or than its caller allows")

// most returns what a job costs if an engine makes its video, as its settlement will say; nil if that is not known.
func (s *Settings) most(j *Job, e *Engine) *price.Nano {
	done := *j
	done.Status, done.Credential = Succeeded, e.Credential
	return done.settlement(s).Charge()
}

// afford reserves what a new job costs from the budgets that it counts against, and sees that it costs no more than its caller allows.
// What is reserved then belongs to the job and not to this process: another one may settle it.
func (l *Line) afford(ctx context.Context, s *Settings, j *Job, o *Order) error {
	var dues []budget.Due
	if l.budgets != nil {
		dues = budget.Of(o.Caller.Account, o.Caller.KeyID, o.Tags, o.Session)
	}
	if hard := budget.Hard(dues); hard || o.Request.MaxCost != nil {
		if err := s.bound(j, dues, o.Request.MaxCost, hard); err != nil {
			return err
		}
	}
	if len(dues) == 0 {
		return nil
	}
	need := price.Nano(0) // budgets that only warn need nothing
	if budget.Hard(dues) {
		need = *j.Most
	}
	hold, obstacle, err := l.budgets.Reserve(ctx, o.Caller.Account, dues, need)
	switch {
	case err != nil:
		return err
	case obstacle != nil:
		return obstacle.Fault(cheaper)
	}
	j.Budgets, err = l.budgets.Hand(ctx, hold, j.ID, j.CreatedAt)
	return err
}

// bound sets the most that a new job may cost: what is reserved for it if a budget is hard, and else what its caller allows.
func (s *Settings) bound(j *Job, dues []budget.Due, allowed *price.Nano, hard bool) error {
	j.Most = s.most(j, &s.Engine)
	switch {
	case j.Most == nil:
		return budget.Unpriced(j.Model, dues)
	case allowed != nil && *j.Most > *allowed:
		return budget.TooDear(j.Model, *j.Most, *allowed, "Ask for a shorter or smaller video, or set a larger max_cost.")
	case !hard:
		j.Most = allowed
	}
	return nil
}

// affords returns an error if an engine would make the video of a job for more than the job may cost. A job is created with the
// prices of one engine, and a reload may put another one in its place before the job is begun.
func (s *Settings) affords(j *Job, e *Engine) error {
	if j.Most == nil || j.Upstream != "" {
		return nil
	}
	if most := s.most(j, e); most == nil || *most > *j.Most {
		return Refuse(Internal, "%w", errDearer)
	}
	return nil
}

// drop takes back what was reserved for a job that was not created. If that fails, the clean-up of the database does it.
func (l *Line) drop(ctx context.Context, j *Job) {
	for i := range j.Budgets {
		if j.Budgets[i].Reserved == 0 {
			continue
		}
		if err := l.budgets.Drop(ctx, j.ID); err != nil {
			l.log.Warn("what was reserved for a video that was not created stays reserved for about an hour", "job", j.ID, "error", err.Error())
		}
		return
	}
}
