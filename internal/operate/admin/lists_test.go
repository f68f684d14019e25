package admin

import (
	"slices"
	"strconv"
	"testing"
)

func TestLists(t *testing.T) {
	t.Parallel()
	all := make([]int, 2500)
	for i := range all {
		all[i] = i
	}
	for _, tt := range []struct{ limit, first, pages int }{
		{0, 1000, 3}, {5000, 1000, 3}, {1000, 1000, 3}, {999, 999, 3}, {1, 1, 2500}, {-3, 1000, 3},
	} {
		var got []int
		c, pages := Cursor{Limit: tt.limit}, 0
		for {
			page := part(all, c, strconv.Itoa)
			if pages == 0 && len(page.Data) != tt.first {
				t.Errorf("the first page with the limit %d has %d entries, want %d", tt.limit, len(page.Data), tt.first)
			}
			got, pages = append(got, page.Data...), pages+1
			if c.After = page.Next; c.After == "" {
				break
			}
		}
		if !slices.Equal(got, all) || pages != tt.pages {
			t.Errorf("with the limit %d there are %d entries on %d pages, want %d on %d", tt.limit, len(got), pages, len(all), tt.pages)
		}
	}
	// A page that was read from a store and is full may have another one after it.
	l := listOf(all[:3], 3, func(n *int) string { return strconv.Itoa(*n) })
	if l.Next != "2" || len(l.Data) != 3 {
		t.Errorf("listOf = %+v, want a next page", l)
	}
	if l := listOf(all[:2], 3, func(n *int) string { return strconv.Itoa(*n) }); l.Next != "" {
		t.Errorf("listOf = %+v, want it to be the last page", l)
	}
	for after, want := range map[string]bool{"": true, "17": true, "0": false, "-1": false, "x": false} {
		if _, err := (Cursor{After: after}).number(); (err == nil) != want {
			t.Errorf("the cursor %q = %v, want it accepted: %t", after, err, want)
		}
	}
}
