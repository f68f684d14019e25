package netguard

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"code.dny.dev/ssrf"
)

// internet checks whether an IP address is public. It is built on first use. Ports are not
// restricted.
var internet = sync.OnceValue(func() *ssrf.Guardian {
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(notPublic))
})

// insideNames are the suffixes of names that only exist inside private networks.
var insideNames = []string{
	".localhost", ".localdomain", ".local", ".internal", ".intranet", ".private", ".corp", ".home", ".lan", ".home.arpa", ".svc",
}

// CheckHost checks the host of a URL that another party, such as a provider, will fetch. It does
// not resolve the name, because it may resolve differently for them. It refuses addresses that are
// not public, names that only exist inside a network, and every spelling that some programs read as
// an IP address and others do not.
func CheckHost(host string) error {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return checkAddr(addr)
	}
	for i := range len(host) {
		// Refuse escapes, delimiters, and characters outside ASCII: some clients normalize those to
		// ASCII digits and dots.
		if c := host[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`%\/@:[]#?`, c) >= 0 {
			return fmt.Errorf("%w: the host contains characters that are not allowed", ErrRefused)
		}
	}
	name := strings.ToLower(host)
	if name == "" || strings.HasSuffix(name, ".") {
		return fmt.Errorf("%w: the host is empty or ends in a dot", ErrRefused)
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	// Programs that follow the C library's inet_aton read 2130706433, 0x7f.1 and 127.1 as
	// addresses. No top-level domain is a number, so nothing legitimate is lost.
	if strings.HasPrefix(last, "0x") || strings.Trim(last, "0123456789") == "" {
		return fmt.Errorf("%w: the host is an IP address in an unusual notation", ErrRefused)
	}
	if last == name {
		return fmt.Errorf("%w: the host is a name without a domain", ErrRefused)
	}
	for _, end := range insideNames {
		if strings.HasSuffix(name, end) {
			return fmt.Errorf("%w: names that end in %s only exist inside private networks", ErrRefused, end)
		}
	}
	return nil
}

// checkAddr applies the dialer's check to a literal address.
func checkAddr(addr netip.Addr) error {
	if addr.Zone() != "" {
		return fmt.Errorf("%w: it is an address of the local network", ErrRefused)
	}
	addr = addr.Unmap()
	network := "tcp6"
	if addr.Is4() {
		network = "tcp4"
	}
	// The port does not matter to the check; Safe only wants an address in this form.
	if err := internet().Safe(network, net.JoinHostPort(addr.String(), "443"), nil); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}
