package app_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/api/httpserver"
	"sluice/internal/app/config"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/operate/admin"
)

// form posts a form of these bytes to a page, from an address.
func (n *node) form(path, from, body string) reply {
	n.t.Helper()
	r, err := answer(n.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", path, from, len(body), body)))
	if err != nil {
		n.t.Fatalf("POST %s = %v", path, err)
	}
	return r
}

// noted is a connection of which nothing is known but where it comes from and whether it was closed.
type noted struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (c *noted) RemoteAddr() net.Addr { return c.from }
func (c *noted) Close() error         { c.closed = true; return nil }

// arrivals is a listener with connections that are there at once.
type arrivals struct {
	net.Listener
	waiting []*noted
}

func (a *arrivals) Accept() (net.Conn, error) {
	if len(a.waiting) == 0 {
		return nil, net.ErrClosed
	}
	c := a.waiting[0]
	a.waiting = a.waiting[1:]
	return c, nil
}

// connections tries how many connections a listener with the options accepts. It closes the others.
func (b bound) connections(t *testing.T, opts httpserver.ListenerOptions) {
	t.Helper()
	b.says(t, "closed")
	opts.Log = slog.New(slog.DiscardHandler)
	all := make([]*noted, b.n+1)
	for i := range all {
		all[i] = &noted{from: &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 1}}
	}
	l := httpserver.NewListener(&arrivals{waiting: all}, opts)
	accepted := int64(0)
	for {
		if _, err := l.Accept(); err != nil {
			break
		}
		accepted++
	}
	if accepted != b.n || all[b.n-1].closed || !all[b.n].closed {
		t.Errorf("of %d connections %d were accepted, and the last one was closed: %t", len(all), accepted, all[b.n].closed)
	}
}

