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
	"reflect"
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

	// What second-factor secrets and the like are sealed under in the database: random text of at least 32 characters, such as `openssl rand -hex 32` prints. Set it in the environment as `SLUICE_SECRET`, and keep a copy: what is sealed cannot be read without it. All nodes on one PostgreSQL need the same. Not set: what is in `secret.key` in the data folder, which the first start creates. To replace a secret, put the old one into `secret.key`, set the new one here, and restart.
	Secret Secret `yaml:"secret"`

	// The origin under which callers reach the service, such as `https://api.example.com`, without a path and without a slash at the end. It is used in links, mail and quick starts, and never taken from a request. Empty: made from the listen address.
	PublicURL string `yaml:"public_url"`

	// The address Prometheus metrics are served on, as host:port. Keep it private. Empty: metrics are off.
	MetricsListen string `yaml:"metrics_listen" default:"127.0.0.1:9090"`

	// The reverse proxies in front of Sluice, as networks such as `10.0.0.0/8` or single addresses. Only they are believed about the address a request came from.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`

	// How many connections may be open at once on the address the API is served on; further ones are closed as they arrive. At most half of the files that the process may open are used for them. One public address gets a tenth of them (at least 100), unless it is one of `trusted_proxies`; addresses of private networks share only the whole.
	MaxConnections int `yaml:"max_connections" default:"10000"`

	// Serve HTTPS directly, without a proxy in front.
	TLS TLS `yaml:"tls"`

	// The web origins whose pages may call the API from a browser: `*` for all of them, or origins such as `https://app.example.com`.
	CORSOrigins []string `yaml:"cors_origins" default:"*"`

	// Whether the built-in sandbox models are offered. They need no provider and cost nothing.
	Sandbox bool `yaml:"sandbox" default:"true"`

	// Whether models are offered that nobody configured: of vendors whose keys stand in the environment (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `GEMINI_API_KEY` and so on), and of an Ollama, llama.cpp or LM Studio on this machine. Only staff accounts may call them until you give them a tier under `models`.
	Discover bool `yaml:"discover" default:"true"`

	// How the router chooses.
	Router Router `yaml:"router"`

	// How long running calls may take to finish once Sluice is told to stop.
	ShutdownGrace time.Duration `yaml:"shutdown_grace" default:"30s"`

	// What is logged, and how.
	Log Log `yaml:"log"`

	// The services that models are called at.
	Providers []Provider `yaml:"providers"`

	// What calls providers whose address begins with `http://`: `lean`, a client of our own for HTTP/1.1 that costs less, or `standard`, that of Go's library. Where you suspect the former of a fault, `standard` rules it out; a reload is enough.
	UpstreamClient string `yaml:"upstream_client" default:"lean"`

	// The models offered to callers.
	Models []Model `yaml:"models"`

	// Changes to the limits and prices of the plans `none` (an account without a plan), `free`, `basic`, `premium` and `scale`. What is not set here keeps its built-in value.
	Plans map[string]Plan `yaml:"plans"`

	// How calls are accounted for.
	Usage Usage `yaml:"usage"`

	// Remote MCP tool servers that callers bring along.
	MCP MCP `yaml:"mcp"`

	// Who may open an account on the pages: `open` for anybody with an address, `invite` for those with a link of `sluice signin-link`, `closed` for nobody. Not set: open on a loopback address without `public_url` while no request came through a proxy or for another host, closed elsewhere.
	Signup string `yaml:"signup"`

	// The mail server for links and messages. Without one they are written to the log, for you to pass on.
	SMTP SMTP `yaml:"smtp"`

	// An identity provider (OpenID Connect) that people may sign in with.
	OIDC OIDC `yaml:"oidc"`

	// Videos: who makes them, and how many at once.
	Video Video `yaml:"video"`

	// Where finished files, such as videos, are kept.
	Blob Blob `yaml:"blob"`

	// How paid plans are sold.
	Billing Billing `yaml:"billing"`

	file     string
	warnings []string
	found    []*Found // pointers: fmt would print what they hold, keys and all
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

