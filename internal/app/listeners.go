package app

import (
	"crypto/tls"
	"net/netip"

	"sluice/internal/api/httpserver"
	"sluice/internal/kit/telemetry"
)

// frontListeners returns listeners that bound the connections of the API, of the admin socket and,
// if they are on, of the metrics, in this order. The bounds do not change with a reload.
func (a *App) frontListeners() []*httpserver.Listener {
	front := httpserver.Front(a.settings.Load().Config.MaxConnections, a.log)
	// Proxies pass on the requests of many callers, so the bound for one address does not apply to them.
	front.Exempt = func(addr netip.Addr) bool { return a.settings.Load().Config.IsProxy(addr) }
	front.Refuse = a.api.Refuse
	if a.settings.Load().Config.TLS.Enabled() {
		front.TLS = &tls.Config{
			// A function, because a reload replaces the certificate.
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.cert.Load(), nil },
			NextProtos:     []string{"h2", "http/1.1"},
		}
	}
	api := httpserver.NewListener(a.listener, front)
	telemetry.Gauge(a.metrics, "sluice_connections", "Connections open now on the address of the API.", api.Open)
	all := []*httpserver.Listener{api, httpserver.NewListener(a.adminListener, httpserver.ListenerOptions{Max: httpserver.SideConnections, Log: a.log})}
	// Refuse answers malformed requests with our error object. The admin socket has no use for it: its
	// only caller is our own client.
	if a.metricsListener != nil {
		all = append(all, httpserver.NewListener(a.metricsListener, httpserver.ListenerOptions{Max: httpserver.SideConnections, Refuse: a.api.Refuse, Log: a.log}))
	}
	return all
}
