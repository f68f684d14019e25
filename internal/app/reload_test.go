package app_test

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/operate/admin"
	"sluice/internal/upstream/discovery"
)

// everything is a configuration in which every section and list has an entry, so that each setting
// can be changed.
const everything = `
providers:
- {name: lab, kind: openai, base_url: "http://127.0.0.1:1/v1"}
- {name: other, kind: openai, base_url: "http://127.0.0.1:1/v1"}
models:
- {id: one, provider: lab, plan: free, context_length: 1000, max_output: 100, fallbacks: [two], pricing: {input: 1}}
- {id: two, provider: lab, plan: free, context_length: 1000, max_output: 100}
prices:
- {model: one, above: [{tokens: 1000, input: 2}], tiers: {fast: 2}, regions: {us: 1.1}, calls: {search: 1}, seconds: {720p: 1},
   hours: [{days: mon, from: "09:00", to: "10:00", times: 2}]}
markup: {plans: {free: 1.2}, accounts: {acct_x: 1.1}}
aliases: {other: two}
plans: {free: {concurrent: 1}}
public_url: https://a.example
billing: {processor: none}
site: {taxes: [{name: VAT, percent: 19}]}
signup: open
alerts: {webhooks: [{name: pager, url: "http://127.0.0.1:1/x", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}]}
video: {providers: [{name: studio, kind: openai, base_url: "http://127.0.0.1:1/v1", model: m}]}
`

// changes are values for settings in which not every text means something.
var changes = map[string]string{
	"log.level": "debug", "upstream_client": "standard", "signup": "closed", "public_url": "https://b.example", "providers[].kind": "mistral",
	"providers[].name": "third", "providers[].discover": "basic", "models[].plan": "basic", "models[].kind": "embedding", "models[].targets[].provider": "other",
	"models[].created": "2026-03-01", "models[].shutdown_date": "2027-03-01", "video.plan": "basic", "video.provider": "studio", "video.providers[].kind": "veo", "providers[].base_url": "http://127.0.0.1:2/v1", "providers[].replicas": "http://127.0.0.1:3/v1",
	"video.providers[].base_url": "http://127.0.0.1:2/v1", "traces.follow": "all", "prices[].model": "two", "prices[].from": "2026-01-01", "prices[].until": "2030-01-01",
	"prices[].hours[].days": "tue", "prices[].hours[].from": "08:00", "prices[].hours[].to": "11:00", "prices[].hours[].zone": "+01:00", "traces.capture": "content", "site.accent": "#0b6e4f", "site.taxes[].country": "DE", "site.accent_dark": "#7be0b8",
}

// elsewhere are settings that config.Load turns into others, and whose change is that of the others.
var elsewhere = map[string]string{
	"shutdown_grace": "drain_timeout", "models[].provider": "models[].targets", "models[].upstream": "models[].targets", "storage": "blob", "tls.key": "tls.cert",
}

