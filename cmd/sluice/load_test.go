package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore/alltest"
)

// newUpstream returns a provider that does what the caller's message says: "send 5" sends five words at
// once, "slow 5" sends them slowly, "refuse" fails, and "break 5" breaks the stream off after the fifth.
func newUpstream(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(func() {
		s.CloseClientConnections() // a call of a gateway that was killed would keep Close waiting
		s.Close()
	})
	return s.URL + "/v1"
}

func answer(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || len(req.Messages) != 1 {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	how, number, _ := strings.Cut(req.Messages[0].Content, " ")
	words, _ := strconv.Atoi(number) // none where none are asked for
	pause := func() {
		if how == "slow" {
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":3,"completion_tokens":%d,"total_tokens":%d}`, words, words+3)
	switch {
	case how == "refuse":
		http.Error(w, `{"error":{"message":"broken"}}`, http.StatusInternalServerError)
		return
	case !req.Stream:
		pause()
		w.Header().Set("Content-Type", "application/json")
		reply := fmt.Sprintf(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],%s}`,
			strings.Repeat("word ", words), usage)
		if how == "break" {
			w.Header().Set("Content-Length", strconv.Itoa(len(reply)))
			reply = reply[:len(reply)/2]
		}
		io.WriteString(w, reply) // nobody is left to tell if it fails
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(rest string) {
		fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",%s}\n\n", rest)
		w.(http.Flusher).Flush()
	}
	for range words {
		send(`"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]`)
		pause()
	}
	if how == "break" {
		panic(http.ErrAbortHandler)
	}
	send(`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`)
	send(`"choices":[],` + usage)
	io.WriteString(w, "data: [DONE]\n\n") // nobody is left to tell if it fails
}

// gateway is the program, running on its own data folder.
type gateway struct {
	t      *testing.T
	file   string // the configuration
	dir    string // the data folder
	url    string
	cmd    *exec.Cmd
	log    *journal
	exited chan error
}

// journal holds a server's log, which can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// labModel is the upstream's model. Calls that ask for a refusal go to brokenModel, and those whose reply breaks off to
// breakingModel: with the breakers of their providers open, the others must still pass.
const labModel, brokenModel, breakingModel = "lab/one", "broken/one", "breaking/one"

// newGateway configures a gateway with the upstream's model and without limits.
func newGateway(t *testing.T, dir, provider, more string) *gateway {
	t.Helper()
	g := &gateway{t: t, dir: dir, file: filepath.Join(t.TempDir(), "sluice.yaml")}
	yaml := fmt.Sprintf(`data: %[1]q
listen: 127.0.0.1:0
metrics_listen: 127.0.0.1:0
providers: [{name: %[2]s, kind: openai, base_url: %[3]q}, {name: broken, kind: openai, base_url: %[3]q}, {name: breaking, kind: openai, base_url: %[3]q}]
models:
- {id: %[4]s, provider: %[2]s, plan: free, context_length: 100000, max_output: 10000}
- {id: %[5]s, provider: broken, plan: free, context_length: 100000, max_output: 10000}
- {id: %[6]s, provider: breaking, plan: free, context_length: 100000, max_output: 10000}
plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited, monthly_units: 1000000000}}
`, dir, provider, newUpstream(t), labModel, brokenModel, breakingModel) + more
	// With PostgreSQL each stop would wait for its default.
	if !strings.Contains(more, "shutdown_delay:") {
		yaml += "shutdown_delay: 0s\n"
	}
	if err := errors.Join(os.WriteFile(g.file, []byte(yaml), 0o600), alltest.Prepare(dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.cmd != nil {
			g.kill()
		}
	})
	return g
}

// start starts the server and waits until it is ready.
func (g *gateway) start() {
	g.t.Helper()
	g.launch()
	g.await()
}

// launch starts the server and does not wait for it.
func (g *gateway) launch() {
	g.t.Helper()
	cmd := exec.Command("sluice", "serve", "--config", g.file)
	cmd.Dir = filepath.Dir(g.file)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "GORACE=" + quickExit}
	g.log = &journal{}
	cmd.Stderr = g.log
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	g.cmd, g.exited = cmd, exited
}

// await waits until the server that launch has started serves.
func (g *gateway) await() {
	g.t.Helper()
	eventually(g.t, "the start", func() bool {
		select {
		case err := <-g.exited:
			g.cmd = nil
			g.t.Fatalf("the server ended with %v:\n%s", err, g.log)
		default:
		}
		g.url = readyURL(g.log.String())
		return g.url != ""
	})
}

// kill ends the server with SIGKILL.
func (g *gateway) kill() {
	g.cmd.Process.Kill() // an error means that it has already exited
	<-g.exited
	g.cmd = nil
}

// stop shuts the server down gracefully.
func (g *gateway) stop() {
	g.t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatal(err)
	}
	select {
	case err := <-g.exited:
		g.cmd = nil
		if err != nil {
			g.t.Errorf("the server ended with %v:\n%s", err, g.log)
		}
	case <-time.After(patience):
		g.t.Fatalf("the server did not stop within %v", patience)
	}
}

