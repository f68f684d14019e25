package app_test

import (
	"net/url"
	"strings"
	"testing"
)

// The search over everything finds what its reader may see, and nothing else.
func TestFind(t *testing.T) {
	t.Parallel()
	n := newSite(t, "signup: open\n").start(t)
	ana, ben := n.join("ana@example.com"), n.join("ben@example.com")
	eve, _ := n.staffMember("eve@example.com")
	ana.leads(ana.post("/dashboard/keys", "name", "nightly job"), "POST /dashboard/keys", "nightly job")
	ana.wants(ana.post("/dashboard/messages", "kind", "other", "subject", "An odd invoice", "text", "Please look."), "a conversation", 303, "")
	r := n.ask(ana.key, "sandbox/small")
	id := r.header.Get("X-Request-Id")
	if r.status != 200 || id == "" {
		t.Fatalf("a call = %d with the id %q", r.status, id)
	}
	account := func(p *person) string {
		_, ref, _ := strings.Cut(eve.get("/support/accounts?q="+p.email).header.Get("Location"), "/support/accounts/")
		return "/support/accounts/" + ref
	}
	anonymous := n.person()
	for _, tt := range []struct {
		who   *person
		path  string
		query string
		has   []string
		not   []string
	}{
		{ana, "/dashboard/find", "", []string{`href="/dashboard/keys"`, `href="/dashboard/plan"`}, []string{"/support", "/docs/guide/"}},
		{ana, "/dashboard/find", "nightly", []string{"nightly job", "/dashboard/activity?range=30d&amp;key=key_"}, nil},
		{ana, "/dashboard/find", "JOB night", []string{"nightly job"}, nil},
		{ana, "/dashboard/find", ana.key[len(ana.key)-4:], []string{"…" + ana.key[len(ana.key)-4:]}, nil},
		{ana, "/dashboard/find", id, []string{`href="/dashboard/activity/requests/`, id}, nil},
		{ana, "/dashboard/find", "sandbox/sm", []string{`href="/dashboard/models/sandbox/small"`}, []string{"sandbox/large"}},
		{ana, "/dashboard/find", "passkey", []string{`href="/dashboard/account"`}, nil},
		{ana, "/dashboard/find", "rotate a key", []string{"Guide</h2>", `href="/docs/guide/`}, nil},
		{ana, "/dashboard/find", "<script>zebra", []string{"&lt;script&gt;zebra"}, []string{"<script>zebra"}},
		{ana, "/dashboard/find", strings.Repeat("z", 3000), []string{"Nothing was found"}, []string{strings.Repeat("z", 300)}},
		{ben, "/dashboard/find", "nightly", nil, []string{"nightly job"}},
		{ben, "/dashboard/find", id, nil, []string{"activity/requests/"}},
		{ben, "/dashboard/find", "ana@example.com", nil, []string{"ana@example.com</span>"}},
		{eve, "/support/find", "", []string{`href="/support/queue"`}, nil},
		{eve, "/support/find", "ana@", []string{`href="` + account(ana) + `"`, "ana@example.com"}, []string{account(ben)}},
		{eve, "/support/find", id, []string{`href="/support/requests?id=` + url.QueryEscape(id)}, nil},
		{eve, "/support/find", "odd invoice", []string{"An odd invoice", `href="/support/queue/mat_`}, nil},
		{eve, "/support/find", "an", nil, []string{"ana@example.com"}}, // too short to look through accounts for
		{anonymous, "/find", "sandbox/sm", []string{`href="/models/sandbox/small"`}, nil},
		{anonymous, "/find", "stream", []string{`href="/docs/guide/`}, nil},
		{anonymous, "/find", id, nil, []string{"requests/"}},
	} {
		r := tt.who.get(tt.path + "?q=" + url.QueryEscape(tt.query))
		if r.status != 200 {
			t.Errorf("GET %s?q=%.40s = %d, want 200", tt.path, tt.query, r.status)
		}
		_, main, _ := strings.Cut(r.body, "<main")
		main, _, _ = strings.Cut(main, "</main>")
		for _, want := range tt.has {
			if !strings.Contains(main, want) {
				t.Errorf("GET %s?q=%.40s by %q lacks %s: %s", tt.path, tt.query, tt.who.email, want, main)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(main, not) {
				t.Errorf("GET %s?q=%.40s by %q has %s: %s", tt.path, tt.query, tt.who.email, not, main)
			}
		}
	}
	if r := anonymous.get("/dashboard/find?q=nightly"); r.status != 303 {
		t.Errorf("GET /dashboard/find by a stranger = %d, want 303", r.status)
	}
	if r := ana.get("/support/find?q=ben"); r.status != 404 {
		t.Errorf("GET /support/find by a customer = %d, want 404", r.status)
	}
}
