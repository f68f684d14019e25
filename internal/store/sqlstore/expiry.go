package sqlstore

import (
	"context"
	"log/slog"
	"time"
)

// How many rows are deleted in one transaction. A stored reply may have a MiB; other rows are small.
const (
	DropLarge = 50
	DropSmall = 1000
)

// DropEvery is how often expired rows are deleted.
const DropEvery = 10 * time.Minute

// Expiring is something that expires.
type Expiring struct {
	What   string
	Drop   func(ctx context.Context, now time.Time, most int) (int, error) // deletes up to most, and returns how many
	AtOnce int
}

// NotDropped returns a function for DropExpired that logs what could not be deleted. The next run tries again.
func NotDropped(log *slog.Logger) func(what string, err error) {
	return func(what string, err error) {
		log.Warn("expired rows could not be deleted", "what", what, "error", err.Error())
	}
}

// DropExpired deletes what has expired. It deletes a few rows at a time, so that nobody waits for it. A full batch
// means that there may be more, so the next one follows. After an error it continues with the next kind; failed is
// called with what could not be deleted.
func DropExpired(ctx context.Context, failed func(what string, err error), all ...Expiring) {
	for _, e := range all {
		for n := e.AtOnce; n == e.AtOnce && ctx.Err() == nil; {
			var err error
			if n, err = e.Drop(ctx, time.Now(), e.AtOnce); err != nil && ctx.Err() == nil {
				failed(e.What, err)
			}
		}
	}
}
