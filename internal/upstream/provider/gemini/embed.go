package gemini

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/provider"
)

// mostEmbedded is how many texts one call of batchEmbedContents takes.
const mostEmbedded = 100

// embedRequest is one text of a batch.
// The model is named in every one of them, and must be that of the URL.
type embedRequest struct {
	Model      string       `json:"model"`
	Content    embedContent `json:"content"`
	Dimensions int          `json:"outputDimensionality,omitempty"`
}

// embedContent is a content of one text. Each text is a request of its own: several parts would
// become one vector.
type embedContent struct {
	Parts [1]struct {
		Text string `json:"text"`
	} `json:"parts"`
}

// Embed implements provider.Embedder. The API gives no figures.
//
// Batches are sent one after the other. If one fails, so does the request: half of the vectors are
// of no use.
func (a *Adapter) Embed(ctx context.Context, call *provider.Call, req *embeddings.Request) (*embeddings.Vectors, error) {
	if err := provider.TextsOnly(req); err != nil {
		return nil, err
	}
	name := call.Upstream
	if !strings.Contains(name, "/") {
		name = "models/" + name
	}
	u := *a.base
	u.Path += "/" + name + ":batchEmbedContents"
	v := &embeddings.Vectors{}
	for part := range slices.Chunk(req.Inputs, mostEmbedded) {
		batch := struct {
			Requests []embedRequest `json:"requests"`
		}{make([]embedRequest, len(part))}
		for i := range part {
			batch.Requests[i] = embedRequest{Model: name, Dimensions: req.Dimensions}
			batch.Requests[i].Content.Parts[0].Text = part[i].Text
		}
		body, err := jsonscan.Marshal(batch)
		if err != nil {
			return nil, err
		}
		var reply struct {
			Embeddings []struct {
				Values []float32 `json:"values"`
			} `json:"embeddings"`
		}
		if _, err := a.PostJSON(ctx, &u, call.Header(a.header), body, &reply); err != nil {
			return nil, err
		}
		if len(reply.Embeddings) != len(part) {
			return nil, provider.Sent(provider.Garbled(errors.New("not one embedding for each input")))
		}
		for i := range reply.Embeddings {
			v.List = append(v.List, embeddings.Vector{Values: reply.Embeddings[i].Values})
		}
	}
	return v, nil
}
