package app_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/doctor"
	"sluice/internal/store/sqlstore"
	"sluice/internal/testkit/porttest"
	"sluice/internal/testkit/redistest"
)

// expect is a finding by its parts.
type expect struct{ subject, state, says, advice string }

func (e expect) in(findings []doctor.Finding) bool {
	for _, f := range findings {
		if f.Subject == e.subject && f.State == e.state && strings.Contains(f.Message, e.says) && strings.Contains(f.Advice, e.advice) && (e.advice != "") == (f.Advice != "") {
			return true
		}
	}
	return false
}

// closedPort is an address where nobody listens while the test runs.
func closedPort(t *testing.T) string {
	t.Helper()
	port, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return port.Addr()
}

// upstream is a provider that answers everything with one status, and notes the key it was given.
func upstream(t *testing.T, status int, presented *atomic.Value) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" && presented != nil {
			presented.Store(r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// pickyUpstream is a provider that knows one key.
func pickyUpstream(t *testing.T, key string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(401)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func TestExamine(t *testing.T) {
	t.Parallel()
	certs, old := t.TempDir(), t.TempDir()
	cert, key := writeCertificate(t, certs, 1, time.Now().Add(90*24*time.Hour))
	oldCert, oldKey := writeCertificate(t, old, 2, time.Now().Add(-24*time.Hour))
	ending := t.TempDir()
	endingCert, endingKey := writeCertificate(t, ending, 3, time.Now().Add(3*24*time.Hour))
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() })
	closed := closedPort(t)
	const model = "models: [{id: m, provider: lab, plan: free, context_length: 10, max_output: 5}]\n"
	provider := func(url string) string {
		return fmt.Sprintf("providers: [{name: lab, kind: openai, base_url: %q, api_key: sk-canary-123456}]\n%s", url, model)
	}
	replicated := func(urls ...string) string {
		return fmt.Sprintf("providers: [{name: lab, kind: vllm, replicas: [\"%s\"]}]\n%s", strings.Join(urls, `", "`), model)
	}
	var presented atomic.Value
	const ok, warning, problem = doctor.StateOK, doctor.StateWarning, doctor.StateProblem
	for name, tt := range map[string]struct {
		yaml     string
		prepare  func(t *testing.T, s *site)
		problems int // how many findings are problems
		want     []expect
	}{
		"before the first start": {"", nil, 0, []expect{
			{"configuration", ok, "sluice.yaml is valid", ""},
			{"data folder", warning, "does not exist yet", `Run "sluice serve"`},
			{"server", ok, "none is running on this data folder", ""},
			{"database", ok, "SQLite; the first start creates it", ""},
			{"address", ok, "127.0.0.1:0 is free", ""},
			{"address", ok, "/v1", ""},
			{"providers", ok, "none configured; the sandbox models answer", ""},
			{"models", ok, "0 configured, 6 built-in sandbox, and the router service/auto", ""},
		}},
		"fine": {provider(upstream(t, 200, &presented)), started, 0, []expect{
			{"configuration", warning, "api_key: the key is written in the file", ""},
			{"data folder", ok, "data", ""},
			{"database", ok, "SQLite answers and is up to date (version ", ""},
			{"provider lab", ok, "answers", ""},
			{"models", ok, "1 configured, 6 built-in sandbox", ""},
		}},
		"busy port": {"listen: " + busy.Addr().String() + "\n", nil, 1, []expect{
			{"address", problem, busy.Addr().String() + " cannot be used: address already in use", "choose another address in listen"},
		}},
		"unreachable database": {"database: postgres://u:canary7@" + closed + "/db\n", nil, 1, []expect{
			{"database", problem, "PostgreSQL does not answer: connect to PostgreSQL", "Check that it runs"},
		}},
		"unreachable Redis": {"database: postgres://" + closed + "/db\nredis: redis://:canary7@" + closed + "\n", nil, 2, []expect{
			{"redis", problem, "Redis does not answer: ", "Until then each node admits its share of every limit."},
		}},
		"unreachable provider": {provider("http://" + closed + "/v1"), nil, 1, []expect{
			{"provider lab", problem, "http://" + closed + "/v1 cannot be reached: connection refused", "Check base_url"},
		}},
		"provider refuses the key": {provider(upstream(t, 401, nil)), nil, 1, []expect{
			{"provider lab", problem, "refuses the key (status 401)", "Check api_key"},
		}},
		"provider forbids": {provider(upstream(t, 403, nil)), nil, 1, []expect{
			{"provider lab", problem, "refuses the key (status 403)", "Check api_key"},
		}},
		"one of two keys": {strings.Replace(provider(pickyUpstream(t, "sk-canary-123456")), "api_key: sk-canary-123456", "api_keys: [sk-canary-123456, sk-canary-12wxyz]", 1), nil, 1, []expect{
			{"provider lab", problem, "refuses the key (status 401)", "Check api_key: …wxyz is the one in use"},
		}},
		"both keys": {strings.Replace(provider(upstream(t, 200, nil)), "api_key: sk-canary-123456", "api_keys: [sk-canary-123456, sk-canary-12wxyz]", 1), nil, 0, []expect{
			{"provider lab", ok, "answers with each of its 2 keys", ""},
		}},
		"one of two replicas": {replicated(upstream(t, 200, nil), "http://"+closed+"/v1"), nil, 1, []expect{
			{"provider lab", ok, "/v1 answers", ""},
			{"provider lab", problem, "http://" + closed + "/v1 cannot be reached: connection refused", "Check replicas"},
		}},
		"replicas by name": {replicated(strings.Replace(upstream(t, 200, nil), "http://127.0.0.1", "dns+http://localhost", 1)), nil, 0, []expect{
			{"provider lab", ok, "/v1 at 127.0.0.1:", ""},
		}},
		"provider is ill": {provider(upstream(t, 502, nil)), nil, 0, []expect{
			{"provider lab", warning, "answers with status 502", "Try again later"},
		}},
		"provider without a list of models": {provider(upstream(t, 404, nil)), nil, 0, []expect{
			{"provider lab", ok, "answers", ""},
		}},
		"certificate": {"tls: {cert: " + cert + ", key: " + key + "}\n", nil, 0, []expect{
			{"certificate", ok, "valid until", ""},
			{"address", ok, "callers use https://", ""},
		}},
		"expired certificate": {"tls: {cert: " + oldCert + ", key: " + oldKey + "}\n", nil, 1, []expect{
			{"certificate", problem, "it expired on", "Renew it"},
		}},
		"certificate near its end": {"tls: {cert: " + endingCert + ", key: " + endingKey + "}\n", nil, 0, []expect{
			{"certificate", warning, "it expires on", "Renew it"},
		}},
		"no certificate at all": {"tls: {cert: " + certs + "/none.pem, key: " + key + "}\n", func(t *testing.T, _ *site) {
			replace(t, certs+"/none.pem", "nothing")
		}, 1, []expect{
			{"certificate", problem, "none.pem cannot be read", "PEM"},
		}},
		"folder open to others": {"", func(t *testing.T, s *site) {
			if err := errors.Join(os.Mkdir(s.data(), 0o700), os.Chmod(s.data(), 0o755)); err != nil {
				t.Fatal(err)
			}
		}, 1, []expect{
			{"data folder", problem, "the server does not start: the data folder is not private", "chmod -R go-rwx "},
		}},
		"a file for a folder": {"", func(t *testing.T, s *site) { replace(t, s.data(), "") }, 1, []expect{
			{"data folder", problem, "is not a folder", "Name another folder"},
		}},
		"no models": {"sandbox: false\n", nil, 0, []expect{
			{"models", warning, "none is configured, and the sandbox is off", "set sandbox: true"},
		}},
		"newer database": {"", func(t *testing.T, s *site) {
			started(t, s)
			setVersion(t, s, 9999)
		}, 1, []expect{
			{"database", problem, "is at version 9999; this program knows versions up to", "Use the newer sluice"},
		}},
		"older database": {"", func(t *testing.T, s *site) {
			started(t, s)
			setVersion(t, s, 0)
		}, 0, []expect{
			{"database", warning, "SQLite is at version 0 of", "The next start brings it up to date"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tt.yaml)
			if tt.prepare != nil {
				tt.prepare(t, s)
			}
			findings := app.Examine(t.Context(), s.config(t))
			problems := 0
			for _, f := range findings {
				if f.State == problem {
					problems++
				}
				if all := f.Message + f.Advice; strings.Contains(all, "canary-12") || strings.Contains(all, "canary7") {
					t.Errorf("a finding holds a secret: %+v", f)
				}
			}
			if problems != tt.problems {
				t.Errorf("Examine found %d problems, want %d: %+v", problems, tt.problems, findings)
			}
			for _, want := range tt.want {
				if !want.in(findings) {
					t.Errorf("Examine did not find %+v, but\n%+v", want, findings)
				}
			}
			if tt.prepare == nil {
				if _, err := os.Stat(s.data()); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the data folder: %v, want Examine to change nothing", err)
				}
			}
		})
	}
	t.Cleanup(func() {
		if got := presented.Load(); got != "Bearer sk-canary-123456" {
			t.Errorf("the provider was shown %q, want the configured key", got)
		}
	})
}

