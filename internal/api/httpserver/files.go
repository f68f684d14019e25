package httpserver

import (
	"log/slog"
)

const (
	// SideConnections bounds the open connections of the admin socket, and those of the metrics. A
	// few tools use them.
	SideConnections = 100
	// One public address may have a tenth of all connections, but at least addressLeast: one caller
	// cannot keep the others out, and an office behind one address can still work.
	addressShare = 10
	addressLeast = 100
)

// Front returns the bounds of a listener for everybody with at most this many connections, or fewer if the system allows
// fewer files.
func Front(most int, log *slog.Logger) ListenerOptions {
	most = maxConnections(most, log)
	return ListenerOptions{Max: most, MaxPerAddress: max(most/addressShare, addressLeast), Log: log}
}

// maxConnections returns most, or half of the files that the process may open if that is less: every call needs a
// second connection for its upstream.
func maxConnections(most int, log *slog.Logger) int {
	if files, ok := fileLimit(); ok && files/2 < uint64(most) {
		log.Warn("max_connections is lowered to half of the files that this process may open", "files", files, "connections", files/2)
		return int(files / 2)
	}
	return most
}
