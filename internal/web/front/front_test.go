package front

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/overview"
	"sluice/internal/operate/steering"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
	"sluice/internal/web/webui"
)

// past is a record of one model.
type past struct {
	model string
	days  []overview.Span
}

func (p past) History(context.Context) map[overview.Subject][]overview.Span {
	return map[overview.Subject][]overview.Span{
		{Kind: overview.ModelKind, Name: p.model}:  p.days,
		{Kind: overview.UpstreamKind, Name: "lab"}: p.days,
	}
}

func (p past) Lately(_ context.Context, _ string, parts int) []overview.Span {
	return make([]overview.Span, parts)
}

// newFront returns pages with a few models, and what may be changed about them.
func newFront(t *testing.T, signedIn bool) http.Handler {
	t.Helper()
	return newFrontWith(t, signedIn, bulletin(t))
}

// newFrontWith is newFront with incidents.
func newFrontWith(t *testing.T, signedIn bool, told *incident.Bulletin) http.Handler {
	t.Helper()
	models, err := catalog.New(append([]catalog.Model{
		catalog.Router("service"),
		{ID: "lab/fast", OwnedBy: "Lab", Plan: account.Basic, RequestMilli: 1000, ContextLength: 128_000, Provider: "lab", Price: price.Flat(1_000_000_000, 2_000_000_000)},
		{ID: "lab/cheap", OwnedBy: "Lab", Plan: account.Basic, RequestMilli: 1000, ContextLength: 8_000, Provider: "lab", Price: price.Flat(0, 1_000_000_000), ToolCalling: true},
		{ID: "lab/secret", OwnedBy: "Lab", Plan: account.Basic, RequestMilli: 1000, ContextLength: 8_000, Provider: "lab", StaffOnly: true},
	}, catalog.Sandbox()...))
	if err != nil {
		t.Fatal(err)
	}
	days := make([]overview.Span, overview.KeptDays)
	days[overview.KeptDays-1] = overview.Span{Calls: 10, Failed: 1, Looks: 10, Tokens: 500, WroteMS: 1000, First: overview.Times{0, 0, 0, 0, 0, 10}, Took: overview.Times{0, 0, 0, 0, 0, 0, 0, 0, 10}}
	ui := webui.New(func() webui.Settings {
		return webui.Settings{Origin: "https://x.example", Brand: "service", Site: webui.Site{Name: "Example AI", Footer: "Example Ltd"}}
	}, slog.New(slog.DiscardHandler))
	info := &ModelInfo{
		Catalog: func() *catalog.Catalog { return models }, Health: func(*catalog.Model) string { return "healthy" },
		Targets: func(m *catalog.Model) []routing.TargetHealth {
			return []routing.TargetHealth{{Provider: m.Provider, Upstream: m.Upstream, State: routing.Closed}}
		},
		Record: past{"lab/fast", days}, Video: func() catalog.Model { return catalog.Model{ID: "clips", Plan: account.Free, RequestMilli: 1000} },
	}
	return New(ui, Sources{
		SignedIn: func(http.ResponseWriter, *http.Request) (bool, error) { return signedIn, nil }, Joinable: func() bool { return true },
		Plans: account.BuiltinPlans, Models: info, Sample: func() string { return "sandbox/small" },
		Incidents: told, Closed: func() []steering.Order { return nil },
	}).Handler()
}

func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// What each page must show, and must not.
func TestPages(t *testing.T) {
	t.Parallel()
	h := newFront(t, false)
	for path, want := range map[string][]string{
		"/":                      {"One API for every model", "https://x.example/v1/chat/completions", "sandbox/small", "Example AI", "Example Ltd", "/signup", "$25", "lab/fast", "speed is the median of today."},
		"/models":                {"lab/fast", "lab/cheap", "sandbox/embed", "clips", "$1.00", "90%", "speed is the median of today."},
		"/models/lab/fast":       {"128K", "$2.00", "<dd>500</dd>", "curl https://x.example", "openai-go", "Failed calls: 1 of 10", "100%", "lab/cheap", "GET /v1/models/lab/fast", "/dashboard/playground?model=lab%2Ffast"},
		"/models/sandbox/embed":  {"/v1/embeddings", "Longest input", "OfArrayOfStrings"},
		"/models/clips":          {"/v1/videos", "client.videos.create"},
		"/models/service/auto":   {"service/auto", "That of the model that answers"},
		"/pricing":               {"$75", "Monthly units, for each tier", "lab/cheap"},
		"/status":                {"All systems operational", "lab/fast", "90%", "Providers", ">lab<"},
		"/models?q=nothing+here": {"No models match", "Clear filters"},
		"/models?m=clips&q=fast": {`<input type="hidden" name="m" value="clips">`},
		"/models/compare":        {"Nothing to compare yet"},
		"/models/compare?m=lab/fast&m=clips&m=lab/fast": {"A call counts as", "Throughput", "/models/compare?m=clips"},
	} {
		w := get(h, path)
		for _, text := range want {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("GET %s does not show %q", path, text)
			}
		}
		if w.Code != 200 || strings.Contains(w.Body.String(), "lab/secret") {
			t.Errorf("GET %s = %d, want 200 without the models of staff", path, w.Code)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("GET %s has the policy %q", path, policy)
		}
		small := get(h, path, "Accept-Encoding", "gzip")
		if small.Header().Get("Content-Encoding") != "gzip" || small.Body.Len() > 30<<10 {
			t.Errorf("GET %s takes %d bytes compressed %q", path, small.Body.Len(), small.Header().Get("Content-Encoding"))
		}
	}
	for path, want := range map[string]int{"/models/lab/secret": 404, "/models/none": 404, "/logo": 404, "/theme.css": 404, "/favicon.ico": 200} {
		if w := get(h, path); w.Code != want {
			t.Errorf("GET %s = %d, want %d", path, w.Code, want)
		}
	}
	r := httptest.NewRequest("POST", "/pricing", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 405 {
		t.Errorf("POST /pricing = %d, want 405", w.Code)
	}
}

