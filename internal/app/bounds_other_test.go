package app_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/kit/plainhttp"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/upstream/continuation"
)

// bareUpstream is an upstream that sends this text to whoever asks, and the client that speaks to it.
func bareUpstream(t *testing.T, text string) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, text)
		}
	})
	defer serving.Wait()
	defer l.Close()
	client := plainhttp.New(nil)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return err
}

// upstreamHead tries a bound of what an upstream sends.
func upstreamHead(text func(n int64) string) try {
	return func(t *testing.T, _ *stage, b bound) {
		t.Helper()
		b.says(t, "the attempt fails")
		if err := bareUpstream(t, text(b.n)); err != nil {
			t.Errorf("within %d: %v, want a reply", b.n, err)
		}
		if err := bareUpstream(t, text(b.n+1)); err == nil {
			t.Errorf("beyond %d: a reply, want an error", b.n)
		}
	}
}

// forgetful is a store that keeps nothing.
type forgetful struct{ continuation.Store }

func (forgetful) KeepState(context.Context, *continuation.State, continuation.Bound) error {
	return nil
}

// hiddenSteps tries how many hidden steps, or bytes of them, an account may have; or, if turns is set, turns with thinking.
// Those do not displace hidden steps.
func hiddenSteps(column string, turns bool) try {
	return func(t *testing.T, _ *stage, b bound) {
		t.Helper()
		b.says(t, "the oldest go")
		dir := t.TempDir()
		store, err := alltest.Open(t.Context(), "sqlite", dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		now := time.Now()
		memory := continuation.New(store, &continuation.Options{Now: func() time.Time { now = now.Add(time.Millisecond); return now }}).For("acct_1")
		keep := func(call string) {
			put := memory.Keep
			if turns {
				put = memory.KeepLong
			}
			if err := put(t.Context(), call, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if turns {
			if err := memory.Keep(t.Context(), "a hidden step", nil); err != nil {
				t.Fatal(err)
			}
		}
		keep("first")
		// As if the account had as many as leave room for one more of this size.
		db, err := sql.Open("sqlite", filepath.Join(dir, sqlstore.File)+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(`UPDATE continuation_sizes SET `+column+` = $1 - `+column, b.n); err != nil {
			t.Fatal(err)
		}
		has := func(call string) bool {
			_, ok, err := memory.Recall(t.Context(), call)
			return ok && err == nil
		}
		keep("second")
		if !has("first") {
			t.Errorf("within %d: the first is gone", b.n)
		}
		keep("third")
		if has("first") || !has("second") || !has("third") {
			t.Errorf("beyond %d: the first is there: %t, the second: %t, the third: %t; want the first gone", b.n, has("first"), has("second"), has("third"))
		}
		if turns && !has("a hidden step") {
			t.Errorf("beyond %d: a hidden step is gone", b.n)
		}
	}
}

// page tries the largest page of a list.
func page(path string) try {
	return func(t *testing.T, s *stage, b bound) {
		t.Helper()
		n, key := s.node(t), s.account(t).MasterKey
		ask := func(limit int64) reply { return n.get(fmt.Sprint(path, "?limit=", limit), key) }
		b.check(t, ask(b.n), 200, ask(b.n+1))
	}
}

var otherTries = map[string]try{
	"shared conversation":                          triedBy("account/sharing", "TestCreateRefuses", "413"),
	"messages of a model in a shared conversation": triedBy("account/sharing", "TestCreateRefuses", "413"),
	"shared conversations of an account": func(t *testing.T, s *stage, b bound) {
		p := s.enter(t, s.account(t).Email)
		for range b.n - 1 {
			p.shared("Hi")
		}
		b.check(t, p.shares(chatToShare("Hi"), 1, "same-origin"), 201, p.shares(chatToShare("Hi"), 1, "same-origin"))
	},
	"bytes of an account's shared conversations": func(t *testing.T, s *stage, b bound) {
		made := s.account(t)
		p := s.enter(t, made.Email)
		p.shared("Hi")
		// As if the account had as many as leave room for one more of this size.
		s.age(t, fmt.Sprintf(`UPDATE share_sizes SET bytes = %d - bytes WHERE account_id = $1`, b.n), made.ID)
		b.check(t, p.shares(chatToShare("Hi"), 1, "same-origin"), 201, p.shares(chatToShare("Hi"), 1, "same-origin"))
	},
	"webhooks of an account": triedBy("operate/alert", "TestBounds", "409"),
	"URL of a webhook":       triedBy("operate/alert", "TestGuarded", "400"),
	"prompts that are counted for the runaway watch, of a key":     triedBy("ledger/runaway", "TestCrowd", "the oldest go"),
	"conversations that are counted for it, of a key":              triedBy("ledger/runaway", "TestCrowd", "the oldest go"),
	"keys that are counted for it, in each of 64 parts":            triedBy("ledger/runaway", "TestCrowd", "the oldest go"),
	"signals that wait to be looked at":                            triedBy("ledger/runaway", "TestSignalsThatWait", "dropped, seen again"),
	"calls that are added up for what a key spends in ten minutes": triedBy("store/sqlstore/budgets", "TestRunawaySQLite", "the newest count"),
	"mails about the sessions of one budget in an hour":            triedBy("store/sqlstore/budgets", "TestMarksSQLite", "webhooks alone"),
	"tests of webhooks in an hour":                                 triedBy("operate/alert", "TestBounds", "429"),
	"deliveries sent again in an hour":                             triedBy("operate/alert", "TestReplayBound", "429"),
	"deliveries of an account that wait":                           triedBy("operate/alert", "TestWaitingBound", "given up, replayable"),
	"deliveries of an account that are kept":                       triedBy("operate/alert", "TestWaitingBound", "the oldest go"),
	"deliveries to one webhook at once":                            triedBy("operate/alert", "TestAtOnce", "they wait"),

	"hidden steps, one": func(t *testing.T, _ *stage, b bound) {
		b.says(t, "not kept")
		memory := continuation.New(forgetful{}, nil).For("acct_1")
		if err := memory.Keep(t.Context(), "call_1", make([]byte, b.n)); err != nil {
			t.Errorf("within %d: %v", b.n, err)
		}
		if err := memory.Keep(t.Context(), "call_1", make([]byte, b.n+1)); err == nil {
			t.Errorf("beyond %d: kept", b.n)
		}
	},
	"hidden steps of an account":         hiddenSteps("bytes", false),
	"hidden steps of an account, number": hiddenSteps("entries", false),
	"kept thinking of an account":        hiddenSteps("bytes", true),
	"kept turns of an account":           hiddenSteps("entries", true),
	"hidden steps of all accounts":       triedBy("upstream/continuation", "TestTrim", "the oldest go"),

	"video prompt": func(t *testing.T, s *stage, b bound) {
		n, key := s.node(t), s.account(t).MasterKey
		ask := func(size int64) reply {
			return n.request("POST", videoJobs, key, strings.Replace(clip, "a lighthouse at dusk", strings.Repeat("é", int(size)), 1))
		}
		within := ask(b.n)
		b.check(t, within, 200, ask(b.n+1))
		n.request("DELETE", videoJobs+"/"+readVideo(t, within).ID, key, "")
	},
	"text or reason of an order of staff":     triedBy("operate/steering", "TestRefusedOrders", "400"),
	"models of one maintenance":               triedBy("operate/steering", "TestRefusedOrders", "400"),
	"announcements, and times of maintenance": triedBy("operate/steering", "TestBounds", "409"),
	"drained targets, and moved models":       triedBy("operate/steering", "TestBounds", "409"),

	"fields of the form for a video": triedBy("video", "TestParseVideo", "400"),

	"calls of a tool, where its server asks for the same again": triedBy("upstream/mcpclient", "TestRequestState", "tool error"),
	"tool lists that are kept":                                  triedBy("upstream/mcpclient", "TestFullCache", "the one that would stay longest goes"),

	"page of video jobs":      page(videoJobs),
	"page of catalog changes": page("/v1/catalog/changes"),
	"head of a plain upstream's reply": upstreamHead(func(n int64) string {
		const head, tail = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: ", "\r\n\r\n"
		return head + strings.Repeat("a", int(n)-len(head+tail)) + tail + "ok"
	}),
	"framing of the chunks of a plain upstream's reply, beyond what chunks of their size need": upstreamHead(func(n int64) string {
		text := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		// Each chunk is one byte, for which 18 bytes are usual, and the end of the one before belongs to it.
		for ends := int64(2); n > 0; ends = 4 {
			more := min(n, 3000)
			text += "1;" + strings.Repeat("x", int(more+18-ends-2)) + "\r\nx\r\n"
			n -= more
		}
		return text + "0\r\n\r\n"
	}),
	"header lines of a plain upstream's reply": upstreamHead(func(n int64) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + strings.Repeat("A: b\r\n", int(n-1)) + "\r\nok"
	}),
	"interim replies of a plain upstream": upstreamHead(func(n int64) string {
		return strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", int(n)) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	}),
	"configuration file": func(t *testing.T, _ *stage, b bound) {
		b.says(t, "refused")
		load := func(n int64) error {
			path := filepath.Join(t.TempDir(), "sluice.yaml")
			if err := os.WriteFile(path, []byte(strings.Repeat("#", int(n))), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(config.Source{Path: path})
			return err
		}
		if err := load(b.n); err != nil {
			t.Errorf("within %d: %v", b.n, err)
		}
		if err := load(b.n + 1); err == nil {
			t.Errorf("beyond %d: accepted", b.n)
		}
	},
}
