package deploycheck

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sluice/bench/process"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/porttest"
	"sluice/internal/testkit/redistest"
)

func TestRules(t *testing.T) {
	t.Parallel()
	needs(t, "promtool", "prometheus")
	dir := filepath.Join(root, "deploy/prometheus")
	run(t, "promtool", "check", "config", filepath.Join(dir, "prometheus.yaml"))
	run(t, "promtool", "test", "rules", filepath.Join(dir, "alerts_test.yaml"))
}

// alert is a rule of deploy/prometheus/alerts.yaml.
type alert struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal([]byte(read(t, "deploy/prometheus/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// TestAlertsAreExplained wants a heading in docs/care/alerts.md for each alert, which says what to do, and a
// line in the test that makes it fire.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	docs, test := read(t, "docs/care/alerts.md"), read(t, "deploy/prometheus/alerts_test.yaml")
	for _, a := range alerts(t) {
		if !strings.Contains(docs, "\n### "+a.Alert+"\n") {
			t.Errorf("docs/care/alerts.md has no heading ### %s", a.Alert)
		}
		if want := "docs/care/alerts.md#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("runbook_url of %s = %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		if !strings.Contains(test, `alertname="`+a.Alert+`"`) {
			t.Errorf("alerts_test.yaml does not make %s fire", a.Alert)
		}
		if s := a.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("severity of %s = %q, want page or ticket", a.Alert, s)
		}
	}
}

// queries returns the expressions of the dashboard by the title of their panel, with the variables of
// Grafana filled in.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Query string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/sluice.json")), &board); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$node", ".*", "$__rate_interval", "1m")
	all := map[string][]string{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], fill.Replace(target.Expr))
		}
	}
	return all
}

// site is a running Sluice with PostgreSQL and Redis, so that it has all metrics, and a Prometheus that
// reads them.
type site struct {
	key                      string
	api, metrics, prometheus string // addresses
	client                   *http.Client
}

// TestQueries starts Sluice and Prometheus. Every query of the dashboard must return something, every
// metric that an alert names must exist, and Prometheus must be able to evaluate every alert.
func TestQueries(t *testing.T) {
	t.Parallel()
	needs(t, "prometheus", "prometheus")
	s := startSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	left := queries(t)
	// Prometheus needs two samples for a rate, and requests between them.
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		s.call(t)
		for title, list := range left {
			list = slices.DeleteFunc(slices.Clone(list), func(expr string) bool { return s.returns(t, expr) })
			if left[title] = list; len(list) == 0 {
				delete(left, title)
			}
		}
		rules := s.rules(t)
		if len(left) == 0 && rules == nil {
			break
		}
		select {
		case <-ctx.Done():
			for _, title := range slices.Sorted(maps.Keys(left)) {
				t.Errorf("panel %q: no data for %q", title, left[title])
			}
			t.Fatalf("rules: %v", rules)
		case <-tick.C:
		}
	}
	s.names(t)
}

// metricName finds names of metrics in an expression. Names of labels and functions have no such prefix.
var metricName = regexp.MustCompile(`\b(?:sluice|gen_ai|go|process)_[a-z0-9_]+`)

// names checks that every metric in the alerts and the dashboard is one that the server has.
func (s *site) names(t *testing.T) {
	t.Helper()
	have := map[string]bool{}
	for line := range strings.Lines(s.get(t, "http://"+s.metrics+"/metrics")) {
		if name := metricName.FindString(line); name != "" && !strings.HasPrefix(line, "#") {
			have[name] = true
		}
	}
	check := func(where, expr string) {
		for _, name := range metricName.FindAllString(expr, -1) {
			if !have[name] {
				t.Errorf("%s asks for %s, which the server does not have", where, name)
			}
		}
	}
	for _, a := range alerts(t) {
		check("alert "+a.Alert, a.Expr)
	}
	for title, list := range queries(t) {
		check("panel "+title, strings.Join(list, " "))
	}
}

