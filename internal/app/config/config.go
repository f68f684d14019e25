// Package config is the typed configuration: a YAML file, overridden by the environment,
// overridden by flags.
//
// Load reads all three. It returns a Config in which every rule holds, or an error for each
// mistake that says where it is (file, line and column, or the variable or flag) and what to
// do about it. The tags on the types below are the whole schema: `yaml` is the key, `default`
// the value if nobody sets one, `required` marks fields without a default, `restart` those that a
// reload does not change. The comments on the
// fields are written for operators: they become the reference that "sluice config docs"
// prints.
//
// What the settings do is not decided here, and no other package takes a Config: app passes
// each package its own options.
package config

import (
	"net"
	"net/netip"
	"time"
)

//go:generate go run ./gendocs

// Config holds every setting of the service. It must not be changed after Load.
type Config struct {
	// The address to serve the API and the pages on, as host:port. An empty host or 0.0.0.0
	// means every network interface.
	Listen string `yaml:"listen" default:"127.0.0.1:8080" restart:"true"`

	// The folder for everything Sluice stores: the SQLite database and finished videos. It
	// is created if it does not exist.
	Data string `yaml:"data" default:"./data" restart:"true"`

	// The name of your service for its callers: lower-case letters, digits and dashes. With
	// the brand `service`, keys begin with `service-` and the router model is called
	// `service/auto`.
	Brand string `yaml:"brand" default:"service" restart:"true"`

	// Where accounts, keys and usage are stored: `sqlite` for a file in the data folder, or
	// a PostgreSQL URL such as `postgres://user:password@host/name`.
	Database string `yaml:"database" default:"sqlite" restart:"true"`

	// The Redis in which several nodes on one PostgreSQL count limits together, such as
	// `redis://user:password@host:6379/0`, or `rediss://` for TLS. Redis 7, Valkey and Redis
	// Cluster work; of a cluster, name one node. One node needs no Redis.
	Redis Secret `yaml:"redis" restart:"true"`

	// `approximate` lets several nodes share one PostgreSQL without Redis: each admits its
	// share of every limit, so an account whose calls all reach one node gets less than its
	// plan says. If not set, a second node needs `redis` to start.
	Cluster string `yaml:"cluster" restart:"true"`

	// Where other nodes on the database reach this one, to read streams that are resumed there, as
	// host:port. If not set: the listen address, or, if that is every interface, the one with which
	// this machine reaches the database.
	NodeAddress string `yaml:"node_address" restart:"true"`

	// Where finished files are stored, in one line instead of the section `blob`: a folder, or
	// a bucket such as `s3://bucket/prefix?endpoint=https://s3.example.com&region=eu-1`. The
	// keys of the bucket are those of `blob`, or else `AWS_ACCESS_KEY_ID` and
	// `AWS_SECRET_ACCESS_KEY` in the environment. Nodes that share a database must share the
	// files, too.
	Storage string `yaml:"storage" restart:"true"`

	// The secret that encrypts sensitive values in the database, such as second-factor
	// secrets: random text of at least 32 characters, such as the output of `openssl rand -hex
	// 32`. Set it in the environment as `SLUICE_SECRET`, and keep a copy: encrypted values
	// cannot be read without it. All nodes on one PostgreSQL database need the same secret. If
	// not set, the secret is read from `secret.key` in the data folder, which the first
	// start creates. To replace a secret, put the old one into `secret.key`, set the new one
	// here, and restart.
	Secret Secret `yaml:"secret" restart:"true"`

	// The origin under which callers reach the service, such as `https://api.example.com`,
	// without a path or a trailing slash. It is used in links, mail and quick starts, and
	// never taken from a request. If empty, it is derived from the listen address.
	PublicURL string `yaml:"public_url"`

	// The address to serve Prometheus metrics on, as host:port, and `/healthz` and `/readyz` as
	// well. Keep it private. If empty, metrics are off.
	MetricsListen string `yaml:"metrics_listen" default:"127.0.0.1:9090" restart:"true"`

	// The tags whose calls and costs are in the metrics: names such as `team`, for all of their
	// values, or a name with one value such as `team=search`. 200 tags have series of their own,
	// those with their values first; calls with further ones are counted as `other`.
	MetricsTags []string `yaml:"metrics_tags" restart:"true"`

	// The reverse proxies in front of Sluice, as networks such as `10.0.0.0/8` or single
	// addresses. The client address in a forwarding header, and a request id in `X-Request-Id`,
	// are accepted only from them.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`

	// The maximum number of open connections on the listen address. Further connections are
	// closed as they arrive. At most half of the files that the process may open are used for
	// connections. A single public address may open a tenth of them (at least 100), unless it
	// is one of `trusted_proxies`. Addresses of private networks have no limit of their own.
	MaxConnections int `yaml:"max_connections" default:"10000" restart:"true"`

	// Whether plain HTTP/1.1 requests take a shorter way than Go's standard server: `on` or
	// `off`. If you suspect a bug in it, switch it off to rule it out. `debug` is `on` with a
	// check for memory that is used after its request, for tests; it costs time.
	HTTP1Lane string `yaml:"http1_lane" default:"on" restart:"true"`

	// Serve HTTPS directly, without a proxy in front.
	TLS TLS `yaml:"tls"`

	// The web origins whose pages may call the API from a browser: `*` for all, or origins
	// such as `https://app.example.com`.
	CORSOrigins []string `yaml:"cors_origins" default:"*"`

	// Whether to offer the built-in sandbox models. They need no provider and cost nothing.
	Sandbox bool `yaml:"sandbox" default:"true"`

	// Whether to offer models that are not configured: those of vendors whose keys are in the
	// environment (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `GEMINI_API_KEY` and so on), and
	// those of an Ollama, llama.cpp or LM Studio server on this machine. Only staff accounts
	// may call them until you give them a tier under `models`.
	Discover bool `yaml:"discover" default:"true"`

	// How the router chooses a model.
	Router Router `yaml:"router"`

	// How long Sluice may take to stop after it is told to, `shutdown_delay` included. Calls that
	// are still running then are cut off.
	DrainTimeout time.Duration `yaml:"drain_timeout" default:"30s"`

	// How long Sluice still accepts requests after it is told to stop. Meanwhile `/readyz` says
	// that it is not ready and replies end their connections, so that load balancers send new
	// requests to other nodes. A second signal ends the delay. If not set: 5s with PostgreSQL,
	// 0s with SQLite, where there is no other node.
	ShutdownDelay time.Duration `yaml:"shutdown_delay"`

	// What a server that cannot answer calls does with new connections while other servers on
	// the same PostgreSQL live. `close`: it refuses them, so that load balancers that only watch
	// connections, such as nginx, send calls to the others. `answer`: it accepts them and answers
	// 503, for load balancers that ask `/readyz`. `auto` is `answer` in Kubernetes, whose probes
	// ask this port, and `close` elsewhere. `metrics_listen` serves `/healthz` and `/readyz`, too,
	// and stays open. A server without others always answers.
	Unready string `yaml:"unready" default:"auto" restart:"true"`

	// The earlier name of `drain_timeout`. It still works, but not together with the new one.
	ShutdownGrace time.Duration `yaml:"shutdown_grace"`

	// What is logged, and in which format.
	Log Log `yaml:"log"`

	// Traces of requests, for an OpenTelemetry collector. A reload changes all but `endpoint` and
	// `headers`.
	Traces Traces `yaml:"traces"`

	// The services that serve the models.
	Providers []Provider `yaml:"providers"`

	// The HTTP client for providers: `lean`, our own HTTP/1.1
	// client, which costs less, or `standard`, the client of Go's standard library. If you
	// suspect a bug in `lean`, switch to `standard` to rule it out; a reload is enough.
	UpstreamClient string `yaml:"upstream_client" default:"lean"`

	// The models offered to callers.
	Models []Model `yaml:"models"`

	// What models cost at their vendors, in dollars per million tokens with at most nine decimals,
	// by date and with all conditions. An entry replaces what the list of the program, an imported
	// list and `models[].pricing` say about the model. What it leaves out is not known: a call that
	// needs it has no cost. Only the caches of Claude follow from `input`.
	Prices []Price `yaml:"prices"`

	// What costs are multiplied with before customers see them. Staff sees both.
	Markup Markup `yaml:"markup"`

	// Names that callers may use in place of the id of a model, such as `{"claude-sonnet-*":
	// lab/large}`: clients that know one vendor ask for its names. A name is exact or ends with
	// `*`. The exact name wins, then the longest pattern; the id of a model always means that
	// model. Accounts can have aliases of their own, which win over these.
	Aliases Names `yaml:"aliases"`

	// Changes to the limits and prices of the plans `none` (an account without a plan),
	// `free`, `basic`, `premium` and `scale`. Anything not set here keeps its built-in value.
	Plans map[string]Plan `yaml:"plans"`

	// How usage is recorded.
	Usage Usage `yaml:"usage"`

	// What is kept of streams that callers can resume after their connection has broken.
	Resume Resume `yaml:"resume"`

	// Remote MCP tool servers that callers name in their requests.
	MCP MCP `yaml:"mcp" restart:"true"`

	// Who may create an account on the pages: `open` for anyone with an e-mail address,
	// `invite` for those with a link from `sluice signin-link`, `closed` for nobody. If not
	// set: open on a loopback address without `public_url`, until a request arrives through a
	// proxy or for another host; closed otherwise.
	Signup string `yaml:"signup"`

	// The mail server for links and messages. Without one they are written to the log, for you
	// to pass on.
	SMTP SMTP `yaml:"smtp" restart:"true"`

	// How customers reach support, besides the messages page of the dashboard.
	Support Support `yaml:"support"`

	// How the pages look to your customers: name, logo, colours and the texts of the first page.
	Site Site `yaml:"site"`

	// An identity provider (OpenID Connect) for signing in.
	OIDC OIDC `yaml:"oidc" restart:"true"`

	// Videos: which provider creates them, and how many at once.
	Video Video `yaml:"video"`

	// Where finished files, such as videos, are stored.
	Blob Blob `yaml:"blob" restart:"true"`

	// How paid plans are sold.
	Billing Billing `yaml:"billing" restart:"true"`

	// Whom to tell when something is wrong: an upstream is down, the journal grows, the disk fills,
	// a payment fails, an account needs a review. Customers set up webhooks of their own on the
	// pages.
	Alerts Alerts `yaml:"alerts"`

	file     string
	from     *sources
	warnings []string
	found    []*Found // pointers, so that fmt does not print the keys in them
}

