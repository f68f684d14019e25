package front

import (
	"fmt"
	"html"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/overview"
	"sluice/internal/upstream/catalog"
	"sluice/internal/web/webui"
)

// At most four models are beside each other. What is left out is said, and nobody learns of models that are for staff.
func TestCompare(t *testing.T) {
	t.Parallel()
	h := newFront(t, false)
	for _, tt := range []struct {
		query   string
		columns int
		has     string
		hasNot  string
	}{
		{"m=lab/fast&m=lab/cheap", 2, "$2.00", "left out"},
		{"m=lab/fast&m=lab/fast", 1, "Add a second model", "left out"},
		{"m=lab/fast&m=clips&m=lab/cheap&m=sandbox/small&m=sandbox/tiny", 4, "The others were left out", `href="/models/sandbox/tiny"`},
		{"m=lab/fast&m=lab/secret", 1, "There is no model lab/secret", "404"},
		{"m=" + strings.Repeat("x", 3000), 0, "There is no model xxx", strings.Repeat("x", 100)},
		{"m=a&m=b&m=c&m=d&m=e&m=f", 0, "There is no model a, b, c, d.", "e, f"},
		{"m=lab/fast&m=lab/cheap&calls=1000&in=1000&out=1000", 2, "$3.00", "$3,"},
		{"m=lab/fast&m=lab/cheap", 2, "lab/fast and lab/cheap", "Your workload, a month"},
		{"", 0, "Nothing to compare yet", "<table"},
	} {
		w := get(h, "/models/compare?"+tt.query)
		body := w.Body.String()
		if columns := strings.Count(body, `class="compared"`); w.Code != 200 || columns != tt.columns {
			t.Errorf("%.80s shows %d models with the status %d, want %d", tt.query, columns, w.Code, tt.columns)
		}
		if !strings.Contains(body, tt.has) || strings.Contains(body, tt.hasNot) {
			t.Errorf("%.80s shows %q and not %.80q: false", tt.query, tt.has, tt.hasNot)
		}
	}
}

// A model in a line says what its id does not.
func TestLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, description, want string }{
		{"anthropic/claude-sonnet-5-5", "Claude Sonnet 5.5", "tools"},
		{"claude-sonnet-5-5", "Claude Sonnet 5.5, for code.", "Claude Sonnet 5.5, for code · tools"},
		{"fast", "", "tools"},
	} {
		m := Model{Model: &catalog.Model{ID: tt.id, Description: tt.description, ToolCalling: true, NoJSON: true, RequestMilli: 1000}, Kind: Chat}
		if got := m.line(); got != tt.want {
			t.Errorf("line of %s = %q, want %q", tt.id, got, tt.want)
		}
	}
}

func TestMarkBest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []int64
		best   int
		want   string
	}{
		{[]int64{3, 1, 2}, lowest, "[false true false]"},
		{[]int64{3, 1, 2}, highest, "[true false false]"},
		{[]int64{1, 1, 2}, lowest, "[true true false]"},
		{[]int64{0, -1, 2}, lowest, "[true false false]"},
		{[]int64{-1, 5, -1}, lowest, "[false false false]"},
		{[]int64{5, 5}, highest, "[false false]"},
		{[]int64{5, 6}, neither, "[false false]"},
	} {
		cells, got := make([]compareCell, len(tt.values)), make([]bool, len(tt.values))
		markBest(cells, tt.values, tt.best)
		for i := range cells {
			got[i] = cells[i].Best
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("markBest(%v, %d) = %v, want %s", tt.values, tt.best, got, tt.want)
		}
	}
}

// The list and the page of a model count the same workload as package price, and say the address without what is empty.
func TestWorkloadOnPages(t *testing.T) {
	t.Parallel()
	h := newFront(t, false)
	// lab/fast costs $1 and $2: 1,000 calls of 1,000 and 500 tokens are $2.
	const load = "calls=1000&in=1000&out=500"
	for path, want := range map[string]string{
		"/models?" + load:                                "<strong>$2.00</strong>",
		"/models/lab/fast?" + load:                       `<span class="figure">$2.00</span>`,
		"/models/lab/cheap":                              `<span class="figure">$5.00</span>`, // the usual one
		"/models/compare?m=lab/fast&m=lab/cheap&" + load: "$2.00",
		"/pricing?model=lab/fast&" + load:                "worth $2.00 a month",
	} {
		if body := get(h, path).Body.String(); !strings.Contains(body, want) {
			t.Errorf("GET %s does not show %q", path, want)
		}
	}
	body := get(h, "/models?sort=cost&"+load).Body.String()
	if a, b := strings.Index(body, `id="c-lab/cheap`), strings.Index(body, `id="c-lab/fast`); a < 0 || b < a {
		t.Error("by cost, lab/fast comes before lab/cheap")
	}
	w := get(h, "/models?q=&kind=chat&plan=&feature=&context=0&sort=&"+load+"&cached=&page=1&m=clips", "HX-Request", "true")
	if got, want := w.Header().Get("HX-Replace-Url"), "/models?calls=1000&in=1000&kind=chat&m=clips&out=500"; got != want {
		t.Errorf("the address of the list = %s, want %s", got, want)
	}
}

