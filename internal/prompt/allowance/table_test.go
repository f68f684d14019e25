package allowance

import (
	"os"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what string
		got  *Entry
		want string // empty: none
	}{
		{"Field(service_tier)", Field("service_tier"), "service_tier"},
		{"Field(Service_Tier)", Field("Service_Tier"), "service_tier"},
		{"Field(ſpeed)", Field("ſpeed"), "speed"},
		{"Field(temperature)", Field("temperature"), ""},
		{"Field(file_id)", Field("file_id"), ""},
		{"ID(file_id)", ID("file_id"), "file_id"},
		{"ID(id)", ID("id"), ""},
		{"Tool(web_search)", Tool("web_search"), "web_search"},
		{"Tool(web_search_preview_2025_03_11)", Tool("web_search_preview_2025_03_11"), "web_search"},
		{"Tool(WEB_SEARCH_20250305)", Tool("WEB_SEARCH_20250305"), "web_search"},
		{"Tool(web_searcher)", Tool("web_searcher"), ""},
		{"Tool(openrouter:web_search)", Tool("openrouter:web_search"), "openrouter"},
		{"Tool(mcp_toolset)", Tool("mcp_toolset"), "mcp"},
		{"Tool(shell)", Tool("shell"), ""},
		{"Tool(bash_20250124)", Tool("bash_20250124"), ""},
		{"Tool(function)", Tool("function"), ""},
		{"Beta(context-1m-2025-08-07)", Beta("context-1m-2025-08-07"), "context-1m"},
		{"Beta(files-api-2025-04-14)", Beta("files-api-2025-04-14"), "file_id"},
		{"Beta(tomorrow-2027-01-01)", Beta("tomorrow-2027-01-01"), ""},
		{"Container()", Container(), "container"},
		{"Header(Anthropic-Workspace-Id)", Header("Anthropic-Workspace-Id"), "workspace_id"},
		{"Header(Anthropic-Version)", Header("Anthropic-Version"), ""},
		{"Field(diagnostics)", Field("diagnostics"), "diagnostics"},
	} {
		got := ""
		if tt.got != nil {
			got = tt.got.Name
		}
		if got != tt.want {
			t.Errorf("%s = %q, want %q", tt.what, got, tt.want)
		}
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	search, mcp, tier := Tool("web_search"), Tool("mcp"), Field("service_tier")
	for _, tt := range []struct {
		lists             [][]string
		search, mcp, tier bool
	}{
		{nil, false, false, false},
		{[][]string{nil, {}}, false, false, false},
		{[][]string{{"web_search"}}, true, false, false},
		{[][]string{{"web_search"}, {"service_tier"}}, true, false, true},
		{[][]string{nil, {All}}, true, false, true},
		{[][]string{{"mcp"}}, false, false, false},
	} {
		s := New(tt.lists...)
		if s.Has(search) != tt.search || s.Has(mcp) != tt.mcp || s.Has(tier) != tt.tier {
			t.Errorf("New(%q) has %v, %v, %v, want %v, %v, %v", tt.lists, s.Has(search), s.Has(mcp), s.Has(tier), tt.search, tt.mcp, tt.tier)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"all": "", "web_search": "", "websearch": "is not a name", "": "is not a name", "background": "cannot be allowed", "mcp": "cannot be allowed"} {
		if got := Check(name); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("Check(%q) = %q, want %q", name, got, want)
		}
	}
}

// The page for operators lists every name that can be allowed, and names the others.
func TestTableIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/providers/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## What callers may choose")
	section, _, _ = strings.Cut(section, "\n## ")
	names := map[string]bool{}
	for _, e := range Entries() {
		if names[e.Name] {
			t.Errorf("the table has %s twice", e.Name)
		}
		names[e.Name] = true
		if len(e.Fields)+len(e.Tools)+len(e.IDs)+len(e.Betas)+len(e.Headers) == 0 || e.In == 0 || e.What == "" {
			t.Errorf("the entry %s is incomplete", e.Name)
		}
		if !strings.Contains(section, "`"+e.Name+"`") && e.Name != "mcp" {
			t.Errorf("docs/providers/fields.md does not list %s", e.Name)
		}
	}
}
