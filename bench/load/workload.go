package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bench/upstream"
)

// workload is one kind of load: a number of callers, each sending one request after the other.
// A caller waits for its reply before it sends the next request, so the load adapts to the
// speed of the target; compare CPU time, not only rates.
type workload struct {
	name    string
	callers int
	// chunks is the number of chunks with text in a stream, or 0 for a reply that is not
	// streamed. pause is the time between them.
	chunks int
	pause  time.Duration
	// secure means that the upstream is called over TLS.
	secure bool
	// prompt is the size of the prompt in bytes; 0 means a short one. image makes it a picture, and agent the prompt of a
	// program that works with tools.
	prompt int
	image  bool
	agent  bool
	// door is the dialect of the request; nil means chat completions.
	door *door
	// rate is how many requests begin in a second, whatever happens to those before them; see arrive. 0: each caller waits
	// for its reply.
	rate int
}

// frames is the number of chunks without text in a stream: role, finish reason, usage.
const frames = 3

// The workloads. c is the number of callers. paced is what a model really does; flood shows the
// cost of a chunk when nothing else limits it.
var (
	one   = workload{name: "c=1", callers: 1}
	some  = workload{name: "c=32", callers: 32}
	many  = workload{name: "c=256", callers: 256}
	paced = workload{name: "paced", callers: 16, chunks: 50, pause: 10 * time.Millisecond}
	flood = workload{name: "flood", callers: 32, chunks: 100}
	// The cost of TLS to the upstream, which most real ones speak.
	secure = workload{name: "TLS", callers: 32, secure: true}
	// Long prompts: a conversation with a few files in it, what an agent sends after an hour of work, about 100,000 tokens, a
	// book, and a photo.
	long     = workload{name: "200 KB", callers: 8, prompt: 200_000}
	agents   = workload{name: "400 KB", callers: 4, prompt: 400_000, agent: true}
	longest  = workload{name: "5 MB", callers: 2, prompt: 5_000_000}
	pictures = workload{name: "image", callers: 2, prompt: 5_000_000, image: true}

	workloads = []workload{one, some, many, paced, flood, secure, long, agents, longest, pictures}
)

// length returns how long one stream takes; 0 without a pause.
func (w workload) length() time.Duration { return time.Duration(w.chunks) * w.pause }

