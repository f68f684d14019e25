package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/health"
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
	o.room = newRoom(cfg.MetricsListen, o.Log)
	defer o.room.close()
	var said time.Time
	for began := time.Now(); ; {
		o.room.open()
		a, err := New(ctx, cfg, &o)
		if err == nil || !errors.Is(err, sqlstore.ErrAway) || ctx.Err() != nil {
			return a, err
		}
		o.room.tell("waiting for PostgreSQL, which does not answer; the log has the reason")
		if time.Since(said) > startReminder {
			said = time.Now()
			o.Log.Warn("waiting for PostgreSQL", "error", err.Error(), "waited", time.Since(began).Round(time.Second).String(), "hint", "the start continues by itself when it answers")
		}
		if pace.Sleep(ctx, startAgain) != nil {
			return nil, ctx.Err()
		}
	}
}

// room answers on the address of the metrics while a server starts: that the process lives, that it is not ready, and
// what it is doing. The address of the API stays closed, so that load balancers send calls elsewhere. A nil room does
// nothing.
type room struct {
	addr string
	log  *slog.Logger

	mu      sync.Mutex
	server  *http.Server // nil while the room is closed
	message string
	since   time.Time // when the message became what it is
}

func newRoom(addr string, log *slog.Logger) *room {
	return &room{addr: addr, log: log, message: "starting", since: time.Now()}
}

// open begins to answer. An address that is taken is no error: the server that this one replaces may still have it.
func (r *room) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, port, err := net.SplitHostPort(r.addr); r.server != nil || err != nil || port == "0" {
		return
	}
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		return
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug)}
	go r.server.Serve(l) // ends with close
}

// close frees the address.
func (r *room) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		_ = r.server.Close() // the connections are of probes, which ask again
		r.server = nil
	}
}

// tell sets what the server is doing.
func (r *room) tell(message string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.message != message {
		r.message, r.since = message, time.Now()
	}
}

// ServeHTTP implements http.Handler.
func (r *room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	result := health.Result{Name: "start", Message: r.message, Age: time.Since(r.since).Round(100 * time.Millisecond).Seconds()}
	r.mu.Unlock()
	status := http.StatusServiceUnavailable
	out := map[string]any{"status": "unavailable", "checks": []health.Result{result}}
	if req.URL.Path == "/healthz" {
		status, out = http.StatusOK, map[string]any{"status": "starting", "version": buildinfo.Version, "message": result.Message}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // an error means that the client disconnected
}
