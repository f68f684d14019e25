package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var sameConfig = cmp.Options{cmpopts.IgnoreUnexported(Config{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.EquateEmpty()}

func defaults() *Config {
	return &Config{
		Listen: "127.0.0.1:8080", Data: "./data", Brand: "service", Database: "sqlite", MetricsListen: "127.0.0.1:9090", MaxConnections: 10_000,
		CORSOrigins: []string{"*"}, Sandbox: true, Discover: true, Site: Site{Sharing: true}, Router: Router{Dial: 50}, Markup: Markup{All: 1_000_000}, DrainTimeout: 30 * time.Second, Log: Log{Format: "auto", Level: "info", MaxMiB: 100, MaxAge: 24 * time.Hour, Keep: 7}, Traces: Traces{Sample: 10, Follow: "trusted", Capture: "none"}, UpstreamClient: "lean", HTTP1Lane: "on", Unready: "auto",
		Usage: Usage{KeepDays: 90}, Resume: Resume{Patience: 2 * time.Minute, StreamMiB: 4, AccountMiB: 32, TotalMiB: 256}, OIDC: OIDC{Name: "single sign-on"}, Blob: Blob{Kind: "files"}, Billing: Billing{APIURL: "https://api.stripe.com"},
		Video:  Video{ModelID: "video-default", Plan: "free", Provider: "sandbox", Lease: 30 * time.Second, Keep: 24 * time.Hour, MaxFileMiB: 512, AccountMiB: 2048},
		MCP:    MCP{MaxServers: 8, MaxTools: 128, MaxRounds: 16, CallTimeout: time.Minute, MaxResult: 1 << 20},
		Alerts: Alerts{JournalLag: time.Minute, DiskFreeMiB: 1024},
	}
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	got, err := Load(Source{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults(), got, sameConfig); diff != "" {
		t.Errorf("Load of nothing differs from the defaults (-want +got):\n%s", diff)
	}
	if got.File() != "" || len(got.Warnings()) != 0 {
		t.Errorf("Load of nothing names the file %q and warns %q", got.File(), got.Warnings())
	}
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "--- # a\n...\n", "{}\n", "tls:\nlog:\nproviders:\nmodels:\nplans:\nmcp:\ncors_origins:\n", "\ufeff"} {
		got, problem := loadText(t, text)
		if problem != "" {
			t.Errorf("Load(%q) = %s, want the defaults", text, problem)
		} else if diff := cmp.Diff(defaults(), got, sameConfig); diff != "" {
			t.Errorf("Load(%q) differs from the defaults (-want +got):\n%s", text, diff)
		}
	}
}

// Every default is a legal value of its field; setDefaults relies on it.
func TestDefaultTags(t *testing.T) {
	t.Parallel()
	for _, section := range []any{Config{}, TLS{}, Log{}, Provider{}, Model{}, Pricing{}, Plan{}, MCP{}} {
		for field := range reflect.TypeOf(section).Fields() {
			if text, ok := field.Tag.Lookup("default"); !ok {
				continue
			} else if err := setText(reflect.New(field.Type).Elem(), text); err != nil {
				t.Errorf("the default %q of %T.%s: %v", text, section, field.Name, err)
			}
		}
	}
}

func TestLoadFullFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for _, file := range []string{cert, key} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, problem := loadText(t, `
listen: "[::1]:443"
data: /var/lib/sluice
brand: acme-2
database: postgres://u:p@db/sluice
redis: rediss://u:p@cache:6379/1
public_url: https://api.example.com:8443
metrics_listen: ""
trusted_proxies:
  - 10.1.2.3/8
  - 192.0.2.1
  - ::1
  - "::ffff:192.0.2.2"
tls: {cert: `+cert+`, key: `+key+`}
cors_origins: [https://a.example, "http://localhost:3000", "app://x"]
sandbox: false
discover: false
router: {dial: 80, weights: ./router.bin, feedback: true}
drain_timeout: 1m30s
shutdown_delay: 2s
log:
  format: json
  level: debug
  file: ./sluice.log
  max_mib: 5
  max_age: 1h
  keep: 3
upstream_client: standard
http1_lane: off
unready: answer
providers:
  - name: one
    kind: openai
    base_url: https://api.example.com/v1/
    api_key: ${KEY}
    api_keys: ["${KEY}-b"]
    max_concurrent: 9
    discover: basic
    timeouts: {connect: 3s, first_content: 20s}
  - {name: two, kind: openai, base_url: "http://localhost:11434/v1"}
models:
  - id: acme/small
    provider: one
    plan: free
    context_length: 131_072
    max_output: 8192
  - id: large
    targets:
      - {provider: two, upstream: big:70b}
      - {provider: one, weight: 0}
    fallbacks: [acme/small, sandbox/large]
    plan: premium
    request_multiplier: 2.5
    unit_cost: 4
    context_length: 200000
    max_output: 200000
    tool_calling: true
    reasoning: True
    json_mode: false
    quality: 77
    description: >-
      A large
      model.
    owned_by: Example
    pricing: {input: 0.25, output: 2, cached: "0.025", reasoning: 0}
aliases: {"claude-*": large, gpt-4.1: "sandbox/small"}
plans:
  none: {requests_per_minute: 0}
  basic:
    requests_per_minute: unlimited
    concurrent: 7
    tokens_per_minute: 1_000_000
    price_usd: 12.5
    monthly_units: 9
    unfinished_videos: 3
usage: {sync_each: true, keep_days: 30}
resume: {patience: 30s, stream_mib: 1, account_mib: 2, total_mib: 3}
max_connections: 500
mcp:
  allow_hosts: [tools.internal, "10.0.0.7:8080"]
video:
  model_id: clips
  plan: basic
  provider: sora
  workers: 3
  lease: 1m
  keep: 1h
  max_file_mib: 9
  account_mib: 10
  providers: [{name: sora, kind: azure, base_url: "https://x.openai.azure.com/openai/v1/", api_key: "${KEY}", model: sora}]
blob: {kind: s3, dir: d, endpoint: "https://s3.example.com", region: eu, bucket: b, prefix: p/, access_key: a, secret_key: "${KEY}"}
signup: invite
smtp: {server: "mail.example.com:465", from: no-reply@example.com, user: u, password: "${KEY}"}
support: {email: help@example.com, url: "https://help.example.com"}
site: {name: Example AI, headline: One key, intro: For all of them., footer: Example Ltd, seller: Example Ltd, seller_address: "1 High Street\nLondon", seller_tax_id: GB1, sharing: false, taxes: [{country: DE, with_tax_id: true, name: VAT, percent: 19.5, note: Note.}], accent: "#3451d1", accent_dark: "#8ea6ff"}
oidc: {issuer: "https://id.example.com", name: Example, client_id: c, client_secret: "${KEY}"}
billing: {processor: stripe, secret_key: "${KEY}", webhook_secret: "${KEY}", api_url: "http://127.0.0.1:12111"}
alerts: {email: [ops@example.com], webhooks: [{name: pager, url: "http://10.0.0.7/x?y", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, events: [upstream.down]}], allow_hosts: [hooks.internal], journal_lag: 30s, disk_free_mib: 5}
`, "KEY=sk-123456")
	if problem != "" {
		t.Fatal(problem)
	}
	want := &Config{
		Listen: "[::1]:443", Data: "/var/lib/sluice", Brand: "acme-2", Database: "postgres://u:p@db/sluice", Redis: "rediss://u:p@cache:6379/1", PublicURL: "https://api.example.com:8443",
		TrustedProxies: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("192.0.2.2/32"),
		},
		MaxConnections: 500,
		TLS:            TLS{cert, key},
		CORSOrigins:    []string{"https://a.example", "http://localhost:3000", "app://x"},
		Router:         Router{Dial: 80, Weights: "./router.bin", Feedback: true},
		DrainTimeout:   90 * time.Second, ShutdownDelay: 2 * time.Second,
		Log: Log{"json", "debug", "./sluice.log", 5, time.Hour, 3}, Traces: Traces{Sample: 10, Follow: "trusted", Capture: "none"}, UpstreamClient: "standard", HTTP1Lane: "off", Unready: "answer",
		Providers: []Provider{
			{
				Name: "one", Kind: "openai", BaseURL: "https://api.example.com/v1", APIKey: "sk-123456", APIKeys: []Secret{"sk-123456-b"}, MaxConcurrent: 9, Discover: "basic",
				Probe: true, Timeouts: Timeouts{Connect: 3 * time.Second, FirstContent: 20 * time.Second, Silence: 2 * time.Minute},
			},
			{Name: "two", Kind: "openai", BaseURL: "http://localhost:11434/v1", Probe: true, Timeouts: Timeouts{Connect: 10 * time.Second, Silence: 2 * time.Minute}},
		},
		Models: []Model{
			{ID: "acme/small", Provider: "one", Targets: []Target{{"one", "acme/small", 1}}, Kind: "chat", Plan: "free", RequestMultiplier: 1000, ContextLength: 131072, MaxOutput: 8192, JSONMode: true},
			{
				ID: "large", Targets: []Target{{"two", "big:70b", 1}, {"one", "large", 0}}, Fallbacks: []string{"acme/small", "sandbox/large"}, Kind: "chat", Plan: "premium", RequestMultiplier: 2500, UnitCost: new(Milli(4000)),
				ContextLength: 200000, MaxOutput: 200000, ToolCalling: true, Quality: 77, Reasoning: true, Description: "A large model.", OwnedBy: "Example",
				Pricing: &Pricing{new(Money(250_000)), new(Money(2_000_000)), new(Money(25_000)), new(Money(0))},
			},
		},
		Markup:  Markup{All: 1_000_000},
		Aliases: Names{"claude-*": "large", "gpt-4.1": "sandbox/small"},
		Plans: map[string]Plan{
			"none":  {RequestsPerMinute: new(Limit(0))},
			"basic": {new(Unlimited), new(Limit(7)), new(Limit(1_000_000)), new(Money(12_500_000)), new(Limit(9)), new(Limit(3))},
		},
		Usage: Usage{SyncEach: true, KeepDays: 30}, Resume: Resume{Patience: 30 * time.Second, StreamMiB: 1, AccountMiB: 2, TotalMiB: 3},
		MCP: MCP{AllowHosts: []string{"tools.internal", "10.0.0.7:8080"}, MaxServers: 8, MaxTools: 128, MaxRounds: 16, CallTimeout: time.Minute, MaxResult: 1 << 20},
		Video: Video{
			"clips", "basic", "sora", 3, time.Minute, time.Hour, 9, 10,
			[]VideoProvider{{"sora", "azure", "https://x.openai.azure.com/openai/v1", "sk-123456", "sora"}},
		},
		Signup:  "invite",
		SMTP:    SMTP{"mail.example.com:465", "no-reply@example.com", "u", "sk-123456"},
		Support: Support{"help@example.com", "https://help.example.com"},
		Site:    Site{"Example AI", "One key", "For all of them.", "Example Ltd", "Example Ltd", "1 High Street\nLondon", "GB1", []Tax{{"DE", true, "VAT", 19_500, "Note."}}, false, "", "#3451d1", "#8ea6ff"},
		OIDC:    OIDC{"https://id.example.com", "Example", "c", "sk-123456"},
		Blob:    Blob{"s3", "d", "https://s3.example.com", "eu", "b", "p/", "a", "sk-123456"},
		Billing: Billing{"stripe", "sk-123456", "sk-123456", "http://127.0.0.1:12111"},
		Alerts: Alerts{
			[]string{"ops@example.com"},
			[]AlertWebhook{{"pager", "http://10.0.0.7/x?y", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", []string{"upstream.down"}}},
			[]string{"hooks.internal"},
			30 * time.Second, 5,
		},
	}
	if diff := cmp.Diff(want, got, sameConfig); diff != "" {
		t.Errorf("Load differs (-want +got):\n%s", diff)
	}
	if filepath.Base(got.File()) != "sluice.yaml" {
		t.Errorf("File() = %q, want the file", got.File())
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const file = "listen: :1\ndata: file\nbrand: file\ncors_origins: [https://a, https://b]\nplans: {free: {concurrent: 3, price_usd: 1}}\npublic_url: https://a\n"
	c, problem := loadFrom(t, file, Source{
		Environ: []string{"SLUICE_DATA=env", "SLUICE_BRAND=env", "SLUICE_CORS_ORIGINS=https://c", "SLUICE_PLANS_FREE_CONCURRENT=9", "SLUICE_PLANS_SCALE_CONCURRENT=unlimited", "SLUICE_BRAND=last"},
		Flags:   map[string]string{"brand": "flag", "log.level": "error", "metrics_listen": ""},
	})
	if problem != "" {
		t.Fatal(problem)
	}
	want := defaults()
	want.Listen, want.Data, want.Brand, want.CORSOrigins, want.PublicURL = ":1", "env", "flag", []string{"https://c"}, "https://a"
	want.Log.Level, want.MetricsListen = "error", ""
	want.Plans = map[string]Plan{"free": {Concurrent: new(Limit(9)), PriceUSD: new(Money(1_000_000))}, "scale": {Concurrent: new(Unlimited)}}
	if diff := cmp.Diff(want, c, sameConfig); diff != "" {
		t.Errorf("Load differs (-want +got):\n%s", diff)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	var names []string
	eachSetting(reflect.ValueOf(&Config{}).Elem(), "", func(path string, _ reflect.Value) bool {
		names = append(names, variable(path))
		return false
	})
	want := []string{
		"SLUICE_LISTEN", "SLUICE_DATA", "SLUICE_BRAND", "SLUICE_DATABASE", "SLUICE_REDIS", "SLUICE_CLUSTER", "SLUICE_NODE_ADDRESS", "SLUICE_STORAGE", "SLUICE_SECRET", "SLUICE_PUBLIC_URL", "SLUICE_METRICS_LISTEN", "SLUICE_METRICS_TAGS", "SLUICE_TRUSTED_PROXIES", "SLUICE_MAX_CONNECTIONS", "SLUICE_HTTP1_LANE",
		"SLUICE_TLS_CERT", "SLUICE_TLS_KEY", "SLUICE_CORS_ORIGINS", "SLUICE_SANDBOX", "SLUICE_DISCOVER", "SLUICE_ROUTER_DIAL", "SLUICE_ROUTER_WEIGHTS", "SLUICE_ROUTER_FEEDBACK", "SLUICE_DRAIN_TIMEOUT", "SLUICE_SHUTDOWN_DELAY", "SLUICE_UNREADY", "SLUICE_SHUTDOWN_GRACE", "SLUICE_LOG_FORMAT", "SLUICE_LOG_LEVEL", "SLUICE_LOG_FILE", "SLUICE_LOG_MAX_MIB", "SLUICE_LOG_MAX_AGE", "SLUICE_LOG_KEEP", "SLUICE_TRACES_ENDPOINT", "SLUICE_TRACES_HEADERS", "SLUICE_TRACES_SAMPLE", "SLUICE_TRACES_FOLLOW", "SLUICE_TRACES_CAPTURE", "SLUICE_UPSTREAM_CLIENT", "SLUICE_MARKUP_ALL", "SLUICE_MARKUP_PLANS", "SLUICE_MARKUP_ACCOUNTS", "SLUICE_ALIASES",
	}
	for _, plan := range []string{"NONE", "FREE", "BASIC", "PREMIUM", "SCALE"} {
		for _, field := range []string{"REQUESTS_PER_MINUTE", "CONCURRENT", "TOKENS_PER_MINUTE", "PRICE_USD", "MONTHLY_UNITS", "UNFINISHED_VIDEOS"} {
			want = append(want, "SLUICE_PLANS_"+plan+"_"+field)
		}
	}
	want = append(want, "SLUICE_USAGE_SYNC_EACH", "SLUICE_USAGE_KEEP_DAYS", "SLUICE_RESUME_PATIENCE", "SLUICE_RESUME_STREAM_MIB", "SLUICE_RESUME_ACCOUNT_MIB", "SLUICE_RESUME_TOTAL_MIB", "SLUICE_MCP_ALLOW_HOSTS", "SLUICE_MCP_MAX_SERVERS", "SLUICE_MCP_MAX_TOOLS", "SLUICE_MCP_MAX_ROUNDS", "SLUICE_MCP_CALL_TIMEOUT", "SLUICE_MCP_MAX_RESULT",
		"SLUICE_SIGNUP", "SLUICE_SMTP_SERVER", "SLUICE_SMTP_FROM", "SLUICE_SMTP_USER", "SLUICE_SMTP_PASSWORD", "SLUICE_SUPPORT_EMAIL", "SLUICE_SUPPORT_URL",
		"SLUICE_SITE_NAME", "SLUICE_SITE_HEADLINE", "SLUICE_SITE_INTRO", "SLUICE_SITE_FOOTER", "SLUICE_SITE_SELLER", "SLUICE_SITE_SELLER_ADDRESS", "SLUICE_SITE_SELLER_TAX_ID", "SLUICE_SITE_SHARING", "SLUICE_SITE_LOGO", "SLUICE_SITE_ACCENT", "SLUICE_SITE_ACCENT_DARK",
		"SLUICE_OIDC_ISSUER", "SLUICE_OIDC_NAME", "SLUICE_OIDC_CLIENT_ID", "SLUICE_OIDC_CLIENT_SECRET",
		"SLUICE_VIDEO_MODEL_ID", "SLUICE_VIDEO_PLAN", "SLUICE_VIDEO_PROVIDER", "SLUICE_VIDEO_WORKERS", "SLUICE_VIDEO_LEASE", "SLUICE_VIDEO_KEEP",
		"SLUICE_VIDEO_MAX_FILE_MIB", "SLUICE_VIDEO_ACCOUNT_MIB", "SLUICE_BLOB_KIND", "SLUICE_BLOB_DIR", "SLUICE_BLOB_ENDPOINT", "SLUICE_BLOB_REGION",
		"SLUICE_BLOB_BUCKET", "SLUICE_BLOB_PREFIX", "SLUICE_BLOB_ACCESS_KEY", "SLUICE_BLOB_SECRET_KEY",
		"SLUICE_BILLING_PROCESSOR", "SLUICE_BILLING_SECRET_KEY", "SLUICE_BILLING_WEBHOOK_SECRET", "SLUICE_BILLING_API_URL",
		"SLUICE_ALERTS_EMAIL", "SLUICE_ALERTS_ALLOW_HOSTS", "SLUICE_ALERTS_JOURNAL_LAG", "SLUICE_ALERTS_DISK_FREE_MIB")
	if !slices.Equal(names, want) {
		t.Errorf("the variables are\n%q\nwant\n%q", names, want)
	}

	c, err := Load(Source{Environ: []string{
		"SLUICE_LISTEN=localhost:1", "SLUICE_SANDBOX=false", "SLUICE_DRAIN_TIMEOUT=0s", "SLUICE_TRUSTED_PROXIES=10.0.0.0/8, ::1", "SLUICE_LOG_FORMAT=text",
		"SLUICE_CORS_ORIGINS=", "SLUICE_METRICS_LISTEN=", "SLUICE_MCP_ALLOW_HOSTS=a,b", "SLUICE_DATABASE=postgresql://x", "HOME=/",
	}})
	if err != nil {
		t.Fatal(err)
	}
	expected := defaults()
	expected.Listen, expected.Sandbox, expected.DrainTimeout, expected.Log.Format, expected.MetricsListen = "localhost:1", false, 0, "text", ""
	expected.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	expected.CORSOrigins, expected.MCP.AllowHosts, expected.Database = nil, []string{"a", "b"}, "postgresql://x"
	expected.ShutdownDelay = 0 // 5s where other nodes may use the database, but not more than drain_timeout
	if diff := cmp.Diff(expected, c, sameConfig); diff != "" {
		t.Errorf("Load differs (-want +got):\n%s", diff)
	}
}

func TestWrongVariablesAndFlags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, file string
		environ    []string
		flags      map[string]string
		want       string
	}{
		{name: "variable", environ: []string{"SLUICE_SANDBOX=yes"}, want: `SLUICE_SANDBOX: sandbox: expected true or false, found "yes"`},
		{name: "empty variable", environ: []string{"SLUICE_SHUTDOWN_GRACE="}, want: `SLUICE_SHUTDOWN_GRACE: shutdown_grace: expected a duration such as 30s, found ""`},
		{name: "list", environ: []string{"SLUICE_TRUSTED_PROXIES=10.0.0.1,x"}, want: `SLUICE_TRUSTED_PROXIES: trusted_proxies: expected a list of networks or addresses, found "10.0.0.1,x"`},
		{name: "limit", environ: []string{"SLUICE_PLANS_FREE_CONCURRENT=some"}, want: `SLUICE_PLANS_FREE_CONCURRENT: plans.free.concurrent: expected a whole number from 0, or "unlimited", found "some"`},
		{name: "rule", environ: []string{"SLUICE_LOG_LEVEL=loud"}, want: `SLUICE_LOG_LEVEL: log.level: "loud" is not a log level; expected one of debug, info, warn, error`},
		{
			name: "rule in a list", file: "cors_origins: [https://a, https://b, https://c]", environ: []string{"SLUICE_CORS_ORIGINS=https://a,b"},
			want: `SLUICE_CORS_ORIGINS: cors_origins[1]: "b" is not an origin; write "*" or one such as https://app.example.com, without a path and without a slash at the end`,
		},
		{name: "password", environ: []string{"SLUICE_DATABASE=mysql://u:hunter2@x"}, want: `SLUICE_DATABASE: database: must be "sqlite" or an address such as postgres://user:password@host/name`},
		{name: "no tag", file: "metrics_tags: [team, env=prod, a b]", want: `sluice.yaml:1:32: metrics_tags[2]: "a b" is not the name of a tag, such as team, or a tag, such as team=search`},
		{name: "flag", flags: map[string]string{"metrics_listen": "x"}, want: `--metrics-listen: metrics_listen: "x" is not an address; write host:port, such as 127.0.0.1:8080`},
		{name: "flag over variable", environ: []string{"SLUICE_LISTEN=y"}, flags: map[string]string{"listen": "x"}, want: `--listen: listen: "x" is not an address; write host:port, such as 127.0.0.1:8080`},
		{name: "flag of a section", flags: map[string]string{"tls.cert": "/dev/null"}, want: "--tls-cert: tls.key: is required with tls.cert"},
		{name: "unknown flag", flags: map[string]string{"lisen": "x"}, want: `--lisen: no setting has this flag; did you mean "--listen"?`},
		{name: "flag of a list's entry", flags: map[string]string{"models[0].id": "x"}, want: `--models[0]-id: no setting has this flag`},
		{name: "across", file: "metrics_listen: :99", flags: map[string]string{"listen": ":99"}, want: "sluice.yaml:1:17: metrics_listen: listen and metrics_listen are the same address; metrics need one of their own"},
		{
			name: "order", file: "brand: NO\nlog: {level: loud}", environ: []string{"SLUICE_LISTEN=x"}, flags: map[string]string{"data": ""},
			want: "sluice.yaml:1:8: brand: \"NO\" is not a brand; use up to 32 lower-case letters, digits and dashes, with no dash at either end\n" +
				"sluice.yaml:2:14: log.level: \"loud\" is not a log level; expected one of debug, info, warn, error\n" +
				"SLUICE_LISTEN: listen: \"x\" is not an address; write host:port, such as 127.0.0.1:8080\n" +
				"--data: data: must be the path of a folder",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			src := Source{Environ: test.environ, Flags: test.flags}
			var got string
			if test.file != "" {
				_, got = loadFrom(t, test.file, src)
			} else if _, err := Load(src); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("Load =\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "brand: a\n", "b.yaml": "brand: b\n", "large.yaml": strings.Repeat("#\n", maxFileBytes/2) + "\n", "largest.yaml": strings.Repeat("#", maxFileBytes)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, test := range []struct {
		path, variable string
		want, wantErr  string // the brand, or the error
	}{
		{path: file("a.yaml"), want: "a"},
		{variable: file("b.yaml"), want: "b"},
		{path: file("a.yaml"), variable: file("b.yaml"), want: "a"},
		{want: "service"},
		{path: file("largest.yaml"), want: "service"},
		{path: file("large.yaml"), wantErr: file("large.yaml") + ": the file is larger than 1 MiB, the maximum for a configuration"},
		{path: file("none.yaml"), wantErr: file("none.yaml") + ": cannot read the file: no such file or directory"},
		{variable: file("none.yaml"), wantErr: file("none.yaml") + ": cannot read the file: no such file or directory"},
		{path: dir, wantErr: dir + ": cannot read the file: is a directory"},
	} {
		c, err := Load(Source{Path: test.path, Environ: []string{"SLUICE_CONFIG=" + test.variable}})
		if err != nil {
			_, ok := errors.AsType[*Error](err)
			if !ok || err.Error() != test.wantErr {
				t.Errorf("Load(%q, %q) = %v, want %q", test.path, test.variable, err, test.wantErr)
			}
			continue
		}
		if c.Brand != test.want || test.wantErr != "" || c.File() != test.path+test.variable && test.path == "" {
			t.Errorf("Load(%q, %q) = brand %q of %q, want %q, %q", test.path, test.variable, c.Brand, c.File(), test.want, test.wantErr)
		}
	}
}

// Not parallel: it changes the working directory.
func TestDefaultFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("sluice.yaml", []byte("brand: here\nlisten: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Source{})
	if want := `sluice.yaml:2:9: listen: "a" is not an address; write host:port, such as 127.0.0.1:8080`; err == nil || err.Error() != want {
		t.Errorf("Load = %v, want %s", err, want)
	}
	c, err := Load(Source{Flags: map[string]string{"listen": ":1", "public_url": "http://a"}})
	if err != nil || c.Brand != "here" || c.File() != "sluice.yaml" {
		t.Errorf("Load = %+v, %v, want the file in the working directory", c, err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	two := provider + "  api_key: ${KEY}\n" + model // 11 lines
	for _, test := range []struct {
		name, file string
		environ    []string
		want       []string
	}{
		{name: "nothing", file: two},
		{name: "reachable", file: "listen: 0.0.0.0:80", want: []string{`sluice.yaml:1:9: listen: "0.0.0.0:80" can be reached from other machines, but public_url is empty, so links will say http://127.0.0.1:80; set public_url`}},
		{name: "reachable by variable", environ: []string{"SLUICE_LISTEN=:80"}, want: []string{`SLUICE_LISTEN: listen: ":80" can be reached from other machines, but public_url is empty, so links will say http://127.0.0.1:80; set public_url`}},
		{name: "reachable by name", file: "listen: example.com:80", want: []string{`sluice.yaml:1:9: listen: "example.com:80" can be reached from other machines, but public_url is empty, so links will say http://example.com:80; set public_url`}},
		{name: "test cards for everybody", file: "public_url: https://example.com\nbilling: {processor: testpay}", want: []string{`sluice.yaml:2:22: billing.processor: the service can be reached from other machines, so anyone with an account can get a paid plan with a test card; use stripe or none`}},
		{name: "public", file: "listen: 0.0.0.0:80\npublic_url: https://a.example"},
		{name: "redis with sqlite", file: "redis: redis://cache", want: []string{`sluice.yaml:1:8: redis: is not used: a SQLite database serves one node, which needs no Redis; set database to a PostgreSQL, or remove redis`}},
		{name: "cluster with sqlite", file: "cluster: approximate", want: []string{`sluice.yaml:1:10: cluster: is not used: a SQLite database serves one node; set database to a PostgreSQL, or remove cluster`}},
		{name: "ended videos", file: "video: {providers: [{name: a, kind: openai, base_url: \"https://api.openai.com/v1\", model: sora-2}, {name: b, kind: azure, base_url: \"https://x.openai.azure.com/openai/v1\", model: sora}]}", want: []string{
			`sluice.yaml:1:55: video.providers[0].base_url: OpenAI ended its videos on 2026-09-24; use kind veo or openrouter-video, or the address of a service that is compatible with it`,
			`sluice.yaml:1:133: video.providers[1].base_url: Azure ended Sora on 2026-10-15; use kind veo or openrouter-video`,
		}},
		{name: "videos elsewhere", file: "video: {providers: [{name: a, kind: openai, base_url: \"https://video.example/v1\", model: sora-2}, {name: b, kind: openrouter-video, base_url: \"https://openrouter.ai/api/v1\", model: google/veo-3.1}]}"},
		{name: "loopback", file: "listen: '[::1]:80'"},
		{name: "localhost", file: "listen: localhost:80"},
		{name: "literal key", file: strings.Replace(two, "${KEY}", "sk-literal", 1), want: []string{"sluice.yaml:5:12: providers[0].api_key: the key is written in the file; put it into the environment and write ${NAME} here"}},
		{name: "empty key", file: strings.Replace(two, "${KEY}", `""`, 1)},
		{name: "multiplier, free", file: two + "  request_multiplier: 2.001", want: []string{`sluice.yaml:12:23: models[0].request_multiplier: a call of "m" counts as 2.001 requests, more than these plans have per minute: none (2), free (2); they can never call it`}},
		{name: "multiplier, just right", file: two + "  request_multiplier: 2"},
		{name: "multiplier, basic", file: strings.Replace(two, "plan: free", "plan: basic", 1) + "  request_multiplier: 31", want: []string{`sluice.yaml:12:23: models[0].request_multiplier: a call of "m" counts as 31 requests, more than these plans have per minute: basic (10), premium (30); they can never call it`}},
		{name: "multiplier, premium", file: strings.Replace(two, "plan: free", "plan: premium", 1) + "  request_multiplier: 81", want: []string{`sluice.yaml:12:23: models[0].request_multiplier: a call of "m" counts as 81 requests, more than these plans have per minute: premium (30), scale (80); they can never call it`}},
		{
			name: "multiplier, plans changed", file: two + "  request_multiplier: 20\nplans: {none: {requests_per_minute: unlimited}, free: {requests_per_minute: 20}, basic: {requests_per_minute: 19}}",
			want: []string{`sluice.yaml:12:23: models[0].request_multiplier: a call of "m" counts as 20 requests, more than these plans have per minute: basic (19); they can never call it`},
		},
		{
			name: "default multiplier on a closed plan", file: two + "plans: {none: {requests_per_minute: 0}}",
			want: []string{`sluice.yaml:7:3: models[0].request_multiplier: a call of "m" counts as 1 requests, more than these plans have per minute: none (0); they can never call it`},
		},
		{
			name: "unknown variables", environ: []string{"SLUICE_LISTN=x", "SLUICE_PUBLIC=x", "SLUICE_TEST_X=1", "SLUICE_SOAK=1", "SLUICE_SOAK_HOURS=1", "SLUICE_KEY=k", "SLUICE_CONFIG=", "SLUICED=1", "OTHER=1"},
			want: []string{`SLUICE_LISTN: no setting has this environment variable; did you mean "SLUICE_LISTEN"?`, "SLUICE_PUBLIC: no setting has this environment variable"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, problem := loadFrom(t, test.file, Source{Environ: append(test.environ, "KEY=sk-from-environment")})
			if problem != "" {
				t.Fatal(problem)
			}
			if !slices.Equal(c.Warnings(), test.want) {
				t.Errorf("Warnings() =\n%s\nwant\n%s", strings.Join(c.Warnings(), "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func BenchmarkLoadNothing(b *testing.B) {
	environ := os.Environ()
	for b.Loop() {
		if _, err := Load(Source{Environ: environ}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadSmallFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "sluice.yaml")
	if err := os.WriteFile(path, []byte("listen: localhost:80\nlog: {level: warn}\n"+provider+model), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Load(Source{Path: path}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	aws := []string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}
	for _, test := range []struct {
		text    string
		environ []string
		want    Blob
	}{
		{"storage: ./videos\n", nil, Blob{Kind: "files", Dir: "./videos"}},
		{"storage: s3://bucket?endpoint=https://s3.example.com\n", aws, Blob{Kind: "s3", Bucket: "bucket", Endpoint: "https://s3.example.com", AccessKey: "a", SecretKey: "b"}},
		{
			"storage: s3://bucket/some/where?endpoint=https://s3.example.com&region=eu\nblob: {access_key: c, secret_key: d}\n", aws,
			Blob{Kind: "s3", Bucket: "bucket", Prefix: "some/where/", Endpoint: "https://s3.example.com", Region: "eu", AccessKey: "c", SecretKey: "d"},
		},
	} {
		c, problem := loadText(t, test.text, test.environ...)
		if problem != "" {
			t.Errorf("Load(%q): %s", test.text, problem)
		} else if c.Blob != test.want {
			t.Errorf("Load(%q).Blob = %+v, want %+v", test.text, c.Blob, test.want)
		}
	}
}

// Whoever talks to the server on a data folder needs to know the folder and nothing else.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text    string
		environ []string
		flags   map[string]string
		want    string // empty: an error
	}{
		"the default":                {"", nil, nil, "./data"},
		"the file":                   {"data: /srv/a\n", nil, nil, "/srv/a"},
		"a variable":                 {"data: /srv/a\n", []string{"SLUICE_DATA=/srv/b"}, nil, "/srv/b"},
		"a flag":                     {"data: /srv/a\n", []string{"SLUICE_DATA=/srv/b"}, map[string]string{"data": "/srv/c"}, "/srv/c"},
		"variables that are not set": {"data: /srv/a\nproviders: [{name: lab, kind: openai, base_url: \"${URL}\", api_key: \"${KEY}\"}]\n", nil, nil, "/srv/a"},
		"other mistakes":             {"data: /srv/a\nlisten: nowhere\nunknown: 1\n", nil, nil, "/srv/a"},
		"no YAML":                    {"data: [\n", nil, nil, ""},
		"no YAML, and a flag":        {"data: [\n", nil, map[string]string{"data": "/srv/c"}, "/srv/c"},
		"its own variable":           {"data: ${WHERE}\n", nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "sluice.yaml")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := DataFolder(Source{Path: path, Environ: tt.environ, Flags: tt.flags})
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("DataFolder(%q) = %q, %v, want %q", tt.text, got, err, tt.want)
			}
		})
	}
}
