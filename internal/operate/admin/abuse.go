package admin

import (
	"context"
	"encoding/json"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
)

// Scores reads abuse scores and restores accounts whose keys were deactivated.
type Scores interface {
	// Score returns an account's score in every tier, its overall score, and its newest
	// events.
	Score(ctx context.Context, a *account.Account) ([]abuse.TierScore, int, []abuse.Event, error)
	// Restore reactivates an account's keys and resets its score to zero.
	Restore(ctx context.Context, actor, ref string) (*account.Account, error)
}

// Abuse is an account's score and its history.
type Abuse struct {
	Score  int           `json:"score"`
	Tiers  []AbuseTier   `json:"tiers"`
	Events []abuse.Event `json:"events"`
}

// AbuseTier is the score of one tier of models under the current plan.
type AbuseTier struct {
	Tier    string        `json:"tier"`
	Score   int           `json:"score"`
	Units   json.Number   `json:"units"`
	Budget  account.Limit `json:"budget"`
	Reaches *time.Time    `json:"reaches_100_at"` // null: not this month at the current rate
}

// abuseOf returns the score of an account with its tiers and events.
func (b *Backend) abuseOf(ctx context.Context, a *account.Account) (Abuse, error) {
	tiers, score, events, err := b.Scores.Score(ctx, a)
	if err != nil {
		return Abuse{}, err
	}
	out := Abuse{Score: score, Events: some(events)}
	for _, s := range tiers {
		t := AbuseTier{Tier: s.Tier.String(), Score: s.Score, Units: decimal(s.Units, 3), Budget: s.Budget}
		if !s.Reaches.IsZero() {
			t.Reaches = &s.Reaches
		}
		out.Tiers = append(out.Tiers, t)
	}
	return out, nil
}
