package app

import (
	"crypto/tls"
	"net/netip"

	"sluice/internal/httpapi"
)

const (
	// sideConnections is how many connections the admin socket and the metrics may have each.
	sideConnections = 100
	// addressShare is the part of all connections that one public address may have, and addressLeast how
	// many it may have in any case.
	addressShare = 10
	addressLeast = 100
)

// frontListeners are the API's, the admin socket's and, where there are any, the metrics' listeners with
// bounds around them.
func (a *App) frontListeners() []*httpapi.Listener {
	most := httpapi.MaxConnections(a.settings.Load().Config.MaxConnections, a.log)
	front := httpapi.ListenerOptions{
		Max: most, MaxPerAddress: max(most/addressShare, addressLeast), Exempt: a.isProxy, Refuse: a.api.Refuse, Log: a.log,
	}
	if a.settings.Load().Config.TLS.Enabled() {
		front.TLS = &tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.cert.Load(), nil },
			NextProtos:     []string{"h2", "http/1.1"},
		}
	}
	api := httpapi.NewListener(a.listener, front)
	a.metrics.Gauge("sluice_connections", "Connections open now on the address of the API.", func() float64 { return float64(api.Open()) })
	all := []*httpapi.Listener{api, httpapi.NewListener(a.adminListener, httpapi.ListenerOptions{Max: sideConnections, Log: a.log})}
	if a.metricsListener != nil {
		all = append(all, httpapi.NewListener(a.metricsListener, httpapi.ListenerOptions{Max: sideConnections, Refuse: a.api.Refuse, Log: a.log}))
	}
	return all
}

// isProxy reports whether an address is that of a proxy in front of us, which speaks for many callers.
func (a *App) isProxy(addr netip.Addr) bool {
	for _, p := range a.settings.Load().Config.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
