package vendortest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	blockTokens = 16 // of the cache, as vLLM has them
	tokenBytes  = 4
)

// Engine is a fake of a model server that one runs oneself: vLLM, SGLang, llama.cpp, or one without metrics. It works on a
// number of calls at the same time and queues the others. Prompts and answers stay in a cache of blocks: of the next prompt
// only what is not in it, from its beginning, has to be read. The oldest blocks make room for new ones.
type Engine struct {
	Kind  string // "vllm", "sglang", "llamacpp"; empty: no metrics
	Slots int    // calls at the same time; 0: 4
	Room  int    // of the cache, in blocks; 0: 4096
	// PerToken is how long a token of a prompt takes that is not in the cache.
	PerToken time.Duration
	// During is called while a call has its slot; nil: nothing.
	During func(ctx context.Context)
	// Report writes the metrics in place of the engine; nil: the engine does.
	Report http.HandlerFunc

	mu      sync.Mutex // guards all below
	free    *sync.Cond // a slot is free, or a caller is gone
	running int
	waiting int
	used    int // blocks of running calls
	blocks  map[uint64]int64
	clock   int64 // of the cache: a block is as old as its last use
	figures EngineFigures
	paths   map[string]int
}

// EngineFigures are sums since the start of an engine.
type EngineFigures struct {
	Calls          int
	Prompt, Cached int // tokens
	MostRunning    int
	MostWaiting    int
}

// Figures returns what the engine has done.
func (e *Engine) Figures() EngineFigures {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.figures
}

// Asked returns how many requests have come for a path.
func (e *Engine) Asked(path string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.paths[path]
}

// ServeHTTP implements http.Handler.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	if e.paths == nil {
		e.paths, e.blocks, e.free = map[string]int{}, map[uint64]int64{}, sync.NewCond(&e.mu)
	}
	e.paths[r.URL.Path]++
	e.mu.Unlock()
	switch {
	case r.URL.Path == "/v1/chat/completions" && r.Method == http.MethodPost:
		e.complete(w, r)
	case r.URL.Path == "/v1/models":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	case r.URL.Path == "/metrics" && e.Report != nil:
		e.Report(w, r)
	case r.URL.Path == "/metrics" && e.Kind != "":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, e.Metrics())
	default:
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
	}
}