// TLS names the files of a certificate.
type TLS struct {
	// The PEM file with the certificate and its chain. Requires `key`.
	Cert string `yaml:"cert"`

	// The PEM file with the certificate's private key. Requires `cert`.
	Key string `yaml:"key"`
}

// Enabled reports whether HTTPS is served.
func (t TLS) Enabled() bool { return t.Cert != "" }

// Log controls the format and the level of the log.
type Log struct {
	// The log format: `text`, `json`, or `auto` for text on a terminal and JSON otherwise.
	Format string `yaml:"format" default:"auto" restart:"true"`

	// The lowest level that is logged: `debug`, `info`, `warn` or `error`. Requests of `/healthz`
	// and `/readyz` are logged at `debug`.
	Level string `yaml:"level" default:"info"`

	// The file to log to instead of the standard error. A file that another program moves away,
	// such as logrotate, is begun again.
	File string `yaml:"file" restart:"true"`

	// The size at which the file is set aside and a new one begun, in MiB. The time becomes
	// part of the old file's name. 0 means no limit.
	MaxMiB int `yaml:"max_mib" default:"100" restart:"true"`

	// The age at which the file is set aside. 0 means no limit.
	MaxAge time.Duration `yaml:"max_age" default:"24h" restart:"true"`

	// How many files that were set aside are kept.
	Keep int `yaml:"keep" default:"7" restart:"true"`
}

