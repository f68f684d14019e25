package app_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/operate/admin"
)

// requestLink finds the requests that a page of a session links to.
var requestLink = regexp.MustCompile(`href="/dashboard/activity/requests/(\w+)"`)

// part gets a part of a page, as htmx does.
func (p *person) part(path string) reply {
	p.n.t.Helper()
	r, err := http.NewRequest("GET", p.n.scheme+p.n.Addr()+path, nil)
	if err != nil {
		p.n.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("HX-Request", "true")
	resp, err := p.client.Do(r)
	if err != nil {
		p.n.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.n.t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

// tagged starts a server with a customer who has made two calls of the session run-1, with tags, and one without.
func tagged(t *testing.T) (*node, *person) {
	t.Helper()
	upstream, _ := costly(t)
	n := newSite(t, fmt.Sprintf(`
metrics_listen: 127.0.0.1:0
metrics_tags: [team]
providers: [{name: good, kind: openai, base_url: %q}]
models: [{id: good, provider: good, plan: free, context_length: 100000, max_output: 1000, pricing: {input: 1, output: 2}}]
`, upstream)).start(t)
	ana := n.join("ana@example.com")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "t", Ref: ana.email, Plan: "scale"})
	const body = `{"model":"good","messages":[{"role":"user","content":"please answer."}]}`
	for _, header := range [][]string{
		{"x-sluice-session", "run-1", "x-sluice-tags", "team=search, env=prod"},
		{"x-sluice-session", "run-1", "x-sluice-tags", "team=search"},
		nil,
	} {
		if r := n.marked(ana.key, chatPath, body, header...); r.status != 200 {
			t.Fatalf("a call = %d %s", r.status, r.body)
		}
	}
	n.shelve()
	return n, ana
}

// What calls with tags cost is on the page of costs, for 7 and 30 days, and in the metrics.
func TestCostsByTag(t *testing.T) {
	t.Parallel()
	n, ana := tagged(t)
	part := func(path string) string {
		page := ana.wants(ana.get(path), path, 200, `id="tags"`).body
		page = page[strings.Index(page, `id="tags"`):]
		return page[:strings.Index(page, "</section>")]
	}
	var got string
	eventually(t, "the page to have both calls", func() bool {
		got = part("/dashboard/costs")
		return strings.Contains(got, "2 requests")
	})
	search, prod := strings.Index(got, "team=search"), strings.Index(got, "env=prod")
	if search < 0 || prod < search || strings.Count(got, "<li>") != 2 || !strings.Contains(got, `width="100.0"`) || !strings.Contains(got, `width="50.0"`) || !strings.Contains(got, "1 request") {
		t.Errorf("the tags are %s, want team=search with 2 requests and env=prod with 1, and their bars", got)
	}
	for _, want := range []string{`sluice_tag_calls_total{tag="team=search"} 2`, `sluice_tag_cost_usd_total{tag="team=search"} 0.0022`} {
		if text := n.scrape(); !strings.Contains(text, want) || strings.Contains(text, "env=prod") {
			t.Errorf("metrics lack %s, or have a tag that is not listed:\n%s", want, text)
		}
	}
	// A week has fewer calls than a month.
	n.exec(fmt.Sprintf("UPDATE tag_days SET day = %d WHERE tag = 'env=prod'", time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -10).UnixMilli()))
	if got := part("/dashboard/costs?tags=7"); !strings.Contains(got, "team=search") || strings.Contains(got, "env=prod") {
		t.Errorf("the tags of 7 days are %s, want those of today", got)
	}
	if got := part("/dashboard/costs?tags=30"); !strings.Contains(got, "env=prod") {
		t.Errorf("the tags of 30 days are %s, want those of last week, too", got)
	}
	if page := ana.wants(ana.get("/dashboard/costs?served=good"), "the costs of a model", 200, "Costs").body; strings.Contains(page, `id="tags"`) {
		t.Error("tags are counted over all models, and the page of one shows them")
	}
	bob := n.join("bob@example.com")
	bob.wants(bob.get("/dashboard/costs"), "costs without tags", 200, "No request had a tag")
}

