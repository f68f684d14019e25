package inference

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/catalog"
)

// reserved is the budgets of a test: they have room for everything, and know what was reserved last.
type reserved struct{ need price.Nano }

func (r *reserved) Reserve(_ context.Context, _ *account.Account, _ []budget.Due, need price.Nano) (*budget.Hold, *budget.Obstacle, error) {
	r.need = need
	return &budget.Hold{}, nil, nil
}

func (r *reserved) ReservePlenty(*account.Account, []budget.Due, price.Nano) *budget.Hold { return nil }

// TestReservedWithoutACount: a prompt that nobody counts, because it is too long or its account has used up its ration, has only an
// estimate. What is reserved for it is enough all the same if the estimate is far too low.
func TestReservedWithoutACount(t *testing.T) {
	t.Parallel()
	// The sample looks at pieces of the prompt that are easy, and not at what is between them.
	const hard = "鬱龘爨籲"
	dense := func(bytes int) string {
		text := []byte(strings.Repeat(hard, bytes/len(hard)))
		gap := len(text) / samplePieces
		for at := gap / 2; at < len(text); at += gap {
			from := max(0, at-sampleBytes) / 3 * 3
			copy(text[from:], strings.Repeat("   ", min(2*sampleBytes, len(text)-from)/3))
		}
		return string(text)
	}
	const dollar = price.Rate(1_000_000_000) // a million tokens
	a := &account.Account{ID: "acc", Budgets: []account.Budget{{ID: "bud_1", Amount: 1, Window: account.Total, Hard: true, Scope: account.BudgetScope{Account: true}}}}
	start := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		name   string
		bytes  int
		embeds bool
		used   int // of the ration
	}{
		{"counted", 200_000, false, 0},
		{"the ration is used up", 200_000, false, mostCounted},
		{"too long to be counted", maxCounted + 100_000, false, 0},
		{"embeddings", 20_000, true, 0},
		{"embeddings, and the ration is used up", 20_000, true, mostCounted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := dense(tt.bytes)
			m := &catalog.Model{ID: "m", Provider: "p", Price: price.Flat(dollar, dollar), ContextLength: 10_000_000, MaxOutput: 1, Embeds: tt.embeds}
			books := &reserved{}
			l := &Line{budgets: books, counting: counting{patience: ample}}
			l.counts.take(a.ID, tt.used, mostCounted, start)
			call := &Call{ID: "id", Start: start, Caller: auth.Caller{Account: a}}
			if tt.embeds {
				text = strings.Repeat(hard, tt.bytes/len(hard))
				call.Inputs = &embeddings.Request{Model: "m", Inputs: []embeddings.Input{{Text: text}}}
			} else {
				call.Request = parse(t, `"`+text+`"`, "")
			}
			let := admitted{named: m}
			let.chosen.Model = m
			if err := l.afford(t.Context(), http.Header{}, &Models{}, call, l.task(call), &let); err != nil {
				t.Fatal(err)
			}
			if real := price.Nano(tokens.Count(text)) * 1000; books.need < real {
				t.Errorf("%d nano-dollars are reserved for a prompt that costs %d", books.need, real)
			}
		})
	}
}
