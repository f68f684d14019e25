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
