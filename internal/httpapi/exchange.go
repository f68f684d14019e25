package httpapi

import (
	"net/http"
	"time"

	"sluice/internal/account"
	"sluice/internal/auth"
	"sluice/internal/telemetry"
)

// exchange is one request and its reply on the way through the chain. It is the ResponseWriter that
// handlers write to, and holds what earlier steps found out.
type exchange struct {
	http.ResponseWriter
	settings *Settings
	event    telemetry.Event
	caller   auth.Caller
	body     arrival // the request's, where it has one
	http2    bool
	depth    int   // how many calls of our own MCP server it is nested in
	err      error // what the route returned, through the mux
}

// begunExchange implements Exchange.
func (x *exchange) begunExchange() *exchange { return x }

// WriteHeader notes the status for the log.
func (x *exchange) WriteHeader(status int) {
	if x.event.Status == 0 && status >= 200 {
		x.event.Status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes for the log.
func (x *exchange) Write(p []byte) (int, error) {
	if x.event.Status == 0 {
		x.event.Status = http.StatusOK
	}
	n, err := x.write(p)
	x.event.Bytes += int64(n)
	return n, err
}

// write sends bytes to the caller. On HTTP/1 the Listener notices one who does not take them. On HTTP/2 a
// caller can hold up one stream of a busy connection, so each piece has a deadline of its own; relay keeps
// watch over event streams itself.
func (x *exchange) write(p []byte) (n int, err error) {
	if !x.http2 || len(x.Header()["Content-Type"]) > 0 && x.Header()["Content-Type"][0] == eventStream[0] {
		return x.ResponseWriter.Write(p)
	}
	// The last deadline stays: net/http sends the last bytes when the handler has returned.
	rc := http.NewResponseController(x.ResponseWriter)
	for {
		_ = rc.SetWriteDeadline(time.Now().Add(writePatience))
		m, err := x.ResponseWriter.Write(p[n:min(len(p), n+writePiece)])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// Flush sends what has been written on its way.
func (x *exchange) Flush() {
	if f, ok := x.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// limits are those in force for the caller's account.
func (x *exchange) limits() account.Limits {
	a := x.caller.Account
	return x.settings.Plans[a.Plan].Over(a.Overrides)
}

// begun reports whether the reply has started, so that its status can no longer change.
func (x *exchange) begun() bool { return x.event.Status != 0 }

// json sends an encoded body with status 200.
func (x *exchange) json(body []byte) error {
	x.Header()["Content-Type"] = jsonType
	_, err := x.Write(body)
	return clientGone(err)
}

var jsonType = []string{"application/json"}
