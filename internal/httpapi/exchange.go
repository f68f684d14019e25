package httpapi

import (
	"net/http"
	"time"

	"sluice/internal/account"
	"sluice/internal/auth"
	"sluice/internal/telemetry"
)

// exchange is one request and its reply on the way through the chain. It is the ResponseWriter
// of the handlers, and holds what earlier steps found out. One goroutine uses it at a time.
type exchange struct {
	http.ResponseWriter
	settings *Settings
	event    telemetry.Event
	caller   auth.Caller
	// body is the request's body. Its src is nil if there is none.
	body  arrival
	http2 bool
	// depth is how many calls of our own MCP server this request is nested in.
	depth int
	// err is the error of the route. The mux has no way to return it.
	err error
}

// begunExchange implements Exchange.
func (x *exchange) begunExchange() *exchange { return x }

// WriteHeader records the status for the log. Interim replies (1xx) do not count.
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
	n, err := x.pass(p)
	x.event.Bytes += int64(n)
	return n, err
}

// pass sends bytes to the caller. On HTTP/1 the Listener closes connections of callers that
// stop reading. On HTTP/2 a caller can block one stream of a busy connection, so each piece
// has its own deadline. Event streams are left to package relay, which has deadlines of its
// own.
func (x *exchange) pass(p []byte) (n int, err error) {
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

// Flush implements http.Flusher.
func (x *exchange) Flush() {
	if f, ok := x.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap gives http.ResponseController access to the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// limits returns the limits of the caller's account: those of its plan, with its overrides.
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

// jsonType is shared by all replies, to save an allocation. It must not be modified.
var jsonType = []string{"application/json"}
