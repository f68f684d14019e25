package gemini

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"sluice/internal/upstream/provider"
)

// maxPages bounds how many pages of the list are read. A page has up to 1000 models, so the bound only stops a list
// that never ends.
const maxPages = 20

// Models returns the models that answer generateContent or make embeddings; the list also has others. Any page
// that fails makes it fail: half a list would remove models from the catalog.
func (a *Adapter) Models(ctx context.Context) ([]provider.Listed, error) {
	var all []provider.Listed
	token := ""
	for range maxPages {
		page, next, err := a.models(ctx, token)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" {
			break
		}
		token = next
	}
	return all, nil
}

// models fetches one page of the list, and returns the token of the next one; empty if there is none. The token of
// the first page is empty.
func (a *Adapter) models(ctx context.Context, token string) ([]provider.Listed, string, error) {
	u := *a.base
	u.Path += "/models"
	// The largest page that the vendor accepts.
	query := url.Values{"pageSize": {"1000"}}
	if token != "" {
		query.Set("pageToken", token)
	}
	u.RawQuery = query.Encode()
	// The names of models come with the collection, as in models/gemini-2.5-pro.
	var w struct {
		Models []struct {
			Name        string   `json:"name"`
			DisplayName string   `json:"displayName"`
			Input       int      `json:"inputTokenLimit"`
			Output      int      `json:"outputTokenLimit"`
			Methods     []string `json:"supportedGenerationMethods"`
		} `json:"models"`
		Next string `json:"nextPageToken"`
	}
	if err := a.FetchJSON(ctx, &u, a.header, &w); err != nil {
		return nil, "", err
	}
	var page []provider.Listed
	for _, m := range w.Models {
		chats := slices.Contains(m.Methods, "generateContent")
		if !chats && !slices.Contains(m.Methods, "embedContent") {
			continue
		}
		l := provider.Listed{ID: strings.TrimPrefix(m.Name, "models/"), Name: m.DisplayName, ContextLength: m.Input, Embeds: !chats}
		if chats {
			l.MaxOutput = m.Output // of an embedding model it is 1, which means nothing
		}
		page = append(page, l)
	}
	return page, w.Next, nil
}