// command runs another sluice on the same configuration.
func (g *gateway) command(args ...string) (code int, stdout, stderr string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out, err bytes.Buffer
	code = run(ctx, &program{args: append(args, "--config", g.file), stdout: &out, stderr: &err})
	return code, out.String(), err.String()
}

// newKey returns a new master key of the owner.
func (g *gateway) newKey() string {
	g.t.Helper()
	code, out, text := g.command("key", "regenerate-master", "--json")
	var key admin.RawKey
	if err := json.Unmarshal([]byte(out), &key); code != 0 || err != nil {
		g.t.Fatalf("key regenerate-master = %d %s %s, want a key", code, out, text)
	}
	return key.Key
}

// get returns the status and the body of a page.
func (g *gateway) get(url string) (int, string) {
	g.t.Helper()
	// Some gateways of these tests have a self-signed certificate.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	client := &http.Client{Timeout: patience, Transport: transport}
	resp, err := client.Get(url)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// ending is how a call ended for its caller.
type ending string

const (
	complete ending = "complete" // all of the reply
	told     ending = "told"     // that it failed, by status or inside the stream
	left     ending = "left"     // nothing: it hung up
	broken   ending = "broken"   // the connection broke
)

// call is one call as its caller saw it.
type call struct {
	how    string
	words  int
	id     string // empty: no reply came
	status int
	end    ending
	body   string // of a refusal
	header http.Header
	began  time.Time
	ended  time.Time

	stored  bool // it was told that its response is stored
	dropped bool // and that it was deleted
}

// load is a number of callers that run at the same time.
type load struct {
	key   string
	seed  uint64
	kinds []string // what they ask for, each as often as it stands here

	mu    sync.Mutex
	calls []call
}

// run lets the callers make calls until stop is closed or the server is gone.
func (l *load) run(url string, callers int, stop <-chan struct{}) {
	transport := &http.Transport{MaxIdleConnsPerHost: callers, IdleConnTimeout: 30 * time.Second}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	l.mu.Lock()
	round := uint64(len(l.calls))
	l.mu.Unlock()
	var all sync.WaitGroup
	for i := range callers {
		random := rand.New(rand.NewPCG(l.seed+round, uint64(i)))
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(random.IntN(15)) * time.Millisecond): // others need the machine, too
				}
				c := l.call(client, url, l.kinds[random.IntN(len(l.kinds))], 1+random.IntN(12), random.IntN(2) == 0, random)
				l.mu.Lock()
				l.calls = append(l.calls, c)
				l.mu.Unlock()
				if c.end == broken {
					return
				}
			}
		})
	}
	all.Wait()
}

// call makes one call.
func (l *load) call(client *http.Client, url, how string, words int, stream bool, random *rand.Rand) call {
	c := call{how: how, words: words, end: broken, began: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ask := how
	if how == "leave" {
		ask = "slow"
		late := time.AfterFunc(time.Duration(random.IntN(30))*time.Millisecond, cancel)
		defer late.Stop()
	}
	model := labModel
	switch how {
	case "refuse":
		model = brokenModel
	case "break":
		model = breakingModel
	}
	path, body := "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%s %d"}],"stream":%t}`, model, ask, words, stream)
	if how == "keep" || how == "drop" {
		path, body = "/v1/responses", fmt.Sprintf(`{"model":%q,"input":"send %d","stream":%t}`, model, words, stream)
	}
	send := func(method, path, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+l.key)
		return client.Do(req)
	}
	resp, err := send(http.MethodPost, path, body)
	if err == nil {
		defer resp.Body.Close()
		c.id, c.status, c.header = resp.Header.Get("X-Request-Id"), resp.StatusCode, resp.Header
		err = c.read(resp, stream)
	}
	if how == "drop" && c.end == complete {
		gone, err := send(http.MethodDelete, "/v1/responses/resp_"+c.id, "")
		if err == nil {
			gone.Body.Close()
		}
		// One that was never answered may have been deleted or not.
		if c.dropped = err == nil && gone.StatusCode == http.StatusOK; !c.dropped {
			c.stored = false
		}
	}
	if err != nil && ctx.Err() != nil {
		c.end = left
	}
	c.ended = time.Now()
	return c
}

// read reads the reply and returns how it ended.
func (c *call) read(resp *http.Response, stream bool) error {
	if !stream || resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		c.body = string(text)
		if c.end = complete; resp.StatusCode != http.StatusOK {
			c.end = told
		}
		c.stored = strings.Contains(c.body, `"store":true`)
		return nil
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "data: [DONE]":
			c.end = complete
			return nil
		case strings.HasPrefix(line, `data: {"type":"response.completed"`):
			c.end, c.stored = complete, strings.Contains(line, `"store":true`)
			return nil
		case strings.HasPrefix(line, `data: {"error":`):
			c.end = told
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// during returns the calls that started and ended within a period.
func (l *load) during(from, to time.Time) []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(func(yield func(call) bool) {
		for _, c := range l.calls {
			if c.began.After(from) && c.ended.Before(to) && !yield(c) {
				return
			}
		}
	})
}

// count returns how many calls ended in the given way.
func (l *load) count(end ending) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.calls {
		if l.calls[i].end == end {
			n++
		}
	}
	return n
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("%s did not happen within %v", what, patience)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
