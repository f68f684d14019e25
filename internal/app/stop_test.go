package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/video"
)

// slowSite is a site whose log shows the requests of slowRequest, which are probes.
func slowSite(t *testing.T, yaml string) *site {
	t.Helper()
	s := newSite(t, yaml)
	s.level = slog.LevelDebug
	return s
}

// slowRequest sends a request whose body is still to come: its reply waits for that.
func (n *node) slowRequest() (net.Conn, *bufio.Reader) {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.Addr())
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		n.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"); err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, "the arrival of the request", func() bool { return strings.Contains(n.log.String(), `"path":"/healthz"`) })
	return conn, bufio.NewReader(conn)
}

func TestGracefulStop(t *testing.T) {
	t.Parallel()
	n := slowSite(t, "shutdown_grace: 30s\n").start(t)
	conn, r := n.slowRequest()
	n.cancel()
	eventually(t, "the end of new connections", func() bool {
		c, err := net.Dial("tcp", n.Addr())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case <-n.ended:
		t.Fatal("Run returned while a request was running")
	default:
	}
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("the running request = %v, %v, want 200", resp, err)
	}
	resp.Body.Close()
	n.stop()
}

func TestStopEndsAfterTheGrace(t *testing.T) {
	t.Parallel()
	n := slowSite(t, "shutdown_grace: 50ms\n").start(t)
	_, r := n.slowRequest()
	n.stop()
	if _, err := r.ReadByte(); err == nil {
		t.Error("the request that did not end was answered, want its connection cut")
	}
}

// The doors for operators outlive the API: a stop that takes long can be watched.
func TestStopEndsOperatorsLast(t *testing.T) {
	t.Parallel()
	n := slowSite(t, "metrics_listen: 127.0.0.1:0\ndrain_timeout: 1h\n").start(t)
	conn, _ := n.slowRequest()
	n.cancel()
	eventually(t, "the end of new connections", func() bool { return !n.accepts() })
	resp, err := n.client.Get("http://" + n.MetricsAddr() + "/metrics")
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("the metrics of a server that waits for its last request = %v, %v, want 200", resp, err)
	} else {
		resp.Body.Close()
	}
	if st := must[admin.Status](n, "status", nil); st.PID == 0 {
		t.Errorf("the status of a server that waits for its last request = %+v", st)
	}
	conn.Close()
	n.stop()
}

// At the end of a stop, calls that still run are cut off. Their callers are told so, and they are settled as cut by
// us, also if nobody reads.
func TestStopTellsCallers(t *testing.T) {
	t.Parallel()
	upstream, reached := costly(t)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		reached <- "discovery"
		<-r.Context().Done()
	}))
	t.Cleanup(func() { silent.CloseClientConnections(); silent.Close() })
	site := newSite(t, fmt.Sprintf(`drain_timeout: 50ms
mcp: {allow_hosts: [127.0.0.1]}
plans: {scale: {concurrent: 100}}
providers: [{name: good, kind: openai, base_url: %q}]
models: [{id: good, provider: good, plan: free, context_length: 100000, max_output: 1000, tool_calling: true}]
`, upstream))
	n := site.start(t)
	ask := func(do, more string) string {
		return fmt.Sprintf(`{"model":"good","messages":[{"role":"user","content":"please %s."}]%s}`, do, more)
	}
	tool := func(meta string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat_completion",%s"arguments":%s}}`, meta, ask("wait", ""))
	}
	const stopping, again = "The server is being restarted", "Retry-After"
	replies := make(chan func(*node), 10)
	calls := []struct {
		name, path, idem, body string
		reached                string // empty: no upstream gets it
		status                 int
		after                  bool // the reply says when to try again
		end                    usage.End
	}{
		{"a stream", chatPath, "", ask("begin", `,"stream":true`), "begin", 200, false, usage.EndCut},
		{"a stream that has not begun", chatPath, "", ask("wait", `,"stream":true`), "wait", 503, true, usage.EndFailed},
		{"a whole reply", chatPath, "one", ask("wait", ""), "wait", 503, true, usage.EndFailed},
		{"a request that waits for the same reply", chatPath, "one", ask("wait", ""), "", 503, true, ""},
		{"a call with tool servers", chatPath, "", ask("answer", fmt.Sprintf(`,"tools":[{"type":"mcp","server_url":%q}]`, silent.URL)), "discovery", 503, true, usage.EndFailed},
		{"a call of our MCP server", "/mcp", "", tool(""), "wait", 200, false, usage.EndFailed},
		{"one with progress", "/mcp", "", tool(`"_meta":{"progressToken":"p"},`), "wait", 200, false, usage.EndFailed},
	}
	want := map[usage.End]int{}
	for _, c := range calls {
		if c.end != "" {
			want[c.end]++
		}
		before := n.BodiesInFlight()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.scheme+n.Addr()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+n.OwnerKey())
		if c.idem != "" {
			req.Header.Set("Idempotency-Key", c.idem)
		}
		go func() {
			resp, err := n.client.Do(req)
			var text []byte
			if err == nil {
				text, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			replies <- func(n *node) {
				if err != nil || resp.StatusCode != c.status || !strings.Contains(string(text), stopping) || strings.Contains(string(text), "[DONE]") || (resp.Header.Get(again) != "") != c.after {
					n.t.Errorf("%s = %v, %s, %v, want %d and to be told", c.name, resp, text, err, c.status)
				}
			}
		}()
		if c.reached == "" {
			eventually(t, "the arrival of "+c.name, func() bool { return n.BodiesInFlight() > before })
			continue
		}
		select {
		case got := <-reached:
			if got != c.reached {
				t.Errorf("%s reached %q, want %q", c.name, got, c.reached)
			}
		case <-time.After(patience):
			t.Fatalf("%s reached nobody", c.name)
		}
	}
	n.stop()
	for range calls {
		(<-replies)(n)
	}
	if log := n.log.String(); strings.Contains(log, "panic") {
		t.Errorf("the log of the stop has a panic: %s", log)
	}
	n = site.start(t)
	all, _ := n.Settlements()
	got := map[usage.End]int{}
	for _, s := range all {
		got[s.End]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("settled by how they ended: %v, want %v", got, want)
	}
}

