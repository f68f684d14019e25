package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/account/sharing"
	"sluice/internal/operate/admin"
)

// sharesPath is the page of what somebody shares.
const sharesPath = "/dashboard/playground/shares"

// chatToShare is a conversation that can be shared.
func chatToShare(text string) string {
	raw, _ := json.Marshal(text) // a string always has JSON
	return `{"title": "About locks", "lanes": [{"model": "m", "messages": [{"role": "user", "text": ` + string(raw) + `}, {"role": "assistant", "text": "**Yes**"}]}]}`
}

// shares sends a conversation, as the script of the playground does.
func (p *person) shares(body string, days int, site string) reply {
	p.n.t.Helper()
	r, err := http.NewRequestWithContext(p.n.t.Context(), http.MethodPost, p.n.scheme+p.n.Addr()+fmt.Sprint(sharesPath, "?days=", days), strings.NewReader(body))
	if err != nil {
		p.n.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", site)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	resp, err := p.client.Do(r)
	if err != nil {
		p.n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.n.t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
}

// shared shares a conversation and returns the path of its link.
func (p *person) shared(text string) string {
	p.n.t.Helper()
	var made struct {
		URL     string    `json:"url"`
		Expires time.Time `json:"expires_at"`
	}
	r := p.wants(p.shares(chatToShare(text), 1, "same-origin"), "sharing", 201, "/shared/")
	if err := json.Unmarshal([]byte(r.body), &made); err != nil {
		p.n.t.Fatal(err)
	}
	if left := time.Until(made.Expires); left < 23*time.Hour || left > 24*time.Hour {
		p.n.t.Errorf("the link expires in %v, want a day", left)
	}
	_, path, _ := strings.Cut(made.URL, "://")
	return path[strings.Index(path, "/"):]
}

// Everybody with the link reads a shared conversation, and nobody else finds it. It is text, whatever it looks like.
func TestShares(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob, stranger := n.join("ana@example.com"), n.join("bob@example.com"), n.person()
	attack := `<script>alert(1)</script>"><img src=x onerror=alert(1)>`
	path := ana.shared(attack)
	r := stranger.wants(stranger.get(path), "GET "+path, 200, "About locks")
	for _, want := range []string{"&lt;script&gt;alert(1)", "**Yes**"} {
		if !strings.Contains(r.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"<script>alert", "<img src=x", ana.email} {
		if strings.Contains(r.body, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if got := r.header.Get("X-Robots-Tag"); !strings.Contains(got, "noindex") {
		t.Errorf("X-Robots-Tag = %q, want noindex", got)
	}
	if got := r.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q: a copy would stay after the link is deleted", got)
	}
	wrong := stranger.wants(stranger.get("/shared/"+strings.Repeat("A", 26)), "another token", 404, "leads nowhere")
	if !strings.Contains(wrong.header.Get("X-Robots-Tag"), "noindex") {
		t.Error("a link that leads nowhere may be indexed")
	}
	ana.wants(ana.get(sharesPath), "one's own list", 200, path)
	if export := ana.get("/dashboard/account.json").body; !strings.Contains(export, path+`",`) || !strings.Contains(export, `"text": "**Yes**"`) {
		t.Errorf("the export lacks what is shared: %s", export)
	}
	if strings.Contains(bob.get("/dashboard/account.json").body, path) {
		t.Error("the export of another account has the share")
	}
	if strings.Contains(bob.get(sharesPath).body, path) {
		t.Error("the list of another account has the share")
	}

	// Only the owner deletes it.
	remove := strings.Replace(path, "/shared/", sharesPath+"/", 1) + "/delete"
	bob.leads(bob.post(remove), "deleting another's share", "no longer exists")
	stranger.wants(stranger.post(remove), "deleting as a stranger", 303, "/signin")
	stranger.wants(stranger.get(path), "GET "+path, 200, "About locks")
	ana.leads(ana.post(remove), "deleting one's share", "was deleted")
	stranger.wants(stranger.get(path), "the link afterwards", 404, "leads nowhere")
}

// An operator who turns sharing off turns off the links that exist, too, until it is on again.
func TestSharesOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	ana, stranger := n.join("ana@example.com"), n.person()
	path := ana.shared("x")
	const page, share = "/dashboard/playground", `id="show-share"`
	ana.wants(ana.get(page), "the playground", 200, share)
	turn := func(on bool) {
		s.write(t, fmt.Sprintf("site: {sharing: %t}\n", on))
		must[admin.Reloaded](n, "reload", admin.Empty{})
	}
	turn(false)
	stranger.wants(stranger.get(path), "a link while sharing is off", 404, "leads nowhere")
	ana.wants(ana.shares(chatToShare("x"), 1, "same-origin"), "sharing while it is off", 403, "turned off on this site")
	if strings.Contains(ana.get(page).body, share) {
		t.Error("the playground offers what is turned off")
	}
	turn(true)
	stranger.wants(stranger.get(path), "the link afterwards", 200, "About locks")
}

// What is refused stores nothing.
func TestSharesRefuse(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	for name, tt := range map[string]struct {
		body   string
		days   int
		site   string
		status int
		text   string
	}{
		"another site": {chatToShare("x"), 1, "cross-site", 403, "another site"},
		"no days":      {chatToShare("x"), 0, "same-origin", 400, "1, 7 or 30 days"},
		"a year":       {chatToShare("x"), 365, "same-origin", 400, "1, 7 or 30 days"},
		"no JSON":      {"title=x", 1, "same-origin", 400, "malformed"},
		"too large":    {chatToShare(strings.Repeat("x", sharing.MaxBody)), 1, "same-origin", 413, "larger than 1 MiB"},
		"a picture elsewhere": {
			`{"lanes": [{"messages": [{"role": "user", "pictures": ["https://example.com/spy.png"]}]}]}`, 1, "same-origin", 400, "data: URL",
		},
	} {
		ana.wants(ana.shares(tt.body, tt.days, tt.site), name, tt.status, tt.text)
	}
	if r := n.person().shares(chatToShare("x"), 1, "same-origin"); r.status != 303 {
		t.Errorf("sharing as a stranger = %d, want 303", r.status)
	}
	ana.wants(ana.get(sharesPath), "the list", 200, "Nothing is shared yet")
}

// What an account shares is shown while the account is in order, and goes when its owner closes it.
func TestSharesFollowTheAccount(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob, stranger := n.join("ana@example.com"), n.join("bob@example.com"), n.person()
	path, bobs := ana.shared("Hi"), bob.shared("Hi")
	for _, tt := range []struct {
		operation string
		status    int
	}{{"account.suspend", 404}, {"account.unsuspend", 200}, {"key.deactivate", 404}, {"key.restore", 200}, {"account.terminate", 404}} {
		must[any](n, tt.operation, admin.Target{Actor: "t", Ref: ana.email, Reason: "r"})
		if r := stranger.get(path); r.status != tt.status {
			t.Errorf("after %s a shared conversation = %d, want %d", tt.operation, r.status, tt.status)
		}
	}
	ana.wants(ana.shares(chatToShare("more"), 1, "same-origin"), "sharing from a terminated account", 403, "Support")

	bob.wants(bob.post("/dashboard/account/close", "email", bob.email, "current", pagePassword), "closing the account", 303, "/signin")
	if r := stranger.get(bobs); r.status != 404 {
		t.Errorf("what a closed account shared = %d, want 404", r.status)
	}
	var rows int
	if err := openSQLite(t, n.site).QueryRow(`SELECT (SELECT COUNT(*) FROM shares) + (SELECT COUNT(*) FROM share_sizes)`).Scan(&rows); err != nil || rows != 2 {
		t.Errorf("%d rows are left, %v, want the two of the terminated account", rows, err)
	}
}