// Router is how the router chooses a model.
type Router struct {
	// What counts when several models can serve a request, from 0, the cheapest, to 100, the best.
	Dial int `yaml:"dial" default:"50"`
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

	// The vendor, or the API it speaks: `openai` for OpenAI and, with a `base_url`, everything compatible with its chat completions; `azure`, `anthropic`, `gemini`, `openrouter`, `groq`, `mistral`, `deepseek`, `xai`, `together`, `fireworks`, `cerebras`, `perplexity`, `nvidia`; `bedrock` for Amazon Bedrock; `vllm`, `llamacpp`, `lmstudio` and `ollama` on this machine.
	Kind string `yaml:"kind" required:"true"`

	// The address of its API up to and including the version, such as `https://api.openai.com/v1`. Not set: that of the vendor; for `azure` it is required.
	BaseURL string `yaml:"base_url"`

	// The version of Azure's API, such as `2024-10-21`. Not set: its newer API, which has none.
	APIVersion string `yaml:"api_version"`

	// The region of Amazon Bedrock, such as `us-east-1`. Required for `bedrock`, and only for it.
	Region string `yaml:"region"`

	// The id of the AWS key that `bedrock` is called with.
	AccessKeyID string `yaml:"access_key_id"`

	// That key itself. Keep it out of the file, as `api_key`.
	SecretAccessKey Secret `yaml:"secret_access_key"`

	// What goes with a temporary AWS key.
	SessionToken Secret `yaml:"session_token"`

	// The key it is called with. Keep it out of the file: write `${NAME}` for an environment variable or `${file:/path}` for a file. Empty: no key is sent.
	APIKey Secret `yaml:"api_key"`

	// The tier of models that it lists and that are not under `models`: `free`, `basic` or `premium`. It is asked for its list at the start, every hour, and by `sluice models --refresh`. Not set: only the models under `models` are offered.
	Discover string `yaml:"discover"`

	// Further keys of the same provider. Calls are spread over all of its keys; one that is refused or used up rests while the others go on.
	APIKeys []Secret `yaml:"api_keys"`

	// Whether callers may give it images by address, where it would fetch them from inside your network: from a `base_url` with plain http, a private address or a name without a domain, and for the kinds `vllm`, `llamacpp`, `lmstudio` and `ollama`. Otherwise such images must come as data: URLs there. Set it only if the server refuses private addresses itself, or has nothing to reach.
	AllowImageURLs bool `yaml:"allow_image_urls" default:"false"`

	// How many calls may run there at the same time. Further ones go to other targets of their model, or wait a moment. 0: any number.
	MaxConcurrent int `yaml:"max_concurrent" default:"0"`

	// How long it is waited for.
	Timeouts Timeouts `yaml:"timeouts"`
}

// Keys are all keys it is called with: one that is empty where there are none.
func (p *Provider) Keys() []Secret {
	if p.SecretAccessKey != "" {
		return []Secret{p.SecretAccessKey}
	}
	if p.APIKey == "" && len(p.APIKeys) > 0 {
		return p.APIKeys
	}
	return append([]Secret{p.APIKey}, p.APIKeys...)
}

// Timeouts say how long a provider is waited for.
type Timeouts struct {
	// For a connection to it.
	Connect time.Duration `yaml:"connect" default:"10s"`

	// For the first text, reasoning or tool call of a reply; then another target is asked. 0: two minutes for a stream and five for a reply in one piece.
	FirstContent time.Duration `yaml:"first_content" default:"0s"`

	// For the next piece of a reply that has begun.
	Silence time.Duration `yaml:"silence" default:"2m"`
}