// delayed is a configuration with which a stop lasts until it is hastened.
const delayed = "shutdown_delay: 1h\ndrain_timeout: 2h\n"

// begin begins to stop the node and waits until it says so. A connection of its own asks each time.
func (n *node) begin() {
	n.t.Helper()
	n.cancel()
	eventually(n.t, "a refusal of new work", func() bool {
		r := n.get("/readyz", "")
		return r.status == 503 && strings.Contains(r.body, `{"name":"shutdown","ok":false,"message":"stopping; no new work"`)
	})
}

// During the delay of a stop, requests are served on old and new connections, and each reply ends its connection.
func TestStopIsDelayed(t *testing.T) {
	t.Parallel()
	n := newSite(t, delayed).start(t)
	if n.closes("/healthz", 200) {
		t.Error("a reply ends its connection before the stop")
	}
	n.begin()
	for range 3 {
		if !n.closes("/v1/models", 200) {
			t.Error("a reply during the delay keeps its connection, want its end")
		}
	}
	if !n.Hasten() || n.Hasten() {
		t.Error("Hasten() during the delay, and again = not true and false: it ends the delay once")
	}
	n.stop()
}

// closes makes a request on a connection of its own and reports whether the reply ends it.
func (n *node) closes(path string, status int) bool {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.Addr())
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		n.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+n.OwnerKey()+"\r\n\r\n"); err != nil {
		n.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != status {
		n.t.Fatalf("GET %s = %v, %v, want %d", path, resp, err, status)
	}
	resp.Body.Close()
	return resp.Close
}

// Connections that are in use or were used lately outlive the delay; new ones are refused.
func TestStopWaitsForConnections(t *testing.T) {
	t.Parallel()
	n := slowSite(t, "shutdown_delay: 50ms\ndrain_timeout: 1h\n").start(t)
	conn, r := n.slowRequest()
	n.cancel()
	eventually(t, "the end of new connections", func() bool { return !n.accepts() })
	for range 2 { // the reply, and one more on the same connection, as a proxy would ask for
		if _, err := io.WriteString(conn, "helloGET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("a request on an old connection = %v, %v, want 200", resp, err)
		}
		resp.Body.Close()
		if resp.Close {
			break // this one came after the stop had begun
		}
	}
	n.stop()
}

// accepts reports whether new connections are accepted.
func (n *node) accepts() bool {
	c, err := net.Dial("tcp", n.Addr())
	if err == nil {
		c.Close()
	}
	return err == nil
}

// The time for a stop covers its delay.
func TestDelayEndsWithTheGrace(t *testing.T) {
	t.Parallel()
	n := newSite(t, "shutdown_delay: 50ms\ndrain_timeout: 50ms\n").start(t)
	n.stop()
	if n.Hasten() {
		t.Error("Hasten() after the stop = true, want false: no delay is left to end")
	}
}

// stuck is a renderer that never gets ready.
type stuck struct{ begun chan struct{} }

func (s stuck) Render(ctx context.Context, _ io.Writer, _ *video.Task) error {
	close(s.begun) // a second attempt on this node would be a bug
	<-ctx.Done()
	return errors.Join(ctx.Err(), context.Cause(ctx))
}

// instant is a renderer that is always ready.
type instant struct{}

func (instant) Render(_ context.Context, w io.Writer, _ *video.Task) error {
	_, err := io.WriteString(w, "\x00\x00\x00\x18ftyp")
	return err
}

// A video that a stopping node renders goes back to the queue at once: another node finishes it while the first one
// is still serving requests.
func TestStopReturnsVideos(t *testing.T) {
	t.Parallel()
	yaml := "database: " + pgtest.URL(t) + "\nsecret: one-secret-for-all-nodes-of-this-test\ncluster: approximate\n" + delayed
	first, second := newSite(t, yaml), newSite(t, yaml)
	begun := make(chan struct{})
	first.renderer, second.renderer = stuck{begun}, instant{}
	one := first.start(t)
	key := one.OwnerKey()
	job := readVideo(t, one.request("POST", videoJobs, key, clip))
	select {
	case <-begun:
	case <-time.After(patience):
		t.Fatal("the job was not claimed")
	}
	two := second.start(t)
	one.begin()
	if got := one.await(key, job.ID); got.Status != "succeeded" {
		t.Errorf("the job = %+v, want it finished by the other node", got)
	}
	one.Hasten()
	one.stop()
	two.Hasten()
}
