package oracles

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/app/demo"
	"sluice/internal/operate/admin"
)

// browserEnv names the browser to use.
const browserEnv = "SLUICE_TEST_CHROMIUM"

// chromium finds the browser, and what drives it.
func chromium() (string, error) {
	for _, name := range []string{"playwright-core", "axe-core"} {
		if _, err := os.Stat(filepath.Join("node", "node_modules", name, "package.json")); err != nil {
			return "", fmt.Errorf("the package %s is not installed; run npm install --no-save in oracles/node", name)
		}
	}
	if path := os.Getenv(browserEnv); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no chromium in PATH and " + browserEnv + " does not name one")
}

// TestBrowser runs the tests of the pages in a browser: each script has a gateway of its own, with a mail
// server behind it.
func TestBrowser(t *testing.T) {
	t.Parallel()
	lacks := t.Skipf
	if os.Getenv("PICTURES") != "" { // whoever wants pictures must know that there are none
		lacks = t.Fatalf
	}
	program, err := node()
	if err != nil {
		lacks("needs Node: %v", err)
	}
	browser, err := chromium()
	if err != nil {
		lacks("needs Chromium: %v", err)
	}
	scripts, err := filepath.Glob(filepath.Join("node", "browser", "*.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, script := range scripts {
		if _, err := os.ReadFile(script); err != nil { // so that the go command knows when a cached result is out of date
			t.Fatal(err)
		}
		name, isTest := strings.CutSuffix(filepath.Base(script), ".test.mjs")
		// Pictures are for the documents, and a soak shows that they can still be taken.
		if !isTest || name == "pictures" && os.Getenv("PICTURES") == "" && os.Getenv("SLUICE_SOAK") == "" {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a browser waits a third of its time
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, "--test", "--test-reporter=tap", filepath.Join("browser", filepath.Base(script)))
			cmd.Dir = "node"
			cmd.Env = append(append(os.Environ(), "CHROMIUM="+browser), surroundings(t, name)...)
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends the browser
			cmd.WaitDelay = 10 * time.Second
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("node --test %s = %v\n%s", script, err, failures(out))
			}
			t.Logf("%s tests passed", passed(t, out))
			for line := range strings.Lines(string(out)) {
				if _, figures, ok := strings.Cut(line, "# soak: "); ok {
					t.Logf("soak: %s", figures)
				}
			}
		})
	}
	if ran < 2 {
		t.Fatalf("oracles/node/browser has %d tests, want those of the journey and of all pages", ran)
	}
}

// surroundings starts what a script needs, and returns the variables that tell it where that is.
func surroundings(t *testing.T, name string) []string {
	t.Helper()
	if name == "pictures" || name == "tasks" {
		return []string{"GATEWAY=" + startDemo(t)}
	}
	post := startMail(t)
	g := startGateway(t, browserPlans[name]+fmt.Sprintf("smtp: {server: \"%s\", from: no-reply@example.com}\n", post.addr))
	operator := httptest.NewServer(g.operator(t))
	t.Cleanup(operator.Close)
	url := strings.TrimSuffix(g.url, "/v1")
	if name == "passkeys" { // browsers have none at an IP address
		url = strings.Replace(url, "127.0.0.1", "localhost", 1)
	}
	return []string{"GATEWAY=" + url, "MAIL=" + post.url, "OPERATOR=" + operator.URL}
}

// startDemo runs a demonstration until the test ends, and returns its URL.
func startDemo(t *testing.T) string {
	t.Helper()
	opts := &demo.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
	if os.Getenv("PICTURES") != "" { // pictures show the address
		opts.Listen = ""
	}
	d, err := demo.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("demo.Start = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return d.Origin()
}

// browserPlans are plans that a script needs other than the usual ones, and what it needs besides them.
var browserPlans = map[string]string{
	"budgets": "  none: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}\nprices: [{model: sandbox/small, input: 3000, output: 15000}]\n",
	"front":   "  basic: {requests_per_minute: 10, concurrent: unlimited, tokens_per_minute: unlimited}\nprices: [{model: sandbox/small, input: 3, cache_read: 0.3, output: 15}, {model: sandbox/large, input: 1, output: 2}]\n",
	"errors":  "  none: {requests_per_minute: 8, concurrent: unlimited, tokens_per_minute: unlimited}\n",
	"support": "  none: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited, monthly_units: 20}\n",
}

// operator does what only the operator can: POST /staff?email=ADDRESS makes a member of staff.
func (g *gateway) operator(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := g.admin.Call(t.Context(), "account.set-staff", admin.StaffFlag{Actor: "test", Ref: r.FormValue("email"), Staff: true}, &admin.Account{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// mailbox is a mail server that keeps what it gets, and hands it out over HTTP: GET /?to=ADDRESS waits for
// a mail to the address and returns the oldest.
type mailbox struct {
	addr string // of the mail server
	url  string

	mu   sync.Mutex
	more chan struct{} // closed when a mail comes
	kept map[string][]string
}

func startMail(t *testing.T) *mailbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{addr: l.Addr().String(), more: make(chan struct{}), kept: map[string][]string{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { m.receive(conn) })
		}
	})
	web := httptest.NewServer(http.HandlerFunc(m.hand))
	m.url = web.URL
	t.Cleanup(func() {
		web.Close()
		l.Close()
		serving.Wait()
	})
	return m
}

// receive speaks just enough SMTP.
func (m *mailbox) receive(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	say := func(text string) { _, _ = io.WriteString(conn, text+"\r\n") }
	say("220 test")
	in := bufio.NewScanner(conn)
	to, body, data := "", "", false
	for in.Scan() {
		switch line := in.Text(); {
		case data && line == ".":
			data = false
			m.keep(to, body)
			say("250 taken")
		case data:
			body += line + "\r\n"
		case strings.HasPrefix(line, "RCPT TO:"):
			to = strings.Trim(strings.TrimPrefix(line, "RCPT TO:"), "<>")
			say("250 ok")
		case line == "DATA":
			data = true
			say("354 go on")
		case line == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (m *mailbox) keep(to, body string) {
	_, text, _ := strings.Cut(body, "\r\n\r\n")
	plain, _ := io.ReadAll(quotedprintable.NewReader(strings.NewReader(text)))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[to] = append(m.kept[to], string(plain))
	close(m.more)
	m.more = make(chan struct{})
}

func (m *mailbox) hand(w http.ResponseWriter, r *http.Request) {
	to := r.FormValue("to")
	for patience := time.After(time.Minute); ; {
		m.mu.Lock()
		more := m.more
		if list := m.kept[to]; len(list) > 0 {
			m.kept[to] = list[1:]
			m.mu.Unlock()
			_, _ = io.WriteString(w, list[0])
			return
		}
		m.mu.Unlock()
		select {
		case <-more:
		case <-patience:
			http.Error(w, "no mail to "+to, http.StatusNotFound)
			return
		case <-r.Context().Done():
			return
		}
	}
}
