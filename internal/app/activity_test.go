package app_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/operate/admin"
)

// exported is what the tests read of an export.
type exported struct {
	ID         string `json:"id"`
	Status     int    `json:"status"`
	Outcome    string `json:"outcome"`
	ModelAsked string `json:"model_asked"`
	KeyName    string `json:"key_name"`
}

// The activity page shows every call of its account, filtered alike in the figures, the list and the exports.
func TestActivity(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	ana.wants(ana.get("/dashboard"), "the overview of a new account", 200, "1 of 3 done")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "tester", Ref: ana.email, Plan: "basic"})
	sub := must[admin.NewKey](n, "key.create", admin.Target{Actor: "tester", Ref: ana.email, Name: "a key that goes"})
	day := func(days int) string {
		return url.QueryEscape(time.Now().AddDate(0, 0, days).UTC().Format(time.RFC3339))
	}
	ask := func(key, model, more string, status int, header ...string) string {
		r := n.marked(key, "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hush"}]%s}`, model, more), header...)
		if r.status != status {
			t.Fatalf("a call of %s = %d %s, want %d", model, r.status, r.body, status)
		}
		return r.header.Get("X-Request-Id")
	}
	small := ask(ana.key, "sandbox/small", "", 200)
	auto := ask(sub.Key, "service/auto", "", 200, "x-sluice-session", "run-1", "x-sluice-tags", "team=search")
	wrong := ask(ana.key, "sandbox/small", `,"temperature":9`, 400)
	tooHigh := ask(ana.key, "sandbox/reasoner", "", 403)
	must[any](n, "key.delete", admin.Target{Actor: "tester", Ref: sub.ID})

	n.shelve()
	page := ana.wants(ana.get("/dashboard/activity"), "the page", 200, "asked service/auto").body
	for _, text := range []string{small, auto, wrong, tooHigh, "a key that goes (deleted)", "400 refused", "403 refused", "plus 2 refused"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	for _, tt := range []struct {
		query string
		want  []string
	}{
		{"", []string{small, auto, wrong, tooHigh}},
		{"range=1h", []string{small, auto, wrong, tooHigh}},
		{"range=30d", []string{small, auto, wrong, tooHigh}},
		{"model=service/auto", []string{auto}},
		{"key=" + sub.ID, []string{auto}},
		{"outcome=completed", []string{small, auto}},
		{"outcome=refused", []string{wrong, tooHigh}},
		{"outcome=errors", []string{wrong, tooHigh}},
		{"outcome=disconnected", nil},
		{"model=sandbox/reasoner", []string{tooHigh}},
		{"model=none&key=none", nil},
		{"range=x&by=x&show=x&outcome=x", []string{small, auto, wrong, tooHigh}},
		{"from=x&to=x", []string{small, auto, wrong, tooHigh}},
		{"from=" + day(-1), []string{small, auto, wrong, tooHigh}},
		{"from=" + day(-3) + "&to=" + day(-2), nil},
		{"session=run-1", []string{auto}},
		{"tag=team%3Dsearch", []string{auto}},
		{"tag=team%3Dsearch&session=run-2", nil},
	} {
		page, table := ana.wants(ana.get("/dashboard/activity?"+tt.query), tt.query, 200, "").body, ana.wants(ana.get("/dashboard/activity.csv?"+tt.query), tt.query, 200, "id,at,status").body
		var list []exported
		if err := json.Unmarshal([]byte(ana.wants(ana.get("/dashboard/activity.json?"+tt.query), tt.query, 200, "").body), &list); err != nil || len(list) != len(tt.want) {
			t.Errorf("the JSON of %q has %d requests, %v, want %d", tt.query, len(list), err, len(tt.want))
		}
		rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
		if err != nil || len(rows) != len(tt.want)+1 {
			t.Errorf("the CSV of %q has %d lines, %v, want %d", tt.query, len(rows), err, len(tt.want)+1)
		}
		for _, id := range []string{small, auto, wrong, tooHigh} {
			wanted := strings.Contains(strings.Join(tt.want, " "), id)
			if strings.Contains(page, id) != wanted || strings.Contains(table, id) != wanted {
				t.Errorf("%q: %s is on the page: %t, in the CSV: %t; want %t", tt.query, id, strings.Contains(page, id), strings.Contains(table, id), wanted)
			}
		}
	}
	ana.wants(ana.get("/dashboard/activity?cursor=x"), "no cursor", 400, "cursor")
	ana.wants(ana.get("/dashboard/activity?outcome=refused"), "the chart of refused requests", 200, `<span class="name">Refused</span>`)
	ana.wants(ana.get("/dashboard/activity?outcome=refused&show=tokens"), "the tokens of refused requests", 200, "Refused requests use no tokens")
	ana.wants(ana.get("/dashboard/activity"), "the chart of all", 200, `<span class="name">Refused</span>`)
	ana.wants(ana.get("/dashboard/activity?model=none"), "a filter that nothing matches", 200, "Clear the filters</a>")

	// Daily totals are of the same requests.
	for query, want := range map[string]int{"": 2, "model=service/auto": 1, "outcome=completed&key=" + sub.ID: 1, "outcome=errors": 0, "outcome=refused": 0, "tag=team%3Dsearch": 1, "session=run-2": 0, "from=" + day(-3) + "&to=" + day(-2): 0, "range=1h": 2} {
		table := ana.wants(ana.get("/dashboard/activity/days.csv?"+query), "daily totals, "+query, 200, "day,model,key_id").body
		rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
		requests := 0
		for _, row := range rows[min(1, len(rows)):] {
			n, _ := strconv.Atoi(row[4])
			requests += n
		}
		if err != nil || requests != want {
			t.Errorf("the daily totals of %q have %d requests, %v, want %d:\n%s", query, requests, err, want, table)
		}
	}

	// Whoever follows the list gets what has ended since, and nothing of others.
	tail := ana.wants(ana.part("/dashboard/activity/tail?since=0"), "the tail", 200, "").body
	for _, id := range []string{small, auto, wrong, tooHigh} {
		if !strings.Contains(tail, `id="r-`+id) {
			t.Errorf("the tail lacks %s", id)
		}
	}
	later := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
	for path, who := range map[string]*person{"/dashboard/activity/tail?since=" + later: ana, "/dashboard/activity/tail?since=0": bob, "/dashboard/activity/tail?since=0&model=none": ana} {
		r := who.wants(who.part(path), path, 200, "")
		if strings.Contains(r.body, "<tr") || r.header.Get("X-Since") == "" {
			t.Errorf("%s has requests, or does not say when to continue: %q, %s", path, r.header.Get("X-Since"), r.body)
		}
	}
	ana.wants(ana.get("/dashboard/activity/tail"), "the tail without a script", 303, "/dashboard/activity")

	// A request has a page of its own, and is nobody else's.
	for id, texts := range map[string][]string{
		auto:    {"service/auto", "Why this model", "Admission and routing", "Settled (", "run-1", "team=search", "curl ", "a key that goes (deleted)"},
		wrong:   {"invalid_request_error", "temperature", "may quote the request"},
		tooHigh: {"permission_error", "sandbox/reasoner", "Refused requests are free"},
	} {
		body := ana.wants(ana.get("/dashboard/activity/requests/"+id), "a request", 200, id).body
		for _, text := range texts {
			if !strings.Contains(body, text) {
				t.Errorf("the page of the request lacks %q", text)
			}
		}
		if strings.Contains(body, "hush") {
			t.Error("the page of the request has the prompt")
		}
		bob.wants(bob.get("/dashboard/activity/requests/"+id), "a request of another", 404, "no such request")
	}
	ana.wants(ana.get("/dashboard"), "the overview", 200, "Latest errors")
	ana.wants(ana.get("/dashboard/start"), "the checklist", 200, "Your first request arrived")
	ana.wants(ana.get("/dashboard/usage?model="+url.QueryEscape("a/b")), "the old address", 301, "/dashboard/activity?model=a%2Fb&range=30d")
	ana.wants(ana.get("/dashboard/usage.csv"), "the old export", 301, "/dashboard/activity/days.csv")
	ana.wants(ana.get("/dashboard/activity/requests"), "a part without a script", 303, "/dashboard/activity")
}

