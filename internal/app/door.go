package app

import (
	"context"
	"log/slog"
	"os"
	"time"

	"sluice/internal/api/httpapi"
	"sluice/internal/api/httpserver"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
)

const (
	// lookEvery is how often the door looks whether calls are answered. A call that is refused makes it look at once.
	lookEvery = 250 * time.Millisecond
	// backAfter is for how long calls must have been possible, without a break, before the door opens again.
	backAfter = 2 * time.Second
)

// door keeps callers away from a server that refuses their calls, while there are other servers to take them
// (docs/operations.md#a-server-that-cannot-serve). A server on its own stays open: a 503 with the reason is better than
// a refused connection if there is nobody else.
type door struct {
	unable func() (health.Result, bool) // why calls are refused now, if they are
	others func() bool                  // other servers live
	log    *slog.Logger
	wake   chan struct{} // of size 1; makes run look at once
}

func newDoor(unable func() (health.Result, bool), others func() bool, log *slog.Logger) *door {
	return &door{unable: unable, others: others, log: log, wake: make(chan struct{}, 1)}
}

// nudge makes run look at once. It does not block.
func (d *door) nudge() { pace.Wake(d.wake) }

// leaf is what a door moves. Shut reports an error if it could not be opened.
type leaf interface {
	shut()
	open() error
}

// run shuts and opens until ctx ends.
func (d *door) run(ctx context.Context, l leaf) {
	isShut := false
	var able time.Time // since when calls are possible again; zero while they are not
	for range pace.Woken(ctx, lookEvery, d.wake) {
		why, unable := d.unable()
		wanted := unable && d.others()
		switch {
		case wanted && !isShut:
			isShut = true
			l.shut()
			d.log.Warn("this server cannot answer calls, so it sends callers to the other servers", "check", why.Name, "reason", why.Message)
		case wanted:
			able = time.Time{}
		case isShut && able.IsZero() && !unable:
			able = time.Now()
		case isShut && (unable || time.Since(able) >= backAfter):
			if err := l.open(); err != nil {
				d.log.Error("this server cannot accept connections again; it keeps trying", "error", err.Error())
				continue
			}
			isShut, able = false, time.Time{}
			d.log.Info("this server accepts connections again", "answers_calls", !unable)
		}
	}
}

// entry is the door of the API.
type entry struct {
	api    *httpapi.API
	server *httpserver.Server
	closes bool // the system refuses connections while it is shut; otherwise each reply ends its connection
}

func (e *entry) shut() {
	e.api.EndConnections(true)
	if e.closes {
		e.server.Withdraw() // where that is not possible, replies still end their connections
	}
}

func (e *entry) open() error {
	if err := e.server.Return(); err != nil {
		return err
	}
	e.api.EndConnections(false)
	return nil
}

// closesUnready reports whether a server that cannot answer calls refuses connections. In Kubernetes it must not
// unless the operator says so: a liveness probe on the same port would restart the process.
func (a *App) closesUnready() bool {
	switch a.settings.Load().Config.Unready {
	case "close":
		return true
	case "answer":
		return false
	}
	return os.Getenv("KUBERNETES_SERVICE_HOST") == ""
}
