package usage

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/prefix"

	"github.com/google/go-cmp/cmp"
)

// Traces with and without a prefix, with and without who served, are read as they were written, and whole records as well. A version
// that does not know of prefixes finds all that it knows where it was.
func TestPrefixOfTrace(t *testing.T) {
	t.Parallel()
	print := &Prefix{Conversation: 1<<63 + 5, Print: bytes.Repeat([]byte{7}, prefix.Max)}
	for _, w := range []Trace{
		{}, {Session: "s"}, {Affinity: "kept"}, {Reason: strings.Repeat("w", 200), Attempts: []Attempt{{Model: "m", Outcome: Answered, Key: "9f3c"}}},
	} {
		bare := AppendTrace(nil, &w)
		w.Prefix = print
		raw := AppendTrace(nil, &w)
		if got, err := ParseTrace(raw); err != nil || !cmp.Equal(got, &w) || len(raw) > MaxTrace {
			t.Errorf("ParseTrace of %d bytes = %v, -want +got\n%s", len(raw), err, cmp.Diff(&w, got))
		}
		if !bytes.HasPrefix(raw, bare) {
			t.Error("the prefix changes what is before it in the trace")
		}
		if w.isServed() {
			for n := len(bare) + 1; n < len(raw); n++ {
				if got, err := ParseTrace(raw[:n]); err == nil {
					t.Fatalf("ParseTrace of %d bytes of %d = %+v, want an error", n, len(raw), got)
				}
			}
		}
		cost := price.Nano(7000)
		s := Settlement{
			ID: "1", At: time.UnixMilli(1_700_000_000_000).UTC(), AccountID: "a", ModelUsed: "m", Cost: &cost, Status: 200, End: EndComplete,
			Tokens: chat.Usage{Prompt: 9, Cached: 90}, Caching: Caching{Cacheable: 99, Saved: -5, SavedMargin: 7}, Trace: &w,
		}
		record := appendRecord(nil, &s)
		if got, err := parseRecord(record, texts{}); err != nil || !cmp.Equal(got, s) {
			t.Errorf("parseRecord = %v, -want +got\n%s", err, cmp.Diff(s, got))
		}
		without := s
		without.Trace, without.Caching = &Trace{Session: w.Session, Reason: w.Reason, Attempts: w.Attempts}, Caching{}
		if s.Trace.Affinity != "" {
			continue // it stands before them
		}
		before := appendRecord(nil, &without)
		if before[1]&hasTerms == 0 && !bytes.HasPrefix(record[2:], before[2:]) {
			t.Error("caches change what is before them in the record")
		}
	}
}

// FuzzTrace checks that whatever can be read is written again as it was.
func FuzzTrace(f *testing.F) {
	w := &Trace{Session: "s", Affinity: "moved (full)", Attempts: []Attempt{{Model: "m", Outcome: Answered, Key: "9f3c", Start: time.Millisecond}}, Prefix: &Prefix{Conversation: 3, Print: []byte{1, 2, 3}}}
	f.Add(AppendTrace(nil, w))
	w.Prefix, w.Session = nil, ""
	f.Add(AppendTrace(nil, w))
	f.Add(appendWay(nil, w))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := ParseTrace(raw)
		if err != nil || got == nil {
			return
		}
		again := AppendTrace(nil, got)
		if len(again) > MaxTrace {
			t.Fatalf("a trace of %d bytes becomes one of %d", len(raw), len(again))
		}
		back, err := ParseTrace(again)
		if err != nil || !bytes.Equal(AppendTrace(nil, back), again) {
			t.Errorf("ParseTrace of what AppendTrace has written = %+v, %v, want %+v", back, err, got)
		}
	})
}

// What caches saved is the difference to the same tokens as plain input, by the same prices, bands and factors.
func TestSaved(t *testing.T) {
	t.Parallel()
	rates := price.Of(3_000_000_000, 15_000_000_000)
	rates[price.CacheRead], rates[price.CacheWrite5m], rates[price.CacheWrite1h] = 300_000_000, 3_750_000_000, 6_000_000_000
	e, err := price.Sealed(price.Entry{Model: "m", Rates: rates, Tiers: map[string]price.Factor{"batch": 500_000}})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := price.Sealed(price.Entry{Model: "n", Rates: price.Of(3_000_000_000, 15_000_000_000)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		entry  *price.Entry
		tokens chat.Usage
		tier   string
		markup price.Factor
		want   Caching
	}{
		{"nothing of a cache", e, chat.Usage{Prompt: 1000, Completion: 10}, "", 0, Caching{Cacheable: 1000}},
		{"a read", e, chat.Usage{Prompt: 100, Cached: 1000}, "", 0, Caching{Cacheable: 1100, Saved: 2_700_000}},
		{"a read in a batch", e, chat.Usage{Prompt: 100, Cached: 1000}, "batch", 0, Caching{Cacheable: 1100, Saved: 1_350_000}},
		{"a write costs more", e, chat.Usage{Prompt: 1000, CacheWrite5m: 1000}, "", 0, Caching{Cacheable: 1000, Saved: -750_000}},
		{"both", e, chat.Usage{Prompt: 1000, CacheWrite1h: 1000, Cached: 2000}, "", 0, Caching{Cacheable: 3000, Saved: 2_400_000}},
		{"with a markup", e, chat.Usage{Prompt: 100, Cached: 1000}, "", 1_200_000, Caching{Cacheable: 1100, Saved: 2_700_000, SavedMargin: 540_000}},
		{"no price", nil, chat.Usage{Prompt: 100, Cached: 1000}, "", 0, Caching{Cacheable: 1100}},
		{"no cache", plain, chat.Usage{Prompt: 100}, "", 0, Caching{}},
		{"no price of its own, but a cache", plain, chat.Usage{Prompt: 100, Cached: 50}, "", 0, Caching{Cacheable: 150}},
	} {
		s := Settlement{Tokens: tt.tokens, End: EndComplete, Terms: Terms{Tier: tt.tier}}
		if s.Price(tt.entry, tt.markup); s.Caching != tt.want {
			t.Errorf("%s: caches gave %+v, want %+v", tt.name, s.Caching, tt.want)
		}
		turns := Settlement{End: EndComplete}
		turns.AddTurn(Turn{Tokens: tt.tokens, Tier: tt.tier})
		if turns.Price(tt.entry, tt.markup); turns.Caching != tt.want {
			t.Errorf("%s, in a turn: caches gave %+v, want %+v", tt.name, turns.Caching, tt.want)
		}
	}
}