var bodyTries = map[string]try{
	"request body": func(t *testing.T, s *stage, b bound) {
		n, key := s.node(t), s.account(t).MasterKey
		body := chatBody("m", "say 2", `,"unknown":"%s"`)
		body = fmt.Sprintf(body, strings.Repeat("x", int(b.n)-len(body)+len("%s")))
		b.check(t, n.request("POST", chatPath, key, body), 200, n.announce(chatPath, key, int(b.n)+1))
		// One whose length is not announced is refused when it is too large.
		r, err := answer(n.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s \r\n0\r\n\r\n", chatPath, key, b.n+1, body)))
		if err != nil || r.status != b.status(t) {
			t.Errorf("a chunked body beyond the bound = %d %.300s, %v", r.status, r.body, err)
		}
	},
	"bodies of one account at once": func(t *testing.T, s *stage, b bound) {
		// What is held is counted for a whole service, so this one is its own.
		n := newSite(t, "").start(t)
		key := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "scale"}).MasterKey
		one := s.rows["request body"].n
		body := strings.Repeat("x", int(one)) // it is looked at once it is whole, and is no JSON
		var held []net.Conn
		for range b.n / one {
			held = append(held, n.raw(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", chatPath, key, one, body[:one-1])))
		}
		eventually(t, "the arrival of the bodies", func() bool { return n.BodiesInFlight() == b.n })
		if r := n.request("POST", chatPath, key, "x"); r.status != b.status(t) {
			t.Errorf("beyond %d: %d %.300s, want %s", b.n, r.status, r.body, b.beyond)
		}
		for _, conn := range held {
			if _, err := io.WriteString(conn, body[one-1:]); err != nil {
				t.Fatal(err)
			}
			if r, err := answer(conn); err != nil || r.status != 400 {
				t.Errorf("within %d: %d %.300s, %v, want 400", b.n, r.status, r.body, err)
			}
		}
	},
	"reads of one account at once": func(t *testing.T, s *stage, b bound) {
		b.checkAfter(t, "kit/turnstile/turnstile.go", "patience")
		triedBy("kit/turnstile", "TestReadsAtOnce", "429 after 5 s")(t, s, b)
	},
	"reads of one account that wait":                       triedBy("kit/turnstile", "TestReadsAtOnce", "429"),
	"large bodies of one account that are decoded at once": triedBy("kit/turnstile", "TestBodiesAtOnce", "they wait"),
	"exports of one account at once":                       triedBy("kit/turnstile", "TestExportsAtOnce", "429"),
	"all bodies at once":                                   triedBy("api/httpapi", "TestBodiesInTotal", "503"),
	"bodies without an account":                            triedBy("api/httpapi", "TestBodiesOfStrangers", "503"),
	"bodies without an account, one address":               triedBy("api/httpapi", "TestBodiesOfStrangers", "503"),
	"time for a body to arrive":                            triedBy("api/httpapi", "TestSlowBodies", "408"),
	"slowest body": func(t *testing.T, s *stage, b bound) {
		b.checkAfter(t, "api/httpserver/bodies.go", "bodyPatience")
		triedBy("api/httpapi", "TestSlowBodies", "408 after 30 s")(t, s, b)
	},
	"progress of an unread reply": triedBy("api/httpserver", "TestStuckWrites", "connection closed"),

	"body of a rating": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(size int64) reply {
			const rating = `{"request_id":"none","rating":"good"}`
			return s.node(t).request("POST", "/v1/feedback", key, rating+strings.Repeat(" ", int(size)-len(rating)))
		}
		b.check(t, ask(b.n), 404, ask(b.n+1)) // there is no such call
	},
	"body of a budget": func(t *testing.T, s *stage, b bound) {
		key := s.account(t).MasterKey
		ask := func(size int64) reply {
			return s.node(t).request("PATCH", "/v1/budgets/bud_none", key, "{}"+strings.Repeat(" ", int(size)-2))
		}
		b.check(t, ask(b.n), 404, ask(b.n+1)) // there is no such budget
	},
	"budgets of an account": func(t *testing.T, s *stage, b bound) {
		a := s.account(t)
		n := s.node(t)
		for i := range b.n {
			n.budget(a.ID, fmt.Sprint("budget ", i))
		}
		in := admin.BudgetOrder{Actor: "t", Ref: a.ID, Name: new("one more"), Amount: new("1"), Window: new(account.Daily), Scope: &account.BudgetScope{Account: true}}
		if err := n.call("budget.set", in, &budget.Record{}); !fault.Is(err, fault.Conflict) || !strings.Contains(b.beyond, "409") {
			t.Errorf("beyond %d: %v, want %s", b.n, err, b.beyond)
		}
	},
	"points that feedback moves a model":                              triedBy("operate/feedback", "TestPointsAreBounded", "no further"),
	"votes of one account about a model and a kind of task":           triedBy("store/sqlstore", "TestSQLite", "more count in proportion"), // by its part about feedback
	"calls of one account at a model and a kind of task, as feedback": triedBy("store/sqlstore", "TestSQLite", "more count in proportion"),
	"counts of feedback that wait for the database":                   triedBy("operate/feedback", "TestDatabaseAway", "not counted"),

	"form": func(t *testing.T, s *stage, b bound) {
		n := s.node(t)
		ask := func(size int64) reply {
			const fields = "email=nobody%40example.com&password="
			return n.form("/signin", "198.51.100.1", fields+strings.Repeat("x", int(size)-len(fields)))
		}
		b.check(t, ask(b.n), 401, ask(b.n+1)) // there is no such account
	},
	"fields of a form": func(t *testing.T, s *stage, b bound) {
		n := s.node(t)
		ask := func(count int64) reply {
			return n.form("/signin", "198.51.100.2", "email=nobody%40example.com&password=abcdefghijk"+strings.Repeat("&a=", int(count-2)))
		}
		b.check(t, ask(b.n), 401, ask(b.n+1))
	},
	"payment webhook": func(t *testing.T, s *stage, b bound) {
		n := s.node(t)
		ask := func(size int64) reply {
			return n.request("POST", "/webhooks/stripe", "", strings.Repeat(" ", int(size)))
		}
		b.check(t, ask(b.n), 400, ask(b.n+1)) // Stripe has not signed it
	},
	"request head": func(t *testing.T, s *stage, b bound) {
		n := s.node(t)
		ask := func(size int64) reply {
			const head, tail = "GET /healthz HTTP/1.1\r\nHost: x\r\nA: ", "\r\n\r\n"
			r, err := answer(n.raw(head + strings.Repeat("a", int(size)-len(head+tail)) + tail))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		b.check(t, ask(b.n), 200, ask(b.n+1))
	},
	"connections": func(t *testing.T, s *stage, b bound) {
		cfg, err := config.Load(config.Source{Path: s.running.site.file})
		if err != nil || int64(cfg.MaxConnections) != b.n {
			t.Errorf("%s is %d, %v, want %d", b.where, cfg.MaxConnections, err, b.n)
		}
		b.connections(t, httpserver.ListenerOptions{Max: int(b.n)})
	},
	"connections of one public address": func(t *testing.T, s *stage, b bound) {
		path, name, _ := strings.Cut(b.where, " ")
		all := s.rows["connections"].n
		if share, _ := constantOf(t, path, name); share == nil || all%b.n != 0 || share.String() != fmt.Sprint(all/b.n) {
			t.Errorf("%s is %v, want the part of %d that is %d", name, share, all, b.n)
		}
		b.connections(t, httpserver.ListenerOptions{Max: int(all), MaxPerAddress: int(b.n)})
	},
	"HTTP/2 streams of a connection": func(t *testing.T, _ *stage, b bound) {
		b.says(t, "the client waits") // as the server's first frame tells it to
		cert, key := writeCertificate(t, t.TempDir(), 1, time.Now().Add(time.Hour))
		n := newSite(t, "tls: {cert: "+cert+", key: "+key+"}\n").start(t)
		conn, err := tls.Dial("tcp", n.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil { // and no settings of ours
			t.Fatal(err)
		}
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil || head[3] != 4 {
			t.Fatalf("the first frame is of type %d, %v, want settings", head[3], err)
		}
		settings := make([]byte, int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(conn, settings); err != nil {
			t.Fatal(err)
		}
		const maxConcurrentStreams = 3
		for ; len(settings) >= 6; settings = settings[6:] {
			if binary.BigEndian.Uint16(settings) == maxConcurrentStreams {
				if got := binary.BigEndian.Uint32(settings[2:]); int64(got) != b.n {
					t.Errorf("a connection may have %d streams, want %d", got, b.n)
				}
				return
			}
		}
		t.Error("the server does not tell how many streams a connection may have")
	},
}
