package app_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/account"
	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/kit/datadir"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/line/idempotency"
	"sluice/internal/line/resume"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/upstream/discovery"
	"sluice/internal/video"
)

func TestMain(m *testing.M) {
	// Many servers in one process keep the collector busy: it took two fifths of the time.
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// site is a data folder and a configuration file.
type site struct {
	dir     string
	file    string
	replies *idempotency.Options
	streams *resume.Options
	// patience with upstreams; 0: the default.
	patience time.Duration
	servers  []discovery.Server // that are looked for; none unless a test says so
	renderer video.Renderer     // of videos; nil: sketcher
	budgets  budget.Store       // nil: that of the database
	resolver *net.Resolver      // of replicas; nil: that of the system
	// unprepared leaves it to the App to make the database.
	unprepared bool
	level      slog.Level // of the log
}

func newSite(t *testing.T, yaml string) *site {
	t.Helper()
	s := &site{dir: t.TempDir()}
	s.file = filepath.Join(s.dir, "sluice.yaml")
	s.write(t, yaml)
	return s
}

// write replaces the file, in one step; it adds the data folder, and addresses where there are none.
func (s *site) write(t *testing.T, yaml string) {
	t.Helper()
	text := "data: " + s.data() + "\n"
	if !strings.HasPrefix(yaml, "listen:") {
		text += "listen: 127.0.0.1:0\n"
	}
	if !strings.Contains(yaml, "metrics_listen:") {
		text += "metrics_listen: \"\"\n"
	}
	// Tests on PostgreSQL would wait for its default at each stop.
	if !strings.Contains(yaml, "shutdown_delay:") {
		text += "shutdown_delay: 0s\n"
	}
	// A node that has no share of the limits yet would refuse connections for up to a minute.
	if !strings.Contains(yaml, "unready:") {
		text += "unready: answer\n"
	}
	// All tests run in both modes, one in each run; debug finds handlers that keep what is reused.
	if !strings.Contains(yaml, "http1_lane:") {
		text += "http1_lane: " + cmp.Or(os.Getenv("SLUICE_HTTP1_LANE"), "debug") + "\n"
	}
	replace(t, s.file, text+yaml)
}

// replace writes a file so that nobody sees half of it.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func (s *site) data() string { return filepath.Join(s.dir, "data") }

func (s *site) load() (*config.Config, error) { return config.Load(config.Source{Path: s.file}) }

func (s *site) config(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// node is a running App.
type node struct {
	*app.App
	t      *testing.T
	site   *site
	log    *lines
	client *http.Client
	scheme string
	cancel context.CancelFunc
	ended  chan struct{}
	err    error           // what Run returned
	taken  map[string]bool // tokens of mailed links that linkTo has returned
}

// start runs an App until the test ends. A start that found the database too busy is repeated, as operators do it.
func (s *site) start(t *testing.T) *node {
	t.Helper()
	n, err := s.launchAgain(t, s.config(t))
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return n
}

// launchAgain is start for a goroutine, which cannot end the test.
func (s *site) launchAgain(t *testing.T, cfg *config.Config) (*node, error) {
	for began := time.Now(); ; {
		n, err := s.launch(t, cfg)
		if err == nil || !fault.Is(err, fault.Unavailable) || time.Since(began) > patience {
			return n, err
		}
	}
}

// prepare puts an empty database where a first start would make one. TestFirstStart lets the App make its own.
func (s *site) prepare(cfg *config.Config) error {
	if cfg.Database != "sqlite" || s.unprepared {
		return nil
	}
	if err := os.Mkdir(cfg.Data, 0o700); err != nil {
		return nil // it exists, or New says what is wrong with it
	}
	return alltest.Prepare(cfg.Data)
}

// launch tries once to run an App until the test ends.
func (s *site) launch(t *testing.T, cfg *config.Config) (*node, error) {
	if err := s.prepare(cfg); err != nil {
		return nil, err
	}
	n := &node{t: t, site: s, log: &lines{}, scheme: "http://", ended: make(chan struct{})}
	renderer := s.renderer
	if renderer == nil {
		renderer = sketcher{}
	}
	var err error
	n.App, err = app.New(t.Context(), cfg, &app.Options{Log: slog.New(slog.NewJSONHandler(n.log, &slog.HandlerOptions{Level: s.level})), Load: s.load, Idempotency: s.replies, Resume: s.streams, Patience: s.patience, Renderer: renderer, Budgets: s.budgets, Resolver: s.resolver, Servers: append([]discovery.Server{}, s.servers...)})
	if err != nil {
		return nil, err
	}
	// The server closes connections that were idle for two minutes, and after ten seconds those on which no call ever
	// came: a client that needs many at once keeps some of these. A call that is sent at that moment fails.
	transport := &http.Transport{MaxIdleConnsPerHost: 300, IdleConnTimeout: 5 * time.Second}
	n.client = &http.Client{Transport: transport, Timeout: patience}
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(n.ended)
		n.err = n.Run(ctx)
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		n.stop()
	})
	return n, nil
}

