package oracles

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// The replies of an upstream, whole and as the events of a stream, by path.
var (
	wholes = map[string]string{
		"/v1/chat/completions": `{"id":"up","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}`,
		"/v1/responses":        `{"id":"resp_up","object":"response","created_at":1700000000,"status":"completed","model":"m","output":[{"id":"msg_up","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi.","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":3,"total_tokens":8}}`,
		"/v1/messages":         `{"id":"msg_up","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":3}}`,
		"/v1/embeddings":       `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5,0.25]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`,
	}
	// An event of the test's own stands where null does.
	streams = map[string][]string{
		"/v1/chat/completions": {
			`{"id":"up","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
			`null`,
			`{"id":"up","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":null}]}`,
			`{"id":"up","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"id":"up","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}`,
		},
		"/v1/responses": {
			`{"type":"response.created","response":{"id":"resp_up","object":"response","created_at":1700000000,"status":"in_progress","model":"m","output":[]}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_up","type":"message","status":"in_progress","role":"assistant","content":[]}}`,
			`{"type":"response.content_part.added","item_id":"msg_up","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
			`null`,
			`{"type":"response.output_text.delta","item_id":"msg_up","output_index":0,"content_index":0,"delta":"Hi."}`,
			`{"type":"response.output_text.done","item_id":"msg_up","output_index":0,"content_index":0,"text":"Hi."}`,
			`{"type":"response.content_part.done","item_id":"msg_up","output_index":0,"content_index":0,"part":{"type":"output_text","text":"Hi.","annotations":[]}}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_up","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi.","annotations":[]}]}}`,
			`{"type":"response.completed","response":{"id":"resp_up","object":"response","created_at":1700000000,"status":"completed","model":"m","output":[{"id":"msg_up","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi.","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":3,"total_tokens":8}}}`,
		},
		"/v1/messages": {
			`{"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`null`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi."}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}`,
			`{"type":"message_stop"}`,
		},
	}
)

// contractUp is an upstream of every dialect that keeps the last request. It answers with a plain reply, or what it is told.
type contractUp struct {
	url string

	mu     sync.Mutex
	heard  any // the body of the last request; nil: none came
	answer any // what it answers with, the event that it adds to a stream, or a status of failure; nil: as usual
}

func startContractUp(t *testing.T) *contractUp {
	t.Helper()
	up := &contractUp{}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	up.url = server.URL
	return up
}

// expect forgets the last request and sets the next answer.
func (u *contractUp) expect(answer any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.heard, u.answer = nil, answer
}

// asked returns the last request.
func (u *contractUp) asked() any {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.heard
}

func (u *contractUp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var body any
	_ = json.Unmarshal(raw, &body) // what is no JSON is none that we know
	u.mu.Lock()
	u.heard = body
	answer := u.answer
	u.mu.Unlock()
	object, _ := body.(map[string]any)
	if status, ok := answer.(int); ok {
		fail(w, status, "no")
		return
	}
	if object["stream"] == true && streams[r.URL.Path] != nil {
		u.stream(w, r.URL.Path, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if answer != nil {
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	_, _ = io.WriteString(w, wholes[r.URL.Path])
}

// stream answers with events. The one that it is told to add has its number, and the type as its name.
func (u *contractUp) stream(w http.ResponseWriter, path string, added any) {
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	for _, text := range streams[path] {
		var event map[string]any
		if text == "null" {
			event, _ = added.(map[string]any)
		} else if err := json.Unmarshal([]byte(text), &event); err != nil {
			panic(err) // a literal of this file
		}
		if event == nil {
			continue
		}
		if kind, ok := event["type"].(string); ok {
			fmt.Fprintf(w, "event: %s\n", kind)
			if strings.Contains(path, "responses") {
				event["sequence_number"] = n
			}
		}
		raw, err := json.Marshal(event)
		if err != nil {
			panic(err) // it was JSON before
		}
		fmt.Fprintf(w, "data: %s\n\n", raw)
		n++
	}
	if strings.Contains(path, "chat") {
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
}
