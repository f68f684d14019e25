package demo

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/app/settings"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/web/dashboard"
	"sluice/internal/web/front"
)

// run starts a small demonstration that ends with the test.
func run(t *testing.T, dir string) *Demo {
	t.Helper()
	d, err := Start(t.Context(), &Options{Dir: dir, Listen: "127.0.0.1:0", Size: 0.1, Quiet: true})
	if err != nil {
		t.Fatalf("Start = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return d
}

// visitor is a browser.
type visitor struct {
	t      *testing.T
	origin string
	client *http.Client
}

func visit(t *testing.T, d *Demo) *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t, d.Origin(), &http.Client{Jar: jar}}
}

// open returns a page, which must be there.
func (v *visitor) open(path string) string {
	v.t.Helper()
	resp, err := v.client.Get(v.origin + path)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		v.t.Fatalf("GET %s = %s, %v", path, resp.Status, err)
	}
	return string(body)
}

// Every page of the dashboard, the console and the front answers, and none of them is empty. The books balance.
func TestPagesAreFilled(t *testing.T) {
	t.Parallel()
	d := run(t, t.TempDir())
	for _, as := range []struct {
		who   string
		pages []string
	}{
		{"", []string{"/", "/models", "/models/" + sonnet, "/pricing", "/status", "/status/history", "/docs", "/signin"}},
		{"customer", []string{
			"/dashboard", "/dashboard/keys", "/dashboard/budgets", "/dashboard/sessions", "/dashboard/activity?range=30d", "/dashboard/activity?range=7d&outcome=errors", "/dashboard/activity/routing", "/dashboard/models",
			"/dashboard/models/" + sonnet, "/dashboard/playground", "/dashboard/plan", "/dashboard/messages", "/dashboard/webhooks", "/dashboard/account", "/dashboard/account/log",
		}},
		{"owner", []string{"/dashboard", "/dashboard/keys"}},
		{"console", []string{
			"/support/overview", "/support/queue", "/support/accounts", "/support/requests", "/support/upstreams", "/support/incidents", "/support/announcements", "/support/alerts", "/support/tokens",
			"/support/reconciliations", "/support/servers", "/support/caches", "/support/whatif",
		}},
	} {
		v := visit(t, d)
		if as.who != "" {
			visit(t, d).open("/demo/" + as.who) // links work more than once
			v.open("/demo/" + as.who)
		}
		for _, path := range as.pages {
			page := v.open(path)
			if empty := emptyPart.FindString(page); empty != "" && as.who != "owner" {
				t.Errorf("%s shows %q", path, empty)
			}
			if !strings.Contains(page, "demo") {
				t.Errorf("%s does not say that it is a demonstration", path)
			}
		}
	}
	for who, routes := range map[string][]string{"customer": dashboard.Routes(), "": front.Routes()} {
		v := visit(t, d)
		if who != "" {
			v.open("/demo/" + who)
		}
		for _, route := range routes {
			path, isPage := strings.CutPrefix(route, "GET ")
			if isPage && !strings.Contains(path, "{") && !slices.Contains(notAlone, path) {
				v.open(path)
			}
		}
	}
	client, err := admin.Dial(t.Context(), d.dir)
	if err != nil {
		t.Fatal(err)
	}
	out, err := admin.Ops().AuditRun.Call(t.Context(), client, admin.Empty{})
	if err != nil || len(out.Differences) > 0 || out.Compared == 0 {
		t.Errorf("audit = %+v, %v; want no differences", out, err)
	}
	compared, err := admin.Ops().ReconcileList.Call(t.Context(), client, admin.Cursor{})
	if err != nil || len(compared.Data) != 2 || !compared.Data[1].InOrder() || compared.Data[0].InOrder() || compared.Data[0].Theirs <= compared.Data[0].Ours {
		t.Fatalf("the comparisons with invoices = %+v, %v; want one that is in order, and a newer one in which the vendor charges too much", compared, err)
	}
	v := visit(t, d)
	v.open("/demo/console")
	for _, want := range []string{"stale price", "missing here", "Proposed price of " + sol, "file search storage"} {
		if !strings.Contains(v.open("/support/reconciliations/"+compared.Data[0].ID), want) {
			t.Errorf("the page of a comparison lacks %q", want)
		}
	}
}

// notAlone are pages that there are only with something else: a plan to upgrade to, the budget of a session, a payment, colours and a logo, an identity provider.
var notAlone = []string{"/dashboard/plan/upgrade", "/dashboard/budgets/raise", dashboard.CheckoutPath, "/logo", "/theme.css", "/favicon.ico", "/signin/provider", "/signin/provider/back", "/signin/code", "/status/confirm", "/status/unsubscribe"}