// stop asks the App to stop and waits for it.
func (n *node) stop() {
	n.cancel()
	<-n.ended
	if n.err != nil {
		n.t.Errorf("Run = %v, want a graceful stop", n.err)
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// reply is what came back, its body read.
type reply struct {
	status int
	header http.Header
	body   string
	tls    *tls.ConnectionState
	proto  string
}

func (n *node) do(method, target, key, body string) (reply, error) {
	req, err := http.NewRequest(method, n.scheme+n.Addr()+target, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return n.try(req)
}

// try sends a request and reads its whole reply.
func (n *node) try(req *http.Request) (reply, error) {
	resp, err := n.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text), resp.TLS, resp.Proto}, err
}

// answered is try for a request that has to be answered.
func (n *node) answered(req *http.Request) reply {
	n.t.Helper()
	r, err := n.try(req)
	if err != nil {
		n.t.Fatalf("%s %s = %v", req.Method, req.URL.Path, err)
	}
	return r
}

// request makes a request that has to be answered.
func (n *node) request(method, target, key, body string) reply {
	n.t.Helper()
	r, err := n.do(method, target, key, body)
	if err != nil {
		n.t.Fatalf("%s %s = %v", method, target, err)
	}
	return r
}

func (n *node) get(target, key string) reply {
	n.t.Helper()
	return n.request("GET", target, key, "")
}

// call runs an operation at the admin door.
func (n *node) call(name string, in, out any) error {
	c, err := admin.Dial(n.t.Context(), n.site.data())
	if err != nil {
		return err
	}
	return c.Call(n.t.Context(), name, in, out)
}

// must runs an operation that has to succeed.
func must[Out any](n *node, name string, in any) Out {
	n.t.Helper()
	var out Out
	if err := n.call(name, in, &out); err != nil {
		n.t.Fatalf("%s = %v", name, err)
	}
	return out
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, patience, what, holds)
}

