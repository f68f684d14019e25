package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/alias"
	"sluice/internal/upstream/catalog"
)

// prices are those of the model below.
func prices() *price.Series {
	e := price.Entry{Model: "lab/<large>", Rates: price.Of(400_000_000, 12_000_000_000)}
	e.Rates[price.CacheRead], e.Rates[price.CacheWrite5m], e.Rates[price.CacheWrite] = 1000, 500_000_000, price.Unknown
	sealed, err := price.Sealed(e)
	if err != nil {
		panic(err)
	}
	return price.NewBook([]*price.Entry{sealed}).Find(e.Model, "", "")
}

func full() catalog.Model {
	return catalog.Model{
		ID: "lab/<large>", OwnedBy: "lab & sons", Created: 1700000000, Description: "Says \"yes\".",
		Plan: account.Premium, RequestMilli: 1500, UnitMilli: 1, ContextLength: 200_000, MaxOutput: 8192,
		ToolCalling: true, Images: true, Provider: "lab", Upstream: "secret-upstream-name",
		Price: prices(),
	}
}

func bare() catalog.Model {
	return catalog.Model{ID: "b", OwnedBy: "o", Plan: account.Free, RequestMilli: 1, ContextLength: 10, MaxOutput: 5}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	c, err := catalog.New([]catalog.Model{full(), bare()})
	if err != nil {
		t.Fatal(err)
	}
	var (
		plainFull = `{"id":"lab/<large>","object":"model","created":1700000000,"owned_by":"lab & sons","plan":"premium","request_multiplier":1.5,` +
			`"permission":{"context_length":200000,"max_output":8192,"tool_calling":true}`
		plainBare = `{"id":"b","object":"model","created":0,"owned_by":"o","plan":"free","request_multiplier":0.001,` +
			`"permission":{"context_length":10,"max_output":5,"tool_calling":false}`
		moreFull = `,"description":"Says \"yes\".","pricing":{"currency":"USD","unit":"per_million_tokens","input":0.4,"output":12,"cached_input":0.000001,"cache_write_5m":0.5,"cache_write":null,"version":"` + prices().At(0).Version() + `"},` +
			`"modalities":{"input":["text","image"],"output":["text"]},"provider":"lab"}`
		moreBare = `,"unpriced":true,"modalities":{"input":["text"],"output":["text"]}}`
	)
	for _, tt := range []struct{ name, got, want string }{
		{"JSON(plain)", string(c.JSON(false)), `{"object":"list","data":[` + plainFull + `},` + plainBare + `}]}`},
		{"JSON(verbose)", string(c.JSON(true)), `{"object":"list","data":[` + plainFull + moreFull + `,` + plainBare + moreBare + `]}`},
		{"Model.JSON", string(c.Models()[0].JSON()), plainFull + moreFull},
	} {
		if tt.got != tt.want {
			t.Errorf("%s =\n%s\nwant\n%s", tt.name, tt.got, tt.want)
		}
		if !json.Valid([]byte(tt.got)) {
			t.Errorf("%s is not JSON", tt.name)
		}
		if strings.Contains(tt.got, "secret-upstream-name") {
			t.Errorf("%s tells the name at the upstream", tt.name)
		}
	}
}

