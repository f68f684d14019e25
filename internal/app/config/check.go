package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sluice/internal/account"
	"sluice/internal/kit/typo"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
)

// What the text of some settings is drawn from. A new kind of provider is one word more here.
var (
	// The allowed values of some settings. A new kind of provider is one more entry in
	// vendors.
	logFormats    = []string{"auto", "text", "json"}
	clients       = []string{"lean", "standard"}
	lanes         = []string{"on", "off", "debug"}
	unreadyWays   = []string{"auto", "close", "answer"}
	logLevels     = []string{"debug", "info", "warn", "error"}
	providerKinds = Kinds()
	modelTiers    = []string{"free", "basic", "premium"}                  // lowest first
	planNames     = []string{"none", "free", "basic", "premium", "scale"} // lowest first
)

// mostMetricsTags is how many tags can be listed for metrics. Each call is compared with all of them.
const mostMetricsTags = 50

// builtIn is what the warnings need to know about the built-in plans (docs/api.md#limits-by-plan,
// docs/api.md#plan-and-model-access).
var builtIn = map[string]struct {
	requestsPerMinute Limit
	// tiers is how many of modelTiers the plan includes.
	tiers int
}{
	"none":    {2, 1},
	"free":    {2, 1},
	"basic":   {10, 2},
	"premium": {30, 3},
	"scale":   {80, 3},
}

// check applies the rules that types cannot express, fills in values that follow from others,
// and records warnings.
func (r *record) check(c *Config) {
	r.checkService(c)
	r.checkModels(c, r.checkProviders(c))
	r.checkPrices(c)
	r.checkVideo(&c.Video)
	r.checkStorage(c)
	r.checkBilling(c)
	r.checkTraces(&c.Traces)
	r.checkAlerts(&c.Alerts)
	for _, name := range planNames {
		if price := c.Plans[name].PriceUSD; price != nil && *price%10_000 != 0 {
			r.fail("plans."+name+".price_usd", "a price has at most 2 decimals")
		}
	}
}

// checkService checks the settings of the service itself: addresses, names, limits and log.
func (r *record) checkService(c *Config) {
	r.checkAddress("listen", c.Listen)
	if c.MetricsListen != "" {
		r.checkAddress("metrics_listen", c.MetricsListen)
		if c.MetricsListen == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
			path := "metrics_listen"
			if _, given := r.places[path]; !given {
				path = "listen"
			}
			r.fail(path, "listen and metrics_listen are the same address; metrics need one of their own")
		}
	}
	for i, tag := range c.MetricsTags {
		path := index("metrics_tags", i)
		r.failIf(!account.IsTag(tag) && !account.IsTag(tag+"=x"), path, "%s is not the name of a tag, such as team, or a tag, such as team=search", r.shown(path, tag))
	}
	r.failIf(len(c.MetricsTags) > mostMetricsTags, "metrics_tags", "has %d tags; at most %d can be listed", len(c.MetricsTags), mostMetricsTags)
	r.failIf(c.Data == "", "data", "must be the path of a folder")
	r.failIf(!isBrand(c.Brand), "brand", "%s is not a brand; use up to 32 lower-case letters, digits and dashes, with no dash at either end", r.shown("brand", c.Brand))
	// The address of a database holds a password: messages never quote it.
	if u, err := url.Parse(c.Database); c.Database != "sqlite" && (err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql") {
		r.fail("database", `must be "sqlite" or an address such as postgres://user:password@host/name`)
	}
	r.checkCluster(c)
	r.checkSecret(c)
	r.failIf(c.PublicURL != "" && !isWebOrigin(c.PublicURL), "public_url", "must be an origin such as https://api.example.com: http or https, without a path and without a slash at the end")
	for i, origin := range c.CORSOrigins {
		if path := index("cors_origins", i); origin != "*" && !isOrigin(origin) {
			r.fail(path, `%s is not an origin; write "*" or one such as https://app.example.com, without a path and without a slash at the end`, r.shown(path, origin))
		}
	}
	r.failIf(c.MaxConnections < 10, "max_connections", "must be at least 10; got %d", c.MaxConnections)
	r.checkMCP(c.MCP)
	r.checkOneOf("http1_lane", c.HTTP1Lane, "lane", lanes)
	r.checkOneOf("unready", c.Unready, "way to treat connections", unreadyWays)
	r.checkOneOf("upstream_client", c.UpstreamClient, "client", clients)
	r.checkOneOf("log.format", c.Log.Format, "log format", logFormats)
	r.checkOneOf("log.level", c.Log.Level, "log level", logLevels)
	r.failIf(c.Log.MaxMiB < 0, "log.max_mib", "must be 0 (no limit) or more; got %d", c.Log.MaxMiB)
	r.failIf(c.Log.Keep < 0, "log.keep", "must be 0 or more; got %d", c.Log.Keep)
	r.checkTLS(c.TLS)
	r.checkUsage(c.Usage)
	r.checkResume(c.Resume)
	r.failIf(c.Router.Dial < 0 || c.Router.Dial > 100, "router.dial", "must be between 0 (cheapest) and 100 (best); got %d", c.Router.Dial)
	r.checkPages(c)
	r.checkStop(c)

	if c.PublicURL == "" && !isLoopback(c.Listen) {
		r.warn("listen", "%s can be reached from other machines, but public_url is empty, so links will say %s; set public_url", r.shown("listen", c.Listen), c.Origin())
	}
}

