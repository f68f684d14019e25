// Package config is the one typed configuration: a YAML file, the environment over it, flags over both.
//
// Load reads all three and either returns a Config in which every rule holds, or says for each mistake
// where it stands (file, line, column, or the variable or flag) and what to do about it. The tags on the
// types below are the whole schema: `yaml` is the key, `default` the value when nobody sets one, `required`
// marks what has none. The comments on the fields are written for operators; they become the reference page.
//
// What the settings do is not decided here, and no other package takes a Config: app hands each capability
// its own options.
package config

import (
	"net"
	"net/netip"
	"time"
)

//go:generate go run ./gendocs

// Config is everything an operator can set.
type Config struct {
	// The address the API and the pages are served on, as host:port. An empty host, or 0.0.0.0, means every network interface.
	Listen string `yaml:"listen" default:"127.0.0.1:8080"`

	// The folder for everything Sluice keeps: the SQLite database and finished videos. It is created if it does not exist.
	Data string `yaml:"data" default:"./data"`

	// The name your service goes by towards its callers: lower-case letters, digits and dashes. The brand `service` gives keys that begin with `service-` and a router model called `service/auto`.
	Brand string `yaml:"brand" default:"service"`

	// Where accounts, keys and usage are stored: `sqlite` for a file in the data folder, or a PostgreSQL address such as `postgres://user:password@host/name`.
	Database string `yaml:"database" default:"sqlite"`

	// The origin under which callers reach the service, such as `https://api.example.com`, without a path and without a slash at the end. It is used in links, mail and quick starts, and never taken from a request. Empty: made from the listen address.
	PublicURL string `yaml:"public_url"`

	// The address Prometheus metrics are served on, as host:port. Keep it private. Empty: metrics are off.
	MetricsListen string `yaml:"metrics_listen" default:"127.0.0.1:9090"`

	// The reverse proxies in front of Sluice, as networks such as `10.0.0.0/8` or single addresses. Only they are believed about the address a request came from.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`

	// Serve HTTPS directly, without a proxy in front.
	TLS TLS `yaml:"tls"`

	// The web origins whose pages may call the API from a browser: `*` for all of them, or origins such as `https://app.example.com`.
	CORSOrigins []string `yaml:"cors_origins" default:"*"`

	// Whether the built-in sandbox models are offered. They need no provider and cost nothing.
	Sandbox bool `yaml:"sandbox" default:"true"`

	// How long running calls may take to finish once Sluice is told to stop.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" default:"30s"`

	// What is logged, and how.
	Log Log `yaml:"log"`

	// The services that models are called at.
	Providers []Provider `yaml:"providers"`

	// The models offered to callers.
	Models []Model `yaml:"models"`

	// Changes to the limits and prices of the plans `none` (an account without a plan), `free`, `basic`, `premium` and `scale`. What is not set here keeps its built-in value.
	Plans map[string]Plan `yaml:"plans"`

	// How calls are accounted for.
	Usage Usage `yaml:"usage"`

	// Remote MCP tool servers that callers bring along.
	MCP MCP `yaml:"mcp"`

	file     string
	warnings []string
}

// TLS names the files of a certificate.
type TLS struct {
	// The file with the certificate and its chain, in PEM form. Needs `key` beside it.
	Cert string `yaml:"cert"`

	// The file with the certificate's private key, in PEM form. Needs `cert` beside it.
	Key string `yaml:"key"`
}

// Enabled reports whether HTTPS is served.
func (t TLS) Enabled() bool { return t.Cert != "" }

// Log is how the log is written.
type Log struct {
	// The form of the log: `text`, `json`, or `auto` for text on a terminal and JSON elsewhere.
	Format string `yaml:"format" default:"auto"`

	// The least important level that is written: `debug`, `info`, `warn` or `error`.
	Level string `yaml:"level" default:"info"`
}

// Usage is how calls are accounted for.
type Usage struct {
	// Whether every settlement is brought to the disk before its reply ends. Otherwise they are in groups at most a second apart, and a power cut may lose that second.
	SyncEach bool `yaml:"sync_each" default:"false"`

	// How many days the record of each single call is kept. The sums by hour and day stay. 0: for ever.
	KeepDays int `yaml:"keep_days" default:"90"`
}

// Provider is a service that models are called at.
type Provider struct {
	// The name that models refer to.
	Name string `yaml:"name" required:"true"`

	// The API it speaks: `openai`, for OpenAI and everything compatible with its chat completions.
	Kind string `yaml:"kind" required:"true"`

	// The address of its API up to and including the version, such as `https://api.openai.com/v1`.
	BaseURL string `yaml:"base_url" required:"true"`

	// The key it is called with. Keep it out of the file: write `${NAME}` for an environment variable or `${file:/path}` for a file. Empty: no key is sent.
	APIKey Secret `yaml:"api_key"`
}

