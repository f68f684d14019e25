package usage

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"

	"github.com/google/go-cmp/cmp"
)

func TestWay(t *testing.T) {
	t.Parallel()
	try := Attempt{Model: "lab/large", Provider: "lab", Upstream: "large-2", Outcome: "refused", Status: 429, Start: 1200 * time.Microsecond, End: 80 * time.Millisecond}
	long := Attempt{Model: strings.Repeat("é", 100), Provider: strings.Repeat("p", 200), Upstream: strings.Repeat("u", 200), Outcome: strings.Repeat("o", 50), Key: strings.Repeat("k", 20), Start: time.Hour, End: 2 * time.Hour}
	cut := Attempt{Model: strings.Repeat("é", 40), Provider: strings.Repeat("p", 80), Upstream: strings.Repeat("u", 80), Outcome: strings.Repeat("o", 16), Key: strings.Repeat("k", 8), Start: time.Hour, End: 2 * time.Hour}
	answered := try
	answered.Outcome, answered.Status = Answered, 0
	keyed := answered
	keyed.Key = "…9f3c"
	for _, tt := range []struct {
		name     string
		in, want *Trace
	}{
		{"none", nil, nil},
		{"empty", &Trace{}, &Trace{}},
		{"usual", &Trace{RequestID: "abc", Address: "192.0.2.1", Attempts: []Attempt{answered}}, &Trace{RequestID: "abc", Address: "192.0.2.1", Attempts: []Attempt{answered}}},
		{"a session", &Trace{Session: "0197-a", Attempts: []Attempt{answered}}, &Trace{Session: "0197-a", Attempts: []Attempt{answered}}},
		{"kept by a key", &Trace{Affinity: "kept", Attempts: []Attempt{keyed}}, &Trace{Affinity: "kept", Attempts: []Attempt{keyed}}},
		{"moved", &Trace{Session: "s", Affinity: "moved (quota)", Attempts: []Attempt{try, keyed, try, keyed}}, &Trace{Session: "s", Affinity: "moved (quota)", Attempts: []Attempt{try, keyed, try, keyed}}},
		{"several", &Trace{Reason: "cheapest of 3", Attempts: []Attempt{try, try, answered}}, &Trace{Reason: "cheapest of 3", Attempts: []Attempt{try, try, answered}}},
		{
			"too long", &Trace{RequestID: strings.Repeat("r", 200), Address: strings.Repeat("a", 100), Reason: strings.Repeat("w", 400), Session: strings.Repeat("s", 80), Affinity: strings.Repeat("a", 90), Attempts: []Attempt{long, long, long, answered}, Left: 3},
			&Trace{RequestID: strings.Repeat("r", 128), Address: strings.Repeat("a", 64), Reason: strings.Repeat("w", 200), Session: strings.Repeat("s", 64), Affinity: strings.Repeat("a", 48), Attempts: []Attempt{cut, answered}, Left: 5},
		},
	} {
		raw := AppendTrace(nil, tt.in)
		if len(raw) > MaxTrace {
			t.Errorf("%s: AppendWay gives %d bytes, more than %d", tt.name, len(raw), MaxTrace)
		}
		got, err := ParseTrace(raw)
		if err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%s: ParseWay = %v, -want +got\n%s", tt.name, err, cmp.Diff(tt.want, got))
		}
		// A part of a way is an error, never a panic and never another way.
		way := len(appendWay(nil, tt.in)) // the version before writes no more
		for n := 1; n < len(raw); n++ {
			if got, err := ParseTrace(raw[:n]); err == nil && n != way {
				t.Errorf("%s: ParseWay of %d bytes of %d = %+v, want an error", tt.name, n, len(raw), got)
			}
		}
	}
}

