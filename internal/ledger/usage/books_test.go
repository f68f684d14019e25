package usage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
)

// archive is a database in memory that may be away, and may lose settlements.
type archive struct {
	usage.Archive // what the test does not call
	stored        []usage.Settlement
	lost          string // the id of one that it pretends not to have
	away          error
}

func (a *archive) RecordSettlements(_ context.Context, batch []usage.Settlement) error {
	if a.away == nil {
		a.stored = append(a.stored, batch...)
	}
	return a.away
}

func (a *archive) RecentSettlements(context.Context, string, usage.Point, int) ([]usage.Settlement, error) {
	return a.stored, nil
}

func (a *archive) UsageByDay(context.Context, string, time.Time) ([]usage.Row, error) {
	return make([]usage.Row, len(a.stored)), nil
}

func (a *archive) RoutedCalls(context.Context, string, string, time.Time) ([]usage.Routed, error) {
	return nil, nil
}

func (a *archive) SettlementsDropped(context.Context) (time.Time, error) { return time.Time{}, nil }

func (a *archive) HasSettlements(_ context.Context, list []usage.Settlement) (map[string]bool, error) {
	has := map[string]bool{}
	for _, s := range list {
		has[s.ID] = s.ID != a.lost
	}
	return has, nil
}

func (a *archive) AuditUsage(context.Context) ([]usage.Difference, int, error) { return nil, 1, nil }

func begun(id string) usage.Settlement {
	return usage.Settlement{ID: id, At: time.Now(), AccountID: "a", Tokens: chat.Usage{Prompt: 1}, RequestMilli: 1000}
}

func TestBooks(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journal")
	store := &archive{lost: "two"}
	var recorded []string
	b := usage.NewBooks(dir, store, &usage.BooksOptions{Recorded: func(s *usage.Settlement) { recorded = append(recorded, s.ID) }})
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("NewBooks made the journal: %v, want it only when somebody needs it", err)
	}
	if err := errors.Join(b.Open(), b.Open(), b.Ready()); err != nil {
		t.Fatal(err)
	}
	b.Record(begun("one"))
	b.Record(begun("two"))
	if !slices.Equal(recorded, []string{"one", "two"}) || len(store.stored) != 0 || b.Backlog().Records != 2 || b.BacklogNote() != "" {
		t.Errorf("recorded %v, %d stored, backlog %+v, note %q; want two that wait", recorded, len(store.stored), b.Backlog(), b.BacklogNote())
	}
	if rows, err := b.View().UsageByDay(t.Context(), "a", time.Time{}); err != nil || len(rows) != 0 {
		t.Errorf("View.UsageByDay = %v, %v, want nothing of the journal", rows, err)
	}

	store.away = errors.New("away")
	if _, err := b.UsageByDay(t.Context(), "a", time.Time{}); !errors.Is(err, store.away) {
		t.Errorf("UsageByDay without a database = %v, want its error", err)
	}
	if list, err := b.View().RecentSettlements(t.Context(), "a", usage.Point{}, 10); err != nil || len(list) != 0 {
		t.Errorf("View.RecentSettlements without a database = %v, %v, want what there is", list, err)
	}
	store.away = nil
	if rows, err := b.UsageByDay(t.Context(), "a", time.Time{}); err != nil || len(rows) != 2 {
		t.Errorf("UsageByDay = %v, %v, want the journal's two", rows, err)
	}

	differences, compared, err := b.Audit(t.Context())
	if err != nil || compared != 1 || len(differences) != 1 || differences[0].What != "journal: two is not in the database" || differences[0].Rows.Requests != 1 {
		t.Errorf("Audit = %+v, %d, %v, want the lost one", differences, compared, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	offline := usage.NewBooks(dir, store, nil) // nobody calls Open
	video := begun("video")
	if list, err := offline.LastMinute(time.Now(), video); err != nil || fmt.Sprint(ids(list)) != "[one two video]" {
		t.Errorf("LastMinute = %v, %v, want the journal's and the video", ids(list), err)
	}
	if err := offline.Close(); err != nil {
		t.Fatal(err)
	}
	if err := usage.NewBooks(dir, store, nil).Close(); err != nil {
		t.Errorf("Close of books that were never opened = %v", err)
	}
}

func ids(list []usage.Settlement) (ids []string) {
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

// Every call is recorded: that must cost no more than the journal itself.
func BenchmarkBooksRecord(b *testing.B) {
	var units int64
	books := usage.NewBooks(b.TempDir(), &archive{}, &usage.BooksOptions{Recorded: func(s *usage.Settlement) { units += s.RequestMilli }})
	if err := books.Open(); err != nil {
		b.Fatal(err)
	}
	defer books.Close()
	s := begun("one")
	b.ReportAllocs()
	for b.Loop() {
		books.Record(s)
	}
}
