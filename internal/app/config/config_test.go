package config

import (
	"reflect"
	"testing"
)

func TestOrigin(t *testing.T) {
	t.Parallel()
	on := TLS{Cert: "c", Key: "k"}
	for _, test := range []struct {
		c    Config
		want string
	}{
		{Config{Listen: "127.0.0.1:8080"}, "http://127.0.0.1:8080"},
		{Config{Listen: "127.0.0.1:8443", TLS: on}, "https://127.0.0.1:8443"},
		{Config{Listen: "0.0.0.0:80"}, "http://127.0.0.1:80"},
		{Config{Listen: "[::]:80", TLS: on}, "https://127.0.0.1:80"},
		{Config{Listen: ":80"}, "http://127.0.0.1:80"},
		{Config{Listen: "[::1]:80"}, "http://[::1]:80"},
		{Config{Listen: "localhost:80"}, "http://localhost:80"},
		{Config{Listen: "10.1.2.3:80"}, "http://10.1.2.3:80"},
		{Config{Listen: ":80", PublicURL: "https://api.example.com"}, "https://api.example.com"},
	} {
		if got := test.c.Origin(); got != test.want {
			t.Errorf("Origin(%q, %q) = %q, want %q", test.c.Listen, test.c.PublicURL, got, test.want)
		}
	}
}

func TestBrandNames(t *testing.T) {
	t.Parallel()
	c := Config{Brand: "acme"}
	if got := c.RouterID(); got != "acme/auto" {
		t.Errorf("RouterID of the brand acme = %q, want acme/auto", got)
	}
}

func TestRestartNeeded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"nothing", func(*Config) {}, nil},
		{"listen", func(c *Config) { c.Listen = ":1" }, []string{"listen"}},
		{"data", func(c *Config) { c.Data = "x" }, []string{"data"}},
		{"brand", func(c *Config) { c.Brand = "x" }, []string{"brand"}},
		{"database", func(c *Config) { c.Database = "postgres://x" }, []string{"database"}},
		{"redis", func(c *Config) { c.Redis = "redis://x" }, []string{"redis"}},
		{"cluster", func(c *Config) { c.Cluster = "approximate" }, []string{"cluster"}},
		{"node address", func(c *Config) { c.NodeAddress = "10.0.0.1:80" }, []string{"node_address"}},
		{"storage", func(c *Config) { c.Storage, c.Blob.Dir = "x", "x" }, []string{"storage"}},
		{"storage written in another way", func(c *Config) { c.Storage = "x" }, nil},
		{"blob", func(c *Config) { c.Blob.Dir = "x" }, []string{"blob.dir"}},
		{"metrics", func(c *Config) { c.MetricsListen = "" }, []string{"metrics_listen"}},
		{"collector", func(c *Config) { c.Traces.Endpoint = "http://x"; c.Traces.Headers = "a=b" }, []string{"traces.endpoint", "traces.headers"}},
		{"sampling", func(c *Config) { c.Traces.Sample, c.Traces.Follow, c.Traces.Capture = 1000, "all", "content" }, nil},
		{"lane", func(c *Config) { c.HTTP1Lane = "off" }, []string{"http1_lane"}},
		{"unready", func(c *Config) { c.Unready = "answer" }, []string{"unready"}},
		{"another certificate", func(c *Config) { c.TLS = TLS{"c2", "k2"} }, nil},
		{"https off", func(c *Config) { c.TLS = TLS{} }, []string{"tls"}},
		{"several", func(c *Config) { c.Data = "x"; c.Listen = ":1" }, []string{"listen", "data"}},
		{"inside sections", func(c *Config) {
			c.SMTP.Server, c.MCP.AllowHosts, c.Log.Format, c.Usage.SyncEach = "x", []string{"x"}, "json", true
		}, []string{"log.format", "usage.sync_each", "mcp.allow_hosts", "smtp.server"}},
		{"what can change while running", func(c *Config) {
			c.Models, c.Providers, c.Log.Level, c.PublicURL, c.Sandbox = []Model{{}}, []Provider{{}}, "debug", "https://a", true
		}, nil},
	} {
		old := &Config{Listen: ":8080", Data: "d", Brand: "b", Database: "sqlite", MetricsListen: ":9", TLS: TLS{"c", "k"}}
		c := *old
		test.change(&c)
		if got := c.RestartNeeded(old); !reflect.DeepEqual(got, test.want) {
			t.Errorf("RestartNeeded(%s) = %q, want %q", test.name, got, test.want)
		}
	}
	if got := (&Config{TLS: TLS{"c", "k"}}).RestartNeeded(&Config{}); !reflect.DeepEqual(got, []string{"tls"}) {
		t.Errorf("RestartNeeded(https on) = %q, want tls", got)
	}
}
