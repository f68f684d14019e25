package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// lines is a dialect with one line for everything that is said in it.
type lines struct{ all strings.Builder }

func (l *lines) say(b []byte, format string, args ...any) []byte {
	line := fmt.Sprintf(format, args...) + "\n"
	l.all.WriteString(line)
	return append(b, line...)
}

func (l *lines) Start(b []byte, h Head) []byte { return l.say(b, "start %s %s", h.RequestID, h.Model) }

func (l *lines) End(b []byte, o *Outcome) []byte {
	return l.say(b, "end %d %d", o.Usage.Prompt, o.Usage.Completion)
}

func (l *lines) Body(b []byte, o *Outcome) []byte {
	return fmt.Appendf(b, "%sbody %d %d\n", l.all.String(), o.Usage.Prompt, o.Usage.Completion)
}
func (l *lines) Fault(b []byte, f *fault.Fault) []byte { return l.say(b, "fault %s", f.Kind) }
func (l *lines) KeepAlive(b []byte) []byte             { return append(b, "ping\n"...) }

func (l *lines) Event(b []byte, ev *provider.Event) []byte {
	switch ev.Kind {
	case provider.ToolCall:
		return l.say(b, "call %d %q %q %q", ev.Tool.Index, ev.Tool.ID, ev.Tool.Name, ev.Tool.Arguments)
	case provider.Finish:
		return l.say(b, "finish %s", ev.Finish)
	case provider.Other:
		return l.say(b, "other %s", ev.Native)
	}
	return l.say(b, "%d \"%s\"", ev.Kind, ev.Raw)
}

func piece(i int, id, name, arguments string) provider.Event {
	return provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: i, ID: id, Name: name, Arguments: arguments}}
}

// A dialect sees events that keep the rules, whatever the upstream sends, and the reply is the same in one
// piece.
func TestDialect(t *testing.T) {
	t.Parallel()
	events := []provider.Event{
		{Kind: provider.Other, Native: []byte("hello")},
		text(""), chunk("Hi"),
		{Kind: provider.Reasoning, Text: "Hm."},
		{Kind: provider.Declined, Text: "No."},
		piece(1, "gap", "skipped", "{}"), piece(0, "a", "f", ""), piece(0, "again", "again", ""), piece(1, "", "g", `{"x":`), piece(1, "", "", "1}"),
		{Kind: provider.Usage, Usage: chat.Usage{Prompt: 3, Completion: 4}},
		finished, text("late"), finished,
	}
	const want = `start r catalog/m
other hello
1 "Hi"
2 "Hm."
8 "No."
call 0 "a" "f" ""
call 0 "" "" ""
call 1 "call_r1" "g" "{\"x\":"
call 1 "" "" "1}"
call 0 "" "" "{}"
finish tool_calls
`
	for _, stream := range []bool{true, false} {
		c, err := send(t.Context(), &played{events: events}, stream, Options{Dialect: &lines{}})
		tail := "end 3 4\n"
		if !stream {
			tail = "body 3 4\n"
		}
		if got := c.body.String(); err != nil || got != want+tail {
			t.Errorf("stream %t: %v\n%s\nwant\n%s", stream, err, got, want+tail)
		}
		if len(c.settled) != 1 || !c.settled[0].outcome.Complete {
			t.Errorf("stream %t: settled as %+v", stream, c.settled)
		}
		if produced, reasoning, _ := c.settled[0].outcome.Produced(); produced != `HiNo.fg{"x":1}` || reasoning != "Hm." {
			t.Errorf("produced %q and %q", produced, reasoning)
		}
	}
}

// Chunks tell a dialect the same as the texts in them, be they like the one before or not, and however they are spelled.
func TestDialectChunks(t *testing.T) {
	t.Parallel()
	said := []struct {
		key, raw, text string
	}{
		{"content", "Hi", "Hi"},
		{"content", " there", " there"},
		{"content", ` \u00e9\/\ud83d\ude00\"\n`, " é/😀\"\n"},
		{"content", "", ""},
		{"content", " – done", " – done"},
		{"reasoning_content", "Hm", "Hm"},
		{"reasoning_content", `\u000a.`, "\n."},
		{"content", "x", "x"},
		{"refusal", `No\u002e`, "No."},
	}
	for _, stream := range []bool{true, false} {
		var chunks, texts []provider.Event
		for i, p := range said {
			raw := fmt.Sprintf(`{"choices":[{"index":0,"delta":{%q:"%s"},"finish_reason":null}],"obfuscation":"%d"}`, p.key, p.raw, i/4)
			chunks = append(chunks, provider.Event{Kind: provider.Chunk, Raw: []byte(raw)})
			texts = append(texts, provider.Event{Kind: map[string]provider.Kind{"content": provider.Text, "reasoning_content": provider.Reasoning, "refusal": provider.Declined}[p.key], Text: p.text})
		}
		end := provider.Event{Kind: provider.Chunk, Raw: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)}
		c, err := send(t.Context(), &played{events: append(chunks, end, chunks[0])}, stream, Options{Dialect: &lines{}})
		same, sameErr := send(t.Context(), &played{events: append(texts, finished)}, stream, Options{Dialect: &lines{}})
		if got, want := c.body.String(), same.body.String(); err != nil || sameErr != nil || got != want {
			t.Errorf("stream %t: chunks are told as\n%s(%v), their texts as\n%s(%v)", stream, got, err, want, sameErr)
		}
		text, reasoning, _ := c.settled[0].outcome.Produced()
		if want, wantReasoning, _ := same.settled[0].outcome.Produced(); text != want || reasoning != wantReasoning {
			t.Errorf("stream %t: produced %q and %q, want %q and %q", stream, text, reasoning, want, wantReasoning)
		}
	}
}

// A failure before the first event is an ordinary error, a later one an event of the dialect.
func TestDialectFails(t *testing.T) {
	t.Parallel()
	broken := fault.New(fault.Unavailable, "It broke.")
	c, err := send(t.Context(), &played{err: broken}, true, Options{Dialect: &lines{}})
	if !isPlain(err) || c.body.Len() > 0 {
		t.Errorf("before the first event: %v, %q", err, c.body.String())
	}
	c, err = send(t.Context(), &played{events: []provider.Event{text("Hi")}, err: broken}, true, Options{Dialect: &lines{}})
	if want := "start r catalog/m\n1 \"Hi\"\nfault " + broken.Kind.String() + "\n"; !errors.Is(err, ErrTold) || c.body.String() != want {
		t.Errorf("after it: %v, %q, want %q", err, c.body.String(), want)
	}
	c, err = send(t.Context(), &played{events: []provider.Event{text("Hi")}}, false, Options{Dialect: &lines{}})
	if !isPlain(err) || c.body.Len() > 0 {
		t.Errorf("cut, in one piece: %v, %q", err, c.body.String())
	}
}

// The text of a reply is bounded, because dialects keep it.
func TestDialectBound(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 1<<20)
	var events []provider.Event
	for range provider.MaxText>>20 + 1 {
		events = append(events, text(big))
	}
	for _, stream := range []bool{true, false} {
		_, err := send(t.Context(), &played{events: append(events, finished)}, stream, Options{Dialect: &quiet{}})
		if err == nil {
			t.Errorf("stream %t: a reply of %d MiB passes", stream, len(events))
		}
	}
}

// quiet says nothing of texts.
type quiet struct{ lines }

func (*quiet) Event(b []byte, _ *provider.Event) []byte { return b }
