package sqlstore

import (
	"context"
	"time"
)

// expireAtOnce is how many rows are deleted in one transaction; a stored reply may have a MiB.
const expireAtOnce = 50

// DropExpired deletes stored replies, states and changes of the catalog whose time is over, a few at a time, so that
// nobody waits for it. Failed is called with what could not be deleted.
func (s *Store) DropExpired(ctx context.Context, failed func(what string, err error)) {
	for _, kind := range []struct {
		what string
		drop func(ctx context.Context, now time.Time, most int) (int, error)
	}{
		{"replies", s.DropReplies},
		{"states of tool calls", s.DropStates},
		{"changes of the catalog", s.DropChanges},
	} {
		for n := expireAtOnce; n == expireAtOnce && ctx.Err() == nil; {
			var err error
			if n, err = kind.drop(ctx, time.Now(), expireAtOnce); err != nil && ctx.Err() == nil {
				failed(kind.what, err)
			}
		}
	}
}
