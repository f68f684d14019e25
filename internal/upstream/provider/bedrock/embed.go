package bedrock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/provider"
)

const (
	// mostCohere is how many texts one call of a Cohere model takes. Titan takes one.
	mostCohere = 96
	// atOnce is how many calls of Titan run at the same time for one request.
	atOnce = 8
)

// Embed implements provider.Embedder. Converse knows no embeddings: they are asked for by InvokeModel, in the form of the
// model's vendor. The name of the model says which vendor, also within an ARN or after the name of a region.
func (a *Adapter) Embed(ctx context.Context, call *provider.Call, req *embeddings.Request) (*embeddings.Vectors, error) {
	if err := provider.TextsOnly(req); err != nil {
		return nil, err
	}
	u, err := a.url(call, "/invoke")
	if err != nil {
		return nil, err
	}
	switch {
	case strings.Contains(call.Upstream, "cohere.embed"):
		return a.cohere(ctx, u, call, req)
	case strings.Contains(call.Upstream, "titan-embed"):
		return a.titan(ctx, u, call, req)
	}
	return nil, fault.New(fault.Unavailable, "The model %q is not available at the moment.", req.Model).
		Because(fmt.Errorf("%q is no embedding model of Titan or Cohere", call.Upstream))
}

// invoke sends a request and decodes the reply.
func (a *Adapter) invoke(ctx context.Context, to *url.URL, call *provider.Call, in, out any) (http.Header, error) {
	body, err := jsonscan.Marshal(in)
	if err != nil {
		return nil, err
	}
	return a.PostJSON(ctx, to, call.Header(fixed), body, out)
}

// cohere asks a model of Cohere's. What the texts are for is not part of our API; documents to search are the usual case.
// The number of tokens comes in a header.
func (a *Adapter) cohere(ctx context.Context, u *url.URL, call *provider.Call, req *embeddings.Request) (*embeddings.Vectors, error) {
	v := &embeddings.Vectors{}
	for part := range slices.Chunk(req.Inputs, mostCohere) {
		in := struct {
			Texts      []string `json:"texts"`
			For        string   `json:"input_type"`
			Truncate   string   `json:"truncate"`
			Types      []string `json:"embedding_types"`
			Dimensions int      `json:"output_dimension,omitempty"`
		}{For: "search_document", Truncate: "NONE", Types: []string{"float"}, Dimensions: req.Dimensions}
		for i := range part {
			in.Texts = append(in.Texts, part[i].Text)
		}
		var out struct {
			Embeddings struct {
				Float [][]float32 `json:"float"`
			} `json:"embeddings"`
		}
		header, err := a.invoke(ctx, u, call, in, &out)
		if err != nil {
			return nil, err
		}
		if len(out.Embeddings.Float) != len(part) {
			return nil, provider.Sent(provider.Garbled(errors.New("not one embedding for each input")))
		}
		for _, values := range out.Embeddings.Float {
			v.List = append(v.List, embeddings.Vector{Values: values})
		}
		if n, err := strconv.Atoi(header.Get("X-Amzn-Bedrock-Input-Token-Count")); err == nil && n > 0 {
			v.Tokens += n
		}
	}
	return v, nil
}

// titan asks a Titan model, which takes one text at a time. The calls of a request share nothing, so several run at once.
//
// Each call writes only to the places of its input, so the results need no lock.
// The first error cancels the others.
func (a *Adapter) titan(ctx context.Context, u *url.URL, call *provider.Call, req *embeddings.Request) (*embeddings.Vectors, error) {
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(atOnce)
	v := &embeddings.Vectors{List: make([]embeddings.Vector, len(req.Inputs))}
	counts := make([]int, len(req.Inputs))
	for i := range req.Inputs {
		calls.Go(func() error {
			if ctx.Err() != nil {
				return provider.Unreachable(context.Cause(ctx))
			}
			in := struct {
				Text       string `json:"inputText"`
				Dimensions int    `json:"dimensions,omitempty"`
			}{req.Inputs[i].Text, req.Dimensions}
			var out struct {
				Embedding []float32 `json:"embedding"`
				Tokens    int       `json:"inputTextTokenCount"`
			}
			_, err := a.invoke(ctx, u, call, in, &out)
			v.List[i].Values, counts[i] = out.Embedding, max(0, out.Tokens)
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	for _, n := range counts {
		v.Tokens += n
	}
	return v, nil
}