// Model is one entry of the catalog.
type Model struct {
	// The id callers ask for. It has no spaces and is not the id of the router.
	ID string `yaml:"id" required:"true"`

	// The name of the provider that serves it.
	Provider string `yaml:"provider" required:"true"`

	// The provider's own name for it. Empty: the same as `id`.
	Upstream string `yaml:"upstream"`

	// The lowest plan that may call it: `free`, `basic` or `premium`.
	Plan string `yaml:"plan" required:"true"`

	// How many requests of the per-minute allowance one call uses.
	RequestMultiplier Milli `yaml:"request_multiplier" default:"1"`

	// How many units of the monthly budget one call uses. Not set: the same as `request_multiplier`.
	UnitCost *Milli `yaml:"unit_cost"`

	// The largest prompt it reads, in tokens.
	ContextLength int `yaml:"context_length" required:"true"`

	// The longest reply it writes, in tokens; at most `context_length`.
	MaxOutput int `yaml:"max_output" required:"true"`

	// Whether it can call tools.
	ToolCalling bool `yaml:"tool_calling" default:"false"`

	// Whether it can think before it answers. For a model that cannot, `reasoning_effort` is left out of the call.
	Reasoning bool `yaml:"reasoning" default:"false"`

	// One sentence about it for the catalog.
	Description string `yaml:"description"`

	// Who made it, for the catalog.
	OwnedBy string `yaml:"owned_by"`

	// What its tokens cost, for the catalog: dollars per million tokens, with at most 6 decimals.
	Pricing *Pricing `yaml:"pricing"`
}

// Pricing is in dollars per million tokens.
type Pricing struct {
	// Dollars per million prompt tokens.
	Input *Money `yaml:"input"`

	// Dollars per million tokens of the reply.
	Output *Money `yaml:"output"`

	// Dollars per million prompt tokens that the provider had cached.
	Cached *Money `yaml:"cached"`

	// Dollars per million tokens of thinking.
	Reasoning *Money `yaml:"reasoning"`
}

// Plan changes a built-in plan; a nil field keeps what is built in.
type Plan struct {
	// Requests a minute.
	RequestsPerMinute *Limit `yaml:"requests_per_minute"`

	// Calls that may run at the same time.
	Concurrent *Limit `yaml:"concurrent"`

	// Tokens a minute, prompts and replies together.
	TokensPerMinute *Limit `yaml:"tokens_per_minute"`

	// The monthly price in dollars, with at most 2 decimals.
	PriceUSD *Money `yaml:"price_usd"`

	// Units a month, for each tier of models: the budget that the abuse score is the percentage of. At 100 the account's keys are switched off until you restore them.
	MonthlyUnits *Limit `yaml:"monthly_units"`
}

// MCP is about the tool servers that callers name in their requests.
type MCP struct {
	// Hosts that may be called although their addresses are private, as names or addresses, with a port or without.
	AllowHosts []string `yaml:"allow_hosts"`
}

// File is the configuration file that was read; empty if there was none.
func (c *Config) File() string { return c.file }

// Warnings are the things that are legal but probably not meant.
func (c *Config) Warnings() []string { return c.warnings }

// KeyPrefix is what every API key begins with.
func (c *Config) KeyPrefix() string { return c.Brand + "-" }

// RouterID is the id of the model that picks a model.
func (c *Config) RouterID() string { return c.Brand + "/auto" }

// Origin is the service's address for links: the public URL, or else one made from the listen address.
func (c *Config) Origin() string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	scheme := "http://"
	if c.TLS.Enabled() {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil { // cannot be after Load
		return scheme + c.Listen
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1" // "every interface" is not an address one can call
	}
	return scheme + net.JoinHostPort(host, port)
}

// RestartNeeded names the settings that differ from old and take effect only at a restart.
func (c *Config) RestartNeeded(old *Config) []string {
	var paths []string
	for _, setting := range []struct {
		path    string
		changed bool
	}{
		{"listen", c.Listen != old.Listen},
		{"data", c.Data != old.Data},
		{"brand", c.Brand != old.Brand},
		{"database", c.Database != old.Database},
		{"metrics_listen", c.MetricsListen != old.MetricsListen},
		// Another certificate is picked up by a running listener; HTTPS itself is not.
		{"tls", c.TLS.Enabled() != old.TLS.Enabled()},
	} {
		if setting.changed {
			paths = append(paths, setting.path)
		}
	}
	return paths
}
