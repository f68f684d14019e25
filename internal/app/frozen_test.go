package app_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/operate/admin"
	"sluice/internal/operate/doctor"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

// longEnough is by when whatever was asked of a server with a frozen database must have been answered, also on a busy
// machine. The least patient client gives up later.
const longEnough = 50 * time.Second

// A server whose database has frozen, with its connections open, serves whom it knows, refuses the rest in time, and
// says what is wrong. When the database is back, so is everything.
func TestFrozenDatabase(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (url string, freeze func() (mend func())){
		"the server is stopped by SIGSTOP": func(t *testing.T) (string, func() func()) {
			s := pgtest.Own(t)
			must := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			return s.URL(), func() func() { must(s.Freeze()); return func() { must(s.Thaw()) } }
		},
		"nothing passes": func(t *testing.T) (string, func() func()) {
			w, url := wiretest.To(t, pgtest.URL(t))
			return url, w.Freeze
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database, freeze := start(t)
			s := newSite(t, "database: "+database+"\nmetrics_listen: 127.0.0.1:0\ncluster: approximate\n"+oneSecret)
			n := s.start(t)
			key := n.OwnerKey()
			n.within(key, 200)
			mend := freeze()
			defer mend()
			n.knowsThatItIsFrozen(t, s, key)
			mend()
			eventually(t, "an answer of the database", func() bool {
				r := n.get("/readyz", "")
				return r.status == 200 && strings.Contains(r.body, `{"name":"database","ok":true,"age_seconds":0}`)
			})
			eventually(t, "a new account", func() bool {
				return n.call("account.create", admin.NewAccount{Actor: "t", Email: "late@example.com"}, &admin.CreatedAccount{}) == nil
			})
			eventually(t, "the settling of what waited", func() bool { return strings.Contains(n.scrape(), "\nsluice_journal_records 0\n") })
		})
	}
}

// frozenFindings reports whether findings blame the database, and not the server that waits for it.
func frozenFindings(t *testing.T, findings []doctor.Finding) bool {
	blamed := false
	for _, f := range findings {
		switch {
		case f.Subject == "database" && f.State == doctor.StateProblem:
			blamed = true
		case (f.Subject == "server" || f.Subject == "address") && f.State != doctor.StateOK:
			t.Errorf("the doctor says of a server that waits for its database: %+v", f)
		}
	}
	return blamed
}

// knowsThatItIsFrozen asks a server everything at the same time while its database is frozen. Nothing may hang.
func (n *node) knowsThatItIsFrozen(t *testing.T, s *site, key string) {
	t.Helper()
	began := time.Now()
	stranger := n.person()
	cfg := s.config(t)
	var asking sync.WaitGroup
	for what, ask := range map[string]func() bool{
		"a call with a known key": func() bool { return n.chat(key) == 200 },
		"a stranger's key":        func() bool { return n.get("/v1/models", typo(key)).status == 401 },
		"a video":                 func() bool { return n.request("POST", videoJobs, key, `{"prompt":"x"}`).status == 503 },
		"the state of a video":    func() bool { return n.get(videoJobs+"/task_x", key).status == 503 },
		"signing in": func() bool {
			return stranger.post("/signin", "email", "a@example.com", "password", pagePassword).status == 503
		},
		"a call with an Idempotency-Key": func() bool {
			r, err := n.idempotent(t.Context(), key, "k", labChat)
			return err == nil && r.status != 0
		},
		"account.create": func() bool {
			err := n.call("account.create", admin.NewAccount{Actor: "t", Email: "b@example.com"}, &admin.CreatedAccount{})
			return err != nil && strings.Contains(err.Error(), "The database does not answer")
		},
		"usage": func() bool {
			return n.call("usage", admin.UsageQuery{Ref: "owner@localhost", Days: 1, By: "day"}, &admin.Usage{}) != nil
		},
		"doctor": func() bool {
			return frozenFindings(t, app.Examine(t.Context(), cfg))
		},
		"the server's own doctor": func() bool {
			var findings []doctor.Finding
			return n.call("examine", admin.Asking{Version: buildinfo.Version()}, &findings) == nil && frozenFindings(t, findings)
		},
	} {
		asking.Go(func() {
			if !ask() {
				t.Errorf("%s on a frozen database did not give what it should", what)
			}
			if took := time.Since(began); took > longEnough {
				t.Errorf("%s on a frozen database took %s", what, took.Round(time.Second))
			}
		})
	}
	asking.Go(func() {
		eventually(t, "a note about the database", func() bool {
			asked, bound := time.Now(), patience
			if os.Getenv("SLUICE_SOAK") != "" {
				bound = 10 * time.Second // it promises two; the machine may be busy
			}
			r := n.get("/readyz", "")
			if took := time.Since(asked); took > bound {
				t.Errorf("GET /readyz took %s", took)
			}
			return r.status == 200 && strings.Contains(r.body, `{"name":"database","ok":true,"message":"no answer for `) &&
				strings.Contains(r.body, `{"name":"accounts","ok":true,"message":"changes by other nodes were last read `)
		})
	})
	asking.Wait()
	if text := n.scrape(); strings.Contains(text, "\nsluice_database_age_seconds 0\n") || strings.Contains(text, "\nsluice_accounts_age_seconds 0\n") {
		t.Error("the metrics say that the database answers")
	}
}

