package app_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/account"
	"sluice/internal/app/config"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/alert"
)

// mailbox is a receiver of webhooks.
type mailbox struct {
	*httptest.Server
	mu  sync.Mutex
	ids map[string][]string // the ids of the messages, by type
	ok  bool                // whether it accepts them
}

func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	m := &mailbox{ids: map[string][]string{}, ok: true}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var event struct{ Type string }
		_ = json.Unmarshal(body, &event)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ids[event.Type] = append(m.ids[event.Type], r.Header.Get("Webhook-Id"))
		if !m.ok {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *mailbox) got(kind string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ids[kind])
}

// A customer makes a webhook on the pages, tests it, and hears of a video and of the score; the export has it without
// its secret, and closing the account deletes it.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	n := newSite(t, "alerts: {allow_hosts: [127.0.0.1]}\nplans: {scale: {monthly_units: 2}}\nsignup: open\n").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	must[admin.Account](n, "account.set-plan", admin.Target{Actor: "t", Ref: ana.email, Plan: "scale"})
	ana.wants(ana.post("/dashboard/webhooks", "url", "https://10.0.0.1/x", "types", "score.reached"), "a private address", 400, "not a public address")
	ana.wants(ana.post("/dashboard/webhooks", "url", m.URL), "no event", 400, "Choose at least one event")
	r := ana.leads(ana.post("/dashboard/webhooks", "url", m.URL+"/x", "types", "score.reached", "types", "video.succeeded"), "POST /dashboard/webhooks", "whsec_")
	ana.wants(ana.get("/dashboard/webhooks"), "the page again", 200, "whsec_")
	secret := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+`).FindString(r.body)
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err != nil || len(raw) != 32 {
		t.Fatalf("the page shows %q: %v", secret, err)
	}
	page := ana.wants(ana.get("/dashboard/webhooks"), "GET /dashboard/webhooks", 200, m.URL)
	if strings.Contains(page.body, "whsec_") {
		t.Error("the secret is shown again")
	}
	path := regexp.MustCompile(`/dashboard/webhooks/whk_\w+/test`).FindString(page.body)
	bob.wants(bob.post(path), "the test of another's webhook", 404, "no such webhook")
	ana.wants(ana.post(path), "POST "+path, 303, "/dashboard/webhooks")
	eventually(t, "the test", func() bool { return len(m.got("test")) == 1 })
	eventually(t, "the page to show it", func() bool { return strings.Contains(ana.get("/dashboard/webhooks").body, "delivered") })
	again := "/dashboard/webhooks/deliveries/" + m.got("test")[0] + "/replay"
	bob.wants(bob.post(again), "the replay of another's delivery", 404, "no such delivery")
	ana.wants(ana.post(again), "POST "+again, 303, "/dashboard/webhooks")
	eventually(t, "the replay", func() bool { return len(m.got("test")) == 2 })
	if got := m.got("test"); got[0] != got[1] {
		t.Errorf("the replay has the id %s, want %s", got[1], got[0])
	}
	// Half of the month's units.
	n.await(ana.key, n.film(ana.key, `{"prompt":"waves","height":480,"width":480,"n_seconds":1}`).ID)
	eventually(t, "the video", func() bool { return len(m.got("video.succeeded")) == 1 })
	eventually(t, "the score", func() bool { return len(m.got("score.reached")) == 1 })
	export := ana.wants(ana.get("/dashboard/account.json"), "the export", 200, m.URL+"/x")
	if strings.Contains(export.body, "whsec_") || !strings.Contains(export.body, m.got("test")[0]) {
		t.Errorf("the export has the secret, or lacks what was sent:\n%s", export.body)
	}
	ana.wants(ana.post("/dashboard/webhooks/mail", "on", "yes"), "mail about videos", 303, "/dashboard/webhooks")
	page = ana.wants(ana.get("/dashboard/webhooks"), "the page with mail", 200, "Stop mail about videos")
	ana.wants(ana.post(strings.Replace(path, "/test", "/delete", 1)), "the deletion", 303, "/dashboard/webhooks")
	if strings.Contains(ana.get("/dashboard/webhooks").body, m.URL) {
		t.Error("the webhook is still there")
	}
	var actions []string
	for _, e := range must[admin.List[account.Entry]](n, "account.history", admin.AccountPage{Ref: ana.email}).Data {
		actions = append(actions, e.Action)
	}
	if !slices.Contains(actions, "webhook.create") || !slices.Contains(actions, "webhook.delete") {
		t.Errorf("the audit log has %v, want the webhook's creation and deletion", actions)
	}
}

// The configuration and the alerts know the same events.
func TestAlertEvents(t *testing.T) {
	t.Parallel()
	var types []string
	for _, e := range alert.OperatorTypes() {
		types = append(types, string(e))
	}
	if known := config.AlertEvents(); !slices.Equal(known, types) {
		t.Errorf("the configuration knows the events %v, want %v", known, types)
	}
}

// Staff sees what the operator was told, sends a test, and sends again what has arrived or was given up.
func TestAlertsConsole(t *testing.T) {
	t.Parallel()
	m := newMailbox(t)
	n := newSite(t, "signup: open\nalerts: {webhooks: [{name: pager, url: \""+m.URL+"\", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, events: [account.review]}]}\n").start(t)
	eve, _ := n.staffMember("eve@example.com")
	ana := n.join("ana@example.com")
	eve.wants(eve.get("/support/alerts"), "the page", 200, m.URL)
	eve.wants(eve.post("/support/alerts/test"), "the test", 303, "/support/alerts")
	eventually(t, "the test", func() bool { return len(m.got("test")) == 1 })
	eventually(t, "the page to show it", func() bool {
		return strings.Contains(eve.get("/support/alerts?state=delivered").body, m.got("test")[0])
	})
	again := "/support/alerts/" + m.got("test")[0] + "/replay"
	eve.wants(eve.post(again), "POST "+again, 303, "/support/alerts")
	eventually(t, "the replay", func() bool { return len(m.got("test")) == 2 })
	eve.wants(eve.post("/support/alerts/msg_x/replay"), "the replay of nothing", 404, "no such delivery")
	eve.wants(eve.get("/support/alerts?account=nobody"), "an unknown account", 404, "nobody")
	eve.wants(eve.get("/support/alerts?state=lost"), "an unknown state", 400, "waiting, delivered or dead")
	eve.wants(eve.get("/support/alerts?account="+ana.email), "an account", 200, "No deliveries.")
	if got := m.got("test"); got[0] != got[1] {
		t.Errorf("the replay has the id %s, want %s", got[1], got[0])
	}
	// What was stored is delivered to those who want it, and listed.
	n.exec(`INSERT INTO alert_events (id, at, account_id, type, title, body, made) VALUES ('evt_1', 1, '', 'account.review', 'Account x needs a review', '{"type":"account.review"}', 0),
		('evt_2', 2, '', 'disk.filling', 'The disk fills', '{"type":"disk.filling"}', 0)`)
	n.exec(`INSERT INTO alert_events (id, at, account_id, type, title, body, made)
		SELECT 'evt_3', 3, '', 'payment.failed', 'Account ' || id || ': a payment failed', '{"type":"payment.failed"}', 0 FROM accounts WHERE email = 'ana@example.com'`)
	eventually(t, "the review", func() bool { return len(m.got("account.review")) == 1 })
	eve.wants(eve.get("/support/alerts"), "the page with events", 200, "The disk fills")
	eve.wants(eve.get("/support/alerts"), "the page with the account", 200, ">ana@example.com</a>: a payment failed")
	eve.wants(eve.get("/support/alerts"), "the page with the type", 200, ">Payment failed</span>")
	if got := m.got("disk.filling"); len(got) != 0 {
		t.Errorf("the webhook got %v, which it does not want", got)
	}
}