// Traces controls what is sent to an OpenTelemetry collector.
type Traces struct {
	// The OpenTelemetry collector that gets traces, over OTLP/HTTP, such as
	// `http://127.0.0.1:4318`. Spans go to `/v1/traces` below this URL. If empty, traces are off.
	Endpoint string `yaml:"endpoint" restart:"true"`

	// Headers for the collector, such as an API key: `name=value`, several separated by commas.
	// The same as `OTEL_EXPORTER_OTLP_HEADERS`; values may be percent-encoded.
	Headers Secret `yaml:"headers" restart:"true"`

	// The share of requests that are traced, from 0 to 1. A request that a trusted proxy has
	// already decided on, by `traceparent`, is traced as decided there.
	Sample Milli `yaml:"sample" default:"0.01"`

	// Whose `traceparent` decides whether a request is traced: `trusted` for `trusted_proxies`
	// only, or `all` for every caller. The trace id of a caller is taken and passed on to
	// providers in either case.
	Follow string `yaml:"follow" default:"trusted"`

	// What spans contain: `none` for names, times and numbers only, or `content` to add
	// prompts, replies, and the arguments and results of tools.
	Capture string `yaml:"capture" default:"none"`
}

// Router controls how the router chooses a model.
type Router struct {
	// The balance between price and quality when several models can serve a request, from 0
	// (cheapest) to 100 (best).
	Dial int `yaml:"dial" default:"50"`

	// A file of weights that `tools/routertrain` has made. Empty: the weights that the program
	// was built with. If the file cannot be used, the router goes by its estimates.
	Weights string `yaml:"weights"`

	// Whether callers may rate answers with `POST /v1/feedback`, and what they say and how calls
	// end moves the quality that the router expects of models, by 8 points of 100 at most.
	Feedback bool `yaml:"feedback" default:"false"`
}

