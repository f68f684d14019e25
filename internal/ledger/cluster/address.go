package cluster

import (
	"net"
	"net/netip"
)

// Reachable returns the host and port at which other machines reach a server that listens on one: the same, unless it
// listens on every interface. Then the host is near, the address with which this machine calls the database: the nodes
// share it, so they are likely to reach each other the same way. If the database is on this machine, it is the first address
// of an interface that is not for this machine alone. Near may be the zero Addr.
func Reachable(listen string, near netip.Addr) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		return listen
	}
	if !near.IsValid() || near.IsLoopback() {
		near = outer(net.InterfaceAddrs())
	}
	return net.JoinHostPort(near.Unmap().String(), port)
}

// outer returns the first of the addresses that other machines can use, or that of this machine alone.
func outer(addrs []net.Addr, _ error) netip.Addr {
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
