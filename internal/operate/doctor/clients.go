package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ClientsOptions are what Clients needs to know.
type ClientsOptions struct {
	URL string // of the API, ending with /v1
	Key string // of an account that may call the models
	// Model and Embedder are the models to call. Empty: a sandbox model, or else the first that needs no plan.
	Model, Embedder string
	// HTTP sends the requests. nil: http.DefaultClient.
	HTTP *http.Client
}

// ClientCheck is one thing that clients do, and what came of it.
type ClientCheck struct {
	Door   string `json:"door"`
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // why it failed
	TookMS int64  `json:"took_ms"`
}

const (
	// clientPatience bounds one request, and maxClientReply what is read of its reply.
	clientPatience = 2 * time.Minute
	maxClientReply = 16 << 20
)

// Clients does on a running server what clients of each dialect do, and checks the form of the replies. It calls models,
// so it costs what such calls cost.
func Clients(ctx context.Context, o ClientsOptions) []ClientCheck {
	if o.HTTP == nil {
		o.HTTP = http.DefaultClient
	}
	c := &clients{ClientsOptions: o}
	c.models(ctx)
	chat := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Say hello."}]`, c.Model)
	const tool = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`
	const weather = "What is the weather in Paris? Call get_weather."
	for _, t := range []struct {
		door, what, path, body string
		header                 http.Header
		status                 int
		has                    []string // JSON members, as path=value, or pieces of a stream
	}{
		{"chat", "whole reply", "/chat/completions", chat + `}`, nil, 200, []string{"object=chat.completion", "choices.0.message.content", "choices.0.finish_reason", "usage.total_tokens"}},
		{"chat", "stream", "/chat/completions", chat + `,"stream":true,"stream_options":{"include_usage":true}}`, nil, 200, []string{`"chat.completion.chunk"`, `"finish_reason":"`, `"usage":{`, "data: [DONE]"}},
		{
			"chat", "tools", "/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"tools":[{"type":"function","function":{"name":"get_weather","parameters":%s}}],"tool_choice":"required"}`, c.Model, weather, tool), nil, 200,
			[]string{"choices.0.message.tool_calls.0.function.name=get_weather", "choices.0.finish_reason"},
		},
		{"chat", "error", "/chat/completions", chat + `,"temperature":9}`, nil, 400, []string{"error.type=invalid_request_error", "error.param=temperature"}},
		{"responses", "whole reply", "/responses", fmt.Sprintf(`{"model":%q,"input":"Say hello.","store":false}`, c.Model), nil, 200, []string{"object=response", "status=completed", "output.0.type", "usage.total_tokens"}},
		{"responses", "stream", "/responses", fmt.Sprintf(`{"model":%q,"input":"Say hello.","store":false,"stream":true}`, c.Model), nil, 200, []string{"event: response.created", "event: response.output_text.delta", "event: response.completed"}},
		{"responses", "tools", "/responses", fmt.Sprintf(`{"model":%q,"input":%q,"store":false,"tools":[{"type":"function","name":"get_weather","parameters":%s}],"tool_choice":"required"}`, c.Model, weather, tool), nil, 200, []string{"output.0.type=function_call", "output.0.name=get_weather"}},
		{"responses", "error", "/responses", fmt.Sprintf(`{"model":%q}`, "no/such-model"), nil, 400, []string{"error.type=invalid_request_error"}},
		{"messages", "whole reply", "/messages", fmt.Sprintf(`{"model":%q,"max_tokens":100,"messages":[{"role":"user","content":"Say hello."}]}`, c.Model), anthropic(), 200, []string{"type=message", "content.0.type=text", "stop_reason", "usage.output_tokens"}},
		{"messages", "stream", "/messages", fmt.Sprintf(`{"model":%q,"max_tokens":100,"stream":true,"messages":[{"role":"user","content":"Say hello."}]}`, c.Model), anthropic(), 200, []string{"event: message_start", "event: content_block_delta", "event: message_stop"}},
		{"messages", "tools", "/messages", fmt.Sprintf(`{"model":%q,"max_tokens":100,"messages":[{"role":"user","content":%q}],"tools":[{"name":"get_weather","input_schema":%s}],"tool_choice":{"type":"any"}}`, c.Model, weather, tool), anthropic(), 200, []string{"stop_reason=tool_use"}},
		{"messages", "count of tokens", "/messages/count_tokens", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Say hello."}]}`, c.Model), anthropic(), 200, []string{"input_tokens"}},
		{"messages", "error", "/messages", fmt.Sprintf(`{"model":%q,"messages":[]}`, c.Model), anthropic(), 400, []string{"type=error", "error.type=invalid_request_error"}},
		{"embeddings", "numbers", "/embeddings", fmt.Sprintf(`{"model":%q,"input":["one","two"]}`, c.Embedder), nil, 200, []string{"object=list", "data.1.index=1", "data.0.embedding.0", "usage.prompt_tokens"}},
		{"embeddings", "base64", "/embeddings", fmt.Sprintf(`{"model":%q,"input":"one","encoding_format":"base64"}`, c.Embedder), nil, 200, []string{"data.0.object=embedding", "data.0.embedding"}},
		{"embeddings", "error", "/embeddings", fmt.Sprintf(`{"model":%q,"input":""}`, c.Embedder), nil, 400, []string{"error.param=input"}},
	} {
		if c.Model == "" && t.door != "embeddings" || c.Embedder == "" && t.door == "embeddings" {
			c.note(t.door, t.what, time.Now(), fmt.Errorf("the catalog has no model for it"))
			continue
		}
		c.check(ctx, t.door, t.what, http.MethodPost, t.path, t.body, t.header, t.status, t.has)
	}
	// A key that nobody has is refused at every door in the door's own words.
	c.Key = "service-0000000000"
	c.check(ctx, "chat", "unknown key", http.MethodPost, "/chat/completions", chat+`}`, nil, 401, []string{"error.type=authentication_error"})
	c.check(ctx, "messages", "unknown key", http.MethodPost, "/messages", `{}`, anthropic(), 401, []string{"type=error", "error.type=authentication_error"})
	return c.done
}

