package faulttest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/ledger/usage"
	operations "sluice/internal/operate/admin"
	"sluice/internal/store/installation"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

// TestFailover ends PostgreSQL in the middle of transactions, under a load of calls, and goes on with its replica, which
// has every commit that was confirmed. Calls go on, and all of them are in the books once: also those whose commit the
// replica has and nobody was told of.
func TestFailover(t *testing.T) {
	t.Parallel()
	if !soaking() {
		t.Skip("soak tests run with make soak: each round needs two new servers")
	}
	for _, how := range []string{"under load", "replies held back"} {
		t.Run(how, func(t *testing.T) {
			primary := pgtest.Own(t)
			replica := primary.Replica(t)
			wire, address := wiretest.To(t, primary.URL())
			u := newOrdinary(t)
			s := configure(t, fmt.Sprintf("database: %q\n", address)+u.model())
			s.start()
			s.begin(t)
			stop := make(chan struct{})
			var calling sync.WaitGroup
			for range 4 {
				calling.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if c := s.chat("m", "Go."); c.end != complete {
							t.Errorf("a call ended as %s %d %.200s, want complete", c.end, c.status, c.body)
						}
					}
				})
			}
			eventually(t, "calls", func() bool { return s.tallied() > 300 }, func() string { return "" })
			release := func() {}
			if how != "under load" { // the server has begun a transaction, or has even sent COMMIT, and hears nothing
				release = wire.Stall()
				began := s.tallied()
				eventually(t, "more calls", func() bool { return s.tallied() > began+200 }, func() string { return "" })
			}
			if err := primary.Crash(); err != nil {
				t.Fatal(err)
			}
			crashed := time.Now()
			if err := replica.Promote(); err != nil {
				t.Fatal(err)
			}
			next, err := url.Parse(replica.URL())
			if err != nil {
				t.Fatal(err)
			}
			wire.Redirect(next.Host)
			wire.Break()
			release()
			began := s.tallied()
			eventually(t, "calls after the failover", func() bool { return s.tallied() > began+200 }, func() string { return "" })
			close(stop)
			calling.Wait()
			eventually(t, "an empty journal", func() bool { return s.gauge("sluice_journal_records") == 0 }, func() string { return "" })
			recovery := time.Since(crashed)
			report(t, "PostgreSQL fails over, "+how, s.sampled(), recovery)
			s.kill(syscall.SIGTERM)
		})
	}
}

// TestFailoverLoses fails over to a replica that lacks the last commits, as one can that follows without being waited
// for. The audit names the calls that were lost, and a replay of the journal brings them back.
func TestFailoverLoses(t *testing.T) {
	t.Parallel()
	if !soaking() {
		t.Skip("soak tests run with make soak: it needs two new servers")
	}
	primary := pgtest.Own(t)
	replica := primary.Replica(t)
	admin := connect(t, primary.URL())
	wire, address := wiretest.To(t, primary.URL())
	u := newOrdinary(t)
	s := configure(t, fmt.Sprintf("database: %q\n", address)+u.model())
	s.start()
	s.begin(t)
	calls := func(n int) {
		together(n, func(int) { s.chat("m", "Go.") })
		eventually(t, "an empty journal", func() bool { return s.gauge("sluice_journal_records") == 0 }, func() string { return "" })
	}
	calls(20)
	for _, statement := range []string{`ALTER SYSTEM RESET synchronous_standby_names`, `SELECT pg_reload_conf()`} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	calls(30) // which the replica never sees
	if err := errors.Join(primary.Crash(), replica.Restart(), replica.Promote()); err != nil {
		t.Fatal(err)
	}
	next, err := url.Parse(replica.URL())
	if err != nil {
		t.Fatal(err)
	}
	wire.Redirect(next.Host)
	wire.Break()
	var audit operations.Audit
	eventually(t, "the lost calls in the audit", func() bool {
		door, err := operations.Dial(t.Context(), s.data())
		return err == nil && door.Call(t.Context(), "audit", operations.Empty{}, &audit) == nil && len(audit.Differences) == 30
	}, func() string { return fmt.Sprintf("%d differences", len(audit.Differences)) })
	lost := time.Now()
	copied := filepath.Join(t.TempDir(), "journal")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(s.data(), "journal"))); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: s.file()})
	if err != nil {
		t.Fatal(err)
	}
	replayed, err := installation.ReplayJournal(t.Context(), cfg.Database, cfg.Data, cfg.Secret.Reveal(), copied, &usage.ReplayOptions{})
	if err != nil {
		t.Fatalf("ReplayJournal = %+v, %v", replayed, err)
	}
	report(t, "PostgreSQL fails over and loses commits", s.balance(), time.Since(lost))
	s.kill(syscall.SIGTERM)
}

// tallied returns how many calls were made.
func (s *server) tallied() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// sampled is balance for many calls: the books must have as many as were made, without a difference, and one in a hundred
// is looked up.
func (s *server) sampled() tally {
	s.t.Helper()
	n, all := s.tally(), s.calls
	if have := s.requests() - s.from; have != int64(len(all)) {
		n.lost, n.twice = max(0, len(all)-int(have)), max(0, int(have)-len(all))
		s.t.Errorf("%d calls are in the books, want %d", have, len(all))
	}
	var few []*seen
	for i := 0; i < len(all); i += 100 {
		few = append(few, all[i])
	}
	s.calls, s.from = few, s.from+int64(len(all)-len(few))
	s.balance()
	s.calls = all
	return n
}
