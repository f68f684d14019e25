package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/provider"
)

// Embed implements provider.Embedder.
// Vectors may come as base64 or as numbers, whatever was asked for; ReadVector takes both.
func (a *Adapter) Embed(ctx context.Context, call *provider.Call, req *embeddings.Request) (*embeddings.Vectors, error) {
	var reply struct {
		Data []struct {
			Index     int             `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	body, err := embedBody(call, req)
	if err != nil {
		return nil, err
	}
	if _, err := a.PostJSON(ctx, a.embeddings(call), call.Header(a.header), body, &reply); err != nil {
		return nil, err
	}
	// The entries may come in any order.
	v := &embeddings.Vectors{List: make([]embeddings.Vector, len(req.Inputs)), Tokens: max(0, reply.Usage.Prompt)}
	if len(reply.Data) != len(req.Inputs) {
		return nil, provider.Sent(provider.Garbled(errors.New("not one embedding for each input")))
	}
	for i := range reply.Data {
		d := &reply.Data[i]
		if d.Index < 0 || d.Index >= len(v.List) || v.List[d.Index].Values != nil {
			return nil, provider.Sent(provider.Garbled(errors.New("an embedding with a wrong index")))
		}
		if v.List[d.Index], err = embeddings.ReadVector(d.Embedding); err != nil {
			return nil, provider.Sent(provider.Garbled(err))
		}
	}
	return v, nil
}

// embeddings returns the URL of a call for vectors.
func (a *Adapter) embeddings(call *provider.Call) *url.URL {
	if a.preset.deployments {
		return below(a.url, call.Upstream+"/embeddings")
	}
	return a.vectors
}

// embedRequest is the body of a request. A format that is not asked for is left out: some upstreams know only one.
type embedRequest struct {
	Model      string `json:"model"`
	Input      []any  `json:"input"` // texts, or lists of tokens
	Format     string `json:"encoding_format,omitempty"`
	Dimensions int    `json:"dimensions,omitempty"`
	User       string `json:"user,omitempty"`
}

// embedBody writes the request.
func embedBody(call *provider.Call, req *embeddings.Request) ([]byte, error) {
	body := embedRequest{Model: call.Upstream, Dimensions: req.Dimensions, User: req.User}
	for i := range req.Inputs {
		if in := &req.Inputs[i]; in.Tokens == nil {
			body.Input = append(body.Input, in.Text)
		} else {
			body.Input = append(body.Input, in.Tokens)
		}
	}
	if req.Base64 {
		body.Format = "base64"
	}
	return jsonscan.Marshal(&body)
}