// returns reports whether a query has at least one value that is a number.
func (s *site) returns(t *testing.T, expr string) bool {
	t.Helper()
	var reply struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	text := s.get(t, "http://"+s.prometheus+"/api/v1/query?query="+url.QueryEscape(expr))
	if err := json.Unmarshal([]byte(text), &reply); err != nil || reply.Error != "" {
		t.Fatalf("%s: %v %s", expr, err, reply.Error)
	}
	for _, r := range reply.Data.Result {
		if r.Value[1] != "NaN" {
			return true
		}
	}
	return false
}

// rules returns an error unless Prometheus has evaluated every alert.
func (s *site) rules(t *testing.T) error {
	t.Helper()
	var reply struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	text := s.get(t, "http://"+s.prometheus+"/api/v1/rules")
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		return err
	}
	n := 0
	for _, g := range reply.Data.Groups {
		for _, r := range g.Rules {
			if n++; r.Health != "ok" {
				return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := len(alerts(t)); n != want {
		return fmt.Errorf("Prometheus has %d rules, want %d", n, want)
	}
	return nil
}

// get returns what an address answers, or "" if nothing answers yet.
func (s *site) get(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "{}"
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// call makes a chat call.
func (s *site) call(t *testing.T) {
	t.Helper()
	body := `{"model":"sandbox/small","messages":[{"role":"user","content":"hello"}]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.api+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("a call = %d %s, want 200", resp.StatusCode, text)
	}
}

// startSite starts Sluice and Prometheus. They are stopped when the test ends.
func startSite(t *testing.T) *site {
	t.Helper()
	database, redis := pgtest.URL(t), redistest.Own(t).URL()
	s := &site{client: &http.Client{Timeout: time.Minute}}
	for _, addr := range []*string{&s.api, &s.metrics, &s.prometheus} {
		port, err := porttest.Hold()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(port.Release)
		*addr = port.Addr()
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	conf := write("sluice.yaml", fmt.Sprintf("listen: %s\nmetrics_listen: %s\ndatabase: %q\nredis: %s\nsecret: 0123456789abcdef0123456789abcdef\n", s.api, s.metrics, database, redis))
	bin := program(t)
	data := filepath.Join(dir, "data") // created by the start, private
	sluice := start(t, dir, bin, "serve", "--config", conf, "--data", data)
	s.await(t, sluice, "http://"+s.api+"/readyz")
	key, err := process.Run(t.Context(), bin, data, "key", "regenerate-master", "--json", "--config", conf)
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Key string }
	if err := json.Unmarshal(key, &made); err != nil {
		t.Fatal(err)
	}
	s.key = made.Key
	// A reload that is refused, and one that is not: the counters of both have a series then.
	write("sluice.yaml", "listen: [")
	sluice.Signal(syscall.SIGHUP)

	rules, err := filepath.Abs(filepath.Join(root, "deploy/prometheus/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	prom := write("prometheus.yaml", fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n  - job_name: sluice\n    static_configs: [{targets: [%q]}]\n", rules, s.metrics))
	p := start(t, dir, "prometheus", "--config.file="+prom, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+s.prometheus)
	s.await(t, p, "http://"+s.prometheus+"/-/ready")
	return s
}

// start starts a program that is stopped when the test ends.
func start(t *testing.T, dir, program string, args ...string) *process.Process {
	t.Helper()
	p, err := process.Start(context.Background(), &process.Options{Dir: dir}, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(program), p.Output())
		}
	})
	return p
}

// await waits until an address answers 200.
func (s *site) await(t *testing.T, p *process.Process, address string) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		if resp, err := s.client.Get(address); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-p.Exited():
			t.Fatalf("the program ended before %s answered", address)
		case <-deadline:
			t.Fatalf("%s does not answer", address)
		case <-tick.C:
		}
	}
}
