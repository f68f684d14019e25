package httpserver

import (
	"context"
	"log/slog"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
)

const (
	// lookEvery is how often an intake looks whether calls are answered. A call that is refused makes it look at once.
	lookEvery = 250 * time.Millisecond
	// backAfter is for how long calls must have been possible, without a break, before it opens again.
	backAfter = 2 * time.Second
)

// Intake keeps callers away from a server that refuses their calls, while there are other servers to take them
// (docs/care/readiness.md#a-node-that-cannot-serve). A server on its own stays open: a 503 with the reason is better than
// a refused connection if there is nobody else.
type Intake struct {
	unable func() (health.Result, bool) // why calls are refused now, if they are
	others func() bool                  // other servers live
	log    *slog.Logger
	wake   chan struct{} // of size 1; makes Run look at once
}

// NewIntake returns an intake. unable returns why calls are refused now, if they are; others reports whether other servers
// live.
func NewIntake(unable func() (health.Result, bool), others func() bool, log *slog.Logger) *Intake {
	return &Intake{unable: unable, others: others, log: log, wake: make(chan struct{}, 1)}
}

// Nudge makes Run look at once. It does not block.
func (d *Intake) Nudge() { pace.Wake(d.wake) }

// leaf is what an intake moves. Shut reports an error if it could not be opened.
type leaf interface {
	shut()
	open() error
}

// Run shuts and opens a server to callers until ctx ends. closes says that the system refuses connections while it is
// shut. In any case end, which is called with true then, makes each reply end its connection.
func (d *Intake) Run(ctx context.Context, server *Server, closes bool, end func(bool)) {
	d.run(ctx, &entry{server, closes, end})
}

// run is Run for any leaf.
func (d *Intake) run(ctx context.Context, l leaf) {
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

// entry is the leaf of a server; see Run.
type entry struct {
	server *Server
	closes bool
	end    func(bool)
}

func (e *entry) shut() {
	e.end(true)
	if e.closes {
		e.server.Withdraw() // where that is not possible, replies still end their connections
	}
}

func (e *entry) open() error {
	if err := e.server.Return(); err != nil {
		return err
	}
	e.end(false)
	return nil
}
