package usage

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestRecent(t *testing.T) {
	t.Parallel()
	r := NewRecent(3)
	for i := range 8 {
		kept, all := r.Settlements()
		var ids, want []string
		for _, s := range kept {
			ids = append(ids, s.ID)
		}
		for k := max(0, i-3); k < i; k++ {
			want = append(want, fmt.Sprint(k))
		}
		if got := strings.Join(ids, " "); got != strings.Join(want, " ") || all != int64(i) {
			t.Errorf("Settlements() behind %d = %s of %d, want %s", i, got, all, strings.Join(want, " "))
		}
		r.Record(Settlement{ID: fmt.Sprint(i)})
	}
}

func TestRecentInParallel(t *testing.T) {
	t.Parallel()
	r := NewRecent(10)
	var writing sync.WaitGroup
	for range 4 {
		writing.Go(func() {
			for range 100 {
				r.Record(Settlement{ID: "x"})
				if kept, all := r.Settlements(); len(kept) == 0 || len(kept) > 10 || all < int64(len(kept)) {
					t.Errorf("Settlements() = %d of %d", len(kept), all)
				}
			}
		})
	}
	writing.Wait()
	if _, all := r.Settlements(); all != 400 {
		t.Errorf("%d settlements in all, want 400", all)
	}
}