// A way never takes more than its bound, whatever is in it.
func TestWayIsBounded(t *testing.T) {
	t.Parallel()
	for size := range 120 {
		w := &Trace{Affinity: strings.Repeat("a", size), Session: strings.Repeat("s", size), RequestID: strings.Repeat("r", size), Reason: strings.Repeat("w", 2*size)}
		for range 40 {
			w.Tried(Attempt{Model: strings.Repeat("m", size), Provider: strings.Repeat("p", size), Upstream: strings.Repeat("u", size), Outcome: "unreachable", Key: strings.Repeat("k", size), Start: time.Hour, End: 9 * time.Hour})
		}
		w.Tried(Attempt{Outcome: Answered, Key: "last"})
		raw := AppendTrace(nil, w)
		got, err := ParseTrace(raw)
		if err != nil || len(raw) > MaxTrace {
			t.Fatalf("with names of %d bytes: %d bytes, %v, want at most %d", size, len(raw), err, MaxTrace)
		}
		if n := len(got.Attempts); n+got.Left != 41 || got.Attempts[n-1].Outcome != Answered {
			t.Errorf("with names of %d bytes: %d attempts and %d left out, the last one %q; want 41 in all, the last one %q", size, n, got.Left, got.Attempts[n-1].Outcome, Answered)
		} else if got.Attempts[n-1].Key != "last" || size > 0 && got.Attempts[0].Key == "" {
			t.Errorf("with names of %d bytes: the keys are %q to %q, want that of each attempt", size, got.Attempts[0].Key, got.Attempts[n-1].Key)
		}
	}
}

// Records of the version before, which had no way, are read as they were; and the version before reads ours, because
// the way is behind all that it knows.
func TestRecordsWithoutWay(t *testing.T) {
	t.Parallel()
	cost := price.Nano(7000)
	s := Settlement{
		ID: "1", At: time.UnixMilli(1_700_000_000_000).UTC(), AccountID: "acct_1", KeyID: "key_1", Plan: "basic", ModelAsked: "a", ModelUsed: "b", Provider: "p", Tier: "free",
		Cost: &cost, MCPCalls: 2, MCPFailed: 1, Status: 200, End: EndComplete, Latency: time.Second, FirstToken: time.Millisecond,
	}
	before := appendRecord(nil, &s)
	got, err := parseRecord(before, nil)
	if err != nil || !cmp.Equal(got, s) {
		t.Errorf("parseRecord of a record without a way = %v, -want +got\n%s", err, cmp.Diff(s, got))
	}
	s.Trace = &Trace{Address: "192.0.2.1", Attempts: []Attempt{{Model: "b", Provider: "p", Upstream: "b", Outcome: Answered}}}
	with := appendRecord(nil, &s)
	got, err = parseRecord(with, texts{})
	if err != nil || !cmp.Equal(got, s) {
		t.Errorf("parseRecord of a record with a way = %v, -want +got\n%s", err, cmp.Diff(s, got))
	}
	// The door is behind the way, with or without one. Records without a door are as long as before.
	for _, requestTrace := range []*Trace{nil, s.Trace} {
		s.Trace, s.Door = requestTrace, ""
		bare := appendRecord(nil, &s)
		s.Door = DoorResponses
		raw := appendRecord(nil, &s)
		if got, err := parseRecord(raw, texts{}); err != nil || !cmp.Equal(got, s) {
			t.Errorf("parseRecord of a record with a door = %v, -want +got\n%s", err, cmp.Diff(s, got))
		}
		raw[1] &^= hasDoor
		if string(raw[:len(bare)]) != string(bare) {
			t.Error("the door changes what is before it in the record")
		}
		raw[1] |= hasDoor
		for n := len(bare); n < len(raw); n++ {
			if got, err := parseRecord(raw[:n], nil); err == nil {
				t.Errorf("parseRecord of %d bytes of %d = %+v, want an error", n, len(raw), got)
			}
		}
	}
	// So is who served: the version before finds all that it knows where it was.
	for _, door := range []string{"", DoorResponses} {
		s.Door = door
		bare := appendRecord(nil, &s)
		served := s
		served.Trace = &Trace{Address: s.Trace.Address, Affinity: "new", Attempts: []Attempt{{Model: "b", Provider: "p", Upstream: "b", Outcome: Answered, Key: "…9f3c"}}}
		raw := appendRecord(nil, &served)
		if got, err := parseRecord(raw, texts{}); err != nil || !cmp.Equal(got, served) {
			t.Errorf("parseRecord of a record that says who served = %v, -want +got\n%s", err, cmp.Diff(served, got))
		}
		raw[1] &^= hasTerms
		if string(raw[:len(bare)]) != string(bare) {
			t.Error("who served changes what is before it in the record")
		}
	}
	with[1] &^= hasTrace
	if string(with[:len(before)]) != string(before) {
		t.Error("the way changes what is before it in the record")
	}
}
