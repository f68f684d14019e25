package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/api/httpserver"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/upstream/catalog"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// world is an API on a real port, with callers of every kind.
type world struct {
	api    *API
	server *httpserver.Server
	front  *httpserver.Listener
	addr   string
	log    *lines
	index  *auth.Index

	good, suspended, deactivated string // keys
}

// newWorld starts an API; change, where given, works on it before it serves.
func newWorld(t *testing.T, opts *Options, change func(*API)) *world {
	t.Helper()
	return newWorldOn(t, testLane(), opts, change)
}

// newWorldOn is newWorld with the mode of package lane.
func newWorldOn(t *testing.T, lane httpserver.Lane, opts *Options, change func(*API)) *world {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	w := &world{log: &lines{}, index: auth.NewIndex()}
	opts.Log = slog.New(slog.NewJSONHandler(w.log, nil))
	w.good = w.caller(t, nil)
	w.suspended = w.caller(t, func(a *account.Account) { a.Suspended = &account.Mark{Reason: "r"} })
	w.deactivated = w.caller(t, func(a *account.Account) { a.Deactivated = &account.Mark{Reason: "r"} })

	models, err := catalog.New(append([]catalog.Model{catalog.Router("service")}, catalog.Sandbox()...))
	if err != nil {
		t.Fatal(err)
	}
	w.api = New(auth.New(w.index, "service", nil), nil, Settings{Catalog: models, CORSOrigins: []string{"*"}}, opts)
	if change != nil {
		change(w.api)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = inner.Addr().String()
	w.front = httpserver.NewListener(inner, httpserver.ListenerOptions{Max: 100, Refuse: w.api.Refuse, Log: slog.New(slog.DiscardHandler)})
	w.server = httpserver.NewServer(w.api, w.front, lane) // as the program does
	var serving sync.WaitGroup
	serving.Go(func() { _ = w.server.Serve() })
	t.Cleanup(func() {
		_ = w.front.Finish()
		_ = w.server.Close() // a test that failed may have left a caller waiting
		serving.Wait()
	})
	return w
}

// testLane returns the mode in which the tests run. Both are tested, one in each run.
func testLane() httpserver.Lane {
	if mode := os.Getenv("SLUICE_HTTP1_LANE"); mode != "" {
		return httpserver.Lane(mode)
	}
	return httpserver.LaneDebug
}

// stop ends the server after its running requests.
func (w *world) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := errors.Join(w.front.Finish(), w.server.Shutdown(ctx)); err != nil {
		t.Fatal(err)
	}
}

// caller opens an account, changed as told, and returns its key.
func (w *world) caller(t *testing.T, change func(*account.Account)) string {
	t.Helper()
	a, raw, err := account.New(nowhere{}, nil).Create(t.Context(), "t", "a@example.com", account.Scale, false)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(a)
	}
	w.index.Put(a)
	return raw
}

// nowhere is a store that takes new accounts and keeps none.
type nowhere struct{ account.Store }

func (nowhere) CreateAccount(context.Context, *account.Account, account.Entry) error { return nil }

// behind puts a handler of the test behind the whole chain, in the place of the routes.
func behind(h func(a *API) handler) func(*API) {
	return func(a *API) {
		serve := h(a)
		for _, s := range slices.Backward(a.chain()) {
			serve = s(serve)
		}
		a.serve = serve
	}
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// logged ends the server, so that everything is written, and returns the log's entries with this message.
func (w *world) logged(t *testing.T, msg string) []map[string]any {
	t.Helper()
	w.stop(t)
	var found []map[string]any
	for line := range strings.Lines(w.log.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if e["msg"] == msg {
			found = append(found, e)
		}
	}
	return found
}

// dial opens a plain connection to the server.
func (w *world) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// reply is what came back, its body read.
type reply struct {
	status int
	header http.Header
	body   string
}

// send makes one request on a connection of its own, exactly as written: the target is not touched.
func (w *world) send(t *testing.T, method, target, key string, header ...string) reply {
	t.Helper()
	conn := w.dial(t)
	write(t, conn, method, target, key, append(header, "Connection: close")...)
	return read(t, bufio.NewReader(conn), method)
}

// write sends the head of a request.
func write(t *testing.T, conn io.Writer, method, target, key string, header ...string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: sluice.test\r\n", method, target)
	if key != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", key)
	}
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	b.WriteString("\r\n")
	if _, err := io.WriteString(conn, b.String()); err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
}

// read takes in one reply.
func read(t *testing.T, r *bufio.Reader, method string) reply {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no reply: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("the reply broke off: %v", err)
	}
	return reply{resp.StatusCode, resp.Header, string(body)}
}

var requestID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// checkFixed checks what every reply has.
func checkFixed(t *testing.T, name string, r reply) {
	t.Helper()
	if got := r.header.Get("X-Request-Id"); !requestID.MatchString(got) {
		t.Errorf("%s: x-request-id = %q, want 32 hex digits", name, got)
	}
	if got := r.header.Get("X-Sluice-Version"); got != buildinfo.Version() {
		t.Errorf("%s: x-sluice-version = %q, want %s", name, got, buildinfo.Version())
	}
	if got := r.header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("%s: x-content-type-options = %q, want nosniff", name, got)
	}
}

// checkError checks a reply that holds the error object and nothing else.
func checkError(t *testing.T, name string, r reply, status int, object string) {
	t.Helper()
	checkFixed(t, name, r)
	if r.status != status || r.body != object {
		t.Errorf("%s = %d %s\nwant %d %s", name, r.status, r.body, status, object)
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%s: content type %q, want application/json", name, got)
	}
	want := "false"
	if status == 408 || status == 429 || status == 500 || status == 503 {
		want = ""
	}
	if got := r.header.Get("X-Should-Retry"); got != want {
		t.Errorf("%s: x-should-retry = %q, want %q", name, got, want)
	}
}

// object is the error object as it stands on the wire.
func object(status int, kind, message string, param ...string) string {
	quoted, _ := json.Marshal(message) // a string always encodes
	more := ""
	if len(param) > 0 {
		more = fmt.Sprintf(`,"param":%q`, param[0])
	}
	return fmt.Sprintf(`{"error":{"message":%s,"type":%q,"code":%d%s}}`, quoted, kind, status, more)
}