// checkCluster checks what several nodes need. The address of Redis may hold a password, so messages
// never quote it.
func (r *record) checkCluster(c *Config) {
	if c.Redis != "" {
		u, err := url.Parse(c.Redis.Reveal())
		if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "" {
			r.fail("redis", "must be an address such as redis://host:6379/0, or rediss://user:password@host:6379/0 for TLS")
		} else if c.Database == "sqlite" {
			r.warn("redis", "is not used: a SQLite database serves one node, which needs no Redis; set database to a PostgreSQL, or remove redis")
		}
	}
	if c.NodeAddress != "" {
		r.checkAddress("node_address", c.NodeAddress)
		if host, _, err := net.SplitHostPort(c.NodeAddress); err == nil && (host == "" || host == "0.0.0.0" || host == "::") {
			r.fail("node_address", "%s is no address that other machines can call; write the host as well, such as 10.0.0.11:8080", r.shown("node_address", c.NodeAddress))
		}
	}
	switch {
	case c.Cluster == "":
	case c.Cluster != "approximate":
		r.fail("cluster", `%s is not known; write "approximate", or leave it out`, r.shown("cluster", c.Cluster))
	case c.Redis != "":
		r.fail("cluster", "is for nodes without Redis, and redis is set; remove one of the two")
	case c.Database == "sqlite":
		r.warn("cluster", "is not used: a SQLite database serves one node; set database to a PostgreSQL, or remove cluster")
	}
}

// minSecret is the minimum length of a secret. A random hex string of 32 characters has 128
// bits.
const minSecret = 32

func (r *record) checkSecret(c *Config) {
	r.checkKey("secret", c.Secret)
	if n := len(c.Secret.Reveal()); n > 0 && n < minSecret {
		r.fail("secret", "must have at least %d characters; make one with: openssl rand -hex 32", minSecret)
	}
}

func (r *record) checkUsage(u Usage) {
	r.failIf(u.KeepDays < 0, "usage.keep_days", "must be 0 (forever) or more; got %d", u.KeepDays)
}

// checkResume checks that a stream fits into what is kept of its account, and that into what is kept of all.
func (r *record) checkResume(c Resume) {
	r.failIf(c.Patience < time.Second || c.Patience > time.Hour, "resume.patience", "must be from 1s to 1h; got %s", c.Patience)
	atMost := 1 << 20
	for _, size := range []struct {
		key string
		mib int
	}{{"resume.total_mib", c.TotalMiB}, {"resume.account_mib", c.AccountMiB}, {"resume.stream_mib", c.StreamMiB}} {
		if size.mib < 1 || size.mib > atMost {
			r.fail(size.key, "must be from 1 to %d; got %d", atMost, size.mib)
			return
		}
		atMost = size.mib
	}
}

