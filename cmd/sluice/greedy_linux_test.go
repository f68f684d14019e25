package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"encoding/json"

	"sluice/internal/admin"
)

// greedy is how many callers of one account ask for the same thing at once.
const greedy = 100

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

// drive lets all callers send the request at once. They read the status of the reply and nothing more.
func (a *greedyAccount) drive(rest int64, request string) figures {
	g := a.g
	g.t.Helper()
	if err := os.WriteFile(g.proc("clear_refs"), []byte("5"), 0); err != nil { // resets VmHWM
		g.t.Fatal(err)
	}
	_, address, _ := strings.Cut(g.url, "://")
	small := net.Dialer{Timeout: attackPatience(), Control: func(_, _ string, c syscall.RawConn) error {
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
			_ = c.SetDeadline(time.Now().Add(attackPatience()))
			go send(c, request) // a reply may come before the request is sent
			var head [12]byte
			if _, err := io.ReadFull(c, head[:]); err == nil {
				statuses[n] = string(head[9:])
			}
		})
	}
	working.Wait()
	f := figures{raised: g.status("VmHWM") - rest, cpu: a.cpu() - before, statuses: map[string]int{}}
	for n, c := range conns {
		if c != nil {
			c.Close()
		}
		f.statuses[statuses[n]]++
	}
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

func TestGreedyRoutes(t *testing.T) {
	t.Parallel()
	a := newGreedy(t)
	a.g.get(a.g.url + "/docs") // what a first request needs is not the attack's
	rest := a.g.status("VmRSS")
	for _, path := range []string{"/v1/responses/" + a.response + "/input_items", "/v1/responses/" + a.response, "/dashboard/account.json"} {
		f := a.drive(rest, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nCookie: %s\r\n\r\n", path, a.key, a.cookie))
		t.Logf("%s: +%.1f MB, %v, %v", path, float64(f.raised)/1e6, f.cpu, f.statuses)
		if f.raised > customerBytes {
			t.Errorf("GET %s raised the process by %.1f MB, want at most %.1f", path, float64(f.raised)/1e6, float64(customerBytes)/1e6)
		}
	}
}
