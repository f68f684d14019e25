package redistest

import (
	"os"
	"strings"
	"testing"
)

func TestServerRestart(t *testing.T) {
	t.Parallel()
	s := Own(t, "maxclients 50")
	ping := func() (string, error) { return s.ping(t.Context()) }
	if got, err := ping(); got != "+PONG" || err != nil {
		t.Fatalf("PING = %q, %v, want +PONG", got, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatalf("Stop() = %v", err)
	}
	if got, err := ping(); err == nil {
		t.Fatalf("a stopped server answers %q", got)
	}
	if err := s.Kill(); err != nil {
		t.Fatalf("Kill() of a stopped server = %v, want nil", err)
	}
	before := s.URL()
	if err := s.Restart(); err != nil {
		t.Fatalf("Restart() = %v", err)
	}
	if got, err := ping(); got != "+PONG" || err != nil || s.URL() != before {
		t.Errorf("after Restart PING at %s = %q, %v, want +PONG at %s", s.URL(), got, err, before)
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
