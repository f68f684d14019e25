package admin

import (
	"context"
	"time"

	"sluice/internal/ledger/usage"
)

// Days is the argument of usage.caches: the days from From on and before To.
type Days struct{ From, To time.Time }

// usageCaches returns what the calls of all accounts add up to by day, provider and model.
func (b *Backend) usageCaches(ctx context.Context, in Days) ([]usage.ServedRow, error) {
	return b.Served(ctx, usage.DayOf(in.From), in.To)
}
