package docs_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"sluice/docs"
	"sluice/internal/kit/handbook"
)

// mostWords is how long a page may be that people read from top to bottom.
const mostWords = 2500

// long has the pages that may be longer: people look things up in them. A page that is short enough must not be here.
var long = map[string]string{
	"api":           "reference",
	"bounds":        "reference",
	"cli":           "reference",
	"configuration": "reference",
	"errors":        "reference",
	"soak":          "tables of figures",
}

// open reads the pages. Open itself refuses an index with a page that does not exist or is listed twice, and a page without a
// heading of level 1.
func open(t *testing.T) *handbook.Book {
	t.Helper()
	book, err := handbook.Open(docs.Files())
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// Every page is in the index, except for the single decisions, which the page of decisions lists.
func TestIndex(t *testing.T) {
	t.Parallel()
	book := open(t)
	for _, p := range book.Pages() {
		if !p.Listed && p.ID != "" && !strings.HasPrefix(p.ID, "decisions/") {
			t.Errorf("docs/README.md does not list %s", p.File())
		}
		if p.Listed && p.Line == "" {
			t.Errorf("docs/README.md says nothing about %s", p.File())
		}
	}
	want := []string{"Call it", "Start", "Providers and models", "Teams and budgets", "Run it", "Look after it", "Sell it", "Reference", "Inside"}
	var got []string
	for _, g := range book.Groups {
		got = append(got, g.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the groups are %q, want %q", got, want)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	book := open(t)
	rest := maps.Clone(long)
	for _, p := range book.Pages() {
		text, err := book.Source(p)
		if err != nil {
			t.Fatal(err)
		}
		delete(rest, p.ID)
		words := len(strings.Fields(text))
		if words > mostWords && long[p.ID] == "" {
			t.Errorf("%s has %d words, want at most %d", p.File(), words, mostWords)
		}
		if words <= mostWords && long[p.ID] != "" {
			t.Errorf("%s has %d words: remove it from the long pages", p.File(), words)
		}
		titles := 0
		seen := map[string]bool{}
		for _, s := range p.Sections {
			if s.Level == 1 {
				titles++
			}
			if seen[s.Heading] {
				t.Errorf("%s has the heading %q twice", p.File(), s.Heading)
			}
			seen[s.Heading] = true
		}
		if titles != 1 {
			t.Errorf("%s has %d headings of level 1, want one", p.File(), titles)
		}
	}
	for id := range rest {
		t.Errorf("there is no page %s: remove it from the long pages", id)
	}
}

// questions are what people ask, and what answers them: a page, or a section of it.
var questions = []struct{ query, answer string }{
	{"rotate a key", "teams#rotate-a-key"},
	{"why 429", "call/limits#why-429"},
	{"add Azure", "providers/vendors#add-azure-openai"},
	{"move to PostgreSQL", "run/postgresql#move-to-postgresql-step-by-step"},
	{"back up", "care/backup#make-a-backup"},
	{"upgrade", "care/upgrade"},
	{"limit what a key may spend", "teams#limit-what-a-key-may-spend"},
	{"use Claude Code", "call/clients#claude-code"},
	{"run on Kubernetes", "run/kubernetes"},
	{"come from LiteLLM", "start/from-litellm"},
	{"restore a backup", "care/backup"},
	{"cannot sign in behind a proxy", "care/troubleshooting#pages-and-mail"},
	{"run several servers", "run/many-nodes"},
	{"use Ollama", "providers/local-models"},
	{"what happens if a provider is down", "start/faq#what-happens-when-a-vendor-is-down"},
	{"prometheus metrics", "care/observability#metrics"},
	{"change the logo", "teams/dashboard#your-own-look"},
	{"stream stops after 60 seconds", "care/troubleshooting#models-and-answers"},
	{"is my prompt stored", "start/faq#is-my-prompt-stored"},
	{"how much memory does it need", "run/sizing"},
	{"postgres", "run/postgresql"},
	{"docker compose", "run/containers#one-node-with-compose"},
	{"receive webhooks", "care/notifications"},
}

// Each question is answered by one of the first three results of the search, which is on every page of the guide: a click finds
// them, and a second one opens the answer.
func TestQuestions(t *testing.T) {
	t.Parallel()
	book := open(t)
	for _, q := range questions {
		var got []string
		for _, hit := range book.Search(q.query)[:min(3, len(book.Search(q.query)))] {
			place := hit.Page.ID
			if hit.Level > 1 {
				place += "#" + hit.Anchor
			}
			got = append(got, place)
		}
		if !slices.Contains(got, q.answer) {
			t.Errorf("%q is answered by %q, want %s among them", q.query, got, q.answer)
		}
		id, anchor, _ := strings.Cut(q.answer, "#")
		if p := book.Page(id); p == nil || anchor != "" && p.Section(anchor) == nil {
			t.Errorf("%q: there is no %s", q.query, q.answer)
		}
	}
}

// Every page becomes HTML, and every link in it leads to a page or a file of the guide, to another site, or to a path of the
// server.
func TestHTML(t *testing.T) {
	t.Parallel()
	book := open(t)
	for _, p := range book.Pages() {
		text, err := book.HTML(p, "/g")
		if err != nil {
			t.Fatalf("HTML(%s) = %v, want nil", p.File(), err)
		}
		for _, part := range strings.Split(text, ` src="`)[1:] {
			address, _, _ := strings.Cut(part, `"`)
			name, _, _ := strings.Cut(strings.TrimPrefix(address, "/g/"), "?")
			if _, ok := book.File(name); !ok || path.Ext(name) == "" {
				t.Errorf("%s shows %s, which is not served", p.File(), address)
			}
		}
	}
}