// anthropic is the header by which clients of Anthropic's dialect are known.
func anthropic() http.Header { return http.Header{"Anthropic-Version": {"2023-06-01"}} }

// clients runs the checks.
type clients struct {
	ClientsOptions
	done []ClientCheck
}

// models checks both lists of models, and chooses the models to call.
func (c *clients) models(ctx context.Context) {
	c.check(ctx, "models", "Anthropic's list", http.MethodGet, "/models", "", anthropic(), 200, []string{"data.0.id", "data.0.type=model", "has_more"})
	raw := c.check(ctx, "models", "OpenAI's list", http.MethodGet, "/models?format=verbose", "", nil, 200, []string{"object=list", "data.0.id", "data.0.object=model"})
	var list struct {
		Data []struct{ ID, Plan, Kind string }
	}
	if json.Unmarshal(raw, &list) != nil {
		return
	}
	better := func(to *string, id, plan, sandbox string) {
		if *to == "" && plan == "free" || id == sandbox {
			*to = id
		}
	}
	chat, embedder := "", ""
	for _, m := range list.Data {
		if m.Kind == "embedding" {
			better(&embedder, m.ID, m.Plan, "sandbox/embed")
		} else {
			better(&chat, m.ID, m.Plan, "sandbox/small")
		}
	}
	if c.Model == "" {
		c.Model = chat
	}
	if c.Embedder == "" {
		c.Embedder = embedder
	}
}

// check sends a request and notes whether the reply is what a client expects. It returns the body.
func (c *clients) check(ctx context.Context, door, what, method, path, body string, header http.Header, status int, has []string) []byte {
	begin := time.Now()
	raw, err := c.send(ctx, method, path, body, header, status)
	if err == nil {
		err = holds(raw, has)
	}
	c.note(door, what, begin, err)
	return raw
}

// note adds a result.
func (c *clients) note(door, what string, begin time.Time, err error) {
	r := ClientCheck{Door: door, What: what, OK: err == nil, TookMS: time.Since(begin).Milliseconds()}
	if err != nil {
		r.Detail = err.Error()
	}
	c.done = append(c.done, r)
}

// send sends a request and returns the body of its reply, which must have the status.
func (c *clients) send(ctx context.Context, method, path, body string, header http.Header, status int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if header != nil {
		req.Header.Set("X-Api-Key", c.Key)
	} else {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxClientReply))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != status {
		return raw, fmt.Errorf("status %d, want %d: %.200s", resp.StatusCode, status, raw)
	}
	return raw, nil
}

// holds checks that a reply has everything in it: members of a JSON object, or pieces of a stream.
func holds(raw []byte, has []string) error {
	var reply any
	whole := json.Unmarshal(raw, &reply) == nil
	for _, want := range has {
		if !whole {
			if !bytes.Contains(raw, []byte(want)) {
				return fmt.Errorf("the stream lacks %s", want)
			}
			continue
		}
		path, value, given := strings.Cut(want, "=")
		got, ok := member(reply, path)
		if !ok || given && fmt.Sprint(got) != value {
			return fmt.Errorf("%s is %v, want %s: %.200s", path, got, want, raw)
		}
	}
	return nil
}

// member returns what is at a path such as choices.0.message, and reports whether there is anything but null.
func member(v any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i := 0
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, v != nil
}