// Customers go on to their dashboard, and see the other pages with a way there.
func TestSignedIn(t *testing.T) {
	t.Parallel()
	h := newFront(t, true)
	if w := get(h, "/"); w.Code != 303 || w.Header().Get("Location") != "/dashboard" {
		t.Errorf("GET / = %d to %q, want 303 to /dashboard", w.Code, w.Header().Get("Location"))
	}
	if w := get(h, "/pricing"); !strings.Contains(w.Body.String(), ">Dashboard<") || strings.Contains(w.Body.String(), "/signin") {
		t.Error("GET /pricing offers a customer to sign in")
	}
}

func TestFiltersAndOrder(t *testing.T) {
	t.Parallel()
	body := func(query string) string { return get(newFront(t, false), "/models?"+query).Body.String() }
	for _, tt := range []struct{ query, has, hasNot string }{
		{"q=lab+fast", "lab/fast", "lab/cheap"},
		{"kind=embedding", "sandbox/embed", "lab/fast"},
		{"kind=video", "clips", "lab/fast"},
		{"plan=basic", "lab/fast", "clips"},
		{"feature=tools", "lab/cheap", "lab/fast"},
		{"context=32000", "lab/fast", "lab/cheap"},
		{"context=x", "lab/fast", "No models match"},
	} {
		list := body(tt.query)
		if !strings.Contains(list, `id="c-`+tt.has) || strings.Contains(list, `id="c-`+tt.hasNot) || strings.Contains(list, tt.hasNot) && tt.hasNot == "No models match" {
			t.Errorf("?%s has %s and not %s: false", tt.query, tt.has, tt.hasNot)
		}
	}
	for _, tt := range []struct{ sort, first, second string }{
		{"price", "lab/cheap", "lab/fast"},
		{"price", "lab/fast", "sandbox/small"},
		{"context", "lab/fast", "lab/cheap"},
		{"first", "lab/fast", "lab/cheap"},
		{"speed", "lab/fast", "clips"},
		{"name", "clips", "lab/cheap"},
		{"", "lab/fast", "lab/cheap"},
		{"?", "lab/fast", "lab/cheap"},
	} {
		list := body("sort=" + url.QueryEscape(tt.sort))
		if a, b := strings.Index(list, `id="c-`+tt.first), strings.Index(list, `id="c-`+tt.second); a < 0 || b < 0 || a > b {
			t.Errorf("by %q, %s comes at %d and %s at %d", tt.sort, tt.first, a, tt.second, b)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	if got := percent(0.99999) + " " + percent(1) + " " + percent(0.5) + " " + percent(0.9876); got != "99.99% 100% 50% 98.76%" {
		t.Errorf("percent = %s", got)
	}
	for _, tt := range []struct {
		span overview.Span
		want string
	}{
		{overview.Span{}, "none"},
		{overview.Span{Looks: 1440}, "good"},
		{overview.Span{Looks: 1440, Down: 1}, "good"},
		{overview.Span{Looks: 1440, Down: 20}, "warn"},
		{overview.Span{Looks: 1440, Down: 100}, "bad"},
		{overview.Span{Looks: 1440, Degraded: 200}, "warn"},
		{overview.Span{Looks: 1440, Calls: 100, Failed: 10}, "bad"},
	} {
		if got := dayTone(&tt.span); got != tt.want {
			t.Errorf("dayTone(%+v) = %s, want %s", tt.span, got, tt.want)
		}
	}
	for _, tt := range []struct {
		models, down, degraded int
		want                   string
	}{{3, 0, 0, "good"}, {3, 1, 0, "warn"}, {3, 2, 0, "warn"}, {3, 3, 0, "bad"}, {3, 0, 1, "warn"}} {
		if text, got := verdict(tt.models, tt.down, tt.degraded); got != tt.want || text == "" {
			t.Errorf("verdict(%d, %d, %d) = %q, %s, want %s", tt.models, tt.down, tt.degraded, text, got, tt.want)
		}
	}
	if got := strip(nil, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), map[int]string{0: "\nA note"}); len(got) != overview.KeptDays || got[89].title != "1 Mar 2026\nNo data" || got[0].title != "2 Dec 2025\nNo data\nA note" {
		t.Errorf("strip(nil) = %d cells, from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
	if got := At("/models", "a/b c?d"); got != "/models/a/b%20c%3Fd" {
		t.Errorf("At = %s", got)
	}
}
