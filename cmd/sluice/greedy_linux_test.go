package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/operate/admin"
)

// greedy is how many callers of one account ask for the same thing at once.
const greedy = 100

// greedyPatience is how long a caller waits for the beginning of a reply. One at least must get it.
func greedyPatience() time.Duration { return attackPatience() + time.Second }

// greedyAccount is a free account with one large stored response, and everything that it takes to ask for more.
type greedyAccount struct {
	g        *gateway
	key      string
	cookie   string
	response string // the id of the stored response
}

// storedSize is the size of the stored response: nearly the most that can be stored.
const storedSize = 31 << 20

// newGreedy starts a gateway with a free account that has stored a large response.
func newGreedy(t *testing.T) *greedyAccount {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // a gateway that hangs up needs no reply
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
	}))
	t.Cleanup(upstream.Close)
	g := newGateway(t, t.TempDir()+"/data", "lab", "")
	text, err := os.ReadFile(g.file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), `base_url: "`)
	_, after, _ := strings.Cut(rest, `"`)
	if err := os.WriteFile(g.file, []byte(before+`base_url: "`+upstream.URL+`/v1"`+after), 0o600); err != nil {
		t.Fatal(err)
	}
	g.start()
	a := &greedyAccount{g: g, key: g.newAccount("greedy@example.com")}
	a.store()
	a.signIn()
	g.stop()
	g.start() // what storing took is not the attack's
	return a
}

// store stores the large response.
func (a *greedyAccount) store() {
	t := a.g.t
	t.Helper()
	const start, end = `{"model":"lab/one","input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,`, `"}]}]}`
	body := start + strings.Repeat("AAAA", (storedSize-len(start+end))/4) + end
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.g.url+"/v1/responses", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct {
		ID    string
		Store bool
	}
	reply, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(reply, &made)
	}
	if err != nil || resp.StatusCode != 200 || made.ID == "" || !made.Store {
		t.Fatalf("POST /v1/responses = %d %.300s, %v, want a stored response", resp.StatusCode, reply, err)
	}
	a.response = made.ID
}

// signIn signs the owner of the account in to the pages.
func (a *greedyAccount) signIn() {
	t := a.g.t
	t.Helper()
	code, out, text := a.g.command("signin-link", "greedy@example.com", "--json")
	var link admin.SignInLink
	if err := json.Unmarshal([]byte(out), &link); code != 0 || err != nil {
		t.Fatalf("signin-link = %d %s %s, want a link", code, out, text)
	}
	u, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Timeout: patience}
	resp, err := client.PostForm(a.g.url+u.Path, url.Values{"token": {u.Query().Get("token")}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	site, _ := url.Parse(a.g.url) // it has just served
	for _, c := range jar.Cookies(site) {
		a.cookie += c.Name + "=" + c.Value + "; "
	}
	if resp.StatusCode != 200 || a.cookie == "" {
		t.Fatalf("POST %s = %d with the cookies %q, want a session", u.Path, resp.StatusCode, a.cookie)
	}
}

// figures is what a route cost.
type figures struct {
	raised   int64 // bytes of memory, above what the process has at rest
	cpu      time.Duration
	statuses map[string]int // of the replies; "" for callers that got none
}

// drive lets all callers send the request at once. They read the status of the reply and nothing more, and wait for it no
// longer than wait.
func (a *greedyAccount) drive(rest int64, request string, wait time.Duration) figures {
	g := a.g
	g.t.Helper()
	if err := os.WriteFile(g.proc("clear_refs"), []byte("5"), 0); err != nil { // resets VmHWM
		g.t.Fatal(err)
	}
	_, address, _ := strings.Cut(g.url, "://")
	small := net.Dialer{Timeout: wait, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10) })
	}}
	before := a.cpu()
	var working sync.WaitGroup
	conns, statuses := make([]net.Conn, greedy), make([]string, greedy)
	for n := range conns {
		working.Go(func() {
			c, err := small.DialContext(g.t.Context(), "tcp", address)
			if err != nil {
				return
			}
			conns[n] = c
			_ = c.SetDeadline(time.Now().Add(wait))
			go send(c, request) // a reply may come before the request is sent
			var head [12]byte
			if _, err := io.ReadFull(c, head[:]); err == nil {
				statuses[n] = string(head[9:])
			}
		})
	}
	working.Wait()
	f := figures{statuses: map[string]int{}}
	for n, c := range conns {
		if c != nil {
			c.Close()
		}
		f.statuses[statuses[n]]++
	}
	eventually(g.t, "the end of all requests", func() bool {
		return g.metric("sluice_connections") == 0 && g.metric("sluice_request_bodies_bytes") == 0
	})
	f.raised, f.cpu = g.status("VmHWM")-rest, a.cpu()-before
	return f
}

