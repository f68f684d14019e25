package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"

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
	if _, err := a.PostJSON(ctx, a.embeddings(call), call.Header(a.header), embedBody(call, req), &reply); err != nil {
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
		var err error
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

// embedBody writes the request. A format that is not asked for is left out: some upstreams know only one.
func embedBody(call *provider.Call, req *embeddings.Request) []byte {
	b := append([]byte(nil), `{"model":`...)
	b = jsonscan.AppendQuoted(b, call.Upstream)
	b = append(b, `,"input":[`...)
	for i := range req.Inputs {
		if i > 0 {
			b = append(b, ',')
		}
		in := &req.Inputs[i]
		if in.Tokens == nil {
			b = jsonscan.AppendQuoted(b, in.Text)
			continue
		}
		b = append(b, '[')
		for j, n := range in.Tokens {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(n), 10)
		}
		b = append(b, ']')
	}
	b = append(b, ']')
	if req.Base64 {
		b = append(b, `,"encoding_format":"base64"`...)
	}
	if req.Dimensions > 0 {
		b = append(b, `,"dimensions":`...)
		b = strconv.AppendInt(b, int64(req.Dimensions), 10)
	}
	if req.User != "" {
		b = append(b, `,"user":`...)
		b = jsonscan.AppendQuoted(b, req.User)
	}
	return append(b, '}')
}
