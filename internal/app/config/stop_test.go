package config

import (
	"testing"
	"time"
)

// How long a stop takes follows from the database, and can be set under two names.
func TestStop(t *testing.T) {
	t.Parallel()
	const postgres = "database: postgres://u@db/sluice\n"
	for _, test := range []struct {
		yaml         string
		drain, delay time.Duration
	}{
		{"", 30 * time.Second, 0},
		{postgres, 30 * time.Second, 5 * time.Second},
		{postgres + "shutdown_delay: 0s\n", 30 * time.Second, 0},
		{"shutdown_delay: 1s\n", 30 * time.Second, time.Second},
		{"drain_timeout: 2m\n", 2 * time.Minute, 0},
		{"shutdown_grace: 2m\n", 2 * time.Minute, 0},
		{"shutdown_grace: 0s\n", 0, 0},
	} {
		c, problem := loadText(t, test.yaml)
		if problem != "" || c.DrainTimeout != test.drain || c.ShutdownDelay != test.delay {
			t.Errorf("Load(%q) = drain_timeout %v, shutdown_delay %v, %s, want %v and %v", test.yaml, c.DrainTimeout, c.ShutdownDelay, problem, test.drain, test.delay)
		}
	}
	const want = "sluice.yaml:2:17: shutdown_grace: is the earlier name of drain_timeout, which is set as well; remove one of them"
	if _, problem := loadText(t, "drain_timeout: 1s\nshutdown_grace: 1s\n"); problem != want {
		t.Errorf("Load with both names = %q, want %q", problem, want)
	}
}
