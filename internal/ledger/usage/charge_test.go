package usage

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
)

// charged returns a settlement with budgets and tags.
func charged(charges []Charge, tags ...string) Settlement {
	cost := price.Nano(1_234_567)
	return Settlement{
		ID: "1", At: time.UnixMilli(1_770_000_000_123).UTC(), AccountID: "acct_1", End: EndComplete, Cost: &cost,
		Terms: Terms{Version: "v1", Tier: "priority", Budgets: charges, Tags: tags},
	}
}

// What a call takes from budgets is read as it was written, from a column and from the journal: a holder or a count that is another
// one would leave money reserved for ever.
func TestBudgetsAreKept(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Settlement{
		"one":     charged([]Charge{{Count: "bud_1", Period: 1_770_000_000_000, Holder: "node/a/1/1", Reserved: 5_000_000_000, Amount: 100_000_000_000, After: 1500 * time.Microsecond}}),
		"warns":   charged([]Charge{{Count: "bud_1"}}),
		"rolls":   charged([]Charge{{Count: "bud_1/session-1_a.b", Period: -300_000, Holder: "job/video_1", Reserved: 1, Amount: 1}}),
		"several": charged([]Charge{{Count: "bud_1", Period: 1}, {Count: "bud_2", Holder: "node/b/1/2", Reserved: 7}}, "team=search", "env=prod:1"),
		"names":   charged([]Charge{{Count: "bud_1/a:b=c:d", Holder: "node/host:8080=x%20y/l/1", Reserved: 1}, {Count: "bud_2", Holder: "node/" + strings.Repeat("n", 300) + "/l/1"}}),
		"shared":  charged([]Charge{{Count: "bud_1", Holder: "node/a%2/l/1"}, {Count: "bud_2", Holder: "node/a%3/l/2"}, {Count: "bud_3"}, {Count: "bud_4", Holder: "node/a:/l/2"}, {Count: "bud_5", Holder: "node/a b/l/22"}}),
		"spaces":  charged([]Charge{{Count: "bud_1/a\u00a0b\u2003c"}}, "a\u00a0budget=0:0:0:0::bud_2", "b\u0085tier=batch"),
		"tags":    charged(nil, "a=b"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var column Settlement
			column.SetDetails(s.Details())
			want := s.Terms
			want.Version = "" // it has a column of its own
			if !reflect.DeepEqual(column.Terms, want) {
				t.Errorf("SetDetails(%q) = %+v, want %+v", s.Details(), column.Terms, want)
			}
			got, err := parseRecord(appendRecord(nil, &s), nil)
			if err != nil || !reflect.DeepEqual(got, s) {
				t.Errorf("parseRecord = %+v, %v, want %+v", got, err, s)
			}
		})
	}
}

// A damaged text or record is no reason to fail.
func TestDamagedCharges(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"budget=", "budget=1:2", "budget=1:2:3:4:zzz:n:bud_1", "budget=x:x:x:x:-9:n:bud_1", "budget=0:0:0:0:0:%zz:bud_1 budget=0:0:0:0:2:y:bud_2"} {
		var s Settlement
		if s.SetDetails(text); len(s.Terms.Budgets) == 0 {
			t.Errorf("SetDetails(%q) has no budgets, want one for each word", text)
		}
	}
	record := appendCharges(nil, []Charge{{Holder: "node/a", Count: "bud_1"}})
	record[5] = 2 << 1 // it shares two bytes of a holder before it, and there is none
	r := &reader{raw: record}
	if got := readCharges(r, nil); !r.bad || got != nil {
		t.Errorf("readCharges = %v, damaged: %t; want it to be damaged", got, r.bad)
	}
}

// However many turns and budgets a call has, all of its charges fit a record of the journal.
func TestBudgetsFit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	s := charged(nil)
	for range maxTurns {
		s.AddTurn(Turn{
			Tokens: chat.Usage{Prompt: 1 << 30, Cached: 1 << 30, Completion: 1 << 30, Reasoning: 1 << 30, ImageOut: 1 << 29},
			Tier:   long, Region: long, Model: long, Uses: []price.Use{{Name: "code_execution", Milli: 1 << 40}, {Name: "web_fetch", Milli: 1 << 40}, {Name: "web_search", Milli: 1 << 40}},
		})
	}
	for i := range account.MaxBudgets {
		s.Terms.Budgets = append(s.Terms.Budgets, Charge{
			Count: fmt.Sprintf("bud_%020d/%s", i, long[:MaxSession]), Period: 1_770_000_000_000, Holder: "node/" + long[:120] + "/" + long[:26] + "/zzzzz",
			Reserved: account.MaxBudget, Amount: account.MaxBudget, After: time.Hour,
		})
	}
	for i := range 16 {
		s.Terms.Tags = append(s.Terms.Tags, fmt.Sprintf("%02d%s=%s", i, long[:account.MaxTag-2], long[:account.MaxTag]))
	}
	got, err := parseRecord(appendRecord(nil, &s), nil)
	if err != nil || !reflect.DeepEqual(got.Terms.Budgets, s.Terms.Budgets) || !reflect.DeepEqual(got.Terms.Tags, s.Terms.Tags) {
		t.Errorf("%d budgets and %d tags are read from details of %d bytes, %v, want %d and %d", len(got.Terms.Budgets), len(got.Terms.Tags), len(s.Details()), err, len(s.Terms.Budgets), len(s.Terms.Tags))
	}
}

// A call takes from a budget what its customer pays, and no more than it had reserved if its vendor charges more; computing its cost
// anew does not change that.
func TestBound(t *testing.T) {
	t.Parallel()
	c := Charge{Count: "bud_1", Holder: "node/a/1/1", Reserved: 500_000}
	s := charged([]Charge{c, {Count: "bud_2"}})
	s.Margin = 100
	if s.Bound(2_000_000); s.Spent(&c) != 1_234_667 || s.Margin != 100 {
		t.Errorf("a call within its bound takes %s with a margin of %s", s.Spent(&c), s.Margin)
	}
	if s.Bound(c.Reserved); s.Spent(&c) != c.Reserved || *s.Cost != 1_234_567 {
		t.Errorf("a call that costs too much takes %s and costs %s, want %s and as much as before", s.Spent(&c), *s.Cost, c.Reserved)
	}
	s.Tokens = chat.Usage{Prompt: 1_000_000}
	book := price.Flat(2_000_000_000, 0)
	s.Terms.Tier = ""
	if r := s.Reprice(func(int) *price.Entry { return book.At(0) }); r == nil || *s.Cost+s.Margin+r.Cost+r.Margin != c.Reserved {
		t.Errorf("Reprice = %+v, want a charge of %s", r, c.Reserved)
	}
	for _, tt := range []struct {
		end  End
		want price.Nano
	}{{EndComplete, c.Reserved}, {EndCut, c.Reserved}, {EndHangUp, c.Reserved}, {EndFailed, 0}} {
		s := Settlement{End: tt.end, Tokens: chat.Usage{Prompt: 10}}
		if got := s.Spent(&c); got != tt.want {
			t.Errorf("a call without a price that ended as %s takes %s, want %s", tt.end, got, tt.want)
		}
		if s.Bound(1); s.Cost != nil || s.Margin != 0 {
			t.Errorf("a call without a price costs %v and %s", s.Cost, s.Margin)
		}
	}
}
