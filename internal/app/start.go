package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sluice/internal/api/httpserver"
	"sluice/internal/app/config"
	"sluice/internal/kit/pace"
	"sluice/internal/store/sqlstore"
)

const (
	// startAgain is how long Start waits before it tries again.
	startAgain = time.Second
	// startReminder is how often the log says what a start waits for.
	startReminder = 30 * time.Second
)

// Start is New for a server whose PostgreSQL may not be there yet, as after a power cut: it tries again until the
// database answers or ctx ends. Everything else that is wrong ends it: a password, a name or an address that is not
// right does not become right. Meanwhile the address of the metrics says what the start waits for. opts may be nil.
func Start(ctx context.Context, cfg *config.Config, opts *Options) (*App, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.room = httpserver.NewRoom(cfg.MetricsListen, o.Log)
	defer o.room.Close()
	var said time.Time
	for began := time.Now(); ; {
		o.room.Open()
		a, err := New(ctx, cfg, &o)
		if err == nil || !errors.Is(err, sqlstore.ErrAway) || ctx.Err() != nil {
			return a, err
		}
		o.room.Tell("waiting for PostgreSQL, which does not answer; the log has the reason")
		if time.Since(said) > startReminder {
			said = time.Now()
			o.Log.Warn("waiting for PostgreSQL", "error", err.Error(), "waited", time.Since(began).Round(time.Second).String(), "hint", "the start continues by itself when it answers")
		}
		if pace.Sleep(ctx, startAgain) != nil {
			return nil, ctx.Err()
		}
	}
}
