package sqlstore

import (
	"context"
	"time"
)

// How many rows are deleted in one transaction. A stored reply may have a MiB; other rows are small.
const (
	expireAtOnce      = 50
	expireSmallAtOnce = 1000
)

// DropExpired deletes what has expired: stored replies, states, responses, changes of the catalog, refused calls, activity, feedback, and what
// nodes knew of each other. It deletes a few rows at a time, so that nobody waits for it. Failed is called with what could
// not be deleted.
func (s *Store) DropExpired(ctx context.Context, failed func(what string, err error)) {
	for _, kind := range []struct {
		what string
		drop func(ctx context.Context, now time.Time, most int) (int, error)
		most int
	}{
		{"replies", s.DropReplies, expireAtOnce},
		{"states of tool calls", s.DropStates, expireAtOnce},
		{"responses", s.DropResponses, expireAtOnce},
		{"changes of the catalog", s.DropChanges, expireAtOnce},
		{"claims of dead nodes", s.dropClaims, expireSmallAtOnce},
		{"alerts", s.dropAlerts, expireSmallAtOnce},
		{"models of conversations", s.dropConversations, expireSmallAtOnce},
		{"refused calls", s.dropRefusals, expireSmallAtOnce},
		{"counts of refused calls", s.dropRefusedMinutes, expireSmallAtOnce},
		{"activity by hour", s.dropHours, expireSmallAtOnce},
		{"activity by day", s.dropDays, expireSmallAtOnce},
		{"votes about answers", s.dropVotes, expireSmallAtOnce},
		{"feedback", s.dropFeedback, expireSmallAtOnce},
	} {
		for n := kind.most; n == kind.most && ctx.Err() == nil; {
			var err error
			if n, err = kind.drop(ctx, time.Now(), kind.most); err != nil && ctx.Err() == nil {
				failed(kind.what, err)
			}
		}
	}
}
