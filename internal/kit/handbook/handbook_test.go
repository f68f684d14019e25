package handbook_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"sluice/internal/kit/handbook"
)

// corpus is a small documentation.
func corpus() fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"README.md": "# Guide\n\n## Start\n\n- [First steps](start/README.md): the first answer\n\n## Call it\n\n- [Limits](call/limits.md): why 429\n- [Clients](call/clients.md)\n\n## Reference\n\n- [API](api.md): every rule\n",
		"start/README.md": "# First steps\n\n<!-- written by hand -->\nRead [the limits](../call/limits.md#why-429), [../api.md](../api.md), [the chart](../../deploy/helm/sluice), [`deploy/x`](../../deploy/x), [an example](../examples/a.yaml), [outside](https://example.com/?a=1&b=2).\n\n" +
			"![An overview](../pictures/overview.png)\n\n<script>alert(1)</script>\n\nSee <b>this</b>.\n\n[bad](javascript:alert(1)) ![far](https://example.com/a.png)\n\n```sh\ncurl <x>\n```\n\n" +
			"<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"../pictures/keys-dark.png\">\n  <img alt=\"Keys &amp; limits\" src=\"../pictures/keys.png\" onerror=\"x\">\n</picture>\n",
		"call/limits.md":  "# Limits\n\nHow much a key may do.\n\n## Why 429\n\nA limit of the plan is used up. Wait as long as `Retry-After` says.\n\n## Rotate a key\n\nReplace it: the old one ends at once.\n\n### `max_tokens` and _more_\n\nNothing.\n\n## Rotate a key\n\nAgain.\n",
		"call/clients.md": "# Clients\n\n| a | b |\n|---|---:|\n| x | y |\n\n## Claude Code\n\nSet the base URL.\n",
		"api.md":          "# API\n\n## Backups\n\nRotating keys and PostgreSQL: back up first. Keys, keys, keys.\n",
		"odd/page.md":     "# Odd\n\nNobody lists it. Rotate a key.\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for _, name := range []string{"examples/a.yaml", "pictures/overview.png", "pictures/keys.png", "pictures/keys-dark.png", "docs.go"} {
		files[name] = &fstest.MapFile{Data: []byte(name)}
	}
	return files
}

func open(t *testing.T) *handbook.Book {
	t.Helper()
	book, err := handbook.Open(corpus())
	if err != nil {
		t.Fatalf("Open() = %v, want nil", err)
	}
	return book
}

