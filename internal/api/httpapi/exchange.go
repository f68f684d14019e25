package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/api/httpserver"
	"sluice/internal/kit/telemetry"
	"sluice/internal/prompt/alias"
)

// exchange is one request and its reply on the way through the chain. It is the ResponseWriter
// of the handlers, and holds what earlier steps found out. One goroutine uses it at a time.
type exchange struct {
	http.ResponseWriter
	settings *Settings
	event    telemetry.Event
	caller   auth.Caller
	body     httpserver.Body
	http2    bool
	mcp      bool // the reply is one of our MCP server
	// wait is the time that the request waits for others.
	wait telemetry.Wait
	// measured says that the reply tells what the gateway itself has added to its time.
	measured bool
	overhead time.Duration // what the reply tells
	told     [1]string     // the same as the value of a header, here because it saves an allocation
	// depth is how many calls of our own MCP server this request is nested in.
	depth int
	// err is the error of the route, until the chain takes it. The mux has no way to return it.
	err error
}

// begunExchange implements Exchange.
func (x *exchange) begunExchange() *exchange { return x }

// Fail implements Exchange.
func (x *exchange) Fail(err error) { x.err = err }

// WriteHeader records the status for the log. Interim replies (1xx) do not count.
func (x *exchange) WriteHeader(status int) {
	if x.event.Status == 0 && status >= 200 {
		x.begin(status)
	}
	x.ResponseWriter.WriteHeader(status)
}

// begin records the status of a reply whose headers are about to go out, and adds what the gateway itself
// took until now (docs/providers/routing.md#headers). All that is done before the first byte is in it, settling
// included.
func (x *exchange) begin(status int) {
	x.event.Status = status
	if x.measured {
		x.overhead = x.wait.Own(time.Now())
		x.told[0] = milliseconds(x.overhead)
		x.Header()["X-Sluice-Overhead-Ms"] = x.told[:]
	}
}

// milliseconds formats a duration in milliseconds with three places.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 3, 64)
}

// Write counts the bytes for the log.
func (x *exchange) Write(p []byte) (int, error) {
	if x.event.Status == 0 {
		x.begin(http.StatusOK)
	}
	n, err := x.pass(p)
	x.event.Bytes += int64(n)
	return n, err
}

// pass sends bytes to the caller. On HTTP/1 the Listener closes connections of callers that
// stop reading. On HTTP/2 a caller can block one stream of a busy connection, so each piece
// has its own deadline. The event streams of package relay are left to it, since it has deadlines
// of its own.
func (x *exchange) pass(p []byte) (n int, err error) {
	stream := len(x.Header()["Content-Type"]) > 0 && x.Header()["Content-Type"][0] == eventStream[0]
	if !x.http2 || stream && !x.mcp {
		return x.ResponseWriter.Write(p)
	}
	rc := http.NewResponseController(x.ResponseWriter)
	if stream { // it may be silent until its next event
		defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	}
	// Otherwise the last deadline stays: net/http sends the last bytes when the handler has returned.
	for {
		_ = rc.SetWriteDeadline(time.Now().Add(httpserver.WritePatience))
		m, err := x.ResponseWriter.Write(p[n:min(len(p), n+httpserver.WritePiece)])
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

// aliases returns the aliases of the caller's account, or nil.
func (x *exchange) aliases() *alias.Table {
	if x.caller.Account == nil {
		return nil
	}
	return x.caller.Account.Aliases
}

// begun reports whether the reply has started, so that its status can no longer change.
func (x *exchange) begun() bool { return x.event.Status != 0 }

// json sends an encoded body, which may be in pieces, with status 200.
func (x *exchange) json(body ...[]byte) error {
	x.Header()["Content-Type"] = jsonType
	for _, piece := range body {
		if _, err := x.Write(piece); err != nil {
			return clientGone(err)
		}
	}
	return nil
}

// encode sends a value as JSON.
func (x *exchange) encode(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.json(body)
}

// jsonType is shared by all replies, to save an allocation. It must not be modified.
var jsonType = []string{"application/json"}