// checkTLS checks that both files are given and readable. Their content is checked when the
// listener loads them.
func (r *record) checkTLS(tls TLS) {
	switch {
	case tls.Cert == "" && tls.Key == "":
		return
	case tls.Key == "":
		r.failAt(r.placeOf("tls.cert"), "tls.key", "is required with tls.cert")
	case tls.Cert == "":
		r.failAt(r.placeOf("tls.key"), "tls.cert", "is required with tls.key")
	}
	for _, file := range []struct{ path, name string }{{"tls.cert", tls.Cert}, {"tls.key", tls.Key}} {
		if file.name == "" {
			continue
		}
		if info, err := os.Stat(file.name); err != nil {
			r.fail(file.path, "cannot read %s: %s", r.shown(file.path, file.name), reason(err))
		} else if info.IsDir() {
			r.fail(file.path, "%s is a folder, not a file", r.shown(file.path, file.name))
		}
	}
}

// sandboxName is the name of the built-in provider. The ids of its models begin with it and a
// slash.
const sandboxName = "sandbox"

// checkProviders checks the providers and returns the path of each by name.
func (r *record) checkProviders(c *Config) map[string]string {
	names := map[string]string{}
	for i := range c.Providers {
		p, path := &c.Providers[i], index("providers", i)
		if first, taken := names[p.Name]; taken {
			r.fail(path+".name", "%s is also the name of %s; names must differ", r.shown(path+".name", p.Name), first)
		} else if p.Name == "" {
			r.fail(path+".name", "must not be empty")
		} else if p.Name == sandboxName {
			r.fail(path+".name", "%q is the name of the built-in provider; choose another", sandboxName)
		} else {
			names[p.Name] = path
		}
		r.checkVendor(path, p)
		p.BaseURL = strings.TrimRight(p.BaseURL, "/")
		r.checkKey(path+".api_key", p.APIKey)
		for i, key := range p.APIKeys {
			if r.checkKey(index(path+".api_keys", i), key); key == "" {
				r.fail(index(path+".api_keys", i), "must not be empty")
			}
		}
		r.failIf(p.MaxConcurrent < 0, path+".max_concurrent", "must be 0 (no limit) or more; got %d", p.MaxConcurrent)
		r.checkAllow(path+".allow", p.Allow)
		r.checkTimeouts(path+".timeouts", p.Timeouts)
		if p.Discover != "" {
			r.checkOneOf(path+".discover", p.Discover, "plan tier", modelTiers)
		}
	}
	// Models may refer to providers that were found in the environment.
	for _, f := range c.found {
		names[f.Name] = f.Variable
	}
	return names
}

// checkKey checks a key or password, and warns if it is written in the file itself.
func (r *record) checkKey(path string, key Secret) {
	if strings.ContainsFunc(key.Reveal(), func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
		r.fail(path, "must not contain spaces or line breaks")
	}
	if at := r.placeOf(path); key != "" && at.raw == "" && at.line > 0 { // not from a variable or flag, which have no line
		r.warn(path, "the key is written in the file; put it into the environment and write ${NAME} here")
	}
}

// checkAllow checks what callers may choose.
func (r *record) checkAllow(path string, names Allowed) {
	for i, name := range names {
		if problem := allowance.Check(name); problem != "" {
			at := index(path, i)
			r.fail(at, "%s %s", r.shown(at, name), problem)
		}
	}
}

