package faulttest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wire is the connection of an upstream to the server that has called it.
type wire struct {
	net.Conn
	n int // of the call, from 0
}

// say writes bytes. Whoever is gone does not get them.
func (w *wire) say(text string) bool {
	_, err := io.WriteString(w, text)
	return err == nil
}

// reset breaks the connection, so that the other side loses what it has not read.
func (w *wire) reset() {
	if c, ok := w.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = w.Close()
}

// gone waits until the other side has closed the connection.
func (w *wire) gone() { _, _ = io.Copy(io.Discard, w) }

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"

// word is an event with a word.
func word(text string) string {
	return fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", text)
}

const (
	finish = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

func figured(prompt, completion string) string {
	return fmt.Sprintf(`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":%s,"completion_tokens":%s,"total_tokens":7}}`+"\n\n", prompt, completion)
}

func goodStream() string {
	return streamHead + word("one ") + word("two ") + word("three") + finish + figured("3", "4") + done
}

// upstreamFault is an upstream that does something wrong.
type upstreamFault struct {
	name   string
	script func(w *wire) // nil: the address of the provider is the fault
	url    string        // instead of one of ours
	calls  int           // how many calls are made; 0: one
	// What callers see and what the books show.
	end, outcome string
	text         string // if it is complete
	status       int    // if it is refused
	stalls       string // which timeout ends it; the others have all the time that a busy machine may need
	heavy        bool   // a call of it keeps the machine busy
}

func upstreamFaults(t *testing.T) []upstreamFault {
	lines, resets := scaled(12<<20, 1<<30), len(goodStream())/scaled(40, 1)
	if soaking() {
		resets = len(goodStream())
	}
	return []upstreamFault{
		{name: "refuses connections", url: "http://127.0.0.1:1", end: refused, outcome: "failed", status: 503},
		{name: "has a name that DNS does not know", url: "http://no..such.name", end: refused, outcome: "failed", status: 503},
		{name: "has a certificate that has expired", url: expired(t), end: refused, outcome: "failed", status: 503},
		{name: "stalls before the first byte", script: (*wire).gone, stalls: "first_content", end: refused, outcome: "failed", status: 503},
		{name: "stalls after the head", script: func(w *wire) { w.say(streamHead); w.gone() }, stalls: "first_content", end: refused, outcome: "failed", status: 503},
		{name: "stalls after the first word", script: func(w *wire) { w.say(streamHead + word("one")); w.gone() }, stalls: "silence", end: told, outcome: "cut"},
		{name: "trickles", script: func(w *wire) {
			pause := time.NewTicker(time.Duration(scaled(1, 20)) * time.Millisecond)
			defer pause.Stop()
			for _, b := range []byte(goodStream()) {
				<-pause.C
				if !w.say(string([]byte{b})) {
					return
				}
			}
		}, end: complete, outcome: "complete", text: "one two three"},
		{name: "answers with HTML", script: func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 26\r\n\r\n<html>It works!</html>\r\n\r\n")
		}, end: refused, outcome: "failed", status: 503},
		{name: "answers 502 with HTML", script: func(w *wire) {
			w.say("HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 24\r\n\r\n<h1>502 Bad Gateway</h1>")
		}, end: refused, outcome: "failed", status: 503},
		{name: "sends less than its length", script: func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n" + word("one"))
		}, end: told, outcome: "cut"},
		{name: "sends more than its length", script: func(w *wire) {
			body := word("one ") + finish + done
			w.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\n\r\nsurplus", len(body), body))
		}, end: complete, outcome: "complete", text: "one ", calls: 3},
		{name: "gives two lengths", script: func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5\r\nContent-Length: 900\r\n\r\n" + word("one"))
		}, end: refused, outcome: "failed", status: 503},
		{name: "compresses without being asked", script: func(w *wire) {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = io.WriteString(z, word("one ")+finish+done)
			_ = z.Close()
			w.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", packed.Len(), packed.Bytes()))
		}, end: refused, outcome: "failed", status: 503},
		{name: "sends a line without an end", script: func(w *wire) {
			w.say(streamHead + word("one") + `data: {"id":"`)
			piece := strings.Repeat("x", 64<<10)
			for range lines / len(piece) {
				if !w.say(piece) {
					return
				}
			}
		}, end: told, outcome: "cut", heavy: true},
		{name: "sends 100,000 tiny events", script: func(w *wire) {
			w.say(streamHead)
			event := word("x")
			for range scaled(1000, 10_000) {
				if !w.say(strings.Repeat(event, 10)) {
					return
				}
			}
			w.say(finish + done)
		}, end: complete, outcome: "complete", text: strings.Repeat("x", scaled(10_000, 100_000)), heavy: true},
		{name: "sends its reply in chunks of one byte", script: func(w *wire) {
			w.say("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
			for _, b := range []byte(word("one ") + finish + done) {
				w.say("1\r\n" + string([]byte{b}) + "\r\n")
			}
			w.say("0\r\n\r\n")
		}, end: complete, outcome: "complete", text: "one "},
		{name: "finishes twice", script: func(w *wire) {
			w.say(streamHead + word("one ") + finish + word("late") + finish + finish + done + done + word("later"))
		}, end: complete, outcome: "complete", text: "one "},
		{name: "never finishes", script: func(w *wire) { w.say(streamHead + word("one ") + word("two")) }, end: told, outcome: "cut"},
		{name: "claims usage below zero", script: func(w *wire) { w.say(streamHead + word("one ") + finish + figured("-5", "-7") + done) }, end: complete, outcome: "complete", text: "one "},
		{name: "claims usage beyond all numbers", script: func(w *wire) {
			w.say(streamHead + word("one ") + finish + figured("99999999999999999999", "1e300") + done)
		}, end: complete, outcome: "complete", text: "one "},
		{name: "answers 429 without a hint", script: func(w *wire) {
			w.say("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n")
		}, end: refused, outcome: "failed", status: 503},
		{name: "resets at every byte", calls: resets, script: func(w *wire) {
			at := w.n
			if !soaking() {
				at *= 40
			}
			w.say(goodStream()[:at])
			w.reset()
		}},
	}
}