// Whoever is sent a link sees what it leads to, and one address stands for all that can be asked of a page.
func TestShare(t *testing.T) {
	t.Parallel()
	h := newFront(t, false)
	for path, want := range map[string]string{
		"/":                                "https://x.example/",
		"/models?q=a&sort=name":            "https://x.example/models",
		"/models/lab/fast?span=3h":         "https://x.example/models/lab/fast",
		"/models/compare?m=clips&calls=12": "https://x.example/models/compare?m=clips",
		"/pricing?calls=5":                 "https://x.example/pricing",
	} {
		body := html.UnescapeString(get(h, path).Body.String())
		for _, tag := range []string{`<link rel="canonical" href="` + want + `">`, `<meta property="og:url" content="` + want + `">`, `<meta property="og:title" content="`, `<meta name="description" content="`} {
			if !strings.Contains(body, tag) {
				t.Errorf("GET %s has no %s", path, tag)
			}
		}
		if strings.Contains(body, "og:image") {
			t.Errorf("GET %s names a picture", path)
		}
	}
	body := html.UnescapeString(get(h, "/models/lab/fast").Body.String())
	if want := `<meta name="description" content="$1.00 in · $2.00 out, per million tokens · 128K tokens of context · JSON">`; !strings.Contains(body, want) {
		t.Errorf("/models/lab/fast has no %s", want)
	}
	if strings.Contains(get(h, "/status").Body.String(), "canonical") {
		t.Error("a page without a summary has a canonical address")
	}
}

func TestSimilar(t *testing.T) {
	t.Parallel()
	of := func(id string, in, context int, tools bool) Model {
		return newModel(&catalog.Model{ID: id, ContextLength: context, ToolCalling: tools, Price: price.Flat(price.Rate(in)*1_000_000_000, price.Rate(in)*2_000_000_000)}, Chat, nil, testNow)
	}
	all := []Model{
		of("a", 2, 128_000, true), of("far", 100, 128_000, true), of("near", 3, 128_000, true), of("plain", 2, 128_000, false),
		of("short", 2, 8_000, true), of("fourth", 2, 32_000, true),
		{Model: &catalog.Model{ID: "router", Router: true}, Kind: Chat},
		{Model: &catalog.Model{ID: "vectors"}, Kind: Embedding},
		{Model: &catalog.Model{ID: "sandbox", Sandbox: true}, Kind: Chat},
	}
	var ids []string
	for _, m := range similar(all, &all[0]) {
		ids = append(ids, m.ID)
	}
	if got := joined(ids); got != "near, plain, fourth, short" {
		t.Errorf("similar = %s", got)
	}
	if got := similar(all, &all[6]); len(got) != 0 {
		t.Errorf("%d models are similar to the router", len(got))
	}
}

// Buttons lead to the plan that stands on them; see TestChosenPlan in package app for the way to its checkout.
func TestPlanButtons(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/pricing"} {
		body := get(newFront(t, false), path).Body.String()
		for _, plan := range []string{"basic", "premium", "scale"} {
			if want := `href="/signup?plan=` + plan + `">Start with ` + PlanName(mustPlan(t, plan)) + `</a>`; strings.Count(body, want) != 1 {
				t.Errorf("%s has %d buttons %s, want one", path, strings.Count(body, want), want)
			}
		}
		if !strings.Contains(body, `href="/signup">Start with Free</a>`) {
			t.Errorf("%s has no button for Free", path)
		}
	}
	body := get(newFront(t, true), "/pricing").Body.String()
	if !strings.Contains(body, `href="/dashboard/plan?plan=premium">Choose Premium</a>`) || strings.Contains(body, "/signup") {
		t.Error("/pricing leads customers to the sign-up")
	}
}