// TestEverySetting changes one setting after the other in a running server. Each is applied by the
// reload, or the log says that it needs a restart; never neither, never both.
func TestEverySetting(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	cert, key := writeCertificate(t, s.dir, 1, time.Now().Add(time.Hour))
	newCert, newKey := writeCertificate(t, t.TempDir(), 2, time.Now().Add(time.Hour))
	s.write(t, everything+"traces: {endpoint: \"http://127.0.0.1:9\"}\ntls: {cert: "+cert+", key: "+key+"}\n")
	logo := filepath.Join(s.dir, "logo.svg")
	if err := os.WriteFile(logo, []byte("<svg/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	var next atomic.Pointer[config.Config]
	log := &lines{}
	level := &slog.LevelVar{}
	cfg := s.config(t)
	if err := s.prepare(cfg); err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, &app.Options{
		Log: slog.New(slog.NewJSONHandler(log, nil)), Level: level, Servers: []discovery.Server{}, Load: func() (*config.Config, error) { return next.Load(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Abandon(); err != nil {
			t.Errorf("Abandon = %v", err)
		}
	}()
	// reload applies a configuration. It returns what is in force then, and the settings that the log
	// says need a restart.
	reload := func(c *config.Config) (string, []string) {
		t.Helper()
		before := len(log.String())
		next.Store(c)
		if err := a.Reload(); err != nil {
			t.Fatalf("Reload = %v", err)
		}
		return a.InForce(), restarts(t, log.String()[before:])
	}
	base, _ := reload(s.config(t))
	if again, _ := reload(s.config(t)); again != base {
		t.Fatalf("what is in force changes without a reason, so that changes show nothing:\n%s\n%s", base, again)
	}
	walked := 0
	eachLeaf(reflect.ValueOf(s.config(t)).Elem(), "", false, func(path string, restart bool, _ reflect.Value) {
		if elsewhere[path] != "" {
			return
		}
		walked++
		c := s.config(t)
		eachLeaf(reflect.ValueOf(c).Elem(), "", false, func(p string, _ bool, v reflect.Value) {
			if p == path {
				change(t, path, v)
			}
		})
		if path == "site.logo" {
			c.Site.Logo = logo
		}
		if path == "tls.cert" { // together with its key
			c.TLS = config.TLS{Cert: newCert, Key: newKey}
		}
		got, named := reload(c)
		if restart != slices.Contains(named, path) {
			t.Errorf("%s changed: the log names %q as needing a restart, and the tag of the field says %v", path, named, restart)
		}
		if restart && got != base {
			t.Errorf("%s changed, and with it what is in force, although the log says that it needs a restart", path)
		}
		if !restart && got == base {
			t.Errorf("%s changed: nothing of what is in force did, and the log does not say that it needs a restart", path)
		}
		base, _ = reload(s.config(t)) // adapters that were replaced are others now
	})
	if walked < 90 {
		t.Errorf("%d settings were changed, want all of them", walked)
	}
}

// eachLeaf visits every setting. In a list it visits those of the first entry.
func eachLeaf(v reflect.Value, path string, restart bool, visit func(path string, restart bool, v reflect.Value)) {
	for field, value := range v.Fields() {
		key := field.Tag.Get("yaml")
		if field.Anonymous {
			eachLeaf(value, path, restart, visit)
		}
		if key == "" {
			continue
		}
		at, restart := strings.TrimPrefix(path+"."+key, "."), restart || field.Tag.Get("restart") != ""
		inner := value
		if inner.Kind() == reflect.Pointer && !inner.IsNil() {
			inner = inner.Elem()
		}
		switch {
		case inner.Kind() == reflect.Struct && inner.Type() != reflect.TypeFor[netip.Prefix]():
			eachLeaf(inner, at, restart, visit)
		case inner.Kind() == reflect.Slice && inner.Type().Elem().Kind() == reflect.Struct && inner.Type().Elem() != reflect.TypeFor[netip.Prefix]():
			eachLeaf(inner.Index(0), at+"[]", restart, visit)
		case inner.Kind() == reflect.Map && inner.Type().Elem().Kind() == reflect.Struct:
			plan := reflect.New(inner.Type().Elem()).Elem()
			plan.Set(inner.MapIndex(reflect.ValueOf("free")))
			eachLeaf(plan, at+".<plan>", restart, visit)
			inner.SetMapIndex(reflect.ValueOf("free"), plan)
		default:
			visit(at, restart, value)
		}
	}
}

// change gives a setting another value.
func change(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Pointer {
		fresh := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem())
		}
		v.Set(fresh)
		v = fresh.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		if text := changes[path]; text != "" {
			v.SetString(text)
		} else {
			v.SetString(v.String() + "x")
		}
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(v.Int() + int64(time.Second))
		} else {
			v.SetInt(v.Int() + 20_000) // a price counts in cents, and less would not show
		}
	case reflect.Map:
		entry := reflect.New(v.Type().Elem()).Elem()
		if entry.Kind() == reflect.String {
			entry.SetString("one")
		} else {
			entry.SetInt(1_500_000)
		}
		v.SetMapIndex(reflect.ValueOf("another"), entry)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[[]netip.Prefix]() {
			v.Set(reflect.ValueOf([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}))
			return
		}
		entry := reflect.New(v.Type().Elem()).Elem()
		entry.SetString(cmp.Or(changes[path], "sandbox/small"))
		v.Set(reflect.Append(v, entry))
	default:
		t.Fatalf("%s has the kind %v, which this test cannot change; teach it", path, v.Kind())
	}
}

// restarts returns the settings that a part of the log names as needing a restart.
func restarts(t *testing.T, log string) (fields []string) {
	t.Helper()
	for line := range strings.Lines(log) {
		var e struct {
			Msg    string
			Fields []string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			continue // another line, whose fields have other types
		}
		if strings.Contains(e.Msg, "next start") {
			fields = append(fields, e.Fields...)
		}
	}
	return fields
}

// Settings that wait for a restart are named for as long as they wait: in the reply of a reload, in /readyz, which the
// doctor shows, and as a metric. A reload that changes nothing does not make them forgotten.
func TestRestartNeeded(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	s.write(t, "max_connections: 500\n")
	for range 2 {
		if got := must[admin.Reloaded](n, "reload", admin.Empty{}).RestartNeeded; len(got) != 1 || got[0] != "max_connections" {
			t.Errorf("reload = %q, want max_connections", got)
		}
		eventually(t, "the note in /readyz", func() bool {
			return strings.Contains(string(n.get("/readyz", "").body), "wait for a restart: max_connections")
		})
	}
	s.write(t, "")
	if got := must[admin.Reloaded](n, "reload", admin.Empty{}).RestartNeeded; len(got) != 0 {
		t.Errorf("reload of the first configuration = %q, want nothing to wait", got)
	}
	eventually(t, "no note in /readyz", func() bool {
		return !strings.Contains(string(n.get("/readyz", "").body), "wait for a restart")
	})
}
