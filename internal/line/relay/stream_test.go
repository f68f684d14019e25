package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// played is a stream that says what it is told to.
type played struct {
	events []provider.Event
	ready  []bool // behind each event; nil: nothing ever waits
	err    error  // behind them all; nil: io.EOF
	next   int
	before func(i int) // called before event i is handed out
}

func (p *played) Next() (*provider.Event, error) {
	if p.before != nil {
		p.before(p.next)
	}
	if p.next == len(p.events) {
		if p.err != nil {
			return nil, p.err
		}
		return nil, io.EOF
	}
	p.next++
	return &p.events[p.next-1], nil
}

func (p *played) Ready() bool { return p.next <= len(p.ready) && p.ready[p.next-1] }
func (*played) Close() error  { return nil }

func text(s string) provider.Event { return provider.Event{Kind: provider.Text, Text: s} }

func chunk(s string) provider.Event {
	return provider.Event{Kind: provider.Chunk, Raw: []byte(`{"choices":[{"index":0,"delta":{"content":"` + s + `"},"finish_reason":null}]}`)}
}

var finished = provider.Event{Kind: provider.Finish, Finish: chat.FinishStop}

// TestTypedEvents are what adapters of other dialects say.
func TestTypedEvents(t *testing.T) {
	t.Parallel()
	call := func(i int, id, name, arguments string) provider.Event {
		return provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, ID: id, Name: name, Arguments: arguments}}
	}
	events := []provider.Event{
		{Kind: provider.Reasoning, Text: "Hm."},
		text(""), text("A\u2028\x01\"é"), call(0, "c1", "f", "{"), call(0, "ignored", "ignored", "}"), call(1, "", "g", ""),
		call(7, "gap", "x", "{}"), call(-1, "less", "x", "{}"),
		{Kind: provider.Text, Choice: 3, Text: "nobody asked"},
		finished, text("late"),
		{Kind: provider.Usage, Usage: chat.Usage{Prompt: 1, Cached: 2, Completion: 3, Reasoning: 4}},
	}
	opts := Options{N: 1, IncludeUsage: true}
	c, err := send(t.Context(), &played{events: events}, true, opts)
	for _, problem := range broken(c, err, opts) {
		t.Error(problem)
	}
	const head = `data: {"id":"chatcmpl-r","object":"chat.completion.chunk","created":1700000000,"model":"catalog/m","choices":[`
	want := head + `{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

` + head + `{"index":0,"delta":{"reasoning_content":"Hm."},"finish_reason":null}]}

` + head + `{"index":0,"delta":{"content":"A` + "\u2028" + `\u0001\"é"},"finish_reason":null}]}

` + head + `{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{"}}]},"finish_reason":null}]}

` + head + `{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"finish_reason":null}]}

` + head + `{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_r1","type":"function","function":{"name":"g","arguments":""}}]},"finish_reason":null}]}

` + head + `{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"finish_reason":null}]}

` + head + `{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

` + head + `],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":4}}}

data: [DONE]

`
	if diff := cmp.Diff(want, c.body.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	whole, err := send(t.Context(), &played{events: events}, false, Options{N: 1})
	if want := `{"id":"chatcmpl-r","object":"chat.completion","created":1700000000,"model":"catalog/m","choices":[{"index":0,"message":{"role":"assistant","content":"A` + "\u2028" + `\u0001\"é","refusal":null,"reasoning_content":"Hm.","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_r1","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":4}},"system_fingerprint":null}`; err != nil || whole.body.String() != want {
		t.Errorf("collected: %v\n got %s\nwant %s", err, whole.body.String(), want)
	}
	if got := whole.header.Get("Content-Length"); got == "" || whole.header.Get("Content-Type") != "application/json" {
		t.Errorf("collected: headers %v", whole.header)
	}
}

