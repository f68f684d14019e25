package oracles

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	upstreamKey   = "upstream-secret-0001"
	upstreamModel = "model-as-the-upstream-calls-it"
)

// patience bounds every wait here. What is waited for comes at once where all is well.
const patience = time.Minute

// upstream is a fake OpenAI: it does what the last user message of a request says, a script as JSON.
// GET /calls/{key} tells how the calls with the script's key went.
type upstream struct {
	url string

	mu    sync.Mutex
	calls map[string]*calls
}

// script is an order to the upstream.
type script struct {
	Do     string `json:"do"`  // say, echo, call, think, fail, hang, cut or break
	Key    string `json:"key"` // what the calls are counted under
	Status int    `json:"status,omitempty"`
	Times  int    `json:"times,omitempty"` // fail this often, then say
}

func (s script) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return string(text)
}

// calls are those with one key. Only one of them may hang.
type calls struct {
	Attempts int           `json:"attempts"`
	Canceled bool          `json:"canceled"` // whether the one that hung was ended by its caller
	hangs    chan struct{} // closed when it hangs
	ended    chan struct{} // closed when it has ended
}

// The replies, in the pieces that they are streamed in.
var (
	said      = []string{"Hello", ", ", "wor", "ld: ", "grüß \"dich\"", "."}
	thought   = []string{"First ", "this, ", "then that."}
	answered  = []string{"It is ", "42."}
	asked     = [][]string{{"get_weather", `{"ci`, `ty":"`, `Paris"}`}, {"get_time", `{"city":`, `"Tokyo"}`}}
	upUsage   = `{"prompt_tokens":21,"completion_tokens":9,"total_tokens":30,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":3}}`
	upMessage = "the upstream's own words"
)

func startUpstream(t *testing.T) *upstream {
	t.Helper()
	up := &upstream{calls: map[string]*calls{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", up.complete)
	mux.HandleFunc("GET /calls/{key}", up.report)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	up.url = server.URL
	return up
}

// of returns what is known of the calls with a key.
func (u *upstream) of(key string) *calls {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.calls[key]
	if c == nil {
		c = &calls{hangs: make(chan struct{}), ended: make(chan struct{})}
		u.calls[key] = c
	}
	return c
}

// attempts is how many calls with a key came.
func (u *upstream) attempts(key string) int {
	c := u.of(key)
	u.mu.Lock()
	defer u.mu.Unlock()
	return c.Attempts
}

// hangs waits until a call with the key hangs.
func (u *upstream) hangs(key string) { await(u.of(key).hangs) }

// canceled waits until the call that hung has ended, and reports whether its caller ended it.
func (u *upstream) canceled(key string) bool {
	c := u.of(key)
	await(c.ended)
	u.mu.Lock()
	defer u.mu.Unlock()
	return c.Canceled
}

// await waits for an event, within reason. What it was for fails where it did not come.
func await(event <-chan struct{}) {
	select {
	case <-event:
	case <-time.After(patience):
	}
}

// report is GET /calls/{key}; with ?wait=hangs or ?wait=ended it first waits for that.
func (u *upstream) report(w http.ResponseWriter, r *http.Request) {
	c := u.of(r.PathValue("key"))
	switch r.URL.Query().Get("wait") {
	case "hangs":
		await(c.hangs)
	case "ended":
		await(c.ended)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c)
}

// request is what the upstream reads of a body.
type request struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	} `json:"messages"`
}

// complete is POST /v1/chat/completions.
func (u *upstream) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if got := r.Header.Get("Authorization"); got != "Bearer "+upstreamKey || req.Model != upstreamModel {
		fail(w, http.StatusUnauthorized, fmt.Sprintf("wrong key %q or model %q", got, req.Model))
		return
	}
	var order script
	var results []string
	for _, m := range req.Messages {
		text, _ := m.Content.(string)
		switch m.Role {
		case "user":
			order = script{}
			_ = json.Unmarshal([]byte(text), &order) // another text is no order, and refused below
		case "tool":
			results = append(results, text)
		}
	}
	c := u.of(order.Key)
	u.mu.Lock()
	c.Attempts++
	attempt := c.Attempts
	u.mu.Unlock()

	a := &answer{w: w, stream: req.Stream, usage: req.StreamOptions.IncludeUsage}
	switch order.Do {
	case "say":
		a.say(said...)
	case "echo":
		a.say(string(body))
	case "call":
		if len(results) > 0 {
			a.say("The tools said ", strings.Join(results, " and "), ".")
			return
		}
		a.call()
	case "think":
		a.think()
	case "fail":
		if order.Times > 0 && attempt > order.Times {
			a.say(said...)
			return
		}
		w.Header().Set("Retry-After-Ms", "20")
		fail(w, order.Status, upMessage)
	case "hang":
		a.begin(said[0])
		u.hang(r.Context(), c)
	case "cut":
		a.begin(said[0])
		panic(http.ErrAbortHandler)
	case "break":
		a.begin(said[0])
		fmt.Fprintf(w, "data: {\"error\":{\"message\":%q,\"type\":\"server_error\",\"code\":null}}\n\n", upMessage)
	default:
		fail(w, http.StatusBadRequest, "the last user message is no order")
	}
}