// emptyPart is a part of a page that says that there is nothing to show.
var emptyPart = regexp.MustCompile(`<p class="empty[^>]*>[^<]*`)

// testTraffic returns traffic that a test makes, without services and a database.
func testTraffic(t *testing.T) func(seed uint64, size float64) *traffic {
	t.Helper()
	cfg, err := siteConfig(t.TempDir(), "127.0.0.1:0", "http://127.0.0.1:1", "service-x")
	if err != nil {
		t.Fatal(err)
	}
	s, err := settings.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 18, 14, 30, 0, 0, time.UTC)
	return func(seed uint64, size float64) *traffic {
		m := &traffic{rng: rand.New(rand.NewPCG(seed, days)), catalog: s.Catalog, plans: s.Plans, from: now.AddDate(0, 0, -days), now: now, size: size, accts: map[string]*member{}}
		subscribed := m.from.Add(2 * time.Hour) // nobody calls before that
		for _, p := range people() {
			m.accts[p.name] = &member{account: &account.Account{ID: p.name, CreatedAt: m.from}, keys: map[string]string{}, plans: []planSince{{m.from, account.None}, {subscribed, p.plan}}}
		}
		m.downFrom, m.downUntil = outage(now)
		return m
	}
}

// The same seed gives the same figures, another one gives others.
func TestSeed(t *testing.T) {
	t.Parallel()
	made := testTraffic(t)
	figures := func(seed uint64) string {
		var sums usage.Sums
		for _, c := range made(seed, 0.2).calls() {
			sums.Add(&c)
			if c.Unpriced() && c.ModelUsed != sandbox {
				t.Fatalf("a call of %s with %+v has no cost", c.ModelUsed, c.Tokens)
			}
		}
		return fmt.Sprintf("%+v", sums)
	}
	first, again, other := figures(1), figures(1), figures(2)
	if first != again {
		t.Errorf("the same seed gave\n%s\nand\n%s", first, again)
	}
	if first == other {
		t.Errorf("two seeds gave the same figures\n%s", first)
	}
}

// However few calls a seed makes, the customer has had one refused in the last days.
func TestRefused(t *testing.T) {
	t.Parallel()
	made := testTraffic(t)
	for seed := range uint64(50) {
		m := made(seed, 0.005)
		if !slices.ContainsFunc(m.refused(m.calls()), func(c refusal.Call) bool {
			return c.AccountID == engineering && m.now.Sub(c.At) < 7*24*time.Hour && !c.At.After(m.now)
		}) {
			t.Errorf("seed %d: no call of the customer was refused in the last week", seed)
		}
	}
}

// A folder that holds something else is left alone, and so is one whose history is not complete. A demonstration that was
// kept is shown again.
func TestFolder(t *testing.T) {
	t.Parallel()
	installation := t.TempDir()
	if err := os.WriteFile(filepath.Join(installation, "sluice.db"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), &Options{Dir: installation, Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("Start in the folder of an installation = %v, want a refusal", err)
	}
	entries, err := os.ReadDir(installation)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %d entries, %v; want the one it had", len(entries), err)
	}
	half := t.TempDir()
	if _, err := claim(half, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := claim(half, 1); err == nil || !strings.Contains(err.Error(), "never finished") {
		t.Errorf("claim of a folder without a history = %v, want a refusal", err)
	}
}

// The configuration has every model that the history and the programs name.
func TestModels(t *testing.T) {
	t.Parallel()
	cfg, err := siteConfig(t.TempDir(), "127.0.0.1:0", "http://127.0.0.1:1", "service-x")
	if err != nil {
		t.Fatal(err)
	}
	s, err := settings.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads() {
		for _, m := range w.models {
			if _, ok := s.Catalog.Lookup(m.model); !ok {
				t.Errorf("%s of %s names the model %s, which is not configured", w.key, w.person, m.model)
			}
		}
	}
	listed, _ := price.Listed()
	book, now := price.NewBook(listed), time.Now()
	for _, m := range models() {
		got, ok := s.Catalog.Lookup(m.id)
		if !ok || got.Priced(now) == nil {
			t.Errorf("%s is configured: %t; want it, with a price", m.id, ok)
			continue
		}
		if e, want := got.Priced(now), book.Find("", m.kind, m.id).At(now.Unix()); e.Text() != want.Text() || !maps.Equal(e.Tiers, want.Tiers) || len(e.Bands) != len(want.Bands) {
			t.Errorf("%s costs %s, and on the list of the program %s", m.id, e.Text(), want.Text())
		}
	}
}