func TestEmptyCatalog(t *testing.T) {
	t.Parallel()
	c, err := catalog.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(c.JSON(false)), `{"object":"list","data":[]}`; got != want {
		t.Errorf("JSON of an empty catalog = %s, want %s", got, want)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	given := []catalog.Model{full(), bare()}
	c, err := catalog.New(given)
	if err != nil {
		t.Fatal(err)
	}
	given[1].ContextLength = 1 // a catalog never changes
	if m, ok := c.Lookup("b"); !ok || m.ContextLength != 10 {
		t.Errorf("Lookup(b) = %+v, %t, want the model as it was given", m, ok)
	}
	for _, id := range []string{"", "B", "b ", "lab"} {
		if m, ok := c.Lookup(id); ok {
			t.Errorf("Lookup(%q) = %+v, want none", id, m)
		}
	}
	var ids []string
	for _, m := range c.Models() {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{"lab/<large>", "b"}, ids); diff != "" {
		t.Errorf("Models: -want +got\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	tier := func(p account.Plan) catalog.Model { m := bare(); m.Plan = p; return m }
	for name, tt := range map[string]struct {
		models []catalog.Model
		says   string
	}{
		"twice":      {[]catalog.Model{bare(), full(), bare()}, `model "b" is listed twice`},
		"tier none":  {[]catalog.Model{tier(account.None)}, `model "b": its plan must be free, basic or premium`},
		"tier scale": {[]catalog.Model{tier(account.Scale)}, `model "b": its plan must be free, basic or premium`},
	} {
		if _, err := catalog.New(tt.models); err == nil || err.Error() != tt.says {
			t.Errorf("%s: New = %v, want %s", name, err, tt.says)
		}
	}
}

// The models that are there from the first start.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	router := catalog.Router("acme")
	if router.ID != "acme/auto" || router.Plan != account.Basic || router.ContextLength != 400_000 || !router.ToolCalling || !router.Router || router.Provider != "" {
		t.Errorf("Router(acme) = %+v, want acme/auto: basic, 400000 tokens, tools", router)
	}
	models := append([]catalog.Model{router}, catalog.Sandbox()...)
	if _, err := catalog.New(models); err != nil {
		t.Fatalf("New(built-in) = %v", err)
	}
	for name, is := range map[string]func(catalog.Model) bool{
		"a free one with 131072":    func(m catalog.Model) bool { return m.Plan == account.Free && m.ContextLength == 131_072 },
		"a basic one with 400000":   func(m catalog.Model) bool { return m.Plan == account.Basic && m.ContextLength == 400_000 && !m.Router },
		"a premium one with 200000": func(m catalog.Model) bool { return m.Plan == account.Premium && m.ContextLength == 200_000 },
		"a multiplier above 1":      func(m catalog.Model) bool { return m.RequestMilli > 1000 },
		"one without tools":         func(m catalog.Model) bool { return !m.ToolCalling },
	} {
		found := false
		for _, m := range models {
			found = found || is(m)
		}
		if !found {
			t.Errorf("the built-in models lack %s", name)
		}
	}
	for _, m := range catalog.Sandbox() {
		if !m.Sandbox || m.Provider != catalog.SandboxProvider || m.Upstream == "" || m.UnitMilli != m.RequestMilli || m.MaxOutput > m.ContextLength {
			t.Errorf("sandbox model %+v, want it served by the sandbox, its units those of its requests", m)
		}
		// Reference context windows: free 131K, others 200K or 400K (docs/api.md#model-object).
		if free := m.Plan == account.Free; free != (m.ContextLength == 131_072) {
			t.Errorf("%s: plan %s with a context of %d", m.ID, m.Plan, m.ContextLength)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	a, b := bare(), bare()
	a.ID, a.Aliases = "a", []string{"claude-*", "gone"}
	b.Aliases = []string{"claude-sonnet-*", "a"} // an alias with the name of a model is not used
	c, err := catalog.New([]catalog.Model{a, b})
	if err != nil {
		t.Fatal(err)
	}
	own, err := alias.New(map[string]string{"claude-haiku": "b", "b": "a", "gpt-*": "nobody", "claude-x*": "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a": "a", "b": "b", "gone": "a", "claude-opus": "a", "claude-sonnet-4": "b", "claude-haiku": "b", "gpt-5": "", "other": "", "": "", "claude-xy": "a",
	} {
		m, ok := c.Resolve(name, own)
		if got := ""; ok != (want != "") || ok && m.ID != want {
			if ok {
				got = m.ID
			}
			t.Errorf("Resolve(%q) = %q, want %q", name, got, want)
		}
	}
	if m, ok := c.Resolve("claude-haiku", nil); !ok || m.ID != "a" {
		t.Errorf("Resolve(claude-haiku) without aliases of the account = %v, %v, want a", m, ok)
	}
	if got := string(c.Models()[0].JSON()); !strings.Contains(got, `"aliases":["claude-*","gone"]`) {
		t.Errorf("the verbose form %s lacks the aliases", got)
	}
	b.Aliases = []string{"gone"}
	if _, err := catalog.New([]catalog.Model{a, b}); err == nil || err.Error() != `the alias "gone" stands for two models, "a" and "b"` {
		t.Errorf("New with one alias for two models = %v", err)
	}
}
