package httpserver

import "log/slog"

// MaxConnections returns most, or half of the files that the process may open if that is less: every call needs a
// second connection for its upstream.
func MaxConnections(most int, log *slog.Logger) int {
	if files, ok := fileLimit(); ok && files/2 < uint64(most) {
		log.Warn("max_connections is lowered to half of the files that this process may open", "files", files, "connections", files/2)
		return int(files / 2)
	}
	return most
}