// What the API says of an account's calls is what the page shows, and what it cannot do is a 400 that says why.
func TestUsageAPI(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	const hello = `,"messages":[{"role":"user","content":"hush"}]}`
	var ids []string
	for i, body := range []string{`{"model":"sandbox/small"` + hello, `{"model":"none/at-all"` + hello, `{"model":"sandbox/tiny"` + hello, `{"model":"sandbox/large"` + hello} {
		r := n.request("POST", "/v1/chat/completions", ana.key, body)
		if want := []int{200, 400, 200, 402}[i]; r.status != want {
			t.Fatalf("call %d = %d %s, want %d", i, r.status, r.body, want)
		}
		ids = append(ids, r.header.Get("X-Request-Id"))
	}
	n.shelve()
	var got []string
	for next, pages := "", 0; ; pages++ {
		var list struct {
			Data []exported
			Next *string
		}
		r := n.get("/v1/requests?range=1h&limit=1&cursor="+next, ana.key)
		if next == "" {
			r = n.get("/v1/requests?range=1h&limit=1", ana.key)
		}
		if err := json.Unmarshal([]byte(r.body), &list); err != nil || r.status != 200 || pages > 10 {
			t.Fatalf("page %d = %d %s, %v", pages, r.status, r.body, err)
		}
		for _, x := range list.Data {
			got = append(got, fmt.Sprint(x.ID, " ", x.Outcome))
		}
		if list.Next == nil {
			break
		}
		next = *list.Next
	}
	// Calls of the same millisecond may be in any order.
	want := []string{ids[3] + " refused", ids[2] + " complete", ids[1] + " refused", ids[0] + " complete"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("GET /v1/requests lists\n%v, want\n%v", got, want)
	}
	for _, by := range []string{"model", "key", "status", "end"} {
		for _, span := range []string{"1h", "6h", "24h", "7d", "30d"} {
			var usage struct {
				Data []struct {
					Requests, Refused int64
					Groups            []struct {
						Requests int64
						Refused  bool
					}
				}
			}
			r := n.get("/v1/usage?range="+span+"&group_by="+by, ana.key)
			if err := json.Unmarshal([]byte(r.body), &usage); err != nil || r.status != 200 {
				t.Fatalf("usage of %s by %s = %d %s, %v", span, by, r.status, r.body, err)
			}
			requests, refused, grouped := int64(0), int64(0), int64(0)
			for _, d := range usage.Data {
				requests, refused = requests+d.Requests, refused+d.Refused
				for _, g := range d.Groups {
					if !g.Refused {
						grouped += g.Requests
					}
				}
			}
			if requests != 2 || refused != 2 || grouped != 2 {
				t.Errorf("usage of %s by %s: %d requests, %d of groups, %d refused; want 2 of each", span, by, requests, grouped, refused)
			}
		}
	}
	if r := n.get("/v1/requests", bob.key); strings.Contains(r.body, ids[0]) || !strings.Contains(r.body, `"data":[]`) {
		t.Errorf("bob's requests = %s, want none", r.body)
	}
	for target, message := range map[string]string{
		"/v1/usage?range=2h":                           `range must be 1h, 6h, 24h, 7d or 30d; got \"2h\".`,
		"/v1/usage?range=":                             `range must be 1h, 6h, 24h, 7d or 30d; got \"\".`,
		"/v1/usage?group_by=day":                       `group_by must be model, key, status, end or tag; got \"day\".`,
		"/v1/usage?outcome=good":                       `outcome must be completed, errors, disconnected or refused; got \"good\".`,
		"/v1/usage?model=":                             `model must have 1 to 256 bytes; got 0.`,
		"/v1/requests?range=1d":                        `range must be 1h, 6h, 24h, 7d or 30d; got \"1d\".`,
		"/v1/requests?limit=0":                         `limit must be a whole number from 1 to 200; got \"0\".`,
		"/v1/requests?limit=201":                       `limit must be a whole number from 1 to 200; got \"201\".`,
		"/v1/requests?limit=x":                         `limit must be a whole number from 1 to 200; got \"x\".`,
		"/v1/requests?cursor=x":                        `cursor must be the value of next in the previous reply.`,
		"/v1/requests?key=" + strings.Repeat("k", 257): `key must have 1 to 256 bytes; got 257.`,
	} {
		if r := n.get(target, ana.key); r.status != 400 || !strings.Contains(r.body, `"message":"`+message+`"`) {
			t.Errorf("GET %s = %d %s, want 400 %s", target, r.status, r.body, message)
		}
	}
}

