package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// In the example a setting is commented out by "#" alone, or "#" and its indentation; explanations begin with "# ".
var setting = regexp.MustCompile(`(?m)^#([a-z]|  +[a-z-])`)

func uncomment(text string) string { return setting.ReplaceAllString(text, "$1") }

// loadExample loads a variant of the example, with the variable and the files it names.
func loadExample(t *testing.T, text string) *Config {
	t.Helper()
	for _, name := range []string{"cert.pem", "key.pem", "logo.svg"} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte("<svg/>"), 0o600); err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, "./"+name, file)
	}
	c, problem := loadText(t, text, "OPENAI_API_KEY=sk-example-key", "GEMINI_API_KEY=example-key", "SEALING_SECRET=0123456789abcdef0123456789abcdef", "AWS_ACCESS_KEY_ID=example", "AWS_SECRET_ACCESS_KEY=example", "AWS_SESSION_TOKEN=example", "S3_ACCESS_KEY=example", "S3_SECRET_KEY=example", "SMTP_PASSWORD=example", "COLLECTOR_KEY=example", "ALERT_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "OIDC_CLIENT_SECRET=example", "STRIPE_SECRET_KEY=example", "STRIPE_WEBHOOK_SECRET=example")
	if problem != "" {
		t.Errorf("Load(example) = %s\n%s", problem, text)
		return nil
	}
	if len(c.Warnings()) > 0 {
		t.Errorf("Load(example) warns %q\n%s", c.Warnings(), text)
	}
	return c
}

func TestExampleChangesNothing(t *testing.T) {
	t.Parallel()
	got := loadExample(t, Example())
	want, err := Load(Source{})
	if err != nil {
		t.Fatal(err)
	}
	got.file, got.found, got.from, want.from = "", nil, nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Load(example) = %+v, want the defaults %+v", got, want)
	}
}

func TestExampleUncommented(t *testing.T) {
	t.Parallel()
	all := uncomment(Example())
	c := loadExample(t, all)
	if c == nil {
		t.FailNow()
	}
	for _, path := range settingPaths(reflect.TypeFor[Config](), "") {
		if path == "shutdown_grace" { // an earlier name, which new installations need not learn
			continue
		}
		key := path[strings.LastIndex(path, ".")+1:]
		if !regexp.MustCompile(`(?m)^( |- )*` + key + `:`).MatchString(all) {
			t.Errorf("the example does not have %s", path)
		}
	}

	// Each section alone; models stand on a provider.
	sections := regexp.MustCompile(`(?m)^#[a-z].*\n(#  .*\n)*`).FindAllString(Example(), -1)
	if len(sections) != reflect.TypeFor[Config]().NumField()-5 {
		t.Errorf("the example has %d sections, want one for each field of Config but shutdown_grace", len(sections))
	}
	var providers string
	for _, section := range sections {
		text := uncomment(section)
		switch {
		case strings.HasPrefix(text, "providers:"):
			providers = text
		case strings.HasPrefix(text, "models:"):
			text = providers + text
		}
		loadExample(t, text)
	}

	// Each line that is not required commented out again, everything else present.
	required := regexp.MustCompile(`^ +(- )?(name|kind|base_url|region|access_key_id|secret_access_key|model|endpoint|bucket|access_key|secret_key|webhook_secret|secret|url|from|client_id|id|provider|plan|context_length|max_output|cert|key|- name|tokens|days|to|times|country|percent):|:$|: #`)
	lines := strings.Split(all, "\n")
	left := 0
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "#") || required.MatchString(line) {
			continue
		}
		left++
		changed := append([]string{}, lines...)
		changed[i] = "#" + line
		loadExample(t, strings.Join(changed, "\n"))
	}
	if left < 25 {
		t.Errorf("only %d lines of the example were left out in turn", left)
	}
}

// settingPaths are the paths of all settings that are not sections, as Docs writes them.
func settingPaths(t reflect.Type, path string) []string {
	var paths []string
	for _, field := range fieldsOf(t) {
		inside := join(path, field.Tag.Get("yaml"))
		if section := sectionType(field.Type); section != nil {
			switch field.Type.Kind() {
			case reflect.Slice:
				inside += "[]"
			case reflect.Map:
				inside += ".<plan>"
			}
			paths = append(paths, settingPaths(section, inside)...)
		} else {
			paths = append(paths, inside)
		}
	}
	return paths
}

func TestDocs(t *testing.T) {
	t.Parallel()
	docs := Docs()
	paths := settingPaths(reflect.TypeFor[Config](), "")
	if len(paths) != len(fieldDocs)-28+11 { // prices have 11 rates, and so have their bands; alerts, their webhooks, tls, router, log, traces, providers, timeouts, models, targets, pricing, prices, their bands and hours, markup, plans, usage, resume, mcp, smtp, support, site, its taxes, oidc, video, its providers, blob and billing are sections
		t.Fatalf("there are %d settings, want all of them", len(paths))
	}
	for _, path := range paths {
		if n := strings.Count(docs, "\n| `"+path+"` | "); n != 1 {
			t.Errorf("Docs() has %d rows for %s, want 1", n, path)
		}
	}
	for line := range strings.SplitSeq(docs, "\n") {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "|") && (len(cells) != 7 || strings.Contains(line, "|  |")) {
			t.Errorf("Docs() has the row %q, want 5 filled cells", line)
		}
	}
	for _, want := range []string{
		"| `listen` | text | `127.0.0.1:8080` | `SLUICE_LISTEN` | The address to serve",
		"| `tls.cert` | text | – | `SLUICE_TLS_CERT` | ",
		"| `cors_origins` | a list of text | `*` | `SLUICE_CORS_ORIGINS` | ",
		"| `models[].plan` | text | required | – | ",
		"| `models[].request_multiplier` | a decimal number from 0 to 1000000 with at most 3 places | `1` | – | ",
		"| `plans.<plan>.concurrent` | a whole number from 0, or \"unlimited\" | – | `SLUICE_PLANS_<PLAN>_CONCURRENT` | ",
		"\n## `providers[]`\n",
		"\n### `models[].pricing`\n",
	} {
		if !strings.Contains(docs, want) {
			t.Errorf("Docs() does not contain %q", want)
		}
	}
}

// The words the checks allow are the words the reference names.
func TestDocsNameWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for field, allowed := range map[string][]string{
		"Config.UpstreamClient": clients, "Config.HTTP1Lane": lanes, "Config.Unready": unreadyWays, "Log.Format": logFormats, "Log.Level": logLevels, "Provider.Kind": providerKinds, "Model.Plan": modelTiers, "Model.Affinity": affinities, "Config.Plans": planNames,
	} {
		for _, word := range allowed {
			if !strings.Contains(fieldDocs[field], "`"+word+"`") {
				t.Errorf("the comment on %s does not name %s", field, word)
			}
		}
	}
}
