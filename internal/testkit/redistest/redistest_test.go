package redistest

import (
	"os"
	"strings"
	"testing"
)

func TestServerRestart(t *testing.T) {
	t.Parallel()
	s := Own(t, "maxclients 50")
	answers := func() bool { _, err := s.info(t.Context()); return err == nil }
	if !answers() {
		t.Fatal("a server that has been started does not answer")
	}
	if err := s.Stop(); err != nil {
		t.Fatalf("Stop() = %v", err)
	}
	if answers() {
		t.Fatal("a stopped server answers")
	}
	if err := s.Kill(); err != nil {
		t.Fatalf("Kill() of a stopped server = %v, want nil", err)
	}
	before := s.URL()
	if err := s.Restart(); err != nil {
		t.Fatalf("Restart() = %v", err)
	}
	if !answers() || s.URL() != before {
		t.Errorf("after Restart %s answers: %t, want an answer at %s", s.URL(), answers(), before)
	}
}

// Not parallel: it changes the environment.
func TestURL(t *testing.T) {
	t.Setenv(Env, "redis://127.0.0.1:1")
	if got := URL(t); got != "redis://127.0.0.1:1" {
		t.Errorf("URL = %q, want what %s names", got, Env)
	}
	if a, b := Prefix(), Prefix(); a == b {
		t.Errorf("Prefix twice = %q both times, want two", a)
	}
	if _, err := Find(); err != nil {
		t.Skipf("needs redis-server: %v", err)
	}
	os.Unsetenv(Env) // Setenv restores it
	if got := URL(t); !strings.HasPrefix(got, "redis://127.0.0.1:") || got == "redis://127.0.0.1:1" {
		t.Errorf("URL = %q, want a server of its own", got)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	if os.Getenv("SLUICE_SOAK") == "" {
		t.Skip("long: set SLUICE_SOAK=1")
	}
	servers := OwnCluster(t)
	if len(servers) != 3 {
		t.Errorf("a cluster of %d servers, want 3", len(servers))
	}
}
