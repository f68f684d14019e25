package httpserver

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/health"
)

// Room answers on the address of the metrics while a server starts: that the process lives, that it is not ready, and
// what it is doing. The address of the API stays closed, so that load balancers send calls elsewhere. A nil Room does
// nothing.
type Room struct {
	addr string
	log  *slog.Logger

	mu      sync.Mutex
	server  *http.Server // nil while the room is closed
	message string
	since   time.Time // when the message became what it is
}

// NewRoom returns a closed room for an address.
func NewRoom(addr string, log *slog.Logger) *Room {
	return &Room{addr: addr, log: log, message: "starting", since: time.Now()}
}

// Open begins to answer. An address that is taken is no error: the server that this one replaces may still have it.
func (r *Room) Open() {
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
	go r.server.Serve(l) // ends with Close
}

// Close frees the address.
func (r *Room) Close() {
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

// Tell sets what the server is doing.
func (r *Room) Tell(message string) {
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
func (r *Room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	result := health.Result{Name: "start", Message: r.message, Age: time.Since(r.since).Round(100 * time.Millisecond).Seconds()}
	r.mu.Unlock()
	status := http.StatusServiceUnavailable
	out := map[string]any{"status": "unavailable", "checks": []health.Result{result}}
	if req.URL.Path == "/healthz" {
		status, out = http.StatusOK, map[string]any{"status": "starting", "version": buildinfo.Version(), "message": result.Message}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // an error means that the client disconnected
}
