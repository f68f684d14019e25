package config

import "time"

// nodeDelay is how long a node that may have others beside it still accepts requests while it
// stops. Load balancers usually look at /readyz every few seconds.
const nodeDelay = 5 * time.Second

// checkStop fills in how long a stop takes. shutdown_grace is the earlier name of drain_timeout; with
// both set, nobody could tell which one is meant.
func (r *record) checkStop(c *Config) {
	if _, given := r.places["shutdown_grace"]; given {
		if _, both := r.places["drain_timeout"]; both {
			r.fail("shutdown_grace", "is the earlier name of drain_timeout, which is set as well; remove one of them")
		}
		c.DrainTimeout = c.ShutdownGrace
	}
	_, given := r.places["shutdown_delay"]
	if !given && c.Database != "sqlite" {
		c.ShutdownDelay = min(nodeDelay, c.DrainTimeout)
	}
	if given && c.ShutdownDelay > c.DrainTimeout {
		r.fail("shutdown_delay", "is %s, and drain_timeout, which includes it, is %s; calls would be cut off before the delay is over. Make shutdown_delay shorter, or drain_timeout longer", c.ShutdownDelay, c.DrainTimeout)
	}
}
