package faulttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore/alltest"
)

// patience ends a test that hangs. A soak keeps the machine busy, so it takes longer.
var patience = time.Duration(scaled(1, 5)) * time.Minute

// soaking reports whether the long form is run.
func soaking() bool { return os.Getenv("SLUICE_SOAK") != "" }

// scaled returns how many rounds a fault has: short by default, long in a soak.
func scaled(short, long int) int {
	if soaking() {
		return long
	}
	return short
}

// server is a server in a process of its own.
type server struct {
	t       *testing.T
	dir     string
	limits  string // shell commands in front of the program
	addr    string
	metrics string
	key     string
	cmd     *exec.Cmd
	stdin   io.Writer // closed when this process ends
	pid     atomic.Int64
	log     *text
	ended   chan error // gets what Wait returned
	calls   []*seen    // that reached the server, and may be in its books
	from    int64      // how many calls were in the books before
	mu      sync.Mutex // guards calls
}

// text is a log that can be read while it is written.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

const unlimited = "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n"

// configure writes the configuration of a server that is not running yet.
func configure(t *testing.T, yaml string) *server {
	t.Helper()
	return configureAt(t, "127.0.0.1:0", yaml)
}

// configureAt is configure for a server that keeps its address when it starts again.
func configureAt(t *testing.T, addr, yaml string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), log: &text{}}
	all := fmt.Sprintf("data: %s\nlisten: %s\nmetrics_listen: 127.0.0.1:0\ndrain_timeout: 3s\nshutdown_delay: 0s\nsandbox: false\n", s.data(), addr) + unlimited + yaml
	if err := errors.Join(os.WriteFile(s.file(), []byte(all), 0o600), alltest.Prepare(s.data())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.kill(syscall.SIGKILL)
		}
		if t.Failed() {
			lines := strings.Split(s.log.String(), "\n")
			t.Logf("the end of the log:\n%s", strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	})
	return s
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }
func (s *server) file() string { return filepath.Join(s.dir, "sluice.yaml") }

// start runs the server, and returns when it serves.
func (s *server) start() {
	s.t.Helper()
	if err := s.tryStart(); err != nil {
		s.t.Fatalf("%v\n%s", err, s.log)
	}
}

// tryStart is start for a server that may refuse to.
func (s *server) tryStart() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	if s.limits != "" {
		cmd = exec.Command("/bin/sh", "-c", s.limits+"; exec "+program)
	}
	cmd.Env = append(os.Environ(), serveEnv+"="+s.file())
	cmd.Stderr = s.log
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	ended := make(chan error, 1)
	if err != nil {
		return fmt.Errorf("the server did not start: %w", cmd.Wait())
	}
	go func() { ended <- cmd.Wait() }()
	f := strings.Split(strings.TrimSpace(line), " ")
	s.cmd, s.stdin, s.ended, s.metrics = cmd, in, ended, f[2]
	s.pid.Store(int64(cmd.Process.Pid))
	if s.addr != f[1] { // callers may be reading it
		s.addr = f[1]
	}
	if len(f) > 3 && f[3] != "" { // only the first start says it
		s.key = f[3]
	}
	return nil
}

// kill sends a signal and waits until the process has ended.
func (s *server) kill(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal)
	<-s.ended
	s.cmd = nil
	if log := s.log.String(); strings.Contains(log, "panic") {
		s.t.Errorf("the server panicked:\n%.20000s", log[strings.Index(log, "panic"):])
	}
}

// seen is a call as its caller saw it.
type seen struct {
	id     string // of the request; empty if the head of the reply never came
	status int
	text   string // that was produced
	end    string // complete, told, refused, cut
	body   string
}

const (
	complete = "complete" // the whole reply
	told     = "told"     // a stream that ended with an error event
	refused  = "refused"  // an error as the reply
	cut      = "cut"      // less than the whole reply
)

// client makes a connection for each call: none is left when it has ended.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

