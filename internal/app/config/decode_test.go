package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loadText loads text as sluice.yaml in a folder of its own. Messages name the file without the folder.
func loadText(t *testing.T, text string, environ ...string) (*Config, string) {
	t.Helper()
	return loadFrom(t, text, Source{Environ: environ})
}

func loadFrom(t *testing.T, text string, src Source) (*Config, string) {
	t.Helper()
	dir := t.TempDir()
	src.Path = filepath.Join(dir, "sluice.yaml")
	if err := os.WriteFile(src.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(src)
	if err != nil {
		return c, strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	}
	for i, warning := range c.warnings {
		c.warnings[i] = strings.ReplaceAll(warning, dir+string(filepath.Separator), "")
	}
	return c, ""
}

const (
	provider = "providers:\n- name: p\n  kind: openai\n  base_url: https://api.example.com/v1\n"            // 4 lines
	model    = "models:\n- id: m\n  provider: p\n  plan: free\n  context_length: 1000\n  max_output: 100\n" // 6 lines
)

// wrongFiles are mistakes and what is said about them, exactly.
var wrongFiles = []struct{ name, text, want string }{
	// Prices.
	{"price without a model", "prices:\n- input: 3\n", `sluice.yaml:2:3: prices[0].model: is required, but missing`},
	{"price that is no number", "prices:\n- model: m\n  input: cheap\n", `sluice.yaml:3:10: prices[0].input: expected an amount in dollars from 0 to 1000000 with at most nine decimals, found "cheap"`},
	{"price with ten decimals", "prices:\n- {model: m, output: 0.0000000001}\n", `sluice.yaml:2:22: prices[0].output: expected an amount in dollars from 0 to 1000000 with at most nine decimals, found 0.0000000001`},
	{"unknown bucket", "prices:\n- {model: m, cached: 1}\n", `sluice.yaml:2:14: prices[0].cached: unknown field`},
	{"price of nothing", "prices:\n- {model: m}\n", `sluice.yaml:2:3: prices[0]: has no price; write at least one, such as input: 3`},
	{"day", "prices:\n- {model: m, input: 1, from: soon}\n", `sluice.yaml:2:30: prices[0].from: "soon" is no day such as 2026-11-18, and no moment such as 2026-11-18T09:00:00Z`},
	{"end before the beginning", "prices:\n- {model: m, input: 1, from: 2026-02-01, until: 2026-01-01}\n", `sluice.yaml:2:3: prices[0]: until must be after from`},
	{"bands", "prices:\n- model: m\n  input: 1\n  above:\n  - {tokens: 200, input: 2}\n  - {tokens: 100, input: 3}\n", `sluice.yaml:6:14: prices[0].above[1].tokens: must be above 0 and above that of the band before`},
	{"factor of a tier", "prices:\n- {model: m, input: 1, tiers: {flex: 0}}\n", `sluice.yaml:2:38: prices[0].tiers.flex: expected a factor above 0 and at most 100 with at most six decimals, found 0`},
	{"hours", "prices:\n- model: m\n  input: 1\n  hours:\n  - {days: noon, from: \"09:00\", to: \"10:00\", times: 2}\n", `sluice.yaml:5:5: prices[0].hours[0]: hours are written as {days: mon-fri, from: "09:00", to: "12:00", zone: "+08:00", times: 2}`},
	{"two prices at once", "prices:\n- {model: m, input: 1}\n- {model: m, input: 2}\n", `sluice.yaml:3:3: prices[1]: prices[0] already has prices of "m" that begin at the same time; remove one of them, or give them different days in from`},
	{"markup of no plan", "markup: {plans: {gold: 2}}\n", `sluice.yaml:1:24: markup.plans.gold: "gold" is not a plan; expected one of none, free, basic, premium, scale`},
	{"markup of no account", "markup: {accounts: {a@example.com: 2}}\n", `sluice.yaml:1:36: markup.accounts.a@example.com: "a@example.com" is not the id of an account; "sluice account list" shows them`},
	// Syntax.
	{"unclosed list", "cors_origins: [a, b\n", `sluice.yaml:1:15: the list that begins with "[" is not closed`},
	{"unclosed mapping", "tls: {cert: a", `sluice.yaml:1:6: the mapping that begins with "{" is not closed`},
	{"unclosed mapping, then a key", "tls: {cert: a\nlisten: b\n", `sluice.yaml:2:1: expected "," or "}"; text with any of []{}, in it, such as ${NAME}, needs quotes inside braces`},
	{"bare expansion in braces", "tls: {cert: ${A}}\n", `sluice.yaml:1:14: expected "," or "}"; text with any of []{}, in it, such as ${NAME}, needs quotes inside braces`},
	{"bare expansion in a list", "cors_origins: [${A}]\n", `sluice.yaml:1:17: expected "," or "]"; text with any of []{}, in it, such as ${NAME}, needs quotes inside a list`},
	{"unclosed double quote", "data: \"a\nlisten: b\n", "sluice.yaml:1:7: the quoted text that begins here has no closing quote"},
	{"unclosed single quote", "data: 'a\n", "sluice.yaml:1:7: the quoted text that begins here has no closing quote"},
	{"tab", "log:\n\tlevel: info\n", "sluice.yaml:2:1: tabs are not allowed here; indent with spaces"},
	{"two colons", "data: a: b\n", `sluice.yaml:1:7: a "key: value" pair is not allowed here; check the indentation, or put a value with ": " in it in quotes`},
	{"indented too far", "data: a\n  listen: b\n", `sluice.yaml:1:7: a "key: value" pair is not allowed here; check the indentation, or put a value with ": " in it in quotes`},
	{"indented between", "log:\n    level: info\n  format: text\n", "sluice.yaml:3:3: this does not belong here; check that it lines up with its neighbours, or put the whole value in quotes"},
	{"text after quotes", "data: 'a' b\n", "sluice.yaml:1:11: the value has ended before this; check the indentation, or put the whole value in quotes"},
	{"no colon", "data: a\nlisten\n", `sluice.yaml:2:1: expected "key: value" here; check the colon, the space after it and the indentation`},
	{"no space after the colon", "data:a\nlisten: b\n", `sluice.yaml:1:1: expected "key: value" on one line; check the colon, the space after it and the indentation`},
	{"reserved character", "data: @a\n", "sluice.yaml:1:7: a value cannot begin with this character; put it in quotes"},
	{"percent", "data: %a\n", "sluice.yaml:1:7: a value cannot begin with this character; put it in quotes"},
	{"bare star in a list", "cors_origins: [*]\n", `sluice.yaml:1:17: a value cannot begin with "*" or "&"; put it in quotes`},
	{"bare star", "data: *\n", `sluice.yaml:1:7: aliases (*name) are not supported; write the value out, or put it in quotes if the * is part of it`},
	{"bare ampersand", "data: &\n", `sluice.yaml:1:7: a value cannot begin with "&"; put it in quotes`},
	{"dash on the line of the key", "cors_origins: - a\n", `sluice.yaml:1:15: an entry that begins with "- " is not allowed here; put it on its own line`},
	{"bar before text", "data: |a\n", `sluice.yaml:1:7: after "|" or ">" the text begins on the next line; put the value in quotes if the character is part of it`},
	{"unknown escape", `data: "\q"`, `sluice.yaml:1:9: this escape does not exist inside double quotes; write \\ for a backslash, or use single quotes`},
	{"comma alone", "cors_origins: [,]\n", `sluice.yaml:1:16: expected an entry of the list before ","`},
	{"bracket alone", "data: ]\n", `sluice.yaml:1:7: "]" without a "[" before it; put the value in quotes if it is part of it`},
	{"brace too many", "tls: {}}\n", "sluice.yaml:1:8: this does not belong here; check that it lines up with its neighbours, or put the whole value in quotes"},
	{"list as key", "? [a]\n: b\n", "sluice.yaml:2:1: this is not valid YAML; check the indentation and the quotes around here"},
	{"not UTF-8", "# caf\xe9\n", "sluice.yaml:1:6: the file is not UTF-8 text; save it in that encoding"},
	{"control character", "data: a\nlisten: \x00\n", "sluice.yaml:2:9: the control character U+0000 is not allowed"},
	{"deep brackets", strings.Repeat("[", 100_000), "sluice.yaml:1:33: lists and mappings are nested more than 32 deep"},
	{"deep dashes", strings.Repeat("- ", 100_000), "sluice.yaml:1:65: lists and mappings are nested more than 32 deep"},
	{"two documents", "data: a\n---\ndata: b\n", `sluice.yaml:3:1: a second document begins here; put all settings into one, without "---" between them`},
	{"directive", "%YAML 1.2\n---\ndata: a\n", "sluice.yaml:1:1: directives (% lines) are not supported; remove this line"},
	{"windows line ends", "data: a\r\n\r\nlisten: b\r\n", `sluice.yaml:3:9: listen: "b" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"byte order mark", "\ufefflisten: b\n", `sluice.yaml:1:9: listen: "b" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"columns count characters", "log: {format: äöü, level: ß}\n", "sluice.yaml:1:15: log.format: \"äöü\" is not a log format; expected one of auto, text, json\n" +
		"sluice.yaml:1:27: log.level: \"ß\" is not a log level; expected one of debug, info, warn, error"},

	// What YAML can do and a configuration need not.
	{"anchor", "data: &a b\n", "sluice.yaml:1:7: data: anchors (&name) are not supported; write the value out wherever it is needed"},
	{"alias", "data: *a\n", "sluice.yaml:1:7: data: aliases (*name) are not supported; write the value out, or put it in quotes if the * is part of it"},
	{"tag", "data: !!str 1\n", "sluice.yaml:1:7: data: tags (!name) are not supported; put the value in quotes if the ! is part of it"},
	{"merge key", "log:\n  <<: {level: info}\n", "sluice.yaml:2:3: log: merge keys (<<) are not supported; write the fields out"},
	{"question mark key", "? data\n: a\n", `sluice.yaml:1:1: write this key as plain text: "key: value"`},

	// Keys.
	{"unknown field", "colour: red\n", "sluice.yaml:1:1: colour: unknown field"},
	{"misspelt field", "\nlisten: :80\npublic_ulr: https://a\n", `sluice.yaml:3:1: public_ulr: unknown field; did you mean "public_url"?`},
	{"camel case field", provider + "  apiKey: a\n", `sluice.yaml:5:3: providers[0].apiKey: unknown field; did you mean "api_key"?`},
	{"upper case field", "Listen: :80\n", `sluice.yaml:1:1: Listen: unknown field; did you mean "listen"?`},
	{"number as key", "1: a\n", "sluice.yaml:1:1: 1: unknown field"},
	{"unknown inside a mapping", "tls:\n  certificate: a\n", "sluice.yaml:2:3: tls.certificate: unknown field"},
	{"empty key", "'': a\n", "sluice.yaml:1:1: the key of this value is empty"},
	{"empty key inside", "tls: {\"\": a}\n", "sluice.yaml:1:7: tls: the key of this value is empty"},
	{"unknown and overlong", strings.Repeat("k", 100) + ": a\n", "sluice.yaml:1:1: " + strings.Repeat("k", 60) + "…: unknown field"},
	{"key runs into its value", "{data=a}", `sluice.yaml:1:2: data: not a "key: value" pair; put a colon and a space between the two`},
	{"field twice", "listen: :80\ndata: a\nlisten: :81\n", "sluice.yaml:3:1: listen: given twice, on line 1 and again on line 3; remove one of them"},
	{"field twice in a list's entry", provider + "  name: q\n", "sluice.yaml:5:3: providers[0].name: given twice, on line 2 and again on line 5; remove one of them"},
	{"plan twice", "plans:\n  free: {}\n  free: {}\n", "sluice.yaml:3:3: plans.free: given twice, on line 2 and again on line 3; remove one of them"},
	{"unknown field twice", "colour: a\ncolour: b\n", "sluice.yaml:1:1: colour: unknown field"},

	// Types.
	{"list instead of settings", "- a\n", "sluice.yaml:1:1: expected a mapping, found a list"},
	{"text instead of settings", "hello\n", "sluice.yaml:1:1: expected a mapping, found text"},
	{"number for text", "data: 12\n", "sluice.yaml:1:7: data: expected text, found 12; put it in quotes"},
	{"truth value for text", "brand: true\n", "sluice.yaml:1:8: brand: expected text, found true; put it in quotes"},
	{"infinity for text", "brand: .inf\n", "sluice.yaml:1:8: brand: expected text, found .inf; put it in quotes"},
	{"list for text", "data: [a]\n", "sluice.yaml:1:7: data: expected text, found a list"},
	{"mapping for text", "data:\n  a: b\n", "sluice.yaml:2:3: data: expected text, found a mapping"},
	{"nothing for text", "data:\nlisten: :80\n", `sluice.yaml:1:6: data: has no value; write one, or remove the line ("" is the empty text)`},
	{"null for a truth value", "sandbox: ~\n", `sluice.yaml:1:10: sandbox: has no value; write one, or remove the line ("" is the empty text)`},
	{"yes", "sandbox: yes\n", `sluice.yaml:1:10: sandbox: expected true or false, found "yes"`},
	{"quoted truth value", "sandbox: 'true'\n", `sluice.yaml:1:10: sandbox: expected true or false, found "true"`},
	{"number for a truth value", "sandbox: 1\n", "sluice.yaml:1:10: sandbox: expected true or false, found 1"},
	{"number for a duration", "shutdown_grace: 30\n", "sluice.yaml:1:17: shutdown_grace: expected a duration such as 30s, found 30"},
	{"negative duration", "shutdown_grace: -1s\n", `sluice.yaml:1:17: shutdown_grace: expected a duration such as 30s, found "-1s"`},
	{"text for a list", "cors_origins: '*'\n", "sluice.yaml:1:15: cors_origins: expected a list of text, found text"},
	{"mapping for a list", "models: {}\n", "sluice.yaml:1:9: models: expected a list, found a mapping"},
	{"text for a mapping", "tls: cert.pem\n", "sluice.yaml:1:6: tls: expected a mapping, found text"},
	{"number for an entry", "models: [1]\n", "sluice.yaml:1:10: models[0]: expected a mapping, found a number or a word"},
	{"empty entry", "models:\n  -\n", "sluice.yaml:2:4: models[0]: this entry of the list is empty; fill it in or remove it"},
	{"not a network", "trusted_proxies: [10.0.0.0/33, localhost]\n", "sluice.yaml:1:19: trusted_proxies[0]: expected a network such as 10.0.0.0/8 or an address, found \"10.0.0.0/33\"\n" +
		"sluice.yaml:1:32: trusted_proxies[1]: expected a network such as 10.0.0.0/8 or an address, found \"localhost\""},
	{"long text", "sandbox: " + strings.Repeat("é", 100) + "\n", `sluice.yaml:1:10: sandbox: expected true or false, found "` + strings.Repeat("é", 60) + `…"`},
	{"block text for a duration", "shutdown_grace: |\n  soon\n", `sluice.yaml:1:17: shutdown_grace: expected a duration such as 30s, found "soon\n"`},

	// Service.
	{"listen without port", "listen: 127.0.0.1\n", `sluice.yaml:1:9: listen: "127.0.0.1" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"listen with a named port", "listen: localhost:http\n", `sluice.yaml:1:9: listen: "localhost:http" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"listen with a large port", "listen: :65536\n", `sluice.yaml:1:9: listen: ":65536" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"listen as URL", "listen: http://localhost:80\n", `sluice.yaml:1:9: listen: "http://localhost:80" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"listen with a port only", "listen: 8080\n", `sluice.yaml:1:9: listen: 8080 is only a port; write "127.0.0.1:8080" for this machine alone, or ":8080" for every network interface`},
	{"listen with a port as text", "listen: '8080'\n", `sluice.yaml:1:9: listen: 8080 is only a port; write "127.0.0.1:8080" for this machine alone, or ":8080" for every network interface`},
	{"listen empty", "listen: ''\n", `sluice.yaml:1:9: listen: "" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"metrics without port", "metrics_listen: localhost\n", `sluice.yaml:1:17: metrics_listen: "localhost" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"metrics on the same address", "metrics_listen: 127.0.0.1:8080\n", "sluice.yaml:1:17: metrics_listen: listen and metrics_listen are the same address; metrics need one of their own"},
	{"listen on the address of the metrics", "data: a\nlisten: 127.0.0.1:9090\n", "sluice.yaml:2:9: listen: listen and metrics_listen are the same address; metrics need one of their own"},
	{"data empty", `data: ""`, "sluice.yaml:1:7: data: must be the path of a folder"},
	{"brand", "brand: Acme Inc\n", `sluice.yaml:1:8: brand: "Acme Inc" is not a brand; use up to 32 lower-case letters, digits and dashes, with no dash at either end`},
	{"brand with a dash at the end", "brand: acme-\n", `sluice.yaml:1:8: brand: "acme-" is not a brand; use up to 32 lower-case letters, digits and dashes, with no dash at either end`},
	{"database", "database: mysql://root:hunter2@db/x\n", `sluice.yaml:1:11: database: must be "sqlite" or an address such as postgres://user:password@host/name`},
	{"redis", "database: postgres://db/x\nredis: http://u:hunter2@cache\n", `sluice.yaml:2:8: redis: must be an address such as redis://host:6379/0, or rediss://user:password@host:6379/0 for TLS`},
	{"redis garbled", "database: postgres://db/x\nredis: 'redis://u:hunter2@cache:port'\n", `sluice.yaml:2:8: redis: must be an address such as redis://host:6379/0, or rediss://user:password@host:6379/0 for TLS`},
	{"node address without a host", "node_address: ':8080'\n", `sluice.yaml:1:15: node_address: ":8080" is no address that other machines can call; write the host as well, such as 10.0.0.11:8080`},
	{"node address", "node_address: 10.0.0.11\n", `sluice.yaml:1:15: node_address: "10.0.0.11" is not an address; write host:port, such as 127.0.0.1:8080`},
	{"cluster", "cluster: exact\n", `sluice.yaml:1:10: cluster: "exact" is not known; write "approximate", or leave it out`},
	{"cluster with redis", "database: postgres://db/x\nredis: redis://cache\ncluster: approximate\n", `sluice.yaml:3:10: cluster: is for nodes without Redis, and redis is set; remove one of the two`},
	{"storage", "storage: gs://bucket\n", `sluice.yaml:1:10: storage: must be a folder, or a bucket such as s3://bucket/prefix?endpoint=https://s3.example.com`},
	{"storage without keys", "storage: s3://bucket?endpoint=https://s3.example.com\n", `sluice.yaml:1:10: storage: the keys of the bucket are missing: set blob.access_key and blob.secret_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment`},
	{"storage twice", "storage: ./files\nblob: {dir: ./other}\n", `sluice.yaml:1:10: storage: says where files are stored, and so does blob.dir; remove one of the two`},
	{"patience with streams", "resume: {patience: 2h}\n", "sluice.yaml:1:20: resume.patience: must be from 1s to 1h; got 2h0m0s"},
	{"a stream larger than its account's", "resume: {stream_mib: 64}\n", "sluice.yaml:1:22: resume.stream_mib: must be from 1 to 32; got 64"},
	{"nothing of an account's streams", "resume: {account_mib: 0}\n", "sluice.yaml:1:23: resume.account_mib: must be from 1 to 256; got 0"},
	{"database garbled", "database: 'postgres://u:hunter2@db:port/x'\n", `sluice.yaml:1:11: database: must be "sqlite" or an address such as postgres://user:password@host/name`},
	{"public URL with a slash", "public_url: https://a.example/\n", "sluice.yaml:1:13: public_url: must be an origin such as https://api.example.com: http or https, without a path and without a slash at the end"},
	{"public URL without scheme", "public_url: a.example\n", "sluice.yaml:1:13: public_url: must be an origin such as https://api.example.com: http or https, without a path and without a slash at the end"},
	{"public URL of another scheme", "public_url: ftp://a.example\n", "sluice.yaml:1:13: public_url: must be an origin such as https://api.example.com: http or https, without a path and without a slash at the end"},
	{"public URL with a user", "public_url: https://u:hunter2@a.example\n", "sluice.yaml:1:13: public_url: must be an origin such as https://api.example.com: http or https, without a path and without a slash at the end"},
	{"origin with a path", "cors_origins:\n- '*'\n- https://a.example/b\n", `sluice.yaml:3:3: cors_origins[1]: "https://a.example/b" is not an origin; write "*" or one such as https://app.example.com, without a path and without a slash at the end`},
	{"origin with a star", "cors_origins: ['https://*.example']\n", `sluice.yaml:1:16: cors_origins[0]: "https://*.example" is not an origin; write "*" or one such as https://app.example.com, without a path and without a slash at the end`},
	{"video plan", "video: {plan: scale}\n", `sluice.yaml:1:15: video.plan: "scale" is not a plan tier; expected one of free, basic, premium`},
	{"video model", "video: {model_id: a b}\n", `sluice.yaml:1:19: video.model_id: "a b" is not a model id; it must not be empty and must not contain spaces`},
	{"video workers", "video: {workers: -1}\n", `sluice.yaml:1:18: video.workers: must be 0 or more; got -1`},
	{"video lease", "video: {lease: 10ms}\n", `sluice.yaml:1:16: video.lease: must be at least 1s; got 10ms`},
	{"video keep", "video: {keep: 1s}\n", `sluice.yaml:1:15: video.keep: must be at least 1m; got 1s`},
	{"video sizes", "video: {max_file_mib: 0, account_mib: 0}\n", "sluice.yaml:1:23: video.max_file_mib: must be above 0\nsluice.yaml:1:39: video.account_mib: must be above 0"},
	{"video provider", "video: {provider: x}\n", `sluice.yaml:1:19: video.provider: no video provider is called "x"; add it under video.providers, or use sandbox`},
	{"old veo", "video: {providers: [{name: v, kind: veo, base_url: \"https://v.example\", model: veo-3.0-fast-generate-001}]}\n", `sluice.yaml:1:80: video.providers[0].model: Google ended "veo-3.0-fast-generate-001" on 2026-06-30; use veo-3.1-generate-preview, veo-3.1-fast-generate-preview or veo-3.1-lite-generate-preview`},
	{"openrouter's model", "video: {providers: [{name: v, kind: openrouter-video, base_url: \"https://v.example\", model: google/veo?}]}\n", `sluice.yaml:1:93: video.providers[0].model: "google/veo?" is not the name of a model or deployment`},
	{"video providers", "video: {providers: [{name: sandbox, kind: x, base_url: x, model: a/b}]}\n", "sluice.yaml:1:28: video.providers[0].name: \"sandbox\" is also the name of the built-in renderer; names must differ\n" +
		"sluice.yaml:1:43: video.providers[0].kind: \"x\" is not a kind of video provider; expected one of azure, openai, openrouter-video, veo\n" +
		"sluice.yaml:1:56: video.providers[0].base_url: must be an address such as https://api.example.com/v1: http or https, without ? and #\n" +
		"sluice.yaml:1:66: video.providers[0].model: \"a/b\" is not the name of a model or deployment"},
	{"blob kind", "blob: {kind: x}\n", `sluice.yaml:1:14: blob.kind: "x" is not a kind of storage; expected one of files, s3`},
	{"payment processor", "billing: {processor: paypal}\n", `sluice.yaml:1:22: billing.processor: "paypal" is not a payment processor; expected one of testpay, stripe, none`},
	{"Stripe without keys", "billing: {processor: stripe}\n", `sluice.yaml:1:10: billing.secret_key: is required if billing.processor is stripe
sluice.yaml:1:10: billing.webhook_secret: is required if billing.processor is stripe`},
	{"no connections", "max_connections: 0\n", `sluice.yaml:1:18: max_connections: must be at least 10; got 0`},
	{"too many servers", "mcp: {max_servers: 9}\n", `sluice.yaml:1:20: mcp.max_servers: must be between 1 and 8; got 9`},
	{"no time to call", "mcp: {call_timeout: 0s}\n", `sluice.yaml:1:21: mcp.call_timeout: must be between 1s and 10m; got 0s`},
	{"host as URL", "mcp: {allow_hosts: [http://a]}\n", `sluice.yaml:1:21: mcp.allow_hosts[0]: "http://a" is not a host; write a name or an address alone, such as tools.example.com`},
	{"alerts", "alerts: {email: [x], webhooks: [{name: a b, url: ftp://x, secret: x, events: [up]}], allow_hosts: [http://a], journal_lag: 0s, disk_free_mib: -1}\n", `sluice.yaml:1:18: alerts.email[0]: "x" is not a mail address; write one such as ops@example.com
sluice.yaml:1:40: alerts.webhooks[0].name: "a b" is not a name; use up to 40 letters, digits and dashes
sluice.yaml:1:50: alerts.webhooks[0].url: must be an address such as https://example.com/alerts: http or https, at most 2,000 bytes, without a user and without #
sluice.yaml:1:67: alerts.webhooks[0].secret: must be "whsec_" and the base64 of 24 to 64 random bytes; make one with: sluice alert secret
sluice.yaml:1:79: alerts.webhooks[0].events[0]: "up" is not an event; those are upstream.down, upstream.up, journal.growing, journal.recovered, disk.filling, disk.recovered, payment.failed, account.review
sluice.yaml:1:100: alerts.allow_hosts[0]: "http://a" is not a host; write a name or an address alone, such as hooks.example.com
sluice.yaml:1:124: alerts.journal_lag: must be at least 1s; got 0s
sluice.yaml:1:143: alerts.disk_free_mib: must be 0 (never) or more; got -1`},
	{"lane", "http1_lane: maybe\n", `sluice.yaml:1:13: http1_lane: "maybe" is not a lane; expected one of on, off, debug`},
	{"unready", "unready: die\n", `sluice.yaml:1:10: unready: "die" is not a way to treat connections; expected one of auto, close, answer`},
	{"a delay that outlasts the stop", "drain_timeout: 10s\nshutdown_delay: 11s\n", `sluice.yaml:2:17: shutdown_delay: is 11s, and drain_timeout, which includes it, is 10s; calls would be cut off before the delay is over. Make shutdown_delay shorter, or drain_timeout longer`},
	{"upstream client", "upstream_client: curl\n", `sluice.yaml:1:18: upstream_client: "curl" is not a client; expected one of lean, standard`},
	{"log", "log: {format: xml, level: loud}\n", "sluice.yaml:1:15: log.format: \"xml\" is not a log format; expected one of auto, text, json\n" +
		"sluice.yaml:1:27: log.level: \"loud\" is not a log level; expected one of debug, info, warn, error"},
	{"certificate without key", "tls:\n  cert: /dev/null\n", "sluice.yaml:2:9: tls.key: is required with tls.cert"},
	{"key without certificate", "tls:\n  key: /dev/null\n", "sluice.yaml:2:8: tls.cert: is required with tls.key"},
	{"certificate missing", "tls:\n  cert: /nowhere/cert.pem\n  key: /\n", "sluice.yaml:2:9: tls.cert: cannot read \"/nowhere/cert.pem\": no such file or directory\n" +
		"sluice.yaml:3:8: tls.key: \"/\" is a folder, not a file"},

	// Providers.
	{"empty provider", "providers: [{}]\n", "sluice.yaml:1:13: providers[0].name: is required, but missing\n" +
		"sluice.yaml:1:13: providers[0].kind: is required, but missing"},
	{"auto elsewhere", "providers: [{name: p, kind: groq, api_key: k, api: auto}]\n", "sluice.yaml:1:52: providers[0].api: \"auto\" is not an API; expected one of chat, responses"},
	{"azure without address", "providers: [{name: p, kind: azure}]\n", "sluice.yaml:1:13: providers[0].base_url: is required for this kind: the address of your resource, such as https://mine.openai.azure.com"},
	{"version of another", "providers: [{name: p, kind: groq, api_version: '1'}]\n", "sluice.yaml:1:48: providers[0].api_version: is only for the kind azure"},
	{"bedrock without keys", "providers: [{name: p, kind: bedrock, api_key: hunter2}]\n", "sluice.yaml:1:13: providers[0].region: is required for the kind bedrock\n" +
		"sluice.yaml:1:13: providers[0].access_key_id: is required for the kind bedrock\n" +
		"sluice.yaml:1:13: providers[0].secret_access_key: is required for the kind bedrock\n" +
		"sluice.yaml:1:47: providers[0].api_key: is not for the kind bedrock without api: native; give access_key_id and secret_access_key"},
	{"native bedrock with two keys", "providers: [{name: p, kind: bedrock, api: native, region: us-east-1, api_key: hunter2, secret_access_key: hunter2}]\n", "sluice.yaml:1:107: providers[0].secret_access_key: is not used with an api_key; remove one of the two"},
	{"native bedrock without keys", "providers: [{name: p, kind: bedrock, api: native, region: us-east-1}]\n", "sluice.yaml:1:13: providers[0].access_key_id: is required for the kind bedrock\n" +
		"sluice.yaml:1:13: providers[0].secret_access_key: is required for the kind bedrock"},
	{"another API of bedrock", "providers: [{name: p, kind: bedrock, api: responses, region: us-east-1, access_key_id: AKIA, secret_access_key: hunter2}]\n", `sluice.yaml:1:43: providers[0].api: "responses" is not an API; expected native`},
	{"native of another", "providers: [{name: p, kind: groq, api: native}]\n", `sluice.yaml:1:40: providers[0].api: "native" is not an API; expected one of chat, responses`},
	{"region of another", "providers: [{name: p, kind: groq, region: us-east-1}]\n", "sluice.yaml:1:43: providers[0].region: is only for the kind bedrock"},
	{"provider without name", strings.Replace(provider, "name: p", "name: ''", 1), "sluice.yaml:2:9: providers[0].name: must not be empty"},
	{"provider twice", provider + "- name: p\n  kind: openai\n  base_url: http://a\n", `sluice.yaml:5:9: providers[1].name: "p" is also the name of providers[0]; names must differ`},
	{"kind", strings.Replace(provider, "kind: openai", "kind: cohere", 1), `sluice.yaml:3:9: providers[0].kind: "cohere" is not a kind of provider; expected one of ` + strings.Join(Kinds(), ", ")},
	{"base URL", strings.Replace(provider, "https://api", "ftp://u:hunter2@api", 1), "sluice.yaml:4:13: providers[0].base_url: must be an address such as https://api.example.com/v1: http or https, without ? and #"},
	{"base URL with a query", strings.Replace(provider, "/v1", "/v1?key=hunter2", 1), "sluice.yaml:4:13: providers[0].base_url: must be an address such as https://api.example.com/v1: http or https, without ? and #"},
	{"base URL garbled", strings.Replace(provider, "https://api.example.com/v1", "'https://hunter2@[api'", 1), "sluice.yaml:4:13: providers[0].base_url: must be an address such as https://api.example.com/v1: http or https, without ? and #"},
	{"key is a number", provider + "  api_key: 1234567890\n", "sluice.yaml:5:12: providers[0].api_key: expected text, found a number or a word; put it in quotes"},
	{"key with a line break", provider + "  api_key: |\n    hunter2\n", "sluice.yaml:5:12: providers[0].api_key: must not contain spaces or line breaks"},

	// Models.
	{"model with targets and a provider", provider + model + "  targets: [{provider: p}]\n", "sluice.yaml:11:12: models[0].targets: cannot be combined with provider or upstream; list every provider in targets, or use provider and upstream alone"},
	{"target at nobody", provider + strings.Replace(model, "provider: p", "targets: [{provider: q, weight: -1}]", 1), "sluice.yaml:7:24: models[0].targets[0].provider: no provider is called \"q\"; add it under providers, or use one of p\n" +
		"sluice.yaml:7:35: models[0].targets[0].weight: must be from 0 to 1000; got -1"},
	{"fallbacks", provider + model + "  fallbacks: [m, service/auto, n, sandbox/small]\n", "sluice.yaml:11:15: models[0].fallbacks[0]: \"m\" cannot be its own fallback\n" +
		"sluice.yaml:11:18: models[0].fallbacks[1]: \"service/auto\" is the router, which cannot be a fallback; use the ids of models\n" +
		"sluice.yaml:11:32: models[0].fallbacks[2]: no model has the id \"n\""},
	{
		"aliases", provider + model + "aliases: {a*b: m, m: m, x: n, y: x, z: '', 'g-*': m, s: sandbox/small, r: service/auto}\ndiscover: false\n",
		"sluice.yaml:11:16: aliases.a*b: only the last character of an alias may be an asterisk; got \"a*b\"\n" +
			"sluice.yaml:11:22: aliases.m: \"m\" is the id of a model, which no alias can replace; rename one of them\n" +
			"sluice.yaml:11:28: aliases.x: no model has the id \"n\"\n" +
			"sluice.yaml:11:34: aliases.y: \"x\" is an alias itself; write the id of the model\n" +
			"sluice.yaml:11:40: aliases.z: no model has the id \"\"",
	},
	{
		"replicas", "providers:\n- {name: p, kind: vllm, base_url: 'http://10.0.0.9/v1', replicas: ['http://10.0.0.1:8000/v1', 'http://u:secret@10.0.0.2:8000/v1', 'dns+http://10.0.0.1:8000/v2', 10.0.0.3, 'dnssrv+http://a.test:80/v1']}\n" +
			"- {name: q, kind: anthropic, replicas: ['http://10.0.0.1:8000/v1']}\n",
		"sluice.yaml:2:35: providers[0].base_url: is not used with replicas; remove one of the two\n" +
			"sluice.yaml:2:95: providers[0].replicas[1]: must not contain a user or a password; use api_key\n" +
			"sluice.yaml:2:131: providers[0].replicas[2]: 10.0.0.1:8000 is also in providers[0].replicas[0]; hosts and ports must differ\n" +
			"sluice.yaml:2:162: providers[0].replicas[3]: must be an address such as http://10.0.0.1:8000/v1, or dns+http://vllm.default.svc:8000/v1 for every address of a name\n" +
			"sluice.yaml:2:172: providers[0].replicas[4]: must not have a port: SRV records say it\n" +
			"sluice.yaml:3:40: providers[1].replicas: is not for the kind anthropic: its servers are the vendor's",
	},
	{"timeouts", provider + "  timeouts: {connect: 0s, first_content: 1ms, silence: 0s}\n  max_concurrent: -1\n  api_keys: ['', 'a b']\n", "sluice.yaml:5:23: providers[0].timeouts.connect: must be above 0\n" +
		"sluice.yaml:5:42: providers[0].timeouts.first_content: must be 0, or from 1s to 5m\n" +
		"sluice.yaml:5:56: providers[0].timeouts.silence: must be at least 1s\n" +
		"sluice.yaml:6:19: providers[0].max_concurrent: must be 0 (no limit) or more; got -1\n" +
		"sluice.yaml:7:14: providers[0].api_keys[0]: must not be empty\n" +
		"sluice.yaml:7:18: providers[0].api_keys[1]: must not contain spaces or line breaks"},
	{"model without anything", provider + "models:\n-\n  description: a\n", "sluice.yaml:7:3: models[0].id: is required, but missing\n" +
		"sluice.yaml:7:3: models[0].plan: is required, but missing\n" +
		"sluice.yaml:7:3: models[0].context_length: is required, but missing\n" +
		"sluice.yaml:7:3: models[0].max_output: is required, but missing\n" +
		"sluice.yaml:7:3: models[0].provider: is required, but missing"},
	{"plan of a model", provider + strings.Replace(model, "plan: free", "plan: gold", 1), `sluice.yaml:8:9: models[0].plan: "gold" is not a plan tier; expected one of free, basic, premium`},
	{"plan of a model, scale", provider + strings.Replace(model, "plan: free", "plan: scale", 1), `sluice.yaml:8:9: models[0].plan: "scale" is not a plan tier; expected one of free, basic, premium`},
	{"no providers", model, `sluice.yaml:3:13: models[0].provider: no provider is called "p"; add it under providers`},
	{"another provider", provider + strings.Replace(model, "provider: p", "provider: q", 1), `sluice.yaml:7:13: models[0].provider: no provider is called "q"; add it under providers, or use one of p`},
	{"provider with mistakes", strings.Replace(provider, "name: p", "name: 1", 1) + model, "sluice.yaml:2:9: providers[0].name: expected text, found 1; put it in quotes"},
	{"model twice", provider + model + strings.TrimPrefix(model, "models:\n"), `sluice.yaml:11:7: models[1].id: "m" is also the id of models[0]; ids must differ`},
	{"id with a space", provider + strings.Replace(model, "id: m", "id: m x", 1), `sluice.yaml:6:7: models[0].id: "m x" is not a model id; it must not be empty and must not contain spaces`},
	{"id empty", provider + strings.Replace(model, "id: m", "id: ''", 1), `sluice.yaml:6:7: models[0].id: "" is not a model id; it must not be empty and must not contain spaces`},
	{"id of the router", "brand: acme\n" + provider + strings.Replace(model, "id: m", "id: acme/auto", 1), `sluice.yaml:7:7: models[0].id: "acme/auto" is the id of the router; choose another one`},
	{"context length of 0", provider + strings.Replace(model, "context_length: 1000", "context_length: 0", 1), "sluice.yaml:9:19: models[0].context_length: must be above 0"},
	{"negative output", provider + strings.Replace(model, "max_output: 100", "max_output: -1", 1), "sluice.yaml:10:15: models[0].max_output: must be above 0"},
	{"output above context", provider + strings.Replace(model, "max_output: 100", "max_output: 1001", 1), "sluice.yaml:10:15: models[0].max_output: 1001 is more than the context_length of 1000"},
	{"created on no day", provider + model + "  created: 2026-02-30\n", "sluice.yaml:11:12: models[0].created: \"2026-02-30\" is not a day; write it as 2026-03-01"},
	{"number in quotes", provider + strings.Replace(model, "1000", "'1000'", 1), `sluice.yaml:9:19: models[0].context_length: expected a whole number, found "1000"`},
	{"number in octal", provider + strings.Replace(model, "1000", "01000", 1), "sluice.yaml:9:19: models[0].context_length: expected a whole number, found 01000"},
	{"number too large", provider + strings.Replace(model, "1000", "99999999999999999999", 1), `sluice.yaml:9:19: models[0].context_length: expected a whole number, found "99999999999999999999"`},
	{"number with a fraction", provider + strings.Replace(model, "1000", "1000.5", 1), "sluice.yaml:9:19: models[0].context_length: expected a whole number, found 1000.5"},
	{"multiplier of 0", provider + model + "  request_multiplier: 0\n", "sluice.yaml:11:23: models[0].request_multiplier: must be above 0"},
	{"multiplier too fine", provider + model + "  request_multiplier: 1.2345\n", "sluice.yaml:11:23: models[0].request_multiplier: expected a decimal number from 0 to 1000000 with at most 3 places, found 1.2345"},
	{"multiplier negative", provider + model + "  request_multiplier: -1\n", "sluice.yaml:11:23: models[0].request_multiplier: expected a decimal number from 0 to 1000000 with at most 3 places, found -1"},
	{"unit cost", provider + model + "  unit_cost: cheap\n", `sluice.yaml:11:14: models[0].unit_cost: expected a decimal number from 0 to 1000000 with at most 3 places, found "cheap"`},
	{"pricing", provider + model + "  pricing: {input: 0.0000001, outptu: 1}\n", "sluice.yaml:11:20: models[0].pricing.input: expected an amount in dollars such as 0.25, found 0.0000001\n" +
		`sluice.yaml:11:31: models[0].pricing.outptu: unknown field; did you mean "output"?`},

	// Plans.
	{"unknown plan", "plans:\n  gold: {}\n", `sluice.yaml:2:3: plans.gold: "gold" is not a plan; expected one of none, free, basic, premium, scale`},
	{"plan is a number", "plans:\n  free: 2\n", "sluice.yaml:2:9: plans.free: expected a mapping, found a number or a word"},
	{
		"limits", "plans:\n  free:\n    requests_per_minute: -1\n    concurrent: 1.5\n    tokens_per_minute: infinite\n    price_usd: 9.999\n",
		"sluice.yaml:3:26: plans.free.requests_per_minute: expected a whole number from 0, or \"unlimited\", found -1\n" +
			"sluice.yaml:4:17: plans.free.concurrent: expected a whole number from 0, or \"unlimited\", found 1.5\n" +
			"sluice.yaml:5:24: plans.free.tokens_per_minute: expected a whole number from 0, or \"unlimited\", found \"infinite\"\n" +
			"sluice.yaml:6:16: plans.free.price_usd: a price has at most 2 decimals",
	},

	// Several at once, in the order of the file.
	{"order", "log: {level: loud}\nlisten: nowhere\ncolour: red\nbrand: NO\n", "sluice.yaml:1:14: log.level: \"loud\" is not a log level; expected one of debug, info, warn, error\n" +
		"sluice.yaml:2:9: listen: \"nowhere\" is not an address; write host:port, such as 127.0.0.1:8080\n" +
		"sluice.yaml:3:1: colour: unknown field\n" +
		"sluice.yaml:4:8: brand: \"NO\" is not a brand; use up to 32 lower-case letters, digits and dashes, with no dash at either end"},
}

func TestLoadWrongFile(t *testing.T) {
	t.Parallel()
	for _, test := range wrongFiles {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, got := loadText(t, test.text)
			if got != test.want {
				t.Errorf("Load(%.200q) =\n%s\nwant\n%s", test.text, got, test.want)
			}
			if c != nil {
				t.Errorf("Load(%.200q) also returns a configuration", test.text)
			}
		})
	}
}

