package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"sluice/internal/provider"
)

// wireModel is a model as the vendors list it: the figures are an addition of theirs, each under its
// own names.
type wireModel struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	DisplayName   string `json:"display_name"`
	ContextLength int    `json:"context_length"`     // OpenRouter, Together, Fireworks
	ContextWindow int    `json:"context_window"`     // Groq
	MaxContext    int    `json:"max_context_length"` // Mistral
	MaxModelLen   int    `json:"max_model_len"`      // vLLM
	MaxCompletion int    `json:"max_completion_tokens"`
	TopProvider   struct {
		MaxCompletion int `json:"max_completion_tokens"`
	} `json:"top_provider"` // OpenRouter
	Meta struct {
		TrainedOn int `json:"n_ctx_train"`
	} `json:"meta"` // llama.cpp
}

// Models lists the models of the upstream.
func (a *Adapter) Models(ctx context.Context) ([]provider.Listed, error) {
	var reply provider.Reply
	if err := a.Fetch(ctx, &reply, a.models, a.header); err != nil {
		return nil, err
	}
	defer reply.Close(true)
	raw, err := reply.Whole()
	if err != nil {
		return nil, err
	}
	var list struct {
		Data []wireModel `json:"data"`
	}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		err = json.Unmarshal(raw, &list.Data) // Together answers with the list itself
	} else {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return nil, provider.Garbled(err)
	}
	var all []provider.Listed
	for i := range list.Data {
		m := &list.Data[i]
		all = append(all, provider.Listed{
			ID: m.ID, Name: cmp.Or(m.Name, m.DisplayName),
			ContextLength: cmp.Or(m.ContextLength, m.ContextWindow, m.MaxContext, m.MaxModelLen, m.Meta.TrainedOn),
			MaxOutput:     cmp.Or(m.TopProvider.MaxCompletion, m.MaxCompletion),
		})
	}
	return all, nil
}