// chat makes a call of a model and reads the reply to its end.
func (s *server) chat(model, prompt string) *seen {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, model, prompt)
	return s.ask(client, s.post(body))
}

// post is a chat completion with a body.
func (s *server) post(body string) *http.Request {
	req, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	return req
}

// ask sends a request and reads the reply to its end.
func (s *server) ask(client *http.Client, req *http.Request) *seen {
	c := &seen{end: cut}
	if resp, err := client.Do(req); err == nil {
		c.read(resp)
	}
	s.note(c)
	return c
}

// note remembers a call.
func (s *server) note(c *seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
}

// read takes a reply, which may break off.
func (c *seen) read(resp *http.Response) {
	defer resp.Body.Close()
	c.id, c.status = resp.Header.Get("X-Request-Id"), resp.StatusCode
	body, err := io.ReadAll(resp.Body)
	c.body = string(body)
	if resp.StatusCode != http.StatusOK {
		if c.end = refused; err != nil {
			c.end = cut
		}
		return
	}
	for event := range strings.SplitSeq(c.body, "\n\n") {
		for strings.HasPrefix(event, ":") || strings.HasPrefix(event, "id:") { // a comment in front of it, or its id
			_, event, _ = strings.Cut(event, "\n")
		}
		switch data := strings.TrimPrefix(event, "data: "); {
		case data == "[DONE]":
			c.end = complete
		case strings.HasPrefix(data, `{"error"`):
			c.end = told
		default:
			if _, after, ok := strings.Cut(data, `"content":"`); ok {
				text, _, _ := strings.Cut(after, `"`)
				c.text += text
			}
		}
	}
}

// operate runs an operation at the admin door. It asks again while the database is unavailable: connections that the server
// began before a fault was mended may still fail.
func (s *server) operate(name string, in, out any) (err error) {
	s.t.Helper()
	eventually(s.t, "the database to answer "+name, func() bool {
		var door *admin.Client
		if door, err = admin.Dial(s.t.Context(), s.data()); err == nil {
			err = door.Call(s.t.Context(), name, in, out)
		}
		return !fault.Is(err, fault.Unavailable)
	}, func() string { return fmt.Sprint(err) })
	return err
}

// call is operate for an operation that succeeds.
func (s *server) call(name string, in, out any) {
	s.t.Helper()
	if err := s.operate(name, in, out); err != nil {
		s.t.Fatalf("%s = %v", name, err)
	}
}

// settled returns what the books say about a call; nil: nothing.
func (s *server) settled(id string) *admin.Request {
	s.t.Helper()
	var found admin.Requests
	if err := s.operate("request.show", admin.RequestQuery{ID: id}, &found); err != nil && !fault.Is(err, fault.NotFound) {
		s.t.Fatalf("request.show = %v", err)
	}
	switch len(found.Settled) {
	case 0:
		return nil
	case 1:
		return &found.Settled[0]
	}
	s.t.Errorf("the call %s is in the books %d times", id, len(found.Settled))
	return &found.Settled[0]
}

// inBooks returns what the books say about a call whose caller saw its end. It may be on its way from the journal to the
// database.
func (s *server) inBooks(id string) (r *admin.Request) {
	s.t.Helper()
	for range 20 {
		if r = s.settled(id); r != nil {
			return r
		}
	}
	return nil
}

// requests returns how many calls are in the books.
func (s *server) requests() int64 {
	s.t.Helper()
	var used admin.Usage
	s.call("usage", admin.UsageQuery{Ref: "owner@localhost", Days: 2, By: "model"}, &used)
	return used.Totals.Requests
}