// started makes the data folder as a first start does.
func started(t *testing.T, s *site) {
	t.Helper()
	a, err := app.New(t.Context(), s.config(t), &app.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Abandon(); err != nil {
		t.Fatal(err)
	}
}

// setVersion makes the database claim that its tables have a version; 0: it has none.
func setVersion(t *testing.T, s *site, version int) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(s.data(), sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM goose_db_version WHERE $1 = 0; INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, 1)", version); err != nil {
		t.Fatal(err)
	}
}

func TestExamineRedis(t *testing.T) {
	t.Parallel()
	keeps, evicts := redistest.Own(t), redistest.Own(t, "maxmemory-policy allkeys-lru")
	for _, tt := range []struct {
		redis *redistest.Server
		want  expect
	}{
		{keeps, expect{"redis", doctor.StateOK, " answers", ""}},
		{evicts, expect{"redis", doctor.StateWarning, "forgets keys when its memory is full", "Set maxmemory-policy to noeviction."}},
	} {
		s := newSite(t, "database: postgres://"+closedPort(t)+"/db\nredis: "+tt.redis.URL()+"\n")
		if findings := app.Examine(t.Context(), s.config(t)); !tt.want.in(findings) {
			t.Errorf("Examine did not find %+v, but\n%+v", tt.want, findings)
		}
	}
}

func TestExamineARunningServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	cfg := s.config(t)
	cfg.Listen = n.Addr() // taken, by the server itself
	findings := app.Examine(t.Context(), cfg)
	want := expect{"server", doctor.StateOK, fmt.Sprintf("as process %d on %s, with 1 accounts and 7 models", os.Getpid(), n.Addr()), ""}
	if !want.in(findings) {
		t.Errorf("Examine did not find %+v, but\n%+v", want, findings)
	}
	for _, f := range findings {
		if f.State != doctor.StateOK {
			t.Errorf("Examine found %+v, want all well", f)
		}
	}
}

// A running server is examined by itself: with its own configuration, its address, and the models that it has found.
func TestExamineRunning(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.servers = localServer(modelServer(t, models("tiny:1b", "small:3b")))
	n := s.start(t)
	n.modelStates()                                    // after a look
	s.write(t, lab("http://127.0.0.1:1", "lab/later")) // not loaded, and not what runs
	var findings []doctor.Finding
	if err := n.call("examine", admin.Asking{Version: "9.9.9"}, &findings); err != nil {
		t.Fatal(err)
	}
	for _, want := range []expect{
		{"server", doctor.StateOK, "running since", ""},
		{"server", doctor.StateWarning, "this program is 9.9.9", "Restart the server with this program."},
		{"address", doctor.StateOK, "callers use " + n.Origin() + "/v1", ""},
		{"models", doctor.StateOK, "0 configured, 2 discovered, 6 built-in sandbox", ""},
		{"providers", doctor.StateOK, "the discovered models and the sandbox models answer", ""},
	} {
		if !want.in(findings) {
			t.Errorf("examine = %+v, want %+v among them", findings, want)
		}
	}
}
