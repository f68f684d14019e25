package provider

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
)

// Embedder is implemented by adapters whose upstream turns texts into vectors.
type Embedder interface {
	// Embed returns a vector for each input of the request. Of the call it uses the name of the model and the trace. An
	// error is a fault, as that of Adapter.Open. A request may take several calls of the upstream; then the first that
	// fails decides.
	Embed(ctx context.Context, call *Call, req *embeddings.Request) (*embeddings.Vectors, error)
}

// Embed asks an adapter for vectors, and checks that there is one for each input.
func Embed(ctx context.Context, a Adapter, call *Call, req *embeddings.Request) (*embeddings.Vectors, error) {
	e, ok := a.(Embedder)
	if !ok { // the configuration allows none for embedding models
		return nil, fault.New(fault.Unavailable, "The model %q is not available at the moment.", req.Model).Because(errors.New("its provider has no embeddings"))
	}
	v, err := e.Embed(ctx, call, req)
	if err != nil {
		return nil, err
	}
	if err := v.Check(len(req.Inputs)); err != nil {
		return nil, Sent(Garbled(err))
	}
	return v, nil
}

// TextsOnly returns the fault of a request with tokens for an upstream that reads texts alone, or nil.
func TextsOnly(req *embeddings.Request) error {
	if req.Texts() {
		return nil
	}
	return fault.New(fault.Invalid, "The model %q takes texts, not tokens.", req.Model).At("input")
}

// PostJSON sends a body and decodes the reply, of at most MaxReply bytes, into v. It returns the headers of the reply. What
// fails after the body was sent is marked so; see WasSent.
func (c *Client) PostJSON(ctx context.Context, u *url.URL, header http.Header, body []byte, v any) (http.Header, error) {
	var reply Reply
	if err := c.Post(ctx, &reply, u, header, body); err != nil {
		return nil, err
	}
	err := reply.decode(v)
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return nil, Sent(f)
	}
	return reply.Header, err
}