// Usage controls how usage is recorded.
type Usage struct {
	// Whether every usage record is synced to disk before its reply ends. Otherwise records
	// are synced in groups, at most a second apart, and a power failure may lose that second.
	SyncEach bool `yaml:"sync_each" default:"false" restart:"true"`

	// How many days the record of each single call is kept. Hourly and daily sums are kept in
	// any case. 0 keeps records forever.
	KeepDays int `yaml:"keep_days" default:"90"`
}

// Resume bounds the streams that callers can resume.
type Resume struct {
	// How long a call continues without its caller, and how long a whole reply is kept after its
	// end. The call holds its slot until then.
	Patience time.Duration `yaml:"patience" default:"2m" restart:"true"`

	// How much of one stream is kept, in MiB. The oldest events go first.
	StreamMiB int `yaml:"stream_mib" default:"4" restart:"true"`

	// How much is kept of all streams of an account, in MiB.
	AccountMiB int `yaml:"account_mib" default:"32" restart:"true"`

	// How much is kept of the streams of all accounts, in MiB of this node's memory.
	TotalMiB int `yaml:"total_mib" default:"256" restart:"true"`
}

// Provider is a service that serves models.
type Provider struct {
	// The name that models refer to.
	Name string `yaml:"name" required:"true"`

	// The vendor, or the API that the provider speaks: `openai` for OpenAI and, with a
	// `base_url`, for everything compatible with its chat completions; `azure`, `anthropic`,
	// `gemini`, `openrouter`, `groq`, `mistral`, `deepseek`, `xai`, `together`, `fireworks`,
	// `cerebras`, `perplexity`, `nvidia`; `bedrock` for Amazon Bedrock; `vllm`, `llamacpp`,
	// `lmstudio` and `ollama` on this machine.
	Kind string `yaml:"kind" required:"true"`

	// The base URL of its API including the version, such as `https://api.openai.com/v1`. The
	// default is the vendor's URL. Required for `azure`.
	BaseURL string `yaml:"base_url"`

	// Servers of yours that answer alike, in place of `base_url`: at most 64 base URLs, for the
	// kinds `vllm`, `llamacpp`, `lmstudio`, `ollama` and `openai`. With `dns+` in front, such as
	// `dns+http://vllm.default.svc:8000/v1`, each address of the name is one, and with `dnssrv+`
	// each of its SRV records; names are looked up every few seconds. Each server is a target of
	// its own; conversations stay with one, unless that has more than its share of the load.
	Replicas []string `yaml:"replicas"`

	// The version of the Azure API, such as `2024-10-21`. If not set, the newer API without
	// versions is used.
	APIVersion string `yaml:"api_version"`

	// The API that completions are asked for by, if the provider has several: `chat` for chat
	// completions, `responses` for OpenAI's Responses API, or `auto` for Responses where a model
	// or a caller needs it, and chat completions otherwise. With Responses, requests to
	// `/v1/responses` are sent on in the caller's own words, except for what needs an entry in
	// `allow`. The default is `auto` for `openai` at OpenAI's own address and for `azure`, and
	// `chat` for all others. For `bedrock`, `native` is the Messages API for models of Anthropic
	// and the Responses API for those of OpenAI; without it all are called by Converse.
	API string `yaml:"api"`

	// For `anthropic` with a `base_url` of yours: whether that leads to Anthropic, which then gets threads.
	FirstParty bool `yaml:"first_party" default:"false"`

	// The region of Amazon Bedrock, such as `us-east-1`. Required for `bedrock`, and only used
	// there.
	Region string `yaml:"region"`

	// The ID of the AWS access key for `bedrock`. With `api: native`, a key of Bedrock's may be
	// given as `api_key` in place of an AWS key.
	AccessKeyID string `yaml:"access_key_id"`

	// The AWS secret access key for `bedrock`. Keep it out of the file, like `api_key`.
	SecretAccessKey Secret `yaml:"secret_access_key"`

	// The session token of a temporary AWS key.
	SessionToken Secret `yaml:"session_token"`

	// The API key. Keep it out of the file: write `${NAME}` for an environment variable or
	// `${file:/path}` for a file. If empty, no key is sent.
	APIKey Secret `yaml:"api_key"`

	// The tier (`free`, `basic` or `premium`) of models that the provider lists and that are
	// not under `models`. The list is fetched at the start, every hour, and by `sluice models
	// --refresh`. If not set, only the models under `models` are offered.
	Discover string `yaml:"discover"`

	// Additional keys for the same provider. Calls are spread over all keys. A key that is
	// refused or has reached its limit is paused while the others continue.
	APIKeys []Secret `yaml:"api_keys"`

	// Whether callers may pass image URLs to a provider that would fetch them from inside your
	// network: one whose `base_url` uses plain HTTP, a private address or a name without a
	// domain, and the kinds `vllm`, `llamacpp`, `lmstudio` and `ollama`. Otherwise images for
	// it must be sent as data: URLs. Set it only if the provider refuses private addresses
	// itself or cannot reach anything.
	AllowImageURLs bool `yaml:"allow_image_urls" default:"false"`

	// Whether the server connects to the provider while nobody calls it, every 15 seconds, to know
	// whether it is up. It sends no request. Without it only calls tell.
	Probe bool `yaml:"probe" default:"true"`

	// What callers may choose although you pay for it: `all`, or a list of names such as
	// `[web_search, service_tier]`. They are tools that the vendor runs, fields that choose the
	// model or the price, and ids of objects that are stored at the vendor. docs/providers/fields.md
	// lists them. Anything that is not listed never reaches the provider.
	Allow Allowed `yaml:"allow"`

	// The maximum number of concurrent calls to this provider. Further calls go to other
	// targets of their model, or wait a moment. 0 means no limit.
	MaxConcurrent int `yaml:"max_concurrent" default:"0"`

	// The timeouts of calls to this provider.
	Timeouts Timeouts `yaml:"timeouts"`
}

