package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"sluice/internal/upstream/provider"
)

// wireModel is a model as vendors list it. OpenAI's dialect has no figures; vendors add them, each under names of
// its own.
type wireModel struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	DisplayName   string `json:"display_name"`
	ContextLength int    `json:"context_length"`     // OpenRouter, Together, Fireworks
	ContextWindow int    `json:"context_window"`     // Groq
	MaxContext    int    `json:"max_context_length"` // Mistral
	MaxModelLen   int    `json:"max_model_len"`      // vLLM
	MaxCompletion int    `json:"max_completion_tokens"`
	Shutdown      string `json:"shutdown_date"` // OpenAI; a day
	TopProvider   struct {
		MaxCompletion int `json:"max_completion_tokens"`
	} `json:"top_provider"` // OpenRouter
	// What a model is for. OpenAI's dialect does not say it, so that others may use these names for anything.
	Type         json.RawMessage `json:"type"`         // Together
	Kind         json.RawMessage `json:"kind"`         // Fireworks
	Architecture json.RawMessage `json:"architecture"` // OpenRouter
	Meta         struct {
		TrainedOn int `json:"n_ctx_train"`
	} `json:"meta"` // llama.cpp
}

// embeds reports whether the list says that the model makes embeddings.
func (m *wireModel) embeds() bool {
	var a struct {
		Output []string `json:"output_modalities"`
	}
	_ = json.Unmarshal(m.Architecture, &a) // what is no such object says nothing
	return string(m.Type) == `"embedding"` || string(m.Kind) == `"EMBEDDING_MODEL"` || slices.Equal(a.Output, []string{"embeddings"})
}

// modelList is a list of models: the member data of an object, or the list itself, as Together answers.
type modelList []wireModel

// UnmarshalJSON implements json.Unmarshaler.
func (l *modelList) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte("[")) {
		return json.Unmarshal(raw, (*[]wireModel)(l))
	}
	w := struct {
		Data *[]wireModel `json:"data"`
	}{(*[]wireModel)(l)}
	return json.Unmarshal(raw, &w)
}

// Models returns the models that the upstream lists. Figures that it does not give are zero.
func (a *Adapter) Models(ctx context.Context) ([]provider.Listed, error) {
	var list modelList
	if err := a.FetchJSON(ctx, a.models, a.header, &list); err != nil {
		return nil, err
	}
	var all []provider.Listed
	for i := range list {
		m := &list[i]
		shutdown, _ := time.Parse(time.DateOnly, m.Shutdown) // what is no day says nothing
		all = append(all, provider.Listed{
			ID: m.ID, Name: cmp.Or(m.Name, m.DisplayName),
			ContextLength: cmp.Or(m.ContextLength, m.ContextWindow, m.MaxContext, m.MaxModelLen, m.Meta.TrainedOn),
			MaxOutput:     cmp.Or(m.TopProvider.MaxCompletion, m.MaxCompletion),
			Embeds:        m.embeds(),
			Shutdown:      shutdown,
		})
	}
	return all, nil
}
