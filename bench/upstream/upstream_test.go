package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/bench/upstream"
)

// start serves until the test ends.
func start(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- upstream.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v, want nil once the listener is closed", err)
		}
	})
	return l.Addr().String()
}

// unknown hides the length of a body, so that it is sent in chunks.
type unknown struct{ io.Reader }

func ask(t *testing.T, client *http.Client, addr string, body io.Reader) (text, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("POST = %v", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("POST = %d %s, %v, want 200", resp.StatusCode, raw, err)
	}
	return string(raw), resp.Header.Get("Content-Type")
}

// Everything on one connection, as a gateway asks it.
func TestServe(t *testing.T) {
	t.Parallel()
	addr := start(t)
	transport := &http.Transport{MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	text, kind := ask(t, client, addr, strings.NewReader(`{"model":"m"}`))
	var reply struct {
		Object  string
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil || kind != "application/json" || reply.Object != "chat.completion" || len(reply.Choices) != 1 || reply.Choices[0].Message.Content == "" {
		t.Errorf("a plain reply = %s %s, %v, want a completion", kind, text, err)
	}

	asked := fmt.Sprintf(`{"messages":[{"role":"user","content":"%s %s"}`, upstream.Call, upstream.Directive(0, 0))
	const tools = `,"tools":[{"type":"function","function":{"name":"look_up","parameters":{}}}]}`
	if text, _ := ask(t, client, addr, strings.NewReader(asked+`]`+tools)); !json.Valid([]byte(text)) || !strings.Contains(text, `"name":"look_up"`) {
		t.Errorf("the reply to a prompt that asks for a call = %s, want one of look_up", text)
	}
	if text, _ := ask(t, client, addr, strings.NewReader(asked+`,{"role":"tool","content":"It is."}]`+tools)); strings.Contains(text, "tool_calls") {
		t.Errorf("the reply to the result of a call = %s, want an answer", text)
	}

	for _, tt := range []struct {
		name, body            string
		chunked               bool
		texts, nulls, figures int
	}{
		{"as it comes", `{"stream":true}`, false, upstream.Chunks, 0, 0},
		{"with usage", fmt.Sprintf(`{"stream":true,"stream_options":{"include_usage":true},"x":%q}`, upstream.Directive(7, 0)), false, 7, 7, 1},
		{"paced, asked in chunks", fmt.Sprintf(`{"stream":true,"x":%q}`, upstream.Directive(3, 2*time.Millisecond)), true, 3, 0, 0},
	} {
		var body io.Reader = strings.NewReader(tt.body)
		if tt.chunked {
			body = unknown{body}
		}
		began := time.Now()
		text, kind := ask(t, client, addr, body)
		if kind != "text/event-stream" || !strings.HasSuffix(text, "data: [DONE]\n\n") {
			t.Errorf("%s: the stream = %s %s, want events up to the mark", tt.name, kind, text)
		}
		if tt.chunked && time.Since(began) < 4*time.Millisecond {
			t.Errorf("%s: three chunks took %v, want two pauses of 2ms between them", tt.name, time.Since(began))
		}
		for piece, want := range map[string]int{`"content":" token"`: tt.texts, `"usage":null`: tt.nulls, `"usage":{`: tt.figures, `"role":"assistant"`: 1, `"finish_reason":"stop"`: 1} {
			if got := strings.Count(text, piece); got != want {
				t.Errorf("%s: %d times %s, want %d in %s", tt.name, got, piece, want, text)
			}
		}
		for event := range strings.SplitSeq(strings.TrimSuffix(text, "data: [DONE]\n\n"), "\n\n") {
			if event != "" && !json.Valid([]byte(strings.TrimPrefix(event, "data: "))) {
				t.Errorf("%s: the event %q is not JSON", tt.name, event)
			}
		}
	}
}

// What is no request ends the connection and nothing else.
func TestServeGarbage(t *testing.T) {
	t.Parallel()
	addr := start(t)
	for _, text := range []string{
		"\n",
		"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nshort",
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) || len(got) > 0 {
			t.Errorf("the answer to %q = %q, %v, want none", text, got, err)
		}
		c.Close()
	}
}