// The session and the tags of a call are in the exports, and on its page.
func TestExportsHaveMarks(t *testing.T) {
	t.Parallel()
	n, ana := tagged(t)
	for file, behind := range map[string]int{"/dashboard/activity.csv": 2, "/dashboard/costs.csv": 1} { // columns that came later
		var got []string
		eventually(t, file+" to have all calls", func() bool {
			rows, err := csv.NewReader(strings.NewReader(ana.get(file).body)).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			got = nil
			for _, row := range rows {
				got = append(got, strings.Join(row[len(row)-2-behind:len(row)-behind], "|"))
			}
			return len(rows) == 4
		})
		slices.Sort(got[1:]) // calls of one millisecond have an order of their own
		if want := []string{"session|tags", "run-1|team=search", "run-1|team=search env=prod", "|"}; !slices.Equal(got, want) {
			t.Errorf("%s has the columns %q, want %q", file, got, want)
		}
	}
	account := strings.ReplaceAll(ana.get("/dashboard/account.json").body, " ", "")
	if strings.Count(account, `"session":"run-1"`) != 2 || !strings.Contains(account, `"tags":"team=searchenv=prod"`) {
		t.Error("the export of the account has no sessions or no tags")
	}
	for path, want := range map[string]string{
		"/v1/requests": `"tags":["team=search","env=prod"]`, "/v1/usage/explain": `"session":"run-1","tags":["team=search"]`, "/dashboard/activity.json": `"session":"run-1"`,
	} {
		body := ana.get(path).body
		if strings.HasPrefix(path, "/v1") {
			body = n.get(path, ana.key).body
		}
		if !strings.Contains(body, want) {
			t.Errorf("%s has no %s: %s", path, want, body)
		}
	}
	ids := requestLink.FindAllStringSubmatch(ana.get("/dashboard/sessions/run-1").body, -1)
	if len(ids) != 2 {
		t.Fatalf("the page of the session links to %d requests, want its 2", len(ids))
	}
	pages := ""
	for _, id := range ids {
		pages += ana.wants(ana.get("/dashboard/activity/requests/"+id[1]), "a request", 200, `href="/dashboard/sessions/run-1"`).body
	}
	if !strings.Contains(pages, `href="/dashboard/activity?tag=team%3Dsearch">team=search</a>`) || !strings.Contains(pages, ">env=prod</a>") {
		t.Error("the pages of the requests have no tags")
	}
}

// The pages of sessions load again what changes, without the rest of the page.
func TestSessionsAreLive(t *testing.T) {
	t.Parallel()
	n, ana := tagged(t)
	for path, calls := range map[string]string{"/dashboard/sessions": `<td class="num">2</td>`, "/dashboard/sessions/run-1": `<div class="figure">2</div>`} {
		page := ana.wants(ana.get(path), path, 200, `hx-get="`+path+`"`)
		ana.wants(page, path, 200, `hx-trigger="every 5s"`)
		part := ana.part(path)
		if part.status != 200 || strings.Contains(part.body, "<html") || !strings.Contains(part.body, `hx-get="`+path+`"`) || !strings.Contains(part.body, calls) {
			t.Errorf("the part of %s = %d %s, want what loads itself again, with %s", path, part.status, part.body, calls)
		}
	}
	if r := n.marked(ana.key, chatPath, `{"model":"good","messages":[{"role":"user","content":"please answer."}]}`, "x-sluice-session", "run-1"); r.status != 200 {
		t.Fatal(r.body)
	}
	eventually(t, "the page to show the call", func() bool {
		return strings.Contains(ana.part("/dashboard/sessions/run-1").body, `<div class="figure">3</div>`)
	})
	// The list of older sessions stays as it is.
	older := ana.get("/dashboard/sessions?after=" + url.QueryEscape("run-1"))
	if older.status != 200 || strings.Contains(older.body, "every 5s") {
		t.Errorf("older sessions = %d, and load again: %t", older.status, strings.Contains(older.body, "every 5s"))
	}
}