// What arrives together is written together; what has arrived is never held back.
func TestFlushing(t *testing.T) {
	t.Parallel()
	in := &played{
		events: []provider.Event{chunk("a"), chunk("b"), chunk("c"), chunk("d"), text("e"), {Kind: provider.Usage}, chunk("f"), finished},
		ready:  []bool{true, true, false, false, true, false, true, false},
	}
	c := &caller{header: http.Header{}}
	in.before = func(i int) {
		if i > 0 && !in.ready[i-1] && c.flushes != len(c.writes) {
			t.Errorf("event %d is awaited while %d writes were flushed %d times", i, len(c.writes), c.flushes)
		}
	}
	if err := c.take(t.Context(), in, true, Options{N: 1}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range c.writes {
		var texts []string
		for event := range strings.SplitSeq(strings.TrimSuffix(w, "\n\n"), "\n\n") {
			switch {
			case strings.Contains(event, `"role"`):
				texts = append(texts, "role")
			case strings.Contains(event, "[DONE]"):
				texts = append(texts, "done")
			case strings.Contains(event, `"stop"`):
				texts = append(texts, "stop")
			default:
				_, rest, _ := strings.Cut(event, `"content":"`)
				texts = append(texts, rest[:1])
			}
		}
		got = append(got, strings.Join(texts, " "))
	}
	want := []string{"role a b c", "d", "e", "f stop", "done"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes: -want +got\n%s", diff)
	}
	if c.flushes != len(c.writes) {
		t.Errorf("%d writes and %d flushes, want as many", len(c.writes), c.flushes)
	}
}

// A flood is written in pieces: memory does not grow with it.
func TestFloodIsBounded(t *testing.T) {
	t.Parallel()
	in := &played{}
	for range 2000 {
		in.events = append(in.events, chunk("0123456789"))
		in.ready = append(in.ready, true)
	}
	in.events, in.ready = append(in.events, finished), append(in.ready, true)
	c, err := send(t.Context(), in, true, Options{N: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range c.writes {
		if len(w) > writeAt+1<<10 {
			t.Errorf("write %d has %d bytes, want %d at most", i, len(w), writeAt)
		}
	}
	if most := c.body.Len()/writeAt + 2; len(c.writes) > most {
		t.Errorf("%d bytes in %d writes, want %d at most", c.body.Len(), len(c.writes), most)
	}
}

// Settle is called once, before the last bytes, on every path but the plain faults.
func TestSettle(t *testing.T) {
	t.Parallel()
	overloaded := provider.Failed([]byte(`{"message":"overloaded"}`))
	whole := []provider.Event{chunk("a"), finished}
	gone, leave := context.WithCancel(context.Background())
	leave()
	for name, tt := range map[string]struct {
		ctx      context.Context
		in       played
		collect  bool
		fail     int   // which write fails
		err      error // what Stream or Collect returns; nil: a plain fault
		ok       bool  // it returns nil
		settled  int
		complete bool
		outcome  error // Outcome.Err
		begun    bool
		last     string // what must not have been written when Settle was called
	}{
		"complete":                     {in: played{events: whole}, ok: true, settled: 1, complete: true, begun: true, last: "[DONE]"},
		"complete, then broken":        {in: played{events: whole, err: overloaded}, ok: true, settled: 1, complete: true, begun: true, last: "[DONE]"},
		"complete, caller gone":        {ctx: gone, in: played{events: whole, err: context.Canceled}, ok: true, settled: 1, complete: true, begun: true, last: "[DONE]"},
		"complete, last write fails":   {in: played{events: whole}, fail: 3, err: ErrGone, settled: 1, complete: true, begun: true, last: "[DONE]"},
		"cut":                          {in: played{events: whole[:1]}, err: ErrTold, settled: 1, outcome: &fault.Fault{}, begun: true, last: `"error"`},
		"failed":                       {in: played{events: whole[:1], err: overloaded}, err: ErrTold, settled: 1, outcome: overloaded, begun: true, last: `"error"`},
		"failed with events unwritten": {in: played{events: whole[:1], ready: []bool{true}, err: overloaded}, err: ErrTold, settled: 1, outcome: overloaded, begun: true, last: `"role"`},
		"failed, last write fails":     {in: played{events: whole[:1], err: overloaded}, fail: 2, err: ErrGone, settled: 1, outcome: overloaded, begun: true, last: `"error"`},
		"garbage":                      {in: played{events: []provider.Event{whole[0], {Kind: provider.Chunk, Raw: []byte("{")}}}, err: ErrTold, settled: 1, outcome: &fault.Fault{}, begun: true, last: `"error"`},
		"write fails":                  {in: played{events: whole}, fail: 1, err: ErrGone, settled: 1, outcome: ErrGone, begun: true},
		"caller gone":                  {ctx: gone, in: played{events: whole[:1], err: context.Canceled}, err: ErrGone, settled: 1, outcome: ErrGone, begun: true},
		"caller gone at once":          {ctx: gone, in: played{err: context.Canceled}, err: ErrGone, settled: 1, outcome: ErrGone},
		"failed at once":               {in: played{err: overloaded}},
		"ended at once":                {in: played{}},
		"garbage at once":              {in: played{events: []provider.Event{{Kind: provider.Chunk, Raw: []byte("{")}}}},
		"an error of our own":          {in: played{err: errors.New("bug")}},

		"collected":                     {collect: true, in: played{events: whole}, ok: true, settled: 1, complete: true, begun: true, last: "{"},
		"collected, write fails":        {collect: true, in: played{events: whole}, fail: 1, err: ErrGone, settled: 1, complete: true, begun: true, last: "{"},
		"collected, caller gone":        {collect: true, ctx: gone, in: played{events: whole[:1], err: context.Canceled}, err: ErrGone, settled: 1, outcome: ErrGone},
		"collected, cut":                {collect: true, in: played{events: whole[:1]}, settled: 1, outcome: &fault.Fault{}},
		"collected, failed":             {collect: true, in: played{events: whole[:1], err: overloaded}, settled: 1, outcome: overloaded},
		"collected, garbage":            {collect: true, in: played{events: []provider.Event{{Kind: provider.Whole, Raw: []byte("{")}}}},
		"collected, complete then gone": {collect: true, ctx: gone, in: played{events: whole, err: context.Canceled}, ok: true, settled: 1, complete: true, begun: true},
	} {
		ctx := tt.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		c := &caller{header: http.Header{}, fail: tt.fail}
		err := c.take(ctx, &tt.in, !tt.collect, Options{N: 1})
		switch {
		case tt.ok:
			if err != nil {
				t.Errorf("%s: %v, want no error", name, err)
			}
		case tt.err == nil:
			if err == nil || errors.Is(err, ErrGone) || errors.Is(err, ErrTold) || c.body.Len() > 0 || len(c.header) > 0 {
				t.Errorf("%s: %v with %d bytes, want a plain fault", name, err, c.body.Len())
			}
		case !errors.Is(err, tt.err):
			t.Errorf("%s: %v, want %v", name, err, tt.err)
		}
		if len(c.settled) != tt.settled {
			t.Errorf("%s: settled %d times, want %d", name, len(c.settled), tt.settled)
		}
		for _, s := range c.settled {
			o := s.outcome
			if o.Complete != tt.complete || o.Begun != tt.begun || (o.Err == nil) != (tt.outcome == nil) {
				t.Errorf("%s: settled with %+v, want complete %t, begun %t, error %v", name, o, tt.complete, tt.begun, tt.outcome)
			}
			if _, isFault := errors.AsType[*fault.Fault](tt.outcome); tt.outcome != nil && !isFault && !errors.Is(o.Err, tt.outcome) || isFault && !fault.Is(o.Err, fault.Unavailable) {
				t.Errorf("%s: settled with %v, want %v", name, o.Err, tt.outcome)
			}
			if tt.last != "" && strings.Contains(s.before, tt.last) {
				t.Errorf("%s: settled behind %q, want before %s", name, s.before, tt.last)
			}
		}
	}
}

// Somebody who hung up is not read for any more.
func TestGoneStopsReading(t *testing.T) {
	t.Parallel()
	in := &played{events: []provider.Event{chunk("a"), chunk("b"), chunk("c"), finished}}
	c := &caller{header: http.Header{}, fail: 2}
	if err := c.take(t.Context(), in, true, Options{N: 1}); !errors.Is(err, ErrGone) || !errors.Is(err, errBroken) {
		t.Errorf("Stream = %v, want ErrGone and why", err)
	}
	if in.next != 2 || len(c.writes) != 2 {
		t.Errorf("%d events were read and %d writes made, want 2 and 2", in.next, len(c.writes))
	}
	if text, _, _ := c.settled[0].outcome.Produced(); text != "ab" {
		t.Errorf("settled with %q, want what was produced", text)
	}
}

// What is kept for counting has a bound; the rest is only numbered.
func TestProducedIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	for _, stream := range []bool{true, false} {
		in := &played{events: []provider.Event{text(long), text(long), text(long), text("end"), {Kind: provider.Reasoning, Text: "r"}, finished}}
		c, err := send(t.Context(), in, stream, Options{N: 1})
		if err != nil {
			t.Fatal(err)
		}
		text, reasoning, more := c.settled[0].outcome.Produced()
		if len(text) > maxProduced || len(text)+more != 3*len(long)+3 || reasoning != "r" {
			t.Errorf("stream %t: %d bytes kept and %d numbered, want %d in all", stream, len(text), more, 3*len(long)+3)
		}
	}
}
