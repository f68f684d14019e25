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
	u := *a.base
	u.Path += "/models"
	query := url.Values{"pageSize": {"1000"}} // the largest page that the vendor accepts
	for range maxPages {
		u.RawQuery = query.Encode()
		var page modelPage
		if err := a.FetchJSON(ctx, &u, a.header, &page); err != nil {
			return nil, err
		}
		all = append(all, page.listed()...)
		if page.Next == "" {
			break
		}
		query.Set("pageToken", page.Next)
	}
	return all, nil
}

// modelPage is one page of the list, with the token of the next one; empty if there is none. The names of models come with
// the collection, as in models/gemini-2.5-pro.
type modelPage struct {
	Models []struct {
		Name        string   `json:"name"`
		DisplayName string   `json:"displayName"`
		Input       int      `json:"inputTokenLimit"`
		Output      int      `json:"outputTokenLimit"`
		Methods     []string `json:"supportedGenerationMethods"`
	} `json:"models"`
	Next string `json:"nextPageToken"`
}

// listed returns the models of the page that can be called.
func (p *modelPage) listed() (page []provider.Listed) {
	for _, m := range p.Models {
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
	return page
}
