package httpapi

import (
	"net/http"
	"time"

	"sluice/internal/api/httpserver"
	"sluice/internal/line/relay"
)

// readBody returns the whole JSON body and a function that gives its share of the limits back; see httpserver.Bodies.
// Each byte is charged copies times.
func (a *API) readBody(x *exchange, r *http.Request, most, copies int64) ([]byte, func(), error) {
	return x.readBody(r, a.bodies.Read, most, copies)
}

// bodyReader is httpserver.Bodies.Read, or its variant for forms.
type bodyReader func(body *httpserver.Body, r *http.Request, most, copies int64) ([]byte, func(), error)

// readBody reads the body of a request with read.
func (x *exchange) readBody(r *http.Request, read bodyReader, most, copies int64) ([]byte, func(), error) {
	body, release, err := read(&x.body, r, most, copies)
	x.wait.Read(time.Now()) // a caller who is slow to send is not our overhead
	return body, release, err
}

// largeBody is the size from which a body waits for its turn to be decoded.
const largeBody = 256 << 10

// decoded returns what parse makes of a body. A large one waits for its turn: what is made of it can take several times
// its size, and nobody has paid for it yet.
func decoded[T any](a *API, x *exchange, r *http.Request, body []byte, parse func([]byte) (T, error)) (T, error) {
	if len(body) >= largeBody && x.caller.Account != nil {
		done, err := a.opts.Reads.Decode(r.Context(), x.caller.Account.ID)
		if err != nil {
			var none T
			return none, relay.Ended(r.Context())
		}
		defer done()
	}
	return parse(body)
}