// cpu returns the time that the process has used its processors.
func (a *greedyAccount) cpu() time.Duration {
	a.g.t.Helper()
	text, err := os.ReadFile(a.g.proc("stat"))
	if err != nil {
		a.g.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		if err != nil {
			a.g.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// filled are the values of the parts of patterns.
func (a *greedyAccount) filled(pattern string) string {
	switch pattern {
	case "/dashboard/v1/{path...}":
		pattern = "/dashboard/v1/responses/{id}/input_items"
	case "/":
		return "/nothing/here"
	}
	id := "1"
	switch {
	case strings.Contains(pattern, "/responses/"):
		id = a.response
	case strings.Contains(pattern, "/models/"):
		id = labModel
	}
	return strings.NewReplacer("{$}", "", "{id}", id, "{id...}", id, "{ref}", "greedy@example.com", "{name}", "style.css", "{file}", "000001.pdf",
		"{purpose}", "reset", "{payment}", "1", "{step}", "answer", "{action}", "suspend").Replace(pattern)
}

// greedyBody returns a body that is as expensive as the route takes. A soak sends the largest.
func greedyBody(path string) (kind, body string) {
	size := 2 << 20
	if os.Getenv("SLUICE_SOAK") != "" {
		size = 31 << 20
	}
	fill := func(start, middle, end string) string {
		return start + strings.Repeat(middle, (size-len(start+end))/len(middle)) + end
	}
	const object = "application/json"
	switch path {
	case "/v1/embeddings":
		return object, fill(`{"model":"lab/one","input":[1`, ",1", "]}")
	case "/v1/responses":
		return object, fill(`{"model":"lab/one","input":[{"role":"user","content":"a"}`, `,{"role":"user","content":"a"}`, `]}`)
	case "/v1/video/generations/jobs":
		size = 1 << 20
		return object, fill(`{"prompt":"`, "a", `"}`)
	case "/v1/feedback":
		size = 1 << 20
		return object, fill(`{"request_id":"1","rating":"`, "a", `"}`)
	case "/mcp":
		size = min(size, 8<<20)
		return object, fill(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat_completion","arguments":{"model":"lab/one","messages":[{"role":"user","content":""}`, `,{"role":"user","content":""}`, `]}}}`)
	case "/webhooks/stripe":
		size = 1 << 20
		return object, fill(`{"id":"`, "a", `"}`)
	}
	if strings.HasPrefix(path, "/v1/") {
		return object, fill(`{"model":"lab/one","max_tokens":10,"messages":[{"role":"user","content":"a"}`, `,{"role":"user","content":"so it goes"}`, `]}`)
	}
	size = 60 << 10
	if strings.HasPrefix(path, "/admin/") {
		return object, fill(`{"reason":"`, "a", `"}`)
	}
	return "application/x-www-form-urlencoded", fill("email=a%40example.com&password=", "a", "")
}

// request returns the request of a route.
func (a *greedyAccount) request(route string) string {
	method, pattern, _ := strings.Cut(route, " ")
	if method == "any" {
		method = http.MethodGet
	}
	path := a.filled(pattern)
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\nAuthorization: Bearer %s\r\nCookie: %s\r\n", method, path, a.key, a.cookie)
	if method == http.MethodGet {
		return head + "\r\n"
	}
	kind, body := greedyBody(path)
	return fmt.Sprintf("%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", head, kind, len(body), body)
}

// last reports whether a route comes after all others, because it ends the session, the key or the stored response of the
// account.
func last(route string) bool {
	return slices.Contains([]string{"POST /signout", "POST /dashboard/keys/master", "DELETE /v1/responses/{id}"}, route)
}

// TestGreedyRoutes lets 100 callers of one free account ask each route of the table for as much as it gives, and read
// nothing of it. None may raise the memory of the process beyond the bound, and of the routes with a large reply no more may
// be answered at once than the table says. What each route costs is printed by a soak.
func TestGreedyRoutes(t *testing.T) {
	t.Parallel()
	if raced {
		t.Skip("needs a build without the race detector, whose own memory would be measured")
	}
	a := newGreedy(t)
	costs := readCosts(t)
	slices.SortStableFunc(costs, func(x, y cost) int {
		switch {
		case last(x.route) == last(y.route):
			return 0
		case last(x.route):
			return 1
		}
		return -1
	})
	// Those with the stored response in their reply.
	large := map[string]bool{"GET /v1/responses/{id}/input_items": true, "GET /dashboard/account.json": true, "any /dashboard/v1/{path...}": true}
	a.g.get(a.g.url + "/docs/all") // what a first request needs is not the attack's
	rest := a.g.status("VmRSS")
	var most, slowest figures
	var mostRoute, slowestRoute string
	asked := 0
	for _, c := range costs {
		// Metrics are at an address of their own. What only staff and the operator may ask is refused in one place for all
		// routes, so the short form asks for one in ten of them.
		_, path, _ := strings.Cut(c.route, " ")
		refused := strings.HasPrefix(path, "/support") || strings.HasPrefix(path, "/admin/")
		if refused {
			asked++
		}
		if c.route == "GET /metrics" || refused && asked%10 != 1 && os.Getenv("SLUICE_SOAK") == "" {
			continue
		}
		wait := greedyPatience()
		if large[c.route] { // each caller must get its status, on a busy machine as well: one without any would seem let in
			wait = patience
		}
		f := a.drive(rest, a.request(c.route), wait)
		t.Logf("soak: greedy: %s: +%.1f MB, %.2f s of CPU, %v", c.route, float64(f.raised)/1e6, f.cpu.Seconds(), f.statuses)
		if f.raised > customerBytes {
			t.Errorf("%s: %d callers raised the process by %.1f MB, want at most %.1f", c.route, greedy, float64(f.raised)/1e6, float64(customerBytes)/1e6)
		}
		// A reply that had not begun by the end was let in as well.
		if in := f.statuses["200"] + f.statuses[""]; large[c.route] && (in == 0 || in > c.atOnce) {
			t.Errorf("%s: %v replies to %d callers, want at least one and at most %d that are let in", c.route, f.statuses, greedy, c.atOnce)
		}
		if f.raised > most.raised {
			most, mostRoute = f, c.route
		}
		if f.cpu > slowest.cpu {
			slowest, slowestRoute = f, c.route
		}
	}
	t.Logf("soak: greedy: %d routes; most memory +%.1f MB (%s); most CPU %.2f s (%s)", len(costs)-1, float64(most.raised)/1e6, mostRoute, slowest.cpu.Seconds(), slowestRoute)
	if status, _ := a.g.get(a.g.url + "/healthz"); status != 200 {
		t.Errorf("GET /healthz after the attacks = %d, want 200", status)
	}
}
