package app_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
)

// While 200 callers use the master key it is replaced. Whoever starts a request after that call has
// returned is refused.
func TestRegenerateUnderLoad(t *testing.T) {
	t.Parallel()
	const callers, rounds = 200, 5
	n := newSite(t, "").start(t)
	key := n.OwnerKey()
	for range rounds {
		var replaced atomic.Bool
		var calling, all sync.WaitGroup
		var served, refused atomic.Int64
		calling.Add(callers)
		for range callers {
			all.Go(func() {
				arrived := false
				for {
					after := replaced.Load()
					r, err := n.do("GET", "/v1/models", key, "")
					switch {
					case err != nil:
						t.Errorf("GET /v1/models = %v", err)
					case r.status == 200 && after:
						t.Error("a request that began after the key was replaced was served with the old key")
					case r.status == 200:
						served.Add(1)
					case r.status == 401:
						refused.Add(1)
					case r.status == 429: // on a busy machine: it waited for its turn too long, which says nothing of the key
						continue
					default:
						t.Errorf("GET /v1/models = %d %s, want 200 or 401", r.status, r.body)
					}
					if !arrived {
						arrived = true
						calling.Done()
					}
					if after || t.Failed() {
						return
					}
				}
			})
		}
		calling.Wait() // everybody is at it
		next := must[admin.RawKey](n, "key.regenerate-master", admin.Target{Actor: "t"}).Key
		replaced.Store(true)
		all.Wait()
		if served.Load() < callers || refused.Load() < callers {
			t.Errorf("%d requests were served and %d refused, want each caller to see both", served.Load(), refused.Load())
		}
		if r := n.get("/v1/models", next); r.status != 200 {
			t.Fatalf("GET /v1/models with the new key = %d, want 200", r.status)
		}
		key = next
	}
}

func TestParallelKeyCreate(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	var made, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			var key admin.NewKey
			err := n.call("key.create", admin.Target{Actor: "t", Ref: account.OwnerEmail, Name: fmt.Sprint("key ", i)}, &key)
			switch {
			case err == nil:
				made.Add(1)
				if r, err := n.do("GET", "/v1/models", key.Key, ""); err != nil || r.status != 200 {
					t.Errorf("the new key = %d, %v, want 200 at once", r.status, err)
				}
			case fault.Is(err, fault.Conflict):
				refused.Add(1)
			default:
				t.Errorf("key.create = %v", err)
			}
		})
	}
	all.Wait()
	if made.Load() != 10 || refused.Load() != 40 {
		t.Errorf("50 parallel key.create made %d and refused %d, want 10 and 40", made.Load(), refused.Load())
	}
	if keys := must[admin.List[admin.Key]](n, "key.list", admin.AccountPage{Ref: account.OwnerEmail}).Data; len(keys) != 11 {
		t.Errorf("the account has %d keys, want the master key and 10", len(keys))
	}
}

// What is done at the admin door holds for the very next request.
func TestChangesApplyAtOnce(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"})
	sub := must[admin.NewKey](n, "key.create", admin.Target{Actor: "t", Ref: made.ID, Name: "sub"})
	ref := admin.Target{Actor: "t", Ref: made.ID, Reason: "r"}
	for _, step := range []struct {
		operation   string
		in          admin.Target
		master, sub int
		kind        string // of the refusal
	}{
		{"account.suspend", ref, 423, 423, "account_suspended"},
		{"account.unsuspend", ref, 200, 200, ""},
		{"key.deactivate", ref, 401, 401, "key_deactivated"},
		{"key.restore", ref, 200, 200, ""},
		{"key.rename", admin.Target{Actor: "t", Ref: sub.ID, Name: "other"}, 200, 200, ""},
		{"key.delete", admin.Target{Actor: "t", Ref: sub.ID}, 200, 401, "authentication_error"},
		{"key.regenerate-master", ref, 401, 401, "authentication_error"},
	} {
		must[any](n, step.operation, step.in)
		for key, want := range map[string]int{made.MasterKey: step.master, sub.Key: step.sub} {
			r := n.get("/v1/models", key)
			if r.status != want || want != 200 && !strings.Contains(r.body, `"type":"`+step.kind+`"`) {
				t.Errorf("after %s: GET /v1/models = %d %s, want %d %s", step.operation, r.status, r.body, want, step.kind)
			}
		}
	}
}

