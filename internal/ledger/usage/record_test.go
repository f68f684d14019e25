package usage

import (
	"encoding/json"
	"testing"
	"time"
)

// BenchmarkRecord tells what the journal's form costs, written and read, beside JSON.
func BenchmarkRecord(b *testing.B) {
	s := Settlement{
		ID: "0123456789abcdef0123456789abcdef", At: time.Now().UTC(), AccountID: "acct_phEJeUGGD3nWcSt2Em37", KeyID: "key_mxRqVGRIcMds5gRGGehc", Plan: "scale", Tier: "free",
		ModelAsked: "service/auto", ModelUsed: "lab/small", Provider: "lab", RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: EndComplete, Latency: time.Second,
		Trace: &Trace{Address: "203.0.113.7", Reason: "the best of 3 models for a question", Attempts: []Attempt{{Model: "lab/small", Provider: "lab", Upstream: "small-2026", Outcome: Answered, Start: time.Millisecond, End: 300 * time.Millisecond}}},
	}
	b.Run("ours", func(b *testing.B) {
		var raw []byte
		for b.Loop() {
			raw = appendRecord(raw[:0], &s)
			if _, err := parseRecord(raw, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(raw)), "bytes")
	})
	b.Run("JSON", func(b *testing.B) {
		for b.Loop() {
			raw, err := json.Marshal(&s)
			if err != nil {
				b.Fatal(err)
			}
			var back Settlement
			if err := json.Unmarshal(raw, &back); err != nil {
				b.Fatal(err)
			}
		}
	})
}
