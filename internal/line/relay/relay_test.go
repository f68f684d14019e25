package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testHead = Head{RequestID: "r", Created: 1700000000, Model: "catalog/m"}

// counted is what the tests settle with where the upstream gave no figures.
var counted = chat.Usage{Prompt: 901, Completion: 902}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// upstream opens the stream of an upstream that answers with the bytes of body.
func upstream(t testing.TB, contentType string, stream bool, body io.Reader) (provider.Stream, *openai.Adapter) {
	a, err := openai.New("http://upstream.test", &openai.Options{Transport: transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(body), ContentLength: -1}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	req, err := chat.Parse(fmt.Appendf(nil, `{"model":"m","stream":%t,"messages":[{"role":"user","content":"Hi"}]}`, stream))
	if err != nil {
		t.Fatal(err)
	}
	in, err := a.Open(t.Context(), &provider.Call{Request: req, Upstream: "m"})
	if err != nil {
		t.Fatal(err)
	}
	return in, a
}

// caller is a ResponseWriter that writes down what happens to it.
type caller struct {
	header  http.Header
	body    strings.Builder
	writes  []string // what each write held
	flushes int
	settled []settlement
	fail    int // which write fails, from 1; 0: none
}

// settlement is what a reply was settled with.
type settlement struct {
	outcome Outcome
	before  string // what had been written by then
}

var errBroken = errors.New("broken pipe")

func (c *caller) Header() http.Header { return c.header }
func (c *caller) WriteHeader(int)     {}
func (c *caller) Flush()              { c.flushes++ }
func (c *caller) Write(b []byte) (int, error) {
	c.writes = append(c.writes, string(b))
	if len(c.writes) == c.fail {
		return 0, errBroken
	}
	return c.body.Write(b)
}

func (c *caller) settle(o *Outcome) {
	if !o.HasUsage {
		o.Usage = counted
	}
	kept := *o
	// What was produced may be in the upstream's buffer, which others use when its stream is closed.
	kept.text.raw, kept.reasoning.raw = bytes.Clone(o.text.raw), bytes.Clone(o.reasoning.raw)
	c.settled = append(c.settled, settlement{kept, c.body.String()})
}

// send relays the stream to a new caller.
func send(ctx context.Context, in provider.Stream, stream bool, opts Options) (*caller, error) {
	c := &caller{header: http.Header{}}
	return c, c.take(ctx, in, stream, opts)
}

func (c *caller) take(ctx context.Context, in provider.Stream, stream bool, opts Options) error {
	opts.Stream = stream
	return relayTo(ctx, c, in, testHead, opts, c.settle)
}

// relayTo relays the stream as a call does: it settles between Relay and Finish, unless the reply failed
// before anything came of it.
func relayTo(ctx context.Context, w http.ResponseWriter, in provider.Stream, h Head, opts Options, settle func(*Outcome)) error {
	out := New(w, h, opts)
	defer out.Close()
	if o := out.Relay(ctx, in); !o.Empty() {
		settle(o)
	}
	return out.Finish()
}

// relayed is send of an upstream's bytes.
func relayed(t testing.TB, contentType string, body io.Reader, stream bool, opts Options) (*caller, error) {
	in, a := upstream(t, contentType, stream, body)
	c, err := send(t.Context(), in, stream, opts)
	in.Close()
	a.Close()
	return c, err
}

// isPlain reports whether err is a fault that is yet to be answered.
func isPlain(err error) bool {
	_, ok := errors.AsType[*fault.Fault](err)
	return ok && !errors.Is(err, ErrTold) && !errors.Is(err, ErrGone)
}

// A reply that is spoken has no text, and is passed on all the same.
func TestSpokenReply(t *testing.T) {
	t.Parallel()
	const choice = `{"index":0,"message":{"role":"assistant","content":null,"audio":{"id":"a","data":"AAAA","transcript":"Hi."}`
	c, err := send(t.Context(), &played{events: []provider.Event{{Kind: provider.Whole, Raw: []byte(`{"choices":[` + choice + `},"finish_reason":"stop"}]}`)}}}, false, Options{N: 1})
	if want := choice + `,"refusal":null},"finish_reason":"stop","logprobs":null}`; err != nil || !strings.Contains(c.body.String(), want) {
		t.Errorf("the reply = %s, %v, want %s", c.body.String(), err, want)
	}
}