// A new account finds a program with a key in it, and a call that the page can make. Nobody is told of a score.
func TestOverview(t *testing.T) {
	t.Parallel()
	n := newSite(t, "prices: [{model: sandbox/small, input: 3000, output: 15000}]\n").start(t)
	ana := n.join("ana@example.com")
	page := ana.wants(ana.get("/dashboard"), "the overview of a new account", 200, "Run it now").body
	for _, text := range []string{"1 of 3 done", "data-run=\"/dashboard/v1/chat/completions\"", "Make a key and show the code", "Allowance used this month", "Requests this minute", "no request failed or was refused", "after the first whole day"} {
		if !strings.Contains(page, text) {
			t.Errorf("the overview of a new account lacks %q", text)
		}
	}
	if strings.Contains(page, "score") {
		t.Error("the overview speaks of a score")
	}

	// The key is in every program, and works. It is shown twice, and then no more.
	made := ana.leads(ana.post("/dashboard/start/key"), "a key for the code", "is in the code below").body
	key := regexp.MustCompile(`service-[0-9A-Za-z]{46}`).FindString(made)
	if got := strings.Count(made, key); key == "" || got != 5 || strings.Contains(made, "SLUICE_KEY") {
		t.Errorf("the page has the key %d times, want once in each of four programs and once beside them; SLUICE_KEY: %t", got, strings.Contains(made, "SLUICE_KEY"))
	}
	if r := n.request("POST", "/v1/chat/completions", key, `{"model":"sandbox/small","messages":[{"role":"user","content":"hush"}]}`); r.status != 200 {
		t.Errorf("a call with the key = %d %s", r.status, r.body)
	}
	ana.get("/dashboard")
	if again := ana.get("/dashboard"); strings.Contains(again.body, key) {
		t.Error("the key is shown for ever")
	}

	// What has just gone wrong is counted, and a budget that is nearly used up is named.
	n.request("POST", "/v1/chat/completions", ana.key, `{"model":"sandbox/small","messages":[{"role":"user","content":"hush"}],"temperature":9}`)
	ana.leads(ana.post("/dashboard/budgets", "name", "tiny", "amount", "0.000001", "window", "month", "timezone", "UTC", "scope", "account", "hard", "no", "marks", "none"), "a budget", "tiny")
	r := n.request("POST", "/v1/chat/completions", ana.key, `{"model":"sandbox/small","messages":[{"role":"user","content":"hush"}]}`)
	if r.status != 200 {
		t.Errorf("a call = %d %s", r.status, r.body)
	}
	n.shelve()
	// The page of a request leads to the formula of its cost alone.
	id := r.header.Get("X-Request-Id")
	request := ana.wants(ana.get("/dashboard/activity/requests/"+id), "the request", 200, "How it adds up").body
	formula := html.UnescapeString(regexp.MustCompile(`/dashboard/costs\?[^"]+`).FindString(request))
	if costs := ana.wants(ana.get(formula), formula, 200, id).body; strings.Count(costs, "Show the request") != 1 {
		t.Errorf("%s has %d requests, want one", formula, strings.Count(costs, "Show the request"))
	}
	page = ana.wants(ana.get("/dashboard"), "the overview", 200, "Needs your attention").body
	for _, text := range []string{"The budget tiny is overspent", "0 failed, 1 refused", "List price so far", "Latest errors"} {
		if !strings.Contains(page, text) {
			t.Errorf("the overview lacks %q", text)
		}
	}
	ana.wants(ana.get("/dashboard/minute"), "the part that reloads itself", 200, "0 failed, 1 refused")
}
