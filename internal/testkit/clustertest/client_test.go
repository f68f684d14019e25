package clustertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// reply is what came back for a request. A status of 0 means nothing; err says why.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// get makes a request to a node or to nginx.
func (c *cluster) get(base, key, path string) reply {
	return c.send(http.MethodGet, base, key, path, "")
}

func (c *cluster) send(method, base, key, path, body string) reply {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := c.request(ctx, method, base, key, path, body)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return reply{resp.StatusCode, resp.Header, string(text), err}
}

func (c *cluster) request(ctx context.Context, method, base, key, path, body string) (*http.Response, error) {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, in)
	if err != nil {
		return nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return c.client.Do(req)
}

const chatPath = "/v1/chat/completions"

// ask is a chat request. text may hold directives of the sandbox.
func ask(model, text string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, model, stream, text)
}

// chat makes one whole call.
func (c *cluster) chat(base, key, model string) reply {
	return c.send(http.MethodPost, base, key, chatPath, ask(model, "Reply with the word pong", false))
}

// attempt is one try of a call as its caller saw it.
type attempt struct {
	id       string // of the request; empty if no reply came
	began    time.Time
	ended    time.Time
	stream   bool
	status   int
	complete bool
	retry    bool          // a client would try again
	after    time.Duration // before that, if the reply says so
	problem  string
}

// try makes one call and reads all of it.
func (c *cluster) try(base, key, text string, stream bool) (a attempt) {
	a = attempt{began: time.Now(), stream: stream, retry: true}
	defer func() { a.ended = time.Now() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := c.request(ctx, http.MethodPost, base, key, chatPath, ask("sandbox/small", text, stream))
	if err != nil {
		a.problem = err.Error()
		return a
	}
	defer resp.Body.Close()
	a.id, a.status = resp.Header.Get("X-Request-Id"), resp.StatusCode
	if a.status != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		a.problem = fmt.Sprintf("%d %s", a.status, body)
		a.retry, a.after = advice(resp)
		return a
	}
	if err := read(resp.Body, stream); err != nil {
		a.problem = "after the beginning of the reply: " + err.Error()
		return a
	}
	a.complete = true
	return a
}

// read reads a reply to its end and returns an error if it is not complete.
func read(body io.Reader, stream bool) error {
	in := bufio.NewReader(body)
	done := !stream
	for {
		line, err := in.ReadString('\n')
		switch {
		case strings.HasPrefix(line, `data: {"error":`):
			return fmt.Errorf("an error in the stream: %s", line)
		case strings.HasPrefix(line, "data: [DONE]"):
			done = true
		}
		if err == io.EOF && done {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// advice reports whether OpenAI's client would retry the request, and the wait that the reply asks for.
func advice(resp *http.Response) (retry bool, after time.Duration) {
	h := resp.Header
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil {
		after = time.Duration(ms * float64(time.Millisecond))
	} else if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		after = time.Duration(s * float64(time.Second))
	}
	switch h.Get("x-should-retry") {
	case "true":
		return true, after
	case "false":
		return false, 0
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true, after
	}
	return resp.StatusCode >= http.StatusInternalServerError, after
}

// load is a steady mix of whole and streamed calls through a load balancer.
type load struct {
	c       *cluster
	pick    func() string // the address of the next call
	key     string
	retries int // of each call, as in a client's settings
	stop    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	attempts []attempt
	failed   []string // calls that failed in spite of all retries
	calls    int      // that were completed
}

// startLoad starts callers. finish ends them.
func (c *cluster) startLoad(key string, callers, retries int, seed uint64) *load {
	return c.startLoadOn(func() string { return c.nginx.url }, key, callers, retries, seed)
}

// startLoadOn is startLoad on other addresses than that of nginx.
func (c *cluster) startLoadOn(pick func() string, key string, callers, retries int, seed uint64) *load {
	l := &load{c: c, pick: pick, key: key, retries: retries, stop: make(chan struct{})}
	for i := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		l.running.Go(func() {
			for !l.wait(time.Duration(random.IntN(100)) * time.Millisecond) {
				text, stream := mixed(random)
				l.call(text, stream, random)
			}
		})
	}
	return l
}

// hurry adds callers whose calls are as short as possible, so that at any time some connection is being
// opened, reused or given back. They rest for up to a time between two calls.
func (l *load) hurry(callers int, rest time.Duration, seed uint64) {
	for i := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(i)+1000))
		l.running.Go(func() {
			for !l.wait(time.Duration(random.Int64N(int64(rest)))) {
				l.call("Reply with the word pong", false, random)
			}
		})
	}
}

// linger adds callers whose streams outlast the delay of a stop.
func (l *load) linger(callers int, seed uint64) {
	for i := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(i)+2000))
		l.running.Go(func() {
			for !l.wait(time.Duration(random.IntN(1000)) * time.Millisecond) {
				l.call("[[sandbox:tokens=60]] [[sandbox:chunk_delay=100ms]]", true, random)
			}
		})
	}
}

// mixed returns a call that takes a while: a whole one or a stream.
func mixed(random *rand.Rand) (text string, stream bool) {
	if random.IntN(2) == 0 {
		return fmt.Sprintf("[[sandbox:tokens=%d]] [[sandbox:delay=50ms]]", 5+random.IntN(20)), false
	}
	return fmt.Sprintf("[[sandbox:tokens=%d]] [[sandbox:chunk_delay=%dms]]", 5+random.IntN(30), 10+random.IntN(60)), true
}

// wait waits and reports whether the callers should end.
func (l *load) wait(d time.Duration) (ended bool) {
	select {
	case <-l.stop:
		return true
	case <-time.After(d):
		return false
	}
}

// call makes one call, and again if that may help.
func (l *load) call(text string, stream bool, random *rand.Rand) {
	var problems []string
	for i := 0; ; i++ {
		a := l.c.try(l.pick(), l.key, text, stream)
		l.mu.Lock()
		l.attempts = append(l.attempts, a)
		if a.complete {
			l.calls++
		}
		l.mu.Unlock()
		if a.complete {
			return
		}
		problems = append(problems, a.began.Format("05.000")+" "+a.id+" "+a.problem)
		if !a.retry || i == l.retries {
			l.mu.Lock()
			l.failed = append(l.failed, strings.Join(problems, "\n\t"))
			l.mu.Unlock()
			return
		}
		// Half a second, doubled each time, less a random part; as the reply says, if it does.
		wait := min(time.Second<<i/2, 8*time.Second)
		wait -= time.Duration(random.Float64() * 0.25 * float64(wait))
		if a.after > 0 {
			wait = a.after
		}
		pause(l.c.t, wait)
	}
}

// completed returns how many calls were completed so far.
func (l *load) completed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// tried returns how many attempts have ended so far.
func (l *load) tried() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.attempts)
}

// finish ends the callers and returns the ids of the requests whose replies were complete.
func (l *load) finish() (ids []string) {
	close(l.stop)
	l.running.Wait()
	for _, a := range l.attempts {
		if a.complete {
			ids = append(ids, a.id)
		}
	}
	return ids
}

// summary counts how attempts ended.
func (l *load) summary() string {
	counts := map[string]int{}
	for _, a := range l.attempts {
		switch {
		case a.complete:
			counts["complete"]++
		case a.status == 0:
			counts["no reply"]++
		case a.status == http.StatusOK:
			counts["broken off"]++
		default:
			counts[strconv.Itoa(a.status)]++
		}
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(words, ", ")
}
