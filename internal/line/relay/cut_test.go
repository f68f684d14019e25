package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
)

// recording is an upstream's stream, and where in it things are settled.
type recording struct {
	name     string
	bytes    []byte
	n        int
	complete int // offset behind the event with the last finish reason
	figures  int // offset behind the event with the usage
	usage    chat.Usage
	whole    string // what a caller gets of it
	checked  string // what was checked last: most cuts come to the same
}

// recordings are four streams of testdata/recorded: text, calls, reasoning, and two choices.
func recordings(t *testing.T) (all []recording) {
	t.Helper()
	for _, name := range []string{"text", "tools", "reasoning", "two"} {
		b, err := os.ReadFile("testdata/recorded/" + name + ".sse")
		if err != nil {
			t.Fatal(err)
		}
		r := recording{name: name, bytes: b, n: 1}
		if name == "two" {
			r.n = 2
		}
		for at := 0; at < len(b); {
			n := bytes.Index(b[at:], []byte("\n\n")) + 2
			event := string(b[at : at+n])
			at += n
			if strings.Contains(event, `"finish_reason":"`) {
				r.complete = at
			}
			if strings.Contains(event, `"usage":{`) {
				r.figures = at
			}
		}
		c, err := relayed(t, "text/event-stream", bytes.NewReader(b), true, Options{N: r.n, IncludeUsage: true})
		if err != nil || r.complete == 0 || r.figures < r.complete || !c.settled[0].outcome.HasUsage {
			t.Fatalf("%s: %v, complete at %d, figures at %d", name, err, r.complete, r.figures)
		}
		r.usage, r.whole = c.settled[0].outcome.Usage, c.body.String()
		all = append(all, r)
	}
	return all
}

// check holds what a caller got of the first cut bytes against what must be made of them.
func (r *recording) check(t *testing.T, cut int, c *caller, err error) {
	t.Helper()
	this := fmt.Sprint(cut < r.complete, cut < r.figures, err, len(c.settled), c.body.String())
	if this == r.checked {
		return
	}
	r.checked = this
	for _, problem := range broken(c, err, Options{N: r.n, IncludeUsage: true}) {
		t.Errorf("%s cut at %d of %d: %s", r.name, cut, len(r.bytes), problem)
	}
	body := c.body.String()
	if cut < r.complete {
		if err == nil || strings.Contains(body, "[DONE]") {
			t.Errorf("%s cut at %d, before %d: %v, as if it were complete", r.name, cut, r.complete, err)
		}
		sent, _, _ := strings.Cut(body, `data: {"error"`)
		if !strings.HasPrefix(r.whole, sent) {
			t.Errorf("%s cut at %d: the caller got %q, which is no beginning of the whole", r.name, cut, body)
		}
		if r.n == 1 && strings.Contains(body, `"finish_reason":"`) {
			t.Errorf("%s cut at %d: the caller got a finish reason", r.name, cut)
		}
		return
	}
	want := counted
	if cut >= r.figures {
		want = r.usage
	}
	if err != nil || c.settled[0].outcome.Usage != want || !c.settled[0].outcome.Complete {
		t.Errorf("%s cut at %d, behind %d: %v, settled with %+v, want a complete reply with usage %+v", r.name, cut, r.complete, err, c.settled, want)
	}
	if total := `"total_tokens":` + strconv.Itoa(want.Total()); !strings.Contains(body, total) {
		t.Errorf("%s cut at %d: the caller got %q, want %s in it", r.name, cut, body, total)
	}
}

// TestCutAtEveryByte cuts upstreams' streams at every byte, in every way that a connection can end.
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	for _, r := range recordings(t) {
		for cut := range len(r.bytes) + 1 {
			for _, end := range []error{io.EOF, []error{io.ErrUnexpectedEOF, syscall.ECONNRESET}[cut%2]} {
				body := io.MultiReader(bytes.NewReader(r.bytes[:cut]), &ending{end})
				c, err := relayed(t, "text/event-stream", body, true, Options{N: r.n, IncludeUsage: true})
				r.check(t, cut, c, err)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// ending is a body that is at its end.
type ending struct{ err error }

func (e *ending) Read([]byte) (int, error) { return 0, e.err }

// TestCutConnections does the same to real connections, at some of the bytes: closed inside of a
// chunk, ended as if the reply were complete, and reset.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	const how = 3
	var cut, way int
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, way := body[:cut], way // the test goes on before this returns
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		control := http.NewResponseController(w)
		_ = control.Flush()
		_, _ = w.Write(body)
		_ = control.Flush()
		switch way {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
		case 2:
			conn, _, err := control.Hijack()
			if err != nil {
				panic(err)
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}))
	defer server.Close()
	a, err := openai.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	req, err := chat.Parse([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recordings(t) {
		body = r.bytes
		for cut = 0; cut <= len(body); cut += 31 {
			for way = range how {
				in, err := a.Open(t.Context(), &provider.Call{Request: req, Upstream: "m"})
				if err != nil {
					continue // reset before the head could be read: a plain fault
				}
				c, err := send(t.Context(), in, true, Options{N: r.n, IncludeUsage: true})
				in.Close()
				if way == 2 && err != nil {
					// A reset may overtake what was sent before it, so that less arrives.
					if !errors.Is(err, ErrTold) && !isPlain(err) {
						t.Errorf("%s reset at %d: %v", r.name, cut, err)
					}
					continue
				}
				r.check(t, cut, c, err)
			}
		}
	}
}
