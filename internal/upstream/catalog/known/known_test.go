package known

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
)

// Every entry is whole: a caller, a price list and the router can use it.
func TestModels(t *testing.T) {
	t.Parallel()
	models, err := Models()
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
		e := m.Priced(time.Now())
		if e == nil {
			if m.Upstream != "openrouter/auto" && m.Upstream != "gpt-oss-120b" { // a price for each model behind it; none is published
				t.Errorf("%s has no price", name)
			}
		} else if in, out, read := e.Rates[price.Input], e.Rates[price.Output], e.Rates[price.CacheRead]; in <= 0 || (out < in) != m.Embeds || read >= in {
			t.Errorf("%s: prices %d, %d, %d", name, in, out, read)
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

// Every entry is as old as its source at most: it was read in the half year before the review, and the vendor serves the
// model longer than that.
func TestSources(t *testing.T) {
	t.Parallel()
	models, reviewed, err := read()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range models {
		names[m.Kind+"/"+m.Upstream] = true
	}
	for _, m := range models {
		name := m.Kind + "/" + m.Upstream
		if m.Read.After(reviewed) || reviewed.Sub(m.Read) > 183*24*time.Hour {
			t.Errorf("%s was read on %s; the list was reviewed on %s", name, m.Read.Format(time.DateOnly), reviewed.Format(time.DateOnly))
		}
		if !m.Shutdown.IsZero() && !m.Shutdown.After(reviewed) {
			t.Errorf("%s ended on %s and is still listed", name, m.Shutdown.Format(time.DateOnly))
		}
		if m.Successor != "" && !names[m.Kind+"/"+m.Successor] {
			t.Errorf("%s is replaced by %s, which is not listed", name, m.Successor)
		}
		if !slices.IsSortedFunc(m.Efforts, func(a, b chat.Effort) int { return a.Compare(b) }) || m.Efforts != nil && !m.Thinks || m.Default != "" && !slices.Contains(m.Efforts, m.Default) {
			t.Errorf("%s: efforts %v, default %q, thinks %t", name, m.Efforts, m.Default, m.Thinks)
		}
	}
}