// Keys returns all keys of the provider. It returns one empty key if there are none, because a
// provider without keys is called as well.
func (p *Provider) Keys() []Secret {
	if p.SecretAccessKey != "" {
		return []Secret{p.SecretAccessKey}
	}
	if p.APIKey == "" && len(p.APIKeys) > 0 {
		return p.APIKeys
	}
	return append([]Secret{p.APIKey}, p.APIKeys...)
}

// Timeouts limits how long to wait for a provider.
type Timeouts struct {
	// The timeout for connecting.
	Connect time.Duration `yaml:"connect" default:"10s"`

	// The timeout for the first text, reasoning or tool call of a reply. After it, another
	// target is tried. 0 means two minutes for a stream and five for other replies.
	FirstContent time.Duration `yaml:"first_content" default:"0s"`

	// The timeout for the next part of a reply that has started.
	Silence time.Duration `yaml:"silence" default:"2m"`
}

// Plan changes a built-in plan. A nil field keeps the built-in value.
type Plan struct {
	// Requests per minute.
	RequestsPerMinute *Limit `yaml:"requests_per_minute"`

	// Concurrent calls.
	Concurrent *Limit `yaml:"concurrent"`

	// Tokens per minute, input and output together.
	TokensPerMinute *Limit `yaml:"tokens_per_minute"`

	// The monthly price in dollars, with at most 2 decimals.
	PriceUSD *Money `yaml:"price_usd"`

	// Units per month for each tier of models. The abuse score is the percentage of this
	// budget that was used. At 100 the account's keys are deactivated until you restore them.
	MonthlyUnits *Limit `yaml:"monthly_units"`

	// Video jobs that may be waiting or running at the same time.
	UnfinishedVideos *Limit `yaml:"unfinished_videos"`
}

