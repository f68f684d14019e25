package routing

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
)

// parse reads a request; more are members beside the messages.
func parse(t *testing.T, content, more string) *chat.Request {
	t.Helper()
	req, err := chat.Parse(fmt.Appendf(nil, `{"model":"service/auto","messages":[{"role":"user","content":%s}]%s}`, content, more))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

const (
	hello   = `"Hello"`
	picture = `[{"type":"text","text":"?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]`
	tool    = `,"tools":[{"type":"function","function":{"name":"f"}}]`
)

func model(id string, plan account.Plan, change func(*catalog.Model)) catalog.Model {
	m := catalog.Model{ID: id, Plan: plan, ContextLength: 1000, MaxOutput: 100}
	if change != nil {
		change(&m)
	}
	return m
}

func TestChoose(t *testing.T) {
	t.Parallel()
	router := catalog.Router("service")
	real := []catalog.Model{
		router,
		model("premium", account.Premium, nil),
		model("plain", account.Basic, nil),
		model("tools", account.Basic, func(m *catalog.Model) { m.ToolCalling = true }),
		model("images", account.Free, func(m *catalog.Model) { m.Images = true }),
		model("large", account.Free, func(m *catalog.Model) { m.ContextLength, m.MaxOutput = 100_000, 5000 }),
		model("box", account.Free, func(m *catalog.Model) {
			m.Sandbox, m.ToolCalling, m.Images, m.ContextLength, m.MaxOutput = true, true, true, 1_000_000, 100_000
		}),
	}
	sandbox := append([]catalog.Model{router}, catalog.Sandbox()...)
	for name, tt := range map[string]struct {
		models        []catalog.Model
		asked         string
		plan          account.Plan
		content, more string
		want          string // empty: 400
	}{
		"a model answers for itself":            {real, "large", account.None, hello, "", "large"},
		"the sandbox, too":                      {real, "box", account.None, hello, "", "box"},
		"the first of the plan":                 {real, router.ID, account.Basic, hello, "", "plain"},
		"a higher plan has more":                {real, router.ID, account.Premium, hello, "", "premium"},
		"scale has all":                         {real, router.ID, account.Scale, hello, "", "premium"},
		"who can call tools":                    {real, router.ID, account.Basic, hello, tool, "tools"},
		"who sees":                              {real, router.ID, account.Basic, picture, "", "images"},
		"who sees and can call tools":           {real, router.ID, account.Basic, picture, tool, ""},
		"who writes enough":                     {real, router.ID, account.Basic, hello, `,"max_tokens":101`, "large"},
		"who reads enough":                      {real, router.ID, account.Basic, `"` + strings.Repeat("word ", 2000) + `"`, "", "large"},
		"nobody writes that much":               {real, router.ID, account.Basic, hello, `,"max_tokens":5001`, ""},
		"nobody reads that much":                {real, router.ID, account.Basic, `"` + strings.Repeat("word ", 100_000) + `"`, "", ""},
		"several replies":                       {real, router.ID, account.Basic, hello, `,"n":2`, "plain"},
		"the sandbox where there is no other":   {sandbox, router.ID, account.Basic, hello, "", "sandbox/small"},
		"the sandbox with tools":                {sandbox, router.ID, account.Basic, hello, tool, "sandbox/small"},
		"the sandbox gives one reply":           {sandbox, router.ID, account.Basic, hello, `,"n":2`, ""},
		"the sandbox writes more with a larger": {sandbox, router.ID, account.Basic, hello, `,"max_tokens":20000`, "sandbox/large"},
		"never the router itself":               {[]catalog.Model{router}, router.ID, account.Scale, hello, "", ""},
	} {
		c, err := catalog.New(tt.models)
		if err != nil {
			t.Fatal(err)
		}
		asked, ok := c.Lookup(tt.asked)
		if !ok {
			t.Fatalf("%s: no model %s", name, tt.asked)
		}
		got, err := Choose(c, asked, tt.plan, parse(t, tt.content, tt.more))
		if tt.want == "" {
			if f := fault.From(err); f.Kind != fault.Invalid || f.Param != "model" {
				t.Errorf("%s: Choose = %v, %v, want 400 at model", name, got, err)
			}
			continue
		}
		if err != nil || got.ID != tt.want {
			t.Errorf("%s: Choose = %v, %v, want %s", name, got, err, tt.want)
		}
	}
}