// listen runs an upstream until the test ends. Each call gets the path and the prompt of its request.
func listen(t *testing.T, answer func(w *wire, path, prompt string)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				req, err := http.ReadRequest(bufio.NewReader(nc))
				if err != nil {
					return
				}
				body, _ := io.ReadAll(req.Body)
				_, prompt, _ := strings.Cut(string(body), `"content":"`)
				prompt, _, _ = strings.Cut(prompt, `"`)
				answer(&wire{Conn: nc}, req.URL.Path, prompt)
			}()
		}
	}()
	return l.Addr().String()
}

// TestUpstreams calls upstreams that do something wrong, one after the other, on one server. Every call has a provider of
// its own: otherwise its circuit breaker would spare the caller the fault.
func TestUpstreams(t *testing.T) {
	t.Parallel()
	faults := upstreamFaults(t)
	addr := listen(t, func(w *wire, path, _ string) {
		var i int
		if _, err := fmt.Sscanf(path, "/%d/%d/", &i, &w.n); err == nil {
			faults[i].script(w)
		}
	})
	var providers, models strings.Builder
	for i, f := range faults {
		for n := range max(1, f.calls) {
			url := f.url
			if f.script != nil {
				url = fmt.Sprintf("http://%s/%d/%d", addr, i, n)
			}
			timeouts := map[string]int{"first_content": 60, "silence": 60}
			if f.stalls != "" {
				timeouts[f.stalls] = scaled(1, 10)
			}
			fmt.Fprintf(&providers, "  - {name: p%d-%d, kind: openai, base_url: %q, timeouts: {first_content: %ds, silence: %ds}}\n", i, n, url+"/v1", timeouts["first_content"], timeouts["silence"])
			fmt.Fprintf(&models, "  - {id: m%d-%d, provider: p%d-%d, plan: free, context_length: 1000, max_output: 100}\n", i, n, i, n)
		}
	}
	s := configure(t, "providers:\n"+providers.String()+"models:\n"+models.String())
	s.start()
	before := s.atRest()
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s.begin(t)
			for n := range max(1, f.calls) {
				f.check(t, s, s.chat(fmt.Sprintf("m%d-%d", i, n), "Go."))
			}
			ended := time.Now()
			s.calm(before)
			recovery := time.Since(ended)
			if n := s.requests() - s.from; n != int64(len(s.calls)) {
				t.Errorf("%d calls are in the books, want %d", n, len(s.calls))
			}
			report(t, "upstream "+f.name, s.tally(), recovery)
		})
	}
	s.t = t
	s.kill(syscall.SIGTERM)
}

// check compares what a caller saw, and what the books say, with what they should.
func (f *upstreamFault) check(t *testing.T, s *server, c *seen) {
	t.Helper()
	if f.end == "" { // it depends; but nothing may look whole that is not
		if c.end == complete && c.text != "one two three" || c.end == cut {
			t.Errorf("a call whose upstream was reset ended as %s with %q", c.end, c.text)
		}
		return
	}
	if c.end != f.end || f.status != 0 && c.status != f.status || f.end == complete && c.text != f.text {
		t.Errorf("the caller saw %s %d %.100q, want %s %d %.100q\n%.300s", c.end, c.status, c.text, f.end, f.status, f.text, c.body)
	}
	if r := s.inBooks(c.id); r == nil || r.Outcome != f.outcome || r.PromptTokens < 0 || r.CompletionTokens < 0 || r.CompletionTokens > 1_000_000 {
		t.Errorf("the books say %+v, want it %s", r, f.outcome)
	}
}

// expired returns the address of a server whose certificate has expired.
func expired(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_ = nc.(*tls.Conn).Handshake()
			_ = nc.Close()
		}
	}()
	return "https://" + l.Addr().String()
}
