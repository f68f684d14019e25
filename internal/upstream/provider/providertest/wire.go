package providertest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Transport answers requests without a network. It implements http.RoundTripper.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Answer returns a response with status 200 and the given body, of unknown length as streams are.
func Answer(contentType string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(body), ContentLength: -1}
}

// Encode returns the JSON of a value that a test made up. It panics if there is none.
func Encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Everything returns a reply with thinking, text in two pieces, and a tool call with the id, in two pieces. Tests of
// one adapter use it where every kind of event must appear.
func Everything(id string) []provider.Event {
	return []provider.Event{
		{Kind: provider.Reasoning, Text: "Hm."},
		{Kind: provider.Text, Text: "Let me"},
		{Kind: provider.Text, Text: " see."},
		{Kind: provider.ToolCall, Tool: provider.ToolPiece{ID: id, Name: "f", Arguments: `{"a":`}},
		{Kind: provider.ToolCall, Tool: provider.ToolPiece{Arguments: "1}"}},
		{Kind: provider.Finish, Finish: chat.FinishToolCalls},
		{Kind: provider.Usage, Usage: chat.Usage{Prompt: 9, Completion: 5}},
	}
}

// BenchmarkStream reads streams of a thousand pieces of text to their end, and reports what a piece costs.
// write writes events as a body, open returns the stream of a reply with that body.
func BenchmarkStream(b *testing.B, write func([]provider.Event) []string, open func(body string) provider.Stream) {
	b.Helper()
	const pieces = 1000
	events := make([]provider.Event, 0, pieces+2)
	for range pieces {
		events = append(events, provider.Event{Kind: provider.Text, Text: " sluice gates"})
	}
	events = append(events, provider.Event{Kind: provider.Finish, Finish: chat.FinishStop}, provider.Event{Kind: provider.Usage, Usage: chat.Usage{Prompt: 9, Completion: pieces}})
	body := strings.Join(write(events), "")
	b.ReportAllocs()
	for b.Loop() {
		in := open(body)
		for {
			if _, err := in.Next(); err != nil {
				break
			}
		}
		in.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pieces, "ns/chunk")
}
