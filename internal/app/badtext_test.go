package app_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
)

// Text that no database stores, NUL and what is no UTF-8, is a mistake of the caller wherever it comes in: in a path, a
// query, a form, a header or JSON.
func TestTextThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			yaml := "plans: {none: {requests_per_minute: unlimited}}\nsignup: open\naliases: {\"any-*\": sandbox/small}\n"
			if engine == "postgres" {
				yaml = "database: " + pgtest.URL(t) + "\n" + oneSecret + "cluster: approximate\npublic_url: http://127.0.0.1\n" + yaml
			}
			n := newSite(t, yaml).start(t)
			made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "scale"})
			link := must[admin.SignInLink](n, "signin-link", admin.Target{Actor: "t", Ref: made.ID})
			u, err := url.Parse(link.URL)
			if err != nil {
				t.Fatal(err)
			}
			ana := n.person()
			send := func(method, target, agent, kind, key, body string) reply {
				t.Helper()
				r, err := http.NewRequest(method, n.scheme+n.Addr()+target, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if agent != "" {
					r.Header.Set("User-Agent", agent)
				}
				if kind != "" {
					r.Header.Set("Content-Type", kind)
				}
				if key != "" {
					r.Header.Set("Authorization", "Bearer "+key)
				}
				resp, err := ana.client.Do(r)
				if err != nil {
					t.Fatalf("%s %s = %v", method, target, err)
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
			}
			const form = "application/x-www-form-urlencoded"
			check := func(r reply, what string) {
				t.Helper()
				if r.status >= 500 || r.status == 429 {
					t.Errorf("%s on %s = %d %.200s, want a reply that blames the request", what, engine, r.status, r.body)
				}
			}
			// A browser whose name is no text signs in all the same.
			for _, agent := range []string{"caf\xe9", strings.Repeat("é", 200), "a" + strings.Repeat("é", 200)} {
				if r := send("POST", u.Path, agent, form, "", "token="+u.Query().Get("token")); r.status != 303 {
					t.Fatalf("signing in with the agent %.20q = %d %s, want 303", agent, r.status, r.body)
				}
				u, _ = url.Parse(must[admin.SignInLink](n, "signin-link", admin.Target{Actor: "t", Ref: made.ID}).URL)
			}
			for _, bad := range []string{"a%00b", "key_%C3%28"} {
				for _, path := range privatePages {
					sep := "?"
					if strings.Contains(path, "?") {
						sep = "&"
					}
					query := ""
					for _, name := range []string{"q", "model", "key", "range", "by", "outcome", "show", "cursor", "after", "before", "payment", "plan", "compare", "kind", "subject", "part", "edit", "delete", "count", "request", "id", "page", "day", "status", "next"} {
						check(send("GET", path+sep+name+"="+bad, "", "", "", ""), "GET "+path+" with "+name+"="+bad)
						query += "&" + name + "=" + bad
					}
					check(send("GET", path+sep+query[1:], "", "", "", ""), "GET "+path+" with all of them")
				}
				fields := ""
				for _, name := range []string{"name", "plan", "message", "kind", "subject", "text", "payment", "card", "url", "events", "email", "address", "tax_id", "current", "password", "code", "proof", "models", "addresses", "expires_at", "requests_per_minute", "amount", "window", "timezone", "scope", "scope.key", "scope.tag", "marks", "count", "by", "token", "how", "cents", "at"} {
					fields += "&" + name + "=" + bad
				}
				for _, path := range privateForms {
					check(send("POST", path, "", form, "", fields[1:]), "POST "+path+" with "+bad)
				}
				for _, path := range []string{"/dashboard/keys/", "/dashboard/messages/", "/dashboard/webhooks/", "/dashboard/budgets/", "/dashboard/sessions/", "/dashboard/account/sessions/", "/dashboard/models/", "/dashboard/plan/invoices/", "/dashboard/activity/", "/models/", "/link/", "/status/", "/assets/"} {
					check(send("GET", path+bad, "", "", "", ""), "GET "+path+bad)
				}
				for _, path := range []string{"keys/{id}", "keys/{id}/delete", "budgets/{id}", "budgets/{id}/delete", "messages/{id}/answer", "webhooks/{id}/test", "webhooks/{id}/resume", "webhooks/{id}/delete", "webhooks/deliveries/{id}/replay", "account/sessions/{id}/close"} {
					path = "/dashboard/" + strings.ReplaceAll(path, "{id}", bad)
					check(send("POST", path, "", form, "", "name=x&text=x"), "POST "+path)
				}
				for _, path := range []string{"/signup", "/signin", "/reset", "/link/signup", "/link/reset"} {
					check(send("POST", path, "", form, "", fields[1:]), "POST "+path+" with "+bad)
				}
				for _, path := range []string{"/v1/responses/", "/v1/models/", "/v1/video/generations/jobs/", "/v1/video/generations/", "/v1/videos/", "/v1/chat/completions/", "/v1/receipts/", "/v1/sessions/", "/v1/budgets/"} {
					for _, method := range []string{"GET", "DELETE", "POST"} {
						for _, rest := range []string{"", "/input_items", "/cancel", "/content/video", "/content", "/events"} {
							check(send(method, path+bad+rest, "", "", made.MasterKey, ""), method+" "+path+bad+rest)
						}
					}
				}
				for _, path := range []string{"/v1/usage", "/v1/requests", "/v1/models", "/v1/catalog/changes", "/v1/video/generations/jobs", "/v1/videos", "/v1/responses/resp_x/input_items", "/v1/receipts", "/v1/receipts/root", "/v1/sessions"} {
					for _, name := range []string{"model", "key", "cursor", "after", "since", "limit", "range", "outcome", "group_by", "format", "order", "include", "month", "from"} {
						check(send("GET", path+"?"+name+"="+bad, "", "", made.MasterKey, ""), "GET "+path+" with "+name+"="+bad)
					}
				}
			}
			const x = `x\u0000x`
			for _, tt := range [][2]string{
				{"/v1/video/generations/jobs", `{"prompt":"` + x + `"}`},
				{"/v1/videos", `{"prompt":"` + x + `"}`},
				{"/v1/video/generations/jobs", "{\"prompt\":\"\xff\"}"},
				{"/v1/video/generations/jobs", `{"prompt":"\ud800"}`},
				{"/v1/feedback", `{"id":"` + x + `","rating":"good"}`},
				{"/v1/chat/completions", `{"model":"any-` + x + `","messages":[{"role":"user","content":"hi"}]}`},
				{"/v1/chat/completions", `{"model":"any-\ud800","messages":[{"role":"user","content":"hi"}]}`},
				{"/v1/chat/completions", `{"model":"` + x + `","messages":[{"role":"user","content":"` + x + `"}],"user":"` + x + `"}`},
				{"/v1/responses", `{"model":"sandbox/small","input":"` + x + `","previous_response_id":"` + x + `"}`},
				{"/v1/responses", `{"model":"sandbox/small","input":"` + x + `","metadata":{"a":"` + x + `"}}`},
				{"/v1/messages", `{"model":"any-` + x + `","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
				{"/v1/embeddings", `{"model":"any-` + x + `","input":"hi"}`},
				{"/v1/route", `{"model":"any-` + x + `","messages":[{"role":"user","content":"hi"}]}`},
			} {
				check(send("POST", tt[0], "", "application/json", made.MasterKey, tt[1]), "POST "+tt[0]+" "+tt[1])
			}
			// What was recorded reaches the database.
			n.request("POST", "/v1/chat/completions", made.MasterKey, `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}]}`)
			settled(n.App)
			if strings.Contains(n.log.String(), "SQLSTATE 22021") || strings.Contains(n.log.String(), "invalid byte sequence") {
				t.Errorf("the database refused what was to be stored: %s", n.log.String())
			}
		})
	}
}
