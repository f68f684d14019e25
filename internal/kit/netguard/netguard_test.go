package netguard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is a server on this machine that must never be reached.
type canary struct {
	hits atomic.Int64
	port string
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, c.port, _ = net.SplitHostPort(listener.Addr().String())
	listeners := []net.Listener{listener}
	for _, address := range []string{"127.0.0.2:", "[::1]:"} { // where this machine has them
		if l, err := net.Listen("tcp", address+c.port); err == nil {
			listeners = append(listeners, l)
		}
	}
	var all sync.WaitGroup
	for _, l := range listeners {
		all.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				c.hits.Add(1)
				conn.Close()
			}
		})
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			l.Close()
		}
		all.Wait()
	})
	return c
}

// names is a DNS server of a test's own. A name's answers are given in turn; the last one stays.
type names struct {
	mu      sync.Mutex
	answers map[string][]string
	asked   map[string]int
}

func (n *names) next(name string, v6 bool) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.answers[name]
	if len(all) == 0 {
		return netip.Addr{}, false
	}
	addr := netip.MustParseAddr(all[min(n.asked[name], len(all)-1)])
	if v6 == addr.Is4() {
		return netip.Addr{}, true // no record of this type
	}
	n.asked[name]++
	return addr, true
}

// resolver starts the server and returns what asks it.
func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	n.asked = map[string]int{}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(n.answer(buf[:size]), from)
		}
	})
	t.Cleanup(func() { conn.Close(); serving.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer writes the reply to a query of one question.
func (n *names) answer(query []byte) []byte {
	const header = 12
	var labels []string
	at := header
	for query[at] != 0 {
		labels = append(labels, string(query[at+1:at+1+int(query[at])]))
		at += 1 + int(query[at])
	}
	kind := binary.BigEndian.Uint16(query[at+1:])
	end := at + 5
	addr, known := n.next(strings.ToLower(strings.Join(labels, ".")), kind == 28)
	reply := append([]byte{}, query[:end]...)
	copy(reply[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	switch {
	case !known:
		reply[3] = 0x83 // no such name
	case addr.IsValid():
		reply[7] = 1
		raw := addr.AsSlice()
		reply = append(reply, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		reply = append(reply, raw...)
	}
	return reply
}

// get asks for a URL and returns the error, or one that tells the status.
func get(t *testing.T, g *Guard, address string) error {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := g.Client(u, http.Header{"Authorization": {"Bearer secret"}}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return nil
}

// Every way to write an address that is not public, or to have a name resolve to one, fails before
// a connection is made.
func TestTricks(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	dns := &names{answers: map[string][]string{
		"inside.example": {"127.0.0.1"}, "inside6.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"}, "nat64.example": {"64:ff9b::7f00:1"},
		"private.example": {"10.1.2.3"}, "metadata.example": {"169.254.169.254"}, "zero.example": {"0.0.0.0"}, "ula.example": {"fd00:ec2::254"},
		"127.0.0.1.nip.example": {"127.0.0.1"}, "localtest.example": {"127.0.0.2"}, "cgnat.example": {"100.100.100.200"},
		"127.1": {"127.0.0.1"}, "2130706433": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"}, "0x7f.1": {"127.0.0.1"}, "0177.0.0.1": {"127.0.0.1"},
		"017700000001": {"127.0.0.1"}, "127.0.1": {"127.0.0.1"}, "0": {"0.0.0.0"}, "127.000.000.001": {"127.0.0.1"}, "xn--inside-example": {"127.0.0.1"},
	}}
	g := New(&Options{Allow: []string{"tools.internal", "10.9.9.9:1"}, Resolver: dns.resolver(t)})
	t.Cleanup(g.Close)
	tricks := []string{
		"127.0.0.1", "127.0.0.2", "127.255.255.254", "localhost", "LOCALHOST", "localhost.", "0.0.0.0", "0.0.0.1", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::127.0.0.1]",
		"[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]", "[fe80::1%25lo]", "[::1%25lo]", "[fec0::1]", "[fd00:ec2::254]", "[ff02::1]", "[100::1]",
		"127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "0", "127.000.000.001", "127。0。0。1", "①②⑦.0.0.1",
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16",
		"198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"inside.example", "INSIDE.example.", "inside6.example", "mapped.example", "nat64.example", "private.example", "metadata.example", "zero.example", "ula.example",
		"127.0.0.1.nip.example", "localtest.example", "cgnat.example", "xn--inside-example", "%6c%6f%63%61%6c%68%6f%73%74",
	}
	for _, host := range tricks {
		if err := get(t, g, "http://"+host+":"+c.port+"/"); err == nil {
			t.Errorf("Get(%q) = nil, want an error", host)
		}
	}
	if n := c.hits.Load(); n != 0 {
		t.Errorf("%d tricks: the canary was reached %d times, want 0", len(tricks), n)
	}
}

func TestRefusalIsNamed(t *testing.T) {
	t.Parallel()
	g := New(nil)
	t.Cleanup(g.Close)
	for _, host := range []string{"127.0.0.1", "[::1]", "[::ffff:10.0.0.1]"} {
		if err := get(t, g, "http://"+host+":1/"); !errors.Is(err, ErrRefused) {
			t.Errorf("Get(%q) = %v, want ErrRefused", host, err)
		}
	}
}

// A name that resolved to a public address before resolves to another one when it is dialed.
func TestRebinding(t *testing.T) {
	t.Parallel()
	c := newCanary(t)
	dns := &names{answers: map[string][]string{"rebind.example": {"93.184.216.34", "127.0.0.1"}}}
	resolver := dns.resolver(t)
	g := New(&Options{Resolver: resolver})
	t.Cleanup(g.Close)
	seen, err := resolver.LookupNetIP(t.Context(), "ip4", "rebind.example")
	if err != nil || len(seen) != 1 || seen[0].IsLoopback() {
		t.Fatalf("LookupNetIP = %v, %v, want the public address", seen, err)
	}
	for range 3 {
		if err := get(t, g, "http://rebind.example:"+c.port+"/"); !errors.Is(err, ErrRefused) {
			t.Errorf("Get = %v, want ErrRefused", err)
		}
	}
	if n := c.hits.Load(); n != 0 {
		t.Errorf("the canary was reached %d times, want 0", n)
	}
}

// The environment does not influence where we connect.
func TestProxyOfTheEnvironment(t *testing.T) {
	c := newCanary(t)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:"+c.port)
	}
	dns := &names{answers: map[string][]string{"inside.example": {"127.0.0.1"}}}
	g := New(&Options{Resolver: dns.resolver(t)})
	t.Cleanup(g.Close)
	if err := get(t, g, "http://inside.example/"); !errors.Is(err, ErrRefused) {
		t.Errorf("Get = %v, want ErrRefused", err)
	}
	if n := c.hits.Load(); n != 0 {
		t.Errorf("the canary was reached %d times, want 0", n)
	}
}

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	g := New(nil)
	for _, address := range []string{"93.184.216.34:443", "1.1.1.1:8443", "[2606:4700:4700::1111]:443"} {
		network := "tcp4"
		if strings.HasPrefix(address, "[") {
			network = "tcp6"
		}
		if err := g.guarded.Control(network, address, nil); err != nil {
			t.Errorf("Control(%q) = %v, want nil", address, err)
		}
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	t.Cleanup(served.Close)
	_, port, _ := net.SplitHostPort(served.Listener.Addr().String())
	dns := &names{answers: map[string][]string{"tools.internal": {"127.0.0.1"}, "other.internal": {"127.0.0.1"}}}
	resolver := dns.resolver(t)
	for _, test := range []struct {
		allow, host string
		want        bool
	}{
		{"tools.internal", "tools.internal", true},
		{"Tools.Internal", "tools.internal.", true},
		{"tools.internal:" + port, "tools.internal", true},
		{"tools.internal:1", "tools.internal", false},
		{"tools.internal", "other.internal", false},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "other.internal", true}, // by its address
		{"127.0.0.1:" + port, "127.0.0.1", true},
		{"127.0.0.1:" + port, "[::ffff:127.0.0.1]", true},
		{"127.0.0.1:1", "127.0.0.1", false},
		{"10.0.0.1", "127.0.0.1", false},
		{"[::1]", "127.0.0.1", false},
	} {
		g := New(&Options{Allow: []string{test.allow}, Resolver: resolver})
		err := get(t, g, "http://"+test.host+":"+port+"/")
		if (err == nil) != test.want {
			t.Errorf("Allow(%q): Get(%q) = %v, want reached %t", test.allow, test.host, err, test.want)
		}
		g.Close()
	}
}