// balance compares the books with what callers saw: every call whose end its caller saw is there once, and the others
// at most once.
func (s *server) balance() tally {
	s.t.Helper()
	n := s.tally()
	known, anonymous := int64(0), int64(0) // a call whose caller never got an id may be there
	for _, c := range s.calls {
		if c.id == "" {
			anonymous++
			continue
		}
		r := s.inBooks(c.id)
		switch {
		case r == nil && (c.end == complete || c.end == told):
			n.lost++
			s.t.Errorf("the call %s (%s) is not in the books", c.id, c.end)
		case r == nil:
		case c.end == complete && r.Outcome != "complete":
			s.t.Errorf("the call %s was complete, and is in the books as %s", c.id, r.Outcome)
		case c.end == told && r.Outcome == "complete":
			s.t.Errorf("the call %s was told that it failed, and is in the books as complete", c.id)
		}
		if r != nil {
			known++
		}
	}
	if have := s.requests() - s.from; have < known || have > known+anonymous {
		n.twice = int(have - known - anonymous)
		s.t.Errorf("%d calls are in the books, want between %d and %d", have, known, known+anonymous)
	}
	var audit admin.Audit
	s.call("audit", admin.Empty{}, &audit)
	if len(audit.Differences)+len(audit.Damage) != 0 {
		s.t.Errorf("the audit = %+v, want no difference", audit)
	}
	return n
}

// tally counts how calls ended for their callers.
func (s *server) tally() (n tally) {
	for _, c := range s.calls {
		switch c.end {
		case complete:
			n.complete++
		case told:
			n.told++
		case refused:
			n.refused++
		default:
			n.cut++
		}
	}
	return n
}

// begin forgets the calls of the fault before.
func (s *server) begin(t *testing.T) {
	s.t, s.calls = t, nil
	s.from = s.requests()
}

// gauge returns a metric's value, added up over its labels.
func (s *server) gauge(name string) float64 { return s.gauges(name)[0] }

// gauges returns the values of metrics at one moment.
func (s *server) gauges(names ...string) []float64 {
	resp, err := client.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	sums := make([]float64, len(names))
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		for i, name := range names {
			rest, ok := strings.CutPrefix(lines.Text(), name)
			if !ok || !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "{") {
				continue
			}
			v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			if err != nil {
				s.t.Fatal(err)
			}
			sums[i] += v
		}
	}
	return sums
}

// load is what a server holds, and the calls and streams that it serves.
type load struct{ goroutines, files, memory, serving float64 }

func (s *server) load() load {
	g := s.gauges("go_goroutines", "process_open_fds", "process_resident_memory_bytes", "sluice_calls_running", "sluice_streams_open")
	return load{g[0], g[1], g[2], g[3] + g[4]}
}

// atRest returns what a server holds that serves nothing and has started all that it runs: on a busy machine that takes
// longer than to answer.
func (s *server) atRest() load {
	s.t.Helper()
	most, same := s.load(), 0
	eventually(s.t, "the end of the start", func() bool {
		now := s.load()
		if same++; now.goroutines > most.goroutines {
			most, same = now, 0
		}
		return same == 20
	}, func() string { return fmt.Sprintf("%+v", most) })
	return most
}

// calm waits until nothing of the calls is left: no call, no stream, and as many goroutines and descriptors as before. A
// few connections to upstreams may be kept for the next call.
func (s *server) calm(before load) {
	s.t.Helper()
	var now load
	eventually(s.t, "the server's calm", func() bool {
		now = s.load()
		return now.serving == 0 && now.goroutines <= before.goroutines+20 && now.files <= before.files+20
	}, func() string { return fmt.Sprintf("before %+v, now %+v", before, now) })
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool, state func() string) {
	t.Helper()
	within(t, patience, what, holds, state)
}

// within is eventually for what may take longer.
func within(t *testing.T, patience time.Duration, what string, holds func() bool, state func() string) {
	t.Helper()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("%s did not happen within %v: %s", what, patience, state())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// dial connects to the server.
func (s *server) dial() net.Conn {
	s.t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

// request is a streamed chat completion as bytes.
func (s *server) request(model, prompt string) string {
	body, _ := json.Marshal(map[string]any{"model": model, "stream": true, "messages": []any{map[string]string{"role": "user", "content": prompt}}})
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", s.key, len(body), body)
}