// Where nobody may sign up, strangers ask those who open accounts.
func TestAskForAccess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o    webui.Opening
		want string
	}{
		{webui.Opening{}, `href="/dashboard/plan?plan=basic">Choose Basic</a>`},
		{webui.Opening{Support: webui.Support{Email: "help@x.example", URL: "https://help.x.example"}}, `href="mailto:help@x.example" aria-label="Ask for access to Basic">Ask for access</a>`},
		{webui.Opening{Support: webui.Support{URL: "https://help.x.example"}}, `href="https://help.x.example" aria-label="Ask for access to Basic">`},
		{webui.Opening{SignedIn: true, Support: webui.Support{Email: "help@x.example"}}, `>Choose Basic</a>`},
		{webui.Opening{Joinable: true, Support: webui.Support{Email: "help@x.example"}}, `>Start with Basic</a>`},
	} {
		var page strings.Builder
		if err := begin(tt.o, account.Basic, "").Render(t.Context(), &page); err != nil || !strings.Contains(page.String(), tt.want) {
			t.Errorf("begin(%+v) = %s, %v, want %s", tt.o, page.String(), err, tt.want)
		}
	}
}

func mustPlan(t *testing.T, name string) account.Plan {
	t.Helper()
	p, err := account.ParsePlan(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The page of prices finds the cheapest plan that is enough, and says what others lack.
func TestFits(t *testing.T) {
	t.Parallel()
	h := newFront(t, false)
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"", []string{"the cheapest plan that fits is shown here. Examples:"}},
		{"model=none&calls=1&in=1", []string{"Examples:"}},
		{"model=sandbox/small&calls=1000&in=1000&out=100", []string{"$0 a month", `Free</span> <span class="muted">is enough`}},
		{"model=sandbox/small&calls=1000&in=1000&out=100&tools=yes", []string{"$10 a month", "Free has no tool calling"}},
		{"model=lab/fast&calls=1000&in=1000&out=100", []string{"$10 a month", "Free does not include lab/fast", `Basic</span> <span class="muted">is enough`, "signup?plan=basic"}},
		{"model=lab/fast&calls=1000&peak=11&in=1000&out=100", []string{"$25 a month", "Basic has 10 requests per minute, you need 11"}},
		{"model=lab/fast&calls=1000&peak=6&in=250000", []string{"Basic has 10 requests per minute, you need 12", "$25 a month"}},
		{"model=lab/fast&calls=1000&peak=10&in=90000&out=10000", []string{"Basic has 500K tokens per minute, you need 1M", "$25 a month"}},
		{"model=sandbox/large&calls=300000&peak=2&in=10&out=10", []string{"Basic has 250K units a month, you need 300K", "$25 a month"}},
		{"model=lab/fast&calls=1&peak=81&in=1", []string{"No plan is large enough", "Scale has 80 requests per minute, you need 81"}},
	} {
		body := get(h, "/pricing?"+tt.query).Body.String()
		for _, want := range tt.want {
			if !strings.Contains(body, want) {
				t.Errorf("/pricing?%s does not show %q", tt.query, want)
			}
		}
	}
}

// A long list comes in pages, and every model is on one of them.
func TestListPages(t *testing.T) {
	t.Parallel()
	var models []catalog.Model
	for i := range 250 {
		models = append(models, catalog.Model{ID: fmt.Sprintf("lab/%03d", i), Plan: account.Free, RequestMilli: 1000})
	}
	c, err := catalog.New(models)
	if err != nil {
		t.Fatal(err)
	}
	info := &ModelInfo{
		Catalog: func() *catalog.Catalog { return c }, Health: func(*catalog.Model) string { return "" }, Record: past{"none", make([]overview.Span, overview.KeptDays)},
		Video: func() catalog.Model { return catalog.Model{ID: "clips"} },
	}
	seen := map[string]bool{}
	for page := range 5 { // the first two and the last two are the same
		v := info.List(httptest.NewRequest("GET", "/models?page="+fmt.Sprint(page), nil), "/models", nil)
		if len(v.Models) > mostListed || v.Pages != 3 || v.Found != 251 {
			t.Errorf("page %d has %d models, of %d in %d pages", page, len(v.Models), v.Found, v.Pages)
		}
		for i := range v.Models {
			seen[v.Models[i].ID] = true
		}
	}
	if len(seen) != 251 {
		t.Errorf("%d models are on the pages, want 251", len(seen))
	}
	v := info.List(httptest.NewRequest("GET", "/models?q=lab&page=2", nil), "/models", nil)
	if u, err := url.Parse(v.page(3)); err != nil || u.Query().Get("page") != "3" || u.Query().Get("q") != "lab" {
		t.Errorf("the address of the third page = %s", v.page(3))
	}
}

var testNow = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
