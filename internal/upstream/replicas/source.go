// Package replicas finds the servers of providers that have several, and reads how busy they are.
//
// A provider lists Sources: addresses, and names that are looked up again and again. Names keeps what the lookups have
// found, and turns sources into Places. Watch asks the servers that routes lead to for their metrics. Both work in the
// background: what a call needs of them is in memory, and what they find out is this node's own, because every node asks
// the same DNS and the same servers.
//
// Which replica gets a call is decided by package routing, and adapters for places are made by package app.
package replicas

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Most bounds the replicas of one provider, and the addresses that one name may stand for. Each gets connections and a
// target of its own for each key and model.
const Most = 64

// Source says where replicas are. Sources can be compared.
type Source struct {
	look kind
	base string // the base URL
}

// kind is how the replicas of a source are found.
type kind string

const (
	listed kind = ""        // the base URL is that of one replica
	hosts  kind = "dns+"    // each address of its host is a replica
	srv    kind = "dnssrv+" // each record of its host is one, with a port
)

// Parse reads a source: a base URL, with dns+ in front if each address of its host is a replica, or dnssrv+ if SRV records
// are.
func Parse(text string) (Source, error) {
	s := Source{base: strings.TrimRight(text, "/")}
	for _, k := range []kind{srv, hosts} {
		if rest, ok := strings.CutPrefix(s.base, string(k)); ok {
			s = Source{k, rest}
			break
		}
	}
	u, err := url.Parse(s.base)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
		return s, errors.New("must be an address such as http://10.0.0.1:8000/v1, or dns+http://vllm.default.svc:8000/v1 for every address of a name")
	case u.User != nil:
		return s, errors.New("must not contain a user or a password; use api_key")
	case s.look == srv && u.Port() != "":
		return s, errors.New("must not have a port: SRV records say it")
	}
	return s, nil
}

// String returns the source as it was written.
func (s Source) String() string { return string(s.look) + s.base }

// Found reports whether the replicas are those that a name stands for, and not one that is listed.
func (s Source) Found() bool { return s.look != listed }

// Place is where one replica is. Places can be compared.
type Place struct {
	Base    string // the base URL
	Address string // host and port to connect to; empty: those of the base URL
	Name    string // host and port, for people
}

// Place returns the place of a source that is not looked up, or whose name has not been looked up yet.
func (s Source) Place() Place { return Place{Base: s.base, Name: s.at("")} }

// at returns host and port: those of the base URL, or its port at another host.
func (s Source) at(host string) string {
	u, err := url.Parse(s.base)
	if err != nil {
		return s.base // Parse lets no such source pass
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(cmp.Or(host, u.Hostname()), cmp.Or(u.Port(), port))
}

// places returns the replicas at the addresses that a lookup found. With SRV these have ports.
func (s Source) places(found []string) []Place {
	list := make([]Place, len(found))
	for i, address := range found {
		if s.look == hosts {
			// The name stays in the URL: it is what a server with TLS must prove, and what a proxy in front of it knows.
			list[i] = Place{Base: s.base, Address: s.at(address), Name: s.at(address)}
			continue
		}
		u, _ := url.Parse(s.base)
		u.Host = address
		list[i] = Place{Base: u.String(), Name: address}
	}
	return list
}

// usable reports whether a server can be at an address. Anything that is inside the operator's network can.
func usable(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() }

// addresses returns what a name stands for: its IPv4 addresses, or else those of IPv6, since both are the same servers.
// They are in order, so that two equal answers are equal.
func addresses(found []netip.Addr) []string {
	var four, six []netip.Addr
	for _, a := range found {
		switch a = a.Unmap(); {
		case !usable(a):
		case a.Is4():
			four = append(four, a)
		default:
			six = append(six, a)
		}
	}
	if len(four) == 0 {
		four = six
	}
	slices.SortFunc(four, netip.Addr.Compare)
	four = slices.Compact(four)
	list := make([]string, len(four))
	for i, a := range four {
		list[i] = a.String()
	}
	return list
}