// hang waits until the caller goes away, and notes whether it did.
func (u *upstream) hang(ctx context.Context, c *calls) {
	close(c.hangs)
	select {
	case <-ctx.Done():
	case <-time.After(2 * patience):
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c.Canceled = ctx.Err() != nil
	close(c.ended)
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"message":%q,"type":"some_error","param":null,"code":null}}`, message)
}

// answer writes one reply the way OpenAI does, whole or streamed.
type answer struct {
	w      http.ResponseWriter
	stream bool
	usage  bool // a stream ends with usage, and says null before
}

// say answers with a text.
func (a *answer) say(pieces ...string) {
	if !a.stream {
		a.whole(fmt.Sprintf(`"content":%s`, quoted(strings.Join(pieces, ""))), "stop")
		return
	}
	a.begin("")
	for _, p := range pieces {
		a.chunk(fmt.Sprintf(`{"content":%s}`, quoted(p)), "")
	}
	a.end("stop")
}

// think answers with reasoning before the text.
func (a *answer) think() {
	if !a.stream {
		a.whole(fmt.Sprintf(`"reasoning_content":%s,"content":%s`, quoted(strings.Join(thought, "")), quoted(strings.Join(answered, ""))), "stop")
		return
	}
	a.begin("")
	for _, p := range thought {
		a.chunk(fmt.Sprintf(`{"reasoning_content":%s}`, quoted(p)), "")
	}
	for _, p := range answered {
		a.chunk(fmt.Sprintf(`{"content":%s}`, quoted(p)), "")
	}
	a.end("stop")
}

// call answers with two calls.
func (a *answer) call() {
	if !a.stream {
		var all []string
		for i, c := range asked {
			all = append(all, fmt.Sprintf(`{"id":"call_%d","type":"function","function":{"name":%q,"arguments":%s}}`, i, c[0], quoted(strings.Join(c[1:], ""))))
		}
		a.whole(`"content":null,"tool_calls":[`+strings.Join(all, ",")+`]`, "tool_calls")
		return
	}
	a.begin("")
	for i, c := range asked {
		a.chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":%q,"arguments":""}}]}`, i, i, c[0]), "")
		for _, piece := range c[1:] {
			a.chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quoted(piece)), "")
		}
	}
	a.end("tool_calls")
}

func (a *answer) whole(message, finish string) {
	a.w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(a.w, `{"id":"up-1","object":"chat.completion","created":1700000000,"model":%q,"choices":[{"index":0,"message":{"role":"assistant",%s,"refusal":null},"logprobs":null,"finish_reason":%q}],"usage":%s,"system_fingerprint":"fp_1"}`,
		upstreamModel, message, finish, upUsage)
}

// begin starts a stream with the role, and a first text where there is one; asked for a whole reply,
// it sends the headers alone.
func (a *answer) begin(first string) {
	if !a.stream {
		a.w.Header().Set("Content-Type", "application/json")
		a.w.(http.Flusher).Flush()
		return
	}
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.chunk(`{"role":"assistant","content":"","refusal":null}`, "")
	if first != "" {
		a.chunk(fmt.Sprintf(`{"content":%s}`, quoted(first)), "")
	}
}

func (a *answer) chunk(delta, finish string) {
	reason, usage := "null", ""
	if finish != "" {
		reason = `"` + finish + `"`
	}
	if a.usage {
		usage = `,"usage":null`
	}
	a.event(fmt.Sprintf(`[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]%s`, delta, reason, usage))
}

func (a *answer) event(choices string) {
	fmt.Fprintf(a.w, "data: {\"id\":\"up-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":%q,\"system_fingerprint\":\"fp_1\",\"choices\":%s}\n\n", upstreamModel, choices)
	a.w.(http.Flusher).Flush()
}

func (a *answer) end(finish string) {
	a.chunk(`{}`, finish)
	if a.usage {
		a.event(`[],"usage":` + upUsage)
	}
	fmt.Fprint(a.w, "data: [DONE]\n\n")
}

// quoted is a text as JSON.
func quoted(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(raw)
}
