package video

import (
	"context"
	"time"

	"sluice/internal/ledger/usage"
)

// History lists jobs by the time of their creation.
type History interface {
	VideosSince(ctx context.Context, since time.Time) ([]Job, error)
}

// Recent returns the jobs that were created since a time as they count against the rate limits: whatever became of a
// job, its creation consumed its requests.
func Recent(ctx context.Context, store History, since time.Time) ([]usage.Settlement, error) {
	jobs, err := store.VideosSince(ctx, since)
	if err != nil {
		return nil, err
	}
	out := make([]usage.Settlement, 0, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		out = append(out, usage.Settlement{At: j.CreatedAt, AccountID: j.AccountID, RequestMilli: j.CostMilli})
	}
	return out, nil
}