// The configuration is reloaded over and over while requests run; none of them fails.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	const reloads = 20
	models := func(i int) string { return lab("http://127.0.0.1:1", "lab/always", fmt.Sprint("lab/version-", i)) }
	s := newSite(t, models(0))
	n := s.start(t)
	key := n.OwnerKey()
	stop := make(chan struct{})
	var all sync.WaitGroup
	var served atomic.Int64
	for i := range 16 {
		target := []string{"/v1/models", "/v1/models?format=verbose", "/v1/models/lab/always", "/v1/models/service%2Fauto"}[i%4]
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := n.do("GET", target, key, "")
				if err != nil || r.status != 200 || !strings.HasSuffix(r.body, "}") {
					t.Errorf("GET %s = %d %s, %v, want 200", target, r.status, r.body, err)
					return
				}
				served.Add(1)
			}
		})
	}
	lists := func(i int) bool {
		return strings.Contains(n.get("/v1/models", key).body, fmt.Sprintf(`"lab/version-%d"`, i))
	}
	for i := 1; i <= reloads; i++ {
		before := served.Load()
		s.write(t, models(i))
		if err := n.Reload(); err != nil {
			t.Fatalf("Reload %d = %v", i, err)
		}
		if !lists(i) || lists(i-1) {
			t.Errorf("after reload %d the catalog is %s", i, n.get("/v1/models", key).body)
		}
		eventually(t, "traffic between the reloads", func() bool { return served.Load() > before+16 || t.Failed() })
	}
	// Nobody needs to be told: the file is watched.
	s.write(t, models(reloads+1))
	eventually(t, "the reload of a changed file", func() bool { return lists(reloads + 1) })
	close(stop)
	all.Wait()
	if got := strings.Count(n.log.String(), `"configuration reloaded"`); got < reloads+1 {
		t.Errorf("the log tells of %d reloads, want at least %d", got, reloads+1)
	}
}

func TestBrokenReload(t *testing.T) {
	t.Parallel()
	s := newSite(t, lab("http://127.0.0.1:1", "lab/good"))
	n := s.start(t)
	key := n.OwnerKey()
	before := n.get("/v1/models", key).body
	place := regexp.MustCompile(regexp.QuoteMeta(s.file) + `:\d+:\d+: `)
	for name, tt := range map[string]struct{ yaml, says string }{
		"a wrong value":   {strings.Replace(lab("http://127.0.0.1:1", "lab/new"), "plan: free", "plan: gold", 1), `models[0].plan: "gold" is not a plan tier`},
		"not YAML":        {"models: [\n", ""},
		"unknown setting": {"modles: []\n", "modles"},
	} {
		s.write(t, tt.yaml)
		for way, err := range map[string]error{"Reload": n.Reload(), "the admin door": n.call("reload", admin.Empty{}, &admin.Empty{})} {
			if err == nil || !place.MatchString(err.Error()) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %s = %v, want file, line and column, and %q", name, way, err, tt.says)
			}
		}
		if got := n.get("/v1/models", key).body; got != before {
			t.Errorf("%s: the catalog became %s, want it unchanged", name, got)
		}
	}
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	if err := n.Reload(); err == nil {
		t.Error("Reload without the file = nil, want an error: its settings would be lost")
	}
	if !strings.Contains(n.log.String(), "the new configuration was refused; the old one stays") {
		t.Errorf("the log does not tell of the refusal:\n%s", n.log)
	}
	s.write(t, lab("http://127.0.0.1:1", "lab/mended"))
	if err := n.Reload(); err != nil || !strings.Contains(n.get("/v1/models", key).body, `"lab/mended"`) {
		t.Errorf("Reload of the mended file = %v, and the catalog %s", err, n.get("/v1/models", key).body)
	}
}

// A broken file that is found by watching is reported once and changes nothing.
func TestBrokenFileIsWatched(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	const refusal = "the new configuration was refused"
	s.write(t, "sandbox: perhaps\n")
	eventually(t, "a report of the broken file", func() bool { return strings.Contains(n.log.String(), refusal) })
	s.write(t, "sandbox: false\n")
	eventually(t, "the reload of the mended file", func() bool {
		return !strings.Contains(n.get("/v1/models", n.OwnerKey()).body, "sandbox/small")
	})
	if got := strings.Count(n.log.String(), refusal); got != 1 {
		t.Errorf("the broken file was reported %d times, want once", got)
	}
}

// What only a start can change is said, and does not change by half.
func TestReloadNeedsARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	s.write(t, "brand: acme\ndatabase: postgres://127.0.0.1:1/db\n")
	if err := n.Reload(); err != nil {
		t.Fatalf("Reload = %v", err)
	}
	if !strings.Contains(n.log.String(), `"some changes take effect only at the next start","fields":["brand","database"]`) {
		t.Errorf("the log does not name the fields that wait for a start:\n%s", n.log)
	}
	if r := n.get("/v1/models/service/auto", n.OwnerKey()); r.status != 200 {
		t.Errorf("GET /v1/models/service/auto after the brand changed in the file = %d, want 200 until the next start", r.status)
	}
}
