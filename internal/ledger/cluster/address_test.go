package cluster

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestReachable(t *testing.T) {
	t.Parallel()
	near := netip.MustParseAddr("10.0.0.7")
	for _, test := range []struct {
		listen string
		near   netip.Addr
		want   string
	}{
		{"10.0.0.11:8080", near, "10.0.0.11:8080"},
		{"127.0.0.1:8080", near, "127.0.0.1:8080"},
		{"node-1.internal:8080", near, "node-1.internal:8080"},
		{"[fd00::1]:8080", near, "[fd00::1]:8080"},
		{":8080", near, "10.0.0.7:8080"},
		{"0.0.0.0:8080", near, "10.0.0.7:8080"},
		{"[::]:8080", near, "10.0.0.7:8080"},
		{"[::]:8080", netip.MustParseAddr("fd00::7"), "[fd00::7]:8080"},
		{":8080", netip.MustParseAddr("::ffff:10.0.0.7"), "10.0.0.7:8080"},
	} {
		if got := Reachable(test.listen, test.near); got != test.want {
			t.Errorf("Reachable(%q, %v) = %q, want %q", test.listen, test.near, got, test.want)
		}
	}
	prefix := func(text string) net.Addr {
		ip, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: n.Mask}
	}
	for _, test := range []struct {
		addrs []net.Addr
		want  string
	}{
		{nil, "127.0.0.1"},
		{[]net.Addr{prefix("127.0.0.1/8"), prefix("::1/128"), prefix("fe80::1/64")}, "127.0.0.1"},
		{[]net.Addr{prefix("127.0.0.1/8"), prefix("fe80::1/64"), prefix("192.168.1.5/24"), prefix("10.0.0.1/8")}, "192.168.1.5"},
	} {
		if got := outer(test.addrs, nil).String(); got != test.want {
			t.Errorf("outer(%v) = %s, want %s", test.addrs, got, test.want)
		}
	}
}

// What a node announces, and what the time is, all nodes know after a beat of each.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		a, _, _ := join(t, d, "a", Exact)
		defer a.Leave(t.Context())
		b, _, _ := join(t, d, "b", Exact)
		defer b.Leave(t.Context())
		a.Announce("http://a:1")
		synctest.Wait()
		d.mu.Lock()
		got := d.state.Nodes[0].Address
		d.mu.Unlock()
		if got != "http://a:1" {
			t.Errorf("the address is %q before the time of the next beat, want it to be there at once", got)
		}
		time.Sleep(beatEvery)
		synctest.Wait()
		if nodes := b.Nodes(); len(nodes) != 2 || nodes[0].Address != "http://a:1" || nodes[1].Address != "" {
			t.Errorf("b knows %+v, want the address of a", nodes)
		}
		time.Sleep(beatEvery / 2)
		if off := b.Now().Sub(a.Now()).Abs(); off > beatEvery {
			t.Errorf("the clocks of two nodes are %v apart", off)
		}
		one := Single()
		one.Announce("http://alone:1") // nobody to tell
		if off := time.Since(one.Now()); off != 0 {
			t.Errorf("the clock of a cluster of one is off by %v", off)
		}
	})
}
