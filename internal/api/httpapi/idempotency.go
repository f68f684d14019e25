package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/api/httpserver"
	"sluice/internal/ledger/receipt"
	"sluice/internal/line/idempotency"
	"sluice/internal/line/inference"
	"sluice/internal/line/relay"
)

// eventStream is the Content-Type of streams.
var eventStream = []string{"text/event-stream"}

// keep handles a request with an Idempotency-Key. If an earlier request with the key has a
// stored reply, keep sends it, which costs one request, and returns a nil recorder. Otherwise
// the call must run with the recorder as its ResponseWriter, and the caller must call end. A
// request that runs at the same time is waited for.
// model and tools are what the request needs access to, also for a stored reply.
func (a *API) keep(x *exchange, r *http.Request, key []string, body []byte, model string, tools bool) (*recorder, error) {
	// Waiting for the first request is not our overhead; asking the database is.
	turn, reply, err := a.opts.Replies.Begin(r.Context(), idempotency.Request{AccountID: x.caller.Account.ID, Path: r.URL.Path, Key: key, Body: body, Waited: x.wait.Since})
	switch {
	// The caller disconnected while it waited for the first request, or the server stops.
	case err != nil && r.Context().Err() != nil:
		return nil, relay.Ended(r.Context())
	case err != nil:
		return nil, err
	case reply != nil:
		take, release := a.Hold(x.caller.Account.ID)
		defer release()
		if err := take(int64(reply.Size())); err != nil {
			return nil, err
		}
		err := a.current(x, func() error {
			return a.line.Repeat(x.Header(), x.models(), x.caller, x.limits(), model, tools)
		})
		if err != nil {
			return nil, err
		}
		return nil, clientGone(x.replay(reply))
	}
	return &recorder{exchange: x, next: x, ctx: r.Context(), turn: turn}, nil
}

// replay sends a stored reply again, as a body or as a stream, as it was sent the first time.
func (x *exchange) replay(reply *idempotency.Reply) error {
	h := x.Header()
	h["Idempotent-Replayed"] = []string{"true"}
	for _, f := range reply.Header {
		h[f.Name] = []string{f.Value}
	}
	if reply.Stream {
		x.streamHeader()
	} else {
		h["Content-Type"], h["Content-Length"] = jsonType, []string{strconv.Itoa(reply.Size())}
	}
	control := http.NewResponseController(x)
	for piece := range reply.Pieces {
		// A stored reply may be large, and nobody watches this stream for a caller that does
		// not read.
		_ = control.SetWriteDeadline(time.Now().Add(httpserver.WritePatience))
		if _, err := x.Write(piece); err != nil {
			return err
		}
		if reply.Stream {
			x.Flush()
		}
	}
	return nil
}

// recorder is the ResponseWriter of a call whose reply may be repeated. It records what is
// written, and stores it before the last bytes are sent: a caller that saw the end of a reply
// can always get it again.
type recorder struct {
	*exchange
	next http.ResponseWriter // the exchange, or the stream that can be resumed
	ctx  context.Context
	turn *idempotency.Turn
	last bool // the next write completes the reply
}

// Completing implements relay.Completer.
func (k *recorder) Completing() { k.last = true }

// Write records and sends a piece of the reply.
func (k *recorder) Write(p []byte) (int, error) {
	if k.event.Status == 0 || k.event.Status == http.StatusOK {
		k.turn.Record(p, k.Header().Get("Content-Type") == eventStream[0])
		if k.last {
			k.turn.Keep(k.ctx, kept(k.Header())...)
		}
	}
	return k.next.Write(p)
}

// keptHeader are the headers that a repeat gets as well, because they say something about the call that was made.
var keptHeader = []string{inference.CostHeader, receipt.Header}

// kept returns those of them that a reply has.
func kept(h http.Header) (fields []idempotency.Field) {
	for _, name := range keptHeader {
		if v := h[name]; len(v) == 1 {
			fields = append(fields, idempotency.Field{Name: name, Value: v[0]})
		}
	}
	return fields
}

// Flush implements http.Flusher.
func (k *recorder) Flush() {
	if f, ok := k.next.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap gives http.ResponseController access to what is below.
func (k *recorder) Unwrap() http.ResponseWriter { return k.next }

// end lets the next request with the same key run, if nothing was stored.
func (k *recorder) end() { k.turn.End() }
