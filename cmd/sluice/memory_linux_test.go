package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The maximum by which an attack may raise the memory of the process: docs/security.md#memory.
const (
	strangerBytes = 100_000_000
	customerBytes = 200_000_000
)

// attackers is the number of connections that an attack uses at once.
const attackers = 200

// attackPatience is how long one connection continues. A server that reads slowly, or not at all, must not delay
// the test.
func attackPatience() time.Duration {
	if os.Getenv("SLUICE_SOAK") != "" {
		return 4 * time.Second
	}
	return 300 * time.Millisecond
}

// attack is what one connection does to the server. It may return at any time; the connection stays open until all
// connections of the attack are done, so that whatever the server holds for them is held at once.
type attack struct {
	name string
	run  func(c net.Conn, n int)
}

// TestMemoryStranger lets 200 connections without a key send whatever they like.
func TestMemoryStranger(t *testing.T) {
	t.Parallel()
	g := newGateway(t, t.TempDir()+"/data", "lab", "")
	g.start()
	form := func(path, field string, size int) func(net.Conn, int) {
		return func(c net.Conn, n int) {
			sendHead(c, "POST", path, size, "Content-Type: application/x-www-form-urlencoded")
			fill(c, fmt.Sprintf("%s=%d-", field, n), "a", size)
			readSome(c)
		}
	}
	chunked := func(path string) func(net.Conn, int) {
		return func(c net.Conn, _ int) {
			sendHead(c, "POST", path, -1, "Transfer-Encoding: chunked", "Content-Type: application/json")
			chunk := "10000\r\n" + strings.Repeat("[", 0x10000) + "\r\n"
			for range 512 {
				if !send(c, chunk) {
					return
				}
			}
		}
	}
	unread := func(path string) func(net.Conn, int) {
		return func(c net.Conn, _ int) {
			request := "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
			send(c, strings.Repeat(request, 2000)) // nothing is read
		}
	}
	g.attack(strangerBytes, []attack{
		{"sign-in address of 30 MiB", form("/signin", "email", 30<<20)},
		{"sign-in password of 30 MiB", form("/signin", "email=a%40example.com&password", 30<<20)},
		{"reset for an address of 30 MiB", form("/reset", "email", 30<<20)},
		{"sign-up with an address of 30 MiB", form("/signup", "email", 30<<20)},
		{"passwords to be hashed", func(c net.Conn, n int) {
			body := fmt.Sprintf("email=owner%%40localhost&password=guess-number-%d", n)
			for range 5 {
				sendHead(c, "POST", "/signin", len(body), "Content-Type: application/x-www-form-urlencoded")
				if !send(c, body) || !readSome(c) {
					return
				}
			}
		}},
		{"chat body without a key", func(c net.Conn, _ int) {
			sendHead(c, "POST", "/v1/chat/completions", 32<<20, "Content-Type: application/json")
			fill(c, `{"model":"`, "a", 32<<20)
		}},
		{"chat body with a wrong key", func(c net.Conn, n int) {
			sendHead(c, "POST", "/v1/chat/completions", 32<<20, "Content-Type: application/json", fmt.Sprintf("Authorization: Bearer service-%048d", n))
			fill(c, `{"model":"`, "a", 32<<20)
		}},
		{"message to /mcp without a key", func(c net.Conn, _ int) {
			sendHead(c, "POST", "/mcp", 8<<20, "Content-Type: application/json")
			fill(c, `[`, "[", 8<<20)
		}},
		{"chunked body without end to /mcp", chunked("/mcp")},
		{"chunked body without end to a page", chunked("/signin")},
		{"chunked body without end to nothing", chunked("/nothing/here")},
		{"webhook of 30 MiB", form("/webhooks/stripe", "x", 30<<20)},
		{"announced and never sent", func(c net.Conn, _ int) { sendHead(c, "POST", "/signin", 32<<20) }},
		{"head without end", func(c net.Conn, _ int) {
			send(c, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
			fill(c, "X-Long: ", "a", 4<<20)
		}},
		{"head of many fields", func(c net.Conn, _ int) {
			send(c, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
			for n := range 100_000 {
				if !send(c, fmt.Sprintf("X-%d: a\r\n", n)) {
					return
				}
			}
		}},
		{"descriptions nobody reads", unread("/openapi.json")},
		{"pages nobody reads", unread("/docs/all")},
		{"many paths", func(c net.Conn, n int) {
			for i := range 50 {
				path := fmt.Sprintf("/%d/%d/%s", n, i, strings.Repeat("a", 7000))
				if !send(c, "GET "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") || !readSome(c) {
					return
				}
			}
		}},
	})
}

// TestMemoryCustomer lets a customer without a plan use 200 connections at once.
func TestMemoryCustomer(t *testing.T) {
	t.Parallel()
	g := newGateway(t, t.TempDir()+"/data", "lab", "")
	g.start()
	key := "Authorization: Bearer " + g.newAccount("customer@example.com")
	post := func(path, start, middle, end string, size int, more ...string) func(net.Conn, int) {
		return func(c net.Conn, n int) {
			fields := append([]string{"Content-Type: application/json", key}, more...)
			for i, f := range fields {
				fields[i] = strings.ReplaceAll(f, "%d", strconv.Itoa(n))
			}
			sendHead(c, "POST", path, size, fields...)
			fill(c, start, middle, size-len(end))
			send(c, end)
			readSome(c)
		}
	}
	const chat, mcp = "/v1/chat/completions", "/mcp"
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat_completion","arguments":{"model":"lab/one","messages":[`
	g.attack(customerBytes, []attack{
		{"prompt of 31 MiB", post(chat, `{"model":"lab/one","messages":[{"role":"user","content":"`, "a", `"}]}`, 31<<20)},
		{"prompt of 31 MiB of words", post(chat, `{"model":"lab/one","messages":[{"role":"user","content":"`, "so it goes ", `"}]}`, 31<<20)},
		{"prompt of 31 MiB to the router", post("/v1/route", `{"model":"service/auto","messages":[{"role":"user","content":"`, "a", `"}]}`, 31<<20)},
		{"a million messages", post(chat, `{"model":"lab/one","messages":[{"role":"user","content":""}`, `,{"role":"user","content":""}`, `]}`, 31<<20)},
		{"a million parts", post(chat, `{"model":"lab/one","messages":[{"role":"user","content":[{"type":"text","text":""}`, `,{"type":"text","text":""}`, `]}]}`, 31<<20)},
		{"a million tools", post(chat, `{"model":"lab/one","messages":[{"role":"user","content":"a"}],"tools":[{}`, `,{}`, `]}`, 31<<20)},
		{"a million stop words", post(chat, `{"model":"lab/one","messages":[{"role":"user","content":"a"}],"stop":["a"`, `,"a"`, `]}`, 31<<20)},
		{"a million unknown fields", post(chat, `{"model":"lab/one","messages":[{"role":"user","content":"a"}],"x":[0`, `,0`, `]}`, 31<<20)},
		{"brackets", post(chat, `[`, `[`, `[`, 31<<20)},
		{"bodies for an idempotency key", post(chat, `{"model":"lab/one","messages":[{"role":"user","content":"`, "a", `"}]}`, 31<<20, "Idempotency-Key: n%d")},
		{"announced and dripped", func(c net.Conn, _ int) {
			sendHead(c, "POST", chat, 32<<20, "Content-Type: application/json", key)
			send(c, "{")
		}},
		{"message to /mcp of one string", post(mcp, call+`{"role":"user","content":"`, "a", `"}]}}}`, 8<<20, "Accept: application/json, text/event-stream")},
		{"message to /mcp of many elements", post(mcp, call+`{"role":"user","content":""}`, `,{"role":"user","content":""}`, `]}}}`, 8<<20, "Accept: application/json, text/event-stream")},
		{"message to /mcp of brackets", post(mcp, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`, `[`, `}`, 8<<20, "Accept: application/json, text/event-stream")},
		{"batch to /mcp", post(mcp, `[{"jsonrpc":"2.0","id":1,"method":"ping"}`, `,{"jsonrpc":"2.0","id":1,"method":"ping"}`, `]`, 8<<20, "Accept: application/json, text/event-stream")},
		{"video prompt of 31 MiB", post("/v1/video/generations/jobs", `{"prompt":"`, "a", `"}`, 31<<20)},
		{"lists nobody reads", func(c net.Conn, _ int) {
			send(c, strings.Repeat("GET /v1/models?format=verbose HTTP/1.1\r\nHost: 127.0.0.1\r\n"+key+"\r\n\r\n", 500))
		}},
	})
}

// TestMemoryStrangerHTTP2 is TestMemoryStranger over TLS and HTTP/2, where each connection carries many requests.
func TestMemoryStrangerHTTP2(t *testing.T) {
	t.Parallel()
	cert, key := writeCertificate(t)
	g := newGateway(t, t.TempDir()+"/data", "lab", fmt.Sprintf("tls: {cert: %q, key: %q}\n", cert, key))
	g.start()
	// Each attacker sends this many requests at once over its connection, more than the server allows.
	const requests = 20
	over := func(one func(client *http.Client, n int)) func(net.Conn, int) {
		return func(c net.Conn, n int) {
			client := newHTTP2Client(c)
			var working sync.WaitGroup
			for i := range requests {
				working.Go(func() { one(client, n*requests+i) })
			}
			working.Wait()
		}
	}
	// post sends start and then middle without end. A client without a length sends what the server takes.
	post := func(path, contentType, start, middle string) func(net.Conn, int) {
		return over(func(client *http.Client, n int) {
			body := io.MultiReader(strings.NewReader(fmt.Sprintf(start, n)), &repeated{text: middle, left: 32 << 20})
			ctx, cancel := context.WithTimeout(t.Context(), attackPatience())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, io.NopCloser(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", contentType)
			req.Header.Set("Authorization", fmt.Sprintf("Bearer service-%048d", n))
			if resp, err := client.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	unread := func(path string) func(net.Conn, int) {
		return over(func(client *http.Client, _ int) {
			ctx, cancel := context.WithTimeout(t.Context(), attackPatience())
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := client.Do(req); err == nil {
				<-ctx.Done() // nothing is read
				resp.Body.Close()
			}
		})
	}
	const form, object = "application/x-www-form-urlencoded", "application/json"
	g.attack(strangerBytes, []attack{
		{"HTTP/2: sign-in address without end", post("/signin", form, "email=%d-", "a")},
		{"HTTP/2: sign-up address without end", post("/signup", form, "email=%d-", "a")},
		{"HTTP/2: reset address without end", post("/reset", form, "email=%d-", "a")},
		{"HTTP/2: chat body without a key", post("/v1/chat/completions", object, `{"model":"%d`, "a")},
		{"HTTP/2: message to /mcp", post("/mcp", object, `[%d`, ",[")},
		{"HTTP/2: webhook without end", post("/webhooks/stripe", object, `{"id":"%d`, "a")},
		{"HTTP/2: body to nothing", post("/nothing/here", object, `%d`, "a")},
		{"HTTP/2: descriptions nobody reads", unread("/openapi.json")},
		{"HTTP/2: pages nobody reads", unread("/docs/all")},
	})
}

// newHTTP2Client returns a client that speaks HTTP/2 over TLS on this one connection.
func newHTTP2Client(c net.Conn) *http.Client {
	var once atomic.Bool
	return &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if once.Swap(true) {
				return nil, errors.New("there is one connection only")
			}
			over := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			return over, over.HandshakeContext(ctx)
		},
	}}
}

// repeated is a reader of a text that repeats up to a length.
type repeated struct {
	text string
	left int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	for n < len(p) && r.left > 0 {
		k := copy(p[n:], r.text)
		n, r.left = n+k, r.left-k
	}
	return n, nil
}

// writeCertificate writes a certificate for 127.0.0.1, and its key, to files.
func writeCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * 24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	secretDER, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = dir+"/cert.pem", dir+"/key.pem"
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secretDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// attack runs the attacks one after the other, each over many connections at once, and checks that none raises the
// process's memory by more than bound at its highest point.
func (g *gateway) attack(bound int64, attacks []attack) {
	g.t.Helper()
	if raced {
		g.t.Skip("the race detector's own memory would be measured")
	}
	rounds := 1
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 3
	}
	g.get(g.url + "/docs/all") // what a first request needs is not the attack's
	before := g.status("VmRSS")
	var worst int64
	for range rounds {
		for _, a := range attacks {
			if err := os.WriteFile(g.proc("clear_refs"), []byte("5"), 0); err != nil { // resets VmHWM
				g.t.Fatal(err)
			}
			g.assail(a)
			raised := g.status("VmHWM") - before
			worst = max(worst, raised)
			g.t.Logf("soak: memory: %s: +%.1f MB", a.name, float64(raised)/1e6)
			if raised > bound {
				g.t.Errorf("%s: %d connections raised the process by %.1f MB, want at most %.1f", a.name, attackers, float64(raised)/1e6, float64(bound)/1e6)
			}
		}
	}
	g.t.Logf("soak: memory: at most +%.1f MB over %.1f MB, bound %.1f MB", float64(worst)/1e6, float64(before)/1e6, float64(bound)/1e6)
	if status, _ := g.get(g.url + "/healthz"); status != 200 {
		g.t.Errorf("GET /healthz after the attacks = %d, want 200", status)
	}
}

// assail runs one attack over all its connections and closes them together.
func (g *gateway) assail(a attack) {
	_, address, _ := strings.Cut(g.url, "://")
	var working sync.WaitGroup
	conns := make([]net.Conn, attackers)
	for n := range conns {
		working.Go(func() {
			c, err := net.DialTimeout("tcp", address, attackPatience())
			if err != nil {
				return // refused: nothing is held for it
			}
			conns[n] = c
			_ = c.SetDeadline(time.Now().Add(attackPatience()))
			a.run(c, n)
		})
	}
	working.Wait()
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}

// newAccount opens an account without a plan and returns its master key.
func (g *gateway) newAccount(email string) string {
	g.t.Helper()
	code, out, text := g.command("account", "create", "--email", email, "--json")
	var made struct {
		MasterKey string `json:"master_key"`
	}
	if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil || made.MasterKey == "" {
		g.t.Fatalf("account create = %d %s %s, want a key", code, out, text)
	}
	return made.MasterKey
}

func (g *gateway) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", g.cmd.Process.Pid, file)
}

