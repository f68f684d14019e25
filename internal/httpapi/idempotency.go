package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/idempotency"
)

var (
	eventStream = []string{"text/event-stream"}
	streamDone  = []byte("data: [DONE]\n\n")
)

// keep is for a request with an Idempotency-Key. It answers one that repeats another, for the price of one
// request, and returns nil; else the call is to be run on the keeper, which must be ended.
func (a *API) keep(x *exchange, r *http.Request, key []string, body []byte) (*keeper, error) {
	turn, reply, err := a.replies.Begin(r.Context(), idempotency.Request{AccountID: x.caller.Account.ID, Path: r.URL.Path, Key: key, Body: body})
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil, clientGone(err)
	case err != nil:
		return nil, err
	case reply != nil:
		standing, err := a.line.Repeat(x.caller, x.limits())
		standing.SetHeader(x.Header())
		if err != nil {
			return nil, err
		}
		return nil, clientGone(x.replay(reply))
	}
	return &keeper{exchange: x, ctx: r.Context(), turn: turn}, nil
}

// replay sends a stored reply again: what was one body as one, what was a stream as a stream.
func (x *exchange) replay(reply *idempotency.Reply) error {
	h := x.Header()
	h["Idempotent-Replayed"] = []string{"true"}
	if reply.Stream {
		h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = eventStream, []string{"no-cache"}, []string{"no"}
	} else {
		h["Content-Type"], h["Content-Length"] = jsonType, []string{strconv.Itoa(reply.Size())}
	}
	control := http.NewResponseController(x)
	for piece := range reply.Pieces {
		_ = control.SetWriteDeadline(time.Now().Add(writePatience))
		if _, err := x.Write(piece); err != nil {
			return err
		}
		if reply.Stream {
			x.Flush()
		}
	}
	return nil
}

// keeper is the exchange of a call whose reply may be repeated. It records what is written, and has it
// stored before the last bytes go out: whoever saw a reply end can have it again.
type keeper struct {
	*exchange
	ctx  context.Context
	turn *idempotency.Turn
}

// Write sends a piece of the reply. The piece that makes it whole is the one that ends a stream, or that
// fills the length which was announced.
func (k *keeper) Write(p []byte) (int, error) {
	if k.event.Status == 0 || k.event.Status == http.StatusOK {
		h := k.Header()
		stream := h.Get("Content-Type") == eventStream[0]
		k.turn.Record(p, stream)
		if stream && bytes.HasSuffix(p, streamDone) || !stream && h.Get("Content-Length") == strconv.Itoa(k.turn.Recorded()) {
			k.turn.Keep(k.ctx)
		}
	}
	return k.exchange.Write(p)
}

// end lets the next request with the key have its turn, if nothing was stored.
func (k *keeper) end() { k.turn.End() }