// Blob controls where finished files are stored.
type Blob struct {
	// `files` for a folder, or `s3` for an S3-compatible object store.
	Kind string `yaml:"kind" default:"files"`

	// The folder for `files`. Processes that share a database must share this folder,
	// too. The default is `files` in the data folder.
	Dir string `yaml:"dir"`

	// The URL of the object store, such as `https://s3.eu-central-1.amazonaws.com`.
	Endpoint string `yaml:"endpoint"`

	// The region of the bucket. If empty, it is detected.
	Region string `yaml:"region"`

	// The bucket. It must exist.
	Bucket string `yaml:"bucket"`

	// The prefix of every object name, such as `sluice/`.
	Prefix string `yaml:"prefix"`

	// The access key of the object store.
	AccessKey Secret `yaml:"access_key"`

	// The secret key of the object store. Keep it out of the file: write `${NAME}` for an
	// environment variable or `${file:/path}` for a file.
	SecretKey Secret `yaml:"secret_key"`
}

// MCP limits the tool servers that callers name in their requests.
type MCP struct {
	// Hosts that may be called although their addresses are private, as names or addresses,
	// with or without a port.
	AllowHosts []string `yaml:"allow_hosts"`

	// The maximum number of MCP servers in one request, from 1 to 8.
	MaxServers int `yaml:"max_servers" default:"8"`

	// The maximum number of tools in one request, from 1 to 128: the tools of its MCP servers
	// and its own functions together.
	MaxTools int `yaml:"max_tools" default:"128"`

	// How many times a model may call MCP tools and continue within one request. After that it
	// must answer.
	MaxRounds int `yaml:"max_rounds" default:"16"`

	// The timeout of one MCP tool call.
	CallTimeout time.Duration `yaml:"call_timeout" default:"60s"`

	// The maximum size of an MCP tool result, in bytes as sent by the server.
	MaxResult int `yaml:"max_result" default:"1048576"`
}

// SMTP is a mail server.
type SMTP struct {
	// The address of the mail server, as host:port. Port 465 uses TLS from the start; other
	// ports use it if the server offers it.
	Server string `yaml:"server"`

	// The sender of mails, such as `Sluice <no-reply@example.com>`.
	From string `yaml:"from"`

	// The user name for the mail server. If empty, no login is attempted.
	User string `yaml:"user"`

	// The password for the mail server.
	Password Secret `yaml:"password"`
}

// Support is how customers reach support.
type Support struct {
	// The e-mail address of support. Customers see it, and a mail is sent to it when one of
	// them writes on the messages page.
	Email string `yaml:"email"`

	// The address of a page about support, such as a help centre.
	URL string `yaml:"url"`
}

// String returns how customers reach support in words, or "" if nothing is configured.
func (s Support) String() string {
	if s.Email != "" && s.URL != "" {
		return s.Email + " or " + s.URL
	}
	return s.Email + s.URL
}