// checkTimeouts checks a provider's timeouts. Silence is measured in whole seconds, so less
// makes no sense.
func (r *record) checkTimeouts(path string, t Timeouts) {
	r.failIf(t.Connect <= 0, path+".connect", "must be above 0")
	r.failIf(t.FirstContent != 0 && (t.FirstContent < time.Second || t.FirstContent > 5*time.Minute), path+".first_content", "must be 0, or from 1s to 5m")
	r.failIf(t.Silence < time.Second, path+".silence", "must be at least 1s")
}

// checkModels checks the models. Their providers are checked only if the providers themselves
// are valid: otherwise one mistake would be reported many times.
func (r *record) checkModels(c *Config, providers map[string]string) {
	ids := map[string]string{} // id → path of the model
	providersFailed := r.failedIn("providers")
	for i := range c.Models {
		m, path := &c.Models[i], index("models", i)
		if first, taken := ids[m.ID]; taken {
			r.fail(path+".id", "%s is also the id of %s; ids must differ", r.shown(path+".id", m.ID), first)
		} else if m.ID == "" || strings.ContainsFunc(m.ID, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
			r.fail(path+".id", "%s is not a model id; it must not be empty and must not contain spaces", r.shown(path+".id", m.ID))
		} else {
			ids[m.ID] = path
		}
		r.failIf(m.ID == c.RouterID(), path+".id", "%s is the id of the router; choose another one", r.shown(path+".id", m.ID))
		r.failIf(strings.HasPrefix(m.ID, sandboxName+"/"), path+".id", "ids that begin with %s/ belong to the built-in models; choose another one", sandboxName)
		if !providersFailed {
			r.checkTargets(m, path, providers)
		}
		r.checkOneOf(path+".plan", m.Plan, "plan tier", modelTiers)
		r.failIf(m.RequestMultiplier == 0, path+".request_multiplier", "must be above 0")
		r.failIf(m.ContextLength <= 0, path+".context_length", "must be above 0")
		if r.checkOneOf(path+".kind", m.Kind, "kind of model", modelKinds); m.Kind == embeddingKind {
			r.checkEmbedding(c, m, path)
		} else if m.MaxOutput <= 0 {
			r.fail(path+".max_output", "must be above 0")
		} else if m.MaxOutput > m.ContextLength && !r.failed[path+".context_length"] {
			r.fail(path+".max_output", "%d is more than the context_length of %d", m.MaxOutput, m.ContextLength)
		}
		r.checkAllow(path+".allow", m.Allow)
		r.failIf(m.Quality < 0 || m.Quality > 100, path+".quality", "must be between 1 and 100, or 0 if unknown; got %d", m.Quality)
		if m.Affinity != "" {
			r.checkOneOf(path+".affinity", m.Affinity, "affinity", affinities)
		}
		r.checkLife(m, path)
		r.warnUncallable(c, m, path)
	}
	r.checkFallbacks(c, ids)
	r.checkAliases(c, ids)
}

// checkLife checks the days on which a model begins and ends, and the efforts that it takes.
func (r *record) checkLife(m *Model, path string) {
	for _, d := range []struct{ at, day string }{{path + ".created", m.Created}, {path + ".shutdown_date", m.ShutdownDate}} {
		if _, err := day(d.day); err != nil {
			r.fail(d.at, "%s is not a day; write it as 2026-03-01", r.shown(d.at, d.day))
		}
	}
	for i, e := range m.Efforts {
		if at := fmt.Sprintf("%s.efforts[%d]", path, i); !chat.Effort(e).IsKnown() {
			r.fail(at, "%s is not an effort; it must be none, minimal, low, medium, high, xhigh or max", r.shown(at, e))
		}
	}
}

