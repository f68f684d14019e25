// Package upstream is an OpenAI-compatible upstream with one fixed reply that costs almost
// nothing.
//
// It speaks HTTP/1.1 by hand, so that the gateway in front of it dominates the measurement on
// a shared machine. The prompt says how long a stream is and how fast it comes; see Directive.
// It checks nothing: neither keys nor models nor requests.
package upstream

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Directive returns a part of a prompt that asks for a stream with this many chunks, and a
// pause before each one except the first. Without it a stream has Chunks chunks and no pauses.
func Directive(chunks int, pause time.Duration) string {
	return fmt.Sprintf("%s%d,%d]]", mark, chunks, pause.Microseconds())
}

const (
	mark = "[[upstream:"
	call = "call"
)

// Call is a part of a prompt that asks for a call of the first function, and for an answer once it has a result. It goes before a
// Directive. Streams have no calls.
const Call = mark + call + "]]"

// Chunks is the default number of chunks with text in a stream.
const Chunks = 100

// Serve serves the listener until it is closed. It then closes all connections and waits for
// them.
func Serve(l net.Listener) error {
	s := &server{conns: map[net.Conn]struct{}{}}
	// In this order: close the connections, then wait for their goroutines.
	defer s.serving.Wait()
	defer s.close()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		s.add(c)
		s.serving.Go(func() {
			defer s.remove(c)
			serve(c)
		})
	}
}

// server holds the open connections.
type server struct {
	serving sync.WaitGroup

	// mu guards conns.
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (s *server) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
}

func (s *server) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	c.Close()
}

func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// serve replies to the requests of one connection, one after the other.
func serve(c net.Conn) {
	r := newReader(c)
	var out []byte
	for {
		req, err := r.next()
		if err != nil {
			return
		}
		out = out[:0]
		switch {
		case req.stream:
			out, err = stream(c, out, req)
		case req.tool != "":
			out = append(out, called(req.tool)...)
		default:
			out = append(out, wholeReply...)
		}
		if err == nil {
			_, err = c.Write(out)
		}
		if err != nil || req.last {
			return
		}
	}
}

// stream writes each chunk with text separately, the first one together with what precedes it.
// It returns the end of the stream, which the caller writes.
func stream(c net.Conn, out []byte, req request) ([]byte, error) {
	text := textChunk
	if req.usage {
		text = textChunkNull
	}
	out = append(out, streamHead...)
	out = append(out, roleChunk...)
	next := time.Now()
	for i := range req.chunks {
		if i > 0 && req.pause > 0 {
			next = next.Add(req.pause) // a late chunk does not delay the next ones
			time.Sleep(time.Until(next))
		}
		out = append(out, text...)
		if _, err := c.Write(out); err != nil {
			return out, err
		}
		out = out[:0]
	}
	out = append(out, stopChunk...)
	if req.usage {
		out = append(out, usageChunk...)
	}
	return append(out, streamEnd...), nil
}

const (
	sentence = "A reply of ordinary length, as models give it to ordinary questions, is about this long once it has been said a few times. "

	head      = `{"id":"chatcmpl-upstream00000000000000001","object":"chat.completion`
	middle    = `","created":1760000000,"model":"gpt-4o-mini","system_fingerprint":"fp_upstream","choices":`
	unstopped = `},"logprobs":null,"finish_reason":null}]`
)

// The pieces of replies, ready for the wire.
var (
	// The parts of replies, ready to send. They are built once, so that serving needs no
	// formatting.
	wholeReply = whole(head + middle + `[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat(sentence, 5) +
		`","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":57,"completion_tokens":125,"total_tokens":182,` +
		`"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`)

	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
	streamEnd  = framed("data: [DONE]\n\n") + "0\r\n\r\n"

	roleChunk = chunk(`[{"index":0,"delta":{"role":"assistant","content":"","refusal":null` + unstopped)
	textChunk = chunk(`[{"index":0,"delta":{"content":" token"` + unstopped)
	// If usage was requested, OpenAI sends the field on every chunk: null on all but the last.
	textChunkNull = chunk(`[{"index":0,"delta":{"content":" token"` + unstopped + `,"usage":null`)
	stopChunk     = chunk(`[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]`)
	usageChunk    = chunk(`[],"usage":{"prompt_tokens":57,"completion_tokens":100,"total_tokens":157}`)
)

// called is a reply that calls a function.
func called(name string) string {
	return whole(head + middle + `[{"index":0,"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_upstream1","type":"function","function":{"name":"` +
		name + `","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":57,"completion_tokens":12,"total_tokens":69}}`)
}

func whole(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func chunk(rest string) string { return framed("data: " + head + ".chunk" + middle + rest + "}\n\n") }

// framed returns data as one chunk of a chunked body.
func framed(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }
