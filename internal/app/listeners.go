package app

import (
	"crypto/tls"
	"net/netip"

	"sluice/internal/httpapi"
)

const (
	// sideConnections is how many connections the admin socket and the metrics may have each.
	sideConnections = 100
	// One public address may have an addressShare-th of all connections, but at least addressLeast.
	addressShare = 10
	addressLeast = 100
)

// frontListeners bounds the connections of the API, of the admin socket and, if they are on, of the metrics. It
// returns the listeners in this order.
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

// isProxy reports whether an address is that of a trusted proxy, which passes on the requests of many callers.
func (a *App) isProxy(addr netip.Addr) bool {
	for _, p := range a.settings.Load().Config.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