// Model is one entry of the catalog.
type Model struct {
	// The id callers ask for. It has no spaces and is not the id of the router.
	ID string `yaml:"id" required:"true"`

	// The name of the provider that serves it. Needed where `targets` has none.
	Provider string `yaml:"provider"`

	// The provider's own name for it. Empty: the same as `id`.
	Upstream string `yaml:"upstream"`

	// Where it is served, if at more than one place: in the place of `provider` and `upstream`.
	Targets []Target `yaml:"targets"`

	// The ids of models that answer, in this order, while no target of this one can. Those that the caller's plan does not include, or that cannot take the request, are passed over.
	Fallbacks []string `yaml:"fallbacks"`

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

	// Whether it can be held to JSON. The router gives it no request that asks for it otherwise.
	JSONMode bool `yaml:"json_mode" default:"true"`

	// How well it does, from 1 to 100, for the router. 0: about as well as other models of its tier, or as is known of it.
	Quality int `yaml:"quality" default:"0"`

	// Whether it can think before it answers. For a model that cannot, `reasoning_effort` is left out of the call.
	Reasoning bool `yaml:"reasoning" default:"false"`

	// One sentence about it for the catalog.
	Description string `yaml:"description"`

	// Who made it, for the catalog.
	OwnedBy string `yaml:"owned_by"`

	// The day that the catalog gives as `created`, such as `2026-03-01`. Not set: when this service first listed the model.
	Created string `yaml:"created"`

	// What its tokens cost, for the catalog: dollars per million tokens, with at most 6 decimals.
	Pricing *Pricing `yaml:"pricing"`
}

// CreatedAt is the configured day of creation; the zero time where there is none.
func (m *Model) CreatedAt() (time.Time, error) {
	if m.Created == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.DateOnly, m.Created)
}

// Target is one place where a model is served.
type Target struct {
	// The name of the provider.
	Provider string `yaml:"provider" required:"true"`

	// The provider's own name for the model. Empty: the model's `id`.
	Upstream string `yaml:"upstream"`

	// Its share of the calls, beside the weights of the other targets. 0: it is asked only while none of them can answer.
	Weight int `yaml:"weight" default:"1"`
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

	// Video jobs that may wait or run at the same time.
	UnfinishedVideos *Limit `yaml:"unfinished_videos"`
}

// Video is how videos are made.
type Video struct {
	// The id callers name the video model by.
	ModelID string `yaml:"model_id" default:"video-default"`

	// The lowest plan that may create videos: `free`, `basic` or `premium`.
	Plan string `yaml:"plan" default:"free"`

	// Who makes new videos: `sandbox` for the built-in renderer, or the name of one of `video.providers`.
	Provider string `yaml:"provider" default:"sandbox"`

	// How many videos this process works on at once. 0: 2 with the built-in renderer, which uses every core for each; 16 with a provider, on which one only waits.
	Workers int `yaml:"workers" default:"0"`

	// How long a job is left to a process that shows no sign of life, before another one takes it up.
	Lease time.Duration `yaml:"lease" default:"30s"`

	// How long a job may take, and how long it and its file are kept once it has ended.
	Keep time.Duration `yaml:"keep" default:"24h"`

	// The largest file of one video, in MiB.
	MaxFileMiB int `yaml:"max_file_mib" default:"512"`

	// The size of an account's stored videos, in MiB, from which on it may create no more until some expire.
	AccountMiB int `yaml:"account_mib" default:"2048"`

	// The services that can make videos. A job goes on at the one where it was begun, so leave an entry in place until its jobs have ended, and write a new one for a new key.
	Providers []VideoProvider `yaml:"providers"`
}

// VideoProvider is a service that makes videos.
type VideoProvider struct {
	// The name that `video.provider` refers to.
	Name string `yaml:"name" required:"true"`

	// The API it speaks: `azure` for the Sora jobs of Azure OpenAI, `openai` for OpenAI's `/v1/videos`, `veo` for the Veo models of the Gemini API.
	Kind string `yaml:"kind" required:"true"`

	// The address of its API: for `azure` such as `https://name.openai.azure.com/openai/v1`, for `openai` such as `https://api.openai.com/v1`, for `veo` such as `https://generativelanguage.googleapis.com/v1beta`.
	BaseURL string `yaml:"base_url" required:"true"`

	// The key it is called with. Keep it out of the file: write `${NAME}` for an environment variable or `${file:/path}` for a file. Empty: no key is sent.
	APIKey Secret `yaml:"api_key"`

	// Its model, or for `azure` the deployment.
	Model string `yaml:"model" required:"true"`
}