// checkAliases checks the aliases. A model that nobody configured may still be discovered, so an unknown one is only a
// warning if any can be.
func (r *record) checkAliases(c *Config, ids map[string]string) {
	if len(c.Aliases) > alias.Most {
		r.fail("aliases", "there are %d aliases; the most is %d", len(c.Aliases), alias.Most)
		return
	}
	discovers := c.Discover || slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Discover != "" })
	for _, name := range slices.Sorted(maps.Keys(c.Aliases)) {
		id, path := c.Aliases[name], join("aliases", name)
		_, known := ids[id]
		known = known || id == c.RouterID() || strings.HasPrefix(id, sandboxName+"/")
		_, taken := ids[name]
		switch err := alias.Check(name); {
		case err != nil:
			r.fail(path, "%v", err)
		case taken || name == c.RouterID():
			r.fail(path, "%s is the id of a model, which no alias can replace; rename one of them", quote(name))
		case known:
		case c.Aliases[id] != "":
			r.fail(path, "%s is an alias itself; write the id of the model", r.shown(path, id))
		case discovers && id != "":
			r.warn(path, "no configured model has the id %s, so the alias works only if a provider lists that model%s", r.shown(path, id), typo.DidYouMean(id, slices.Collect(maps.Keys(ids))))
		default:
			r.fail(path, "no model has the id %s%s", r.shown(path, id), typo.DidYouMean(id, slices.Collect(maps.Keys(ids))))
		}
	}
}

// embeddingKind is the kind of models that make embeddings.
const embeddingKind = "embedding"

var (
	modelKinds = []string{"chat", embeddingKind}
	affinities = []string{"off", "session", "prefix"}
)

// checkEmbedding checks what an embedding model cannot have.
func (r *record) checkEmbedding(c *Config, m *Model, path string) {
	r.failIf(m.MaxOutput != 0, path+".max_output", "an embedding model writes no text; leave it out")
	r.failIf(len(m.Fallbacks) > 0, path+".fallbacks", "an embedding model has no fallbacks: vectors of different models cannot be compared; use targets for several providers of the same model")
	for i := range m.Targets {
		for k := range c.Providers {
			if p := &c.Providers[k]; p.Name == m.Targets[i].Provider && p.Kind == "anthropic" {
				r.fail(path+".kind", "the provider %s has no embeddings", quote(p.Name))
			}
		}
	}
}

// checkTargets checks where a model is served, and turns the short form (provider, upstream)
// into a list with one target.
func (r *record) checkTargets(m *Model, path string, providers map[string]string) {
	short := len(m.Targets) == 0
	switch {
	case short && m.Provider == "":
		r.fail(path+".provider", "is required, but missing")
		return
	case short:
		m.Targets = []Target{{Provider: m.Provider, Upstream: m.Upstream, Weight: 1}}
	case m.Provider != "" || m.Upstream != "":
		r.fail(path+".targets", "cannot be combined with provider or upstream; list every provider in targets, or use provider and upstream alone")
		return
	}
	weights := 0
	for i := range m.Targets {
		t, at := &m.Targets[i], index(path+".targets", i)
		if short {
			at = path
		}
		if _, known := providers[t.Provider]; !known {
			r.fail(at+".provider", "no provider is called %s; add it under providers%s", r.shown(at+".provider", t.Provider), amongThe(providers))
		}
		if t.Upstream == "" {
			t.Upstream = m.ID
		}
		r.failIf(t.Weight < 0 || t.Weight > maxWeight, at+".weight", "must be from 0 to %d; got %d", maxWeight, t.Weight)
		weights += t.Weight
	}
	if weights == 0 {
		r.warn(path+".targets", "no target has a weight above 0, so all are used equally")
	}
}

// maxWeight is the largest weight, so shares can be as fine as one in a thousand.
const maxWeight = 1000