// shelve waits until pages show all calls that have ended, and those that were refused.
func (n *node) shelve() {
	n.t.Helper()
	if err := n.Shelve(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// within waits for something that takes longer than most.
func within(t *testing.T, most time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(most)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("%s did not happen within %v", what, most)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestFirstStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.unprepared = true
	first := s.start(t)
	key := first.OwnerKey()
	if !account.Wellformed("service", key) {
		t.Fatalf("OwnerKey() = %q at the first start, want a key", key)
	}
	if r := first.get("/v1/models", key); r.status != 200 {
		t.Errorf("GET /v1/models with the owner's key = %d %s, want 200", r.status, r.body)
	}
	owner := must[admin.Account](first, "account.show", admin.Target{Ref: account.OwnerEmail})
	if !owner.Staff || owner.Plan != "scale" || len(owner.Keys) != 1 {
		t.Errorf("the owner = %+v, want a staff account on Scale with one key", owner)
	}
	for path, want := range map[string]string{"/healthz": `"status":"ok"`, "/readyz": `{"status":"ok","checks":[{"name":"database","ok":true,"age_seconds":0}`} {
		if r := first.get(path, ""); r.status != 200 || !strings.Contains(r.body, want) {
			t.Errorf("GET %s = %d %s, want 200 %s", path, r.status, r.body, want)
		}
	}
	if strings.Contains(first.log.String(), key[8:30]) {
		t.Error("the log holds the owner's key")
	}
	status := must[admin.Status](first, "status", admin.Empty{})
	if status.Listen != first.Addr() || status.PID != os.Getpid() || status.Accounts != 1 || status.Database != "SQLite" || status.Config != s.file || status.DBError != "" {
		t.Errorf("status = %+v", status)
	}
	first.stop()
	if _, err := os.Stat(filepath.Join(s.data(), admin.Socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the admin socket after the stop: %v, want it gone", err)
	}

	second := s.start(t)
	if got := second.OwnerKey(); got != "" {
		t.Errorf("OwnerKey() = %q at the second start, want none", got)
	}
	if r := second.get("/v1/models", key); r.status != 200 {
		t.Errorf("the owner's key after a restart = %d, want 200", r.status)
	}
	owner = must[admin.Account](second, "account.show", admin.Target{Ref: account.OwnerEmail})
	if owner.Keys[0].LastUsedAt == nil || time.Since(*owner.Keys[0].LastUsedAt) > time.Hour {
		t.Errorf("the owner's key was last used %v, want what the first run wrote down", owner.Keys[0].LastUsedAt)
	}
	if list := must[admin.List[admin.Account]](second, "account.list", admin.Cursor{}).Data; len(list) != 1 {
		t.Errorf("%d accounts after the second start, want 1", len(list))
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	_, err := app.New(t.Context(), s.config(t), nil)
	if !errors.Is(err, datadir.ErrLocked) || !strings.Contains(err.Error(), "--data") {
		t.Errorf("New on a folder in use = %v, want ErrLocked and what to do", err)
	}
	if r := n.get("/v1/models", n.OwnerKey()); r.status != 200 {
		t.Errorf("the first server afterwards = %d, want 200", r.status)
	}
	must[admin.Status](n, "status", admin.Empty{}) // and its door is still its own
}

// A start that fails gives everything back, and does not cost the owner's key.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	s := newSite(t, "")
	for name, tt := range map[string]struct {
		spoil func(*config.Config)
		says  string
	}{
		"busy port":           {func(c *config.Config) { c.Listen = busy.Addr().String() }, "address already in use; choose another address with --listen"},
		"busy metrics port":   {func(c *config.Config) { c.MetricsListen = busy.Addr().String() }, "choose another address in metrics_listen"},
		"no certificate":      {func(c *config.Config) { c.TLS = config.TLS{Cert: s.file, Key: s.file} }, "tls: "},
		"no database":         {func(c *config.Config) { c.Database = "postgres://u:canary7@127.0.0.1:1/db?connect_timeout=5" }, "PostgreSQL"},
		"a file for a folder": {func(c *config.Config) { c.Data = s.file }, "make the data folder"},
	} {
		cfg := s.config(t)
		tt.spoil(cfg)
		if _, err := app.New(t.Context(), cfg, &app.Options{Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "canary7") {
			t.Errorf("%s: New = %v, want an error saying %q", name, err, tt.says)
		}
	}
	a, err := app.New(t.Context(), s.config(t), nil)
	if err != nil {
		t.Fatalf("New after the failures = %v", err)
	}
	if a.OwnerKey() == "" {
		t.Error("OwnerKey() = \"\" after failed starts, want the key: nobody has seen it yet")
	}
	if err := a.Abandon(); err != nil {
		t.Errorf("Abandon() = %v", err)
	}
}

// Where no server runs, the operations work on the data folder itself.
func TestAdminOffline(t *testing.T) {
	t.Parallel()
	s := newSite(t, "plans: {basic: {concurrent: 7}}\n")
	cfg := s.config(t)
	if _, _, err := app.Admin(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "no installation in") {
		t.Errorf("Admin before the first start = %v, want that there is no installation", err)
	}
	if _, err := os.Stat(s.data()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data folder after Admin: %v, want none made", err)
	}
	s.start(t).stop()
	c, done, err := app.Admin(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Admin = %v", err)
	}
	var made admin.CreatedAccount
	if err := c.Call(t.Context(), "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "basic"}, &made); err != nil {
		t.Fatalf("account.create = %v", err)
	}
	var shown admin.Account
	if err := c.Call(t.Context(), "account.show", admin.Target{Ref: made.ID}, &shown); err != nil || shown.Limits.Concurrent != 7 {
		t.Errorf("account.show = %+v, %v, want the configured limits", shown.Limits, err)
	}
	if err := c.Call(t.Context(), "reload", admin.Empty{}, &admin.Empty{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("reload without a server = %v, want it refused", err)
	}
	var status admin.Status
	if err := c.Call(t.Context(), "status", admin.Empty{}, &status); err != nil || status.PID != 0 || status.Database != "SQLite" {
		t.Errorf("status without a server = %+v, %v", status, err)
	}

	// The folder is held meanwhile: another command waits, and gives up with its caller.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := app.Admin(ctx, cfg); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("Admin while the folder is held = %v, want ErrLocked in the end", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, done, err := app.Admin(t.Context(), cfg)
		if err == nil {
			err = done()
		}
		waited <- err
	}()
	if err := done(); err != nil {
		t.Errorf("done = %v", err)
	}
	if err := <-waited; err != nil {
		t.Errorf("Admin once the folder was free = %v", err)
	}

	n := s.start(t)
	if r := n.get("/v1/models", made.MasterKey); r.status != 200 {
		t.Errorf("the key made offline = %d at the server, want 200", r.status)
	}
	if n.OwnerKey() != "" {
		t.Error("an owner was created though there was an account")
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	s := newSite(t, lab("http://127.0.0.1:1", "lab/one"))
	for _, verbose := range []bool{false, true} {
		client, err := app.Catalog(s.config(t))
		if err != nil {
			t.Fatal(err)
		}
		list, err := admin.Models(t.Context(), client, verbose, false)
		if err != nil || !strings.Contains(string(list.JSON), `"lab/one"`) || strings.Contains(string(list.JSON), `"provider":"lab"`) != verbose {
			t.Errorf("Models(verbose %t) without a server = %+v, %v", verbose, list, err)
		}
	}
	if _, err := os.Stat(s.data()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data folder after Models: %v, want none made", err)
	}
	n := s.start(t)
	s.write(t, lab("http://127.0.0.1:1", "lab/two")) // what is configured now is not what runs
	client, err := admin.Dial(t.Context(), s.data())
	if err != nil {
		t.Fatal(err)
	}
	list, err := admin.Models(t.Context(), client, false, false)
	if err != nil || string(list.JSON) != n.get("/v1/models", n.OwnerKey()).body {
		t.Errorf("Models with a server = %+v, %v, want what it serves", list, err)
	}
}

// lab is a provider with models.
func lab(url string, ids ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "providers:\n  - {name: lab, kind: openai, base_url: %q}\nmodels:\n", url)
	for _, id := range ids {
		fmt.Fprintf(&b, "  - {id: %s, provider: lab, plan: free, context_length: 1000, max_output: 100}\n", id)
	}
	return b.String()
}

// What the configuration says of models and plans arrives where it is used.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
brand: acme
sandbox: false
providers: [{name: lab, kind: openai, base_url: "http://127.0.0.1:1/v1"}]
models:
  - {id: plain, provider: lab, plan: free, context_length: 1000, max_output: 100, created: 2026-01-01}
  - {id: rich, created: 2024-02-29, provider: lab, plan: premium, context_length: 2000, max_output: 200, tool_calling: true, request_multiplier: 1.5,
     owned_by: Lab Inc, description: Rich., pricing: {input: 0.25, output: 10, cached: 0.000001}}
plans:
  premium: {requests_per_minute: unlimited, price_usd: 12.50}
`)
	n := s.start(t)
	key := n.OwnerKey()
	if !strings.HasPrefix(key, "acme-") {
		t.Errorf("OwnerKey() = %q, want the prefix acme-", key)
	}
	for target, want := range map[string]string{
		"/v1/models/plain": `{"id":"plain","object":"model","created":1767225600,"owned_by":"lab","plan":"free","request_multiplier":1,` +
			`"permission":{"context_length":1000,"max_output":100,"tool_calling":false},"unpriced":true,"modalities":{"input":["text","image"],"output":["text"]},"provider":"lab"}`,
		"/v1/models/rich": `{"id":"rich","object":"model","created":1709164800,"owned_by":"Lab Inc","plan":"premium","request_multiplier":1.5,` +
			`"permission":{"context_length":2000,"max_output":200,"tool_calling":true},"description":"Rich.",` +
			`"pricing":{"currency":"USD","unit":"per_million_tokens","input":0.25,"output":10,"cached_input":0.000001,"version":"6256f19f2ce7"},` +
			`"modalities":{"input":["text","image"],"output":["text"]},"provider":"lab"}`,
	} {
		if r := n.get(target, key); r.body != want {
			t.Errorf("GET %s = %s, want %s", target, r.body, want)
		}
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(n.get("/v1/models", key).body), &list); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(list.Data), "[{acme/auto} {plain} {rich}]"; got != want {
		t.Errorf("the catalog = %s, want %s: the sandbox is off", got, want)
	}
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "p@example.com", Plan: "premium"})
	shown := must[admin.Account](n, "account.show", admin.Target{Ref: made.ID})
	if want := (account.Limits{RequestsPerMinute: account.Unlimited, Concurrent: 15, TokensPerMinute: 2_000_000}); shown.Limits != want {
		t.Errorf("the limits of premium = %+v, want %+v", shown.Limits, want)
	}
}