// status returns a field of the process's status, in bytes.
func (g *gateway) status(field string) int64 {
	g.t.Helper()
	text, err := os.ReadFile(g.proc("status"))
	if err != nil {
		g.t.Fatal(err)
	}
	m := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		g.t.Fatalf("no %s in %s", field, text)
	}
	kilobytes, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		g.t.Fatal(err)
	}
	return kilobytes << 10
}

// sendHead sends the head of a request. With a negative size it announces no length.
func sendHead(c net.Conn, method, path string, size int, fields ...string) bool {
	head := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	if size >= 0 {
		head += fmt.Sprintf("Content-Length: %d\r\n", size)
	}
	for _, f := range fields {
		head += f + "\r\n"
	}
	return send(c, head+"\r\n")
}

// fill sends start and then as much of the repeated text as makes size bytes.
func fill(c net.Conn, start, repeated string, size int) {
	if !send(c, start) {
		return
	}
	block := bytes.Repeat([]byte(repeated), max(1, (64<<10)/len(repeated)))
	for left := size - len(start); left > 0; left -= len(block) {
		if !send(c, string(block[:min(left, len(block))])) {
			return
		}
	}
}

// send reports whether everything was sent; the server may have closed the connection, or stopped reading.
func send(c net.Conn, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

// readSome reads the beginning of a reply and reports whether there was one.
func readSome(c net.Conn) bool {
	n, err := c.Read(make([]byte, 4<<10))
	return err == nil && n > 0
}