// complete answers a chat completion.
func (e *Engine) complete(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model    string
		Stream   bool
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if raw, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(raw, &body) != nil {
		http.Error(w, `{"error":{"message":"bad request"}}`, http.StatusBadRequest)
		return
	}
	var text strings.Builder
	for _, m := range body.Messages {
		fmt.Fprintf(&text, "<%s>%s", m.Role, m.Content)
	}
	prompt := text.String()
	need, ok := e.begin(r.Context(), prompt)
	if !ok {
		return // the caller is gone
	}
	defer e.end(need)
	cached := e.recall(prompt)
	tokens := len(prompt) / tokenBytes
	if e.PerToken > 0 {
		late := time.NewTimer(time.Duration(tokens-cached) * e.PerToken)
		defer late.Stop()
		select {
		case <-late.C:
		case <-r.Context().Done():
			return
		}
	}
	if e.During != nil {
		e.During(r.Context())
	}
	const answer = "Certainly."
	e.recall(prompt + `<assistant>"` + answer + `"`) // what was written is in the cache, too
	e.count(tokens, cached)
	usage := object{"prompt_tokens": tokens, "completion_tokens": 3, "total_tokens": tokens + 3, "prompt_tokens_details": object{"cached_tokens": cached}}
	if !body.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, encode(object{"id": "c1", "object": "chat.completion", "created": 1, "model": body.Model, "usage": usage, "choices": []object{
			{"index": 0, "finish_reason": "stop", "message": object{"role": "assistant", "content": answer}},
		}}))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(choices []object, usage any) {
		fmt.Fprintf(w, "data: %s\n\n", encode(object{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": body.Model, "choices": choices, "usage": usage}))
	}
	chunk([]object{{"index": 0, "delta": object{"role": "assistant", "content": answer}}}, nil)
	chunk([]object{{"index": 0, "delta": object{}, "finish_reason": "stop"}}, nil)
	chunk([]object{}, usage)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// begin waits for a slot and takes it. It reports false if the caller has gone away before.
func (e *Engine) begin(ctx context.Context, prompt string) (need int, ok bool) {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.free.Broadcast()
	})
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting++
	e.figures.MostWaiting = max(e.figures.MostWaiting, e.waiting)
	for e.running >= cmp.Or(e.Slots, 4) && ctx.Err() == nil {
		e.free.Wait()
	}
	e.waiting--
	if ctx.Err() != nil {
		return 0, false
	}
	e.running++
	e.figures.MostRunning = max(e.figures.MostRunning, e.running)
	need = len(prompt)/(tokenBytes*blockTokens) + 1
	e.used += need
	return need, true
}

// end frees the slot.
func (e *Engine) end(need int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	e.used -= need
	e.free.Broadcast()
}

// count adds a call to the figures.
func (e *Engine) count(tokens, cached int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.figures.Calls++
	e.figures.Prompt += tokens
	e.figures.Cached += cached
}

// recall returns how many tokens of a text are in the cache, from its beginning, and puts all of its full blocks there. A
// block is known by its text and all that is before it.
func (e *Engine) recall(text string) (cached int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := fnv.New64a()
	known := true
	for block := blockTokens * tokenBytes; len(text) >= block; text = text[block:] {
		_, _ = io.WriteString(h, text[:block])
		id := h.Sum64()
		if _, has := e.blocks[id]; !has {
			known = false
		}
		if known {
			cached += blockTokens
		}
		e.clock++
		e.blocks[id] = e.clock
		if len(e.blocks) > cmp.Or(e.Room, 4096) {
			e.evict()
		}
	}
	return cached
}

// evict drops the oldest block.
func (e *Engine) evict() {
	var oldest uint64
	at := int64(-1)
	for id, used := range e.blocks {
		if at < 0 || used < at {
			oldest, at = id, used
		}
	}
	delete(e.blocks, oldest)
}

// Metrics returns the metrics of the engine as its kind writes them.
func (e *Engine) Metrics() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	metric := func(name, kind, help, labels string, v float64, form string) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s%s "+form+"\n", name, help, name, kind, name, labels, v)
	}
	use := min(float64(e.used)/float64(cmp.Or(e.Room, 4096)), 1)
	switch e.Kind {
	case "vllm":
		const labels, form = `{engine="0",model_name="m"}`, "%.4f"
		metric("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", labels, float64(e.running), "%.1f")
		metric("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", labels, float64(e.waiting), "%.1f")
		metric("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", labels, use, form)
		metric("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", labels, float64(e.figures.Prompt), "%.1f")
		metric("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", labels, float64(e.figures.Cached), "%.1f")
	case "sglang":
		const labels, form = `{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"}`, "%.4f"
		metric("sglang:num_running_reqs", "gauge", "The number of running requests.", labels, float64(e.running), "%.1f")
		metric("sglang:num_queue_reqs", "gauge", "The number of requests in the waiting queue.", labels, float64(e.waiting), "%.1f")
		metric("sglang:token_usage", "gauge", "The token usage.", labels, use, form)
		metric("sglang:cache_hit_rate", "gauge", "The prefix cache hit rate.", labels, float64(e.figures.Cached)/max(float64(e.figures.Prompt), 1), form)
	case "llamacpp":
		metric("llamacpp:requests_processing", "gauge", "Number of requests processing.", "", float64(e.running), "%.0f")
		metric("llamacpp:requests_deferred", "gauge", "Number of requests deferred.", "", float64(e.waiting), "%.0f")
	}
	return b.String()
}
