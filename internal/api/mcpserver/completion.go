package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// complete implements the tool chat_completion. The completion is requested as a stream only if the
// client asks for progress.
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

// chatBody returns the request body for the arguments, and false if they are not an object. It
// replaces the caller's stream and stream_options, because how the reply travels from the API to
// this package is our choice. Nothing is decoded: a prompt may be long.
func chatBody(arguments []byte, stream bool) (_ []byte, ok bool) {
	const streamed = `"stream":true,"stream_options":{"include_usage":true}`
	// Missing arguments are an empty object; the API will say what is required.
	object := chat.ValueOf(arguments)
	if object.Null() {
		object = chat.ValueOf([]byte("{}"))
	}
	if object.Kind() != '{' {
		return nil, false
	}
	b := append(make([]byte, 0, len(object.Raw())+len(streamed)+2), '{')
	// Copy all members but those that decide how the reply is sent.
	before := 1 // where the value before ends
	for w := object.Walk(); w.Next(); {
		end := w.Value.Offset() + len(w.Value.Raw())
		if key := string(w.Key); key != "stream" && key != "stream_options" {
			b = appendMember(b, bytes.TrimLeft(object.Raw()[before:end], ", \t\r\n")) // the key as it is written
		}
		before = end
	}
	if stream {
		b = appendMember(b, []byte(streamed))
	}
	return append(b, '}'), true
}

// appendMember appends a member to an object that is open.
func appendMember(b, member []byte) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	return append(b, member...)
}

// list implements the tool list_models.
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

// decode reads the arguments of a tool. Missing arguments leave the target as it is.
func decode(arguments json.RawMessage, to any) error {
	if len(arguments) == 0 || string(arguments) == "null" {
		return nil
	}
	if err := json.Unmarshal(arguments, to); err != nil {
		return misfit(err)
	}
	return nil
}

// misfit returns the error for arguments of the wrong form. The cause may be nil.
func misfit(cause error) error {
	return fault.New(fault.Invalid, "The arguments do not fit the tool's input schema.").Because(cause)
}

// ask sends a request to the API in this process, with the caller's own key, and writes the reply
// to w.
func (v *visit) ask(ctx context.Context, w http.ResponseWriter, method, target string, body []byte) {
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		panic(err) // cannot happen: method and target are constants
	}
	// Direct assignment keeps a missing key missing. The address stays the caller's.
	r.Header["Authorization"] = v.request.Header["Authorization"]
	if via := v.request.Header["X-Forwarded-For"]; via != nil {
		r.Header["X-Forwarded-For"] = via
	}
	r.RequestURI, r.RemoteAddr = target, v.request.RemoteAddr
	defer func() {
		// The API panics with ErrAbortHandler to cut the connection when a reply breaks off. Here
		// there is no connection to cut, and result notices that the reply is incomplete.
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it in the same way
			panic(p)
		}
	}()
	v.server.API(v.depth).ServeHTTP(w, r)
}

// answer is an http.ResponseWriter that collects a reply of the API.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	chunks *chunks // assembles a stream; nil if no stream was requested
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
		if err := a.chunks.write(p); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return a.body.Write(p)
}

// Flush implements http.Flusher. There is nothing to do: chunks handles everything as it is
// written.
func (a *answer) Flush() {}

// result converts the reply to the result of a tool.
func (a *answer) result() *mcp.CallToolResult {
	// A stream that has begun has status 200, even if it ended with an error.
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
		_ = json.Unmarshal(a.body.Bytes(), &reply) // empty if nothing was answered: the caller has left, or the reply broke off
		return failed(reply.Error, a.header)
	}
	return structured(a.body.Bytes())
}

// structured returns a result as structured content, and as text for clients that do not support
// that.
func structured(body []byte) *mcp.CallToolResult {
	return &mcp.CallToolResult{StructuredContent: json.RawMessage(body), Content: []mcp.Content{&mcp.TextContent{Text: string(body)}}}
}

// refused returns an error of our own as the result of a tool.
func refused(err error) *mcp.CallToolResult { return failed(objectOf(err), nil) }

// objectOf returns the error object of an error of our own.
func objectOf(err error) json.RawMessage {
	object, err := json.Marshal(fault.From(err).Object())
	if err != nil {
		panic(err) // cannot happen: strings and an int always encode
	}
	return object
}

// failed returns an error object as the result of a tool: its message as text for the model, and
// the whole object as metadata for programs. It is not structured content, which would have to
// match the output schema.
func failed(object json.RawMessage, header http.Header) *mcp.CallToolResult {
	var said fault.Object
	if json.Unmarshal(object, &said) != nil || said.Message == "" {
		return refused(fault.New(fault.Unavailable, "The reply broke off."))
	}
	result := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: said.Message}}, Meta: mcp.Meta{"error": object}}
	// Tool results have no headers, so the time goes into the metadata.
	if ms, err := strconv.Atoi(header.Get("Retry-After-Ms")); err == nil {
		result.Meta["retry_after_ms"] = ms
	}
	return result
}
