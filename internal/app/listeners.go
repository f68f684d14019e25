package app

import (
	"crypto/tls"
	"net/netip"

	"sluice/internal/api/httpserver"
	"sluice/internal/kit/telemetry"
)

const (
	// sideConnections bounds the open connections of the admin socket, and those of the metrics. A
	// few tools use them.
	sideConnections = 100
	// One public address may have a tenth of all connections, but at least addressLeast: one caller
	// cannot keep the others out, and an office behind one address can still work.
	addressShare = 10
	addressLeast = 100
)

// frontListeners returns listeners that bound the connections of the API, of the admin socket and,
// if they are on, of the metrics, in this order. The bounds do not change with a reload.
func (a *App) frontListeners() []*httpserver.Listener {
	most := httpserver.MaxConnections(a.settings.Load().Config.MaxConnections, a.log) // less if the system allows fewer files
	front := httpserver.ListenerOptions{
		Max: most, MaxPerAddress: max(most/addressShare, addressLeast), Exempt: a.isProxy, Refuse: a.api.Refuse, Log: a.log,
	}
	if a.settings.Load().Config.TLS.Enabled() {
		front.TLS = &tls.Config{
			// A function, because a reload replaces the certificate.
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.cert.Load(), nil },
			NextProtos:     []string{"h2", "http/1.1"},
		}
	}
	api := httpserver.NewListener(a.listener, front)
	telemetry.Gauge(a.metrics, "sluice_connections", "Connections open now on the address of the API.", api.Open)
	all := []*httpserver.Listener{api, httpserver.NewListener(a.adminListener, httpserver.ListenerOptions{Max: sideConnections, Log: a.log})}
	// Refuse answers malformed requests with our error object. The admin socket has no use for it: its
	// only caller is our own client.
	if a.metricsListener != nil {
		all = append(all, httpserver.NewListener(a.metricsListener, httpserver.ListenerOptions{Max: sideConnections, Refuse: a.api.Refuse, Log: a.log}))
	}
	return all
}

// isProxy reports whether an address is that of a trusted proxy. Proxies pass on the requests of
// many callers, so the bound for one address does not apply to them.
func (a *App) isProxy(addr netip.Addr) bool {
	for _, p := range a.settings.Load().Config.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