// After a failover old connections are silent while new ones work. A key that another node suspends is refused here
// within seconds, and not when the system gives up its connections.
func TestSuspendedAfterFailover(t *testing.T) {
	t.Parallel()
	one, two, line := onOneDatabase(t, "", nil)
	made := must[admin.CreatedAccount](two, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"})
	one.within(made.MasterKey, 200)
	line.Swallow()
	began := time.Now()
	must[any](two, "account.suspend", admin.Target{Actor: "t", Ref: made.ID, Reason: "r"})
	one.within(made.MasterKey, 423)
	took := time.Since(began)
	t.Logf("soak: the suspension reached a node with silent connections within %s", took.Round(100*time.Millisecond))
	if took > longEnough {
		t.Errorf("the suspension took %s", took)
	}
	// The settlements of that node arrive as well.
	if status := one.request("POST", "/v1/chat/completions", one.OwnerKey(), `{"model":"sandbox/small","messages":[{"role":"user","content":"hi"}]}`).status; status != 200 {
		t.Fatalf("a call on a node with silent connections = %d", status)
	}
	eventually(t, "the settling", func() bool { return settled(two.App) > 0 })
}

// What an operator asks after a failover, while every connection that was open is silent and new ones work, is answered:
// the server does not wait for the silent ones until its patience is over.
func TestOperatorAfterFailover(t *testing.T) {
	t.Parallel()
	line, url := wiretest.To(t, pgtest.URL(t))
	n := newSite(t, "database: "+url+"\n"+oneSecret).start(t)
	ref := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com"}).ID
	for round := range 3 {
		// Several connections are open, and were used just now.
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() { must[admin.Account](n, "account.show", admin.Target{Ref: ref}) })
		}
		asking.Wait()
		line.Swallow()
		if round == 1 { // connections that have been idle for a while are asked for a sign of life
			eventually(t, "a quiet moment", func() bool { return strings.Contains(n.get("/readyz", "").body, `"status":"ok"`) })
		}
		began := time.Now()
		if err := n.call("account.show", admin.Target{Ref: ref}, &admin.Account{}); err != nil {
			t.Errorf("account.show on silent connections = %v after %s, want the account", err, time.Since(began).Round(time.Millisecond))
		}
		if err := n.call("account.set-plan", admin.Target{Actor: "t", Ref: ref, Plan: []string{"basic", "premium", "scale"}[round]}, &admin.Account{}); err != nil {
			t.Errorf("account.set-plan = %v, want that it is changed", err)
		}
	}
}