func TestOrder(t *testing.T) {
	t.Parallel()
	book := open(t)
	var got []string
	for _, g := range book.Groups {
		for _, p := range g.Pages {
			got = append(got, g.Name+": "+p.ID+" "+p.Name+" ("+p.Line+")")
		}
	}
	want := "Start: start First steps (the first answer)\nCall it: call/limits Limits (why 429)\nCall it: call/clients Clients ()\nReference: api API (every rule)"
	if strings.Join(got, "\n") != want {
		t.Errorf("the order is\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	p := book.Page("call/limits.md")
	if p == nil || p.Before != book.Page("start") || p.After != book.Page("call/clients") || !p.Listed {
		t.Errorf("Page(call/limits.md) = %+v, want a page between start and call/clients", p)
	}
	if odd := book.Page("odd/page"); odd == nil || odd.Listed {
		t.Errorf("Page(odd/page) = %+v, want a page that is not listed", odd)
	}
	for _, id := range []string{"call", "nothing", "docs.go", "../README.md/x", "examples/a.yaml"} {
		if p := book.Page(id); p != nil {
			t.Errorf("Page(%s) = %s, want none", id, p.ID)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, text, want string }{
		"a link to nothing": {"README.md", "# G\n\n## A\n\n- [x](x.md)\n", "x.md is no page"},
		"a page twice":      {"README.md", "# G\n\n## A\n\n- [x](api.md)\n- [y](api.md)\n", "listed twice"},
		"no link":           {"README.md", "# G\n\n## A\n\n- words\n", "no link"},
		"no group":          {"README.md", "# G\n\n- [x](api.md)\n", "no link in a group"},
		"no title":          {"api.md", "## API\n", "api.md does not begin with a heading of level 1"},
	} {
		files := corpus()
		files[tt.file] = &fstest.MapFile{Data: []byte(tt.text)}
		if _, err := handbook.Open(files); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Open() = %v, want an error with %q", name, err, tt.want)
		}
	}
	if _, err := handbook.Open(fstest.MapFS{}); err == nil {
		t.Error("Open() without an index = nil, want an error")
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	p := open(t).Page("call/limits")
	var got []string
	for _, s := range p.Sections {
		got = append(got, s.Anchor+": "+s.Heading)
	}
	want := "limits: Limits|why-429: Why 429|rotate-a-key: Rotate a key|max_tokens-and-_more_: max_tokens and more|rotate-a-key-1: Rotate a key"
	if strings.Join(got, "|") != want {
		t.Errorf("sections = %s, want %s", strings.Join(got, "|"), want)
	}
	if s := p.Section("rotate-a-key"); len(s) != 2 || !strings.Contains(s[0].Text, "the old one ends") {
		t.Errorf("Section(rotate-a-key) = %+v, want it and the one below", s)
	}
	if s := p.Section("none"); s != nil {
		t.Errorf("Section(none) = %+v, want none", s)
	}
}

func TestHTML(t *testing.T) {
	t.Parallel()
	book := open(t)
	html := func(id string) string {
		text, err := book.HTML(book.Page(id), "/g")
		if err != nil {
			t.Fatalf("HTML(%s) = %v, want nil", id, err)
		}
		return text
	}
	start := html("start")
	for _, want := range []string{
		`<a href="/g/call/limits#why-429">the limits</a>`, `, <a href="/g/api">API</a>,`, `the chart (<code>deploy/helm/sluice</code>)`, `<code>deploy/x</code>,`, `<a href="/g/examples/a.yaml">`,
		`<a href="https://example.com/?a=1&amp;b=2">`, `<img class="shot" src="/g/pictures/overview.png?v=`, `<code id="code-1" data-lang="sh">curl &lt;x&gt;</code>`, `data-copy="code-1"`,
		`<img class="shot on-light" src="/g/pictures/keys.png?v=`, `<img class="shot on-dark" src="/g/pictures/keys-dark.png?v=`, `alt="Keys &amp; limits"`, "See this.", "bad (<code>javascript:alert(1)</code>) far",
	} {
		if !strings.Contains(start, want) {
			t.Errorf("HTML(start) lacks %s:\n%s", want, start)
		}
	}
	for _, not := range []string{"<script", "<b>", "onerror", "written by hand", `href="javascript`, "example.com/a.png", "style="} {
		if strings.Contains(start, not) {
			t.Errorf("HTML(start) has %s:\n%s", not, start)
		}
	}
	for _, want := range []string{`<div class="scroll" tabindex="0"><table class="narrow">`, `<td align="right">y</td>`, `<h2 id="claude-code"><a class="anchor" href="#claude-code" aria-label="Link to Claude Code">`} {
		if text := html("call/clients"); !strings.Contains(text, want) {
			t.Errorf("HTML(call/clients) lacks %s:\n%s", want, text)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	book := open(t)
	if text, ok := book.File("pictures/keys.png"); !ok || string(text) != "pictures/keys.png" {
		t.Errorf("File(pictures/keys.png) = %q, %t", text, ok)
	}
	for _, name := range []string{"", "api.md", "docs.go", "pictures", "../x", "none.png"} {
		if _, ok := book.File(name); ok {
			t.Errorf("File(%q) is served, want not", name)
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	book := open(t)
	for _, tt := range []struct{ query, want string }{
		{"rotate a key", "call/limits#rotate-a-key"},
		{"regenerating keys", "call/limits#rotate-a-key"},
		{"why 429", "call/limits#why-429"},
		{"rate limit", "call/limits#limits"},
		{"WHY 429???", "call/limits#why-429"},
		{"clau", "call/clients#claude-code"},
		{"Claude Code", "call/clients#claude-code"},
		{"backup", "api#backups"},
		{"postgres", "api#backups"},
		{"max_tokens", "call/limits#max_tokens-and-_more_"},
		{"how do I", ""},
		{"", ""},
		{"zebra", ""},
	} {
		hits, got := book.Search(tt.query), ""
		if len(hits) > 0 {
			got = hits[0].Page.ID + "#" + hits[0].Anchor
		}
		if got != tt.want {
			t.Errorf("Search(%q) finds %q first, want %q", tt.query, got, tt.want)
		}
	}
}

func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	files := corpus()
	files["api.md"] = &fstest.MapFile{Data: []byte("# API\n\n" + strings.Repeat("## Key\n\n"+strings.Repeat("key word ", 100)+"\n\n", 50))}
	for i := range 30 {
		files["odd/"+strings.Repeat("x", i+1)+".md"] = &fstest.MapFile{Data: []byte("# Key\n\nkey\n")}
	}
	book, err := handbook.Open(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"key", strings.Repeat("key word other ", 10_000), strings.Repeat("é", 99), "\xff\xfe key", strings.Repeat("k1 k2 k3 k4 k5 k6 k7 k8 k9 ", 4)} {
		hits := book.Search(query)
		of := map[string]int{}
		for _, hit := range hits {
			of[hit.Page.ID]++
			if n := len(hit.Snippet); n > 200 {
				t.Errorf("Search(%.20q): a snippet has %d pieces", query, n)
			}
		}
		if len(hits) > 20 || of["api"] > 3 {
			t.Errorf("Search(%.20q) = %d hits, %d of one page, want at most 20 and 3", query, len(hits), of["api"])
		}
	}
}

// Pages that only have words of the same meaning are found if few have the word itself.
func TestSynonyms(t *testing.T) {
	t.Parallel()
	for budgets, want := range map[int]bool{1: true, 5: false} {
		files := corpus()
		files["odd/page.md"] = &fstest.MapFile{Data: []byte("# Odd\n\nSpend less.\n")}
		files["api.md"] = &fstest.MapFile{Data: []byte("# Budgets\n\n" + strings.Repeat("## Some\n\nA budget.\n\n", budgets))}
		book, err := handbook.Open(files)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, hit := range book.Search("budget") {
			found = found || hit.Page.ID == "odd/page"
		}
		if found != want {
			t.Errorf("with %d sections about budgets, one about spending is found: %t, want %t", budgets, found, want)
		}
	}
}

func TestSnippet(t *testing.T) {
	t.Parallel()
	files := corpus()
	files["api.md"] = &fstest.MapFile{Data: []byte("# API\n\n" + strings.Repeat("Other words come first. ", 40) + "\n\nThen keys are rotated here. " + strings.Repeat("More words follow. ", 40) + "\n")}
	book, err := handbook.Open(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, hit := range book.Search("rotate zoo key") {
		if hit.Page.ID != "api" {
			continue
		}
		var text, found string
		for _, piece := range hit.Snippet {
			text += piece.Text
			if piece.Found {
				found += piece.Text + " "
			}
		}
		if found != "keys rotated " || !strings.HasPrefix(text, "… ") || !strings.HasSuffix(text, " …") || strings.Contains(text, "\n") || len(text) > 400 {
			t.Errorf("the snippet is %q with the words %q", text, found)
		}
		return
	}
	t.Error("the page was not found")
}