// Site is how the pages look.
type Site struct {
	// The name of your service as people read it, such as `Example AI`. If not set: the
	// brand, or `Sluice` if that is the default, too.
	Name string `yaml:"name"`

	// The heading of the first page, in a few words. It has a default.
	Headline string `yaml:"headline"`

	// The sentence below the heading. It has a default.
	Intro string `yaml:"intro"`

	// A line at the foot of the public pages, such as the name and the address of your company.
	Footer string `yaml:"footer"`

	// The name of your company as invoices show it. If not set, they show the name of the service.
	Seller string `yaml:"seller"`

	// The postal address of your company for invoices. Begin a new line with `\n` in double
	// quotes, or use a block of YAML.
	SellerAddress string `yaml:"seller_address"`

	// The tax id of your company for invoices, such as a VAT number.
	SellerTaxID string `yaml:"seller_tax_id"`

	// The taxes that the prices of plans include. The first entry that fits a customer counts:
	// an invoice shows its tax, and the amount without it. Without a fitting entry an invoice
	// shows no tax. An invoice that was issued does not change.
	Taxes []Tax `yaml:"taxes"`

	// Whether customers may share a conversation of the playground by a link that everybody can
	// open. If false, links that exist lead nowhere.
	Sharing bool `yaml:"sharing" default:"true"`

	// The file of your logo: SVG, PNG or WebP of at most 64 KiB. It is shown 24 pixels high
	// beside the name, and is the icon of the pages. A reload reads it again.
	Logo string `yaml:"logo"`

	// The colour of links and buttons on light pages, as `#rrggbb`. It must be dark enough to
	// be read.
	Accent string `yaml:"accent"`

	// The colour of links and buttons on dark pages, as `#rrggbb`. It must be light enough to
	// be read.
	AccentDark string `yaml:"accent_dark"`
}

// Tax is a tax in the prices of plans, for some customers.
type Tax struct {
	// The country of the customers, as two letters such as `DE`. If not set: all countries, and
	// customers who have not named one.
	Country string `yaml:"country"`

	// Only customers who have given a tax id.
	WithTaxID bool `yaml:"with_tax_id"`

	// The name of the tax, such as `VAT`.
	Name string `yaml:"name"`

	// The rate in percent, from 0 to 100 with at most three decimals. 0 is for customers whose
	// invoices say why there is no tax.
	Percent Milli `yaml:"percent"`

	// A sentence below the total, such as `Reverse charge.`
	Note string `yaml:"note"`
}

// OIDC is an identity provider.
type OIDC struct {
	// The URL of the issuer, such as `https://accounts.example.com`. You trust it with e-mail
	// addresses: anyone it vouches for is signed in to the account with that address.
	Issuer string `yaml:"issuer"`

	// The name on the sign-in button.
	Name string `yaml:"name" default:"single sign-on"`

	// The client ID of this service at the identity provider. The redirect URL is `public_url`
	// followed by `/signin/provider/back`.
	ClientID string `yaml:"client_id"`

	// The client secret.
	ClientSecret Secret `yaml:"client_secret"`
}

// Billing controls how paid plans are sold.
type Billing struct {
	// The payment processor: `testpay` for built-in test cards, which move no money; `stripe`;
	// or `none` if plans are not for sale and you grant them. If not set: `testpay` on a
	// loopback address without `public_url`, until a request arrives through a proxy or for
	// another host; `none` otherwise.
	Processor string `yaml:"processor"`

	// The Stripe secret key. Required if `processor` is `stripe`.
	SecretKey Secret `yaml:"secret_key"`

	// The signing secret of the Stripe webhook. The webhook's URL is `public_url` followed by
	// `/webhooks/stripe`. Required if `processor` is `stripe`.
	WebhookSecret Secret `yaml:"webhook_secret"`

	// The URL of the Stripe API.
	APIURL string `yaml:"api_url" default:"https://api.stripe.com"`
}

// File returns the path of the configuration file that was read, or "" if there was none.
func (c *Config) File() string { return c.file }

// Warnings returns settings that are valid but probably a mistake, one sentence each.
func (c *Config) Warnings() []string { return c.warnings }

// RouterID returns the id of the router model.
func (c *Config) RouterID() string { return c.Brand + "/auto" }

// Origin returns the service's origin for links: the public URL, or one derived from the
// listen address.
func (c *Config) Origin() string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	scheme := "http://"
	if c.TLS.Enabled() {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(c.Listen)
	// After Load the address is always valid.
	if err != nil {
		return scheme + c.Listen
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		// "Every interface" is not an address that a client can call.
		host = "127.0.0.1"
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
