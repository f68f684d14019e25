package porttest_test

import (
	"net"
	"testing"

	"sluice/internal/testkit/porttest"
)

func TestHold(t *testing.T) {
	t.Parallel()
	p, err := porttest.Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	for range 2 { // a server, and the same one after a restart
		if c, err := net.Dial("tcp", p.Addr()); err == nil {
			c.Close()
			t.Error("a connection was accepted without a server")
		}
		l, err := net.Listen("tcp", p.Addr())
		if err != nil {
			t.Fatalf("Listen on a held port = %v", err)
		}
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatalf("Dial = %v", err)
		}
		c.Close()
		l.Close()
	}
}
