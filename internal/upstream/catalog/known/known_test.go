package known_test

import (
	"net/url"
	"testing"

	"sluice/internal/account"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/catalog/known"
)

// Every entry is whole: a caller, a price list and the router can use it.
func TestModels(t *testing.T) {
	t.Parallel()
	models, err := known.Models()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range models {
		name := m.Kind + "/" + m.Upstream
		if seen[name] {
			t.Errorf("%s is listed twice", name)
		}
		seen[name] = true
		if u, err := url.Parse(m.Source); err != nil || u.Scheme != "https" || u.Host == "" {
			t.Errorf("%s has the source %q, want an address", name, m.Source)
		}
		if m.Plan < account.Free || m.Plan > account.Premium || (m.MaxOutput > 0) == m.Embeds || m.MaxOutput > m.ContextLength || m.Description == "" {
			t.Errorf("%s: plan %v, reads %d, writes %d, %q", name, m.Plan, m.ContextLength, m.MaxOutput, m.Description)
		}
		if p := m.Pricing; p != nil && (*p.Input <= 0 || (*p.Output < *p.Input) != m.Embeds || p.Cached != nil && *p.Cached >= *p.Input) {
			t.Errorf("%s: prices %d, %d", name, *p.Input, *p.Output)
		}
		for task, q := range m.Quality {
			if (q == 0) != m.Embeds || q > 100 {
				t.Errorf("%s: quality %d at %v", name, q, catalog.Task(task))
			}
		}
	}
	for _, kind := range []string{"openai", "anthropic", "gemini", "groq", "mistral", "deepseek", "xai"} {
		found := false
		for _, m := range models {
			found = found || m.Kind == kind
		}
		if !found {
			t.Errorf("there is no model of %s", kind)
		}
	}
}