// checkFallbacks checks that the fallbacks of all models exist. Built-in models are recognised
// by their prefix.
func (r *record) checkFallbacks(c *Config, ids map[string]string) {
	embeds := map[string]bool{}
	for i := range c.Models {
		embeds[c.Models[i].ID] = c.Models[i].Kind == embeddingKind
	}
	for i := range c.Models {
		m := &c.Models[i]
		for k, id := range m.Fallbacks {
			path := index(index("models", i)+".fallbacks", k)
			_, known := ids[id]
			switch {
			case id == m.ID:
				r.fail(path, "%s cannot be its own fallback", r.shown(path, id))
			case embeds[id]:
				r.fail(path, "%s is an embedding model, which cannot be a fallback", r.shown(path, id))
			case id == c.RouterID():
				r.fail(path, "%s is the router, which cannot be a fallback; use the ids of models", r.shown(path, id))
			case !known && !strings.HasPrefix(id, sandboxName+"/"):
				r.fail(path, "no model has the id %s%s", r.shown(path, id), typo.DidYouMean(id, slices.Collect(maps.Keys(ids))))
			}
		}
	}
}

// amongThe lists the names of the providers for a message, if there are only a few.
func amongThe(providers map[string]string) string {
	if len(providers) == 0 || len(providers) > 8 {
		return ""
	}
	return ", or use one of " + strings.Join(slices.Sorted(maps.Keys(providers)), ", ")
}

// warnUncallable warns about plans whose whole limit per minute is less than what one call of
// the model counts as.
func (r *record) warnUncallable(c *Config, m *Model, path string) {
	tier := slices.Index(modelTiers, m.Plan)
	var plans []string
	for _, name := range planNames {
		allowance := builtIn[name].requestsPerMinute
		if changed := c.Plans[name].RequestsPerMinute; changed != nil {
			allowance = *changed
		}
		if tier >= 0 && tier < builtIn[name].tiers && allowance != Unlimited && int64(m.RequestMultiplier) > int64(allowance)*1000 {
			plans = append(plans, fmt.Sprintf("%s (%d)", name, allowance))
		}
	}
	if plans != nil {
		r.warn(path+".request_multiplier", "a call of %s counts as %s requests, more than these plans have per minute: %s; they can never call it",
			r.shown(path+".id", m.ID), m.RequestMultiplier, strings.Join(plans, ", "))
	}
}

func (r *record) checkOneOf(path, value, what string, allowed []string) {
	r.failIf(!slices.Contains(allowed, value), path, "%s is not %s %s; %s", r.shown(path, value), article(what), what, oneOf(allowed))
}

// article returns the indefinite article before a word.
func article(word string) string {
	if strings.ContainsRune("AEIOUaeiou", rune(word[0])) {
		return "an"
	}
	return "a"
}

func oneOf(allowed []string) string {
	if len(allowed) == 1 {
		return "expected " + allowed[0]
	}
	return "expected one of " + strings.Join(allowed, ", ")
}

func (r *record) checkAddress(path, address string) {
	if problem := barePort(address); problem != "" {
		r.fail(path, "%s", problem)
		return
	}
	host, port, err := net.SplitHostPort(address)
	if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || strings.ContainsAny(host, "/@ ") {
		r.fail(path, "%s is not an address; write host:port, such as 127.0.0.1:8080", r.shown(path, address))
	}
}

// barePort returns what is wrong with an address that is only a port, or "". It is not taken as it is: whether other
// machines may connect is not a thing to guess.
func barePort(address string) string {
	if _, err := strconv.ParseUint(address, 10, 16); err != nil {
		return ""
	}
	return fmt.Sprintf(`%s is only a port; write "127.0.0.1:%s" for this machine alone, or ":%s" for every network interface`, address, address, address)
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// isBrand reports whether the text is safe as a prefix of keys and model ids.
func isBrand(brand string) bool {
	outside := func(c rune) bool { return c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') }
	return brand != "" && len(brand) <= 32 && !strings.ContainsFunc(brand, outside) && strings.Trim(brand, "-") == brand
}

// isOrigin reports whether text is scheme://host or scheme://host:port and nothing else.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Hostname() != "" && text == u.Scheme+"://"+u.Host && !strings.ContainsAny(u.Host, "* ") && !strings.HasSuffix(text, ":")
}

func isWebOrigin(text string) bool {
	return isOrigin(text) && (strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://"))
}

// index returns the path of a list entry.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