func TestLoadReportsTwentyMistakes(t *testing.T) {
	t.Parallel()
	var text, want []string
	for i := range 25 {
		text = append(text, fmt.Sprintf("field%d: a", i))
		want = append(want, fmt.Sprintf("sluice.yaml:%d:1: field%d: unknown field", i+1, i))
	}
	want = want[:20]
	want[19] += " (and 5 more mistakes after this one)"
	_, got := loadText(t, strings.Join(text, "\n"))
	if got != strings.Join(want, "\n") {
		t.Errorf("Load =\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestErrorsCanBeTakenApart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte("\nlog: {level: loud}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Source{Path: path})
	got, ok := errors.AsType[*Error](err)
	want := Error{File: path, Line: 2, Column: 14, Field: "log.level", Problem: `"loud" is not a log level; expected one of debug, info, warn, error`}
	if !ok || *got != want {
		t.Errorf("Load = %#v, want %#v", err, want)
	}
}

// Whatever is wrong with a line that holds a key, no message repeats the key.
func TestNoSecretInErrors(t *testing.T) {
	t.Parallel()
	const secret = "sk-hunter2"
	for _, line := range []string{
		"api_key:SECRET", "api_key SECRET", "api_key=SECRET", "SECRET", "- SECRET", "api_key: [SECRET]", "api_key: {SECRET}", "api_key: {SECRET: a}",
		"api_key: SECRET: a", "api_key: 'SECRET' a", "api_key: 'SECRET", `api_key: "SECRET`, `api_key: "\qSECRET"`, "api_key: |SECRET", "api_key: >SECRET",
		"api_key: @SECRET", "api_key: `SECRET`", "api_key: !SECRET", "api_key: !SECRET a", "api_key: !!SECRET a", "api_key: &SECRET", "api_key: &SECRET a", "api_key: *SECRET",
		"api_key: %SECRET", "api_key: SECRET]", "api_key: SECRET a", "api_key: [SECRET", "api_key: {SECRET", "api_key: SECRET\n   - a", "api_key: |\n    SECRET\n", "api_key: a\n  api_key: SECRET",
		"{name: a, api_key SECRET}", "{name: a, api_key=SECRET}", "{name: a, api_key: SECRET: b}", "api_key: SECRET\n  tls: a", "api_key: ${SECRET", "api_key: ${file:/nowhere}SECRET", "api_key: ${NO}SECRET",
		"base_url: SECRET", "base_url: https://u:SECRET@[a", "base_url: https://a?key=SECRET",
	} {
		for _, before := range []string{"providers:\n- name: a\n  ", "providers:\n- ", "providers:\n  ", "providers: ", ""} {
			text := before + strings.ReplaceAll(line, "SECRET", secret) + "\n"
			if _, got := loadText(t, text); strings.Contains(got, "hunter2") {
				t.Errorf("Load(%q) = %s, which holds the key", text, got)
			}
		}
	}
	for _, line := range []string{"database: a${S}", "public_url: ${S}", "tls: {cert: '${S}', key: '${file:FILE}'}", "sandbox: ${S}", "shutdown_grace: ${S}", "brand: ${S} x", "log: {level: '${S}'}", "cors_origins: ['${S}']", "trusted_proxies: ['${S}']", "listen: ${file:FILE}", provider + "  api_key: '${S} a'"} {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		_, got := loadText(t, strings.ReplaceAll(line, "FILE", file), "S="+secret)
		if got == "" || strings.Contains(got, "hunter2") {
			t.Errorf("Load(%q) = %q, want an error without the value of the variable", line, got)
		}
	}
}
