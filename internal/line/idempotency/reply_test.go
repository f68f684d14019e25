package idempotency

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// recorded is the reply that the pieces make.
func recorded(stream bool, pieces ...string) *Reply {
	var r recording
	for _, p := range pieces {
		r.add([]byte(p), stream)
	}
	return r.reply(nil)
}

func TestRecording(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 1000)
	for _, tt := range []struct {
		name   string
		stream bool
		pieces []string
		want   string
	}{
		{"a body", false, []string{`{"a":`, `1}`}, `{"a":1}`},
		{"a body like a stream", false, []string{": x\n\ndata: y\n\n"}, ": x\n\ndata: y\n\n"},
		{"one event", true, []string{"data: a\n\n"}, "data: a\n\n"},
		{"many in a piece", true, []string{"data: a\n\ndata: ab\n\ndata: b\n\n"}, "data: a\n\ndata: ab\n\ndata: b\n\n"},
		{"the same again", true, []string{"data: a\n\n", "data: a\n\n"}, "data: a\n\ndata: a\n\n"},
		{"overlapping ends", true, []string{"data: aa\n\n", "data: aaa\n\n", "data: a\n\n"}, "data: aa\n\ndata: aaa\n\ndata: a\n\n"},
		{"long", true, []string{"data: " + long + "\n\n", "data: " + long + "b" + long + "\n\n"}, "data: " + long + "\n\ndata: " + long + "b" + long + "\n\n"},
		{"no comments", true, []string{": keep-alive\n\n", "data: a\n\n: keep-alive\n\ndata: b\n\n"}, "data: a\n\ndata: b\n\n"},
		{"a receipt", true, []string{"data: a\n\n: keep-alive\n", ": sluice-receipt eyJ\n\n"}, "data: a\n\n: sluice-receipt eyJ\n\n"},
		{"comments of one line", true, []string{": keep-alive\n", "data: a\n\n: keep-alive\n: keep-alive\ndata: b\n\n"}, "data: a\n\ndata: b\n\n"},
		{"cut anywhere", true, []string{"da", "ta: a\n", "\ndata: b\n\n: c", "\n\nd", "ata: c\n\n"}, "data: a\n\ndata: b\n\ndata: c\n\n"},
		{"an empty event", true, []string{"\n\n", "data: a\n\n"}, "\n\ndata: a\n\n"},
	} {
		r := recorded(tt.stream, tt.pieces...)
		if got := text(r); got != tt.want {
			t.Errorf("%s: %q repeats as %q, want %q", tt.name, tt.pieces, got, tt.want)
		}
		if tt.stream && !r.whole() {
			t.Errorf("%s: whole() = false", tt.name)
		}
	}
}

func TestRecordingOfRandomEvents(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var want strings.Builder
		for range rng.IntN(50) {
			fmt.Fprintf(&want, "data: %s%s%s\n\n", strings.Repeat("h", rng.IntN(600)), strings.Repeat("m", rng.IntN(3)), strings.Repeat("t", rng.IntN(100)))
		}
		whole := want.String()
		var pieces []string
		for rest := whole; rest != ""; {
			n := 1 + rng.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := text(recorded(true, pieces...)); got != whole {
			t.Fatalf("%q repeats as %q", pieces, got)
		}
	}
}

// A stream comes in pieces of whole events, none very long, and takes far less room than it has bytes.
func TestPieces(t *testing.T) {
	t.Parallel()
	var events []string
	for i := range 2000 {
		events = append(events, fmt.Sprintf(`data: {"id":"chatcmpl-5f0c2b7de1a94c3c8b2f60d7e94a1c35","object":"chat.completion.chunk","created":1767225600,"model":"sandbox/small","choices":[{"index":0,"delta":{"content":" w%d"},"finish_reason":null}]}`+"\n\n", i))
	}
	whole := strings.Join(events, "")
	r := recorded(true, events...)
	if most := len(whole) / 10; r.Size() > most {
		t.Errorf("%d bytes of events take %d, want at most %d", len(whole), r.Size(), most)
	}
	var got strings.Builder
	for p := range r.Pieces {
		if !strings.HasSuffix(string(p), "}\n\n") || len(p) > 2*pieceSize {
			t.Errorf("a piece of %d bytes ends with %q, want whole events", len(p), p[len(p)-10:])
		}
		got.Write(p)
	}
	if got.String() != whole {
		t.Error("the stream repeats in another way")
	}
	for range r.Pieces {
		break // whoever stops is not handed more
	}
}

func TestLengthenRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"\x00", "\x00\x00", "\x00\x00\x05abc", "\x09\x00\x00", "\x00\x09\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if event, _, ok := lengthen([]byte("last"), []byte(b)); ok {
			t.Errorf("lengthen(%q) = %q, want a refusal", b, event)
		}
	}
}