// Blob is where finished files are kept.
type Blob struct {
	// `files` for a folder, or `s3` for an object store that speaks S3.
	Kind string `yaml:"kind" default:"files"`

	// The folder, for `files`. Processes that share a database share it, too. Empty: `files` in the data folder.
	Dir string `yaml:"dir"`

	// The address of the object store, such as `https://s3.eu-central-1.amazonaws.com`.
	Endpoint string `yaml:"endpoint"`

	// The region of the bucket. Empty: it is found out.
	Region string `yaml:"region"`

	// The bucket. It must exist.
	Bucket string `yaml:"bucket"`

	// What the name of every object begins with, such as `sluice/`.
	Prefix string `yaml:"prefix"`

	// The access key of the object store.
	AccessKey Secret `yaml:"access_key"`

	// The secret key of the object store. Keep it out of the file: write `${NAME}` for an environment variable or `${file:/path}` for a file.
	SecretKey Secret `yaml:"secret_key"`
}

// MCP is about the tool servers that callers name in their requests.
type MCP struct {
	// Hosts that may be called although their addresses are private, as names or addresses, with a port or without.
	AllowHosts []string `yaml:"allow_hosts"`

	// How many MCP servers one request may name, 1 to 8.
	MaxServers int `yaml:"max_servers" default:"8"`

	// How many tools one request may have, those of its MCP servers and its functions together, 1 to 128.
	MaxTools int `yaml:"max_tools" default:"128"`

	// How often a model may call MCP tools and be asked again within one request. After that it must answer.
	MaxRounds int `yaml:"max_rounds" default:"16"`

	// How long one call of an MCP tool may take.
	CallTimeout time.Duration `yaml:"call_timeout" default:"60s"`

	// The largest result of an MCP tool, in bytes as the server sends it.
	MaxResult int `yaml:"max_result" default:"1048576"`
}

// SMTP is a mail server.
type SMTP struct {
	// Its address, as host:port. Port 465 speaks TLS from the first byte; on others it is used where the server offers it.
	Server string `yaml:"server"`

	// The address that mail comes from, such as `Sluice <no-reply@example.com>`.
	From string `yaml:"from"`

	// The name to sign in with there. Empty: without.
	User string `yaml:"user"`

	// The password to sign in with there.
	Password Secret `yaml:"password"`
}

// OIDC is an identity provider.
type OIDC struct {
	// The address of the issuer, such as `https://accounts.example.com`. You trust it with addresses: whoever it vouches for signs in to the account with that address.
	Issuer string `yaml:"issuer"`

	// What people call it, for the button.
	Name string `yaml:"name" default:"single sign-on"`

	// The id that it knows this service by. Its redirect address is `public_url` + `/signin/provider/back`.
	ClientID string `yaml:"client_id"`

	// The secret that goes with the id.
	ClientSecret Secret `yaml:"client_secret"`
}

// Billing is how paid plans are sold.
type Billing struct {
	// Who moves the money: `testpay` for the built-in test cards, which move none; `stripe`; `none` where plans are not for sale and you grant them. Not set: testpay on a loopback address without `public_url` while no request came through a proxy or for another host, none elsewhere.
	Processor string `yaml:"processor"`

	// Stripe's secret key. Required where `processor` is `stripe`.
	SecretKey Secret `yaml:"secret_key"`

	// The secret that Stripe signs its webhooks with; their address is `public_url` and `/webhooks/stripe`. Required where `processor` is `stripe`.
	WebhookSecret Secret `yaml:"webhook_secret"`

	// Where Stripe's API is.
	APIURL string `yaml:"api_url" default:"https://api.stripe.com"`
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

// OriginAt is Origin for a server that listens on another address than Listen says: because the system chose the port,
// or because a reload changed Listen, which takes effect at the next start only.
func (c *Config) OriginAt(listen string) string {
	at := *c
	at.Listen = listen
	return at.Origin()
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
		{"secret", c.Secret != old.Secret},
		{"metrics_listen", c.MetricsListen != old.MetricsListen},
		{"max_connections", c.MaxConnections != old.MaxConnections},
		{"smtp", c.SMTP != old.SMTP},
		{"oidc", c.OIDC != old.OIDC},
		// Another certificate is picked up by a running listener; HTTPS itself is not.
		{"tls", c.TLS.Enabled() != old.TLS.Enabled()},
		{"blob", c.Blob != old.Blob},
		{"billing", c.Billing != old.Billing},
		{"mcp", !reflect.DeepEqual(c.MCP, old.MCP)},
	} {
		if setting.changed {
			paths = append(paths, setting.path)
		}
	}
	return paths
}
