package calls_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/ledger/whatif"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
)

// replayed is how many calls BenchmarkWhatIf replays: a million, as docs/teams/whatif.md says.
const replayed = 1_000_000

// BenchmarkWhatIf replays a million calls of 20 accounts at another model, with another time in the cache and a share of
// batches: from SQLite, and from memory, which is what the replay itself costs.
func BenchmarkWhatIf(b *testing.B) {
	list := make([]usage.Settlement, 0, replayed)
	from := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	entries, err := price.Read(strings.NewReader(`{"prices":[
		{"model":"deep","input":4,"cache_read":0.4,"cache_write_5m":5,"cache_write_1h":8,"output":20,"tiers":{"batch":0.5}},
		{"model":"plain","input":1,"output":3}]}`))
	if err != nil {
		b.Fatal(err)
	}
	book := price.NewBook(entries)
	for i := range replayed {
		s := usage.Settlement{
			ID: fmt.Sprintf("%032x", i), At: from.Add(time.Duration(i) * 2 * time.Second), AccountID: fmt.Sprintf("acct_%020d", i%20), KeyID: fmt.Sprintf("key_%020d", i%60),
			Plan: "scale", Tier: "free", ModelAsked: "deep", ModelUsed: []string{"deep", "deep", "plain"}[i%3], Provider: "lab",
			Tokens: chat.Usage{Prompt: 900 + i%100, Cached: 4000, CacheWrite5m: 300, Completion: 143}, RequestMilli: 1000, UnitMilli: 1000, Status: 200, End: usage.EndComplete,
			Trace: &usage.Trace{Address: "192.0.2.1", Session: fmt.Sprint("session-", i/1000), Attempts: []usage.Attempt{{Model: "deep", Provider: "lab", Upstream: "deep-1", Outcome: usage.Answered}}},
		}
		if s.ModelUsed == "plain" {
			s.Tokens = chat.Usage{Prompt: 900, Completion: 143}
		}
		s.Price(book.Find(s.ModelUsed, "", "").At(s.At.Unix()), 0)
		list = append(list, s)
	}
	b.Run("memory", func(b *testing.B) { replay(b, inMemory(list), book) })
	b.Run("sqlite", func(b *testing.B) {
		s := alltest.In(b, "sqlite", b.TempDir())
		for at := 0; at < len(list); at += 2000 {
			if err := s.RecordSettlements(b.Context(), list[at:at+2000]); err != nil {
				b.Fatal(err)
			}
		}
		replay(b, s, book)
	})
}

// replay measures the replay of all calls.
func replay(b *testing.B, from whatif.Calls, book *price.Book) {
	own := func(p whatif.Place) *price.Series { return book.Find(p.Model, "", "") }
	c := &whatif.Calculator{Calls: from, Prices: func() whatif.Prices {
		return whatif.Prices{
			Book: book, Own: own, Vendor: func(whatif.Place) (string, string) { return "", "" },
			Model: func(id string) (*price.Series, bool) { return book.Find(id, "", ""), true },
		}
	}}
	q := whatif.Question{Models: []string{"plain=deep"}, TTL: "1h", Batched: "0.3"}
	q.To = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	b.ReportAllocs()
	b.ResetTimer()
	began := usedCPU()
	for b.Loop() {
		r, err := c.Run(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		if r.Total.Calls != replayed {
			b.Fatalf("%d calls, want %d", r.Total.Calls, replayed)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/million")
	b.ReportMetric((usedCPU()-began).Seconds()/float64(b.N), "cpu-s/million")
}

// inMemory is a list of calls as a store.
type inMemory []usage.Settlement

func (l inMemory) EachCall(_ context.Context, _ usage.Span, each func(*usage.Settlement) error) error {
	for i := range l {
		if err := each(&l[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l inMemory) SettlementsDropped(context.Context) (time.Time, error) { return time.Time{}, nil }