// request returns the complete HTTP request. It is built once per turn, so that callers only
// write bytes. The prompt has the length of a typical short one, and tells the fake upstream
// how to reply.
func (w workload) request(t *target) []byte {
	stream := ""
	if w.chunks > 0 {
		stream = `,"stream":true,"stream_options":{"include_usage":true}`
	}
	path, body := "/v1/chat/completions", ""
	if w.door != nil {
		path, body = w.door.path, w.door.body(t.model, upstream.Directive(w.chunks, w.pause), w.chunks > 0)
	} else {
		body = w.body(t, stream)
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: */*\r\nUser-Agent: bench\r\nContent-Length: %d\r\n\r\n%s",
		path, t.addr, t.key, len(body), body)
}

// body returns the request's body.
func (w workload) body(t *target, stream string) string {
	switch {
	case w.image:
		// Any text of the right alphabet: nobody decodes it.
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[{"type":"text","text":"What is in this picture? %s"},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}],"max_tokens":256%s}`,
			t.model, upstream.Directive(w.chunks, w.pause), strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA+/09AzbYcQAB", w.prompt/36), stream)
	case w.agent:
		return w.working(t, stream)
	case w.prompt > 0:
		// Turns of a few kilobytes, with what JSON must escape.
		var b strings.Builder
		fmt.Fprintf(&b, `{"model":%q,"messages":[{"role":"system","content":"You are a helpful assistant. %s"}`, t.model, upstream.Directive(w.chunks, w.pause))
		for i := 0; b.Len() < w.prompt; i++ {
			fmt.Fprintf(&b, `,{"role":%q,"content":"%s"}`, [2]string{"user", "assistant"}[i%2], strings.Repeat(`The gateway said: \"hand it on\", and it did.\n\tThen it waited for the next piece — päckchenweise. `, 40))
		}
		fmt.Fprintf(&b, `,{"role":"user","content":"Go on."}],"max_tokens":256%s}`, stream)
		return b.String()
	}
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":"You are a helpful assistant. Answer briefly, keep to the facts, and say so where you do not know."},`+
		`{"role":"user","content":"Explain in a few sentences how a gateway hands a streamed reply on, and what it must not hold back. %s"}],"temperature":0.7,"max_tokens":256%s}`,
		t.model, upstream.Directive(w.chunks, w.pause), stream)
}

// working returns the body of an agent: tools, and many turns, each a sentence, the call of a tool and what came of it, which
// is a piece of code.
func (w workload) working(t *target, stream string) string {
	const code = "func (s *Store) Find(ctx context.Context, id string) (*Row, error) {\n\trow, ok := s.rows[id]\n\tif !ok {\n\t\treturn nil, fmt.Errorf(\"no row %q: %w\", id, ErrGone)\n\t}\n\t// The caller may change what it gets, so it is a copy.\n\treturn row.clone(), nil\n}\n\n"
	text := func(s string) []byte {
		b, _ := json.Marshal(s) // a string has no errors
		return b
	}
	b := fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"system","content":%s},{"role":"user","content":"The tests of the store fail. Find out why, and repair it."}`,
		t.model, text(strings.Repeat("You work on the code of a program. Look before you change something, and say what you did.\n", 100)+upstream.Directive(w.chunks, w.pause)))
	for i := 0; len(b) < w.prompt*29/30; i++ {
		arguments := fmt.Sprintf(`{"path":"internal/store/rows_%d.go","old":%s,"new":%s}`, i, text(code), text(strings.ReplaceAll(code, "row", "line")))
		b = fmt.Appendf(b, `,{"role":"assistant","content":"Next I look at part %d — it is called by the others.","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"edit","arguments":%s}}]},{"role":"tool","tool_call_id":"call_%[2]d","content":%[4]s}`,
			i, i, text(arguments), text(strings.Repeat(code, 4+i%20)))
	}
	b = append(b, `],"tools":[`...)
	for i := range 20 {
		b = fmt.Appendf(b, `%s{"type":"function","function":{"name":"%s","description":"Reads or changes a file of the work tree. Paths are relative to its root; what is not there is an error that says so.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"the file"},"old":{"type":"string","description":"what is replaced"},"new":{"type":"string","description":"what replaces it"},"most":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}}}`,
			[2]string{"", ","}[min(i, 1)], [2]string{"edit", fmt.Sprint("tool_", i)}[min(i, 1)])
	}
	return string(fmt.Appendf(b, `],"max_tokens":256%s}`, stream))
}

// call sends one request and calls chunk for every chunk. An incomplete stream is an error. Doors have different numbers of
// events, so of them only the end counts.
func (w workload) call(c *conn, request []byte, chunk func()) error {
	end := []byte("data: [DONE]")
	if w.door != nil {
		end = []byte(w.door.end)
	}
	// Only the number of chunks is checked: comparing texts would take CPU time from the gateway.
	events, done := 0, false
	err := c.do(request, func(line []byte) {
		switch {
		case bytes.HasPrefix(line, []byte("data: {")):
			events++
			chunk()
		case bytes.HasPrefix(line, end):
			done = true
		}
	})
	if err == nil && w.chunks > 0 && (w.door == nil && events != w.chunks+frames || events < w.chunks || !done) {
		err = fmt.Errorf("a stream had %d chunks (end mark: %t), want %d and the end mark", events, done, w.chunks+frames)
	}
	return err
}

// sample is the result of one turn.
type sample struct {
	// requests and chunks count the whole turn.
	requests, chunks int
	// bytes is the size of one request.
	bytes int
	// cpu is the CPU time of the whole turn, including work that the target deferred.
	cpu time.Duration
	// rate is requests per second in the measured slice.
	rate float64
	// latency and first are the sorted times of each measured request: to its end, and to its
	// first chunk.
	latency, first []time.Duration
	// late is how late the load generator was, in an open loop.
	late []time.Duration
	// unsent is how many requests of an open loop waited in vain for a caller. They are in latency.
	unsent int
	errors int
	// err is the first error.
	err error
}

// run gives the target one turn: a warm-up, then the slice that is measured. CPU time is
// counted from rest to rest, since some work is done long after the caller has gone.
func (w workload) run(ctx context.Context, t *target, slice time.Duration) (*sample, error) {
	before, err := t.CPU()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	// Warm-up and slice both count for CPU time per request, which is divided by all requests
	// of the turn.
	all, err := w.load(ctx, t, slice)
	if err != nil {
		return nil, err
	}
	after, err := t.rest(ctx)
	all.cpu = after - before
	return all, err
}

// load runs all callers for one turn and collects their samples. Only the slice in the middle is
// measured: at the beginning not all callers are running yet, and at the end not all any more.
func (w workload) load(ctx context.Context, t *target, slice time.Duration) (*sample, error) {
	if w.rate > 0 {
		return w.arrive(ctx, t, slice)
	}
	var measuring, over atomic.Bool
	var callers sync.WaitGroup
	defer callers.Wait()
	// Deferred functions run in reverse: the callers learn that the turn is over, then load waits for them.
	defer over.Store(true)
	request := w.request(t)
	// Each caller writes to its own part, so no lock is needed.
	parts := make([]sample, w.callers)
	for i := range parts {
		callers.Go(func() {
			// Streams in step would send all their chunks at the same moment.
			if wait(ctx, w.length()*time.Duration(i)/time.Duration(w.callers)) == nil {
				request := request
				if len(t.keys) > 0 {
					request = w.request(&target{addr: t.addr, model: t.model, key: t.keys[i%len(t.keys)]})
				}
				w.repeat(t, request, &parts[i], &measuring, &over)
			}
		})
	}
	// The warm-up is long enough for every caller to start.
	if err := wait(ctx, slice/2+w.length()); err != nil {
		return nil, err
	}
	began := time.Now()
	measuring.Store(true)
	if err := wait(ctx, slice+w.length()); err != nil {
		return nil, err
	}
	// Requests that are still running end, but no longer count.
	measuring.Store(false)
	took := time.Since(began)
	over.Store(true)
	callers.Wait()
	all := &sample{bytes: len(request)}
	for i := range parts {
		all.join(&parts[i])
	}
	all.rate = float64(len(all.latency)) / took.Seconds()
	slices.Sort(all.latency)
	slices.Sort(all.first)
	return all, nil
}

// repeat is one caller. It sends requests until the turn is over, or until the target has
// failed more than 20 times.
func (w workload) repeat(t *target, request []byte, to *sample, measuring, over *atomic.Bool) {
	c := newConn(t.addr)
	defer c.close()
	defer func() { t.answered.Add(int64(to.requests)) }()
	for !over.Load() {
		// Only requests that start and end inside the slice are measured.
		measured := measuring.Load()
		var first time.Duration
		began := time.Now()
		err := w.call(c, request, func() {
			if first == 0 {
				first = time.Since(began)
			}
			to.chunks++
		})
		if err != nil {
			if to.errors++; to.err == nil {
				to.err = err
			}
			if to.errors > 20 {
				return // the target is broken
			}
			continue
		}
		to.requests++
		if measured && measuring.Load() { // the whole request was inside the slice
			to.latency = append(to.latency, time.Since(began))
			to.first = append(to.first, first)
		}
	}
}

// join adds the sample of another caller. It keeps the first error only; latencies are sorted
// later.
func (s *sample) join(o *sample) {
	s.requests += o.requests
	s.chunks += o.chunks
	s.latency = append(s.latency, o.latency...)
	s.first = append(s.first, o.first...)
	s.unsent += o.unsent
	s.errors += o.errors
	if s.err == nil {
		s.err = o.err
	}
}

// share returns the quantile of sorted times: share(t, 0.5) is the median.
func share(sorted []time.Duration, of float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(of*float64(len(sorted))), len(sorted)-1)]
}
