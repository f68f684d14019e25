package httpserver

import (
	"fmt"
	"log/slog"
	"net"

	"sluice/internal/kit/excerpt"
)

// Listen listens for the API. An error says what the operator can do about it.
func Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another address with --listen or the field listen", addr, excerpt.Cause(err))
	}
	return l, nil
}

// ListenMetrics listens for metrics. It returns nil without an error if they are off: addr is empty, or it is busy and
// optional is set.
func ListenMetrics(addr string, optional bool, log *slog.Logger) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case optional:
		log.Warn("metrics are off: the default address is busy", "address", addr)
		return nil, nil
	}
	return nil, fmt.Errorf("listen for metrics on %s: %w; choose another address in metrics_listen, or leave it empty", addr, excerpt.Cause(err))
}
