package config

import (
	"net/netip"
	"os"
	"slices"
)

// IsProxy reports whether an address is that of a trusted proxy.
func (c *Config) IsProxy(addr netip.Addr) bool {
	return slices.ContainsFunc(c.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// MetricsOptional reports whether the server may start without metrics if their address is busy. It may if the address
// is the default, so that two servers on one machine both start. An address that the operator has chosen must work.
func (c *Config) MetricsOptional() bool { return c.MetricsListen == "127.0.0.1:9090" }

// ClosesUnready reports whether a server that cannot answer calls refuses connections. In Kubernetes it must not
// unless the operator says so: a liveness probe on the same port would restart the process.
func (c *Config) ClosesUnready() bool {
	switch c.Unready {
	case "close":
		return true
	case "answer":
		return false
	}
	return os.Getenv("KUBERNETES_SERVICE_HOST") == ""
}
