package admin

import (
	"cmp"
	"context"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
)

// EvidenceStore reads what an account has consumed, for the pictures that support decides by.
type EvidenceStore interface {
	// UsageBy returns an account's sums by day, hour, model or key, as q.By says.
	UsageBy(ctx context.Context, q usage.Query) ([]usage.Row, error)
	// UsageOf returns the sums of all accounts from a day on, or of those that are named. Accounts without usage are left out.
	UsageOf(ctx context.Context, from time.Time, accounts ...string) (map[string]usage.Sums, error)
	// UnitsSince calls yield with the units that some accounts have settled since a time, by hour.
	UnitsSince(ctx context.Context, since time.Time, yield func(c abuse.Count, hour time.Time), accounts ...string) error
}

// evidenceDays is how many days of requests the evidence has, today included.
const evidenceDays = 7

// mostShares bounds the models and keys in the evidence. The rest is one row.
const mostShares = 12

// Evidence is what the calls of an account look like. Times are UTC.
type Evidence struct {
	// Score is the abuse score of the present plan over this month, oldest first.
	Score []ScorePoint `json:"score"`
	// Hours are the requests of the last 7 days by hour, oldest first. Hours without any are left out.
	Hours []HourSum `json:"hours"`
	// Models and Keys divide the requests of the last 7 days, the most first.
	Models []Share `json:"models"`
	Keys   []Share `json:"keys"`
}

// ScorePoint is the score at a time.
type ScorePoint struct {
	At    time.Time `json:"at"`
	Score int       `json:"score"`
}

// HourSum is the requests of one hour.
type HourSum struct {
	At       time.Time `json:"at"`
	Requests int64     `json:"requests"`
	Failed   int64     `json:"failed"`
}

// Share is the requests to one model or with one key. An empty name stands for all that are not listed.
type Share struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
}

// evidenceOf reads what support decides by: counts, and the names of models and keys; no prompt and no answer.
func (b *Backend) evidenceOf(ctx context.Context, a *account.Account) (out Evidence, err error) {
	now := time.Now().UTC()
	if out.Score, err = b.scoreHistory(ctx, a, now); err != nil {
		return Evidence{}, err
	}
	q := usage.Query{AccountID: a.ID, From: usage.DayOf(now).AddDate(0, 0, 1-evidenceDays), By: usage.ByDay, Hours: true}
	hours, err := b.Evidence.UsageBy(ctx, q)
	if err != nil {
		return Evidence{}, err
	}
	out.Hours = views(hours, func(r *usage.Row) HourSum { return HourSum{r.Start, r.Requests, r.Failed} })
	slices.SortFunc(out.Hours, func(x, y HourSum) int { return x.At.Compare(y.At) })
	if out.Models, err = b.shares(ctx, q, usage.ByModel, func(r *usage.Row) string { return r.Model }); err != nil {
		return Evidence{}, err
	}
	names := map[string]string{}
	for i := range a.Keys {
		names[a.Keys[i].ID] = a.Keys[i].Name
		if a.Keys[i].Master {
			names[a.Keys[i].ID] = "master"
		}
	}
	out.Keys, err = b.shares(ctx, q, usage.ByKey, func(r *usage.Row) string { return cmp.Or(names[r.KeyID], r.KeyID, "none: the dashboard") })
	return out, err
}

// shares divides the requests of a query by model or key.
func (b *Backend) shares(ctx context.Context, q usage.Query, by usage.By, name func(*usage.Row) string) ([]Share, error) {
	q.By, q.Hours = by, false
	rows, err := b.Evidence.UsageBy(ctx, q)
	if err != nil {
		return nil, err
	}
	list := views(rows, func(r *usage.Row) Share { return Share{name(r), r.Requests} })
	slices.SortFunc(list, func(x, y Share) int { return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Name, y.Name)) })
	if len(list) > mostShares {
		var rest Share
		for _, x := range list[mostShares-1:] {
			rest.Requests += x.Requests
		}
		list = append(list[:mostShares-1], rest)
	}
	return list, nil
}

// scoreHistory returns how the score of the present plan rose this month: after each hour, at each event, and now. Each
// restored tier starts again from zero.
func (b *Backend) scoreHistory(ctx context.Context, a *account.Account, now time.Time) ([]ScorePoint, error) {
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	budget := b.Plans()[a.Plan].MonthlyUnits
	type step struct {
		at    time.Time
		tier  account.Plan
		units int64
		reset bool
		score int // of an event; -1: none
	}
	var steps []step
	err := b.Evidence.UnitsSince(ctx, month, func(c abuse.Count, hour time.Time) {
		if c.Plan == a.Plan {
			steps = append(steps, step{at: hour, tier: c.Tier, units: c.Units, score: -1})
		}
	}, a.ID)
	if err != nil {
		return nil, err
	}
	_, score, events, err := b.Scores.Score(ctx, a)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if e.Plan == a.Plan && !e.At.Before(month) {
			steps = append(steps, step{at: e.At, tier: e.Tier, reset: e.Kind == abuse.Restored, score: e.Score})
		}
	}
	slices.SortStableFunc(steps, func(x, y step) int { return x.at.Compare(y.at) })
	// The picture begins a little before the first use of the month.
	points := []ScorePoint{{month, 0}}
	if len(steps) > 0 && steps[0].at.Add(-time.Hour).After(month) {
		points[0].At = steps[0].at.Add(-time.Hour)
	}
	units := map[account.Plan]int64{}
	highest := func() (n int) {
		for _, u := range units {
			n = max(n, abuse.ScoreOf(u, budget))
		}
		return n
	}
	for _, s := range steps {
		switch {
		case s.reset:
			points = append(points, ScorePoint{s.at, highest()})
			units[s.tier] = 0
			points = append(points, ScorePoint{s.at, highest()})
		case s.score >= 0:
			points = append(points, ScorePoint{s.at, s.score})
		default:
			// The units of an hour are known as a whole. The score rises during the hour, up to its end or now.
			points = append(points, ScorePoint{s.at, highest()})
			units[s.tier] += s.units
			if end := s.at.Add(time.Hour); end.Before(now) {
				points = append(points, ScorePoint{end, highest()})
			}
		}
	}
	points = append(points, ScorePoint{now, score})
	slices.SortStableFunc(points, func(x, y ScorePoint) int { return x.At.Compare(y.At) })
	return points, nil
}
