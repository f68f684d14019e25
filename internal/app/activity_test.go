package app_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/admin"
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
	ask := func(key, model, more string, status int) string {
		r := n.request("POST", "/v1/chat/completions", key, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hush"}]%s}`, model, more))
		if r.status != status {
			t.Fatalf("a call of %s = %d %s, want %d", model, r.status, r.body, status)
		}
		return r.header.Get("X-Request-Id")
	}
	small := ask(ana.key, "sandbox/small", "", 200)
	auto := ask(sub.Key, "service/auto", "", 200)
	wrong := ask(ana.key, "sandbox/small", `,"temperature":9`, 400)
	tooHigh := ask(ana.key, "sandbox/reasoner", "", 403)
	must[any](n, "key.delete", admin.Target{Actor: "tester", Ref: sub.ID})

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

	// A request has a page of its own, and is nobody else's.
	for id, texts := range map[string][]string{
		auto:    {"service/auto", "Why this model", "Attempts", "curl ", "a key that goes (deleted)"},
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
