package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/fault"
)

// complete is the tool chat_completion.
func (v *visit) complete(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	body, ok := chatBody(v.arguments, token != nil)
	if !ok {
		return refused(misfit(nil)), nil
	}
	a := &answer{header: http.Header{}}
	if token != nil {
		a.chunks = &chunks{progress: &progress{ctx: ctx, session: req.Session, token: token, now: v.server.now}}
	}
	v.ask(ctx, a, http.MethodPost, "/v1/chat/completions", body)
	return a.result(), nil
}

// chatBody is the request that the arguments make; false: they are no object. Whether the reply is streamed
// is between the API and us. Nothing is decoded: a prompt may be long.
func chatBody(arguments []byte, stream bool) (_ []byte, ok bool) {
	const streamed = `"stream":true,"stream_options":{"include_usage":true}`
	object := bytes.TrimLeft(arguments, space)
	switch {
	case len(object) == 0 || string(object) == "null":
		object = []byte("{}")
	case object[0] != '{':
		return nil, false
	}
	b := append(make([]byte, 0, len(object)+len(streamed)+2), '{')
	members(object, func(key, value []byte) {
		if string(key) == `"stream"` || string(key) == `"stream_options"` {
			return
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), value...)
	})
	if stream {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, streamed...)
	}
	return append(b, '}'), true
}

// list is the tool list_models.
func (v *visit) list(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		Verbose bool `json:"verbose"`
	}
	if err := decode(v.arguments, &args); err != nil {
		return refused(err), nil
	}
	target := "/v1/models"
	if args.Verbose {
		target += "?format=verbose"
	}
	a := &answer{header: http.Header{}}
	v.ask(ctx, a, http.MethodGet, target, nil)
	return a.result(), nil
}

// decode reads the arguments of a tool, which may be left out where none is needed.
func decode(arguments json.RawMessage, to any) error {
	if len(arguments) == 0 || string(arguments) == "null" {
		return nil
	}
	if err := json.Unmarshal(arguments, to); err != nil {
		return misfit(err)
	}
	return nil
}

func misfit(cause error) error {
	return fault.New(fault.Invalid, "The arguments do not fit the tool's input schema.").Because(cause)
}

// ask has the API answer a request of the caller's.
func (v *visit) ask(ctx context.Context, w http.ResponseWriter, method, target string, body []byte) {
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		panic(err) // method and target are ours
	}
	r.Header["Authorization"] = v.request.Header["Authorization"]
	r.RequestURI, r.RemoteAddr = target, v.request.RemoteAddr
	defer func() {
		// The API cuts a connection so, where a reply breaks off. There is none, and the answer is not whole.
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
			panic(p)
		}
	}()
	v.server.API(v.depth).ServeHTTP(w, r)
}

// answer is what the API answers a request with.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	chunks *chunks // takes the events of a stream; nil: there will be none
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.chunks != nil && a.header.Get("Content-Type") == "text/event-stream" {
		a.chunks.write(p)
		return len(p), nil
	}
	return a.body.Write(p)
}

// Flush implements http.Flusher: everything has arrived as it was written.
func (a *answer) Flush() {}

// result is the answer as a tool's result.
func (a *answer) result() *mcp.CallToolResult {
	if a.chunks != nil && a.chunks.begun() {
		whole, failure := a.chunks.end()
		if failure != nil {
			return failed(failure, a.header)
		}
		a.body.Write(whole)
	}
	if a.status != http.StatusOK || a.body.Len() == 0 {
		var reply struct {
			Error json.RawMessage `json:"error"`
		}
		_ = json.Unmarshal(a.body.Bytes(), &reply) // nothing was answered: the caller has gone, or it broke off
		return failed(reply.Error, a.header)
	}
	return structured(a.body.Bytes())
}

// structured is a result as data, and, for clients that do not know of such, as the text of it.
func structured(body []byte) *mcp.CallToolResult {
	return &mcp.CallToolResult{StructuredContent: json.RawMessage(body), Content: []mcp.Content{&mcp.TextContent{Text: string(body)}}}
}

// refused is an error of our own as a tool's result.
func refused(err error) *mcp.CallToolResult {
	f := fault.From(err)
	body, err := json.Marshal(refusal{Message: f.Message, Type: f.Kind.String(), Code: f.Kind.Status(), Param: f.Param})
	if err != nil {
		panic(err) // strings and an int always encode
	}
	return failed(body, nil)
}

// refusal is what an error object says (docs/api.md#error-object).
type refusal struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    int    `json:"code"`
	Param   string `json:"param,omitempty"`
}

// failed is an error object as a tool's result: its sentence for the model, and all of it for a program.
// It is no structured content, which would have to fit the tool's output schema.
func failed(object json.RawMessage, header http.Header) *mcp.CallToolResult {
	var said refusal
	if json.Unmarshal(object, &said) != nil || said.Message == "" {
		return refused(fault.New(fault.Unavailable, "The reply broke off."))
	}
	result := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: said.Message}}, Meta: mcp.Meta{"error": object}}
	if ms, err := strconv.Atoi(header.Get("Retry-After-Ms")); err == nil {
		result.Meta["retry_after_ms"] = ms
	}
	return result
}
